"""Kernels of reductions with the pointwise operations before and after them: see :mod:`.reduction_chains`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import layouts as strides_of
from nvrtc_kernels.lookups import bounds_of
from nvrtc_kernels.reduction_groups import Task
from tensor.core.base import maker
from tensor.operations.scratch import launch_reduction

from .elements import (
    COMPUTE,
    LETTERS,
    Fused,
    Text,
    includes_of,
    inputs_of,
    lookups_of,
    name_of,
    originals_of,
    recorded,
)
from .reduction_parts import is_read_elsewhere, operands_of, written_of
from .tape import Launch, Ref, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from nvrtc_kernels.layouts import Ints
    from nvrtc_kernels.lookups import Lookup

    from .elements import Element
    from .reduction_parts import Reduced
    from .uses import Uses

_HALF = ("Half", "BFloat16")


class _Kernel:
    """The kernel of a reduction with what is before and after it, as it is put together."""

    def __init__(
        self, reduced: Reduced, elements: dict[int, Element], members: Collection[int], uses: Uses
    ) -> None:
        self.before = [elements[each] for each in reduced.before]
        self.chains = [[elements[each] for each in members] for members in reduced.after]
        self._reduced, self._members, self._uses = reduced, members, uses
        self.inputs = operands_of(reduced, self.before)
        self.text = Text()
        #: Operands that go along rows: what they are, strides, expressions, and whether the kernel makes them.
        self.produced: list[tuple[Ref, Ints, str]] = []
        self.written: list[tuple[Ref, Ints, str]] = []
        self.read: list[tuple[Ref, Ints, str]] = []
        #: Which of what is read is read by indices, and what says that these are wrong.
        self._tables: list[int] = []
        self.declarations: list[str] = []

    def elements(self) -> list[Element]:
        """All elements, in order."""
        return [*self.before, *(each for chain in self.chains for each in chain)]

    def value(self) -> tuple[list[str], str]:
        """Lines of the values before the reduction, and its own expression of the inputs ``a``, ``b``, ..."""
        reduced, text = self._reduced, self.text
        text.names = {ref: f"input{number}" for number, ref in enumerate(self.inputs)}
        for position, element in enumerate(self.before):
            text.add(element, f"value{position}")
            text.names[element.out] = f"value{position}"
        lines, text.lines = text.lines, []
        values = [f"to_compute({text.names[ref]})" for ref in reduced.operands]
        if reduced.reducer.compute is not None:
            compute = COMPUTE.get(reduced.reducer.compute.cuda, reduced.reducer.compute.cuda)
            values = [f"to_element<{compute}>({value})" for value in values]
        if not self.before:
            return [], reduced.reducer.code
        names = ", ".join(f"const auto {letter}" for letter in LETTERS[: len(values)])
        loads = [f"const auto input{number} = {LETTERS[number]};" for number in range(len(self.inputs))]
        result = f"return [&]({names}) {{ return {reduced.reducer.code}; }}({', '.join(values)});"
        code = "".join(f"            {line}\n" for line in (*loads, *lines, result))
        return lines, f"[&] {{\n{code}        }}()"

    def after(self) -> list[str]:
        """Lines of the values after the reduction; what goes along its rows is noted."""
        reduced, text = self._reduced, self.text
        results = {ref.buffer: ref for ref in reduced.results}
        lines = []
        text.names = {}
        for number, (ref, code) in enumerate(zip(reduced.results, reduced.reducer.results, strict=True)):
            name, ctype = f"reduced{number}", ref.layout.dtype.cuda
            own = tuple(1 if axis in reduced.axes else size for axis, size in enumerate(reduced.shape))
            if self.chains:
                lines.append(f"const auto {name} = separate(to_element<{ctype}>({code}));")
                code = f"to_compute({name})"
            if not self.chains or is_read_elsewhere(ref, self._members, self._uses):
                self.produced.append((ref, strides_of.contiguous_strides(own), code))
        if not self.chains:
            return []
        count = 0
        for chain in self.chains:
            shape = chain[-1].out.layout.shape
            for gather in (gather for element in chain for gather in element.gathers):
                # Another chain may read the same table by other indices.
                text.names.pop(gather.table, None)
            inputs = inputs_of(chain)
            for ref in inputs:
                whole = results.get(ref.buffer)
                if whole is not None:
                    text.names[ref] = f"reduced{reduced.results.index(whole)}"
                elif ref not in text.names:
                    strides = reduced.strides(ref, shape)
                    assert strides is not None
                    text.names[ref] = f"beside{len(self.read)}"
                    self.read.append((ref, strides, ""))
            self._look_up(inputs, lookups_of(chain, inputs))
            written = written_of(chain, self._members, self._uses)
            for element in chain:
                name, count = f"after{count}", count + 1
                text.add(element, name)
                if not element.writes:
                    text.names[element.out] = name
                if element.out in written:
                    strides = reduced.strides(element.out, shape)
                    assert strides is not None
                    target = self.written if element.writes else self.produced
                    target.append((element.out, strides, f"to_compute({name})"))
        lines, text.lines = [*lines, *text.lines], []
        first = len(self.produced) + len(self.written)
        loads = [
            f"const auto beside{number} = out{first + number}[at[{first + number}]];"
            for number in range(len(self.read))
            if number not in self._tables
        ]
        loads += [
            f"const auto* table{number} = out{first + number} + at[{first + number}];"
            for number in self._tables
        ]
        return [*loads, *lines]

    def _look_up(self, inputs: Sequence[Ref], lookups: Sequence[Lookup]) -> None:
        """Lines that read tables among ``inputs``, of the values of indices, of which some may be results of the reduction."""
        prefix = f"After{len(self.declarations)}"
        self.declarations += bounds_of(lookups, prefix)
        terms: dict[int, list[str]] = {}
        for number, each in enumerate(lookups):
            position = each.checked(
                self.text.names[inputs[each.index]], f"{prefix}Bounds{number}", "long long"
            )
            terms.setdefault(each.table, []).append(f"{position} * {each.step}")
        for table, added in terms.items():
            name = self.text.names[inputs[table]]
            number = int(name.removeprefix("beside"))
            self._tables.append(number)
            self.text.lines.append(f"const auto {name} = table{number}[{' + '.join(added)}];")


def fused_reduction(
    reduced: Reduced, elements: dict[int, Element], members: Sequence[int], uses: Uses
) -> Step:
    """One step for a reduction and the elements before and after it, which are ``members`` with it."""
    kernel = _Kernel(reduced, elements, members, uses)
    everything, step = kernel.elements(), reduced.step
    before, code = kernel.value()
    after = kernel.after()
    text, reducer = kernel.text, reduced.reducer
    name = name_of(
        [
            *(element.step.name for element in kernel.before),
            step.name,
            *(element.step.name for chain in kernel.chains for element in chain),
        ]
    )
    text.lines = [*before, *after]
    headers = [*includes_of(everything), *reducer.include.split(), "separate_values.cuh"]
    headers += ["checked_index.cuh"] if kernel.declarations else []
    halves = all(ref.layout.dtype.cuda in _HALF for ref in reduced.results)
    along = [*kernel.produced, *kernel.written, *kernel.read]
    combined = reducer._replace(
        name=name,
        state=reducer.state_of_half if halves and reducer.state_of_half else reducer.state,
        state_of_half="",
        code=code,
        results=tuple(expression for _, _, expression in along),
        scalars=(*reducer.scalars, *text.scalars),
        compute=None if kernel.before else reducer.compute,
        epilogue=tuple(after),
        include=" ".join(dict.fromkeys(headers)),
        lookups=lookups_of(kernel.before, kernel.inputs),
        declarations=tuple(kernel.declarations),
    )
    task = Task(
        combined,
        reduced.shape,
        reduced.axes,
        tuple((strides, ref.layout.dtype) for ref, strides, _ in along),
        tuple(
            (
                strides_of.broadcast_strides(ref.layout.shape, ref.layout.strides, reduced.shape),
                ref.layout.dtype,
            )
            for ref in kernel.inputs
        ),
    )
    written, read = [[ref for ref, _, _ in part] for part in (kernel.written, kernel.read)]
    arguments = recorded((*written, *read, *kernel.inputs), everything, *reduced.shown)
    produced = [ref for ref, _, _ in kernel.produced]
    result: Any = produced or None
    source = "\n".join(
        line
        for title, lines in (("before the reduction", before), ("after it", after))
        for line in ((f"// {title}", *lines) if lines else ())
    )
    own = [elements[each] for each in reduced.before if each not in reduced.copied]
    return Step(
        (Fused(name, source), None, *(ref.layout for ref in arguments)),
        Launch(
            _launch(task, reduced.operands[0].layout.device_state),
            [maker(ref.layout) for ref in produced],
            (*reduced.numbers, *text.numbers),
            draws=False,
            writes=False,
        ),
        arguments,
        result,
        (kernel.chains[-1][-1].step if kernel.chains else step).line,
        writes={ref.buffer for ref in written},
        originals=(
            *originals_of(own),
            *(step.originals or (step,)),
            *(element.step for chain in kernel.chains for element in chain),
        ),
    )


def _launch(task: Task, device_state: Any) -> Callable[..., None]:
    """What launches a reduction, given the stream, addresses and numbers."""
    plan = task.alone(device_state.native)
    if not plan.scratch_bytes:
        return plan.run

    def launch(_: Any, *arguments: Any) -> None:
        launch_reduction(device_state, plan, *arguments)

    return launch

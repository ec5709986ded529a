"""Chains of pointwise operations become one kernel, which is written from the expressions of their rows.

A result that only operations of its kernel read, element by element, is not written to memory: it is a value of the kernel.
One that is read elsewhere too is written out by the same kernel. Each value is rounded to its own dtype on the way and takes
part in no contraction with another operation's, so that what is computed is what the operations compute one by one, bit for
bit. Dropout draws the words that it would draw by itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import fused_pointwise
from nvrtc_kernels import layouts as strides_of
from nvrtc_kernels import pointwise as kernels
from nvrtc_kernels.reduction_source import CTYPES, MOST_INPUTS
from tensor.core.base import maker
from tensor.core.dtypes import promotion as rules
from tensor.core.dtypes.scalars import packed_number
from tensor.core.plans.copies import COPIED, COPY
from tensor.operations.pointwise_operation import Pointwise
from tensor.operations.random.dropout import DROPOUT
from tensor.operations.reduction import Reduction

from .tape import Launch, Ref, Step
from .uses import Uses

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nvrtc_kernels.dtypes import dtype

#: Tensors that a kernel reads and writes at most.
MAX_INPUTS, MAX_OUTPUTS = 8, 4
#: Operations in a kernel at most.
MAX_OPERATIONS = 48
_LETTERS = "abcdefgh"
#: What no name in CUDA C++ has.
_NO_LETTERS = re.compile(r"\W+")
#: Types of the values that are computed in, as kernels name them.
_COMPUTE = {"__half": "float", "__nv_bfloat16": "float", "Float8E4M3": "float", "Float8E5M2": "float"}
#: Types whose products the compiler would contract with sums.
_CONTRACTED = ("float", "double")


@dataclass(frozen=True, eq=False)
class Fused:
    """Operations that one kernel computes; it stands where their last step stood.

    Attributes
    ----------
    name : str
        The kernel's.
    code : str
        Its code for an element.
    """

    name: str
    code: str


@dataclass(slots=True)
class _Element:
    """A pointwise step by its parts.

    Attributes
    ----------
    compute, result : dtype
        What it computes in, and what its result is rounded to.
    code : str
        Of the operands ``a``, ``b``, ..., and of ``numbers`` by their names.
    operands : tuple
        What these are: a :class:`Ref`, or a number.
    out : Ref
        Where the result lies.
    writes : bool
        Whether that is memory from elsewhere, or a part of some, and no new tensor.
    drop : object
        What its random words are drawn by, if it draws.
    numbers : tuple of (name, code, value)
        Further numbers that its code has.
    """

    step: Step
    compute: dtype
    result: dtype
    code: str
    operands: tuple[Any, ...]
    out: Ref
    writes: bool = False
    include: str = ""
    options: tuple[str, ...] = ()
    drop: Any = None
    numbers: tuple[tuple[str, str, Any], ...] = ()

    def inputs(self) -> list[Ref]:
        """Operands in memory."""
        return [each for each in self.operands if type(each) is Ref]


def fuse(steps: Sequence[Step], needed: Iterable[int]) -> list[Step]:
    """``steps`` with chains of pointwise operations as one step each.

    Why two of them that follow from one another stay apart is among the ``notes`` of the second.

    Parameters
    ----------
    steps : sequence of Step
        In order.
    needed : iterable of int
        Buffers that are read after the steps.
    """
    elements = {position: element for position, step in enumerate(steps) if (element := _element(step))}
    producer = {element.out.buffer: position for position, element in elements.items() if not element.writes}
    uses = Uses.of(steps, needed)
    groups: dict[int, list[int]] = {position: [position] for position in elements}
    notes: dict[int, dict[str, None]] = {}
    for position, element in elements.items():
        sources = {producer[ref.buffer] for ref in element.inputs() if ref.buffer in producer}
        for source in sorted(sources, reverse=True):
            if source >= position or groups[source] is groups[position]:
                continue
            joined = sorted(groups[source] + groups[position])
            reason = _obstacle(joined, elements, uses)
            if reason is None:
                for each in joined:
                    groups[each] = joined
            else:
                origin = steps[source]
                note = f"not with {origin.name} ({origin.line.rpartition('/')[2]}): {reason}"
                notes.setdefault(position, {})[note] = None
    for position, step in enumerate(steps):
        if isinstance(step.key[0], Reduction) and step.arguments[0].buffer in producer:
            source = producer[step.arguments[0].buffer]
            _join_reduction(position, source, steps, groups, elements, uses, notes)
    result = []
    for position, step in enumerate(steps):
        members = groups.get(position, [position])
        if position != members[-1]:
            continue
        if isinstance(step.key[0], Reduction) and len(members) > 1:
            step = _reduced([elements[each] for each in members[:-1]], step)
        elif len(members) > 1:
            step = _fused([elements[each] for each in members], _results(members, elements, uses))
        step.notes = list(dict.fromkeys(note for each in members for note in notes.get(each, ())))
        result.append(step)
    return result


def _obstacle(members: Sequence[int], elements: dict[int, _Element], uses: Uses) -> str | None:
    """Why the elements at these positions, in order, cannot be one kernel at the last one's place."""
    parts = [elements[each] for each in members]
    last, end, there = parts[-1], members[-1], set(members)
    if len(members) > MAX_OPERATIONS or len(_inputs(parts)) > MAX_INPUTS:
        return "one kernel would read too much"
    if any(each.writes for each in parts[:-1]):
        return "what is written in place ends a kernel"
    draws = [each for each in parts if each.drop is not None]
    if len(draws) > 1:
        return "a kernel draws random numbers once"
    layout = last.out.layout
    if draws and not (layout.contiguous and layout.shape == draws[0].out.layout.shape):
        return "random numbers are drawn in row-major order"
    new = {part.out.buffer: part.out for part in parts if not part.writes}
    results = _results(members, elements, uses)
    if len(results) > MAX_OUTPUTS:
        return "one kernel would write too much"
    for member, part in zip(members, parts, strict=True):
        for ref in part.inputs():
            if ref.buffer in new and new[ref.buffer] != ref:
                return "it is read as another shape or another part"
            if last.writes and ref.buffer == last.out.buffer and ref != last.out:
                return "it reads other elements of what is written in place"
            if ref.buffer not in new and any(
                member < writer < end for writer in uses.writers.get(ref.buffer, ())
            ):
                return "what it reads is written in between"
        if part in results and part is not last:
            place = part.out.layout
            if place.shape != layout.shape or place.strides != layout.strides:
                return "its result is needed, and has another layout"
            if any(reader < end and reader not in there for reader in uses.readers.get(part.out.buffer, ())):
                return "its result is needed in between"
    return None


def _join_reduction(
    position: int,
    source: int,
    steps: Sequence[Step],
    groups: dict[int, list[int]],
    elements: dict[int, _Element],
    uses: Uses,
    notes: dict[int, dict[str, None]],
) -> None:
    """Have a reduction compute what it reads, if it alone does."""
    reduction = steps[position]
    (ref,) = reduction.reads()
    members = groups[source]
    parts = [elements[each] for each in members]
    buffer = ref.buffer
    reason = None
    if members[-1] != source or buffer in uses.needed or uses.readers[buffer] != [position]:
        reason = "its result is needed elsewhere"
    elif len(_results(members, elements, uses)) > 1 or any(each.writes for each in parts):
        reason = "its kernel has other results"
    elif any(each.drop is not None for each in parts):
        reason = "it draws random numbers"
    elif len(_inputs(parts)) > MOST_INPUTS or not _inputs(parts):
        reason = f"a reduction reads 1 to {MOST_INPUTS} tensors"
    elif elements[source].out != ref:
        reason = "it is read as another shape or another part"
    elif any(each.options for each in parts) or reduction.key[0].reducer is None:
        reason = "the reduction's kernel is chosen by numbers"
    elif any(
        member < writer < position
        for member, part in zip(members, parts, strict=True)
        for each in part.inputs()
        for writer in uses.writers.get(each.buffer, ())
    ):
        reason = "what it reads is written in between"
    elif any(
        type(operand) is not Ref and rules.number_code(part.compute) not in CTYPES
        for part in parts
        for operand in part.operands
    ):
        reason = "it has a complex number"
    if reason is None:
        joined = [*members, position]
        for each in joined:
            groups[each] = joined
    else:
        origin = steps[source]
        notes.setdefault(position, {})[
            f"not with {origin.name} ({origin.line.rpartition('/')[2]}): {reason}"
        ] = None


def _results(members: Sequence[int], elements: dict[int, _Element], uses: Uses) -> list[_Element]:
    """What a kernel of these elements writes: the last one's result, and before it what is read elsewhere."""
    there = set(members)
    result = []
    for member in members[:-1]:
        element = elements[member]
        buffer = element.out.buffer
        outside = any(reader not in there for reader in uses.readers.get(buffer, ()))
        if buffer in uses.needed or outside or buffer in uses.writers:
            result.append(element)
    return [*result, elements[members[-1]]]


def recomputed(
    steps: Sequence[Step], later: Sequence[Step], available: Iterable[int], results: Iterable[int]
) -> list[Step]:
    """The pointwise ones of ``steps`` that are done again before ``later``, whose results are then not kept until there.

    Done again is what follows, element by element, from what is there anyway, and is read by pointwise operations only: it
    becomes part of their kernels, and costs neither a write nor a read.

    Parameters
    ----------
    steps : sequence of Step
        The forward pass, in order.
    later : sequence of Step
        The backward pass.
    available : iterable of int
        Buffers that are there anyway: the program's inputs and outputs.
    results : iterable of int
        Buffers that the backward pass gives.
    """
    written = {buffer for step in steps for buffer in step.writes}
    read: set[int] = set()
    as_whole = set(results)
    for step in later:
        buffers = {ref.buffer for ref in step.reads()}
        read |= buffers
        if _element(step) is None:
            as_whole |= buffers
    there = (set(available) | as_whole) - written
    follows: dict[int, Step] = {}
    for step in steps:
        element = _element(step)
        if element is None or element.writes or element.out.buffer in written:
            continue
        number = element.out.buffer
        inputs = {ref.buffer for ref in element.operands if type(ref) is Ref}
        if number not in there and inputs <= there:
            follows[number] = step
            there.add(number)
        elif number in read:
            there.add(number)
    result: dict[int, Step] = {}
    asked = [number for number in read if number in follows]
    while asked:
        number = asked.pop()
        if number not in result:
            result[number] = follows[number]
            asked += [ref.buffer for ref in follows[number].reads() if ref.buffer in follows]
    return [step for step in steps if any(step is each for each in result.values())]


def _element(step: Step) -> _Element | None:
    """``step`` by its parts, if it is a pointwise operation that can be part of a kernel with others."""
    operation = step.key[0]
    if operation is DROPOUT:
        return _dropout(step)
    if step.draw is not None:
        return None
    if operation is COPY or (isinstance(operation, Pointwise) and step.key[1] is not None):
        if not step.arguments or type(step.arguments[0]) is not Ref:
            return None
        out, operands, writes = step.arguments[0], step.arguments[1:], True
        operands = operands[:1] if operation is COPY else operands
        if out.buffer not in step.writes:
            return None
    elif operation is COPIED or isinstance(operation, Pointwise):
        if type(step.result) is not Ref:
            return None
        out, operands, writes = step.result, step.arguments, False
        if out.offset or any(type(each) is Ref and each.buffer == out.buffer for each in operands):
            return None
    else:
        return None
    layouts = [each.layout for each in operands if type(each) is Ref]
    if any(each.dtype.is_complex or each.dtype.is_storage_only for each in (*layouts, out.layout)):
        return None
    if not isinstance(operation, Pointwise):
        if len(operands) != 1 or len(layouts) != 1:
            return None
        compute = rules.computes_in(layouts[0].dtype)
        return _Element(step, compute, out.layout.dtype, "a", operands, out, writes)
    if operation.row_major:
        return None
    compute, result = operation.types(step.key[2:])
    compute = rules.computes_in(compute)
    if compute.is_complex or compute.is_storage_only or result.is_complex or result.is_storage_only:
        return None
    code = operation.cuda if isinstance(operation.cuda, str) else operation.cuda(compute)
    return _Element(step, compute, result, code, operands, out, writes, operation.include, operation.options)


def _dropout(step: Step) -> _Element | None:
    """A dropout that gives a new tensor."""
    drop, *operands = step.arguments
    _, layout, inner = step.key
    if step.draw is None or type(step.result) is not Ref or len(operands) != 1:
        return None
    if layout.dtype.is_complex or layout.dtype.is_storage_only:
        return None
    number = "number" if inner == 1 else f"number / {inner}"
    code = f"random_word(seed, call, {number}) < below ? a * Compute(scale) + Compute(shift) : Compute(otherwise)"
    numbers = (
        ("below", "Q", drop.below),
        ("scale", "d", drop.scale),
        ("shift", "d", drop.shift),
        ("otherwise", "d", drop.otherwise),
    )
    return _Element(
        step,
        rules.computes_in(layout.dtype),
        layout.dtype,
        code,
        tuple(operands),
        step.result,
        drop=drop,
        numbers=numbers,
    )


def _inputs(elements: Sequence[_Element]) -> list[Ref]:
    """What a kernel of ``elements`` reads."""
    inner = {element.out for element in elements if not element.writes}
    return list(dict.fromkeys(ref for element in elements for ref in element.inputs() if ref not in inner))


@dataclass(slots=True)
class _Text:
    """Code of a kernel's values.

    Attributes
    ----------
    lines : list of str
        CUDA C++: a comment and a statement for each value.
    names : dict of Ref to str
        What values are called.
    scalars : list of (name, code)
        Numbers that the kernel is given, with their types.
    numbers : list
        The numbers, packed.
    """

    lines: list[str] = field(default_factory=list)
    names: dict[Ref, str] = field(default_factory=dict)
    scalars: list[tuple[str, str | int]] = field(default_factory=list)
    numbers: list[Any] = field(default_factory=list)

    def number(self, name: str, code: str | int, value: Any) -> str:
        """A number's name in the kernel."""
        self.scalars.append((name, code))
        self.numbers.append(value)
        return name

    def add(self, element: _Element, value: str) -> None:
        """The statement that computes ``element``, whose name is ``value``."""
        compute = _COMPUTE.get(element.compute.cuda, element.compute.cuda)
        inner = [f"typedef {compute} Compute;"]
        for letter, operand in zip(_LETTERS, element.operands, strict=False):
            if type(operand) is Ref:
                source = self.names[operand]
            else:
                code = rules.number_code(element.compute)
                packed = packed_number(element.compute)(operand)
                source = self.number(f"number{len(self.scalars)}", code, packed)
            if re.search(rf"\b{letter}_\b", element.code):
                inner.append(f"const auto {letter}_ = {source};")
            if re.search(rf"\b{letter}\b", element.code):
                inner.append(f"const Compute {letter} = to_element<Compute>(to_compute({source}));")
        for name, code, number in element.numbers:
            inner.append(f"const auto {name} = {self.number(f'{name}{len(self.scalars)}', code, number)};")
        result = f"to_element<{element.result.cuda}>({element.code})"
        if element.result.cuda in _CONTRACTED:
            result = f"separate({result})"
        stored = element.out.layout.dtype
        if stored is not element.result:
            result = f"to_element<{stored.cuda}>(to_compute({result}))"
        inner.append(f"return {result};")
        # In a program's text a comment ends with its line.
        self.lines.append(f"// {element.step.name}, {element.step.line.rpartition('/')[2]}")
        self.lines.append(f"const auto {value} = [&] {{")
        self.lines += [f"    {line}" for line in inner]
        self.lines.append("}();")


def _fused(elements: Sequence[_Element], results: Sequence[_Element]) -> Step:
    """One step for ``elements``, in order, of which those in ``results`` are written, the last one among them."""
    last = elements[-1]
    inputs = _inputs(elements)
    text = _Text(names={ref: f"input{number}" for number, ref in enumerate(inputs)})
    values: dict[int, str] = {}
    for position, element in enumerate(elements):
        value = values[id(element)] = f"value{position}"
        text.add(element, value)
        if not element.writes:
            text.names[element.out] = value
    draw = next((element for element in elements if element.drop is not None), None)
    name = _name_of(element.step.name for element in elements)
    includes = _includes(elements, text)
    options = tuple(dict.fromkeys(option for element in elements for option in element.options))
    outs = [last.out, *(each.out for each in results if each is not last)]
    written = [values[id(last)], *(values[id(each)] for each in results if each is not last)]
    target = last.out.layout
    operands = [
        (strides_of.broadcast_strides(ref.layout.shape, ref.layout.strides, target.shape), ref.layout.dtype)
        for ref in inputs
    ]
    device_state: Any = target.device_state
    if draw is None and len(outs) == 1:
        lines = [f"const auto input{number} = {_LETTERS[number]}_;" for number in range(len(inputs))]
        code = "".join(f"            {line}\n" for line in (*lines, *text.lines, f"return {written[0]};"))
        code = f"[&] {{\n{code}        }}()"
        expression = kernels.Expression(
            name,
            code,
            tuple(text.scalars),
            include=" ".join((*includes, "separate_values.cuh")),
            options=options,
        )
        launch = kernels.plan(
            device_state.native, expression, target.shape, (target.strides, target.dtype), *operands
        )
    else:
        code = "\n".join((*text.lines, f"return {', '.join(written)};"))
        seeds = [] if draw is None else [("seed", "Q"), ("call", "Q")]
        chain = fused_pointwise.Chain(
            name,
            tuple(text.lines),
            tuple(written),
            (*seeds, *text.scalars),
            draw is not None,
            tuple(includes),
            options,
        )
        launch = fused_pointwise.plan(
            device_state.native,
            chain,
            target.shape,
            target.strides,
            [ref.layout.dtype for ref in outs],
            *operands,
        )
    makers = [maker(ref.layout) for ref in outs[last.writes :]]
    run = Launch(launch, makers, tuple(text.numbers), draw is not None, last.writes)
    fused = Fused(name, code)
    result: Any = outs[1:] if last.writes else outs if len(outs) > 1 else outs[0]
    arguments: tuple[Any, ...] = (last.out, *inputs) if last.writes else tuple(inputs)
    originals = tuple(element.step for element in elements)
    key = (fused, None, *(ref.layout for ref in inputs))
    step = Step(key, run, arguments, result, last.step.line, originals=originals)
    if draw is not None:
        step.arguments = (draw.drop, *arguments)
        step.draw = draw.step.draw
    if last.writes:
        step.writes = {last.out.buffer}
        step.result = result or None
    return step


def _reduced(elements: Sequence[_Element], step: Step) -> Step:
    """One step for ``elements``, in order, and the reduction that reads the last one's result."""
    last = elements[-1]
    reduction, layout, axes, keepdim, *_ = step.key
    reducer = reduction.reducer
    inputs = _inputs(elements)
    text = _Text(names={ref: f"input{number}" for number, ref in enumerate(inputs)})
    for position, element in enumerate(elements):
        text.add(element, f"value{position}")
        text.names[element.out] = f"value{position}"
    value = f"to_compute({text.names[last.out]})"
    if reducer.compute is not None:
        compute = _COMPUTE.get(reducer.compute.cuda, reducer.compute.cuda)
        value = f"to_element<{compute}>({value})"
    lines = [f"const auto input{number} = {_LETTERS[number]};" for number in range(len(inputs))]
    lines += [*text.lines, f"return [&](const auto a) {{ return {reducer.code}; }}({value});"]
    code = "[&] {\n" + "".join(f"            {line}\n" for line in lines) + "        }()"
    name = _name_of([*(element.step.name for element in elements), step.name])
    reducer = replace(
        reducer,
        name=name,
        code=code,
        scalars=(*reducer.scalars, *text.scalars),
        compute=None,
        include=" ".join(
            dict.fromkeys((*_includes(elements, text), *reducer.include.split(), "separate_values.cuh"))
        ),
    )
    operands = [
        layout.with_strides(
            layout.shape, strides_of.broadcast_strides(ref.layout.shape, ref.layout.strides, layout.shape)
        ).with_dtype(ref.layout.dtype)
        for ref in inputs
    ]
    scalars, numbers = step.arguments[1:], tuple(text.numbers)
    launch = reduction.launcher(reducer, operands, axes, keepdim, layout)

    def run(*tensors: Any) -> Any:
        return launch(tensors, *scalars, *numbers)

    return Step(
        (Fused(name, code), None, *(ref.layout for ref in inputs)),
        run,
        tuple(inputs),
        step.result,
        step.line,
        originals=(*(element.step for element in elements), step),
    )


def _name_of(names: Iterable[str]) -> str:
    """A kernel's name, of those of its operations."""
    return "fused_" + _NO_LETTERS.sub("_", "_".join(dict.fromkeys(names)))[:48].strip("_")


def _includes(elements: Sequence[_Element], text: _Text) -> list[str]:
    """Headers that the code of ``elements`` needs."""
    result = [each for element in elements for each in element.include.split()]
    if any("__half" in line or "__nv_bfloat16" in line for line in text.lines):
        result.insert(0, "half_elements.cuh")
    return list(dict.fromkeys(result))

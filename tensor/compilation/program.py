"""A part of a tape as a flat list of calls, which runs without the Python code it was recorded from.

The list is a generated function: each tensor is a local variable, from the call that makes it to the last one that takes it.
Tensors of a device that nobody else sees lie in a few pieces of memory, see :mod:`memory_plan`: most are no more than addresses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import uint8
from tensor.core.base import empty, maker, part_of, view_of
from tensor.core.layout import contiguous

from .generated import Code, expressions, grouped, listed
from .memory_plan import Lifetime, is_planned, plan, with_placed_results
from .replay import Replay
from .replayed_parts import Boundary, Replaying, divided
from .tape import Launch, Ref, refs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .draws import Draw
    from .tape import Buffer, Step


@dataclass(slots=True)
class _Line:
    """A part of the runner.

    Attributes
    ----------
    lines : list of str
        The code.
    reads, makes : list of int
        Slots.
    is_placed : bool
        Whether it says where a plan's results lie.
    """

    lines: list[str]
    reads: list[int]
    makes: list[int]
    is_placed: bool = False


def _differs(name: str) -> None:
    raise RuntimeError(
        f"{name}: its result has another layout than when the function was compiled, which follows from data: call the "
        "function uncompiled, or mark what does so with compiler.disable"
    )


class Program:
    """Steps of a tape that can run again.

    Parameters
    ----------
    device_state : CudaState
        The device.
    buffers : list of Buffer
        The tape's.
    steps : sequence of Step
        What is done, in order.
    draws : sequence of Draw
        The random numbers that ``run`` is given, in order.
    inputs : sequence of Ref
        The tensors that ``run`` is given.
    outputs : sequence of Ref
        The tensors that it gives.
    consumes : bool
        Whether ``run`` empties the list of tensors that it is given: each is let go of once it was read for the last time.
    replaying : Replaying, optional
        How it is replayed as CUDA graphs, if it is.

    Attributes
    ----------
    steps : list of Step
        The steps.
    replays : list of (Replay or str, int)
        Parts that are replayed, or why one is not, and how many steps each has.
    outputs : int
        How many outputs there are.
    pieces : list of int
        Bytes of the pieces of memory that tensors lie in which only the program sees.
    run : callable
        ``run(inputs, draws)`` does the steps to a list of tensors, of the layouts that were recorded, and gives a list of the
        outputs. ``draws`` is a list of (seed, call), in place of those that were recorded.
    """

    def __init__(
        self,
        device_state: Any,
        buffers: Sequence[Buffer],
        steps: Sequence[Step],
        draws: Sequence[Draw],
        inputs: Sequence[Ref],
        outputs: Sequence[Ref],
        *,
        consumes: bool = False,
        replaying: Replaying | None = None,
    ) -> None:
        self._consumes = consumes
        self.steps = list(steps)
        self.replays: list[tuple[Replay | str, int]] = []
        self._device_state = device_state
        self._buffers = buffers
        self._code = Code("run", "inputs", "draws")
        self._slots: dict[Any, int] = {}
        #: By buffer, a slot whose tensor shows some of it, and from which byte on it did so.
        self._shown: dict[int, tuple[int, int]] = {}
        #: What these slots show.
        self._shown_refs: dict[int, Ref] = {}
        #: Names of slots that are no variables.
        self._constants: dict[int, str] = {}
        self._count = 0
        self._lines: list[_Line] = []
        self._inputs = [self._input(ref) for ref in inputs]
        self._draws = [self._slot(id(draw)) for draw in draws]
        #: By position of a step, its plan, which gives results where it is told to.
        self._placed_plans: dict[int, Callable[..., Any]] = {}
        #: By buffer, in which piece of memory it lies, where it begins there, and its bytes.
        self._places: dict[int, tuple[int, int, int]] = {}
        self.pieces: list[int] = []
        if replaying is None and is_planned(device_state):
            self._plan_memory(outputs)
        if replaying is None:
            for position, step in enumerate(steps):
                self._add(step, self._placed_plans.get(position))
        else:
            self._add_parts(replaying, draws, outputs)
        self._outputs = [self._of(ref) for ref in outputs]
        self.outputs = len(self._outputs)
        self.run = self._runner()

    def __len__(self) -> int:
        return len(self._lines)

    def same_output(self, number: int, among: Iterable[int]) -> int | None:
        """The first output of ``among`` that is the same tensor as output ``number``; None if there is none."""
        return next((each for each in among if self._outputs[each] == self._outputs[number]), None)

    # Planning its memory

    def _plan_memory(self, outputs: Sequence[Ref]) -> None:
        """Say where tensors lie that only the program sees."""
        results = {ref.buffer for ref in outputs}
        seen = results | self._shown.keys()
        for step in self.steps:
            if step.on_host:
                seen |= {ref.buffer for ref in (*step.reads(), *refs(step.result))}
        sizes: dict[int, int] = {}
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        placeable: set[int] = set()
        for position, step in enumerate(self.steps):
            produced = list(refs(step.result))
            told = self._placed_results(position, step, produced)
            for ref in (*step.reads(), *produced):
                buffer = ref.buffer
                size = max(self._buffers[buffer].size, ref.offset + ref.layout.nbytes)
                sizes[buffer] = max(sizes.get(buffer, 0), size)
                if buffer not in first:
                    first[buffer] = position
                    if buffer in told or self._buffers[buffer].source == "empty":
                        placeable.add(buffer)
                last[buffer] = position
        end = len(self.steps) - 1
        ours, others = list[Lifetime](), list[Lifetime]()
        for buffer, nbytes in sizes.items():
            if buffer in placeable and buffer not in seen and nbytes:
                ours.append(Lifetime(buffer, nbytes, first[buffer], last[buffer]))
            elif self._buffers[buffer].source in ("result", "empty"):
                # What a program is given of these it has for itself: the pass before has saved it.
                begin = 0 if buffer in self._shown else first[buffer]
                others.append(Lifetime(buffer, nbytes, begin, end if buffer in results else last[buffer]))
        if ours:
            for piece in plan(ours, others, len(self.steps)):
                for buffer, offset in piece.offsets.items():
                    self._places[buffer] = len(self.pieces), offset, sizes[buffer]
                self.pieces.append(piece.nbytes)

    def _placed_results(self, position: int, step: Step, results: Sequence[Ref]) -> set[int]:
        """Buffers of a step's results that lie where the program says."""
        if any(ref.layout.device_state is not self._device_state for ref in results):
            return set()
        if isinstance(step.run, Launch):
            return {ref.buffer for ref in results if not ref.offset}
        placed = with_placed_results(step, self._device_state) if results and not step.on_host else None
        if placed is None:
            return set()
        self._placed_plans[position], layouts = placed
        of_layout = [ref.layout for ref in results]
        # Of two of one layout a plan might take the one for the other.
        return {
            ref.buffer
            for ref in results
            if not ref.offset and ref.layout in layouts and of_layout.count(ref.layout) == 1
        }

    def _piece(self, number: int) -> int:
        """The slot of a piece of memory, whose address the variable of this number and the letter b has."""
        key = "piece", number
        slot = self._slots.get(key)
        if slot is None:
            code, slot = self._code, self._slot(key)
            layout = contiguous[(self.pieces[number],), uint8, self._device_state]
            lines = [f"v{slot} = {code.constant(maker(layout))}()", f"b{number} = v{slot}._storage.address"]
            self._lines.append(_Line(lines, [], [slot]))
        return slot

    def _placed(self, ref: Ref) -> tuple[str, int]:
        """The expression of a tensor that the program says the place of, and the slot that it takes."""
        code, (number, offset, size) = self._code, self._places[ref.buffer]
        piece, layout = self._piece(number), code.constant(ref.layout)
        address = f"b{number} + {offset}"
        make = code.constant(part_of)
        return f"{make}(v{piece}._storage, {size}, {address}, {layout}, {ref.offset})", piece

    # Making it

    def _slot(self, key: Any) -> int:
        result = self._slots[key] = self._count
        self._count += 1
        return result

    def _name(self, slot: int) -> str:
        return self._constants.get(slot) or f"v{slot}"

    def _input(self, ref: Ref) -> int:
        slot = self._slots.get(ref)
        if slot is None:
            slot = self._slot(ref)
            self._show(ref, slot)
        else:
            # Two that show the same memory: the second is not looked at.
            slot = self._slot(object())
        return slot

    def _of(self, ref: Ref) -> int:
        """The slot of what ``ref`` shows, with what makes it a tensor where there is none yet."""
        slot = self._slots.get(ref)
        if slot is not None:
            return slot
        code, buffer = self._code, self._buffers[ref.buffer]
        if ref.buffer not in self._shown:
            if buffer.source == "constant":
                slot = self._slot(ref)
                assert buffer.storage is not None
                self._constants[slot] = code.constant(view_of(buffer.storage, ref.layout, ref.offset))
                return slot
            if ref.buffer in self._places:
                expression, piece = self._placed(ref)
                slot = self._slot(ref)
                self._show(ref, slot)
                self._lines.append(_Line([f"v{slot} = {expression}"], [piece], [slot]))
                return slot
            assert buffer.source == "empty", "read before anything has made it"
            layout = contiguous[(buffer.size,), uint8, self._device_state]
            shown = self._slot(Ref(ref.buffer, layout, -1))
            self._shown[ref.buffer] = shown, 0
            self._shown_refs[ref.buffer] = Ref(ref.buffer, layout, 0)
            line = f"v{shown} = {code.constant(empty)}({code.constant(layout)})"
            self._lines.append(_Line([line], [], [shown]))
        slot = self._slot(ref)
        shown, start = self._shown[ref.buffer]
        name, layout_name = self._name(shown), code.constant(ref.layout)
        # Arguments begin elsewhere in their memory at each call.
        offset = f"{name}._offset + {ref.offset - start}"
        line = f"v{slot} = {code.constant(view_of)}({name}._storage, {layout_name}, {offset})"
        self._lines.append(_Line([line], [shown], [slot]))
        return slot

    def _add(self, step: Step, placed_plan: Callable[..., Any] | None = None) -> None:
        """Add a step; ``placed_plan`` is its plan where that gives results where it is told to."""
        drawn = "" if step.draw is None else self._name(self._slots[id(step.draw)])
        if isinstance(step.run, Launch):
            self._lines.append(self._launched(step.run, step, drawn))
            return
        operands = [self._of(ref) for ref in step.reads()]
        code, flat = self._code, iter(operands)
        arguments = expressions(code, step.arguments, Ref, lambda _: self._name(next(flat)), step.draw, drawn)
        ours = (
            []
            if placed_plan is None
            else [
                ref
                for ref in refs(step.result)
                if ref.buffer in self._places and ref.buffer not in self._shown
            ]
        )
        before = []
        if ours:
            tensors = [self._placed(ref) for ref in ours]
            operands = [*operands, *(piece for _, piece in tensors)]
            # A plan makes its results in their order, and takes the last of the list.
            before = [f"local.placed = {listed([tensor for tensor, _ in reversed(tensors)])}"]
        results: list[int] = []
        target = "" if step.result is None else f"{self._target(step.result, results)} = "
        rest = ["del _"] if re.search(r"\b_\b", target) else []
        run = placed_plan if ours else step.run
        line = f"{target}{code.constant(run)}({', '.join(arguments)})"
        if not self._device_state.is_cuda:
            # No plan of a device has results whose layouts follow from data, as it would have to wait for that.
            rest += [
                f"if v{slot}._layout is not {code.constant(ref.layout)}: {code.constant(_differs)}({step.name!r})"
                for slot, ref in zip(results, refs(step.result), strict=True)
            ]
        self._lines.append(_Line([*before, line, *rest], operands, results, is_placed=bool(before)))

    def _target(self, result: Any, slots: list[int]) -> str:
        """What a step's result is assigned to; the slots of its tensors are added to ``slots``."""
        if type(result) is Ref:
            slots.append(self._result(result))
            return f"v{slots[-1]}"
        if isinstance(result, (list, tuple)) and next(refs(result), None) is not None:
            return grouped([self._target(each, slots) for each in result])
        return "_"

    def _result(self, ref: Ref) -> int:
        slot = self._slots.get(ref)
        if slot is None:
            slot = self._slot(ref)
            self._show(ref, slot)
        return slot

    def _show(self, ref: Ref, slot: int) -> None:
        if ref.buffer not in self._shown:
            self._shown[ref.buffer] = slot, ref.offset
            self._shown_refs[ref.buffer] = ref

    def _add_parts(self, replaying: Replaying, draws: Sequence[Draw], outputs: Sequence[Ref]) -> None:
        """Add the steps, parts of which are replayed as CUDA graphs."""
        by_reference = set(replaying.by_reference)
        rest = list(self.steps)
        for part, is_replayed in divided(self.steps):
            del rest[: len(part)]
            later = [*(ref for step in rest for ref in step.reads()), *outputs]
            boundary = Boundary.of(part, self._shown_refs, self._buffers, {ref.buffer for ref in later})
            obstacle = boundary.obstacle(part, later, by_reference) if is_replayed else ""
            if is_replayed and not obstacle:
                seen = {ref.buffer for step in rest if step.on_host for ref in step.reads()}
                seen |= {ref.buffer for ref in outputs} - replaying.private
                used = [draw for draw in draws if any(step.draw is draw for step in part)]
                replay = self._replay(part, boundary, replaying.results, by_reference, seen, used)
                self._add_replay(replay, boundary, used)
                by_reference |= boundary.outputs.keys() - replaying.results
                continue
            if obstacle:
                self.replays.append((obstacle, len(part)))
            for step in part:
                self._add(step)

    def _replay(
        self,
        part: Sequence[Step],
        boundary: Boundary,
        results: set[int],
        by_reference: set[int],
        seen: set[int],
        draws: Sequence[Draw],
    ) -> Replay:
        """What replays a part; ``seen`` are buffers that a program can hold on to."""
        inputs, outputs = list(boundary.inputs.values()), list(boundary.outputs.values())
        written = boundary.written - by_reference
        replay = Replay(
            Program(self._device_state, self._buffers, part, draws, inputs, outputs, consumes=True),
            self._device_state,
            by_reference=[i for i, ref in enumerate(inputs) if ref.buffer in by_reference],
            written=[i for i, ref in enumerate(inputs) if ref.buffer in written],
            copied=[i for i, ref in enumerate(outputs) if ref.buffer in results],
            visible=[i for i, ref in enumerate(outputs) if ref.buffer in seen],
            draws=draws,
        )
        self.replays.append((replay, len(part)))
        return replay

    def _add_replay(self, replay: Replay, boundary: Boundary, draws: Sequence[Draw]) -> None:
        """The call of a part that is replayed."""
        code, operands = self._code, [self._of(ref) for ref in boundary.inputs.values()]
        arguments = self._slot(object())
        # The list has the only references to what is read for the last time.
        line = f"v{arguments} = {listed(map(self._name, operands))}"
        self._lines.append(_Line([line], operands, [arguments]))
        slots = [self._result(ref) for ref in boundary.outputs.values()]
        target = f"{grouped([f'v{slot}' for slot in slots])} = " if slots else ""
        drawn = grouped([self._name(self._slots[id(draw)]) for draw in draws])
        line = f"{target}{code.constant(replay)}(v{arguments}, {drawn})"
        self._lines.append(_Line([line], [arguments], slots))

    def _launched(self, kernel: Launch, step: Step, drawn: str) -> _Line:
        """The launch of a kernel, with its results made before it."""
        code = self._code
        reads: list[int] = []
        operands = [self._address(ref, reads) for ref in step.reads()]
        lines: list[str] = []
        results: list[int] = []
        addresses: list[str] = []
        produced = [] if step.result is None else [step.result] if type(step.result) is Ref else step.result
        for ref, make in zip(produced, kernel.makers, strict=True):
            if self._is_address(ref):
                addresses.append(self._address(ref, reads))
                continue
            slot = self._result(ref)
            results.append(slot)
            lines.append(f"v{slot} = {code.constant(make)}()")
            addresses.append(f"v{slot}._storage.address")
        operands[int(kernel.writes) : int(kernel.writes)] = addresses
        if kernel.draws:
            operands += [f"{drawn}[0]", f"{drawn}[1]"]
        operands += [code.constant(each) for each in kernel.numbers]
        lines.append(f"{code.constant(kernel.launch)}(stream, {', '.join(operands)})")
        return _Line(lines, reads, results)

    def _is_address(self, ref: Ref) -> bool:
        """Whether what ``ref`` shows is an address in a piece of memory, and no variable has it."""
        return ref.buffer in self._places and ref.buffer not in self._shown

    def _address(self, ref: Ref, reads: list[int]) -> str:
        """The expression of an address; the slot that it takes is added to ``reads``."""
        if self._is_address(ref):
            number, offset, _ = self._places[ref.buffer]
            reads.append(self._piece(number))
            return f"b{number} + {offset + ref.offset}"
        reads.append(self._of(ref))
        name = self._name(reads[-1])
        return f"{name}._storage.address + {name}._offset"

    def _runner(self) -> Callable[..., Any]:
        """The generated function."""
        code = self._code
        names = [f"v{slot}" for slot in (*self._inputs, *self._draws)]
        inputs, draws = names[: len(self._inputs)], names[len(self._inputs) :]
        code.add(f"{grouped(inputs)} = inputs" if inputs else "pass")
        if self._consumes:
            code.add("inputs.clear()")
        if draws:
            code.add(f"{grouped(draws)} = draws")
        if self._device_state.is_cuda:
            code.add(f"stream = {code.constant(self._device_state.local)}.stream.handle")
        else:
            code.add("stream = None")
        ended: list[list[int]] = []
        needed = {*self._outputs, *self._constants}
        for line in reversed(self._lines):
            ends = {*line.reads, *line.makes} - needed
            needed |= ends
            ended.append(sorted(ends))
        unread = sorted({*self._inputs} - needed)
        body: list[str] = []
        if self._consumes and unread:
            body.append(f"del {', '.join(map(self._name, unread))}")
        for line, ends_here in zip(self._lines, reversed(ended), strict=True):
            body += line.lines
            if ends_here:
                body.append(f"del {', '.join(map(self._name, ends_here))}")
        body.append(f"return {listed(map(self._name, self._outputs))}")
        if any(each.is_placed for each in self._lines):
            code.add(f"local = {code.constant(self._device_state.local)}")
            # What a plan has not taken holds its memory.
            body = ["try:", *(f"    {line}" for line in body), "finally:", "    local.placed = []"]
        for each in body:
            code.add(each)
        return code.function()

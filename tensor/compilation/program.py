"""A part of a tape as a flat list of calls, which runs without the Python code it was recorded from.

The list is a generated function: each tensor is a local variable, from the call that makes it to the last one that takes it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import uint8
from tensor.core.base import empty, view_of
from tensor.core.layout import contiguous

from .generated import Code, expressions, grouped, listed
from .replay import Replay
from .replayed_parts import Boundary, Replaying, divided
from .tape import Launch, Ref, refs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    """

    lines: list[str]
    reads: list[int]
    makes: list[int]


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
        if replaying is None:
            for step in steps:
                self._add(step)
        else:
            self._add_parts(replaying, draws, outputs)
        self._outputs = [self._of(ref) for ref in outputs]
        self.outputs = len(self._outputs)
        self.run = self._runner()

    def __len__(self) -> int:
        return len(self._lines)

    def same_output(self, number: int, among: int) -> int | None:
        """Which of the first ``among`` outputs is the same tensor as output ``number``."""
        slots = self._outputs[:among]
        return slots.index(self._outputs[number]) if self._outputs[number] in slots else None

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

    def _add(self, step: Step) -> None:
        operands = [self._of(ref) for ref in step.reads()]
        drawn = "" if step.draw is None else self._name(self._slots[id(step.draw)])
        if isinstance(step.run, Launch):
            self._lines.append(self._launched(step.run, step, operands, drawn))
            return
        code, flat = self._code, iter(operands)
        arguments = expressions(code, step.arguments, Ref, lambda _: self._name(next(flat)), step.draw, drawn)
        results: list[int] = []
        target = "" if step.result is None else f"{self._target(step.result, results)} = "
        rest = ["del _"] if re.search(r"\b_\b", target) else []
        line = f"{target}{code.constant(step.run)}({', '.join(arguments)})"
        if not self._device_state.is_cuda:
            # No plan of a device has results whose layouts follow from data, as it would have to wait for that.
            rest += [
                f"if v{slot}._layout is not {code.constant(ref.layout)}: {code.constant(_differs)}({step.name!r})"
                for slot, ref in zip(results, refs(step.result), strict=True)
            ]
        self._lines.append(_Line([line, *rest], operands, results))

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

    def _launched(self, kernel: Launch, step: Step, operands: list[int], drawn: str) -> _Line:
        """The launch of a kernel, with its results made before it."""
        code = self._code
        produced = [] if step.result is None else [step.result] if type(step.result) is Ref else step.result
        results = [self._result(each) for each in produced]
        lines = [
            f"v{slot} = {code.constant(make)}()" for slot, make in zip(results, kernel.makers, strict=True)
        ]
        addresses = [f"{name}._storage.address + {name}._offset" for name in map(self._name, operands)]
        addresses[int(kernel.writes) : int(kernel.writes)] = [f"v{slot}._storage.address" for slot in results]
        if kernel.draws:
            addresses += [f"{drawn}[0]", f"{drawn}[1]"]
        addresses += [code.constant(each) for each in kernel.numbers]
        lines.append(f"{code.constant(kernel.launch)}(stream, {', '.join(addresses)})")
        return _Line(lines, operands, results)

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
        if self._consumes and unread:
            code.add(f"del {', '.join(map(self._name, unread))}")
        for line, ends_here in zip(self._lines, reversed(ended), strict=True):
            for each in line.lines:
                code.add(each)
            if ends_here:
                code.add(f"del {', '.join(map(self._name, ends_here))}")
        code.add(f"return {listed(map(self._name, self._outputs))}")
        return code.function()

"""A part of a tape as a flat list of calls over numbered tensors, which runs without the Python code it was recorded from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import uint8
from tensor.core.base import empty, view_of
from tensor.core.layout import contiguous

from .tape import Draw, Ref, drawn, map_tensors, refs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.methods.tensor import Tensor

    from .tape import Buffer, Step

#: A call: what is called, the slots of its arguments, the slot or slots of its result, the slots that nothing needs after it.
Instruction = tuple[Any, tuple[int, ...], Any, tuple[int, ...]]


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
    """

    def __init__(
        self,
        device_state: Any,
        buffers: Sequence[Buffer],
        steps: Sequence[Step],
        draws: Sequence[Draw],
        inputs: Sequence[Ref],
        outputs: Sequence[Ref],
    ) -> None:
        self.steps = list(steps)
        self._device_state = device_state
        self._buffers = buffers
        self._slots: dict[Any, int] = {}
        #: By buffer, a slot whose tensor shows some of it.
        self._shown: dict[int, int] = {}
        self._constants: list[tuple[int, Any]] = []
        self._count = 0
        self._instructions: list[tuple[Any, tuple[int, ...], Any]] = []
        self._inputs = [self._input(ref) for ref in inputs]
        self._draws = [self._slot(id(draw)) for draw in draws]
        for step in steps:
            self._add(step)
        self._outputs = [self._of(ref) for ref in outputs]
        self._listed = self._with_ends()
        self._initial: list[Any] = [None] * self._count
        for slot, value in self._constants:
            self._initial[slot] = value

    def __len__(self) -> int:
        return len(self._instructions)

    def run(self, inputs: Sequence[Tensor], draws: Sequence[tuple[int, int]] = ()) -> list[Tensor]:
        """Do the steps to ``inputs``; the outputs.

        Parameters
        ----------
        inputs : sequence of Tensor
            Of the layouts that were recorded.
        draws : sequence of (seed, call)
            Draws of random numbers, in place of those that were recorded.
        """
        values = self._initial.copy()
        for slot, x in zip(self._inputs, inputs, strict=True):
            values[slot] = x
        for slot, draw in zip(self._draws, draws, strict=True):
            values[slot] = draw
        for call, arguments, into, ends in self._listed:
            result = call(*[values[slot] for slot in arguments])
            if type(into) is int:
                values[into] = result
            elif into is not None:
                for slot, x in zip(into, result, strict=True):
                    if slot is not None:
                        values[slot] = x
            for slot in ends:
                values[slot] = None
        return [values[slot] for slot in self._outputs]

    # Making it

    def _slot(self, key: Any) -> int:
        result = self._slots[key] = self._count
        self._count += 1
        return result

    def _input(self, ref: Ref) -> int:
        slot = self._slots.get(ref)
        if slot is None:
            slot = self._slot(ref)
            self._shown.setdefault(ref.buffer, slot)
        else:
            # Two that show the same memory: the second is not looked at.
            slot = self._slot(object())
        return slot

    def _of(self, ref: Ref) -> int:
        """The slot of what ``ref`` shows, with what makes it a tensor where there is none yet."""
        slot = self._slots.get(ref)
        if slot is not None:
            return slot
        buffer = self._buffers[ref.buffer]
        shown = self._shown.get(ref.buffer)
        if shown is None:
            if buffer.source == "constant":
                slot = self._slot(ref)
                assert buffer.storage is not None
                self._constants.append((slot, view_of(buffer.storage, ref.layout, ref.offset)))
                return slot
            assert buffer.source == "empty", "read before anything has made it"
            layout = contiguous[(buffer.size,), uint8, self._device_state]
            shown = self._shown[ref.buffer] = self._slot(Ref(ref.buffer, layout, -1))
            self._instructions.append((lambda: empty(layout), (), shown))
        slot = self._slot(ref)
        layout, offset = ref.layout, ref.offset
        self._instructions.append((lambda x: view_of(x._storage, layout, offset), (shown,), slot))
        return slot

    def _constant(self, value: Any) -> int:
        slot = self._slot(object())
        self._constants.append((slot, value))
        return slot

    def _add(self, step: Step) -> None:
        operands = tuple([self._of(ref) for ref in step.reads()])
        call: Callable[..., Any] = step.run
        if step.draw is not None:
            operands = (self._slots[id(step.draw)], *operands)
            call = _assembling(step)
        elif all(type(each) is Ref or next(refs(each), None) is None for each in step.arguments):
            flat = iter(operands)
            operands = tuple(
                [next(flat) if type(each) is Ref else self._constant(each) for each in step.arguments]
            )
        else:
            call = _assembling(step)
        into: Any = None
        if type(step.result) is Ref:
            into = self._result(step.result)
        elif isinstance(step.result, (list, tuple)):
            into = tuple([self._result(each) if type(each) is Ref else None for each in step.result])
        self._instructions.append((call, operands, into))

    def _result(self, ref: Ref) -> int:
        slot = self._slots.get(ref)
        if slot is None:
            slot = self._slot(ref)
            self._shown.setdefault(ref.buffer, slot)
        return slot

    def _with_ends(self) -> list[Instruction]:
        """The instructions, each with the slots that nothing needs after it."""
        needed = {*self._outputs, *(slot for slot, _ in self._constants)}
        result: list[Instruction] = []
        for call, arguments, into in reversed(self._instructions):
            results = (into,) if type(into) is int else () if into is None else into
            used = {slot for slot in (*arguments, *results) if slot is not None}
            ends = used - needed
            needed |= ends
            result.append((call, arguments, into, tuple(ends)))
        result.reverse()
        return result


def _assembling(step: Step) -> Callable[..., Any]:
    """``step`` as a call with this run's draw, if it has one, and the tensors of its arguments, one after the other."""
    run, template, draw = step.run, step.arguments, step.draw

    def call(*operands: Any) -> Any:
        flat = iter(operands)
        arguments = template if draw is None else drawn(template, draw, *next(flat))
        return run(*map_tensors(lambda _: next(flat), arguments, Ref))

    return call

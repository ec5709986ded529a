"""A part of a program that is replayed as a CUDA graph.

A graph works on the same memory at each replay. What the program takes by reference, parameters and buffers, is there already:
their addresses are compared, and where they have changed the part is launched call by call, and captured once they stay. What
else comes in is copied into memory of the graph. Results of the function are copied out of it. What is only read by the backward
pass, and gradients, are lent: as long as somebody has them the graph is not replayed, and the part is launched call by call.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import drv
from nvrtc_kernels import coalescing
from nvrtc_kernels.dtypes import int16, int32, int64, uint8
from tensor.core.base import empty, view_of
from tensor.core.devices.captured_graph import CapturedGraph, capture_stream, new_pool
from tensor.core.devices.graph_capture import GraphCapture
from tensor.core.layout import contiguous
from tensor.core.plans import planned
from tensor.core.plans.copies import COPY
from tensor.core.storage import ForeignStorage
from tensor.operations.random.captured import CapturedDraws

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tensor.core.devices.state import CudaState
    from tensor.core.devices.stream import Stream
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    from .draws import Draw
    from .program import Program

#: How often a part is captured anew before it is launched call by call.
_MOST_CAPTURES = 8
#: What addresses are multiples of for kernels that were made for aligned memory, in bytes.
_ALIGNMENT = 16
_BY_SIZE = {1: uint8, 2: int16, 4: int32, 8: int64}


def _copies_plan(device_state: CudaState, itemsize: int) -> Callable[..., None]:
    """``device_state.plans[operation, device_state, itemsize]``: see :func:`coalescing.plan`."""
    return coalescing.plan(device_state.native, _BY_SIZE[itemsize])


_COPIES = planned(_copies_plan)


class _LentStorage(ForeignStorage):
    """Memory of a graph, as whoever has a result of its last replay sees it."""

    __slots__ = ("_streams",)

    _streams: set[Stream]

    @classmethod
    def of(cls, x: Tensor, streams: set[Stream]) -> _LentStorage:
        """That of ``x``; streams that use it are added to ``streams``."""
        storage: Any = x._storage
        self = cls(storage.device_state, storage.capacity, storage.address, storage)
        self._streams = streams
        return self

    def record_stream(self, stream: Stream) -> None:
        """Note that ``stream`` uses the bytes: the next replay waits for its work."""
        self._streams.add(stream)
        self.owner.record_stream(stream)


@dataclass(slots=True)
class _Captured:
    """What was captured, and its memory.

    Attributes
    ----------
    graph : CapturedGraph
        The graph.
    addresses : list of int
        Where what it takes by reference was.
    inputs : dict
        What it has of inputs that it does not take by reference, by their number.
    outputs : list of Tensor
        What it gives.
    offsets : list of int
        How many calls after the first one of their generator the draws are.
    stream : Stream
        Where it was replayed last.
    streams : set of Stream
        Others that used what was lent since then.
    lent : dict
        What was lent by the last replay, by the number of the output.
    """

    graph: CapturedGraph
    addresses: list[int]
    inputs: dict[int, Tensor]
    outputs: list[Tensor]
    offsets: list[int]
    stream: Stream
    streams: set[Stream] = field(default_factory=set)
    lent: dict[int, weakref.ref[Any]] = field(default_factory=dict)


class Replay:
    """Runs a program: as a CUDA graph where it can.

    It is captured when it is called for the second time with what it takes by reference at the same addresses.

    Parameters
    ----------
    program : Program
        What is captured; it consumes its inputs.
    device_state : CudaState
        The device.
    by_reference : list of int
        Inputs whose addresses are part of the graph.
    written : list of int
        Inputs that are written, and are not taken by reference.
    copied : list of int
        Outputs that are copied out of the graph's memory.
    visible : list of int
        Outputs that a program can hold on to: they are copied from then on where it does.
    draws : sequence of Draw
        The random numbers that it is given.

    Attributes
    ----------
    program : Program
        The parameter of this name.
    reason : str
        Why it is not captured, if there is a reason for good.
    """

    def __init__(
        self,
        program: Program,
        device_state: CudaState,
        *,
        by_reference: list[int],
        written: list[int],
        copied: Iterable[int],
        visible: Iterable[int],
        draws: Sequence[Draw],
    ) -> None:
        self.program = program
        self.reason = ""
        self._state = device_state
        self._by_reference, self._written = by_reference, written
        self._copied, self._visible = set(copied), set(visible)
        self._generators = [draw.generator for draw in draws]
        self._lock = threading.Lock()
        self._captured: _Captured | None = None
        self._captures = 0
        #: Where what it takes by reference was at the last call.
        self._addresses: list[int] | None = None
        #: By generator: seed and first call of a replay.
        self._begin: dict[Any, tuple[int, int]] = {}

    @property
    def is_captured(self) -> bool:
        """Whether the next call may be a replay."""
        return self._captured is not None

    def __call__(self, inputs: list[Tensor], draws: Sequence[tuple[int, int]]) -> list[Tensor]:
        """The program's outputs for ``inputs``, a list that is emptied."""
        # Within a capture of the program's own, its launches are part of that. Where another thread is here, this one goes by.
        if not self.reason and not self._state.runtime.captures and self._lock.acquire(blocking=False):
            try:
                captured = self._ready(inputs, draws)
                if captured is not None:
                    return self._replayed(captured, inputs)
            finally:
                self._lock.release()
        result: list[Tensor] = self.program.run(inputs, draws)
        return result

    # Whether there is a graph for a call

    def _ready(self, inputs: list[Tensor], draws: Sequence[tuple[int, int]]) -> _Captured | None:
        addresses = [x._storage.address + x._offset for x in map(inputs.__getitem__, self._by_reference)]
        offsets = self._offsets(draws)
        if offsets is None:
            return None
        captured = self._captured
        if captured is None or captured.addresses != addresses:
            if self._addresses != addresses:
                self._addresses = addresses
                return None
            captured = self._captured = self._capture(inputs, addresses, offsets)
            return captured
        self._addresses = addresses
        return captured if captured.offsets == offsets and self._is_free(captured) else None

    def _offsets(self, draws: Sequence[tuple[int, int]]) -> list[int] | None:
        """Which of its generator's calls, from the first one on, each draw is; ``None`` where a generator has several seeds."""
        begin = self._begin
        begin.clear()
        for generator, (seed, call) in zip(self._generators, draws, strict=True):
            known = begin.get(generator)
            if known is not None and known[0] != seed:
                return None
            begin[generator] = seed, call if known is None else min(call, known[1])
        return [call - begin[each][1] for each, (_, call) in zip(self._generators, draws, strict=True)]

    def _is_free(self, captured: _Captured) -> bool:
        """Whether nobody has what was lent by the last replay."""
        held = [number for number, reference in captured.lent.items() if reference() is not None]
        if not held:
            return True
        visible = self._visible.intersection(held)
        if visible:
            # It may stay there for long, as gradients do to which others are added: a graph with other memory copies it.
            self._copied |= visible
            self._captured = None
        return False

    # Capturing

    def _capture(self, inputs: list[Tensor], addresses: list[int], offsets: list[int]) -> _Captured | None:
        if self._captures == _MOST_CAPTURES:
            self.reason = f"it was captured {_MOST_CAPTURES} times, and addresses of what it takes by reference keep changing"
            return None
        self._captures += 1
        runtime, local = self._state.runtime, self._state.local
        before = local.stream
        local.stream = side = capture_stream(self._state)
        try:
            # Memory of graphs that are gone, whose last replays may still be under way, is used again.
            self._state.native.synchronize()
            by_reference = {*self._by_reference}
            own = {number: _like(x) for number, x in enumerate(inputs) if number not in by_reference}
            graph, outputs = self._recorded(side, [own.get(i, x) for i, x in enumerate(inputs)], offsets)
        except drv.CudaError as error:
            if not runtime.captures:
                # Otherwise another thread may be in the way.
                self.reason = str(error).partition("\n")[0]
            return None
        finally:
            local.stream = before
        return _Captured(graph, addresses, own, outputs, offsets, before)

    def _recorded(
        self, side: Stream, inputs: list[Tensor], offsets: list[int]
    ) -> tuple[CapturedGraph, list[Tensor]]:
        capture = GraphCapture(side, new_pool(), "thread_local")
        capture.begin()
        try:
            draws = self._captured_draws(capture, offsets)
            outputs = self.program.run(inputs, draws)
        except BaseException:
            capture.abandon()
            raise
        graph = CapturedGraph(capture)
        graph.instantiate()
        return graph, outputs

    def _captured_draws(self, capture: GraphCapture, offsets: list[int]) -> list[tuple[int, int]]:
        """What the program is given as its draws: where kernels find them at each replay."""
        result = []
        for generator, offset in zip(self._generators, offsets, strict=True):
            draws = capture.draws.get(generator)
            if draws is None:
                begin = partial(self._begin_of, generator)
                draws = capture.draws[generator] = CapturedDraws(generator, capture, begin)
            result.append(draws.draw(self._state, offset))
        return result

    def _begin_of(self, generator: Any, _: int) -> tuple[int, int]:
        """Seed and first call of a generator in the replay that begins."""
        return self._begin[generator]

    # Replaying

    def _replayed(self, captured: _Captured, inputs: list[Tensor]) -> list[Tensor]:
        stream = self._state.local.stream
        for other in {captured.stream, *captured.streams}:
            stream.wait_stream(other)
        captured.stream = stream
        captured.streams.clear()
        own = captured.inputs
        self._copy([(x, inputs[number]) for number, x in own.items()])
        captured.graph.replay()
        results, copies = [], [(inputs[number], own[number]) for number in self._written]
        captured.lent.clear()
        for number, x in enumerate(captured.outputs):
            if number in self._copied:
                results.append(_like(x))
                copies.append((results[-1], x))
                continue
            storage = _LentStorage.of(x, captured.streams)
            captured.lent[number] = weakref.ref(storage)
            results.append(view_of(storage, x._layout, x._offset))
        self._copy(copies)
        inputs.clear()
        return results

    def _copy(self, pairs: list[tuple[Tensor, Tensor]]) -> None:
        """Copy the second of each pair to the first, whose layout is the same: dense ones in one launch."""
        addresses: list[int] = []
        sizes: list[int] = []
        itemsize = 8
        for target, source in pairs:
            layout = _distinct(target._layout)
            if not layout.dense:
                shown = [view_of(x._storage, layout, x._offset) for x in (target, source)]
                self._state.plans[COPY, layout, layout](*shown, False)
            elif layout.nbytes:
                addresses += target._address, source._address
                sizes.append(layout.nbytes)
                itemsize = min(itemsize, layout.itemsize)
        if sizes:
            run = self._state.plans[_COPIES, self._state, itemsize]
            run(self._state.local.stream.handle, addresses, [size // itemsize for size in sizes])


def _distinct(layout: Layout) -> Layout:
    """The elements of ``layout``, each once where it is stretched."""
    if 0 not in layout.strides:
        return layout
    shape = [1 if step == 0 else size for size, step in zip(layout.shape, layout.strides, strict=True)]
    return layout.with_strides(tuple(shape), layout.strides)


def _like(x: Tensor) -> Tensor:
    """A new tensor of the layout of ``x``, as far from a multiple of 16 bytes as that."""
    begin = x._offset % _ALIGNMENT
    if not begin and x._layout.dense:
        return empty(x._layout)
    memory = empty(contiguous[(begin + x._layout.nbytes,), uint8, x._layout.device_state])
    return view_of(memory._storage, x._layout, begin)

"""Scatter and gather: chunks of one tensor on several devices. Each is the other's derivative.

What is scattered is copied on a stream of its own on each receiving device. So the copies run beside what the devices
still have to do, and beside each other; from host memory they go through pinned memory, which the host fills for one
device while the others are being sent to.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import drv
from tensor.autograd.recording.recorder import Derivative
from tensor.autograd.recording.several_devices import DevicesFormula
from tensor.core.base import empty, view_of
from tensor.core.devices.state import cpu
from tensor.core.layout import contiguous
from tensor.core.modes.grad_mode import unrecorded
from tensor.core.plans.copies import COPY, copied
from tensor.cuda import Stream
from tensor.operations.shapes.slices import step_through

from .devices import connect, drained_on_failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tensor import Tensor
    from tensor.core.devices.state import CudaState, DeviceState
    from tensor.core.layout import Layout

#: Bytes from which on a copy to a device goes through pinned memory. Shorter ones are sent with the command itself.
_PINNED_FROM = 1 << 16
#: Dimensions from the outermost to the innermost one, by their number.
_CHANNELS_LAST = {4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}


def copy_stream(state: CudaState) -> Stream:
    """The stream of a device on which it receives what is scattered."""
    stream: Stream = state.runtime.cache(("scatter stream", state.ordinal), lambda: Stream(state.device))
    return stream


@contextlib.contextmanager
def _current(stream: Stream) -> Iterator[None]:
    """Make a stream the current one of its device, without making the device current."""
    local = stream.device_state.local
    before, local.stream = local.stream, stream
    try:
        yield
    finally:
        local.stream = before


def _joined_again(
    _: Any, grads: Any, dim: int, origin: DeviceState, layouts: Sequence[Layout]
) -> tuple[Tensor]:
    """The gradient of what was scattered: the chunks' together; zeros for a chunk that none reached."""
    grads = grads if isinstance(grads, tuple) else (grads,)
    present: Any = next(grad for grad in grads if grad is not None)
    chunks = [
        present.new_zeros(layout.shape, device=layout.device) if grad is None else grad
        for grad, layout in zip(grads, layouts, strict=True)
    ]
    return (gathered(chunks, dim, origin),)


def _divided(_: Any, grad: Tensor, dim: int, origins: Sequence[Layout]) -> tuple[Tensor, ...]:
    """The gradients of what was gathered: chunks, each on the device where it came from."""
    states: list[Any] = [layout.device_state for layout in origins]
    return tuple(scattered(grad, states, [layout.shape[dim] for layout in origins], dim))


_SCATTER = DevicesFormula("ScatterBackward", "", joint=Derivative(_joined_again, needs=""))
_GATHER = DevicesFormula("GatherBackward", "", joint=Derivative(_divided, needs=""))


def scattered(
    input: Tensor,
    states: Sequence[CudaState],
    sizes: Sequence[int],
    dim: int,
    streams: Sequence[Stream | None] | None = None,
) -> list[Tensor]:
    """Chunks of ``sizes`` along ``dim``, one on the device of each of ``states``; views on the input's own device.

    Parameters
    ----------
    streams
        If passed, the copies run on these streams, or on the current one for None, and the caller waits for them.
    """
    with unrecorded():
        chunks = _scatter(input, states, sizes, dim, streams)
    _SCATTER.record(
        chunks, (input,), context=(dim, input._layout.device_state, tuple([x._layout for x in chunks]))
    )
    return chunks


def _scatter(
    input: Tensor,
    states: Sequence[CudaState],
    sizes: Sequence[int],
    dim: int,
    streams: Sequence[Stream | None] | None,
) -> list[Tensor]:
    source: Any = input._layout.device_state
    chunks: list[Tensor] = []
    receiving: list[Stream] = []
    start = 0
    with drained_on_failure() as used:
        for number, (state, size) in enumerate(zip(states, sizes, strict=True)):
            chunk = step_through(input, dim, start, size, 1)
            start += size
            if state is source:
                chunks.append(view_of(chunk._storage, chunk._layout, chunk._offset))
                continue
            requested = copy_stream(state) if streams is None else streams[number]
            stream = state.local.stream if requested is None else requested
            used.append(stream.native)
            there = _copy_on(stream, chunk)
            chunks.append(there)
            receiving.append(stream)
            if streams is None:
                main = state.local.stream
                main.native.wait_stream(stream.native)
                there.record_stream(main)
        if source.is_cuda:
            # What the device does next may write what is being read.
            for stream in receiving:
                source.local.stream.native.wait_stream(stream.native)
    return chunks


def _copy_on(stream: Stream, chunk: Tensor) -> Tensor:
    """A copy of ``chunk`` on the device of ``stream``, queued there."""
    layout, state = chunk._layout, stream.device_state
    packed = layout.as_dense()
    with _current(stream):
        if not layout.device_state.is_cuda:
            if layout.nbytes >= _PINNED_FROM and not (layout is packed and chunk.is_pinned()):
                chunk = copied(chunk, packed, pin_memory=True)
            return copied(chunk, packed.on(state), non_blocking=True)
        if not layout.numel:
            return empty(packed.on(state))
        if layout is not packed:
            chunk = copied(chunk, packed)
            # It is free before the copy from it is done.
            chunk.record_stream(stream)
        here: Any = layout.device_state
        connect((here, state))
        stream.native.wait_stream(here.local.stream.native)
        # After the wait: where a CUDA graph is captured, it makes the stream a part of it, and the memory the graph's.
        there = empty(packed.on(state))
        drv.copy_peer(
            there._address, state.native, chunk._address, here.native, packed.nbytes, stream=stream.native
        )
        return there


def gathered(tensors: Sequence[Tensor], dim: int, destination: DeviceState) -> Tensor:
    """Tensors of one shape but for ``dim``, which are on CUDA devices, joined along it on ``destination``."""
    with unrecorded():
        result = empty(_joined(tensors, dim, destination))
        if destination.is_cuda:
            _gather_to_device(tensors, dim, result)
        else:
            _gather_to_host(tensors, dim, result)
    _GATHER.record((result,), tensors, context=(dim, tuple([x._layout for x in tensors])))
    return result


def _joined(tensors: Sequence[Tensor], dim: int, destination: DeviceState) -> Layout:
    """Layout of the result: of the first one's type, with the channels last where all tensors have them so."""
    first = tensors[0]._layout
    shape = (*first.shape[:dim], sum(x._layout.shape[dim] for x in tensors), *first.shape[dim + 1 :])
    rows = contiguous[shape, first.dtype, destination]
    order = _CHANNELS_LAST.get(len(shape))
    if order is None or not all(_is_ordered(x._layout, order) for x in tensors):
        return rows
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return rows.with_strides(shape, tuple(strides))


def _is_ordered(layout: Layout, order: Sequence[int]) -> bool:
    """Whether elements lie without gaps with the dimensions in this order, and not in rows too."""
    strides = [layout.strides[axis] for axis in order]
    return layout.dense and not layout.contiguous and strides == sorted(strides, reverse=True)


def _chunks(whole: Tensor, tensors: Sequence[Tensor], dim: int) -> list[Tensor]:
    """Views of ``whole``, one for each of the tensors that it is joined from."""
    chunks, start = [], 0
    for x in tensors:
        size = x._layout.shape[dim]
        chunks.append(step_through(whole, dim, start, size, 1))
        start += size
    return chunks


def _gather_to_device(tensors: Sequence[Tensor], dim: int, result: Tensor) -> None:
    """Copy to a device: from each of the others on its own stream, so that the copies overlap."""
    there: Any = result._layout.device_state
    main = there.local.stream.native
    chunks = _chunks(result, tensors, dim)
    landed: list[tuple[Tensor, Tensor]] = []
    senders: dict[Any, None] = {}
    with drained_on_failure() as used:
        for chunk, x in zip(chunks, tensors, strict=True):
            here: Any = x._layout.device_state
            if not x._layout.numel:
                continue
            if here is there:
                there.plans[COPY, chunk._layout, x._layout](chunk, x, False)
                continue
            packed = chunk._layout.as_dense().on(here)
            if x._layout is not packed:
                x = copied(x, packed)
            target = chunk
            if not chunk._layout.dense:
                target = empty(packed.on(there))
                landed.append((chunk, target))
            stream = here.local.stream.native
            if here not in senders:
                senders[here] = None
                used.append(stream)
                connect((here, there))
            # The memory may be in use by what the device did before.
            stream.wait_stream(main)
            drv.copy_peer(
                target._address, there.native, x._address, here.native, packed.nbytes, stream=stream
            )
        for here in senders:
            main.wait_stream(here.local.stream.native)
    for chunk, target in landed:
        there.plans[COPY, chunk._layout, target._layout](chunk, target, False)


def _gather_to_host(tensors: Sequence[Tensor], dim: int, result: Tensor) -> None:
    """Copy to the host: every device sends to pinned memory before the first one is waited for."""
    sent = []
    for chunk, x in zip(_chunks(result, tensors, dim), tensors, strict=True):
        layout = chunk._layout.as_dense()
        state: Any = x._layout.device_state
        if x._layout.numel:
            if x._layout.dtype is not layout.dtype or x._layout.strides != layout.strides:
                x = copied(x, layout.on(state))
            sent.append((chunk, copied(x, layout, non_blocking=True, pin_memory=True), state.local.stream))
    for chunk, x, stream in sent:
        stream.synchronize()
        cpu.plans[COPY, chunk._layout, x._layout](chunk, x, False)

"""How elements are copied between any types, layouts and devices.

Looked up by the two layouts. What is found is one of

- on the host: NumPy, with PyTorch's conversions;
- on a device: a memory copy where both sides are contiguous and of one type, else a kernel;
- between the host and a device: an asynchronous copy of contiguous bytes; other layouts and types are
  brought into the destination's form where the source is, and spread out where the destination is;
- between devices: the same, with the streams of both ordered by events.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

import drv
from drv.failures import called_by
from drv.host.addresses import address_of
from nvrtc_kernels import host_loops, pointwise
from nvrtc_kernels.dtypes import (
    FLOAT8,
    STORAGE_ONLY,
    Category,
    bfloat16,
    float16,
    float32,
    uint64,
)
from tensor.core.base import empty, maker
from tensor.core.devices.graph_capture import capture_of
from tensor.core.dtypes import float8
from tensor.core.host import half_precision
from tensor.core.host.native_loops import address
from tensor.core.memory_format import contiguous_format
from tensor.core.modes.sync_debug import sync_debug

from .plans import planned

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nvrtc_kernels.dtypes import dtype
    from tensor.core.devices.state import CudaState
    from tensor.core.devices.stream import Stream
    from tensor.core.layout import Layout
    from tensor.core.memory_format import memory_format
    from tensor.core.storage import Storage
    from tensor.methods.tensor import Tensor

#: ``run(destination, source, non_blocking)``
Run = "Callable[[Tensor, Tensor, bool], None]"


def _copy_plan(to: Layout, origin: Layout) -> Callable[[Tensor, Tensor, bool], None]:
    """How to copy between two layouts of one shape.

    ``device_state.plans[COPY, destination_layout, source_layout]`` carries it out.
    """
    check_no_overlap(to)
    if not to.numel:
        return _nothing
    there, here = to.device_state, origin.device_state
    if not there.is_cuda and not here.is_cuda:
        return _host_copy(to, origin)
    if there.is_cuda and there is here:
        return _device_copy(to, origin, there)
    if _same_bytes(to, origin):
        if not here.is_cuda:
            return _to_device(to)
        return _peer_copy(to.nbytes, there, here) if there.is_cuda else _to_host(origin)
    return _staged(to, origin)


COPY = planned(_copy_plan, takes=STORAGE_ONLY)


def copied(input: Tensor, layout: Layout, *, non_blocking: bool = False, pin_memory: bool = False) -> Tensor:
    """A new tensor of ``layout``, which has ``input``'s shape, with ``input``'s elements. Not recorded."""
    origin = input._layout
    device_state: Any = layout.device_state if layout.device_state.is_cuda else origin.device_state
    if not (non_blocking or pin_memory):
        result: Tensor = device_state.plans[COPIED, layout, origin](input)
        return result
    output = empty(layout, pin_memory=pin_memory)
    device_state.plans[COPY, layout, origin](output, input, non_blocking)
    return output


def _copied_plan(layout: Layout, origin: Layout) -> Callable[[Tensor], Tensor]:
    """How to make one of ``layout``.

    ``device_state.plans[COPIED, layout, source_layout](source)`` is a new tensor with the elements of another.
    """
    make, copy = maker(layout), COPY.plan(layout, origin)

    def run(source: Tensor) -> Tensor:
        result = make()
        copy(result, source, False)
        return result

    return run


COPIED = planned(_copied_plan, takes=STORAGE_ONLY)


def on_contiguous(run: Callable[..., Any], *layouts: Layout | None) -> Callable[..., Any]:
    """``run`` for operands of these layouts, those of which are copied before that are not contiguous.

    ``None`` stands for what is passed on as it is.
    """
    return on_format(run, contiguous_format, *layouts)


def on_format(run: Callable[..., Any], form: memory_format, *layouts: Layout | None) -> Callable[..., Any]:
    """As :func:`on_contiguous`, for what reads operands in the format ``form``."""
    packs = [
        None
        if layout is None or form.describes(layout)
        else layout.device_state.plans[
            COPIED, layout.as_contiguous() if form is contiguous_format else form.layout(layout), layout
        ]
        for layout in layouts
    ]
    if not any(packs):
        return run

    def packed(*operands: Any) -> Any:
        return run(*[x if pack is None else pack(x) for pack, x in zip(packs, operands, strict=True)])

    return packed


def formatted(input: Tensor, form: memory_format) -> Tensor:
    """``input``, which is contiguous, or a copy whose elements lie in the format ``form``. Not recorded."""
    if form is contiguous_format:
        return input
    layout = input._layout
    to = form.layout(layout)
    if to is layout:
        return input
    result: Tensor = layout.device_state.plans[COPIED, to, layout](input)
    return result


def in_format(run: Callable[..., Any], form: memory_format) -> Callable[..., Any]:
    """``run``, whose contiguous result, or each one of a tuple, is brought into the format ``form``."""
    if form is contiguous_format:
        return run

    def ordered(*operands: Any) -> Any:
        result = run(*operands)
        if type(result) is tuple:
            return tuple([None if x is None else formatted(x, form) for x in result])
        return formatted(result, form)

    return ordered


def check_no_overlap(layout: Layout) -> None:
    """Raise RuntimeError if elements of ``layout`` certainly share memory, so that writing is ambiguous."""
    if layout.numel and any(
        step == 0 and size > 1 for size, step in zip(layout.shape, layout.strides, strict=True)
    ):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory "
            f"location (sizes {list(layout.shape)}, strides {list(layout.strides)}). Please clone() the tensor "
            "before performing the operation."
        )


def _same_bytes(to: Layout, origin: Layout) -> bool:
    """Whether copying the bytes of the one range to the other copies the elements."""
    if to.dtype is not origin.dtype or not to.dense or not origin.dense:
        return False
    return to.strides == origin.strides or (to.contiguous and origin.contiguous)


def _nothing(*_: Any) -> None:
    """No elements: nothing to do."""


# On the host


def _host_copy(to: Layout, origin: Layout) -> Callable[[Tensor, Tensor, bool], None]:
    convert = host_conversion(origin.dtype, to.dtype)

    def run(destination: Tensor, source: Tensor, _: bool) -> None:
        target = destination._writable
        with_source = source._host
        if target is not with_source:
            convert(target, with_source)

    loop = pointwise.plan_copy_on_host(to.shape, (to.strides, to.dtype), (origin.strides, origin.dtype))
    if loop is None:
        return run

    def run_loop(destination: Tensor, source: Tensor, non_blocking: bool) -> None:
        if destination._storage is source._storage:
            run(destination, source, non_blocking)
        else:
            loop(address(destination, writes=True), address(source))

    return run_loop


@cache
def host_conversion(origin: dtype, to: dtype) -> Callable[[NDArray[Any], NDArray[Any]], None]:
    """What copies NumPy elements of one type into an array of another, as PyTorch converts them.

    Floating point becomes an integer towards zero, through 64 bits for narrow integers, so that what does
    not fit wraps; a complex number gives its real part, and to bool whether it is not zero. Float8 is converted from
    and to float32.
    """
    if origin is to:
        return _directly
    if origin.is_complex and not to.is_complex and to.category is not Category.BOOL:
        from_real = host_conversion(origin.to_real(), to)
        return lambda target, source: from_real(target, source.real)
    if to in FLOAT8:
        widen = (
            (lambda source: float8.decode(source, origin)) if origin in FLOAT8 else (lambda source: source)
        )
        return lambda target, source: float8.encode(target, widen(source), to)
    if origin in FLOAT8:
        from_single = host_conversion(float32, to)
        return lambda target, source: from_single(target, float8.decode(source, origin))
    if origin.category is Category.FLOATING and to.category is Category.INTEGER:
        if to is uint64:
            return _to_uint64
        if to.itemsize < 4 or not to.is_signed:
            return _through_int64
    is_exact = origin.category <= Category.INTEGER or to.category is Category.BOOL
    part = to.itemsize // 2 if to.is_complex else to.itemsize
    if not is_exact:
        is_exact = to.category is not Category.INTEGER and part >= (
            origin.itemsize // 2 if origin.is_complex else origin.itemsize
        )
    # An integer may be too large for half precision.
    by_numpy: Callable[[NDArray[Any], NDArray[Any]], None] = (
        _quietly if not is_exact or to is float16 else _directly
    )
    half = (float16, bfloat16)
    if (origin, to) == (float16, float32):
        by_numpy = half_precision.from_float16
    elif (origin, to) == (float32, float16):
        by_numpy = half_precision.to_float16
    return _by_loop(to, origin, by_numpy) if to in half or origin in half else by_numpy


def _by_loop(
    to: dtype, origin: dtype, otherwise: Callable[[NDArray[Any], NDArray[Any]], None]
) -> Callable[[NDArray[Any], NDArray[Any]], None]:
    """By a native loop where there is one, for many contiguous elements; NumPy has none for half precision."""

    def run(target: NDArray[Any], source: NDArray[Any]) -> None:
        if (
            host_loops.worth(source.size)
            and target.shape == source.shape
            and target.flags.c_contiguous
            and source.flags.c_contiguous
            and (target.dtype, source.dtype) == (to.numpy, origin.numpy)
        ):
            loop = pointwise.conversion_on_host(to, origin)
            if loop is not None:
                loop(source.size, address_of(target), address_of(source))
                return
        otherwise(target, source)

    return run


def _directly(target: NDArray[Any], source: NDArray[Any]) -> None:
    np.copyto(target, source, casting="unsafe")


def _quietly(target: NDArray[Any], source: NDArray[Any]) -> None:
    with np.errstate(all="ignore"):
        np.copyto(target, source, casting="unsafe")


def _through_int64(target: NDArray[Any], source: NDArray[Any]) -> None:
    with np.errstate(all="ignore"):
        np.copyto(target, source.astype(np.int64), casting="unsafe")


def _to_uint64(target: NDArray[Any], source: NDArray[Any]) -> None:
    """Negative numbers wrap; NumPy leaves open what becomes of them."""
    with np.errstate(all="ignore"):
        wide = source.astype(np.float64)
        upper = wide >= float(1 << 63)
        np.copyto(target, np.where(upper, wide.astype(np.uint64), wide.astype(np.int64).view(np.uint64)))


# On one device


def _device_copy(
    to: Layout, origin: Layout, device_state: CudaState
) -> Callable[[Tensor, Tensor, bool], None]:
    native, runtime, local = device_state.native, device_state.runtime, device_state.local
    if _same_bytes(to, origin):
        nbytes = to.nbytes
        copy = runtime.driver.cuMemcpyDtoDAsync
        current = runtime.current

        def run_bytes(destination: Tensor, source: Tensor, _: bool) -> None:
            target = destination._storage.address + destination._offset
            start = source._storage.address + source._offset
            if target == start:
                return
            if current.device is not native:
                native.make_current()
            status = copy(target, start, nbytes, local.stream.handle)[0]
            if status:
                runtime.fail(status, "cuMemcpyDtoDAsync", f"{nbytes} bytes")

        return run_bytes
    launch = pointwise.plan_copy(native, to.shape, (to.strides, to.dtype), (origin.strides, origin.dtype))

    def run(destination: Tensor, source: Tensor, _: bool) -> None:
        launch(local.stream.handle, destination._address, source._address)

    return run


# Between devices


def _to_device(to: Layout) -> Callable[[Tensor, Tensor, bool], None]:
    device_state: Any = to.device_state
    nbytes, local, native, runtime = to.nbytes, device_state.local, device_state.native, device_state.runtime
    copy, current = runtime.driver.cuMemcpyHtoDAsync, runtime.current

    def run(destination: Tensor, source: Tensor, non_blocking: bool) -> None:
        stream = local.stream
        storage = source._storage
        if sync_debug.level and not non_blocking:
            sync_debug.report()
        if current.device is not native:
            native.make_current()
        if runtime.captures:
            keep_for_replays(device_state, storage)
        status = copy(destination._address, source._address, nbytes, stream.handle)[0]
        if status:
            runtime.fail(status, "cuMemcpyHtoDAsync", f"{nbytes} bytes")
        # Pageable memory has been read when the call returns.
        if storage.is_pinned():
            if non_blocking:
                storage.record_use(stream)
            else:
                _finish(stream, storage)

    return run


def _to_host(origin: Layout) -> Callable[[Tensor, Tensor, bool], None]:
    device_state: Any = origin.device_state
    nbytes, local, native, runtime = (
        origin.nbytes,
        device_state.local,
        device_state.native,
        device_state.runtime,
    )
    copy, current = runtime.driver.cuMemcpyDtoHAsync, runtime.current

    def run(destination: Tensor, source: Tensor, non_blocking: bool) -> None:
        stream = local.stream
        storage = destination._storage
        if sync_debug.level and not (non_blocking and storage.is_pinned()):
            sync_debug.report()
        if current.device is not native:
            native.make_current()
        if runtime.captures and non_blocking:
            keep_for_replays(device_state, storage)
        status = copy(destination._address, source._address, nbytes, stream.handle)[0]
        if status:
            runtime.fail(status, "cuMemcpyDtoHAsync", f"{nbytes} bytes")
        if non_blocking and storage.is_pinned():
            storage.record_use(stream)
        else:
            _finish(stream, storage)

    return run


def keep_for_replays(device_state: CudaState, storage: Storage) -> None:
    """Where the current stream is captured: keep ``storage``, which a copy reads or writes, as long as the graph.

    Raises
    ------
    CaptureError
        If it is pageable: a replay would use the addresses of that memory, whatever they hold by then.
    """
    if not device_state.runtime.is_captured(device_state.local.stream.handle):
        return
    if not storage.is_pinned():
        raise drv.CaptureError(
            "a copy between a device and pageable memory of the host while a stream is captured into a CUDA graph: a replay "
            "would copy from and to the same addresses, which may hold something else by then. Make the values on the device "
            "(such as tensor.full), copy before the capture, or copy with non_blocking=True from or to pinned memory, "
            f"which the graph keeps.\n{called_by()}"
        )
    capture = capture_of(device_state)
    if capture is not None:
        capture.referenced.append(storage)


def _finish(stream: Stream, storage: Storage) -> None:
    """Wait for a copy from or to ``storage``, which is on the host."""
    try:
        stream.native.synchronize()
    except BaseException:
        # The copy may still be under way: pinned memory must not be used for something else before it has ended.
        if storage.is_pinned():
            storage.record_use(stream)
        raise


def _peer_copy(
    nbytes: int, target: CudaState, source_place: CudaState
) -> Callable[[Tensor, Tensor, bool], None]:
    """Copy between devices on the source's current stream, after and before what the other's holds."""

    def run(destination: Tensor, source: Tensor, _: bool) -> None:
        there, here = target.local.stream, source_place.local.stream
        here.native.wait_stream(there.native)
        drv.copy_peer(
            destination._address,
            target.native,
            source._address,
            source_place.native,
            nbytes,
            stream=here.native,
        )
        there.native.wait_stream(here.native)

    return run


def _staged(to: Layout, origin: Layout) -> Callable[[Tensor, Tensor, bool], None]:
    """Copy in steps: convert and pack at the source, move the bytes, spread at the destination."""
    packed = to if to.dense else to.as_contiguous()
    here, there = packed.on(origin.device_state), packed

    def run(destination: Tensor, source: Tensor, non_blocking: bool) -> None:
        if origin is not here:
            source = copied(source, here)
        if to is there:
            target = destination
        else:
            target = empty(there)
        copies = there.device_state if there.device_state.is_cuda else here.device_state
        copies.plans[COPY, there, here](target, source, non_blocking and target is destination)
        if target is not destination:
            (to.device_state).plans[COPY, to, there](destination, target, non_blocking)

    return run

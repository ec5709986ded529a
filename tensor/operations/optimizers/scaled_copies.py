"""Many tensors copied to as many others, times a number: gradients into buckets and back; on a device in few launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import optimizer_steps
from nvrtc_kernels.dtypes import Category
from tensor.core.modes.grad_mode import unrecorded
from tensor.core.plans import planned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from nvrtc_kernels.dtypes import dtype
    from tensor.methods.tensor import Tensor


_STEP = optimizer_steps.Step("scaled_copies", "ScaledCopy<{W}>", 2, 1)


def _scaled_copies_plan(device_state: Any, dtype: dtype) -> Callable[..., None]:
    """``run(stream, addresses, counts, factor)``, with the addresses of target and source by turns.

    ``device_state.plans[operation, device_state, dtype]``: what copies tensors of one type on the device.
    """
    return optimizer_steps.plan(device_state.native, _STEP, dtype)


_COPIES = planned(_scaled_copies_plan)


def scaled_copies(targets: Sequence[Tensor], sources: Sequence[Tensor], factor: float = 1.0) -> None:
    """Set each of ``targets`` to ``factor`` times the source at its position. Nothing is recorded.

    A target may be its own source; apart from that they share no memory. Targets are on the same device and of the
    same shape as their sources. Half precision is multiplied in single precision. ``factor`` is 1 unless all tensors
    are of floating point or complex types.

    On a device one launch serves all tensors of a type that lie in memory as their sources do, up to about a hundred.
    """
    with unrecorded(), np.errstate(all="ignore"):
        groups: dict[Any, tuple[list[int], list[int]]] = {}
        last: Any = None
        addresses: list[int] = []
        counts: list[int] = []
        for target, source in zip(targets, sources, strict=True):
            layout = target._layout
            if layout is not source._layout or not layout.dense:
                _one(target, source, factor)
                continue
            if not layout.numel:
                continue
            target._storage.version += 1
            if not layout.device_state.is_cuda:
                _on_host(target, source, factor)
                continue
            dtype = layout.dtype
            if (layout.device_state, dtype) != last:
                if dtype.category is Category.BOOL:
                    target.copy_(source)
                    continue
                last = layout.device_state, dtype
                addresses, counts = groups.setdefault(last, ([], []))
            addresses += target._address, source._address
            counts.append(layout.numel * (2 if dtype.is_complex else 1))
        for (device_state, dtype), (addresses, counts) in groups.items():
            run = device_state.plans[_COPIES, device_state, dtype.to_real() if dtype.is_complex else dtype]
            run(device_state.local.stream.handle, addresses, counts, factor)


def _one(target: Tensor, source: Tensor, factor: float) -> None:
    target.copy_(source if factor == 1 else source * factor)


def _on_host(target: Tensor, source: Tensor, factor: float) -> None:
    into, array = _elements(target._writable, target), _elements(source._host, source)
    if factor == 1:
        if target is not source:
            np.copyto(into, array)
        return
    if target._layout.dtype.itemsize == 2:
        into[...] = array.astype(np.float32) * np.float32(factor)
    else:
        np.multiply(array, array.dtype.type(factor), out=into)


def _elements(array: NDArray[Any], x: Tensor) -> NDArray[Any]:
    """Elements of a tensor without gaps as they lie in memory."""
    layout = x._layout
    if layout.contiguous:
        return array
    return array.transpose(sorted(range(array.ndim), key=lambda dim: -layout.strides[dim]))

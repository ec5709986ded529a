"""The norm of many tensors as if they were one, and all of them times a number; on a device in few launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import gradient_norms, optimizer_steps
from nvrtc_kernels.dtypes import float32, float64
from tensor.core.base import empty, wrap
from tensor.core.devices.state import cpu
from tensor.core.layout import contiguous
from tensor.core.modes.grad_mode import unrecorded
from tensor.core.plans import planned
from tensor.core.plans.steps import one_step
from tensor.operations.reductions.variance import vector_norm
from tensor.operations.shapes.joining import stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from nvrtc_kernels.dtypes import dtype
    from tensor.core.devices.state import DeviceState
    from tensor.methods.tensor import Tensor

#: Elements that are computed with at a time on the host: they stay in the processor's cache.
_BLOCK = 1 << 15


def _norm_plan(device_state: Any, dtype: dtype) -> Callable[..., None]:
    """What computes the norm of tensors of one real type.

    ``device_state.plans[operation, device_state, dtype]``: what :func:`nvrtc_kernels.gradient_norms.plan` gives.
    """
    return gradient_norms.plan(device_state.native, dtype)


_SCALE_STEP = optimizer_steps.Step("scale_gradients", "Scale<{W}>", 1, 0, 1)


def _scale_plan(device_state: Any, dtype: dtype) -> Callable[..., None]:
    """What scales tensors of one real type.

    ``device_state.plans[operation, device_state, dtype]``: what multiplies tensors by a number on the device.
    """
    return optimizer_steps.plan(device_state.native, _SCALE_STEP, dtype)


_NORM, _SCALE = planned(_norm_plan), planned(_scale_plan)


def _groups(tensors: Iterable[Tensor]) -> dict[tuple[DeviceState, dtype], list[Tensor]]:
    """Tensors with elements by place and type."""
    result: dict[tuple[DeviceState, dtype], list[Tensor]] = {}
    for each in tensors:
        layout = each._layout
        if layout.numel:
            result.setdefault((layout.device_state, layout.dtype), []).append(each)
    return result


def _real(dtype: dtype) -> tuple[dtype, int]:
    """Type of the numbers of an element, and how many there are."""
    return (dtype.to_real(), 2) if dtype.is_complex else (dtype, 1)


def _elements(x: Tensor, dtype: dtype, *, writes: bool) -> NDArray[Any]:
    """Elements of a CPU tensor without gaps as they lie in memory."""
    array = x._writable if writes else x._host
    strides = x._layout.strides
    if not x._layout.contiguous:
        array = array.transpose(sorted(range(array.ndim), key=lambda dim: -strides[dim]))
    return array.reshape(-1).view(dtype.numpy)


@one_step
def total_norm(tensors: Sequence[Tensor]) -> Tensor | None:
    """2-norm of all elements, without dimensions, on the first tensor's device; nothing is recorded.

    Returns
    -------
    Tensor or None
        Of float64 where all tensors are, otherwise of float32; ``None`` where a tensor is of another type
        than floating point and complex ones.
    """
    if not all(x._layout.dtype.is_floating_point or x._layout.dtype.is_complex for x in tensors):
        return None
    with unrecorded():
        norms = [
            _norm_of_group(device_state, grads_dtype, group)
            for (device_state, grads_dtype), group in _groups(tensors).items()
        ]
        if not norms:
            return wrap(np.zeros((), np.float32)).to(tensors[0].device)
        first = tensors[0].device
        if len(norms) == 1:
            return norms[0].to(first)
        accumulate_dtype = float64 if all(each.dtype is float64 for each in norms) else float32
        return vector_norm(stack([each.to(first, accumulate_dtype) for each in norms]))


def _norm_of_group(device_state: Any, dtype: dtype, group: list[Tensor]) -> Tensor:
    real, numbers = _real(dtype)
    accumulate_dtype = float64 if real is float64 else float32
    group = [x if x._layout.dense else x.contiguous() for x in group]
    if not device_state.is_cuda:
        return _norm_on_host(group, real, accumulate_dtype)
    counts = [x._layout.numel * numbers for x in group]
    result = empty(contiguous[(), accumulate_dtype, device_state])
    partial = empty(contiguous[(gradient_norms.partial_count(real, counts),), accumulate_dtype, device_state])
    run = device_state.plans[_NORM, device_state, real]
    run(
        device_state.local.stream.handle,
        [x._address for x in group],
        counts,
        partial._address,
        result._address,
    )
    return result


def _norm_on_host(group: list[Tensor], real: dtype, accumulate_dtype: dtype) -> Tensor:
    total = 0.0
    with np.errstate(all="ignore"):
        for each in group:
            array = _elements(each, real, writes=False)
            for begin in range(0, len(array), _BLOCK):
                part = array[begin : begin + _BLOCK]
                if real is not accumulate_dtype:
                    part = part.astype(accumulate_dtype.numpy)
                total += float(np.dot(part, part))
        return wrap(np.asarray(np.sqrt(total), accumulate_dtype.numpy), contiguous[(), accumulate_dtype, cpu])


@one_step
def scale(tensors: Sequence[Tensor], factor: Tensor) -> None:
    """Multiply all tensors, which are of floating point or complex types, by ``factor`` in place.

    ``factor`` has one element, on any device; nothing is recorded.
    """
    with unrecorded():
        known: dict[tuple[DeviceState, dtype], Tensor] = {}
        for (device_state, grads_dtype), group in _groups(tensors).items():
            real, numbers = _real(grads_dtype)
            factor_dtype = float64 if real is float64 else float32
            if (device_state, factor_dtype) not in known:
                known[device_state, factor_dtype] = factor.to(device_state.device, factor_dtype)
            number = known[device_state, factor_dtype]
            dense = [x for x in group if x._layout.dense]
            for x in group:
                if not x._layout.dense:
                    x.mul_(number)
            _scale_group(device_state, real, numbers, dense, number)


def _scale_group(device_state: Any, real: dtype, numbers: int, group: list[Tensor], factor: Tensor) -> None:
    for x in group:
        x._storage.version += 1
    if device_state.is_cuda:
        counts = [x._layout.numel * numbers for x in group]
        run = device_state.plans[_SCALE, device_state, real]
        run(device_state.local.stream.handle, [x._address for x in group], counts, factor._address)
        return
    number = factor._host
    with np.errstate(all="ignore"):
        for x in group:
            array = _elements(x, real, writes=True)
            if real.itemsize == 2:
                array[...] = array.astype(np.float32) * number
            else:
                array *= number

"""New tensors of a shape: ``empty``, ``zeros``, ``ones``, ``full``, their ``*_like`` and ``new_*`` forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import dtypes
from nvrtc_kernels import layouts as strides_of
from nvrtc_kernels.dtypes import dtype

from . import layout as layouts
from .arguments import integers
from .base import TensorBase, wrap
from .base import empty as make
from .fills import FILL
from .formats import memory_format as MemoryFormat
from .formats import preserve_format
from .places import cpu, place_of
from .scalars import dtype_of, element

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .layout import Layout
    from .places import Place
    from .tensors import Tensor

_default_dtype = dtypes.float32


def get_default_dtype() -> dtype:
    """Type of tensors made from Python floats, and of new tensors."""
    return _default_dtype


def set_default_dtype(d: dtype) -> None:
    """Make ``d`` the type of tensors made from Python floats, and of new tensors; float32 at first.

    Raises
    ------
    TypeError
        If it is no floating point type.
    """
    global _default_dtype
    if not isinstance(d, dtype) or not d.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, got {d!r}")
    _default_dtype = d


def new_layout(
    shape: tuple[int, ...], dtype: dtype | None, place: Place, memory_format: MemoryFormat | None = None
) -> Layout:
    """Checked layout for new memory, row-major but for ``memory_format``."""
    kind = _default_dtype if dtype is None else dtype
    try:
        found = layouts.contiguous[shape, kind, place]
    except AttributeError:
        raise TypeError(f"dtype must be a tensor.dtype such as tensor.float32, got {dtype!r}") from None
    return found if memory_format is None else memory_format.layout(found)


def finish(made: Tensor, requires_grad: bool, out: Tensor | None = None) -> Tensor:
    """What a creating function returns: ``made``, or ``out`` filled with it."""
    if out is not None:
        return deliver(out, made, "out")
    if requires_grad:
        made.requires_grad_(True)
    return made


def deliver(out: Tensor, made: Tensor, function: str) -> Tensor:
    """Write ``made`` to ``out``, which must have its shape, dtype and device."""
    if out._layout.dtype is not made._layout.dtype or out._layout.place is not made._layout.place:
        raise RuntimeError(
            f"{function}: expected a tensor of {made._layout.dtype!r} on {made._layout.device}, got "
            f"{out._layout.dtype!r} on {out._layout.device}"
        )
    if out._layout.shape != made._layout.shape:
        out.resize_(made._layout.shape)
    return out.copy_(made)


def empty(
    *size: Any,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """Tensor of shape ``size`` with undefined contents.

    Parameters
    ----------
    size
        Sizes, one by one or as a sequence.
    dtype
        By default :func:`get_default_dtype`.
    device
        By default the CPU.
    pin_memory : bool
        Whether a CPU tensor lies in page-locked memory, from and to which copies are asynchronous.

    Raises
    ------
    RuntimeError
        For a negative size, or pinned memory on a CUDA device.
    OutOfMemoryError
        If the device has not so much memory.
    """
    place = cpu if device is None else place_of(device)
    found = new_layout(integers(size, "empty"), dtype, place, memory_format)
    if pin_memory and place.is_cuda:
        raise RuntimeError(
            f"Only dense CPU tensors can be pinned: pin_memory=True with device {place.device} makes no sense"
        )
    made = make(found, pin_memory=pin_memory)
    return made if out is None and not requires_grad else finish(made, requires_grad, out)


def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Tensor of given shape and strides (in elements) with undefined contents.

    Raises
    ------
    RuntimeError
        If sizes and strides differ in number, or one is negative.
    """
    shape, steps = integers((size,), "empty_strided"), integers((stride,), "empty_strided", "stride")
    if len(shape) != len(steps):
        raise RuntimeError(
            f"mismatch in length of strides and shape: {len(steps)} strides, {len(shape)} sizes"
        )
    if any(step < 0 for step in steps):
        raise RuntimeError(f"empty_strided: strides must not be negative, got {list(steps)}")
    found = new_layout(shape, dtype, place_of(device)).with_strides(shape, steps)
    if pin_memory and found.place.is_cuda:
        raise RuntimeError("Only dense CPU tensors can be pinned")
    return finish(make(found, pin_memory=pin_memory), requires_grad)


def filled(layout: Layout, value: Any, *, pin_memory: bool = False) -> Tensor:
    """New tensor of ``layout`` with ``value`` everywhere, which the dtype must hold."""
    if value == 0 and layout.contiguous and not layout.place.is_cuda and not pin_memory:
        # The operating system hands out zeros: nothing is written until it is used.
        return wrap(np.zeros(layout.shape, layout.dtype.numpy), layout)
    made = make(layout, pin_memory=pin_memory)
    layout.place.plans[FILL, layout](made, value)
    return made


def zeros(
    *size: Any,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Tensor of shape ``size`` with 0 everywhere; see :func:`empty`."""
    place = cpu if device is None else place_of(device)
    found = new_layout(integers(size, "zeros"), dtype, place)
    made = filled(found, 0j if found.dtype.is_complex else 0, pin_memory=pin_memory)
    return made if out is None and not requires_grad else finish(made, requires_grad, out)


def ones(
    *size: Any,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Tensor of shape ``size`` with 1 everywhere; see :func:`empty`."""
    found = new_layout(integers(size, "ones"), dtype, place_of(device))
    made = filled(found, element(1, found.dtype), pin_memory=pin_memory)
    return finish(made, requires_grad, out)


def full(
    size: Sequence[int],
    fill_value: Any,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Tensor of shape ``size`` with ``fill_value`` everywhere.

    Parameters
    ----------
    dtype
        By default the type that stands for ``fill_value``: bool, int64, or the default type, real or complex.

    Raises
    ------
    RuntimeError
        If the dtype cannot hold the value. See :func:`empty` too.
    """
    if dtype is None:
        if isinstance(fill_value, TensorBase):
            dtype = fill_value._layout.dtype
        else:
            dtype = default_dtype_of(fill_value)
    found = new_layout(integers((size,), "full"), dtype, place_of(device))
    made = filled(found, element(fill_value, found.dtype), pin_memory=pin_memory)
    return finish(made, requires_grad, out)


def default_dtype_of(value: Any) -> dtype:
    """Type of a tensor made from a Python number."""
    kind = dtype_of(value)
    if kind is dtypes.float64:
        return _default_dtype
    if kind is dtypes.complex128:
        return dtypes.complex128 if _default_dtype is dtypes.float64 else dtypes.complex64
    return kind


# Like another tensor


def layout_like(
    input: Tensor, dtype: dtype | None, device: Any, memory_format: MemoryFormat | None
) -> Layout:
    """Layout of ``input``'s shape and order of dimensions, unless another is asked for."""
    found = input._layout
    if dtype is not None:
        found = found.with_dtype(dtype)
    if device is not None:
        found = found.on(place_of(device))
    return found.as_dense() if memory_format is None else memory_format.layout(found)


def empty_like(
    input: Tensor,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: MemoryFormat = preserve_format,
) -> Tensor:
    """Tensor of ``input``'s shape, dtype, device and order of dimensions with undefined contents."""
    found = layout_like(input, dtype, device, memory_format)
    return finish(make(found, pin_memory=pin_memory), requires_grad)


def zeros_like(
    input: Tensor,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: MemoryFormat = preserve_format,
) -> Tensor:
    """Zeros, otherwise as :func:`empty_like`."""
    found = layout_like(input, dtype, device, memory_format)
    return finish(filled(found, element(0, found.dtype), pin_memory=pin_memory), requires_grad)


def ones_like(
    input: Tensor,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: MemoryFormat = preserve_format,
) -> Tensor:
    """Ones, otherwise as :func:`empty_like`."""
    found = layout_like(input, dtype, device, memory_format)
    return finish(filled(found, element(1, found.dtype), pin_memory=pin_memory), requires_grad)


def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: MemoryFormat = preserve_format,
) -> Tensor:
    """``fill_value`` everywhere, otherwise as :func:`empty_like`."""
    found = layout_like(input, dtype, device, memory_format)
    return finish(filled(found, element(fill_value, found.dtype), pin_memory=pin_memory), requires_grad)


def _new(input: Tensor, size: tuple[Any, ...], function: str, dtype: dtype | None, device: Any) -> Layout:
    place = input._layout.place if device is None else place_of(device)
    return new_layout(integers(size, function), dtype or input._layout.dtype, place)


def new_empty(
    input: Tensor,
    *size: Any,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Tensor of shape ``size`` and ``input``'s dtype and device, with undefined contents."""
    return finish(make(_new(input, size, "new_empty", dtype, device), pin_memory=pin_memory), requires_grad)


def new_zeros(
    input: Tensor,
    *size: Any,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Zeros of shape ``size`` and ``input``'s dtype and device."""
    found = _new(input, size, "new_zeros", dtype, device)
    return finish(filled(found, element(0, found.dtype), pin_memory=pin_memory), requires_grad)


def new_ones(
    input: Tensor,
    *size: Any,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Ones of shape ``size`` and ``input``'s dtype and device."""
    found = _new(input, size, "new_ones", dtype, device)
    return finish(filled(found, element(1, found.dtype), pin_memory=pin_memory), requires_grad)


def new_full(
    input: Tensor,
    size: Sequence[int],
    fill_value: Any,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """``fill_value`` everywhere, of shape ``size`` and ``input``'s dtype and device."""
    found = _new(input, (size,), "new_full", dtype, device)
    return finish(filled(found, element(fill_value, found.dtype), pin_memory=pin_memory), requires_grad)


def new_empty_strided(
    input: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Tensor of given shape and strides, and ``input``'s dtype and device."""
    return empty_strided(
        size,
        stride,
        dtype=dtype or input._layout.dtype,
        device=input._layout.device if device is None else device,
        requires_grad=requires_grad,
        pin_memory=pin_memory,
    )


def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Complex tensor of two real ones of the same dtype, float32 or float64, broadcast to one shape.

    Raises
    ------
    RuntimeError
        If the dtypes or devices differ, or there is no such complex dtype.
    """
    kind = real._layout.dtype
    if kind.name not in ("float32", "float64") or imag._layout.dtype is not kind:
        raise RuntimeError(
            "Expected both inputs to be Float or Double tensors of the same dtype but got "
            f"{kind!r} and {imag._layout.dtype!r}"
        )
    if real._layout.place is not imag._layout.place:
        raise RuntimeError(
            f"complex(): expected both parts on one device, got {real._layout.device} and {imag._layout.device}"
        )
    shape = strides_of.broadcast_shapes(real._layout.shape, imag._layout.shape)
    made = make(layouts.contiguous[shape, kind.to_complex(), real._layout.place])
    made.real.copy_(real)
    made.imag.copy_(imag)
    return made if out is None else deliver(out, made, "complex")

"""The default dtype: that of tensors made from Python floats, and of new tensors that name none."""

from __future__ import annotations

from typing import Any

from nvrtc_kernels import dtypes
from nvrtc_kernels.dtypes import dtype
from tensor.core.devices.state import forget_plans

from .scalars import dtype_of

_default_dtype = dtypes.float32


def get_default_dtype() -> dtype:
    """The dtype of tensors made from Python floats, and of new tensors that name none: float32 unless set.

    :func:`set_default_dtype` sets it.

    Examples
    --------
    >>> tensor.get_default_dtype()
    tensor.float32
    """
    return _default_dtype


def set_default_dtype(d: dtype) -> None:
    """Make ``d`` the dtype of tensors made from Python floats, and of new tensors that name none; float32 at first.

    Raises
    ------
    TypeError
        If it is not a floating point dtype.
    """
    global _default_dtype
    if not isinstance(d, dtype) or not d.is_floating_point or d.is_storage_only:
        raise TypeError(f"only floating-point types are supported as the default type, got {d!r}")
    if d is not _default_dtype:
        _default_dtype = d
        forget_plans()


def default_dtype_of(value: Any) -> dtype:
    """Type of a tensor made from a Python number."""
    dtype = dtype_of(value)
    if dtype is dtypes.float64:
        return _default_dtype
    if dtype is dtypes.complex128:
        return dtypes.complex128 if _default_dtype is dtypes.float64 else dtypes.complex64
    return dtype

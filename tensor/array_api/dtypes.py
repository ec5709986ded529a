"""Dtypes: their kinds, limits, and which promote to which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nvrtc_kernels import dtypes
from nvrtc_kernels.dtypes import dtype as _dtype
from tensor.core.dtypes.limits import finfo as _finfo
from tensor.core.dtypes.limits import iinfo as _iinfo
from tensor.methods.tensor import Tensor

from .operations import ops, promoted

_SIGNED = (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)
_UNSIGNED = (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64)
_REAL = (dtypes.float32, dtypes.float64)
_COMPLEX = (dtypes.complex64, dtypes.complex128)
#: Dtypes that are stored, but do not promote or compute.
STORED = (dtypes.uint16, dtypes.uint32, dtypes.uint64)
#: The standard's kinds of dtypes.
KINDS = {
    "bool": (dtypes.bool_,),
    "signed integer": _SIGNED,
    "unsigned integer": _UNSIGNED,
    "integral": _SIGNED + _UNSIGNED,
    "real floating": _REAL,
    "complex floating": _COMPLEX,
    "numeric": _SIGNED + _UNSIGNED + _REAL + _COMPLEX,
}


def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """See :meth:`tensor.Tensor.to`; without ``copy``, ``x`` itself where it has the ``dtype`` and ``device`` already."""
    return x.to(device=x.device if device is None else device, dtype=dtype, copy=copy)


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """See :func:`tensor.broadcast_tensors`; the result is a list."""
    return list(ops.broadcast_tensors(*arrays))


def broadcast_to(x: Tensor, /, shape: Any) -> Tensor:
    """See :func:`tensor.broadcast_to`, for ``x`` and its new ``shape``."""
    return ops.broadcast_to(x, tuple(shape))  # type: ignore[no-any-return]


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether a dtype or an array ``from_`` promotes to ``to`` and nothing else.

    >>> xp = tensor.zeros(1).__array_namespace__()
    >>> xp.can_cast(xp.int32, xp.int64), xp.can_cast(xp.float64, xp.float32)
    (True, False)
    """
    source = from_.dtype if isinstance(from_, Tensor) else from_
    return bool(ops.promote_types(source, to) == to)


@dataclass(frozen=True, slots=True)
class FloatLimits:
    """Limits of a floating point or complex dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: _dtype


@dataclass(frozen=True, slots=True)
class IntegerLimits:
    """Limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: _dtype


def finfo(type: Any, /) -> FloatLimits:
    """See :class:`tensor.finfo`; ``type`` may be an array, and ``dtype`` of the result is a dtype."""
    dtype = type.dtype if isinstance(type, Tensor) else type
    real = {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}.get(dtype, dtype)
    limits = _finfo(real)
    return FloatLimits(limits.bits, limits.eps, limits.max, limits.min, limits.smallest_normal, real)


def iinfo(type: Any, /) -> IntegerLimits:
    """See :class:`tensor.iinfo`; ``type`` may be an array, and ``dtype`` of the result is a dtype."""
    dtype = type.dtype if isinstance(type, Tensor) else type
    limits = _iinfo(dtype)
    return IntegerLimits(limits.bits, limits.max, limits.min, dtype)


def isdtype(dtype: _dtype, kind: Any) -> bool:
    """Whether ``dtype`` is of a kind: of a dtype, a name, or one of several in a tuple.

    Parameters
    ----------
    dtype : dtype
        What is asked about.
    kind : dtype, str or tuple
        ``"bool"``, ``"signed integer"``, ``"unsigned integer"``, ``"integral"``, ``"real floating"``,
        ``"complex floating"``, ``"numeric"``.

    Raises
    ------
    ValueError
        If there is no such kind.

    Examples
    --------
    >>> xp = tensor.zeros(1).__array_namespace__()
    >>> xp.isdtype(xp.float32, ("integral", "real floating"))
    True
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(f"isdtype(): kind is {kind!r}, expected one of {', '.join(KINDS)}")
        # Floats of 16 bits are real, too, though the standard has none.
        return dtype in KINDS[kind] or (kind in ("real floating", "numeric") and dtype.is_floating_point)
    return bool(dtype == kind)


def result_type(*arrays_and_dtypes: Any) -> _dtype:
    """The dtype that arrays and dtypes promote to together; numbers among them have the kind that they are of.

    Raises
    ------
    ValueError
        If there is neither an array nor a dtype in ``arrays_and_dtypes``.
    """
    known = [
        each.dtype if isinstance(each, Tensor) else each
        for each in arrays_and_dtypes
        if isinstance(each, (Tensor, _dtype))
    ]
    if not known:
        raise ValueError("result_type() wants at least one array or dtype")
    common = promoted(*[ops.empty((1,), dtype=each) for each in known])[0]
    numbers = [each for each in arrays_and_dtypes if isinstance(each, (bool, int, float, complex))]
    for each in numbers:
        common = ops.empty((1,), dtype=ops.result_type(common, each))
    return common.dtype  # type: ignore[no-any-return]

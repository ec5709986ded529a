"""Limits of the element types: ``finfo`` and ``iinfo``."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from nvrtc_kernels import dtypes

from .default import get_default_dtype


class finfo:  # noqa: N801 - PyTorch's name
    """Limits of a floating point type (of the parts, for a complex type).

    Attributes
    ----------
    bits : int
        Bits of one number.
    eps : float
        Distance from 1 to the next larger number.
    max, min : float
        Largest and smallest (most negative) finite number.
    tiny, smallest_normal : float
        Smallest positive normal number.
    resolution : float
        Decimal resolution, ``10 ** -digits``.
    dtype : str
        Name of the type.

    Raises
    ------
    TypeError
        For a type that is not floating point or complex.
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")

    bits: int
    dtype: str
    eps: float
    max: float
    min: float
    resolution: float
    smallest_normal: float
    tiny: float

    def __init__(self, type: dtypes.dtype | None = None) -> None:
        if type is None:
            type = get_default_dtype()
        if not isinstance(type, dtypes.dtype) or not (type.is_floating_point or type.is_complex):
            raise TypeError(
                f"finfo() wants a floating point or complex dtype, got {type!r}; use iinfo for integers"
            )
        real = type.to_real()
        limits = ml_dtypes.finfo(real.numpy)
        resolution = float(f"1e-{math.floor(-math.log10(limits.eps))}")
        values = {
            "bits": int(limits.bits),
            "eps": float(limits.eps),
            "max": float(limits.max),
            "min": float(limits.min),
            "tiny": float(limits.smallest_normal),
            "smallest_normal": float(limits.smallest_normal),
            "resolution": resolution,
            "dtype": real.name,
        }
        _set(self, values)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"limits cannot be changed (tried to set {name!r} of {self!r})")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(("finfo", self.dtype))

    def __repr__(self) -> str:
        shown = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        values = ", ".join(f"{name}={getattr(self, name):g}" for name in shown)
        return f"finfo({values}, dtype={self.dtype})"


def _set(limits: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        object.__setattr__(limits, name, value)


class iinfo:  # noqa: N801 - PyTorch's name
    """Limits of an integer type: ``bits``, ``min``, ``max`` and the type's name ``dtype``.

    Raises
    ------
    TypeError
        For a type that is not an integer.
    """

    __slots__ = ("bits", "dtype", "max", "min")

    bits: int
    dtype: str
    max: int
    min: int

    def __init__(self, type: dtypes.dtype) -> None:
        if not isinstance(type, dtypes.dtype) or type.numpy.kind not in "iu":
            raise TypeError(f"iinfo() wants an integer dtype, got {type!r}; use finfo for floating point")
        limits = np.iinfo(type.numpy)
        values = {
            "bits": int(limits.bits),
            "min": int(limits.min),
            "max": int(limits.max),
            "dtype": type.name,
        }
        _set(self, values)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"limits cannot be changed (tried to set {name!r} of {self!r})")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(("iinfo", self.dtype))

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

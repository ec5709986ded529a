"""Limits of the element types: ``finfo`` and ``iinfo``."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from nvrtc_kernels.dtypes import dtype


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

    def __init__(self, type: dtype) -> None:
        if not isinstance(type, dtype) or not (type.is_floating_point or type.is_complex):
            raise TypeError(
                f"finfo() wants a floating point or complex dtype, got {type!r}; use iinfo for integers"
            )
        real = type.to_real()
        limits = ml_dtypes.finfo(real.numpy)
        self.bits = int(limits.bits)
        self.eps = float(limits.eps)
        self.max = float(limits.max)
        self.min = float(limits.min)
        self.tiny = self.smallest_normal = float(limits.smallest_normal)
        self.resolution = float(f"{float(limits.resolution):g}")
        self.dtype = real.name

    def __repr__(self) -> str:
        shown = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        values = ", ".join(f"{name}={getattr(self, name):g}" for name in shown)
        return f"finfo({values}, dtype={self.dtype})"


class iinfo:  # noqa: N801 - PyTorch's name
    """Limits of an integer type: ``bits``, ``min``, ``max`` and the type's name ``dtype``.

    Raises
    ------
    TypeError
        For a type that is not an integer.
    """

    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, type: dtype) -> None:
        if not isinstance(type, dtype) or type.numpy.kind not in "iu":
            raise TypeError(f"iinfo() wants an integer dtype, got {type!r}; use finfo for floating point")
        limits = np.iinfo(type.numpy)
        self.bits = int(limits.bits)
        self.min = int(limits.min)
        self.max = int(limits.max)
        self.dtype = type.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"

"""float8 numbers on the host, from and to float32, bit for bit as PyTorch converts them.

``ml_dtypes`` rounds as PyTorch does, to the nearest number with ties to even, but lets what is too large for
``float8_e4m3fn``, which has no infinity, become NaN, where PyTorch takes the largest number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import FLOAT8, float8_e4m3fn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nvrtc_kernels.dtypes import dtype

_LARGEST_E4M3 = np.float32(448)
_NAN, _NEGATIVE_NAN = 0x7F, 0xFF
#: Bit patterns in float32 of the exponent that stands for infinity and NaN, of the sign, and of a quiet NaN.
_SPECIAL, _SIGN, _QUIET = 0x7F800000, 0x80000000, 0x400000


def _decoded(dtype: dtype) -> NDArray[np.float32]:
    """All 256 numbers by their bit patterns."""
    patterns = np.arange(256, dtype=np.uint8)
    values: NDArray[np.float32] = patterns.view(dtype.numpy).astype(np.float32)
    payload = (patterns & 0x7F).astype(np.uint32)
    sign = np.where(patterns >> 7, np.uint32(_SIGN), np.uint32(0))
    # The fraction goes to the upper end of float32's; the hardware makes quiet NaNs of the others.
    fraction = (payload & 7) << 20 if dtype is float8_e4m3fn else ((payload & 3) << 21) | _QUIET
    nan = np.isnan(values)
    values.view(np.uint32)[nan] = (sign | _SPECIAL | fraction)[nan]
    result: NDArray[np.float32] = values
    return result


_DECODED = {dtype: _decoded(dtype) for dtype in FLOAT8}


def decode(source: NDArray[Any], dtype: dtype) -> NDArray[np.float32]:
    """Elements of a float8 ``dtype`` as float32."""
    result: NDArray[np.float32] = _DECODED[dtype][source.view(np.uint8)]
    return result


def encode(target: NDArray[Any], source: NDArray[Any], dtype: dtype) -> None:
    """Write real numbers to ``target``, which has the float8 ``dtype``; they are rounded to float32 before."""
    with np.errstate(all="ignore"):
        single = source.astype(np.float32, copy=False)
        nan = np.isnan(single)
        if dtype is float8_e4m3fn:
            single = np.clip(single, -_LARGEST_E4M3, _LARGEST_E4M3)
        target[...] = single.astype(dtype.numpy)
    if nan.any():
        pattern = np.where(np.signbit(single), np.uint8(_NEGATIVE_NAN), np.uint8(_NAN))
        np.copyto(target.view(np.uint8), pattern, where=nan)


def rounded(value: float, dtype: dtype) -> float:
    """The number of a float8 ``dtype`` that ``value`` becomes."""
    held = np.empty((), dtype.numpy)
    encode(held, np.array(value), dtype)
    return float(decode(held, dtype))

"""Conversion of float16 to and from float32 by steps of integers on whole blocks, as NumPy's loops have no vector instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

#: Elements that are converted at a time, and up to which NumPy's own loop is quicker than the steps.
_BLOCK, _FEW = 1 << 16, 1 << 9


def _integer(bits: int) -> NDArray[np.int32]:
    return np.array(bits, np.uint32).view(np.int32)


def _single(number: float) -> NDArray[np.float32]:
    return np.array(number, np.float32)


_UPPER, _EXPONENT, _SIGN_OF_HALF = _integer(16), _integer(0x7F800000), _integer(0x8000)

# float16 has 13 bits of a fraction less than float32, and an exponent that is less by 112.
_FRACTION, _SIGN_AND_NUMBER = _integer(13), _integer(0x8FFFE000)
_UP, _DOWN = _single(2.0**112), _single(2.0**-112)
#: Bits of 65536, which is what infinities of float16 come out as, and from which on there are only infinities in float16.
_INFINITE = _integer(0x47800000)
#: Added to a number times its power of two and taken away again, it leaves the fraction of float16.
_ROUNDING = _single(1.5 * 2.0**13)
#: The smallest power of two that has all bits of a fraction, for each element of a block, as the loop of the maximum with a number
#: takes four times as long.
_SMALLEST = np.full(_BLOCK, 2.0**-14, np.float32)


def block_from_float16(target: NDArray[np.float32], source: NDArray[np.float16]) -> None:
    """Copy float16 to float32: contiguous, of one dimension and at most 65,536 elements, where NumPy ignores errors."""
    bits = target.view(np.int32)
    # Sign and number go where they are in float32; the exponent is set right by a product, which subnormal numbers need, too.
    bits[...] = source.view(np.int16)
    np.left_shift(bits, _FRACTION, out=bits)
    np.bitwise_and(bits, _SIGN_AND_NUMBER, out=bits)
    np.multiply(target, _UP, out=target)
    if (
        np.maximum.reduce(source.view(np.int16)) >= 0x7C00
        or np.maximum.reduce(source.view(np.uint16)) >= 0xFC00
    ):
        # They have come out as numbers from 65536 on, and have all bits of the exponent set.
        exponent = scratch(bits)
        np.bitwise_and(bits, _EXPONENT, out=exponent)
        bits |= np.multiply(exponent >= _INFINITE, _EXPONENT, out=exponent)


def block_to_float16(target: NDArray[np.float16], source: NDArray[np.float32]) -> None:
    """Round float32 to float16, to the nearest number and to even ones in between; of the same arrays."""
    bits = source.view(np.int32)
    power = scratch(source)
    power_bits = power.view(np.int32)
    np.bitwise_and(bits, _EXPONENT, out=power_bits)
    large = np.maximum.reduce(power_bits) >= _INFINITE
    # Subnormal numbers have steps of one size.
    np.maximum(power, _SMALLEST[: power.size], out=power)
    np.multiply(power, _ROUNDING, out=power)
    rounded = scratch(source)
    np.add(source, power, out=rounded)
    np.subtract(rounded, power, out=rounded)
    np.multiply(rounded, _DOWN, out=rounded)
    half = rounded.view(np.int32)
    np.right_shift(half, _FRACTION, out=half)
    # The sign of what was rounded to 0 is lost; that of others lies above bit 15, which is cut off.
    np.right_shift(bits, _UPPER, out=power_bits)
    np.bitwise_and(power_bits, _SIGN_OF_HALF, out=power_bits)
    np.bitwise_or(half, power_bits, out=half)
    np.copyto(target.view(np.int16), half, casting="unsafe")
    if large:
        where = np.flatnonzero(~(np.abs(source) < 65536))
        target[where] = source[where].astype(np.float16)


def _blocks(
    convert: Callable[[NDArray[Any], NDArray[Any]], None],
) -> Callable[[NDArray[Any], NDArray[Any]], None]:
    """``convert(target, source)`` of blocks for arrays of any one shape that do not overlap."""

    def convert_all(target: NDArray[Any], source: NDArray[Any]) -> None:
        if (
            source.size <= _FEW
            or source.shape != target.shape
            or not (source.flags.c_contiguous and target.flags.c_contiguous)
        ):
            with np.errstate(all="ignore"):
                np.copyto(target, source, casting="unsafe")
            return
        source, target = source.reshape(-1), target.reshape(-1)
        with np.errstate(all="ignore"):
            for start in range(0, source.size, _BLOCK):
                convert(target[start : start + _BLOCK], source[start : start + _BLOCK])

    return convert_all


#: ``from_float16(target, source)`` copies float16 to float32, ``to_float16(target, source)`` rounds float32 to float16.
from_float16, to_float16 = _blocks(block_from_float16), _blocks(block_to_float16)


def converted(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """``array.astype(dtype)``, of float16 by :func:`from_float16`."""
    if array.dtype != np.float16 or dtype != np.float32:
        return array.astype(dtype)
    result = np.empty_like(array, dtype)
    from_float16(result, array)
    return result

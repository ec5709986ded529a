"""Random words to numbers of a distribution.

Only operations that every IEEE machine rounds alike are used (add, subtract, multiply, divide, square
root, integer operations), in a fixed order and never fused. The CUDA kernels do the same in the same
order, which is why one seed gives the same numbers on CPU and GPU, bit for bit.

``nvrtc_kernels.normal_quantile`` has the normal quantile in double precision, and the table for single precision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.normal_quantile import FIRST_SEGMENT, SEGMENT_BITS, quantile, segments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]


def joined(words: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """64 bits per two words, low word first; the same memory."""
    return words.view(np.uint64)


def uniform32(words: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Multiples of 2**-24 in ``[0, 1)``, one per word."""
    # Signed integers, which these are too, have the quicker conversion.
    result = (words >> np.uint32(8)).view(np.int32).astype(np.float32)
    result *= np.float32(2.0**-24)
    return result


def uniform64(words: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Multiples of 2**-53 in ``[0, 1)``, one per two words (low word first)."""
    return (joined(words) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def open32(words: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Numbers in ``(0, 1)``, one per word, with all 32 bits where the numbers are small."""
    result: NDArray[np.float32] = (words.astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-32)
    return np.minimum(result, np.float32(0.99999994))


def open64(words: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Numbers in ``(0, 1)``, one per two words, with all 64 bits where the numbers are small."""
    result: NDArray[np.float64] = (joined(words).astype(np.float64) + 0.5) * 2.0**-64
    return np.minimum(result, 0.9999999999999999)


def tail32(words: NDArray[np.uint32]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """A number in ``(0, 0.5)``, the distance from an end of the unit interval, and whether from the lower."""
    negative = (words >> np.uint32(31)).astype(np.bool_)
    magnitude = (words & np.uint32(0x7FFFFFFF)).astype(np.float32)
    tail = (magnitude + np.float32(0.5)) * np.float32(2.0**-32)
    return np.minimum(tail, np.float32(0.49999997)), negative


def tail64(words: NDArray[np.uint32]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """As :func:`tail32`, from two words."""
    bits = joined(words)
    negative = (bits >> np.uint64(63)).astype(np.bool_)
    magnitude = (bits & np.uint64(0x7FFFFFFFFFFFFFFF)).astype(np.float64)
    return np.minimum((magnitude + 0.5) * 2.0**-64, 0.49999999999999994), negative


def normal32(words: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Standard normal numbers, one per word: a bit of sign, 31 bits of distance from the tail.

    They are within 1e-6 of the quantile; see :func:`nvrtc_kernels.normal_quantile.segments`.
    """
    single = np.float32
    bits = words << np.uint32(1)
    bits |= np.uint32(1)
    number = bits.astype(single)
    np.add(number.view(np.uint32), np.uint32(1 << SEGMENT_BITS - 1), out=bits)
    bits >>= np.uint32(SEGMENT_BITS)
    segment = bits.astype(np.intp)
    segment -= FIRST_SEGMENT
    bits <<= np.uint32(SEGMENT_BITS)
    number -= bits.view(single)
    # Segments are within the table: what would be done with others decides only how quick the loop is.
    halves, slopes = segments()
    step = slopes.take(segment, out=np.empty_like(number), mode="wrap")
    step *= number
    half = halves.take(segment, out=number, mode="wrap")
    result = np.multiply(half, step, out=bits.view(single))
    result += single(1)
    result *= step
    half += half
    result += half
    # The sign bit of the number, which is positive, is that of the word.
    sign = np.bitwise_and(words, np.uint32(1 << 31), out=step.view(np.uint32))
    signed: NDArray[np.float32] = np.bitwise_xor(result.view(np.uint32), sign, out=sign).view(single)
    return signed


def normal64(words: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Standard normal numbers, one per two words: a bit of sign, 63 bits of distance from the tail."""
    tail, negative = tail64(words)
    result = quantile(tail)
    signed: NDArray[np.float64] = np.where(negative, -result, result)
    return signed

"""Philox 4x32-10 on NumPy arrays.

A counter-based generator: 128 bits of counter and 64 bits of key give 128 random bits, and nothing
else is kept. So every element of every call computes its own numbers, in any order, on any device.

The counter is ``(block, call)``: ``call`` is the number of calls that the generator has served, and
``block`` counts groups of four 32-bit words within the call. The key is the seed.

Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROUNDS = 10
MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
#: Blocks computed at a time: the working set stays in the second-level cache.
_CHUNK = 1 << 13
#: Blocks that Python's integers compute faster than operations on arrays.
_FEW = 6
_FACTORS = tuple(int(factor) for factor in MULTIPLIERS)


def words(seed: int, call: int, count: int, start: int = 0) -> NDArray[np.uint32]:
    """Random words ``start`` to ``start + count`` of one call.

    Parameters
    ----------
    seed, call
        64-bit key and upper half of the counter.
    count
        Number of 32-bit words.
    start
        First word; any value, so that a call can be computed in parts.

    Returns
    -------
    numpy.ndarray
        Shape ``(count,)``, ``uint32``. Word ``i`` is output ``i % 4`` of block ``i // 4``.
    """
    first, last = start // 4, (start + count + 3) // 4
    if last - first <= _FEW:
        few = [word for block in range(first, last) for word in _block(seed, call, block)]
        return np.array(few[start - first * 4 :][:count], np.uint32)
    out = np.empty((max(last - first, 0), 4), np.uint32)
    for begin in range(first, last, _CHUNK):
        end = min(begin + _CHUNK, last)
        _blocks(seed, call, begin, out[begin - first : end - first])
    return out.ravel()[start - first * 4 :][:count]


def _block(seed: int, call: int, block: int) -> tuple[int, int, int, int]:
    """The words of one block, as :func:`_blocks` computes them for many."""
    a, b, c, d = block & 0xFFFFFFFF, block >> 32, call & 0xFFFFFFFF, call >> 32
    key, other = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    for _ in range(ROUNDS):
        first, second = a * _FACTORS[0], c * _FACTORS[1]
        a, b, c, d = second >> 32 ^ b ^ key, second & 0xFFFFFFFF, first >> 32 ^ d ^ other, first & 0xFFFFFFFF
        key, other = (key + WEYL[0]) & 0xFFFFFFFF, (other + WEYL[1]) & 0xFFFFFFFF
    return a, b, c, d


def _blocks(seed: int, call: int, begin: int, out: NDArray[np.uint32]) -> None:
    block = np.arange(begin, begin + len(out), dtype=np.uint64)
    state: list[Any] = [block & _LOW, block >> _HALF, np.uint64(call & 0xFFFFFFFF), np.uint64(call >> 32)]
    key = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(ROUNDS):
        first, second = state[0] * MULTIPLIERS[0], state[2] * MULTIPLIERS[1]
        state = [
            (second >> _HALF) ^ state[1] ^ np.uint64(key[0]),
            second & _LOW,
            (first >> _HALF) ^ state[3] ^ np.uint64(key[1]),
            first & _LOW,
        ]
        key = [(part + weyl) & 0xFFFFFFFF for part, weyl in zip(key, WEYL, strict=True)]
    for column, word in enumerate(state):
        out[:, column] = word

"""Philox 4x32-10 on NumPy arrays.

A counter-based generator: 128 bits of counter and 64 bits of key give 128 random bits, and nothing
else is kept. So every element of every call computes its own numbers, in any order, on any device.

The counter is ``(block, call)``: ``call`` is the number of calls that the generator has served, and
``block`` counts groups of four 32-bit words within the call. The key is the seed.

Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nvrtc_kernels.random import words_on_host

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW, _HALF = 0xFFFFFFFF, 32
#: The same as arrays, which ufuncs take at half the cost of Python's numbers.
_LOW_BITS, _HALF_BITS = np.array(_LOW, np.uint64), np.array(_HALF, np.uint64)
_FIRST, _SECOND = (np.array(factor, np.uint64) for factor in MULTIPLIERS)
_BOTH = np.array(MULTIPLIERS, np.uint64).reshape(2, 1)
#: Blocks computed at a time: the working set stays in the second-level cache.
_CHUNK = 1 << 13
#: Blocks that Python's integers compute faster than operations on arrays.
_FEW = 6


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
    out = np.empty((last - first, 4), np.uint32)
    loop = words_on_host(out.size)
    if loop is not None:
        loop(len(out), out.ctypes.data - first * out.strides[0], seed, call, first=first)
    else:
        scratch = np.empty((3, 2, min(len(out), _CHUNK)), np.uint64)
        begin = first
        while begin < last:
            # The upper half of the number of a block is the same for all that are computed at once.
            end = min(begin + _CHUNK, last, (begin >> _HALF) + 1 << _HALF)
            _blocks(seed, call, begin, out[begin - first : end - first], scratch[:, :, : end - begin])
            begin = end
    return out.reshape(-1)[start - first * 4 :][:count]


def _keys(seed: int) -> list[tuple[int, int]]:
    """The two keys of each round."""
    first, second = seed & _LOW, seed >> _HALF & _LOW
    return [(first + turn * WEYL[0] & _LOW, second + turn * WEYL[1] & _LOW) for turn in range(ROUNDS)]


def _block(seed: int, call: int, block: int) -> tuple[int, int, int, int]:
    """The words of one block, as :func:`_blocks` computes them for many."""
    a, b, c, d = block & _LOW, block >> _HALF, call & _LOW, call >> _HALF
    for key, other in _keys(seed):
        first, second = a * MULTIPLIERS[0], c * MULTIPLIERS[1]
        a, b, c, d = second >> _HALF ^ b ^ key, second & _LOW, first >> _HALF ^ d ^ other, first & _LOW
    return a, b, c, d


def _blocks(seed: int, call: int, begin: int, out: NDArray[np.uint32], scratch: NDArray[np.uint64]) -> None:
    """Write the words of blocks ``begin`` to ``begin + len(out)``, as many as ``scratch`` ``(3, 2, blocks)`` is for."""
    keys = _keys(seed)
    # Words a and c of all blocks, and the two products of this round and the one before. Words d and b are the lower halves of
    # the latter, whose upper ones are only cleared once they are mixed into c and a.
    state, products, former = scratch
    # Before the third round half of the words are the same for all blocks.
    index = np.arange(begin & _LOW, (begin & _LOW) + len(out), dtype=np.uint64)
    same = (call & _LOW) * MULTIPLIERS[1]
    np.multiply(index, _FIRST, out=products[0])
    np.right_shift(products[0], _HALF_BITS, out=state[1])
    state[1] ^= np.uint64(call >> _HALF ^ keys[0][1])
    np.multiply(state[1], _SECOND, out=former[1])
    np.right_shift(former[1], _HALF_BITS, out=state[0])
    state[0] ^= np.uint64(same & _LOW ^ keys[1][0])
    same = (same >> _HALF ^ begin >> _HALF ^ keys[0][0]) * MULTIPLIERS[0]
    np.bitwise_xor(products[0], np.uint64(same >> _HALF ^ keys[1][1]), out=state[1])
    state[1] &= _LOW_BITS
    former[0] = same & _LOW
    for pair in keys[2:]:
        np.multiply(state, _BOTH, out=products)
        np.right_shift(products[::-1], _HALF_BITS, out=state)
        state ^= former[::-1]
        state ^= np.array(pair, np.uint64).reshape(2, 1)
        state &= _LOW_BITS
        products, former = former, products
    former <<= _HALF_BITS
    np.bitwise_or(state, former[::-1], out=out.view(np.uint64).T)

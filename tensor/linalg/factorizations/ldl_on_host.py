"""LDL factorisation with Bunch and Kaufman's pivoting of one Hermitian or symmetric NumPy matrix.

What LAPACK's ``sytrf`` gives for a lower triangle: blocks of one or two rows, exchanged one after the other
(Bunch and Kaufman, Some Stable Methods for Calculating Inertia and Solving Symmetric Linear Systems, 1977).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_ALPHA = (1 + 17**0.5) / 8


def factor(array: Array, *, hermitian: bool) -> tuple[Array, Array, int]:
    """Factors below the diagonal, exchanges of rows, and which diagonal element of D is zero (0 where none is).

    A positive exchange ``p`` at ``k`` is one of rows ``k`` and ``p - 1`` before a block of one row; two equal negative
    ones ``-p`` at ``k`` and ``k + 1`` are one of rows ``k + 1`` and ``p - 1`` before a block of two.
    """
    n = len(array)
    a = np.tril(array)
    pivots = np.zeros(n, np.int32)
    info = 0
    k = 0
    while k < n:
        size, other, zero = _pivot(a, k, hermitian)
        if zero and not info:
            info = k + 1
        at = k + size - 1
        if other != at:
            _exchange(a, k, at, other, hermitian)
        if hermitian:
            a[k, k] = a[k, k].real
        if not zero:
            _eliminate(a, k, size, hermitian)
        pivots[k : k + size] = other + 1 if size == 1 else -(other + 1)
        k += size
    return a, pivots, info


def _sizes(x: Array) -> Array:
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def _pivot(a: Array, k: int, hermitian: bool) -> tuple[int, int, bool]:
    """How many rows the block at ``k`` has, with which row its last one is exchanged, and whether there is nothing."""
    n = len(a)
    own = abs(a[k, k].real) if hermitian else float(_sizes(a[k, k]))
    below = _sizes(a[k + 1 :, k])
    largest = float(below.max(initial=0))
    if max(own, largest) == 0 or np.isnan(own):
        return 1, k, True
    if own >= _ALPHA * largest:
        return 1, k, False
    row = k + 1 + int(below.argmax())
    rest = float(_sizes(np.concatenate((a[row, k:row], a[row + 1 : n, row]))).max())
    if own * rest >= _ALPHA * largest * largest:
        return 1, k, False
    head = abs(a[row, row].real) if hermitian else float(_sizes(a[row, row]))
    return (1, row, False) if head >= _ALPHA * rest else (2, row, False)


def _exchange(a: Array, k: int, at: int, other: int, hermitian: bool) -> None:
    """Rows and columns ``at`` and ``other`` of the part of the lower triangle that is still to be factored."""
    conjugate = np.conj if hermitian else np.asarray
    a[[at, other], k:at] = a[[other, at], k:at]
    below = a[other + 1 :, at].copy()
    a[other + 1 :, at] = a[other + 1 :, other]
    a[other + 1 :, other] = below
    between = a[at + 1 : other, at].copy()
    a[at + 1 : other, at] = conjugate(a[other, at + 1 : other])
    a[other, at + 1 : other] = conjugate(between)
    if hermitian:
        a[other, at] = np.conj(a[other, at])
    a[at, at], a[other, other] = a[other, other], a[at, at]


def _eliminate(a: Array, k: int, size: int, hermitian: bool) -> None:
    end = k + size
    block = np.tril(a[k:end, k:end])
    upper = np.tril(block, -1).T
    whole = block + (np.conj(upper) if hermitian else upper)
    columns = a[end:, k:end]
    multipliers = np.linalg.solve(whole.T, columns.T).T
    a[end:, end:] -= np.tril(multipliers @ (np.conj(columns) if hermitian else columns).T)
    a[end:, k:end] = multipliers


def unpack(factors: Array, pivots: Array, *, hermitian: bool) -> tuple[Array, Array]:
    """``W`` and ``D`` with ``A = W @ D @ W^T`` (``W^H``): the unit triangle whose rows were exchanged."""
    n = len(factors)
    w = np.eye(n, dtype=factors.dtype)
    d = np.zeros_like(factors)
    starts = []
    k = 0
    while k < n:
        size = 1 if pivots[k] > 0 else 2
        starts.append((k, size))
        k += size
    for k, size in reversed(starts):
        end = k + size
        block = np.tril(factors[k:end, k:end])
        upper = np.tril(block, -1).T
        d[k:end, k:end] = block + (np.conj(upper) if hermitian else upper)
        w[end:, k:end] = factors[end:, k:end]
        at, other = end - 1, abs(int(pivots[k])) - 1
        w[[at, other]] = w[[other, at]]
    return w, d

"""LU factorisation with partial pivoting of NumPy arrays, which NumPy itself has not.

Right-looking and blocked: columns of a panel are eliminated one by one in all matrices at once, and the rest of
the matrices is updated by one product for each panel.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_PANEL = 32


def factor(array: Array, *, pivot: bool = True) -> tuple[Array, Array, Array]:
    """Factors of matrices ``(*, m, n)``, their pivots ``(*, min(m, n))`` and a number for each matrix.

    L (below the diagonal, where it has ones) and U stand in one matrix. Row ``i`` was exchanged with row
    ``pivots[i] - 1``, one after the other. The number counts the first diagonal element of U that is zero from 1;
    without one it is 0.
    """
    batch, (m, n) = array.shape[:-2], array.shape[-2:]
    a = np.array(array.reshape(prod(batch), m, n), order="C")
    rank, count = min(m, n), len(a)
    pivots = np.broadcast_to(np.arange(1, rank + 1, dtype=np.int32), (count, rank)).copy()
    info = np.zeros(count, np.int32)
    matrices = np.arange(count)
    with np.errstate(all="ignore"):
        for start in range(0, rank, _PANEL):
            end = min(start + _PANEL, rank)
            for j in range(start, end):
                if pivot:
                    found = j + _size(a[:, j:, j]).argmax(1)
                    pivots[:, j] = found + 1
                    upper = a[:, j].copy()
                    a[:, j] = a[matrices, found]
                    a[matrices, found] = upper
                head = a[:, j, j]
                info[(head == 0) & (info == 0)] = j + 1
                a[:, j + 1 :, j] /= np.where(head == 0, 1, head)[:, None]
                a[:, j + 1 :, j + 1 : end] -= a[:, j + 1 :, j, None] * a[:, j, None, j + 1 : end]
            for row in range(start + 1, end):
                a[:, row, end:] -= (a[:, row, None, start:row] @ a[:, start:row, end:])[:, 0]
            a[:, end:, end:] -= a[:, end:, start:end] @ a[:, start:end, end:]
    return a.reshape(array.shape), pivots.reshape(*batch, rank), info.reshape(batch)


def _size(column: Array) -> Array:
    """Magnitudes as LAPACK compares them."""
    return np.abs(column.real) + np.abs(column.imag) if column.dtype.kind == "c" else np.abs(column)


def order_of(pivots: Array, rows: int) -> Array:
    """Where each row of P^T A stood in A: ``(*, rows)``."""
    flat = pivots.reshape(prod(pivots.shape[:-1]), pivots.shape[-1]).astype(np.int64) - 1
    found = np.broadcast_to(np.arange(rows), (len(flat), rows)).copy()
    matrices = np.arange(len(flat))
    for j in range(flat.shape[1]):
        upper = found[:, j].copy()
        found[:, j] = found[matrices, flat[:, j]]
        found[matrices, flat[:, j]] = upper
    return found.reshape(*pivots.shape[:-1], rows)


def zero_pivot(matrix: Array) -> int:
    """Number, from 1, of the pivot of a singular matrix that is zero, or by rounding the smallest."""
    found, _, info = factor(matrix)
    if info:
        return int(info)
    return int(np.abs(np.diagonal(found)).argmin()) + 1 if len(found) else 0

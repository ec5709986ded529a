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
    with np.errstate(all="ignore"):
        for start in range(0, rank, _PANEL):
            end = min(start + _PANEL, rank)
            # A small matrix of its own, so that exchanging rows and looking through columns is cheap.
            panel = a[:, start:, start:end].copy()
            result = _factor_panel(panel, info, start, pivot)
            pivots[:, start:end] += result
            if pivot:
                order = order_of(result + np.arange(1, end - start + 1), m - start)[..., None]
                for columns in (a[:, start:, :start], a[:, start:, end:]):
                    columns[...] = np.take_along_axis(columns, order, 1)
            a[:, start:, start:end] = panel
            for row in range(start + 1, end):
                a[:, row, end:] -= (a[:, row, None, start:row] @ a[:, start:row, end:])[:, 0]
            a[:, end:, end:] -= a[:, end:, start:end] @ a[:, start:end, end:]
    return a.reshape(array.shape), pivots.reshape(*batch, rank), info.reshape(batch)


def _factor_panel(panel: Array, info: Array, start: int, pivot: bool) -> Array:
    """Eliminate in a panel in place; returns how far below its own each row is that it was exchanged with."""
    count, _, columns = panel.shape
    matrices = np.arange(count)
    further = np.zeros((count, columns), np.int32)
    for j in range(columns):
        if pivot:
            further[:, j] = _size(panel[:, j:, j]).argmax(1)
            at = j + further[:, j]
            upper = panel[:, j].copy()
            panel[:, j] = panel[matrices, at]
            panel[matrices, at] = upper
        head = panel[:, j, j]
        info[(head == 0) & (info == 0)] = start + j + 1
        panel[:, j + 1 :, j] /= np.where(head == 0, 1, head)[:, None]
        panel[:, j + 1 :, j + 1 :] -= panel[:, j + 1 :, j, None] * panel[:, j, None, j + 1 :]
    return further


def _size(column: Array) -> Array:
    """Magnitudes as LAPACK compares them."""
    return np.abs(column.real) + np.abs(column.imag) if column.dtype.kind == "c" else np.abs(column)


def order_of(pivots: Array, rows: int) -> Array:
    """Where each row of P^T A stood in A: ``(*, rows)``."""
    flat = pivots.reshape(prod(pivots.shape[:-1]), pivots.shape[-1]).astype(np.int64) - 1
    result = np.broadcast_to(np.arange(rows), (len(flat), rows)).copy()
    matrices = np.arange(len(flat))
    for j in range(flat.shape[1]):
        upper = result[:, j].copy()
        result[:, j] = result[matrices, flat[:, j]]
        result[matrices, flat[:, j]] = upper
    return result.reshape(*pivots.shape[:-1], rows)


def zero_pivot(matrix: Array) -> int:
    """Number, from 1, of the pivot of a singular matrix that is zero, or by rounding the smallest."""
    result, _, info = factor(matrix)
    if info:
        return int(info)
    return int(np.abs(np.diagonal(result)).argmin()) + 1 if len(result) else 0

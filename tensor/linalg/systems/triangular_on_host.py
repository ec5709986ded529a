"""Triangular systems of NumPy arrays: blocked substitution, whose diagonal blocks LAPACK solves.

Gaussian elimination leaves an upper triangular block as it is, so that the general solver substitutes. A lower
triangular system is an upper triangular one with rows and columns in reverse order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.linalg.host import adjoint_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_BLOCK = 64


def solve(a: Array, b: Array, *, upper: bool, unit: bool = False) -> Array:
    """The solution of ``a @ x = b`` for a triangle of ``a``; the other one is not looked at.

    Batches broadcast. A zero on the diagonal gives infinities and NaN.
    """
    if not upper:
        return solve(a[..., ::-1, ::-1], b[..., ::-1, :], upper=True, unit=unit)[..., ::-1, :]
    n = a.shape[-1]
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = np.empty((*batch, *b.shape[-2:]), b.dtype)
    with np.errstate(all="ignore"):
        for end in range(n, 0, -_BLOCK):
            start = max(end - _BLOCK, 0)
            right = b[..., start:end, :]
            if end < n:
                right = right - a[..., start:end, end:] @ x[..., end:, :]
            block = np.triu(a[..., start:end, start:end], 1 if unit else 0)
            if unit:
                block[..., range(end - start), range(end - start)] = 1
            x[..., start:end, :] = _solve_block(block, right)
    return x


def _solve_block(a: Array, b: Array) -> Array:
    diagonal = np.diagonal(a, axis1=-2, axis2=-1)
    if diagonal.all():
        return np.linalg.solve(a, b).astype(b.dtype, copy=False)
    rows = np.array(np.broadcast_to(b, (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])))
    for i in range(a.shape[-1] - 1, -1, -1):
        rows[..., i, :] /= diagonal[..., i, None]
        rows[..., :i, :] -= a[..., :i, i, None] * rows[..., i, None, :]
    return rows


def solve_lu(lu: Array, order: Array, b: Array, *, adjoint: bool = False) -> Array:
    """The solution of ``P @ L @ U @ x = b``, or of the adjoint's system; see :mod:`tensor.linalg.factorizations.lu_on_host`."""
    if not adjoint:
        expanded = np.broadcast_to(b, (*np.broadcast_shapes(order.shape[:-1], b.shape[:-2]), *b.shape[-2:]))
        moved = np.take_along_axis(expanded, np.broadcast_to(order, expanded.shape[:-1])[..., None], -2)
        return solve(lu, solve(lu, moved, upper=False, unit=True), upper=True)
    flipped = adjoint_of(lu)
    result = solve(flipped, solve(flipped, b, upper=False), upper=True, unit=True)
    back = np.argsort(order, axis=-1)
    return np.take_along_axis(result, np.broadcast_to(back, result.shape[:-1])[..., None], -2)

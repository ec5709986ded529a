"""Softmax along rows with NumPy, as many rows at a time as stay in a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from drv.host.threads import share
from tensor.core.host.broadcasting import use_rows_in_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"

#: Elements of a block.
_BLOCK = 1 << 16
#: Elements up to which a sum costs less than the preparation of a product with ones, which BLAS makes.
_FEW = 1 << 12


def forward(array: Array, out: Array, *, log: bool) -> None:
    """Write softmax of the rows of ``array`` ``(rows, n)``, or its logarithm, to ``out``."""
    sums = _sums_of(array)

    def work(block: slice) -> None:
        x, into = array[block], out[block]
        np.subtract(x, np.maximum.reduce(x, axis=1, keepdims=True, initial=-np.inf), out=into)
        exponents = np.exp(into, out=None if log else into)
        total = sums(exponents)
        if log:
            into -= np.log(total, out=total)
        else:
            into /= total

    _over_blocks(work, array)


def backward(grad: Array, result: Array, out: Array, *, log: bool) -> None:
    """Write the gradient of the input of :func:`forward` to ``out``."""
    sums = _sums_of(grad)

    def work(block: slice) -> None:
        g, y, into = grad[block], result[block], out[block]
        if log:
            np.exp(y, out=into)
            into *= sums(g)
            np.subtract(g, into, out=into)
        else:
            np.subtract(g, np.vecdot(g, y)[:, None], out=into)
            into *= y

    _over_blocks(work, grad)


def _sums_of(array: Array) -> Callable[[Array], Array]:
    """What adds up rows of the length of those of ``array``, as a column."""
    if array.size <= _FEW:
        return lambda rows: np.add.reduce(rows, axis=1, keepdims=True)
    ones = np.ones(array.shape[1], array.dtype)
    return lambda rows: np.matmul(rows, ones)[:, None]


def _over_blocks(work: Callable[[slice], None], array: Array) -> None:
    """``work(rows)`` for blocks; few elements are those of one, for which the caller has told NumPy what to ignore."""
    rows, n = array.shape
    if array.size <= _FEW:
        work(slice(None))
        return
    size = max(_BLOCK // max(n, 1), 1)

    def run(piece: int) -> None:
        with np.errstate(all="ignore"):
            use_rows_in_place(n)
            work(slice(piece * size, min((piece + 1) * size, rows)))

    share(run, -(-rows // size))

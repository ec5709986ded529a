"""The largest singular values of a matrix, from its products with a few random vectors.

Halko, Martinsson and Tropp, Finding Structure with Randomness (2009), algorithm 4.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor.linalg.checks import check_matrices
from tensor.linalg.results import SingularValuesAndColumns
from tensor.operations.definition import operation
from tensor.operations.products.contractions import matmul
from tensor.operations.random.creation import randn
from tensor.operations.shapes import views

from .qr import qr
from .singular_values import svd

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor


def _basis(a: Tensor, q: int, niter: int) -> Tensor:
    """Orthonormal columns that nearly span what the matrix gives in its ``q`` largest directions."""
    columns = a._layout.shape[-1]
    start = randn(columns, q, dtype=a._layout.dtype, device=a.device)
    result = qr(matmul(a, start)).Q
    adjoint = a.mH
    for _ in range(niter):
        result = qr(matmul(adjoint, result)).Q
        result = qr(matmul(a, result)).Q
    return result


@operation(method=False)
def svd_lowrank(
    A: Tensor,  # noqa: N803 - PyTorch's name
    q: int | None = 6,
    niter: int | None = 2,
    M: Tensor | None = None,  # noqa: N803
) -> SingularValuesAndColumns:
    """About the ``q`` largest singular values, with vectors, of matrices ``(*, m, n)`` whose others are small.

    Parameters
    ----------
    q
        Somewhat more than the rank.
    niter
        How often the random vectors are multiplied by the matrix and its adjoint: accuracy for time.
    M
        What is subtracted first, such as means; it broadcasts.

    Raises
    ------
    RuntimeError
        If ``q`` is negative; for fewer than two dimensions, or another type than single or double precision.

    Examples
    --------
    >>> u, s, v = tensor.svd_lowrank(tensor.ones(4, 3), q=2)
    >>> u.shape, s.shape, v.shape
    (tensor.Size([4, 2]), tensor.Size([2]), tensor.Size([3, 2]))
    """
    check_matrices("svd_lowrank", A)
    count, rounds = 6 if q is None else q, 2 if niter is None else niter
    rows, columns = A._layout.shape[-2:]
    if count < 0 or rounds < 0:
        raise RuntimeError(f"svd_lowrank(): q and niter must be non-negative, got {count} and {rounds}")
    a = A if M is None else A - M
    more_columns = rows < columns
    a = a.mH if more_columns else a
    basis = _basis(a, count, rounds)
    u, s, vh = svd(matmul(basis.mH, a), full_matrices=False)
    u, v = matmul(basis, u), vh.mH
    return SingularValuesAndColumns(v, s, u) if more_columns else SingularValuesAndColumns(u, s, v)


@operation(method=False)
def pca_lowrank(
    A: Tensor,  # noqa: N803
    q: int | None = None,
    center: bool = True,
    niter: int = 2,
) -> SingularValuesAndColumns:
    """Principal components: :func:`svd_lowrank` of rows from which their mean was subtracted.

    Parameters
    ----------
    q
        By default ``min(6, m, n)``.
    center
        Whether to subtract the mean of the rows.

    Examples
    --------
    >>> u, s, v = tensor.pca_lowrank(tensor.arange(12.0).view(4, 3), q=2)
    >>> u.shape, s.shape, v.shape
    (tensor.Size([4, 2]), tensor.Size([2]), tensor.Size([3, 2]))
    """
    check_matrices("pca_lowrank", A)
    rows, columns = A._layout.shape[-2:]
    count = min(6, rows, columns) if q is None else q
    if not 0 <= count <= min(rows, columns):
        raise ValueError(
            f"q(={count}) must be non-negative integer and not greater than min(m, n)={min(rows, columns)}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if center:
        mean = views.unsqueeze(A.mean(-2), -2)
        return svd_lowrank(A - mean, count, niter)
    return svd_lowrank(A, count, niter)

"""Cholesky factors of positive definite matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.linalg.checks import check_square
from tensor.linalg.errors import check_info
from tensor.linalg.host import on_host, one_by_one
from tensor.linalg.results import CHOLESKY_EX, CholeskyWithInfo
from tensor.linalg.systems.triangular import substituted, triangle
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation
from tensor.operations.products.contractions import matmul
from tensor.operations.reduction import all_into_out, into_out
from tensor.operations.shapes import slices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


def _factors(array: Array, upper: bool) -> tuple[Array, Array]:
    """Factors, and the order of the first minor that is not positive definite."""
    info = np.zeros(array.shape[:-2], np.int32)
    finite = np.isfinite(array).all()
    if finite:
        try:
            return np.linalg.cholesky(array, upper=upper), info
        except np.linalg.LinAlgError:
            pass
    result, wrong = one_by_one(lambda matrix: _factor(matrix, upper), array.shape[-2:], array)
    matrices = array.reshape(-1, *array.shape[-2:])
    for number in wrong:
        info.reshape(-1)[number] = _indefinite_minor(matrices[number], upper)
    return result, info


def _factor(matrix: Array, upper: bool) -> Array:
    result: Array = np.linalg.cholesky(matrix, upper=upper)
    if not np.isfinite(result).all():
        raise np.linalg.LinAlgError
    return result


def _indefinite_minor(matrix: Array, upper: bool) -> int:
    """Order of the smallest leading minor without a factor: all larger ones have none either."""
    below, above = 0, len(matrix)
    while above - below > 1:
        middle = (below + above) // 2
        try:
            _factor(matrix[:middle, :middle], upper)
            below = middle
        except np.linalg.LinAlgError:
            above = middle
    return above


def _half_triangle(x: Tensor) -> Tensor:
    """The lower triangle, with half the diagonal."""
    lower = triangle(x, upper=False)
    result: Tensor = lower - 0.5 * slices.diagonal(x, 0, -2, -1).diag_embed()
    return result


def _gradient(expected: Any, grads: Any, factor: Tensor, upper: bool) -> Any:
    # With the lower factor L, L^H gL has to be symmetric inside of L^-H (...) L^-1.
    lower, towards = (factor.mH, grads.mH) if upper else (factor, grads)
    inner = _half_triangle(matmul(lower.mH, towards))
    inner = 0.5 * (inner + inner.mH)
    result = substituted(lower, inner, upper=False, left=False)
    return (substituted(lower.mH, result, upper=True),)


_CHOLESKY_BACKWARD = BackwardFormula(
    "LinalgCholeskyExBackward0", "a", joint=Derivative(_gradient, needs="out")
)


def factored(name: str, a: Tensor, upper: bool, check: bool = True) -> tuple[Tensor, Tensor]:
    """Factors, and orders of minors that are not positive definite; ``name`` is what the user called."""
    check_square(name, a)

    def work(array: Array) -> tuple[Array, Array]:
        result, info = _factors(array, upper)
        if check:
            check_info(name, "cholesky", info)
        return result, info

    result, info = on_host(work, a)
    _CHOLESKY_BACKWARD.record((result,), (a,), context=(upper,))
    return result, info


@operation(namespace="linalg", method=False, autocast=Autocast(cpu=FLOAT32))
def cholesky(A: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:  # noqa: N803 - PyTorch's name
    """The lower triangular ``L`` with ``A = L @ L.mH``, or the upper one with ``A = L.mH @ L``.

    Of ``A`` (``(*, n, n)``) only that triangle is looked at. CUDA tensors go through the host, which waits for
    them.

    Raises
    ------
    LinAlgError
        If a matrix is not positive definite; it says which, and where.
    RuntimeError
        If the matrices are not square, or of another type than single or double precision.

    Examples
    --------
    >>> tensor.linalg.cholesky(tensor.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    return into_out(factored("linalg.cholesky", A, bool(upper))[0], out, "linalg.cholesky")


@operation(namespace="linalg", method=False, autocast=Autocast(cpu=FLOAT32))
def cholesky_ex(
    A: Tensor,  # noqa: N803
    *,
    upper: bool = False,
    check_errors: bool = False,
    out: Any = None,
) -> CholeskyWithInfo:
    """:func:`cholesky` that tells of matrices without a factor, for which it gives NaN, instead of raising an error.

    Parameters
    ----------
    check_errors
        Whether to raise LinAlgError all the same.

    Examples
    --------
    >>> tensor.linalg.cholesky_ex(-tensor.eye(2)).info
    tensor(1, dtype=tensor.int32)
    """
    value = CHOLESKY_EX(*factored("linalg.cholesky_ex", A, bool(upper), check_errors))
    result: CholeskyWithInfo = all_into_out(value, out, "linalg.cholesky_ex")
    return result

"""LU factorisation with partial pivoting, and systems of equations that use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import int32
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.base import check_tensor
from tensor.linalg.checks import check_alike, check_matrices, check_square
from tensor.linalg.errors import check_info
from tensor.linalg.host import adjoint_of, on_host
from tensor.linalg.results import (
    LINALG_LU,
    LU_FACTOR,
    LU_FACTOR_EX,
    LU_UNPACK,
    LuFactor,
    LuFactorWithInfo,
    PermutedTriangles,
)
from tensor.linalg.systems import triangular_on_host
from tensor.linalg.systems.solving import check_right_sides
from tensor.linalg.systems.triangular import substituted, triangle
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation
from tensor.operations.products.contractions import matmul
from tensor.operations.reduction import all_into_out, into_out
from tensor.operations.shapes import slices
from tensor.operations.shapes.joining import cat

from . import lu_on_host

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


def _triangles(factors: Tensor) -> tuple[Tensor, Tensor]:
    """L and U from the matrix that holds both."""
    rows, columns = factors._layout.shape[-2:]
    rank = min(rows, columns)
    lower = triangle(slices.narrow(factors, -1, 0, rank), upper=False, without_diagonal=True)
    ones = factors.new_ones((*factors._layout.shape[:-2], rank)).diag_embed()
    if rows > rank:
        ones = cat((ones, factors.new_zeros((*factors._layout.shape[:-2], rows - rank, rank))), -2)
    return lower + ones, triangle(slices.narrow(factors, -2, 0, rank), upper=True)


def _permutations(order: Array, dtype: Any) -> Array:
    """Matrices ``P`` of ``A = P @ L @ U``, from where the rows of ``P^T A`` stood in ``A``."""
    rows = order.shape[-1]
    result: Array = (np.arange(rows)[:, None] == order[..., None, :]).astype(dtype)
    return result


def _gradient_of_rows(
    lower: Tensor, upper: Tensor, towards_lower: Tensor | None, towards_upper: Tensor | None
) -> Tensor:
    """Gradient of ``A' = L @ U``; what of it is no square is a product with the inverse of the other's square."""
    rows, rank = lower._layout.shape[-2:]
    columns = upper._layout.shape[-1]
    if columns > rank:
        # U2 = L^-1 A2
        first, second = _cut(upper, -1, rank)
        towards_first, towards_second = (
            (None, None) if towards_upper is None else _cut(towards_upper, -1, rank)
        )
        if towards_second is None:
            right = lower.new_zeros((*lower._layout.shape[:-2], rank, columns - rank))
        else:
            right = substituted(lower.mH, towards_second, upper=True, unit=True)
            towards_lower = _plus(towards_lower, -matmul(right, second.mH))
        return cat((_gradient_of_rows(lower, first, towards_lower, towards_first), right), -1)
    if rows > rank:
        # L2 = A2 U^-1
        first, second = _cut(lower, -2, rank)
        towards_first, towards_second = (
            (None, None) if towards_lower is None else _cut(towards_lower, -2, rank)
        )
        if towards_second is None:
            below = upper.new_zeros((*upper._layout.shape[:-2], rows - rank, rank))
        else:
            below = substituted(upper.mH, towards_second, upper=False, left=False)
            towards_upper = _plus(towards_upper, -matmul(second.mH, below))
        return cat((_gradient_of_rows(first, upper, towards_first, towards_upper), below), -2)
    inner: Any = 0
    if towards_lower is not None:
        inner = triangle(matmul(lower.mH, towards_lower), upper=False, without_diagonal=True)
    if towards_upper is not None:
        inner = inner + triangle(matmul(towards_upper, upper.mH), upper=True)
    left = substituted(lower.mH, inner, upper=True, unit=True)
    return substituted(upper.mH, left, upper=False, left=False)


def _cut(x: Tensor, dim: int, size: int) -> tuple[Tensor, Tensor]:
    return slices.narrow(x, dim, 0, size), slices.narrow(x, dim, size, x._layout.shape[dim] - size)


def _plus(a: Tensor | None, b: Tensor) -> Tensor:
    return b if a is None else a + b


def _lu_gradient(expected: Any, grads: Any, permutation: Tensor, lower: Tensor, upper: Tensor) -> Any:
    towards_lower, towards_upper = grads
    return (matmul(permutation, _gradient_of_rows(lower, upper, towards_lower, towards_upper)),)


_LU_BACKWARD = BackwardFormula(
    "LinalgLuBackward0",
    "A permutation",
    joint=Derivative(_lu_gradient, needs="permutation lower upper"),
    outputs="lower upper",
)


def _factor_gradient(expected: Any, grads: Any, factors: Tensor, permutation: Tensor) -> Any:
    lower, upper = _triangles(factors)
    rank = lower._layout.shape[-1]
    towards_lower = triangle(slices.narrow(grads, -1, 0, rank), upper=False, without_diagonal=True)
    towards_upper = triangle(slices.narrow(grads, -2, 0, rank), upper=True)
    return (matmul(permutation, _gradient_of_rows(lower, upper, towards_lower, towards_upper)),)


_FACTOR_BACKWARD = BackwardFormula(
    "LinalgLuFactorExBackward0", "A permutation", joint=Derivative(_factor_gradient, needs="out permutation")
)


@operation(namespace="linalg", method=False)
def lu(A: Tensor, *, pivot: bool = True, out: Any = None) -> PermutedTriangles:  # noqa: N803 - PyTorch's name
    """``A = P @ L @ U`` of matrices ``(*, m, n)``: a permutation, and triangles of which ``L`` has a unit diagonal.

    CUDA tensors go through the host, which waits for them.

    Parameters
    ----------
    pivot
        Whether rows are exchanged, so that the largest element of a column is divided by. Else ``P`` is empty.

    Raises
    ------
    RuntimeError
        For fewer than two dimensions, or another type than single or double precision.

    Examples
    --------
    >>> p, l, u = tensor.linalg.lu(tensor.tensor([[1.0, 2.0], [2.0, 2.0]]))
    >>> l
    tensor([[1.0000, 0.0000],
            [0.5000, 1.0000]])
    >>> u
    tensor([[2., 2.],
            [0., 1.]])
    """
    check_matrices("linalg.lu", A)
    rows, columns = A._layout.shape[-2:]
    rank = min(rows, columns)

    def work(array: Array) -> tuple[Array, ...]:
        factors, pivots, _ = lu_on_host.factor(array, pivot=pivot)
        lower = np.tril(factors[..., :rank], -1)
        lower[..., range(rank), range(rank)] = 1
        permutation = _permutations(lu_on_host.order_of(pivots, rows), array.dtype)
        return permutation, lower, np.triu(factors[..., :rank, :])

    permutation, lower, upper = on_host(work, A)
    _LU_BACKWARD.record((lower, upper), (A,), (permutation,))
    value = LINALG_LU(permutation if pivot else A.new_empty(0), lower, upper)
    result: PermutedTriangles = all_into_out(value, out, "linalg.lu")
    return result


def factored(name: str, a: Tensor, pivot: bool, check: bool, error: type[Exception]) -> LuFactorWithInfo:
    """Factors, pivots and zeros on the diagonal, recorded; ``name`` is what the user called."""
    check_matrices(name, a)

    def work(array: Array) -> tuple[Array, ...]:
        factors, pivots, info = lu_on_host.factor(array, pivot=pivot)
        if check:
            check_info(name, "lu", info, error)
        order = lu_on_host.order_of(pivots, array.shape[-2])
        return factors, pivots, info, _permutations(order, array.dtype)

    factors, pivots, info, permutation = on_host(work, a)
    _FACTOR_BACKWARD.record((factors,), (a,), (permutation,))
    return LuFactorWithInfo(factors, pivots, info)


@operation(namespace="linalg", method=False)
def lu_factor(A: Tensor, *, pivot: bool = True, out: Any = None) -> LuFactor:  # noqa: N803
    """The LU factorisation of :func:`lu` as one matrix and the exchanges of rows, for :func:`lu_solve`.

    Row ``i`` was exchanged with row ``pivots[i] - 1``, one after the other.

    Raises
    ------
    RuntimeError
        If a diagonal element of ``U`` is zero; it says of which matrix. See :func:`lu` too.

    Examples
    --------
    >>> factors, pivots = tensor.linalg.lu_factor(tensor.tensor([[1.0, 2.0], [2.0, 2.0]]))
    >>> pivots
    tensor([2, 2], dtype=tensor.int32)
    """
    factors, pivots, _ = factored("linalg.lu_factor", A, pivot, True, RuntimeError)
    result: LuFactor = all_into_out(LU_FACTOR(factors, pivots), out, "linalg.lu_factor")
    return result


@operation(namespace="linalg", method=False)
def lu_factor_ex(
    A: Tensor,  # noqa: N803
    *,
    pivot: bool = True,
    check_errors: bool = False,
    out: Any = None,
) -> LuFactorWithInfo:
    """:func:`lu_factor` that reports a zero on the diagonal of ``U`` in ``info`` instead of raising an error.

    Parameters
    ----------
    check_errors : bool
        Whether to raise an error all the same.

    Returns
    -------
    LuFactorWithInfo
        Named tuple of ``LU``, ``pivots`` and int32 ``info``: 0, or the number, from 1, of the first zero.

    Examples
    --------
    >>> tensor.linalg.lu_factor_ex(tensor.zeros(2, 2)).info
    tensor(1, dtype=tensor.int32)
    """
    value = factored("linalg.lu_factor_ex", A, pivot, check_errors, RuntimeError)
    result: LuFactorWithInfo = all_into_out(LU_FACTOR_EX(*value), out, "linalg.lu_factor_ex")
    return result


def _check_factors(name: str, factors: Any, pivots: Any) -> None:
    check_square(name, factors, "LU")
    check_tensor(pivots, name, "pivots")
    if pivots._layout.dtype is not int32:
        raise RuntimeError(
            f"{name}: pivots should be a Tensor of scalar type int32, got {pivots._layout.dtype!r}"
        )
    if pivots._layout.device_state is not factors._layout.device_state:
        raise RuntimeError(
            f"{name}: Expected LU and pivots to be on the same device, but found {factors._layout.device} and "
            f"{pivots._layout.device}"
        )
    if pivots._layout.shape != factors._layout.shape[:-1]:
        raise RuntimeError(
            f"{name}: Number of pivots per batch should be same as the dimension of the matrix: LU has shape "
            f"{list(factors._layout.shape)}, pivots have {list(pivots._layout.shape)}"
        )


def _check_pivots(name: str, pivots: Array, rows: int) -> None:
    if pivots.size and (pivots.min() < 1 or pivots.max() > rows):
        raise RuntimeError(
            f"pivots passed to {name} must be between 1 and LU.size(-2) inclusive ({rows}). Did you properly pass the "
            "result of lu_factor?"
        )


def _solve_gradient(
    expected: Any, grads: Any, factors: Tensor, pivots: Tensor, x: Tensor, left: bool, adjoint: bool
) -> Any:
    right = _substituted("linalg.lu_solve", factors, pivots, grads, left, not adjoint)
    if not expected[0]:
        return None, None, right
    # The gradient of A = P L U: L and U are multiplied by the rest of it.
    towards = -(matmul(right, x.mH) if left else matmul(x.mH, right))
    if adjoint:
        towards = towards.mH
    rows = factors._layout.shape[-1]
    (permutation,) = on_host(
        lambda pivots: (_permutations(lu_on_host.order_of(pivots, rows), factors._layout.dtype.numpy),),
        pivots,
    )
    towards = matmul(permutation.mT, towards)
    lower, upper = _triangles(factors)
    result = triangle(matmul(towards, upper.mH), upper=False, without_diagonal=True)
    return result + triangle(matmul(lower.mH, towards), upper=True), None, right


_SOLVE_BACKWARD = BackwardFormula(
    "LinalgLuSolveBackward0",
    "factors pivots b",
    joint=Derivative(_solve_gradient, needs=("factors pivots out", "", "factors pivots")),
)


def _substituted(name: str, factors: Tensor, pivots: Tensor, b: Tensor, left: bool, adjoint: bool) -> Tensor:
    def work(factors: Array, pivots: Array, b: Array) -> tuple[Array]:
        _check_pivots(name, pivots, factors.shape[-1])
        order = lu_on_host.order_of(pivots, factors.shape[-1])
        if left:
            return (triangular_on_host.solve_lu(factors, order, b, adjoint=adjoint),)
        # X A = B is A^H X^H = B^H.
        result = triangular_on_host.solve_lu(factors, order, adjoint_of(b), adjoint=not adjoint)
        return (adjoint_of(result),)

    (result,) = on_host(work, factors, pivots, b)
    _SOLVE_BACKWARD.record((result,), (factors, pivots, b), context=(left, adjoint))
    return result


@operation(namespace="linalg", method=False, autocast=Autocast(cpu=FLOAT32))
def lu_solve(
    LU: Tensor,  # noqa: N803
    pivots: Tensor,
    B: Tensor,  # noqa: N803
    *,
    left: bool = True,
    adjoint: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The ``X`` of ``A @ X = B`` (``X @ A = B`` with ``left=False``) from :func:`lu_factor`'s results for ``A``.

    Parameters
    ----------
    adjoint
        Whether the equation has ``A.mH`` instead.

    Raises
    ------
    RuntimeError
        If ``LU`` is not square, ``pivots`` are not int32 with one for each row, ``B`` has not its size in rows
        (columns with ``left=False``), the dimensions before the last two cannot be broadcast together, or dtypes or
        devices differ.

    Examples
    --------
    >>> factors, pivots = tensor.linalg.lu_factor(tensor.tensor([[2.0, 0.0], [0.0, 4.0]]))
    >>> tensor.linalg.lu_solve(factors, pivots, tensor.tensor([[2.0], [2.0]]))
    tensor([[1.0000],
            [0.5000]])
    """
    return into_out(solved("linalg.lu_solve", LU, pivots, B, left, adjoint), out, "linalg.lu_solve")


def solved(name: str, factors: Tensor, pivots: Tensor, b: Tensor, left: bool, adjoint: bool) -> Tensor:
    """Solutions from checked factors; ``name`` is what the user called."""
    _check_factors(name, factors, pivots)
    check_matrices(name, b, "B")
    check_alike(name, factors, b, "LU", "B")
    check_right_sides(name, factors, b, left=left, vector=False)
    return _substituted(name, factors, pivots, b, bool(left), bool(adjoint))


@operation(method=False)
def lu_unpack(
    LU_data: Tensor,  # noqa: N803
    LU_pivots: Tensor,  # noqa: N803
    unpack_data: bool = True,
    unpack_pivots: bool = True,
    *,
    out: Any = None,
) -> PermutedTriangles:
    """``P``, ``L`` and ``U`` from :func:`tensor.linalg.lu_factor`'s results; what is not asked for is empty.

    Raises
    ------
    RuntimeError
        If the pivots are no int32, or name rows that there are not.

    Examples
    --------
    >>> p, l, u = tensor.lu_unpack(*tensor.linalg.lu_factor(tensor.tensor([[1.0, 2.0], [2.0, 2.0]])))
    >>> p @ l @ u
    tensor([[1., 2.],
            [2., 2.]])
    """
    check_matrices("lu_unpack", LU_data, "LU_data")
    check_tensor(LU_pivots, "lu_unpack", "LU_pivots")
    if LU_pivots._layout.dtype is not int32:
        raise RuntimeError(
            "lu_unpack: LU_pivots is expected to be a tensor of int32 dtype, as tensor.linalg.lu_factor returns it, got "
            f"{LU_pivots._layout.dtype!r}"
        )
    rows, dtype = LU_data._layout.shape[-2], LU_data._layout.dtype
    permutation = lower = upper = LU_data.new_empty(0)
    if unpack_pivots:

        def work(pivots: Array) -> tuple[Array]:
            _check_pivots("lu_unpack", pivots, rows)
            return (_permutations(lu_on_host.order_of(pivots, rows), dtype.numpy),)

        (permutation,) = on_host(work, LU_pivots)
    if unpack_data:
        lower, upper = _triangles(LU_data)
    result: PermutedTriangles = all_into_out(LU_UNPACK(permutation, lower, upper), out, "lu_unpack")
    return result

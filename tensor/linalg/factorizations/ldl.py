"""LDL factorisation of matrices that are Hermitian or symmetric, and need not be definite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import int32
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.base import check_tensor
from tensor.linalg.checks import check_alike, check_matrices, check_square
from tensor.linalg.errors import check_info
from tensor.linalg.host import on_host, one_by_one
from tensor.linalg.results import LDL_FACTOR, LDL_FACTOR_EX, LdlFactor, LdlFactorWithInfo
from tensor.linalg.systems.solving import check_right_sides
from tensor.operations.definition import operation
from tensor.operations.reduction import all_into_out, into_out

from . import ldl_on_host

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


def _no_derivative(expected: Any, grads: Any) -> Any:
    raise RuntimeError(
        "derivative for linalg_ldl_factor_ex is not implemented: use linalg.lu_factor, linalg.cholesky or linalg.solve"
    )


_FACTOR_BACKWARD = BackwardFormula(
    "LinalgLdlFactorExBackward0", "a", joint=Derivative(_no_derivative, needs="")
)


def _factored(name: str, a: Tensor, hermitian: bool, check: bool) -> LdlFactorWithInfo:
    check_square(name, a)

    def work(array: Array) -> tuple[Array, Array, Array]:
        factors = np.array(array)
        pivots = np.zeros(array.shape[:-1], np.int32)
        info = np.zeros(array.shape[:-2], np.int32)
        for at in np.ndindex(*array.shape[:-2]):
            factors[at], pivots[at], info[at] = ldl_on_host.factor(array[at], hermitian=hermitian)
        if check:
            check_info(name, "ldl", info, RuntimeError)
        return factors, pivots, info

    factors, pivots, info = on_host(work, a)
    _FACTOR_BACKWARD.record((factors,), (a,))
    return LdlFactorWithInfo(factors, pivots, info)


@operation(namespace="linalg", method=False)
def ldl_factor(A: Tensor, *, hermitian: bool = False, out: Any = None) -> LdlFactor:  # noqa: N803 - PyTorch's name
    """Factors of symmetric (or Hermitian) matrices for :func:`ldl_solve`, in LAPACK's form. No derivative goes through.

    CUDA tensors go through the host, which waits for them. One matrix is factored after the other, row by row: for
    large ones :func:`lu_factor` is faster.

    Parameters
    ----------
    A
        ``(*, n, n)``; the lower triangle is looked at.
    hermitian
        Whether complex matrices are Hermitian and not symmetric.

    Raises
    ------
    RuntimeError
        If a diagonal element of ``D`` is zero; it says of which matrix. If the matrices are not square, or of another
        type than single or double precision.

    Examples
    --------
    >>> tensor.linalg.ldl_factor(tensor.tensor([[4.0, 2.0], [2.0, 3.0]])).LD[1, 0]
    tensor(0.5000)
    """
    factors, pivots, _ = _factored("linalg.ldl_factor", A, bool(hermitian), True)
    result: LdlFactor = all_into_out(LDL_FACTOR(factors, pivots), out, "linalg.ldl_factor")
    return result


@operation(namespace="linalg", method=False)
def ldl_factor_ex(
    A: Tensor,  # noqa: N803
    *,
    hermitian: bool = False,
    check_errors: bool = False,
    out: Any = None,
) -> LdlFactorWithInfo:
    """:func:`ldl_factor` that reports a zero on the diagonal of ``D`` in ``info`` instead of raising an error.

    Parameters
    ----------
    check_errors : bool
        Whether to raise an error all the same.

    Returns
    -------
    LdlFactorWithInfo
        Named tuple of ``LD``, ``pivots`` and int32 ``info``: 0, or the number, from 1, of the first zero.

    Examples
    --------
    >>> tensor.linalg.ldl_factor_ex(tensor.zeros(2, 2)).info
    tensor(1, dtype=tensor.int32)
    """
    value = _factored("linalg.ldl_factor_ex", A, bool(hermitian), check_errors)
    result: LdlFactorWithInfo = all_into_out(LDL_FACTOR_EX(*value), out, "linalg.ldl_factor_ex")
    return result


def _solve_gradient(
    expected: Any, grads: Any, factors: Tensor, pivots: Tensor, hermitian: bool
) -> tuple[None, None, Tensor]:
    if expected[0]:
        raise RuntimeError(
            "derivative for linalg_ldl_solve with respect to LD is not implemented: use linalg.solve"
        )
    if hermitian or not factors._layout.dtype.is_complex:
        return None, None, _solved(factors, pivots, grads, hermitian)
    # The adjoint of a symmetric matrix is its conjugate.
    return None, None, _solved(factors, pivots, grads.conj(), hermitian).conj()


_SOLVE_BACKWARD = BackwardFormula(
    "LinalgLdlSolveBackward0", "factors pivots b", joint=Derivative(_solve_gradient, needs="factors pivots")
)


def _through_blocks(blocks: Array, b: Array) -> Array:
    try:
        return np.linalg.solve(blocks, b)
    except np.linalg.LinAlgError:
        _, singular = one_by_one(np.linalg.inv, blocks.shape[-2:], blocks)
        info = np.zeros(blocks.shape[:-2], np.int32)
        info.reshape(-1)[singular] = 1
        check_info("linalg.ldl_solve", "solution", info)
        raise


def _solved(factors: Tensor, pivots: Tensor, b: Tensor, hermitian: bool) -> Tensor:
    def work(factors: Array, pivots: Array, b: Array) -> tuple[Array]:
        lower, middle = np.empty_like(factors), np.empty_like(factors)
        for at in np.ndindex(*factors.shape[:-2]):
            lower[at], middle[at] = ldl_on_host.unpack(factors[at], pivots[at], hermitian=hermitian)
        back = np.swapaxes(np.conj(lower) if hermitian else lower, -1, -2)
        return (np.linalg.solve(back, _through_blocks(middle, np.linalg.solve(lower, b))),)

    (result,) = on_host(work, factors, pivots, b)
    _SOLVE_BACKWARD.record((result,), (factors, pivots, b), context=(hermitian,))
    return result


@operation(namespace="linalg", method=False)
def ldl_solve(
    LD: Tensor,  # noqa: N803
    pivots: Tensor,
    B: Tensor,  # noqa: N803
    *,
    hermitian: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The ``X`` of ``A @ X = B`` from :func:`ldl_factor`'s results for ``A``. Derivatives go to ``B`` only.

    Raises
    ------
    LinAlgError
        If a matrix is singular; it says which.
    RuntimeError
        If ``LD`` is not square, ``pivots`` are not integers with one for each row, ``B`` has not as many rows, the
        dimensions before the last two cannot be broadcast together, or dtypes or devices differ.

    Examples
    --------
    >>> factors, pivots = tensor.linalg.ldl_factor(tensor.tensor([[4.0, 0.0], [0.0, 2.0]]))
    >>> tensor.linalg.ldl_solve(factors, pivots, tensor.tensor([[4.0], [4.0]]))
    tensor([[1.],
            [2.]])
    """
    name = "linalg.ldl_solve"
    check_square(name, LD, "LD")
    check_tensor(pivots, name, "pivots")
    if pivots._layout.dtype is not int32:
        raise RuntimeError(f"{name}: Expected pivots to be int32, got {pivots._layout.dtype!r}")
    if (
        pivots._layout.shape != LD._layout.shape[:-1]
        or pivots._layout.device_state is not LD._layout.device_state
    ):
        raise RuntimeError(
            f"{name}: Expected pivots of shape {list(LD._layout.shape[:-1])} on {LD._layout.device}, got "
            f"{list(pivots._layout.shape)} on {pivots._layout.device}"
        )
    check_matrices(name, B, "B")
    check_alike(name, LD, B, "LD", "B")
    check_right_sides(name, LD, B, left=True, vector=False)
    return into_out(_solved(LD, pivots, B, bool(hermitian)), out, name)

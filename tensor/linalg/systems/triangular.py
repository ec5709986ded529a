"""Triangular systems, and those of a Cholesky factorisation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.linalg.checks import check_alike, check_matrices, check_square
from tensor.linalg.host import adjoint_of, on_host
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.creation.grids import eye
from tensor.operations.definition import operation
from tensor.operations.products.contractions import matmul
from tensor.operations.reduction import into_out
from tensor.operations.shapes import triangles

from . import triangular_on_device, triangular_on_host
from .solving import check_right_sides
from .triangular_on_device import System

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


def triangle(x: Tensor, *, upper: bool, without_diagonal: bool = False) -> Tensor:
    """``x`` with zeros outside of a triangle."""
    if upper:
        return triangles.triu(x, 1 if without_diagonal else 0)
    return triangles.tril(x, -1 if without_diagonal else 0)


def _gradient(expected: Any, grads: Any, a: Tensor, x: Tensor, upper: bool, left: bool, unit: bool) -> Any:
    right = substituted(a.mH, grads, upper=not upper, left=left, unit=unit)
    if not expected[0]:
        return None, right
    towards = -(matmul(right, x.mH) if left else matmul(x.mH, right))
    return triangle(towards, upper=upper, without_diagonal=unit), right


_SOLVED_BACKWARD = BackwardFormula(
    "LinalgSolveTriangularBackward0", "a b", joint=Derivative(_gradient, needs=("a out", "a"))
)


def substituted(a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unit: bool = False) -> Tensor:
    """The solution of a checked triangular system, recorded."""

    def work(a: Array, b: Array) -> tuple[Array]:
        if left:
            return (triangular_on_host.solve(a, b, upper=upper, unit=unit),)
        a, b = np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)
        return (np.swapaxes(triangular_on_host.solve(a, b, upper=not upper, unit=unit), -1, -2),)

    if a._layout.device_state.is_cuda:
        result = triangular_on_device.solved(a, b, System(upper, left, unit))
    else:
        (result,) = on_host(work, a, b)
    _SOLVED_BACKWARD.record((result,), (a, b), context=(upper, left, unit))
    return result


@operation(namespace="linalg", method=False)
def solve_triangular(
    A: Tensor,  # noqa: N803 - PyTorch's name
    B: Tensor,  # noqa: N803
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The ``X`` of ``A @ X = B`` (``X @ A = B`` with ``left=False``) for a triangle of ``A``.

    A zero on the diagonal gives infinities and NaN. On CUDA it is cuBLAS that solves; nothing waits.

    Parameters
    ----------
    A
        Square matrices ``(*, n, n)``; the other triangle is not looked at.
    B
        Matrices ``(*, n, k)`` (``(*, k, n)``), whose batch dimensions broadcast with those of ``A``.
    upper
        Which triangle.
    unitriangular
        Whether the diagonal counts as ones.

    Raises
    ------
    RuntimeError
        If ``A`` is not square, ``B`` has not its size in rows (columns with ``left=False``), the dimensions before
        the last two cannot be broadcast together, or dtypes or devices differ.

    Examples
    --------
    >>> A = tensor.tensor([[2.0, 0.0], [1.0, 4.0]])
    >>> tensor.linalg.solve_triangular(A, tensor.tensor([[2.0], [5.0]]), upper=False)
    tensor([[1.],
            [1.]])
    """
    name = "linalg.solve_triangular"
    check_square(name, A)
    check_matrices(name, B, "B")
    check_alike(name, A, B)
    check_right_sides(name, A, B, left=left, vector=False)
    result = substituted(A, B, upper=bool(upper), left=bool(left), unit=bool(unitriangular))
    return into_out(result, out, name)


def _from_cholesky(factor: Array, b: Array, upper: bool) -> tuple[Array]:
    lower = adjoint_of(factor) if upper else factor
    first = triangular_on_host.solve(lower, b, upper=False)
    return (triangular_on_host.solve(adjoint_of(lower), first, upper=True),)


def _cholesky_systems(upper: bool) -> tuple[System, System]:
    """The factor that stands on the left, and then the other."""
    return System(upper, adjoint=upper), System(upper, adjoint=not upper)


def _cholesky_gradient(expected: Any, grads: Any, factor: Tensor, x: Tensor, upper: bool) -> Any:
    right = _solved(factor, grads, upper)
    if not expected[0]:
        return None, right
    towards = matmul(right, x.mH)
    return _toward_factor(-(towards + towards.mH), factor, upper), right


_CHOLESKY_BACKWARD = BackwardFormula(
    "CholeskySolveBackward0", "factor b", joint=Derivative(_cholesky_gradient, needs=("factor out", "factor"))
)


def _toward_factor(towards: Tensor, factor: Tensor, upper: bool) -> Any:
    """The gradient of a Cholesky factor from that of the matrix, which is Hermitian."""
    ours = triangle(factor, upper=upper)
    return triangle(matmul(ours, towards) if upper else matmul(towards, ours), upper=upper)


def _solved(factor: Tensor, b: Tensor, upper: bool) -> Tensor:
    if factor._layout.device_state.is_cuda:
        result = triangular_on_device.solved(factor, b, *_cholesky_systems(upper))
    else:
        (result,) = on_host(lambda factor, b: _from_cholesky(factor, b, upper), factor, b)
    _CHOLESKY_BACKWARD.record((result,), (factor, b), context=(upper,))
    return result


@operation(autocast=Autocast(cpu=FLOAT32))
def cholesky_solve(
    input: Tensor,
    L: Tensor,  # noqa: N803
    upper: bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The ``X`` of ``A @ X = input``, where ``A`` is ``L @ L.mH``, or ``L.mH @ L`` for an upper factor.

    Raises
    ------
    RuntimeError
        If ``L`` is not square, ``input`` has not as many rows, the dimensions before the last two cannot be broadcast
        together, or dtypes or devices differ.

    Examples
    --------
    >>> L = tensor.tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> tensor.cholesky_solve(tensor.tensor([[4.0], [4.0]]), L)
    tensor([[1.],
            [4.]])
    """
    check_square("cholesky_solve", L, "L")
    check_matrices("cholesky_solve", input, "b")
    check_alike("cholesky_solve", L, input, "L", "b")
    check_right_sides("cholesky_solve", L, input, left=True, vector=False)
    return into_out(_solved(L, input, bool(upper)), out, "cholesky_solve")


@operation(autocast=Autocast(cpu=FLOAT32))
def cholesky_inverse(
    L: Tensor,  # noqa: N803
    upper: bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of ``L @ L.mH``, or of ``L.mH @ L`` for an upper factor.

    Raises
    ------
    RuntimeError
        If ``L`` is not square, or of another type than single or double precision.

    Examples
    --------
    >>> tensor.cholesky_inverse(tensor.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([[0.2500, 0.0000],
            [0.0000, 1.0000]])
    """
    check_square("cholesky_inverse", L, "L")
    upper = bool(upper)

    def work(factor: Array) -> tuple[Array]:
        return _from_cholesky(factor, np.eye(factor.shape[-1], dtype=factor.dtype), upper)

    if L._layout.device_state.is_cuda:
        one = eye(L._layout.shape[-1], dtype=L._layout.dtype, device=L._layout.device)
        result = triangular_on_device.solved(L, one, *_cholesky_systems(upper))
    else:
        (result,) = on_host(work, L)
    _INVERSE_BACKWARD.record((result,), (L,), context=(upper,))
    return into_out(result, out, "cholesky_inverse")


def _inverse_gradient(expected: Any, grads: Any, factor: Tensor, result: Tensor, upper: bool) -> Any:
    return (_toward_factor(-matmul(result, matmul(grads + grads.mH, result)), factor, upper),)


_INVERSE_BACKWARD = BackwardFormula(
    "CholeskyInverseBackward0", "L", joint=Derivative(_inverse_gradient, needs="L out")
)

"""Functions of matrices that PyTorch has at the top level: older names of what :mod:`tensor.linalg` has, and more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.core.base import TensorBase
from tensor.operations.autocast import AS_GIVEN, FLOAT32, LOWER, Autocast
from tensor.operations.definition import operation
from tensor.operations.pointwise.selection import where
from tensor.operations.reduction import all_given, given
from tensor.operations.shapes import views

from . import determinants, exponential, products
from .checks import check_alike, check_matrices, check_square
from .cholesky_factor import factored as cholesky_factored
from .host import on_host
from .least_squares import pseudoinverse
from .lu_factorization import factored as lu_factored
from .lu_factorization import solved
from .qr_factor import check_reflectors, householder_product, reflected
from .qr_factor import factored as qr_factored
from .results import (
    LuFactor,
    OrthogonalTriangular,
    Reflectors,
    SignAndLogarithm,
    SingularValuesAndColumns,
    TriangularSolution,
)
from .singular_values import factored as svd_factored
from .singular_values import singular_values
from .solving import check_right_sides, inverted
from .triangular import substituted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


@operation(autocast=Autocast(cpu=FLOAT32))
def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """:func:`tensor.linalg.inv`."""
    return inverted("linalg.inv", input, out)


@operation(autocast=Autocast(cpu=FLOAT32))
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """:func:`tensor.linalg.pinv`."""
    return pseudoinverse("linalg.pinv", input, rcond, None, False)


@operation()
def det(input: Tensor) -> Tensor:
    """:func:`tensor.linalg.det`."""
    return determinants.det(input)


@operation()
def slogdet(input: Tensor, *, out: Any = None) -> SignAndLogarithm:
    """:func:`tensor.linalg.slogdet`."""
    return determinants.slogdet(input, out=out)


@operation()
def logdet(input: Tensor) -> Tensor:
    """Logarithms of determinants: NaN for negative ones, -inf for singular matrices."""
    sign, logarithm = determinants.sign_and_logarithm("logdet", input)
    if input._layout.dtype.is_complex:
        phased: Tensor = sign.log() + logarithm
        return phased
    result: Tensor = where(sign < 0, float("nan"), logarithm)
    return result


@operation()
def matrix_power(input: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """:func:`tensor.linalg.matrix_power`."""
    return products.matrix_power(input, n, out=out)


@operation()
def matrix_exp(input: Tensor) -> Tensor:
    """:func:`tensor.linalg.matrix_exp`."""
    return exponential.matrix_exp(input)


@operation(method=False, autocast=Autocast(cuda=LOWER))
def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """:func:`tensor.linalg.multi_dot` of matrices given one by one."""
    if len(matrices) == 1 and isinstance(matrices[0], TensorBase):
        return given(matrices[0].clone(), out, "chain_matmul")
    return given(products.chained("chain_matmul", matrices), out, "chain_matmul")


@operation(autocast=Autocast(cpu=FLOAT32))
def cholesky(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """:func:`tensor.linalg.cholesky`."""
    return given(cholesky_factored("cholesky", input, bool(upper))[0], out, "cholesky")


@operation(autocast=Autocast(cpu=FLOAT32))
def qr(input: Tensor, some: bool = True, *, out: Any = None) -> OrthogonalTriangular:
    """:func:`tensor.linalg.qr`, reduced or (``some=False``) complete."""
    mode = "reduced" if some else "complete"
    result: OrthogonalTriangular = all_given(qr_factored("qr", input, mode), out, "qr")
    return result


@operation(autocast=Autocast(cpu=FLOAT32))
def svd(
    input: Tensor, some: bool = True, compute_uv: bool = True, *, out: Any = None
) -> SingularValuesAndColumns:
    """:func:`tensor.linalg.svd`, thin by default, with ``V`` instead of its adjoint.

    Parameters
    ----------
    compute_uv
        Whether there are vectors; else zeros stand in their places.
    """
    check_matrices("linalg.svd", input)
    if compute_uv:
        u, s, vh = svd_factored("linalg.svd", input, not some)
        value = SingularValuesAndColumns(u, s, vh.mH)
    else:
        *batch, rows, columns = input._layout.shape
        value = SingularValuesAndColumns(
            input.new_zeros((*batch, rows, rows)),
            singular_values("linalg.svd", input),
            input.new_zeros((*batch, columns, columns)),
        )
    result: SingularValuesAndColumns = all_given(value, out, "svd")
    return result


@operation(autocast=Autocast(cpu=FLOAT32))
def triangular_solve(
    input: Tensor,
    A: Tensor,  # noqa: N803 - PyTorch's name
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    *,
    out: Any = None,
) -> TriangularSolution:
    """The ``X`` of ``A @ X = input``, and a copy of ``A``; see :func:`tensor.linalg.solve_triangular`.

    Parameters
    ----------
    transpose
        Whether the equation has the transposed ``A`` instead.
    """
    name = "triangular_solve"
    check_square(name, A)
    check_matrices(name, input, "b")
    check_alike(name, A, input, "A", "b")
    check_right_sides(name, A, input, left=True, vector=False)
    turned = views.transpose(A, -2, -1) if transpose else A
    solution = substituted(turned, input, upper=bool(upper) is not bool(transpose), unit=bool(unitriangular))
    result: TriangularSolution = all_given(TriangularSolution(solution, A.clone()), out, name)
    return result


@operation()
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:  # noqa: N803
    """:func:`tensor.linalg.lu_factor_ex`, whose third result is there with ``get_infos`` only."""
    result = lu_factored("lu", A, pivot, False, RuntimeError)
    return all_given(result if get_infos else LuFactor(result.LU, result.pivots), out, "lu")


@operation(autocast=Autocast(cpu=FLOAT32))
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:  # noqa: N803
    """:func:`tensor.linalg.lu_solve`, whose arguments have another order."""
    return given(solved("lu_solve", LU_data, LU_pivots, b, True, False), out, "lu_solve")


@operation(autocast=Autocast(cpu=FLOAT32))
def geqrf(input: Tensor, *, out: Any = None) -> Reflectors:
    """Householder reflectors of a QR factorisation below R; :func:`tensor.linalg.householder_product` makes Q of them.

    No derivative goes through it. CUDA tensors go through the host, which waits for them.
    """
    check_matrices("geqrf", input, "input")

    def work(array: Array) -> tuple[Array, Array]:
        value, scales = np.linalg.qr(array, "raw")
        # NumPy shows LAPACK's memory, which is transposed.
        return np.swapaxes(value, -1, -2).astype(array.dtype), scales.astype(array.dtype)

    results = Reflectors(*on_host(work, input.detach()))
    result: Reflectors = all_given(results, out, "geqrf")
    return result


@operation(autocast=Autocast(cuda=AS_GIVEN, cpu=FLOAT32))
def orgqr(input: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """:func:`tensor.linalg.householder_product`."""
    return householder_product(input, tau, out=out)


@operation(autocast=Autocast(cuda=AS_GIVEN, cpu=FLOAT32))
def ormqr(
    input: Tensor,
    tau: Tensor,
    other: Tensor,
    left: bool = True,
    transpose: bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """``Q @ other`` (``other @ Q`` with ``left=False``), where the square ``Q`` is a product of reflectors.

    Parameters
    ----------
    input, tau
        As :func:`geqrf` gives them.
    transpose
        Whether to multiply by ``Q.mH`` instead.
    """
    check_reflectors("ormqr", input, tau)
    check_alike("ormqr", input, other, "input", "other")
    check_matrices("ormqr", other, "other")
    dim = -2 if left else -1
    if other._layout.shape[dim] != input._layout.shape[-2]:
        raise RuntimeError(
            f"ormqr: other.shape[{dim}] must be equal to input.shape[-2], but got {other._layout.shape[dim]} and "
            f"{input._layout.shape[-2]}"
        )
    # X @ Q is (Q^H @ X^H)^H.
    adjoint = bool(transpose) is bool(left)
    order = range(tau._layout.shape[-1])
    x = other if left else other.mH
    result = reflected(input, tau, x, order if adjoint else reversed(order), adjoint=adjoint)
    return given(result if left else result.mH, out, "ormqr")

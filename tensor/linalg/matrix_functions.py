"""Functions of matrices that PyTorch has at the top level: older names of what :mod:`tensor.linalg` has, and more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.core.base import TensorBase
from tensor.linalg.factorizations.cholesky import factored as cholesky_factored
from tensor.linalg.factorizations.lu import factored as lu_factored
from tensor.linalg.factorizations.lu import solved
from tensor.linalg.factorizations.qr import check_reflectors, householder_product, reflected
from tensor.linalg.factorizations.qr import factored as qr_factored
from tensor.linalg.factorizations.singular_values import factored as svd_factored
from tensor.linalg.factorizations.singular_values import singular_values
from tensor.linalg.systems.least_squares import pseudoinverse
from tensor.linalg.systems.solving import check_right_sides, inverted
from tensor.linalg.systems.triangular import substituted
from tensor.operations.autocast import AS_GIVEN, FLOAT32, LOWER, Autocast
from tensor.operations.definition import operation
from tensor.operations.pointwise.selection import where
from tensor.operations.reduction import all_into_out, into_out
from tensor.operations.shapes import views

from . import determinants, exponential, products
from .checks import check_alike, check_matrices, check_square
from .host import on_host
from .results import (
    GEQRF,
    QR,
    SLOGDET,
    SVD,
    TRIANGULAR_SOLVE,
    LuFactor,
    OrthogonalTriangular,
    Reflectors,
    SignAndLogarithm,
    SingularValuesAndColumns,
    TriangularSolution,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


@operation(autocast=Autocast(cpu=FLOAT32))
def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverses of square matrices ``(*, n, n)``; an alias of :func:`tensor.linalg.inv`.

    Raises
    ------
    LinAlgError
        If a matrix is singular.
    RuntimeError
        If the matrices are not square, or not of single or double precision.

    Examples
    --------
    >>> tensor.inverse(tensor.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return inverted("linalg.inv", input, out)


@operation(autocast=Autocast(cpu=FLOAT32))
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """Moore-Penrose pseudoinverses of matrices ``(*, m, n)``: ``(*, n, m)``; see :func:`tensor.linalg.pinv`.

    Parameters
    ----------
    rcond : float
        Singular values up to this fraction of the largest one count as 0.

    Examples
    --------
    >>> tensor.pinverse(tensor.tensor([[2.0, 0.0], [0.0, 0.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])
    """
    return pseudoinverse("linalg.pinv", input, rcond, None, False)


@operation()
def det(input: Tensor) -> Tensor:
    """Determinants of square matrices ``(*, n, n)``, of shape ``*``; an alias of :func:`tensor.linalg.det`.

    Raises
    ------
    RuntimeError
        If the matrices are not square, or not of single or double precision.

    Examples
    --------
    >>> tensor.det(tensor.tensor([[1.0, 2.0], [3.0, 4.0]])).round(decimals=4)
    tensor(-2.)
    """
    return determinants.det(input)


@operation()
def slogdet(input: Tensor, *, out: Any = None) -> SignAndLogarithm:
    """Signs and logarithms of absolute determinants of square matrices; an alias of :func:`tensor.linalg.slogdet`.

    Raises
    ------
    RuntimeError
        If the matrices are not square, or not of single or double precision.

    Examples
    --------
    >>> sign, logarithm = tensor.slogdet(tensor.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> sign, logarithm
    (tensor(-1.), tensor(0.))
    """
    return SLOGDET(*determinants.slogdet(input, out=out))


@operation()
def logdet(input: Tensor) -> Tensor:
    """Logarithms of determinants of square matrices ``(*, n, n)``, of shape ``*``.

    NaN for negative determinants and -inf for singular matrices; of complex matrices, the complex logarithm.

    Raises
    ------
    RuntimeError
        If the matrices are not square, or not of single or double precision.

    Examples
    --------
    >>> tensor.logdet(tensor.eye(2) * 2)
    tensor(1.3863)
    """
    sign, logarithm = determinants.sign_and_logarithm("logdet", input)
    if input._layout.dtype.is_complex:
        phased: Tensor = sign.log() + logarithm
        return phased
    result: Tensor = where(sign < 0, float("nan"), logarithm)
    return result


@operation()
def matrix_power(input: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """Square matrices to an integer power, ``input @ ... @ input``; an alias of :func:`tensor.linalg.matrix_power`.

    Parameters
    ----------
    n : int
        0 gives identity matrices, negative numbers powers of the inverses.

    Raises
    ------
    LinAlgError
        If ``n`` is negative and a matrix is singular.
    RuntimeError
        If the matrices are not square.

    Examples
    --------
    >>> tensor.matrix_power(tensor.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    return products.matrix_power(input, n, out=out)


@operation()
def matrix_exp(input: Tensor) -> Tensor:
    """Matrix exponentials ``sum(input**k / k!)`` of square matrices; an alias of :func:`tensor.linalg.matrix_exp`.

    Raises
    ------
    RuntimeError
        If the matrices are not square, or not of single or double precision.

    Examples
    --------
    >>> tensor.matrix_exp(tensor.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return exponential.matrix_exp(input)


@operation(method=False, autocast=Autocast(cuda=LOWER))
def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """Product of matrices, in the order of multiplication that takes the fewest operations.

    :func:`tensor.linalg.multi_dot` takes them as one sequence. A single matrix is copied.

    Raises
    ------
    RuntimeError
        If there is no matrix, inner sizes differ, or dtypes or devices differ.

    Examples
    --------
    >>> tensor.chain_matmul(tensor.ones(2, 3), tensor.ones(3, 4), tensor.ones(4, 1))
    tensor([[12.],
            [12.]])
    """
    if len(matrices) == 1 and isinstance(matrices[0], TensorBase):
        return into_out(matrices[0].clone(), out, "chain_matmul")
    return into_out(products.chained("chain_matmul", matrices), out, "chain_matmul")


@operation(autocast=Autocast(cpu=FLOAT32))
def cholesky(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Cholesky factors ``L`` with ``input = L @ L.mH`` of Hermitian positive-definite matrices ``(*, n, n)``.

    With ``upper``, ``U`` with ``input = U.mH @ U``. See :func:`tensor.linalg.cholesky`.

    Raises
    ------
    LinAlgError
        If a matrix is not positive-definite.
    RuntimeError
        If the matrices are not square, or not of single or double precision.

    Examples
    --------
    >>> tensor.cholesky(tensor.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    return into_out(cholesky_factored("cholesky", input, bool(upper))[0], out, "cholesky")


@operation(autocast=Autocast(cpu=FLOAT32))
def qr(input: Tensor, some: bool = True, *, out: Any = None) -> OrthogonalTriangular:
    """QR decompositions ``input = Q @ R`` of matrices ``(*, m, n)``; see :func:`tensor.linalg.qr`.

    Parameters
    ----------
    some : bool
        Whether they are reduced, with ``Q`` of shape ``(*, m, min(m, n))``, or complete, with ``(*, m, m)``.
    out : tuple of Tensor, optional
        Two tensors that the results are written to.

    Examples
    --------
    >>> q, r = tensor.qr(tensor.ones(3, 2))
    >>> q.shape, r.shape
    (tensor.Size([3, 2]), tensor.Size([2, 2]))
    """
    mode = "reduced" if some else "complete"
    result: OrthogonalTriangular = all_into_out(QR(*qr_factored("qr", input, mode)), out, "qr")
    return result


@operation(autocast=Autocast(cpu=FLOAT32))
def svd(
    input: Tensor, some: bool = True, compute_uv: bool = True, *, out: Any = None
) -> SingularValuesAndColumns:
    """:func:`tensor.linalg.svd`, thin by default, with ``V`` instead of its adjoint.

    Parameters
    ----------
    compute_uv
        Whether there are vectors; else zeros are returned for them.

    Examples
    --------
    >>> u, s, v = tensor.svd(tensor.ones(3, 2))
    >>> u.shape, s.shape, v.shape
    (tensor.Size([3, 2]), tensor.Size([2]), tensor.Size([2, 2]))
    """
    check_matrices("linalg.svd", input)
    if compute_uv:
        u, s, vh = svd_factored("linalg.svd", input, not some)
        value = SVD(u, s, vh.mH)
    else:
        *batch, rows, columns = input._layout.shape
        value = SVD(
            input.new_zeros((*batch, rows, rows)),
            singular_values("linalg.svd", input),
            input.new_zeros((*batch, columns, columns)),
        )
    result: SingularValuesAndColumns = all_into_out(value, out, "svd")
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

    Examples
    --------
    >>> A = tensor.tensor([[2.0, 0.0], [0.0, 4.0]])
    >>> tensor.triangular_solve(tensor.tensor([[2.0], [2.0]]), A).solution
    tensor([[1.0000],
            [0.5000]])
    """
    name = "triangular_solve"
    check_square(name, A)
    check_matrices(name, input, "b")
    check_alike(name, A, input, "A", "b")
    check_right_sides(name, A, input, left=True, vector=False)
    turned = views.transpose(A, -2, -1) if transpose else A
    solution = substituted(turned, input, upper=bool(upper) is not bool(transpose), unit=bool(unitriangular))
    result: TriangularSolution = all_into_out(TRIANGULAR_SOLVE(solution, A.clone()), out, name)
    return result


@operation()
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:  # noqa: N803
    """LU decompositions of matrices ``(*, m, n)``, packed as :func:`tensor.linalg.lu_factor` returns them.

    Parameters
    ----------
    pivot : bool
        Whether rows are exchanged.
    get_infos : bool
        Whether to return a third result: int32, 0 or the number, from 1, of the first zero on the diagonal of ``U``.

    Returns
    -------
    LuFactor or LuFactorWithInfo
        Named tuple of ``LU``, int32 ``pivots`` and with ``get_infos`` ``info``.

    Examples
    --------
    >>> factors, pivots = tensor.lu(tensor.tensor([[1.0, 2.0], [2.0, 2.0]]))
    >>> factors, pivots
    (tensor([[2.0000, 2.0000],
            [0.5000, 1.0000]]), tensor([2, 2], dtype=tensor.int32))
    """
    result = lu_factored("lu", A, pivot, False, RuntimeError)
    return all_into_out(result if get_infos else LuFactor(result.LU, result.pivots), out, "lu")


@operation(autocast=Autocast(cpu=FLOAT32))
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:  # noqa: N803
    """The ``X`` of ``A @ X = b`` for a matrix factored by :func:`lu`; see :func:`tensor.linalg.lu_solve`.

    Parameters
    ----------
    b : Tensor
        Right-hand sides ``(*, n, k)``.
    LU_data, LU_pivots : Tensor
        The results of :func:`lu` or :func:`tensor.linalg.lu_factor`.

    Examples
    --------
    >>> factors = tensor.lu(tensor.tensor([[2.0, 0.0], [0.0, 4.0]]))
    >>> tensor.lu_solve(tensor.tensor([[2.0], [2.0]]), *factors)
    tensor([[1.0000],
            [0.5000]])
    """
    return into_out(solved("lu_solve", LU_data, LU_pivots, b, True, False), out, "lu_solve")


@operation(autocast=Autocast(cpu=FLOAT32))
def geqrf(input: Tensor, *, out: Any = None) -> Reflectors:
    """Householder reflectors of a QR factorisation below R; :func:`tensor.linalg.householder_product` makes Q of them.

    No derivative goes through it. CUDA tensors go through the host, which waits for them.

    Examples
    --------
    >>> reflectors, tau = tensor.geqrf(tensor.ones(3, 2))
    >>> reflectors.shape, tau.shape
    (tensor.Size([3, 2]), tensor.Size([2]))
    """
    check_matrices("geqrf", input, "input")

    def work(array: Array) -> tuple[Array, Array]:
        value, scales = np.linalg.qr(array, "raw")
        # NumPy shows LAPACK's memory, which is transposed.
        return np.swapaxes(value, -1, -2).astype(array.dtype), scales.astype(array.dtype)

    results = GEQRF(*on_host(work, input.detach()))
    result: Reflectors = all_into_out(results, out, "geqrf")
    return result


@operation(autocast=Autocast(cuda=AS_GIVEN, cpu=FLOAT32))
def orgqr(input: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first columns of products of Householder reflectors; an alias of :func:`tensor.linalg.householder_product`.

    Parameters
    ----------
    input, tau : Tensor
        The results of :func:`geqrf`.

    Examples
    --------
    >>> q = tensor.orgqr(*tensor.geqrf(tensor.tensor([[3.0, 1.0], [4.0, 2.0]])))
    >>> q.abs()
    tensor([[0.6000, 0.8000],
            [0.8000, 0.6000]])
    """
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

    Examples
    --------
    >>> reflectors, tau = tensor.geqrf(tensor.tensor([[3.0, 1.0], [4.0, 2.0]]))
    >>> tensor.ormqr(reflectors, tau, tensor.eye(2)).abs()
    tensor([[0.6000, 0.8000],
            [0.8000, 0.6000]])
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
    return into_out(result if left else result.mH, out, "ormqr")

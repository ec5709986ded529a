"""What functions with several results return, under PyTorch's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tensor.operations.return_types import return_type

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor


class InverseWithInfo(NamedTuple):
    """Inverses, and which pivot of a matrix is zero (0 where none is)."""

    inverse: Tensor
    info: Tensor


class SolutionWithInfo(NamedTuple):
    """Solutions, and which pivot of a matrix is zero (0 where none is)."""

    result: Tensor
    info: Tensor


class SignAndLogarithm(NamedTuple):
    """A determinant as its sign and the logarithm of its magnitude."""

    sign: Tensor
    logabsdet: Tensor


class CholeskyWithInfo(NamedTuple):
    """Factors, and the order of the first minor of a matrix that is not positive definite (0 where all are)."""

    L: Tensor
    info: Tensor


class OrthogonalTriangular(NamedTuple):
    """Orthonormal columns and a triangular matrix, whose product the matrix is."""

    Q: Tensor
    R: Tensor


class Reflectors(NamedTuple):
    """Householder reflectors below the diagonal of R, and their scales."""

    a: Tensor
    tau: Tensor


class SingularValues(NamedTuple):
    """Left singular vectors in columns, singular values from the largest on, right singular vectors in rows."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class SingularValuesAndColumns(NamedTuple):
    """Singular values from the largest on, and the singular vectors in columns."""

    U: Tensor
    S: Tensor
    V: Tensor


class Eigenpairs(NamedTuple):
    """Eigenvalues, and eigenvectors in columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class LuFactor(NamedTuple):
    """L and U in one matrix, and with which row (from 1) each one was exchanged."""

    LU: Tensor
    pivots: Tensor


class LuFactorWithInfo(NamedTuple):
    """:class:`LuFactor`, and which diagonal element of U is zero (0 where none is)."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


class LdlFactor(NamedTuple):
    """L and D in one matrix, and how rows were exchanged."""

    LD: Tensor
    pivots: Tensor


class LdlFactorWithInfo(NamedTuple):
    """:class:`LdlFactor`, and which diagonal element of D is zero (0 where none is)."""

    LD: Tensor
    pivots: Tensor
    info: Tensor


class PermutedTriangles(NamedTuple):
    """A permutation, a lower and an upper triangle, whose product the matrix is."""

    P: Tensor
    L: Tensor
    U: Tensor


class LeastSquares(NamedTuple):
    """Solutions, squared distances, ranks and singular values; the last three are empty where not computed."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


class TriangularSolution(NamedTuple):
    """Solutions, and a copy of the coefficients."""

    solution: Tensor
    cloned_coefficient: Tensor


#: The types of each function, which print under its name.
INV_EX = return_type("linalg_inv_ex", InverseWithInfo)
SOLVE_EX = return_type("linalg_solve_ex", SolutionWithInfo)
LINALG_SLOGDET = return_type("linalg_slogdet", SignAndLogarithm)
SLOGDET = return_type("slogdet", SignAndLogarithm)
CHOLESKY_EX = return_type("linalg_cholesky_ex", CholeskyWithInfo)
LINALG_QR = return_type("linalg_qr", OrthogonalTriangular)
QR = return_type("qr", OrthogonalTriangular)
GEQRF = return_type("geqrf", Reflectors)
LINALG_SVD = return_type("linalg_svd", SingularValues)
SVD = return_type("svd", SingularValuesAndColumns)
EIGH = return_type("linalg_eigh", Eigenpairs)
EIG = return_type("linalg_eig", Eigenpairs)
LU_FACTOR = return_type("linalg_lu_factor", LuFactor)
LU_FACTOR_EX = return_type("linalg_lu_factor_ex", LuFactorWithInfo)
LDL_FACTOR = return_type("linalg_ldl_factor", LdlFactor)
LDL_FACTOR_EX = return_type("linalg_ldl_factor_ex", LdlFactorWithInfo)
LINALG_LU = return_type("linalg_lu", PermutedTriangles)
LU_UNPACK = return_type("lu_unpack", PermutedTriangles)
LSTSQ = return_type("linalg_lstsq", LeastSquares)
TRIANGULAR_SOLVE = return_type("triangular_solve", TriangularSolution)

"""Linear algebra."""

from .cholesky_factor import cholesky, cholesky_ex
from .determinants import det, slogdet
from .eigenvalues import eig, eigh, eigvals, eigvalsh
from .errors import LinAlgError
from .qr_factor import householder_product, qr
from .singular_values import svd, svdvals
from .solving import inv, inv_ex, solve, solve_ex, tensorinv, tensorsolve
from .triangular import solve_triangular

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "det",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
]

"""Linear algebra: what PyTorch has under ``torch.linalg``.

Matrices are the last two dimensions; those before are a batch. Functions take single and double precision, real and
complex, have derivatives of any order, and say which matrix of a batch an error is about.

Factorisations, and what needs them, are LAPACK's, through NumPy. A CUDA tensor goes over the host for them: its
stream copies it to pinned memory, **the host waits for that copy**, and the results are copied to the device without
waiting. Norms (but those of singular values), products, powers and triangular systems stay on the device and do
not wait.
"""

from tensor.operations.call_forms import complete_functions as _complete_functions
from tensor.operations.products.contractions import matmul
from tensor.operations.reductions.variance import vector_norm

from .cholesky_factor import cholesky, cholesky_ex
from .determinants import det, slogdet
from .eigenvalues import eig, eigh, eigvals, eigvalsh
from .errors import LinAlgError
from .exponential import matrix_exp
from .ldl_factorization import ldl_factor, ldl_factor_ex, ldl_solve
from .least_squares import cond, lstsq, matrix_rank, pinv
from .lu_factorization import lu, lu_factor, lu_factor_ex, lu_solve
from .norms import matrix_norm, norm
from .products import cross, diagonal, matrix_power, multi_dot, vander, vecdot
from .qr_factor import householder_product, qr
from .singular_values import svd, svdvals
from .solving import inv, inv_ex, solve, solve_ex, tensorinv, tensorsolve
from .triangular import solve_triangular

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]
_complete_functions(globals())

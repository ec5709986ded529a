"""Linear algebra: what PyTorch has under ``torch.linalg``.

Matrices are the last two dimensions; those before are a batch. Functions take single and double precision, real and
complex, have derivatives of any order, and say which matrix of a batch an error is about.

Factorisations, and what needs them, are LAPACK's, through NumPy. A CUDA tensor goes over the host for them: its
stream copies it to pinned memory, **the host waits for that copy**, and the results are copied to the device without
waiting. Norms (but those of singular values), products, powers and triangular systems stay on the device and do
not wait.
"""

from tensor.operations.catalogue import bind as _bind
from tensor.operations.catalogue import published as _published

from . import (  # noqa: F401 - which publish what is found here
    cholesky_factor,
    determinants,
    eigenvalues,
    exponential,
    ldl_factorization,
    least_squares,
    legacy_norm,
    low_rank,
    lu_factorization,
    matrix_functions,
    norms,
    products,
    qr_factor,
    singular_values,
    solving,
    triangular,
)
from .errors import LinAlgError

__all__ = ["LinAlgError", *_published("linalg")]
_bind("linalg", globals())

"""Linear algebra: what PyTorch has under ``torch.linalg``.

Matrices are the last two dimensions; those before are a batch. Functions take single and double precision, real and
complex, have derivatives of any order, and say which matrix of a batch an error is about.

Factorisations, and what needs them, are LAPACK's, through NumPy. A CUDA tensor goes over the host for them: its
stream copies it to pinned memory, **the host waits for that copy**, and the results are copied to the device without
waiting. Norms (but those of singular values), products, powers and triangular systems stay on the device and do
not wait.
"""

from typing import TYPE_CHECKING

from tensor.core.names.absent import hints as _hints
from tensor.operations.definition.catalogue import bind as _bind
from tensor.operations.definition.catalogue import published as _published

# Imported for what they publish.
from . import determinants, exponential, legacy_norm, matrix_functions, norms, products  # noqa: F401
from .errors import LinAlgError
from .factorizations import cholesky, eigenvalues, ldl, low_rank, lu, qr, singular_values  # noqa: F401
from .systems import least_squares, solving, triangular  # noqa: F401

__all__ = ["LinAlgError", *_published("linalg")]
_bind("linalg", globals())

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)

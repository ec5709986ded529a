"""What went wrong with a matrix, and with which one of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class LinAlgError(RuntimeError):
    """A matrix does not have what was asked for: an inverse, a Cholesky factor, converging eigenvalues.

    Its text says which matrix of a batch it is. Functions whose names end in ``_ex`` return the number in place of raising.
    """

    __module__ = "tensor.linalg"


#: Said of a matrix for the number that LAPACK gives, which counts from 1.
_SAID = {
    "inverse": (
        "The diagonal element {} is zero, the inversion could not be completed because the input matrix is singular."
    ),
    "solution": "The solver failed because the input matrix is singular.",
    "cholesky": (
        "The factorization could not be completed because the input is not positive-definite (the leading minor of "
        "order {} is not positive-definite)."
    ),
    "lu": (
        "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero. If you still want to perform "
        "the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
    ),
    "ldl": "D[{0},{0}] is zero and using it on ldl_solve would result in a division by zero.",
    "rank": (
        "The least squares solution could not be computed because the input matrix does not have full rank (error "
        "code: {})."
    ),
    "finite": "The algorithm failed to converge because the input matrix contained non-finite values.",
    "convergence": (
        "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
        "{1} values."
    ),
}


def which(info: Any, number: int) -> str:
    """``"(Batch element 3): "`` for a matrix of a batch, counted over all batch dimensions; nothing for one alone."""
    return f"(Batch element {number}): " if info.ndim else ""


def check_info(
    name: str, failure: str, info: NDArray[Any], error: type[Exception] = LinAlgError, what: str = ""
) -> None:
    """Raise for the first matrix whose number is not 0.

    Parameters
    ----------
    name
        What the user called.
    failure
        What could not be found: a key of the texts above.
    info
        A number for each matrix, in the shape of the batch.
    what
        Which values did not converge: ``"eigen"`` or ``"singular"``.
    """
    wrong = np.flatnonzero(info)
    if wrong.size:
        number = int(wrong[0])
        text = _SAID[failure].format(int(info.reshape(-1)[number]), what)
        raise error(f"{name}: {which(info, number)}{text}")


def check_finite(name: str, array: NDArray[Any]) -> None:
    """Raise LinAlgError for the first matrix with an infinity or NaN."""
    if not np.isfinite(array).all():
        check_info(name, "finite", ~np.isfinite(array).all((-2, -1)))

"""What eigenvalues and singular values have in common: that they may not be found, and derivatives of vectors.

The vectors are determined but for their phases (signs, where they are real). Derivatives are right for whatever
does not depend on these; what visibly does, is an error. With repeated values derivatives of vectors are infinite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.linalg.errors import LinAlgError, check_info
from tensor.linalg.host import one_by_one
from tensor.operations.shapes import slices, views

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]

#: How much of a gradient may point along phases before it is more than rounding; PyTorch's bound.
_PHASE_BOUND = 1e-2


def diagonal(x: Tensor) -> Tensor:
    """Diagonals of matrices."""
    return slices.diagonal(x, 0, -2, -1)


def differences(values: Tensor) -> Tensor:
    """``values[j] - values[i]``, with ones instead of the zeros on the diagonal."""
    value = views.unsqueeze(values, -2) - views.unsqueeze(values, -1)
    result: Tensor = value + values.new_ones(values._layout.shape[-1:]).diag_embed()
    return result


def check_phase(name: str, left: Tensor | None, right: Tensor | None) -> None:
    """Raise RuntimeError if a loss changes with the phases of complex vectors."""
    argument = [diagonal(each.detach()).imag for each in (left, right) if each is not None]
    total = argument[0] if len(argument) == 1 else argument[0] + argument[1]
    if total._layout.numel and not bool((total.abs() <= _PHASE_BOUND).all()):
        vectors = "eigenvectors" if name.startswith("eig") else "singular vectors"
        backward = "linalg_eig_backward" if name.startswith("eig") else "svd_backward"
        raise RuntimeError(
            f"{backward}: The {vectors} in the complex case are specified up to multiplication by e^{{i phi}}. The "
            "specified loss function depends on this quantity, so it is ill-defined."
        )


def converged(name: str, function: Callable[[Array], Any], array: Array, what: str) -> Any:
    """What ``function`` of LAPACK finds of matrices: their ``"eigen"`` or ``"singular"`` values, with vectors or without.

    Raises
    ------
    LinAlgError
        For the first matrix of which it finds none.
    """

    def tried(matrix: Array) -> Array:
        function(matrix)
        return matrix

    try:
        return function(array)
    except np.linalg.LinAlgError:
        _, wrong = one_by_one(tried, array.shape[-2:], array)
        info = np.zeros(array.shape[:-2], np.int32)
        info.reshape(-1)[wrong] = 1
        check_info(name, "convergence", info, LinAlgError, what)
        raise

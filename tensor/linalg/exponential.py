"""Exponentials of matrices."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.operations.definition import operation
from tensor.operations.shapes import slices
from tensor.operations.shapes.joining import cat

from .checks import check_square
from .host import on_host

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]

#: Coefficients of the Padé approximant of degree 13, and up to which norm it is exact in double precision
#: (Higham, The Scaling and Squaring Method for the Matrix Exponential Revisited, 2005).
_PADE = (
    64764752532480000.0,
    32382376266240000.0,
    7771770303897600.0,
    1187353796428800.0,
    129060195264000.0,
    10559470521600.0,
    670442572800.0,
    33522128640.0,
    1323241920.0,
    40840800.0,
    960960.0,
    16380.0,
    182.0,
    1.0,
)
_NORM = 5.371920351148152


def _exponential(array: Array) -> tuple[Array]:
    """By scaling and squaring, in double precision."""
    compute_dtype = np.complex128 if array.dtype.kind == "c" else np.float64
    n = array.shape[-1]
    a = array.reshape(prod(array.shape[:-2]), n, n).astype(compute_dtype)
    with np.errstate(all="ignore"):
        norms = np.abs(a).sum(-2).max(-1, initial=0)
        finite = np.isfinite(norms)
        halvings = np.where(finite & (norms > _NORM), np.ceil(np.log2(np.maximum(norms, 1e-300) / _NORM)), 0)
        a = np.where(finite[:, None, None], np.ldexp(1.0, -halvings.astype(int))[:, None, None] * a, 0)
        one = np.eye(n, dtype=compute_dtype)
        a2 = a @ a
        a4 = a2 @ a2
        a6 = a4 @ a2
        b = _PADE
        odd = a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one
        odd = a @ odd
        even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one
        # (even - odd)^-1 (even + odd), so that small matrices keep their digits.
        result = one + 2 * np.linalg.solve(even - odd, odd)
        for step in range(int(halvings.max(initial=0))):
            left = halvings > step
            result[left] = result[left] @ result[left]
        result[~finite] = np.nan
        return (result.reshape(array.shape).astype(array.dtype),)


def _gradient(expected: Any, grads: Any, a: Tensor) -> Any:
    # The upper right block of exp([[B, G], [0, B]]) is the derivative of exp at B in the direction of G.
    n = a._layout.shape[-1]
    turned = a.mH
    above = cat((turned, grads), -1)
    below = cat((turned.new_zeros(turned._layout.shape), turned), -1)
    whole = matrix_exp(cat((above, below), -2))
    return (slices.narrow(slices.narrow(whole, -2, 0, n), -1, n, n),)


_EXPONENTIAL_BACKWARD = BackwardFormula(
    "LinalgMatrixExpBackward0", "a", joint=Derivative(_gradient, needs="a")
)


@operation(namespace="linalg", method=False)
def matrix_exp(input: Tensor) -> Tensor:
    """Exponentials ``I + A + A @ A / 2 + ...`` of square matrices ``(*, n, n)``.

    CUDA tensors go through the host, which waits for them.

    Raises
    ------
    RuntimeError
        If the matrices are not square, or integers.

    Examples
    --------
    >>> tensor.linalg.matrix_exp(tensor.tensor([[0.0, 2.0], [0.0, 0.0]]))
    tensor([[1., 2.],
            [0., 1.]])
    """
    check_square("linalg.matrix_exp", input, half=True)
    (result,) = on_host(_exponential, input)
    _EXPONENTIAL_BACKWARD.record((result,), (input,))
    return result

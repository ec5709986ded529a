"""Determinants and their logarithms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.modes.grad_mode import modes
from tensor.linalg.systems.solving import inv
from tensor.operations.creation.grids import eye
from tensor.operations.definition import operation
from tensor.operations.pointwise.selection import where
from tensor.operations.products.contractions import matmul
from tensor.operations.reduction import all_into_out, into_out
from tensor.operations.shapes import slices, views

from .checks import check_square
from .host import on_host
from .results import LINALG_SLOGDET, SignAndLogarithm

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


def _as_matrices(x: Tensor) -> Tensor:
    return views.unsqueeze(views.unsqueeze(x, -1), -1)


def _cofactors(array: Array) -> tuple[Array]:
    """Derivatives of determinants, also of singular matrices, as tensors have their gradients."""
    try:
        inverse = np.linalg.inv(array)
    except np.linalg.LinAlgError:
        return (_cofactors_of_singular(array),)
    return (np.conj(np.linalg.det(array)[..., None, None] * np.swapaxes(inverse, -1, -2)),)


def _cofactors_of_singular(array: Array) -> Array:
    """Of ``U @ diag(s) @ Vh``: ``U @ diag(product of the other s) @ Vh`` times the phase of the determinant."""
    u, s, vh = np.linalg.svd(array)
    n = s.shape[-1]
    others = np.where(np.eye(n, dtype=bool), 1, s[..., None, :]).prod(-1)
    phase = np.conj(np.linalg.det(u) * np.linalg.det(vh))
    result: Array = ((u * others[..., None, :] @ vh) * phase[..., None, None]).astype(array.dtype)
    return result


def _recorded_cofactors(a: Tensor, value: Tensor) -> Tensor:
    """The same in operations that have derivatives."""
    singular = _as_matrices(value == 0)
    identity = eye(a._layout.shape[-1], dtype=a._layout.dtype, device=a.device)
    regular = where(singular, identity, a)
    result: Tensor = _as_matrices(value.conj()) * inv(regular).mH
    if not bool(singular.any()):
        return result
    instead = _adjugate(where(singular, a, identity), identity).mH
    both: Tensor = where(singular, instead, result)
    return both


def _adjugate(a: Tensor, identity: Tensor) -> Tensor:
    """``det(A) * inv(A)`` by Faddeev and LeVerrier's recurrence, which divides by nothing of ``A``."""
    n = a._layout.shape[-1]
    result = views.expand(identity, a._layout.shape)
    for k in range(1, n):
        product = matmul(a, result)
        trace = slices.diagonal(product, 0, -2, -1).sum(-1)
        result = product - _as_matrices(trace / k) * identity
    return result if n % 2 else -result


def _determinant_gradient(expected: Any, grads: Any, a: Tensor, result: Tensor) -> Any:
    cofactors = _recorded_cofactors(a, result) if modes.recording else on_host(_cofactors, a)[0]
    return (_as_matrices(grads) * cofactors,)


_DETERMINANT_BACKWARD = BackwardFormula(
    "LinalgDetBackward0", "a", joint=Derivative(_determinant_gradient, needs="a out")
)


@operation(namespace="linalg", method=False)
def det(A: Tensor, *, out: Tensor | None = None) -> Tensor:  # noqa: N803 - PyTorch's name
    """Determinants of square matrices ``(*, n, n)``. CUDA tensors go through the host, which waits for them.

    Raises
    ------
    RuntimeError
        If the matrices are not square, or of another type than single or double precision.

    Examples
    --------
    >>> tensor.linalg.det(tensor.eye(2) * 3)
    tensor(9.)
    """
    return into_out(_determinants("linalg.det", A), out, "linalg.det")


def _determinants(name: str, a: Tensor) -> Tensor:
    check_square(name, a)
    (result,) = on_host(lambda array: (np.linalg.det(array),), a)
    _DETERMINANT_BACKWARD.record((result,), (a,))
    return result


def _logarithm_gradient(expected: Any, grads: Any, a: Tensor, sign: Tensor) -> Any:
    towards_sign, towards_logarithm = grads
    if not a._layout.dtype.is_complex:
        # The sign of a real determinant is constant.
        return (None if towards_logarithm is None else _as_matrices(towards_logarithm) * inv(a).mH,)
    total: Any = 0 if towards_logarithm is None else towards_logarithm
    if towards_sign is not None:
        total = total - 1j * (towards_sign.conj() * sign).imag
    return (_as_matrices(total) * inv(a).mH,)


_LOGARITHM_BACKWARD = BackwardFormula(
    "LinalgSlogdetBackward0",
    "a",
    joint=Derivative(_logarithm_gradient, needs="a sign"),
    outputs="sign logarithm",
)


def sign_and_logarithm(name: str, a: Tensor) -> SignAndLogarithm:
    """Signs and logarithms, recorded; ``name`` is what the user called."""
    check_square(name, a)
    sign, logarithm = results = on_host(np.linalg.slogdet, a)
    _LOGARITHM_BACKWARD.record(results, (a,))
    return SignAndLogarithm(sign, logarithm)


@operation(namespace="linalg", method=False)
def slogdet(A: Tensor, *, out: Any = None) -> SignAndLogarithm:  # noqa: N803
    """Signs (of complex matrices: phases) and logarithms of the magnitudes of determinants.

    A singular matrix has sign 0 and logarithm -inf.

    Raises
    ------
    RuntimeError
        If the matrices are not square, or of another type than single or double precision.

    Examples
    --------
    >>> tensor.linalg.slogdet(-tensor.eye(3)).sign
    tensor(-1.)
    """
    result: SignAndLogarithm = all_into_out(
        LINALG_SLOGDET(*sign_and_logarithm("linalg.slogdet", A)), out, "linalg.slogdet"
    )
    return result

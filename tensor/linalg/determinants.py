"""Determinants and their logarithms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import views
from ..neural.node import record
from ..operations.reduction import given
from ..recording.modes import modes
from ..selection import where
from .checks import check_square
from .host import on_host
from .results import SignAndLogarithm, delivered
from .solving import inv

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..tensors import Tensor

    Array = NDArray[Any]


def _as_matrices(x: Tensor) -> Tensor:
    return views.unsqueeze(views.unsqueeze(x, -1), -1)


def _cofactors(array: Array) -> tuple[Array]:
    """``det(A) * inv(A)^T`` of regular and singular matrices: from ``A = U S V`` that is
    ``conj(det(U) det(V)) * U cofactors(S) V`` up to conjugation.
    """
    u, s, vh = np.linalg.svd(array)
    n = s.shape[-1]
    others = np.where(np.eye(n, dtype=bool), 1, s[..., None, :]).prod(-1)
    phase = np.linalg.det(u) * np.linalg.det(vh)
    return ((np.conj(u * others[..., None, :] @ vh) * phase[..., None, None]).astype(array.dtype),)


def _determinant_gradient(wanted: Any, grads: Any, a: Tensor, found: Tensor) -> Any:
    if modes.recording:
        # The inverse is differentiated on. Of singular matrices there is a first derivative only.
        return (_as_matrices(grads * found.conj()) * inv(a).mH,)
    return (_as_matrices(grads) * on_host(_cofactors, a)[0].conj(),)


def det(A: Tensor, *, out: Tensor | None = None) -> Tensor:  # noqa: N803 - PyTorch's name
    """Determinants of square matrices ``(*, n, n)``. CUDA tensors go through the host, which waits for them.

    Raises
    ------
    RuntimeError
        If the matrices are not square, or of another type than single or double precision.
    """
    return given(_determinants("linalg.det", A), out, "linalg.det")


def _determinants(name: str, a: Tensor) -> Tensor:
    check_square(name, a)
    (result,) = on_host(lambda array: (np.linalg.det(array),), a)
    record((result,), (a,), "LinalgDetBackward0", _determinant_gradient, (a, result))
    return result


def _logarithm_gradient(wanted: Any, grads: Any, a: Tensor, sign: Tensor) -> Any:
    towards_sign, towards_logarithm = grads
    if not a._layout.dtype.is_complex:
        # The sign of a real determinant is constant.
        return (None if towards_logarithm is None else _as_matrices(towards_logarithm) * inv(a).mH,)
    total = 0 if towards_logarithm is None else towards_logarithm
    if towards_sign is not None:
        total = total - 1j * (towards_sign.conj() * sign).imag
    return (_as_matrices(total) * inv(a).mH,)


def _sign_and_logarithm(name: str, a: Tensor) -> SignAndLogarithm:
    check_square(name, a)
    sign, logarithm = results = on_host(np.linalg.slogdet, a)
    record(results, (a,), "LinalgSlogdetBackward0", _logarithm_gradient, (a, sign))
    return SignAndLogarithm(sign, logarithm)


def slogdet(A: Tensor, *, out: Any = None) -> SignAndLogarithm:  # noqa: N803
    """Signs (of complex matrices: phases) and logarithms of the magnitudes of determinants.

    A singular matrix has sign 0 and logarithm -inf.

    Raises
    ------
    RuntimeError
        If the matrices are not square, or of another type than single or double precision.
    """
    found: SignAndLogarithm = delivered(_sign_and_logarithm("linalg.slogdet", A), out, "linalg.slogdet")
    return found


def logdet(input: Tensor) -> Tensor:
    """Logarithms of determinants: NaN for negative ones, -inf for singular matrices."""
    sign, logarithm = _sign_and_logarithm("logdet", input)
    if input._layout.dtype.is_complex:
        return sign.log() + logarithm
    return where(sign < 0, float("nan"), logarithm)

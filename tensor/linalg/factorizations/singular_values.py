"""Singular values and vectors; see :mod:`.spectral` for what has derivatives."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.modes.grad_mode import modes
from tensor.linalg.checks import check_matrices
from tensor.linalg.errors import check_finite
from tensor.linalg.host import on_host
from tensor.linalg.results import LINALG_SVD, SingularValues
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation
from tensor.operations.pointwise.complex_numbers import conjugate
from tensor.operations.products.contractions import matmul
from tensor.operations.reduction import all_into_out, into_out
from tensor.operations.shapes import slices, views

from .spectral import check_phase, converged, diagonal, differences

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


def _svd_work(name: str, full: bool) -> Callable[[Array], Any]:
    def work(array: Array) -> Any:
        check_finite(name, array)
        return converged(name, partial(np.linalg.svd, full_matrices=full), array, "singular")

    return work


def _svd_gradient(expected: Any, grads: Any, u: Tensor, s: Tensor, vh: Tensor, full: bool) -> Any:
    towards_u, towards_s, towards_vh = grads
    rank = s._layout.shape[-1]
    if full:
        towards_u, u = _thin("U", towards_u, rank), slices.narrow(u, -1, 0, rank)
        towards_vh = _thin("Vh", None if towards_vh is None else towards_vh.mH, rank)
        towards_vh = None if towards_vh is None else towards_vh.mH
        vh = slices.narrow(vh, -2, 0, rank)
    return (svd_gradient(u, s, vh, towards_u, towards_s, towards_vh),)


_SVD_BACKWARD = BackwardFormula(
    "LinalgSvdBackward0", "a", joint=Derivative(_svd_gradient, needs="u s vh"), outputs="u s vh"
)


def _thin(what: str, towards: Tensor | None, rank: int) -> Tensor | None:
    """The gradient of the columns that are determined; the others may not have one."""
    if towards is None or towards._layout.shape[-1] == rank:
        return towards
    rest = slices.narrow(towards, -1, rank, towards._layout.shape[-1] - rank)
    if bool((rest.detach() != 0).any()):
        raise RuntimeError(
            f"linalg.svd: the loss depends on vectors of {what} that belong to no singular value and are not determined "
            "by the matrix, so that it has no derivative. Use full_matrices=False."
        )
    return slices.narrow(towards, -1, 0, rank)


def svd_gradient(
    u: Tensor,
    s: Tensor,
    vh: Tensor,
    towards_u: Tensor | None,
    towards_s: Tensor | None,
    towards_vh: Tensor | None,
) -> Tensor:
    """Gradient of a matrix from those of its thin factors.

    ``U [(skew(U^H gU) / E) S + S (skew(V^H gV) / E) + diag(gS)] V^H`` with ``E[i, j] = s[j]**2 - s[i]**2``, and what
    turns vectors out of the spaces that the factors span.
    """
    if towards_u is None and towards_vh is None:
        assert towards_s is not None
        return matmul(u * views.unsqueeze(towards_s, -2), vh)
    dtype = u._layout.dtype
    v = vh.mH
    left = None if towards_u is None else matmul(u.mH, towards_u)
    right = None if towards_vh is None else matmul(vh, towards_vh.mH)
    if dtype.is_complex:
        check_phase("svd", left, right)
    apart = differences(s * s)
    columns, rows = views.unsqueeze(s, -2), views.unsqueeze(s, -1)
    inner: Any = 0
    if left is not None:
        inner = inner + (left - left.mH) / apart * columns
    if right is not None:
        inner = inner + rows * ((right - right.mH) / apart)
    if towards_s is not None:
        inner = inner + towards_s.to(dtype).diag_embed()
    if dtype.is_complex and left is not None:
        # The phase that both vectors of a pair share.
        turn = (diagonal(left) - conjugate(diagonal(left))) / (2 * s)
        inner = inner + turn.diag_embed()
    result = matmul(u, matmul(inner, vh))
    if left is not None and u._layout.shape[-2] > s._layout.shape[-1]:
        outside = towards_u / columns
        outside = outside - matmul(u, matmul(u.mH, outside))
        result = result + matmul(outside, vh)
    if right is not None and vh._layout.shape[-1] > s._layout.shape[-1]:
        outside = towards_vh / rows
        outside = outside - matmul(matmul(outside, v), vh)
        result = result + matmul(u, outside)
    return result


def factored(name: str, a: Tensor, full: bool) -> tuple[Tensor, ...]:
    """``U``, ``S`` and ``Vh`` of checked matrices, recorded."""
    results = on_host(_svd_work(name, full), a)
    _SVD_BACKWARD.record(results, (a,), context=(full,))
    return results


_DRIVERS = ("gesvd", "gesvdj", "gesvda")


def _check_svd(name: str, a: Tensor, driver: str | None) -> None:
    check_matrices(name, a)
    if driver is None:
        return
    if not a._layout.device_state.is_cuda:
        raise RuntimeError(f"{name}: keyword argument `driver=` is only supported on CUDA inputs.")
    if driver not in _DRIVERS:
        raise RuntimeError(f"{name}: unknown svd driver {driver} in svd_cusolver computation.")


@operation(namespace="linalg", method=False, autocast=Autocast(cpu=FLOAT32))
def svd(
    A: Tensor,  # noqa: N803 - PyTorch's name
    full_matrices: bool = True,
    *,
    driver: str | None = None,
    out: Any = None,
) -> SingularValues:
    """Singular values and vectors: ``A = U @ diag(S) @ Vh``, of matrices ``(*, m, n)``.

    CUDA tensors go through the host, which waits for them.

    Parameters
    ----------
    full_matrices
        Whether ``U`` and ``Vh`` are square. The vectors beyond ``min(m, n)`` have no derivative.
    driver
        One of cuSOLVER's, for CUDA tensors; LAPACK's divide and conquer is used in any case.

    Raises
    ------
    LinAlgError
        If a matrix has an infinity or NaN; it says which.
    RuntimeError
        For fewer than two dimensions, or another type than single or double precision.

    Examples
    --------
    >>> u, s, vh = tensor.linalg.svd(tensor.tensor([[3.0, 0.0], [0.0, -4.0]]))
    >>> s
    tensor([4., 3.])
    >>> (u * s) @ vh
    tensor([[ 3.,  0.],
            [ 0., -4.]])
    """
    _check_svd("linalg.svd", A, driver)
    result: SingularValues = all_into_out(
        LINALG_SVD(*factored("linalg.svd", A, bool(full_matrices))), out, "linalg.svd"
    )
    return result


@operation(namespace="linalg", method=False, autocast=Autocast(cpu=FLOAT32))
def svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor:  # noqa: N803
    """Singular values of matrices ``(*, m, n)`` in descending order: real, ``(*, min(m, n))``; see :func:`svd`.

    Unlike that of singular vectors, their derivative always exists.

    Raises
    ------
    LinAlgError
        If a matrix has an infinity or NaN, or the iteration does not converge.
    RuntimeError
        If the matrices have fewer than two dimensions, or are not of single or double precision.

    Examples
    --------
    >>> tensor.linalg.svdvals(tensor.tensor([[3.0, 0.0], [0.0, -4.0]]))
    tensor([4., 3.])
    """
    _check_svd("linalg.svdvals", A, driver)
    return into_out(singular_values("linalg.svd", A), out, "linalg.svdvals")


def singular_values(name: str, a: Tensor) -> Tensor:
    """Singular values of checked matrices; vectors are computed only where a derivative needs them."""
    if modes.recording and a.requires_grad:
        return factored(name, a, False)[1]

    def work(array: Array) -> tuple[Array]:
        check_finite(name, array)
        return (converged(name, partial(np.linalg.svd, compute_uv=False), array, "singular"),)

    return on_host(work, a)[0]

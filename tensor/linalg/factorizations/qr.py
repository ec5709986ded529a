"""QR factorisation, and what its Householder reflectors make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.linalg.checks import check_alike, check_floating, check_matrices
from tensor.linalg.host import on_host
from tensor.linalg.results import LINALG_QR, OrthogonalTriangular
from tensor.linalg.systems.triangular import substituted, triangle
from tensor.operations.autocast import AS_GIVEN, FLOAT32, Autocast
from tensor.operations.creation.grids import eye
from tensor.operations.definition import operation
from tensor.operations.products.contractions import matmul
from tensor.operations.reduction import all_into_out, into_out
from tensor.operations.shapes import slices, views
from tensor.operations.shapes.joining import cat

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]

_MODES = ("reduced", "complete", "r")


def _gradient(expected: Any, grads: Any, q: Tensor, r: Tensor, mode: str) -> Any:
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
            "linalg.qr(A, mode='reduced') if you are going to require gradients"
        )
    rows, rank = q._layout.shape[-2], q._layout.shape[-1]
    columns = r._layout.shape[-1]
    if mode == "complete" and rows > columns:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols: the further columns of "
            "Q are not determined. Please use linalg.qr(A, mode='reduced')"
        )
    towards_q, towards_r = grads
    if columns <= rank:
        return (_tall_gradient(q, r, towards_q, towards_r),)
    # A = Q [R1 R2], where Q and R1 come of the first columns, and R2 = Q^H A2.
    first = slices.narrow(r, -1, 0, rank)
    if towards_r is None:
        return (cat((_tall_gradient(q, first, towards_q, None), q.new_zeros(_wider(q, columns - rank))), -1),)
    second = slices.narrow(r, -1, rank, columns - rank)
    towards_second = slices.narrow(towards_r, -1, rank, columns - rank)
    through = matmul(matmul(q, second), towards_second.mH)
    towards_q = through if towards_q is None else towards_q + through
    result = _tall_gradient(q, first, towards_q, slices.narrow(towards_r, -1, 0, rank))
    return (cat((result, matmul(q, towards_second)), -1),)


_QR_BACKWARD = BackwardFormula(
    "LinalgQrBackward0", "a", joint=Derivative(_gradient, needs="q r"), outputs="q r"
)


def _wider(x: Tensor, columns: int) -> tuple[int, ...]:
    return (*x._layout.shape[:-1], columns)


def _tall_gradient(q: Tensor, r: Tensor, towards_q: Tensor | None, towards_r: Tensor | None) -> Any:
    """Of matrices with at least as many rows as columns: ``(gQ + Q sym(triu(gR R^H - Q^H gQ))) R^-H``."""
    inner: Any = 0
    if towards_r is not None:
        inner = matmul(towards_r, r.mH)
    if towards_q is not None:
        inner = inner - matmul(q.mH, towards_q)
    upper = triangle(inner, upper=True)
    # Its Hermitian part, with the real diagonal once.
    whole = upper + upper.mH - _real_diagonal(upper)
    result = matmul(q, whole)
    if towards_q is not None:
        result = result + towards_q
    return substituted(r.mH, result, upper=False, left=False)


def _real_diagonal(x: Tensor) -> Tensor:
    diagonal = slices.diagonal(x, 0, -2, -1)
    return (diagonal.real.to(x._layout.dtype) if x._layout.dtype.is_complex else diagonal).diag_embed()


def factored(name: str, a: Tensor, mode: str) -> OrthogonalTriangular:
    """``Q`` and ``R``, recorded; ``name`` is what the user called."""
    check_matrices(name, a)
    if mode not in _MODES:
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )

    def work(array: Array) -> tuple[Any, Any]:
        if mode == "r":
            return np.empty(0, array.dtype), np.linalg.qr(array, "r")
        result = np.linalg.qr(array, mode)  # type: ignore[call-overload]
        return result.Q, result.R

    results = on_host(work, a)
    _QR_BACKWARD.record(results, (a,), context=(mode,))
    return OrthogonalTriangular(*results)


@operation(namespace="linalg", method=False, autocast=Autocast(cpu=FLOAT32))
def qr(A: Tensor, mode: str = "reduced", *, out: Any = None) -> OrthogonalTriangular:  # noqa: N803 - PyTorch's name
    """Orthonormal ``Q`` and upper triangular ``R`` with ``A = Q @ R``, of matrices ``(*, m, n)``.

    CUDA tensors go through the host, which waits for them.

    Parameters
    ----------
    mode
        ``"reduced"``: ``Q`` has ``min(m, n)`` columns; ``"complete"``: it is square; ``"r"``: it is empty. Only the
        first can always be differentiated.

    Raises
    ------
    RuntimeError
        For another mode, fewer than two dimensions, or another type than single or double precision.

    Examples
    --------
    >>> q, r = tensor.linalg.qr(tensor.ones(3, 2))
    >>> q.shape, r.shape
    (tensor.Size([3, 2]), tensor.Size([2, 2]))
    """
    result: OrthogonalTriangular = all_into_out(LINALG_QR(*factored("linalg.qr", A, mode)), out, "linalg.qr")
    return result


@operation(namespace="linalg", method=False, autocast=Autocast(cuda=AS_GIVEN, cpu=FLOAT32))
def householder_product(
    A: Tensor,  # noqa: N803
    tau: Tensor,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The first ``n`` columns of the product of reflectors ``I - tau[i] * v @ v.mH``, on the tensors' device.

    Parameters
    ----------
    A
        Matrices ``(*, m, n)`` with ``m >= n``: a reflector's ``v`` is what stands below the diagonal, after a 1.
    tau
        ``(*, k)``, ``k <= n``.

    Raises
    ------
    RuntimeError
        If ``A`` has more columns than rows, ``tau`` more elements than columns, the dimensions before them differ, or
        dtypes or devices do.

    Examples
    --------
    >>> q = tensor.linalg.householder_product(*tensor.geqrf(tensor.ones(3, 2)))
    >>> q.shape
    tensor.Size([3, 2])
    """
    name = "linalg.householder_product"
    check_reflectors(name, A, tau)
    rows, columns = A._layout.shape[-2:]
    if rows < columns:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    start = eye(rows, columns, dtype=A._layout.dtype, device=A.device)
    batch = A._layout.shape[:-2]
    result = reflected(
        A, tau, views.expand(start, (*batch, rows, columns)), range(tau._layout.shape[-1] - 1, -1, -1)
    )
    return into_out(result, out, name)


def check_reflectors(name: str, a: Tensor, tau: Tensor) -> None:
    """Raise RuntimeError unless matrices hold reflectors for the scales ``tau``."""
    check_matrices(name, a)
    check_alike(name, a, tau, "input", "tau")
    check_floating(name, tau)
    if not tau._layout.shape or tau._layout.shape[-1] > a._layout.shape[-1]:
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if tau._layout.shape[:-1] != a._layout.shape[:-2]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got "
            f"{list(tau._layout.shape[:-1])} and {list(a._layout.shape[:-2])}"
        )


def reflected(a: Tensor, tau: Tensor, x: Tensor, order: Any, *, adjoint: bool = False) -> Tensor:
    """``x`` after reflectors have been applied from the left, one after the other."""
    rows = a._layout.shape[-2]
    below = triangle(a, upper=False, without_diagonal=True)
    heads = eye(rows, a._layout.shape[-1], dtype=a._layout.dtype, device=a.device)
    vectors = below + heads
    for k in order:
        v = slices.narrow(vectors, -1, k, 1)
        scale = slices.narrow(tau, -1, k, 1)
        scale = views.unsqueeze(scale.conj() if adjoint else scale, -1)
        x = x - scale * matmul(v, matmul(v.mH, x))
    return x

"""Linear algebra: what the standard has in its main namespace, and its extension ``linalg``."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tensor.operations.definition.catalogue import published

from .operations import axes_of, ops, promoted

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

_ops: Any = SimpleNamespace(**published("linalg"))

cholesky, det, inv, qr, slogdet = _ops.cholesky, _ops.det, _ops.inv, _ops.qr, _ops.slogdet
eigh, eigvalsh, matrix_power, svdvals = _ops.eigh, _ops.eigvalsh, _ops.matrix_power, _ops.svdvals


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """See :func:`tensor.linalg.cross`, along ``axis``."""
    x1, x2 = ops.broadcast_tensors(*promoted(x1, x2))
    return _ops.cross(x1, x2, dim=axis)  # type: ignore[no-any-return]


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """See :func:`tensor.linalg.diagonal`, for ``x`` and the diagonal ``offset``."""
    return _ops.diagonal(x, offset=offset)  # type: ignore[no-any-return]


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """See :func:`tensor.matmul`; dtypes promote."""
    return ops.matmul(*promoted(x1, x2))  # type: ignore[no-any-return]


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """See :func:`tensor.linalg.matrix_norm`, for ``x`` and ``ord``; ``keepdims`` keeps the dimensions."""
    return _ops.matrix_norm(x, ord, (-2, -1), keepdims)  # type: ignore[no-any-return]


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """See :func:`tensor.linalg.matrix_rank`, for ``x`` with a relative tolerance ``rtol``."""
    return _ops.matrix_rank(x, rtol=rtol)  # type: ignore[no-any-return]


def matrix_transpose(x: Tensor, /) -> Tensor:
    """See :attr:`tensor.Tensor.mT`."""
    return x.mT


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """See :func:`tensor.outer`; dtypes promote."""
    return ops.outer(*promoted(x1, x2))  # type: ignore[no-any-return]


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """See :func:`tensor.linalg.pinv`, for ``x`` with a relative tolerance ``rtol``."""
    return _ops.pinv(x, rtol=rtol)  # type: ignore[no-any-return]


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """See :func:`tensor.linalg.solve`; only ``x2`` of one dimension is a vector.

    Raises as that.
    """
    x1, x2 = promoted(x1, x2)
    if x2.ndim == 1:
        return _ops.solve(x1, x2)  # type: ignore[no-any-return]
    batch = ops.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return _ops.solve(x1.expand(*batch, *x1.shape[-2:]), x2.expand(*batch, *x2.shape[-2:]))  # type: ignore[no-any-return]


def svd(x: Tensor, /, *, full_matrices: bool = True) -> Any:
    """See :func:`tensor.linalg.svd`, for ``x`` and ``full_matrices``."""
    return _ops.svd(x, full_matrices=full_matrices)


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """See :func:`tensor.tensordot`, over ``axes``."""
    return ops.tensordot(*promoted(x1, x2), dims=axes)  # type: ignore[no-any-return]


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """See :func:`tensor.trace`, for the diagonals ``offset`` of the matrices of ``x``, summed in ``dtype``."""
    return diagonal(x, offset=offset).sum(-1, dtype=dtype)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """See :func:`tensor.linalg.vecdot`, along ``axis``; of integers, too.

    Raises
    ------
    ValueError
        If the sizes along ``axis`` differ.
    """
    x1, x2 = promoted(x1, x2)
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(
            f"vecdot(): the sizes {x1.shape[axis]} and {x2.shape[axis]} along axis {axis} differ"
        )
    if x1.is_floating_point() or x1.is_complex():
        return _ops.vecdot(x1, x2, dim=axis)  # type: ignore[no-any-return]
    return (x1 * x2).sum(axis, dtype=x1.dtype)


def vector_norm(x: Tensor, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    """See :func:`tensor.linalg.vector_norm`, for ``x`` and ``ord`` over ``axis``; ``keepdims`` keeps the dimensions."""
    if axis == ():
        return x.abs() if ord else (x != 0).to(x.abs().dtype)
    axes = None if axis is None else axes_of(x, axis)
    return _ops.vector_norm(x, ord, axes, keepdims)  # type: ignore[no-any-return]

"""Arrays from nothing, and from other objects."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .operations import ops, shape_of

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

asarray, from_dlpack = ops.asarray, ops.from_dlpack
empty_like, full_like, ones_like, zeros_like = ops.empty_like, ops.full_like, ops.ones_like, ops.zeros_like


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """See :func:`tensor.arange`; where ``stop`` is not ahead of ``start``, nothing is in it."""
    if stop is None:
        start, stop = 0, start
    if step and math.ceil((stop - start) / step) <= 0:
        if dtype is None:
            dtype = ops.asarray(start + stop + step).dtype
        return ops.empty((0,), dtype=dtype, device=device)  # type: ignore[no-any-return]
    return ops.arange(start, stop, step, dtype=dtype, device=device)  # type: ignore[no-any-return]


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """See :func:`tensor.empty`; ``shape`` may be a number."""
    return ops.empty(shape_of(shape), dtype=dtype, device=device)  # type: ignore[no-any-return]


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
) -> Tensor:
    """See :func:`tensor.eye`; ``k`` is the diagonal that is ones."""
    result = ops.zeros((n_rows, n_rows if n_cols is None else n_cols), dtype=dtype, device=device)
    if -n_rows < k < result.shape[1]:
        result.diagonal(k).fill_(1)
    return result  # type: ignore[no-any-return]


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """See :func:`tensor.full`; ``shape`` may be a number."""
    return ops.full(shape_of(shape), fill_value, dtype=dtype, device=device)  # type: ignore[no-any-return]


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Tensor:
    """See :func:`tensor.linspace`; without ``endpoint``, ``stop`` is left out."""
    if endpoint:
        return ops.linspace(start, stop, num, dtype=dtype, device=device)  # type: ignore[no-any-return]
    return ops.linspace(start, stop, num + 1, dtype=dtype, device=device)[:-1]  # type: ignore[no-any-return]


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """See :func:`tensor.meshgrid`; ``indexing`` is ``"xy"`` by default."""
    return list(ops.meshgrid(*arrays, indexing=indexing)) if arrays else []


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """See :func:`tensor.ones`; ``shape`` may be a number."""
    return ops.ones(shape_of(shape), dtype=dtype, device=device)  # type: ignore[no-any-return]


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """See :func:`tensor.tril`, for ``x`` and the diagonal ``k``."""
    return ops.tril(x, k)  # type: ignore[no-any-return]


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """See :func:`tensor.triu`, for ``x`` and the diagonal ``k``."""
    return ops.triu(x, k)  # type: ignore[no-any-return]


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """See :func:`tensor.zeros`; ``shape`` may be a number."""
    return ops.zeros(shape_of(shape), dtype=dtype, device=device)  # type: ignore[no-any-return]

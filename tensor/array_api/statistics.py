"""Sums, extremes, orders, searches and sets of elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tensor.methods.tensor import Tensor

from .operations import axes_of, ops, promoted

if TYPE_CHECKING:
    from collections.abc import Callable


def _reduced(function: Callable[..., Tensor], x: Tensor, axis: Any, keepdims: bool, **options: Any) -> Tensor:
    axes = axes_of(x, axis)
    if not axes:
        # Over no dimension: each element for itself.
        return function(x.unsqueeze(0), 0, **options)
    return function(x, axes, keepdim=keepdims, **options)


def _by_one(function: Callable[..., Tensor], x: Tensor, axis: Any, keepdims: bool, **options: Any) -> Tensor:
    """By a function of a single dimension."""
    axes = axes_of(x, axis)
    if not axes:
        return function(x.unsqueeze(0), 0, **options)
    for each in sorted(axes, reverse=True):
        x = function(x, each, keepdim=keepdims, **options)
    return x


def all(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """See :func:`tensor.all`, for ``x`` over the dimensions ``axis``, which ``keepdims`` keeps."""
    return _by_one(ops.all, x.bool(), axis, keepdims)


def any(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """See :func:`tensor.any`, for ``x`` over the dimensions ``axis``, which ``keepdims`` keeps."""
    return _by_one(ops.any, x.bool(), axis, keepdims)


def max(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """See :func:`tensor.amax`, for ``x`` over the dimensions ``axis``, which ``keepdims`` keeps."""
    return _reduced(ops.amax, x, axis, keepdims)


def min(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """See :func:`tensor.amin`, for ``x`` over the dimensions ``axis``, which ``keepdims`` keeps."""
    return _reduced(ops.amin, x, axis, keepdims)


def mean(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """See :func:`tensor.mean`, for ``x`` over the dimensions ``axis``, which ``keepdims`` keeps."""
    return _reduced(ops.mean, x, axis, keepdims)


def prod(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """See :func:`tensor.prod`, for ``x`` in ``dtype`` over the dimensions ``axis``, which ``keepdims`` keeps."""
    return _by_one(ops.prod, x, axis, keepdims, dtype=dtype)


def sum(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """See :func:`tensor.sum`, for ``x`` in ``dtype`` over the dimensions ``axis``, which ``keepdims`` keeps."""
    return _reduced(ops.sum, x, axis, keepdims, dtype=dtype)


def std(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """See :func:`tensor.std`, for ``x`` over the dimensions ``axis``, which ``keepdims`` keeps, with ``correction``."""
    return _reduced(ops.std, x, axis, keepdims, correction=correction)


def var(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """See :func:`tensor.var`, for ``x`` over the dimensions ``axis``, which ``keepdims`` keeps, with ``correction``."""
    return _reduced(ops.var, x, axis, keepdims, correction=correction)


def _cumulative(
    function: Callable[..., Tensor],
    first: int,
    x: Tensor,
    axis: int | None,
    dtype: Any,
    include_initial: bool,
) -> Tensor:
    if axis is None:
        if x.ndim != 1:
            raise ValueError("axis must be specified for an array of several dimensions")
        axis = 0
    result = function(x, axis, dtype=dtype)
    if include_initial:
        shape = [1 if each == axis % x.ndim else size for each, size in enumerate(result.shape)]
        result = ops.cat([ops.full(shape, first, dtype=result.dtype, device=x.device), result], axis)
    return result


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """See :func:`tensor.cumsum`, for ``x`` in ``dtype`` along ``axis``; ``include_initial`` puts 0 before it.

    Raises
    ------
    ValueError
        If ``axis`` is not given and there are several.
    """
    return _cumulative(ops.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """See :func:`tensor.cumprod`, for ``x`` in ``dtype`` along ``axis``; ``include_initial`` puts 1 before it.

    Raises
    ------
    ValueError
        If ``axis`` is not given and there are several.
    """
    return _cumulative(ops.cumprod, 1, x, axis, dtype, include_initial)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """See :func:`tensor.diff`, for ``x`` along ``axis``, ``n`` times, between ``prepend`` and ``append``."""
    return ops.diff(x, n, axis, prepend, append)  # type: ignore[no-any-return]


# Searches


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """See :func:`tensor.argmax`, for ``x`` along ``axis``, which ``keepdims`` keeps."""
    return ops.argmax(x, axis, keepdims)  # type: ignore[no-any-return]


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """See :func:`tensor.argmin`, for ``x`` along ``axis``, which ``keepdims`` keeps."""
    return ops.argmin(x, axis, keepdims)  # type: ignore[no-any-return]


def count_nonzero(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """See :func:`tensor.count_nonzero`, for ``x`` over the dimensions ``axis``, which ``keepdims`` keeps."""
    return _reduced(ops.sum, x != 0, axis, keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """See :func:`tensor.nonzero`; a tensor of indices for each dimension.

    Raises
    ------
    ValueError
        If ``x`` has no dimension.
    """
    if x.ndim == 0:
        raise ValueError("nonzero() does not support arrays without dimensions")
    return tuple(ops.nonzero(x, as_tuple=True))


def searchsorted(x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """See :func:`tensor.searchsorted`, on a ``side``, in an order ``sorter``."""
    x1, x2 = promoted(x1, x2)
    return ops.searchsorted(x1, x2, side=side, sorter=sorter)  # type: ignore[no-any-return]


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """See :func:`tensor.where`; dtypes promote as the array API standard says."""
    if isinstance(x1, Tensor) and isinstance(x2, Tensor):
        x1, x2 = promoted(x1, x2)
    return ops.where(condition, x1, x2)  # type: ignore[no-any-return]


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """See :func:`tensor.argsort`, for ``x`` along ``axis``, ``descending`` or ascending, and ``stable``."""
    return ops.argsort(x, dim=axis, descending=descending, stable=stable)  # type: ignore[no-any-return]


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """See :func:`tensor.sort`, for ``x`` along ``axis``, ``descending`` or ascending, and ``stable``; values alone."""
    return ops.sort(x, dim=axis, descending=descending, stable=stable)[0]  # type: ignore[no-any-return]


# Sets


class UniqueAll(NamedTuple):
    """Distinct values, where each is first, which one each element is, and how many of each there are."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Distinct values, and how many of each there are."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Distinct values, and which one each element is, in the shape of the array."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """Distinct values of ``x``, ascending, with indices into the flattened ``x``, and counts; see :func:`tensor.unique`.

    >>> unique_all(tensor.tensor([3, 1, 3]))
    UniqueAll(values=tensor([1, 3]), indices=tensor([1, 0]), inverse_indices=tensor([1, 0, 1]), counts=tensor([1, 2]))
    """
    values, inverse, counts = ops.unique(x, return_inverse=True, return_counts=True)
    flat = inverse.flatten()
    positions = ops.arange(flat.shape[0], device=x.device)
    first = ops.full((values.shape[0],), flat.shape[0], device=x.device, dtype=positions.dtype)
    return UniqueAll(values, first.scatter_reduce(0, flat, positions, "amin"), inverse, counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Distinct values of ``x``, ascending, and how many of each there are; see :func:`tensor.unique`.

    >>> unique_counts(tensor.tensor([3, 1, 3]))
    UniqueCounts(values=tensor([1, 3]), counts=tensor([1, 2]))
    """
    return UniqueCounts(*ops.unique(x, return_counts=True))


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Distinct values of ``x``, ascending, and which of them each element is; see :func:`tensor.unique`.

    >>> unique_inverse(tensor.tensor([3, 1, 3]))
    UniqueInverse(values=tensor([1, 3]), inverse_indices=tensor([1, 0, 1]))
    """
    return UniqueInverse(*ops.unique(x, return_inverse=True))


def unique_values(x: Tensor, /) -> Tensor:
    """Distinct values of ``x``, ascending; see :func:`tensor.unique`.

    >>> unique_values(tensor.tensor([3, 1, 3]))
    tensor([1, 3])
    """
    return ops.unique(x)  # type: ignore[no-any-return]

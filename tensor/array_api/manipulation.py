"""Arrays of the same elements in other shapes and orders, and some of them."""

from __future__ import annotations

from typing import Any

from nvrtc_kernels import dtypes
from tensor.methods.tensor import Tensor

from .operations import axes_of, ops, promoted


def concat(arrays: Any, /, *, axis: int | None = 0) -> Tensor:
    """See :func:`tensor.cat`, for ``arrays`` and their dimension ``axis``; without one they are flattened."""
    operands = promoted(*arrays)
    if axis is None:
        operands, axis = tuple(each.flatten() for each in operands), 0
    return ops.cat(operands, axis)  # type: ignore[no-any-return]


def expand_dims(x: Tensor, /, axis: int = 0) -> Tensor:
    """See :func:`tensor.unsqueeze`, for ``x`` and the new dimension ``axis``."""
    return ops.unsqueeze(x, axis)  # type: ignore[no-any-return]


def flip(x: Tensor, /, *, axis: Any = None) -> Tensor:
    """See :func:`tensor.flip`, for ``x`` and the dimensions ``axis``, all by default."""
    return ops.flip(x, axes_of(x, axis))  # type: ignore[no-any-return]


def moveaxis(x: Tensor, source: Any, destination: Any, /) -> Tensor:
    """See :func:`tensor.moveaxis`."""
    return ops.moveaxis(x, source, destination)  # type: ignore[no-any-return]


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """See :func:`tensor.permute`, for ``x`` and the order ``axes`` of its dimensions."""
    return ops.permute(x, axes)  # type: ignore[no-any-return]


def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """See :func:`tensor.repeat_interleave`, along the dimension ``axis``."""
    if isinstance(repeats, Tensor):
        repeats = repeats.to(dtypes.int64)
    return ops.repeat_interleave(x, repeats, axis)  # type: ignore[no-any-return]


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """``x`` in another ``shape``: a copy, a view, or whichever it can be.

    Raises
    ------
    ValueError
        If ``copy`` is False and it can be no view.
    """
    if copy:
        return ops.reshape(x.clone(), shape)  # type: ignore[no-any-return]
    if copy is None:
        return ops.reshape(x, shape)  # type: ignore[no-any-return]
    try:
        return x.view(shape)
    except RuntimeError as error:
        raise ValueError(f"reshape(copy=False): {error}") from None


def roll(x: Tensor, /, shift: Any, *, axis: Any = None) -> Tensor:
    """See :func:`tensor.roll`, for ``x`` by ``shift`` along ``axis``."""
    return ops.roll(x, shift, axis)  # type: ignore[no-any-return]


def squeeze(x: Tensor, /, axis: Any) -> Tensor:
    """``x`` without the dimensions ``axis``, of size 1.

    Raises
    ------
    ValueError
        If one has another size.
    """
    axes = axes_of(x, axis)
    wrong = [each for each in axes if x.shape[each] != 1]
    if wrong:
        raise ValueError(
            f"squeeze(): the dimensions {wrong} of an array of shape {tuple(x.shape)} are not of size 1"
        )
    return ops.squeeze(x, axes)  # type: ignore[no-any-return]


def stack(arrays: Any, /, *, axis: int = 0) -> Tensor:
    """See :func:`tensor.stack`, for ``arrays`` along a new dimension ``axis``."""
    return ops.stack(promoted(*arrays), axis)  # type: ignore[no-any-return]


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """See :func:`tensor.tile`."""
    return ops.tile(x, repetitions)  # type: ignore[no-any-return]


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """See :func:`tensor.unbind`, for ``x`` along ``axis``."""
    return tuple(ops.unbind(x, axis))


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The elements of ``x`` at ``indices``, 1-D integers, along ``axis``.

    Raises
    ------
    ValueError
        If ``axis`` is not given and there are several.
    """
    if axis is None:
        if x.ndim != 1:
            raise ValueError("take(): axis must be specified when x.ndim > 1")
        axis = 0
    (axis,) = axes_of(x, axis)
    return x[(*[slice(None)] * axis, indices)]


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """See :func:`tensor.take_along_dim`, along ``axis``."""
    return ops.take_along_dim(x, indices.to(ops.asarray(0).dtype), axis)  # type: ignore[no-any-return]

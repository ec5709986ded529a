"""``x[...]`` and ``x[...] = value``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import parts, views
from .base import TensorBase
from .copies import copy_
from .fills import fill_

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .tensors import Tensor


def get(input: Tensor, key: Any) -> Tensor:
    """View of the part that ``key`` names: ints, slices, ``...`` and None.

    Raises
    ------
    IndexError
        For too many indices, or one outside.
    ValueError
        For a step that is not positive.
    """
    kind = type(key)
    if kind is int:
        return _select(input, 0, key, 0)
    if kind is slice:
        return _slice(input, 0, key)
    return _view(input, key if kind is tuple else (key,))


def put(input: Tensor, key: Any, value: Any) -> None:
    """Write ``value``, a number or a tensor that broadcasts, to the part that ``key`` names."""
    part = get(input, key)
    if not isinstance(value, TensorBase):
        fill_(part, value)
        return
    shape = value._layout.shape
    extra = len(shape) - len(part._layout.shape)
    if extra > 0 and all(size == 1 for size in shape[:extra]):
        value = views.view(value, shape[extra:]) if value._layout.contiguous else value.reshape(shape[extra:])
    copy_(part, value)


def _view(input: Tensor, keys: tuple[Any, ...]) -> Tensor:
    rank = len(input._layout.shape)
    used = sum(1 for key in keys if key is not None and key is not Ellipsis and not isinstance(key, bool))
    if used > rank:
        raise IndexError(f"too many indices for tensor of dimension {rank}")
    dim = 0
    seen = False
    for position, key in enumerate(keys):
        if key is None:
            input = views.unsqueeze(input, dim)
            dim += 1
        elif key is Ellipsis:
            if not seen:
                dim += rank - used
                seen = True
        elif isinstance(key, slice):
            input = _slice(input, dim, key)
            dim += 1
        elif isinstance(key, (bool, list, tuple)) or _is_array(key):
            raise NotImplementedError(
                f"indexing by {type(key).__name__} is not there yet (position {position}): use ints, slices, "
                "'...' and None"
            )
        elif hasattr(key, "__index__"):
            input = _select(input, dim, key.__index__(), position)
        else:
            raise IndexError(
                "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
                f"(got {type(key).__name__})"
            )
    return input if any(key is not Ellipsis for key in keys) else views.alias(input)


def _is_array(key: Any) -> bool:
    """Whether ``key`` picks several elements."""
    return hasattr(key, "shape") and (len(key.shape) > 0 or "bool" in str(key.dtype))


def _select(input: Tensor, dim: int, at: int, position: int) -> Tensor:
    shape = input._layout.shape
    if not shape:
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` to convert a 0-dim tensor to a number"
        )
    if not -shape[dim] <= at < shape[dim]:
        raise IndexError(f"index {at} is out of bounds for dimension {position} with size {shape[dim]}")
    return parts.select(input, dim, at)


def _slice(input: Tensor, dim: int, key: slice) -> Tensor:
    shape = input._layout.shape
    if not shape:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    step = 1 if key.step is None else key.step.__index__()
    if step <= 0:
        raise ValueError("step must be greater than zero")
    start, stop, _ = key.indices(shape[dim])
    length = max(-((start - stop) // step), 0)
    return parts.step_through(input, dim, start if length else min(start, shape[dim]), length, step)


def iterate(input: Tensor) -> Iterable[Tensor]:
    """Views of the slices of the first dimension.

    Raises
    ------
    TypeError
        For a 0-dim tensor.
    """
    if not input._layout.shape:
        raise TypeError("iteration over a 0-d tensor")
    return iter(parts.unbind(input, 0))

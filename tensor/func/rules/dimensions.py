"""Dimensions of samples, and where they are in a batch."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from tensor.core.base import TensorBase
from tensor.func.batched import batched, mapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.func.dispatch import Call


def position(dim: Any, rank: int) -> int:
    """Where dimension ``dim`` of samples of ``rank`` dimensions is in the batch.

    Raises
    ------
    IndexError
        If there is no such dimension.
    """
    count = max(rank, 1)
    number = dim.__index__()
    if not -count <= number < count:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got {number})"
        )
    return int(number % count) + 1


def positions(dims: Any, rank: int) -> Any:
    """:func:`position` of one, or of each in a sequence; ``None`` stays."""
    if dims is None:
        return None
    if isinstance(dims, (tuple, list)):
        return tuple([position(each, rank) for each in dims])
    return position(dims, rank)


def numbers(arguments: tuple[Any, ...], named: Any) -> tuple[Any, ...]:
    """Sizes or dimensions that are given one by one, as one sequence, or by name."""
    if named is not None:
        return tuple(named) if isinstance(named, (tuple, list)) else (named,)
    if len(arguments) == 1 and isinstance(arguments[0], (tuple, list)):
        return tuple(arguments[0])
    return tuple(arguments)


def as_rows(value: Any) -> Any:
    """All samples as vectors, of an empty batch too."""
    return value.reshape(value.shape[0], prod(value.shape[1:]))


def shifted(*names: str, first: str = "input") -> Callable[[Call], Any]:
    """The rule of an operation whose tensors all have the batch in front, and whose dimensions have these ``names``."""

    def apply(call: Call) -> Any:
        rank = call[first].dim()
        arguments = {
            name: mapped(call.full, value) if _has_tensors(value) else value
            for name, value in call.arguments.items()
        }
        for name, value in call.arguments.items():
            if isinstance(value, TensorBase) and not value.dim():
                arguments[name] = arguments[name].reshape(-1, 1)
        for name in names:
            if name in arguments and not isinstance(arguments[name], TensorBase):
                arguments[name] = positions(arguments[name], rank)
        result = call.operation.call(arguments)
        if not rank:
            return mapped(lambda x: batched(x.reshape(-1), call.level), result)
        return call.wrap(result)

    return apply


def _has_tensors(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(_has_tensors(each) for each in value)
    return isinstance(value, TensorBase)

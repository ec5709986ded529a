"""Checks that many functions share: sizes, dimensions, indices."""

from __future__ import annotations

import contextlib
import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def integers(argument: tuple[Any, ...], function: str, what: str = "size") -> tuple[int, ...]:
    """Numbers given one by one (``view(2, 3)``) or as one sequence (``view((2, 3))``).

    Raises
    ------
    TypeError
        For anything that is no integer; the message says where.
    """
    if len(argument) == 1:
        (only,) = argument
        if type(only) is int:
            return argument
        if isinstance(only, (list, tuple)):
            argument = tuple(only)
        elif not hasattr(only, "__index__"):
            with contextlib.suppress(TypeError):
                argument = tuple(only)
    for number in argument:
        if type(number) is not int:
            break
    else:
        return argument
    numbers = []
    for position, number in enumerate(argument):
        try:
            if isinstance(number, bool):
                raise TypeError
            numbers.append(operator.index(number))
        except TypeError:
            raise TypeError(
                f"{function}(): argument '{what}' must be ints, but found element of type "
                f"{type(number).__name__} at position {position}"
            ) from None
    return tuple(numbers)


def as_int64(value: Any, function: str, name: str) -> int:
    """``value`` as an int; an integer, or a tensor of one.

    Raises
    ------
    TypeError
        If it is neither.
    ValueError
        If it has more than 64 bits.
    """
    try:
        result = operator.index(value)
    except TypeError:
        raise TypeError(f"{function}(): argument '{name}' must be int, not {type(value).__name__}") from None
    if not -(1 << 63) <= result < 1 << 63:
        raise ValueError(f"Overflow when unpacking long long: {function}(): '{name}' is {result}")
    return result


def dimension(dim: Any, rank: int) -> int:
    """``dim`` counted from 0; negative ones count from the end. A 0-dim tensor has one dimension here.

    Raises
    ------
    IndexError
        If there is no such dimension.
    """
    number = operator.index(dim)
    limit = max(rank, 1)
    if not -limit <= number < limit:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {number})"
        )
    return number % limit


def dimensions(dims: Sequence[Any], rank: int, function: str) -> tuple[int, ...]:
    """Several different dimensions, each as :func:`dimension` gives it.

    Raises
    ------
    RuntimeError
        If one is named twice.
    """
    result: list[int] = []
    for dim in dims:
        number = dimension(dim, rank)
        if number in result:
            raise RuntimeError(f"{function}(): dim {number} appears multiple times in the list of dims")
        result.append(number)
    return tuple(result)


def checked_sizes(argument: Sequence[int]) -> Sequence[int]:
    """A shape for new memory.

    Raises
    ------
    RuntimeError
        If a size is negative, or the elements are more than an address can count.
    """
    count = 1
    for size in argument:
        if size < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {size}: {list(argument)}")
        count *= size
    if count >= 1 << 59:
        raise RuntimeError(f"a tensor of shape {list(argument)} is larger than any memory: {count} elements")
    return argument


def two_devices(function: str, one: object, other: object) -> RuntimeError:
    """The error of operands on two devices."""
    return RuntimeError(
        f"{function}(): Expected all tensors to be on the same device, but found at least two devices, {one} and {other}!"
    )

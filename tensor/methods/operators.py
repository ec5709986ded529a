"""Python's operators as methods of tensors, and in-place forms of functions.

An operand that is neither a tensor nor a number is left to its own class (``NotImplemented``); of a NumPy
array the elements are taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.core.base import TensorBase
from tensor.core.dtypes.scalars import is_number
from tensor.operations.pointwise_operation import IN_PLACE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.operations.pointwise_operation import Pointwise

    from .tensor import Tensor

_NUMBERS = (bool, int, float, complex)


def operand(other: Any) -> Any:
    """``other`` as an operand of an operation, or ``NotImplemented``."""
    if isinstance(other, np.ndarray):
        from tensor.operations.creation.construction import from_numpy

        return from_numpy(other)
    return other if isinstance(other, TensorBase) or is_number(other) else NotImplemented


def binary(operation: Callable[[Any, Any], Any]) -> Callable[[Tensor, Any], Any]:
    """Method for ``self <operator> other``."""

    def method(self: Tensor, other: Any) -> Any:
        if not isinstance(other, TensorBase) and type(other) not in _NUMBERS:
            other = operand(other)
            if other is NotImplemented:
                return NotImplemented
        return operation(self, other)

    return method


def forms(operation: Pointwise) -> tuple[Callable[[Tensor, Any], Any], ...]:
    """Methods for ``self <operator> other``, ``other <operator> self`` and ``self <operator>= other``."""
    return (
        binary(operation.binary),
        binary(lambda self, other: operation(other, self)),
        binary(operation.in_place),
    )


def in_place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Method that writes the result of ``function`` to the tensor, and returns that."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return function(self, *args, out=IN_PLACE, **kwargs)

    name = function.__name__
    method.__name__ = f"{name}_"
    method.__qualname__ = f"Tensor.{name}_"
    method.__module__ = function.__module__
    method.__doc__ = f":func:`{name}` in place."
    return method

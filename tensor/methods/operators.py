"""Python's operators as methods of tensors, and in-place forms of functions.

An operand that is neither a tensor nor a number is left to its own class (``NotImplemented``); of a NumPy
array the elements are taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

import numpy as np

from nvrtc_kernels.dtypes import Category
from tensor.core.base import TensorBase
from tensor.core.dtypes.scalars import is_number
from tensor.core.sparse import SparseOperandError
from tensor.operations.creation.interchange.array_interfaces import from_numpy
from tensor.operations.definition.call_forms import in_place
from tensor.operations.pointwise import arithmetic, bitwise, comparisons, powers
from tensor.operations.pointwise_operation import IN_PLACE
from tensor.operations.products import contractions
from tensor.operations.sparse_rules import on_sparse

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FunctionType

    from tensor.operations.pointwise_operation import Pointwise

    from .tensor import Tensor

    Operator: TypeAlias = Callable[[Any, Any], Tensor]

_NUMBERS = (bool, int, float, complex)


def operand(other: Any) -> Any:
    """``other`` as an operand of an operation, or ``NotImplemented``."""
    if isinstance(other, np.ndarray):
        return from_numpy(other)
    return other if isinstance(other, TensorBase) or is_number(other) else NotImplemented


def binary(operation: Callable[[Any, Any], Any], in_place: str = "") -> Operator:
    """Method for ``self <operator> other``; for ``self <operator>= other``, of the operation that is called ``in_place``."""

    def method(self: Tensor, other: Any) -> Any:
        if not isinstance(other, TensorBase) and type(other) not in _NUMBERS:
            other = operand(other)
            if other is NotImplemented:
                return NotImplemented
        try:
            return operation(self, other)
        except SparseOperandError:
            if not in_place:
                raise
            return on_sparse(in_place, self, other)

    return method


def forms(operation: Pointwise) -> tuple[Operator, Operator, Operator]:
    """Methods for ``self <operator> other``, ``other <operator> self`` and ``self <operator>= other``."""
    return (
        binary(operation.binary),
        binary(lambda self, other: operation(other, self)),
        binary(operation.in_place, f"{operation.name}_"),
    )


class Operators:
    """What Python's operators do with tensors."""

    __slots__ = ()

    #: NumPy arrays leave operators to tensors.
    __array_priority__ = 1000

    # Said and not inferred: definitions of operations, which these are made of, use them.
    __add__: ClassVar[Operator]
    __radd__: ClassVar[Operator]
    __iadd__: ClassVar[Operator]
    __sub__: ClassVar[Operator]
    __rsub__: ClassVar[Operator]
    __isub__: ClassVar[Operator]
    __mul__: ClassVar[Operator]
    __rmul__: ClassVar[Operator]
    __imul__: ClassVar[Operator]
    __truediv__: ClassVar[Operator]
    __itruediv__: ClassVar[Operator]
    __floordiv__: ClassVar[Operator]
    __rfloordiv__: ClassVar[Operator]
    __ifloordiv__: ClassVar[Operator]
    __mod__: ClassVar[Operator]
    __rmod__: ClassVar[Operator]
    __imod__: ClassVar[Operator]
    __and__: ClassVar[Operator]
    __rand__: ClassVar[Operator]
    __iand__: ClassVar[Operator]
    __or__: ClassVar[Operator]
    __ror__: ClassVar[Operator]
    __ior__: ClassVar[Operator]
    __xor__: ClassVar[Operator]
    __rxor__: ClassVar[Operator]
    __ixor__: ClassVar[Operator]
    __lshift__: ClassVar[Operator]
    __rlshift__: ClassVar[Operator]
    __ilshift__: ClassVar[Operator]
    __rshift__: ClassVar[Operator]
    __rrshift__: ClassVar[Operator]
    __irshift__: ClassVar[Operator]

    __add__, __radd__, __iadd__ = forms(arithmetic.ADD)
    __sub__, __rsub__, __isub__ = forms(arithmetic.SUB)
    __mul__, __rmul__, __imul__ = forms(arithmetic.MUL)
    __truediv__, _, __itruediv__ = forms(arithmetic.DIV)
    __rtruediv__: ClassVar[Operator] = binary(arithmetic.rtruediv)
    __floordiv__, __rfloordiv__, __ifloordiv__ = forms(arithmetic.FLOOR_DIVIDE)
    __mod__, __rmod__, __imod__ = forms(arithmetic.REMAINDER)
    __and__, __rand__, __iand__ = forms(bitwise.AND)
    __or__, __ror__, __ior__ = forms(bitwise.OR)
    __xor__, __rxor__, __ixor__ = forms(bitwise.XOR)
    __lshift__, __rlshift__, __ilshift__ = forms(bitwise.LEFT_SHIFT)
    __rshift__, __rrshift__, __irshift__ = forms(bitwise.RIGHT_SHIFT)
    __pow__: ClassVar[Operator] = binary(powers.pow)
    __rpow__: ClassVar[Operator] = binary(lambda self, other: powers.pow(other, self))
    __ipow__: ClassVar[Operator] = binary(in_place(cast("FunctionType", powers.pow), IN_PLACE))
    __eq__: ClassVar[Operator] = binary(comparisons.EQ.binary)  # type: ignore[assignment]
    __ne__: ClassVar[Operator] = binary(comparisons.NE.binary)  # type: ignore[assignment]
    __lt__: ClassVar[Operator] = binary(comparisons.LT.binary)
    __le__: ClassVar[Operator] = binary(comparisons.LE.binary)
    __gt__: ClassVar[Operator] = binary(comparisons.GT.binary)
    __ge__: ClassVar[Operator] = binary(comparisons.GE.binary)
    __hash__ = object.__hash__
    __pos__ = arithmetic.positive

    def __neg__(self: Any) -> Tensor:
        return arithmetic.NEG.unary(self)

    def __abs__(self: Any) -> Tensor:
        return arithmetic.ABS.unary(self)

    def __invert__(self: Any) -> Tensor:
        if self._layout.dtype.category > Category.INTEGER:
            raise TypeError(
                f"~ (operator.invert) is only implemented on integer and Boolean-type tensors, not {self.dtype!r}"
            )
        return bitwise.NOT.unary(self)

    def __matmul__(self: Any, other: Any) -> Tensor:
        return contractions.matmul(self, other) if isinstance(other, TensorBase) else NotImplemented

    def __rmatmul__(self: Any, other: Any) -> Tensor:
        return contractions.matmul(other, self) if isinstance(other, TensorBase) else NotImplemented

"""Numbers of a step that are known on the device only: formulas of counts of steps, learning rates and other tensors.

A formula is written once, with the operators of Python's numbers: on floats it is computed by the host, and on a
:class:`Number` it becomes an expression in double precision that the step's kernel computes. Constants of a formula are
arguments of the kernel, so that others need no new one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

from tensor.core.base import TensorBase

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.methods.tensor import Tensor


class Number:
    """A number that a kernel computes, made by :meth:`of`, :meth:`of_each` and operators.

    Attributes
    ----------
    code : str
        CUDA C++ of it, with ``{}`` for each leaf.
    leaves : tuple
        For each a float, a tensor of one element, or a list of such, one for each parameter.
    """

    __slots__ = ("code", "leaves")

    def __init__(self, code: str, leaves: tuple[Any, ...]) -> None:
        self.code = code
        self.leaves = leaves

    @classmethod
    def of(cls, x: Tensor) -> Number:
        """The element of a real tensor that has one, on a device."""
        return cls("{}", (x,))

    @classmethod
    def of_each(cls, tensors: Sequence[Tensor]) -> Number:
        """For each parameter the element of its tensor."""
        return cls("{}", (tensors,))

    def _with(self, code: str, *others: Scalar) -> Number:
        operands = [each if isinstance(each, Number) else Number("{}", (float(each),)) for each in others]
        leaves = tuple(leaf for each in operands for leaf in each.leaves)
        return Number(code % tuple(each.code for each in operands), leaves)

    def __add__(self, other: Scalar) -> Number:
        return self._with("(%s + %s)", self, other)

    def __radd__(self, other: Scalar) -> Number:
        return self._with("(%s + %s)", other, self)

    def __sub__(self, other: Scalar) -> Number:
        return self._with("(%s - %s)", self, other)

    def __rsub__(self, other: Scalar) -> Number:
        return self._with("(%s - %s)", other, self)

    def __mul__(self, other: Scalar) -> Number:
        return self._with("(%s * %s)", self, other)

    def __rmul__(self, other: Scalar) -> Number:
        return self._with("(%s * %s)", other, self)

    def __truediv__(self, other: Scalar) -> Number:
        return self._with("(%s / %s)", self, other)

    def __rtruediv__(self, other: Scalar) -> Number:
        return self._with("(%s / %s)", other, self)

    def __pow__(self, other: Scalar) -> Number:
        return self._with("pow(%s, %s)", self, other)

    def __rpow__(self, other: Scalar) -> Number:
        return self._with("pow(%s, %s)", other, self)


Scalar: TypeAlias = float | Number


def square_root(x: Any) -> Any:
    """The square root of a float or a :class:`Number`."""
    return x._with("sqrt(%s)", x) if isinstance(x, Number) else math.sqrt(x)


def where_above(x: Any, limit: float, above: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """``above()`` where ``x > limit``, or else ``otherwise()``."""
    if isinstance(x, Number):
        return x._with("(%s > %s ? %s : %s)", x, limit, above(), otherwise())
    return above() if x > limit else otherwise()


def number_of(value: Any, params: Sequence[Tensor]) -> Any:
    """An option of an optimizer as a number for a step of ``params``.

    A float, for which a tensor is read; but a :class:`Number` for a tensor of a device where all of ``params`` are on one.
    """
    if isinstance(value, TensorBase) and value.is_cuda and all(each.is_cuda for each in params):
        return Number.of(value)
    return float(value)

"""Operations on the bits of integers; on bools, they are logical."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import UNSIGNED, Category
from tensor.operations.definition import operation
from tensor.operations.pointwise_operation import Pointwise, by_category

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

_BITS = (Category.BOOL, Category.INTEGER)

AND = Pointwise("bitwise_and", "a & b", np.bitwise_and, categories=_BITS, stored=UNSIGNED)
OR = Pointwise("bitwise_or", "a | b", np.bitwise_or, categories=_BITS, stored=UNSIGNED)
XOR = Pointwise("bitwise_xor", "a ^ b", np.bitwise_xor, categories=_BITS, stored=UNSIGNED)
NOT = Pointwise("bitwise_not", by_category("~a", boolean="!a"), np.bitwise_not, categories=_BITS)


def _inside(a: Any, b: Any) -> Any:
    """Where a shift by ``b`` leaves bits of ``a``."""
    return (b >= 0) & (b < 8 * a.dtype.itemsize)


def _left_shift(a: Any, b: Any) -> Any:
    inside = _inside(a, b)
    return np.where(inside, np.left_shift(a, np.where(inside, b, b.dtype.type(0))), a.dtype.type(0))


def _right_shift(a: Any, b: Any) -> Any:
    inside = _inside(a, b)
    shifted = np.right_shift(a, np.where(inside, b, b.dtype.type(0)))
    return np.where(inside, shifted, np.negative((a < 0).astype(a.dtype)))


LEFT_SHIFT = Pointwise(
    "bitwise_left_shift",
    "b < 0 || b >= Compute(8 * sizeof(Compute)) ? Compute(0) : Compute(a << b)",
    _left_shift,
    categories=(Category.INTEGER,),
)
RIGHT_SHIFT = Pointwise(
    "bitwise_right_shift",
    "b < 0 || b >= Compute(8 * sizeof(Compute)) ? Compute(a < 0 ? -1 : 0) : Compute(a >> b)",
    _right_shift,
    categories=(Category.INTEGER,),
)


@operation(in_place=True)
def bitwise_and(input: Tensor | int, other: Tensor | int, *, out: Tensor | None = None) -> Tensor:
    """``input & other``: bitwise and.

    Parameters
    ----------
    input, other : Tensor or number
        At least one of them a tensor; of shapes that broadcast. Of integers or bools; the result has the
        promoted dtype, and of bools it is logical.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the promoted dtype is floating or complex.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.
    TypeError
        If neither argument is a tensor.

    Examples
    --------
    >>> tensor.bitwise_and(tensor.tensor([12, 10]), 6)
    tensor([4, 2])
    """
    return AND.out(out, input, other)


@operation(in_place=True)
def bitwise_or(input: Tensor | int, other: Tensor | int, *, out: Tensor | None = None) -> Tensor:
    """``input | other``: bitwise or.

    Parameters
    ----------
    input, other : Tensor or number
        At least one of them a tensor; of shapes that broadcast. Of integers or bools; the result has the
        promoted dtype, and of bools it is logical.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the promoted dtype is floating or complex.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.
    TypeError
        If neither argument is a tensor.

    Examples
    --------
    >>> tensor.bitwise_or(tensor.tensor([12, 10]), 6)
    tensor([14, 14])
    """
    return OR.out(out, input, other)


@operation(in_place=True)
def bitwise_xor(input: Tensor | int, other: Tensor | int, *, out: Tensor | None = None) -> Tensor:
    """``input ^ other``: bitwise exclusive or.

    Parameters
    ----------
    input, other : Tensor or number
        At least one of them a tensor; of shapes that broadcast. Of integers or bools; the result has the
        promoted dtype, and of bools it is logical.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the promoted dtype is floating or complex.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.
    TypeError
        If neither argument is a tensor.

    Examples
    --------
    >>> tensor.bitwise_xor(tensor.tensor([12, 10]), 6)
    tensor([10, 12])
    """
    return XOR.out(out, input, other)


@operation(in_place=True)
def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``~input``: each bit inverted; for bools, logical not.

    Parameters
    ----------
    input : Tensor
        Of any shape, of integers or bools; the result has both its shape and dtype.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the dtype is floating or complex.

    Examples
    --------
    >>> tensor.bitwise_not(tensor.tensor([0, 5]))
    tensor([-1, -6])
    >>> tensor.bitwise_not(tensor.tensor([True, False]))
    tensor([False,  True])
    """
    return NOT.out(out, input)


@operation(in_place=True)
def bitwise_left_shift(input: Tensor | int, other: Tensor | int, *, out: Tensor | None = None) -> Tensor:
    """``input << other``; 0 where ``other`` is negative or not below the dtype's number of bits.

    Parameters
    ----------
    input, other : Tensor or number
        At least one of them a tensor; of shapes that broadcast. Of integer dtypes; the result has the
        promoted one.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the promoted dtype is not an integer one.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.
    TypeError
        If neither argument is a tensor.

    Examples
    --------
    >>> tensor.bitwise_left_shift(tensor.tensor([1, 3]), tensor.tensor([4, 64]))
    tensor([16,  0])
    """
    return LEFT_SHIFT.out(out, input, other)


@operation(in_place=True)
def bitwise_right_shift(input: Tensor | int, other: Tensor | int, *, out: Tensor | None = None) -> Tensor:
    """``input >> other``, filled with the sign bit: 0 or -1 where ``other`` is out of range.

    Out of range is negative, or not below the dtype's number of bits.

    Parameters
    ----------
    input, other : Tensor or number
        At least one of them a tensor; of shapes that broadcast. Of integer dtypes; the result has the
        promoted one.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the promoted dtype is not an integer one.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.
    TypeError
        If neither argument is a tensor.

    Examples
    --------
    >>> tensor.bitwise_right_shift(tensor.tensor([9, -9]), tensor.tensor([1, 64]))
    tensor([ 4, -1])
    """
    return RIGHT_SHIFT.out(out, input, other)

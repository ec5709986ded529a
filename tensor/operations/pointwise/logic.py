"""Logic on any elements, of which zero is false; the result is bool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensor.core.dtypes import promotion as rules
from tensor.operations.definition import operation
from tensor.operations.pointwise_operation import Pointwise

from .arithmetic import no_change

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

AND = Pointwise(
    "logical_and",
    "to_element<bool>(a) && to_element<bool>(b)",
    np.logical_and,
    numbers="",
    rule=rules.comparison,
    derivatives=(no_change, no_change),
)
OR = Pointwise(
    "logical_or",
    "to_element<bool>(a) || to_element<bool>(b)",
    np.logical_or,
    numbers="",
    rule=rules.comparison,
    derivatives=(no_change, no_change),
)
XOR = Pointwise(
    "logical_xor",
    "to_element<bool>(a) != to_element<bool>(b)",
    np.logical_xor,
    numbers="",
    rule=rules.comparison,
    derivatives=(no_change, no_change),
)
NOT = Pointwise(
    "logical_not",
    "!to_element<bool>(a)",
    np.logical_not,
    rule=rules.comparison,
    derivatives=(no_change,),
)


@operation(in_place=True)
def logical_and(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether both elements are true (not 0).

    Parameters
    ----------
    input, other : Tensor
        Of shapes that broadcast. Of any dtypes: 0 is false, everything else, NaN too, true. The result is of
        bools.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    TypeError
        If an argument is not a tensor.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.

    Examples
    --------
    >>> tensor.logical_and(tensor.tensor([0, 1, 2]), tensor.tensor([True, True, False]))
    tensor([False,  True, False])
    """
    return AND.out(out, input, other)


@operation(in_place=True)
def logical_or(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether at least one of two elements is true (not 0).

    Parameters
    ----------
    input, other : Tensor
        Of shapes that broadcast. Of any dtypes: 0 is false, everything else, NaN too, true. The result is of
        bools.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    TypeError
        If an argument is not a tensor.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.

    Examples
    --------
    >>> tensor.logical_or(tensor.tensor([0, 1, 2]), tensor.tensor([True, True, False]))
    tensor([True, True, True])
    """
    return OR.out(out, input, other)


@operation(in_place=True)
def logical_xor(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether exactly one of two elements is true (not 0).

    Parameters
    ----------
    input, other : Tensor
        Of shapes that broadcast. Of any dtypes: 0 is false, everything else, NaN too, true. The result is of
        bools.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    TypeError
        If an argument is not a tensor.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.

    Examples
    --------
    >>> tensor.logical_xor(tensor.tensor([0, 1, 2]), tensor.tensor([True, True, False]))
    tensor([ True, False,  True])
    """
    return XOR.out(out, input, other)


@operation(in_place=True)
def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element is false (0).

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype: 0 is false, everything else, NaN too, true. The result is of bools.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Examples
    --------
    >>> tensor.logical_not(tensor.tensor([0.0, 0.5]))
    tensor([ True, False])
    """
    return NOT.out(out, input)

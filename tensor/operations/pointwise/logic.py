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
    "narrow<bool>(a) && narrow<bool>(b)",
    np.logical_and,
    numbers="",
    rule=rules.comparison,
    derivatives=(no_change, no_change),
)
OR = Pointwise(
    "logical_or",
    "narrow<bool>(a) || narrow<bool>(b)",
    np.logical_or,
    numbers="",
    rule=rules.comparison,
    derivatives=(no_change, no_change),
)
XOR = Pointwise(
    "logical_xor",
    "narrow<bool>(a) != narrow<bool>(b)",
    np.logical_xor,
    numbers="",
    rule=rules.comparison,
    derivatives=(no_change, no_change),
)
NOT = Pointwise(
    "logical_not",
    "!narrow<bool>(a)",
    np.logical_not,
    rule=rules.comparison,
    derivatives=(no_change,),
)


@operation(in_place=True)
def logical_and(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether both elements are true."""
    return AND.out(out, input, other)


@operation(in_place=True)
def logical_or(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether one of two elements is true, or both."""
    return OR.out(out, input, other)


@operation(in_place=True)
def logical_xor(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether exactly one of two elements is true."""
    return XOR.out(out, input, other)


@operation(in_place=True)
def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element is false."""
    return NOT.out(out, input)

"""Greatest common divisors and least common multiples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nvrtc_kernels.dtypes import Category
from tensor.operations.definition import operation
from tensor.operations.pointwise_operation import Pointwise

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

GCD = Pointwise(
    "gcd",
    "greatest_divisor(a, b)",
    np.gcd,
    numbers="",
    categories=(Category.INTEGER,),
    include="arithmetic.cuh",
)
LCM = Pointwise(
    "lcm",
    "least_multiple(a, b)",
    np.lcm,
    numbers="",
    categories=(Category.INTEGER,),
    include="arithmetic.cuh",
)


@operation(in_place=True, also="tensor.gcd_")
def gcd(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Greatest common divisor, never negative; of 0 and 0 it is 0.

    Parameters
    ----------
    input, other : Tensor
        Of shapes that broadcast. Of integer dtypes; the result has the promoted one.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If a dtype is not an integer one.
    TypeError
        If an argument is not a tensor.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.

    Examples
    --------
    >>> tensor.gcd(tensor.tensor([12, -18, 0]), tensor.tensor([8]))
    tensor([4, 2, 8])
    """
    return GCD.out(out, input, other)


@operation(in_place=True, also="tensor.lcm_")
def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Least common multiple, never negative; 0 where one of the two is 0.

    Parameters
    ----------
    input, other : Tensor
        Of shapes that broadcast. Of integer dtypes; the result has the promoted one.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If a dtype is not an integer one.
    TypeError
        If an argument is not a tensor.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.

    Examples
    --------
    >>> tensor.lcm(tensor.tensor([12, -18, 0]), tensor.tensor([8]))
    tensor([24, 72,  0])
    """
    return LCM.out(out, input, other)

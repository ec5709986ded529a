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
    """Greatest common divisor of integers, never negative; of 0 and 0 it is 0."""
    return GCD.out(out, input, other)


@operation(in_place=True, also="tensor.lcm_")
def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Least common multiple of integers, never negative; 0 where one is 0."""
    return LCM.out(out, input, other)

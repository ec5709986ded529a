"""Incomplete gamma functions, the multivariate one, and Hurwitz's zeta function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvrtc_kernels.dtypes import Category
from tensor.core.base import TensorBase
from tensor.core.dtypes import promotion as rules
from tensor.operations.creation.ranges import arange
from tensor.operations.definition import operation
from tensor.operations.pointwise.arithmetic import MUL, NEG, SUB, undefined
from tensor.operations.pointwise.powers import EXP, LOG
from tensor.operations.pointwise_operation import Pointwise
from tensor.operations.reductions.sums import sum

from . import gamma_numpy, incomplete_gamma_numpy
from .error_and_gamma import LGAMMA, digamma

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

_REAL = (Category.BOOL, Category.INTEGER, Category.FLOATING)
_FLOATING = (Category.FLOATING,)

#: The derivative with respect to the first operand has no closed form.
IGAMMA = Pointwise(
    "igamma",
    "incomplete_gamma(a, b, false)",
    incomplete_gamma_numpy.igamma,
    numbers="",
    categories=_FLOATING,
    include="incomplete_gamma.cuh",
    derivatives=(undefined("igamma: input"), lambda grad, a, b: MUL.binary(grad, _density(a, b))),
)
IGAMMAC = Pointwise(
    "igammac",
    "incomplete_gamma(a, b, true)",
    incomplete_gamma_numpy.igammac,
    numbers="",
    categories=_FLOATING,
    include="incomplete_gamma.cuh",
    derivatives=(
        undefined("igammac: input"),
        lambda grad, a, b: NEG.unary(MUL.binary(grad, _density(a, b))),
    ),
)
#: Of (number, dimension).
MVLGAMMA = Pointwise(
    "mvlgamma",
    "multivariate_lgamma(a, b)",
    gamma_numpy.mvlgamma,
    rule=rules.floating,
    typed=1,
    categories=_REAL,
    include="special_functions.cuh",
    derivatives=(lambda grad, a, b: MUL.binary(grad, _sum_of_digammas(a, b)),),
)
ZETA = Pointwise(
    "zeta",
    "zeta(a, b)",
    gamma_numpy.zeta,
    rule=rules.floating,
    categories=_REAL,
    include="special_functions.cuh",
    node=lambda a, b: (
        f"SpecialZetaBackward{1 if not isinstance(a, TensorBase) else 0 if isinstance(b, TensorBase) else 2}"
    ),
    derivatives=(
        undefined("zeta"),
        lambda grad, a, b: MUL.binary(
            MUL.binary(grad, NEG.unary(a) if isinstance(a, TensorBase) else -a), _next(a, b)
        ),
    ),
)


def _next(a: Tensor | float, b: Tensor) -> Tensor:
    return ZETA(a + 1, b)


def _density(a: Tensor, b: Tensor) -> Tensor:
    """Density of the gamma distribution of shape ``a`` at ``b``."""
    power = MUL.binary(SUB.binary(a, 1), LOG.unary(b))
    return EXP.unary(SUB.binary(SUB.binary(power, b), LGAMMA.unary(a)))


def _sum_of_digammas(a: Tensor, p: int) -> Tensor:
    steps = arange(int(p), dtype=a.dtype, device=a.device)
    return sum(digamma(SUB.binary(a.unsqueeze(-1), MUL.binary(steps, 0.5))), -1)


@operation(in_place=True, also="special.gammainc")
def igamma(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Regularised lower incomplete gamma function.

    The integral of ``t**(input - 1) * exp(-t)`` from 0 to ``other``, divided by the gamma function at ``input``;
    NaN where an operand is negative.
    """
    return IGAMMA.out(out, input, other)


@operation(in_place=True, also="special.gammaincc")
def igammac(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Regularised upper incomplete gamma function: ``1 - igamma(input, other)``, exact also where that is tiny."""
    return IGAMMAC.out(out, input, other)


@operation(in_place=True, also="special.multigammaln")
def mvlgamma(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the absolute value of the multivariate gamma function of dimension ``p``.

    Raises
    ------
    RuntimeError
        If ``p`` is smaller than 1, or for bools.
    """
    if input._layout.dtype.category is Category.BOOL:
        raise RuntimeError("mvlgamma(): The input tensor may not be a boolean tensor.")
    if p < 1:
        raise RuntimeError(f"p has to be greater than or equal to 1, got {p}")
    return MVLGAMMA.out(out, input, p)


@operation(namespace="special", method=False)
def zeta(input: Tensor | float, other: Tensor | float, *, out: Tensor | None = None) -> Tensor:
    """Hurwitz's zeta function: the sum of ``(other + k) ** -input`` over all whole k >= 0."""
    return ZETA.out(out, input, other)

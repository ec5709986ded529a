"""The gamma distribution and those of quotients of gamma variables: beta, Dirichlet, Student's t, F."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from nvrtc_kernels.dtypes import float64
from tensor.autograd.function import Function, once_differentiable
from tensor.core.dtypes.limits import finfo
from tensor.operations.creation.construction import tensor as new_tensor
from tensor.operations.creation.like import full_like, ones_like, zeros_like
from tensor.operations.pointwise.selection import where
from tensor.operations.random.creation import rand, randn
from tensor.operations.shapes.joining import stack
from tensor.operations.special.incomplete_gamma import igamma
from tensor.operations.special.logistic import xlogy

from . import constraints
from .distribution import Distribution, ExponentialFamily, batch_shape_of, broadcast_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor


def standard_gamma(concentration: Tensor) -> Tensor:
    """Samples of gamma distributions of rate 1, with derivatives by the concentration.

    Marsaglia and Tsang, "A simple method for generating gamma variables" (2000); each round of rejection waits for the
    device once, and most elements are accepted in the first.
    """
    result: Tensor = _StandardGamma.apply(concentration)
    return result


class _StandardGamma(Function):
    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        result = _drawn(concentration)
        ctx.save_for_backward(concentration, result)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * standard_gamma_grad(*ctx.saved_tensors)


def _drawn(concentration: Tensor) -> Tensor:
    dtype, device = concentration.dtype, concentration.device
    shape = tuple(concentration.shape)
    # Below 1 a sample of concentration + 1 is multiplied by a power of a uniform number.
    is_small = concentration < 1
    d = where(is_small, concentration + 1, concentration) - 1 / 3
    c = 1 / (9 * d).sqrt()
    result, waiting = zeros_like(d), ones_like(d).bool()
    while bool(waiting.any()):
        x = randn(shape, dtype=dtype, device=device)
        v = (1 + c * x).pow(3)
        u = rand(shape, dtype=dtype, device=device)
        logs = v.clamp(min=finfo(dtype).tiny).log()
        accepted = waiting & (v > 0) & (u.log() < 0.5 * x.square() + d * (1 - v + logs))
        result = where(accepted, d * v, result)
        waiting = waiting & ~accepted
    # Without 0, of which the power would be 0 whatever the concentration.
    u = 1 - rand(shape, dtype=dtype, device=device)
    result = where(is_small, result * (u.log() / concentration).exp(), result)
    return result.clamp(min=finfo(dtype).tiny)


@cache
def _nodes() -> tuple[list[float], list[float]]:
    """Nodes and weights of exp-sinh quadrature on (0, inf), for integrands that decay exponentially."""
    step = 0.1
    at = [step * n for n in range(-36, 21)]
    nodes = [math.exp(math.pi / 2 * math.sinh(v)) for v in at]
    weights = [step * math.pi / 2 * math.cosh(v) * x for v, x in zip(at, nodes, strict=True)]
    return nodes, weights


def standard_gamma_grad(concentration: Tensor, sample: Tensor) -> Tensor:
    """Derivative of a sample by the concentration at a constant quantile, ``-dF(z; a)/da / p(z; a)``.

    ``dF/da`` is the integral of ``p(t; a) * (log(t) - digamma(a))`` over t from 0 to z. It, or what is above ``z`` where that
    is less, is computed in float64 by quadrature; the quotient leaves no factor that overflows. Its error is below 1e-8.
    """
    a = concentration.to(float64).unsqueeze(-1)
    z = sample.to(float64).unsqueeze(-1)
    nodes, weights = (new_tensor(each, dtype=float64, device=a.device) for each in _nodes())
    scale = 1 + a.sqrt()
    s, weights = nodes * scale, weights * scale
    psi = a.digamma()
    # t = z exp(-s / a): the weight t**(a - 1) becomes exp(-s).
    below = (-s - z * (-s / a).expm1()).exp() * (z.log() - psi - s / a)
    above = ((a - 1) * (s / z).log1p() - s).exp() * ((z + s).log() - psi)
    integral = where(z <= a, -z / a * below, above)
    return (integral * weights).sum(-1).to(sample.dtype)


class Gamma(ExponentialFamily):
    """Gamma distribution.

    Parameters
    ----------
    concentration, rate : Tensor or float
        Shape and inverse scale.
    validate_args : bool, optional
        As of :class:`Distribution`.
    """

    arg_constraints: ClassVar[Any] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        shape = batch_shape_of(concentration, rate, parameters=[self.rate])
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        value = standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        # A density that grows without bounds towards 0 is not evaluated there.
        return value.clamp(min=finfo(value.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return xlogy(a, self.rate) + xlogy(a - 1, value) - self.rate * value - a.lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return igamma(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        first, second = natural_params
        return (first + 1).lgamma() + (first + 1) * (-second.reciprocal()).log()


class Chi2(Gamma):
    """Chi-squared distribution: the sum of ``df`` squared standard normal variables.

    Parameters
    ----------
    df : Tensor or float
        Degrees of freedom.
    validate_args : bool, optional
        As of :class:`Distribution`.
    """

    arg_constraints: ClassVar[Any] = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def _check_parameters(self) -> None:
        self._check_parameter("df", constraints.positive, self.df)

    def _expandable(self) -> Sequence[str]:
        return ["concentration", "rate"]

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2


class Dirichlet(ExponentialFamily):
    """Dirichlet distribution of probabilities, which sum to 1 over the last dimension.

    Parameters
    ----------
    concentration : Tensor
        Of shape ``(..., K)``.
    validate_args : bool, optional
        As of :class:`Distribution`.

    Raises
    ------
    ValueError
        If ``concentration`` has no dimension.
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("concentration must have at least one dimension, got a tensor of shape ()")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        less = (self.concentration - 1).clamp(min=0.0)
        mode = less / less.sum(-1, True)
        at_corner = (self.concentration < 1).all(-1, keepdim=True)
        # All corners have infinite density: PyTorch names the first.
        corner = zeros_like(mode)
        corner[..., 0] = 1
        return where(at_corner, corner, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        gammas = standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)))
        return gammas / gammas.sum(-1, True)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return xlogy(a - 1, value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        a, k = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        log_beta = a.lgamma().sum(-1) - total.lgamma()
        return log_beta - (k - total) * total.digamma() - ((a - 1) * a.digamma()).sum(-1)

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.concentration,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (x,) = natural_params
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()


class Beta(ExponentialFamily):
    """Beta distribution on [0, 1].

    Parameters
    ----------
    concentration1, concentration0 : Tensor or float
        Concentrations at 1 (alpha) and at 0 (beta).
    validate_args : bool, optional
        As of :class:`Distribution`.
    """

    arg_constraints: ClassVar[Any] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        first, second = broadcast_all(concentration1, concentration0)
        self._dirichlet = Dirichlet(stack([first, second], -1), validate_args=validate_args)
        super().__init__(self._dirichlet.batch_shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new._dirichlet = self._dirichlet.expand(batch_shape)
        return new

    @property
    def concentration1(self) -> Tensor:
        """Concentration at 1."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """Concentration at 0."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.square() * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._dirichlet.log_prob(stack([value, 1 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        first, second = natural_params
        return first.lgamma() + second.lgamma() - (first + second).lgamma()


class StudentT(Distribution):
    """Student's t distribution.

    Parameters
    ----------
    df : Tensor or float
        Degrees of freedom. The mean is NaN up to 1, the variance infinite up to 2 and NaN up to 1.
    loc, scale : Tensor or float
        Location and scale.
    validate_args : bool, optional
        As of :class:`Distribution`.
    """

    arg_constraints: ClassVar[Any] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return where(self.df <= 1, math.nan, self.loc)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = self.scale.square() * self.df / (self.df - 2)
        return where(self.df > 2, finite, where(self.df > 1, full_like(finite, math.inf), math.nan))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        x = randn(tuple(shape), dtype=self.df.dtype, device=self.df.device)
        chi2 = 2 * standard_gamma((self.df / 2).expand(shape))
        return self.loc + self.scale * x * (chi2 / self.df).rsqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        y = (value - self.loc) / self.scale
        return -0.5 * (self.df + 1) * (y.square() / self.df).log1p() - self._log_scale()

    def _log_scale(self) -> Tensor:
        """Logarithm of the inverse of the largest density."""
        half = self.df / 2
        constant = 0.5 * self.df.log() + 0.5 * math.log(math.pi)
        return self.scale.log() + constant + half.lgamma() - (half + 0.5).lgamma()

    def entropy(self) -> Tensor:
        half = self.df / 2
        return (half + 0.5) * ((half + 0.5).digamma() - half.digamma()) + self._log_scale()


class FisherSnedecor(Distribution):
    """F distribution: of the quotient of two chi-squared variables, each divided by its degrees of freedom.

    Parameters
    ----------
    df1, df2 : Tensor or float
        Degrees of freedom of numerator and denominator.
    validate_args : bool, optional
        As of :class:`Distribution`.
    """

    arg_constraints: ClassVar[Any] = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(batch_shape_of(df1, df2, parameters=[self.df1]), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return where(self.df1 > 2, mode, math.nan)

    @property
    def variance(self) -> Tensor:
        df1, df2 = self.df1, self.df2
        variance = 2 * df2.square() * (df1 + df2 - 2) / (df1 * (df2 - 2).square() * (df2 - 4))
        return where(df2 > 4, variance, math.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        first, second = (standard_gamma((df / 2).expand(shape)) / df for df in (self.df1, self.df2))
        return (first / second).clamp(min=finfo(first.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        half1, half2, ratio = self.df1 / 2, self.df2 / 2, self.df1 / self.df2
        log_beta = half1.lgamma() + half2.lgamma() - (half1 + half2).lgamma()
        powers = half1 * ratio.log() + (half1 - 1) * value.log() - (half1 + half2) * (ratio * value).log1p()
        return powers - log_beta

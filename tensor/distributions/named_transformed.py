"""Distributions that are others transformed: logarithms of normal ones, halves, Gumbel's, Weibull's, Pareto's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

from tensor.core.dtypes.limits import finfo
from tensor.operations.creation.like import full_like, ones_like, zeros_like
from tensor.operations.pointwise.selection import where

from . import constraints, transforms
from .continuous import Cauchy, Exponential, Normal, Uniform
from .distribution import Distribution, broadcast_all
from .gammas import Gamma
from .transformed import TransformedDistribution

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor

_EULER = 0.57721566490153286060


class LogNormal(TransformedDistribution):
    """Log-normal distribution: the exponential of a normal variable.

    Parameters
    ----------
    loc, scale : Tensor or float
        Mean and standard deviation of the logarithm.
    validate_args : bool, optional
        As of :class:`Distribution`.
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    base_dist: Normal

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, transforms.ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """Mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        return self.scale.square().expm1() * (2 * self.loc + self.scale.square()).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class LogisticNormal(TransformedDistribution):
    """Probabilities whose stick-breaking coordinates are normal variables.

    Parameters
    ----------
    loc, scale : Tensor
        Means and standard deviations of the coordinates, of shape ``(..., K - 1)``.
    validate_args : bool, optional
        As of :class:`Distribution`.
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    base_dist: Any

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, transforms.StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """Means of the coordinates."""
        result: Tensor = self.base_dist.base_dist.loc
        return result

    @property
    def scale(self) -> Tensor:
        """Standard deviations of the coordinates."""
        result: Tensor = self.base_dist.base_dist.scale
        return result


class HalfNormal(TransformedDistribution):
    """Half-normal distribution: the absolute value of a normal variable of mean 0.

    Parameters
    ----------
    scale : Tensor or float
        Standard deviation of the normal variable.
    validate_args : bool, optional
        As of :class:`Distribution`.

    Raises
    ------
    ValueError
        If ``scale`` is not positive.
    """

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive}
    support = constraints.nonnegative
    base_dist: Normal

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(0, scale, validate_args=False)
        super().__init__(base, transforms.AbsTransform(), validate_args=False)
        _check_scale(self, scale, validate_args)

    @property
    def scale(self) -> Tensor:
        """Standard deviation of the normal variable."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfCauchy(TransformedDistribution):
    """Half-Cauchy distribution: the absolute value of a Cauchy variable of median 0.

    Parameters
    ----------
    scale : Tensor or float
        Half width at half maximum of the Cauchy variable.
    validate_args : bool, optional
        As of :class:`Distribution`.

    Raises
    ------
    ValueError
        If ``scale`` is not positive.
    """

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive}
    support = constraints.nonnegative
    base_dist: Cauchy

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Cauchy(0, scale, validate_args=False)
        super().__init__(base, transforms.AbsTransform(), validate_args=False)
        _check_scale(self, scale, validate_args)

    @property
    def scale(self) -> Tensor:
        """Half width at half maximum of the Cauchy variable."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return full_like(self.scale, math.inf)

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


def _check_scale(distribution: Any, scale: Any, validate_args: bool | None) -> None:
    """Raise ValueError unless the scale is positive; the base itself is asked at values below 0 and not checked."""
    checked = Distribution._validate_args if validate_args is None else validate_args
    distribution._validate_args = checked
    (values,) = broadcast_all(scale)
    if checked and not bool((values > 0).all()):
        raise ValueError(f"parameter scale of {type(distribution).__name__} must be positive; got:\n{values}")


class InverseGamma(TransformedDistribution):
    """Inverse gamma distribution: of the reciprocal of a gamma variable.

    Parameters
    ----------
    concentration, rate : Tensor or float
        Those of the gamma variable.
    validate_args : bool, optional
        As of :class:`Distribution`.
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    base_dist: Gamma

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        reciprocal = transforms.PowerTransform(-1.0)
        super().__init__(base, reciprocal, validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """Shape of the gamma variable."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """Inverse scale of the gamma variable."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        return where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class Gumbel(TransformedDistribution):
    """Gumbel distribution, of the largest of many variables.

    Parameters
    ----------
    loc, scale : Tensor or float
        Mode and scale.
    validate_args : bool, optional
        As of :class:`Distribution`.
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = finfo(self.loc.dtype)
        low, high = full_like(self.loc, limits.tiny), full_like(self.loc, 1 - limits.eps)
        parts = [
            transforms.ExpTransform().inv,
            transforms.AffineTransform(0, -ones_like(self.scale)),
            transforms.ExpTransform().inv,
            transforms.AffineTransform(self.loc, -self.scale),
        ]
        super().__init__(Uniform(low, high, validate_args=False), parts, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._blank(_instance)
        options = {"validate_args": self._validate_args}
        Gumbel.__init__(new, self.loc.expand(batch_shape), self.scale.expand(batch_shape), **options)
        return new

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (self.loc - value) / self.scale
        return z - z.exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        return (-((self.loc - value) / self.scale).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * (-value.log()).log()

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * _EULER

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + _EULER)


class Weibull(TransformedDistribution):
    """Weibull distribution: ``scale`` times a power of an exponential variable.

    Parameters
    ----------
    scale, concentration : Tensor or float
        Scale and shape.
    validate_args : bool, optional
        As of :class:`Distribution`.
    """

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        parts = [
            transforms.PowerTransform(self.concentration.reciprocal()),
            transforms.AffineTransform(0, self.scale),
        ]
        base = Exponential(ones_like(self.scale), validate_args=validate_args)
        super().__init__(base, parts, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._blank(_instance)
        options = {"validate_args": self._validate_args}
        Weibull.__init__(
            new, self.scale.expand(batch_shape), self.concentration.expand(batch_shape), **options
        )
        return new

    @property
    def mean(self) -> Tensor:
        return self.scale * (1 + 1 / self.concentration).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return self.scale * ((k - 1) / k).pow(1 / k)

    @property
    def variance(self) -> Tensor:
        first, second = ((1 + n / self.concentration).lgamma() for n in (1, 2))
        return self.scale.square() * (second.exp() - (2 * first).exp())

    def entropy(self) -> Tensor:
        k = self.concentration
        return _EULER * (1 - 1 / k) + (self.scale / k).log() + 1


class Pareto(TransformedDistribution):
    """Pareto distribution (type 1).

    Parameters
    ----------
    scale, alpha : Tensor or float
        Least value, and shape.
    validate_args : bool, optional
        As of :class:`Distribution`.
    """

    arg_constraints: ClassVar[Any] = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        parts = [transforms.ExpTransform(), transforms.AffineTransform(0, self.scale)]
        super().__init__(Exponential(self.alpha, validate_args=validate_args), parts, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._blank(_instance)
        options = {"validate_args": self._validate_args}
        Pareto.__init__(new, self.scale.expand(batch_shape), self.alpha.expand(batch_shape), **options)
        return new

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From the least value."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        return where(self.alpha > 1, self.alpha * self.scale / (self.alpha - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha
        finite = self.scale.square() * a / ((a - 1).square() * (a - 2))
        return where(a > 2, finite, math.inf)

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Kumaraswamy(TransformedDistribution):
    """Kumaraswamy distribution on [0, 1], like the beta distribution with a simple inverse.

    Parameters
    ----------
    concentration1, concentration0 : Tensor or float
        Concentrations at 1 and at 0.
    validate_args : bool, optional
        As of :class:`Distribution`.
    """

    arg_constraints: ClassVar[Any] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        parts = [
            transforms.PowerTransform(self.concentration0.reciprocal()),
            transforms.AffineTransform(1.0, -1.0),
            transforms.PowerTransform(self.concentration1.reciprocal()),
        ]
        unit = Uniform(zeros_like(self.concentration0), ones_like(self.concentration0), validate_args=False)
        super().__init__(unit, parts, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._blank(_instance)
        first, second = (each.expand(batch_shape) for each in (self.concentration1, self.concentration0))
        Kumaraswamy.__init__(new, first, second, validate_args=self._validate_args)
        return new

    def _moment(self, n: int) -> Tensor:
        b, order = self.concentration0, 1 + n / self.concentration1
        return (b.log() + order.lgamma() + b.lgamma() - (order + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        mode = ((a - 1) / (a * b - 1)).pow(1 / a)
        return where((a < 1) | (b < 1), math.nan, mode)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).square()

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + _EULER
        return (1 - 1 / b) + (1 - 1 / a) * harmonic - a.log() - b.log()

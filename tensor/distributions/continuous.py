"""Continuous distributions of numbers with a location and a scale, or on an interval."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from tensor.core.dtypes.limits import finfo
from tensor.core.modes.grad_mode import no_grad
from tensor.operations.creation.like import empty_like, full_like, zeros_like
from tensor.operations.pointwise.selection import where
from tensor.operations.random.creation import rand, randn
from tensor.operations.random.sampling import normal
from tensor.operations.special.bessel import i0e, i1e

from . import constraints
from .distribution import (
    Distribution,
    ExponentialFamily,
    batch_shape_of,
    broadcast_all,
    clamp_probs,
    logits_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.core.size import Size
    from tensor.methods.tensor import Tensor

_LOG_2PI = math.log(2 * math.pi)


def uniforms(shape: Size, like: Tensor) -> Tensor:
    """Uniform numbers in (0, 1): without 0, whose logarithm is infinite."""
    return rand(tuple(shape), dtype=like.dtype, device=like.device).clamp(min=finfo(like.dtype).tiny)


class Normal(ExponentialFamily):
    """Normal (Gaussian) distribution.

    >>> Normal(tensor.tensor([0.0]), tensor.tensor([1.0])).log_prob(tensor.tensor([0.0]))
    tensor([-0.9189])

    Parameters
    ----------
    loc, scale : Tensor or float
        Mean and standard deviation.
    validate_args : bool, optional
        Whether arguments are checked, as of all distributions: see :class:`Distribution`.
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        shape = batch_shape_of(loc, scale, parameters=[self.loc])
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.square()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        return self.loc + randn(shape, dtype=self.loc.dtype, device=self.loc.device) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -((value - self.loc) / self.scale).square() / 2 - self.scale.log() - _LOG_2PI / 2

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 0.5 * (1 + ((value - self.loc) / (self.scale * math.sqrt(2))).erf())

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + _LOG_2PI / 2 + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        precision = self.scale.square().reciprocal()
        return self.loc * precision, -precision / 2

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        first, second = natural_params
        return -first.square() / (4 * second) + 0.5 * (-math.pi / second).log()

    _mean_carrier_measure = 0


class Laplace(Distribution):
    """Laplace (double exponential) distribution.

    Parameters
    ----------
    loc, scale : Tensor or float
        Mean, and mean distance from it.
    validate_args : bool, optional
        As of :class:`Distribution`.
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        shape = batch_shape_of(loc, scale, parameters=[self.loc])
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        # Uniform in [-1, 1); log1p(-1) of its absolute value would be infinite.
        signed = 2 * uniforms(self._extended_shape(sample_shape), self.loc) - 1
        distance = -(-signed.abs().clamp(max=1 - finfo(self.loc.dtype).eps / 2)).log1p()
        return self.loc + self.scale * signed.sign() * distance

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -(value - self.loc).abs() / self.scale - (2 * self.scale).log()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = value - self.loc
        return 0.5 - 0.5 * distance.sign() * (-distance.abs() / self.scale).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(Distribution):
    """Cauchy (Lorentz) distribution, which has neither mean (NaN) nor variance (inf).

    Parameters
    ----------
    loc, scale : Tensor or float
        Median, and half width at half maximum.
    validate_args : bool, optional
        As of :class:`Distribution`.
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        shape = batch_shape_of(loc, scale, parameters=[self.loc])
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return full_like(self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.loc + empty_like(self.loc.expand(shape)).contiguous().cauchy_() * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - ((value - self.loc) / self.scale).square().log1p()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Uniform(Distribution):
    """Uniform distribution on ``[low, high)``.

    Parameters
    ----------
    low, high : Tensor or float
        The bounds.
    validate_args : bool, optional
        As of :class:`Distribution`.

    Raises
    ------
    ValueError
        If ``low`` is not less than ``high``.
    """

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        shape = batch_shape_of(low, high, parameters=[self.low])
        super().__init__(shape, validate_args=validate_args)
        if self._validate_args and not bool((self.low < self.high).all()):
            raise ValueError(f"low must be less than high, got:\n{self.low}\nand\n{self.high}")

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """Two real numbers."""
        return {"low": constraints.dependent, "high": constraints.dependent}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """The interval."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return full_like(self.high, math.nan)

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        return self.low + rand(shape, dtype=self.low.dtype, device=self.low.device) * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        inside = (self.low <= value) & (self.high > value)
        return inside.type_as(self.low).log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class Exponential(ExponentialFamily):
    """Exponential distribution.

    Parameters
    ----------
    rate : Tensor or float
        1 / mean.
    validate_args : bool, optional
        As of :class:`Distribution`.
    """

    arg_constraints: ClassVar[Any] = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(batch_shape_of(rate, parameters=[self.rate]), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return empty_like(self.rate.expand(shape)).contiguous().exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -(-self.rate * value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (-self.rate,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return -(-natural_params[0]).log()

    _mean_carrier_measure = 0


class GeneralizedPareto(Distribution):
    """Generalized Pareto distribution: of exceedances over a threshold.

    Parameters
    ----------
    loc, scale, concentration : Tensor or float
        Threshold, scale and shape (the tail's index); with shape 0 it is an exponential distribution.
    validate_args : bool, optional
        As of :class:`Distribution`.
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        shape = batch_shape_of(loc, scale, concentration, parameters=[self.loc])
        super().__init__(shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From the threshold; with negative shape up to ``loc - scale / concentration``."""
        upper = where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, upper)

    @property
    def _shape(self) -> tuple[Tensor, Tensor]:
        """Whether the shape is 0, and the shape, without 0."""
        is_zero = self.concentration.abs() <= finfo(self.concentration.dtype).tiny
        return is_zero, where(is_zero, 1.0, self.concentration)

    @property
    def mean(self) -> Tensor:
        defined = self.loc + self.scale / (1 - self.concentration)
        return where(self.concentration < 1, defined, math.inf)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        shape = self.concentration
        defined = self.scale.square() / ((1 - shape).square() * (1 - 2 * shape))
        return where(shape < 0.5, defined, math.inf)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(uniforms(self._extended_shape(sample_shape), self.loc))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        is_zero, shape = self._shape
        z = (value - self.loc) / self.scale
        return -self.scale.log() - where(is_zero, z, (1 + 1 / shape) * (shape * z).log1p())

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Logarithm of the probability of more than ``value``.

        Raises
        ------
        ValueError
            If arguments are validated and ``value`` is outside the support.
        """
        if self._validate_args:
            self._validate_sample(value)
        return self._log_survival(value)

    def log_cdf(self, value: Tensor) -> Tensor:
        """Logarithm of the probability of ``value`` or less.

        Raises
        ------
        ValueError
            If arguments are validated and ``value`` is outside the support.
        """
        return (-self.log_survival_function(value).exp()).log1p()

    def _log_survival(self, value: Tensor) -> Tensor:
        is_zero, shape = self._shape
        z = (value - self.loc) / self.scale
        return -where(is_zero, z, (shape * z).log1p() / shape)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -self._log_survival(value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        is_zero, shape = self._shape
        log_survival = (-value).log1p()
        z = where(is_zero, -log_survival, (-shape * log_survival).expm1() / shape)
        return self.loc + self.scale * z

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1


class VonMises(Distribution):
    """Von Mises distribution of angles in radians: the normal distribution of the circle.

    Samples are drawn by rejection from a wrapped Cauchy distribution (Best and Fisher, 1979).

    Parameters
    ----------
    loc, concentration : Tensor or float
        Mean angle, and how closely the angles lie about it.
    validate_args : bool, optional
        As of :class:`Distribution`.
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        shape = batch_shape_of(loc, concentration, parameters=[self.loc])
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean angle."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance: 1 less the length of the mean direction."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        # The scaled function keeps the difference of two large numbers out of it.
        over = self.concentration * ((value - self.loc).cos() - 1)
        return over - _LOG_2PI - i0e(self.concentration).log()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            # The envelope's parameter cancels in single precision.
            k = self.concentration.double().expand(shape)
            tau = 1 + (1 + 4 * k.square()).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            # Its limit for small concentrations.
            r = where(k < 1e-5, 1 / k + k, (1 + rho.square()) / (2 * rho))
            result, waiting = zeros_like(k), full_like(k, 1).bool()
            while bool(waiting.any()):
                z = (math.pi * uniforms(shape, k)).cos()
                cosine = (1 + r * z) / (r + z)
                c, second = k * (r - cosine), uniforms(shape, k)
                accepted = (c * (2 - c) > second) | ((c / second).log() + 1 - c >= 0)
                sign = (uniforms(shape, k) - 0.5).sign()
                result = where(waiting & accepted, sign * cosine.clamp(-1, 1).acos(), result)
                waiting = waiting & ~accepted
            angle = (result + math.pi + self.loc) % (2 * math.pi) - math.pi
            return angle.to(self.loc.dtype)


class ContinuousBernoulli(ExponentialFamily):
    """Continuous Bernoulli distribution on [0, 1], with density ``C probs**x (1 - probs)**(1 - x)``.

    Loaiza-Ganem and Cunningham, "The continuous Bernoulli" (2019).

    Parameters
    ----------
    probs, logits : Tensor or float
        The parameter, or its log odds; one of the two.
    lims : tuple of float
        Between these probabilities, near 1/2, formulas are replaced by their Taylor series.
    validate_args : bool, optional
        As of :class:`Distribution`.

    Raises
    ------
    ValueError
        If both or neither of ``probs`` and ``logits`` are given.
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("pass either probs or logits, and not both")
        argument = logits if probs is None else probs
        if probs is None:
            (self.logits,) = broadcast_all(logits)
        else:
            (self.probs,) = broadcast_all(probs)
        self._lims = lims
        parameter = self.logits if probs is None else self.probs
        super().__init__(batch_shape_of(argument, parameters=[parameter]), validate_args=validate_args)
        if probs is not None:
            self.probs = clamp_probs(self.probs)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new._lims = self._lims
        return new

    @cached_property
    def logits(self) -> Tensor:
        """The log odds."""
        return logits_of(self.probs, is_binary=True)

    @cached_property
    def probs(self) -> Tensor:
        """The parameter in [0, 1]."""
        return clamp_probs(self.logits.sigmoid())

    @property
    def param_shape(self) -> Size:
        """Shape of the parameter."""
        return (self.probs if "probs" in vars(self) else self.logits).shape

    def _outside(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Tensor:
        """The parameter, or what is next to 1/2 where it is about that."""
        return where(self._outside(), self.probs, self._lims[0])

    def _log_constant(self) -> Tensor:
        """Logarithm of ``C``, which is ``2 artanh(1 - 2 probs) / (1 - 2 probs)``."""
        cut = self._cut_probs()
        exact = ((-cut).log1p() - cut.log()).abs().log() - (1 - 2 * cut).abs().log()
        x = (self.probs - 0.5).square()
        return where(self._outside(), exact, math.log(2.0) + (4 / 3 + 104 / 45 * x) * x)

    @property
    def mean(self) -> Tensor:
        cut = self._cut_probs()
        exact = cut / (2 * cut - 1) + 1 / ((-cut).log1p() - cut.log())
        x = self.probs - 0.5
        return where(self._outside(), exact, 0.5 + (1 / 3 + 16 / 45 * x.square()) * x)

    @property
    def variance(self) -> Tensor:
        cut = self._cut_probs()
        exact = cut * (cut - 1) / (1 - 2 * cut).square() + 1 / ((-cut).log1p() - cut.log()).square()
        x = (self.probs - 0.5).square()
        return where(self._outside(), exact, 1 / 12 - (1 / 15 - 128 / 945 * x) * x)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(uniforms(self._extended_shape(sample_shape), self.probs))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return value * self.logits + (-self.probs).log1p() + self._log_constant()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        cut = self._cut_probs()
        exact = (cut.pow(value) * (1 - cut).pow(1 - value) + cut - 1) / (2 * cut - 1)
        inside = where(self._outside(), exact, value)
        return where(value <= 0, 0.0, where(value >= 1, 1.0, inside))

    def icdf(self, value: Tensor) -> Tensor:
        cut = self._cut_probs()
        exact = ((-cut + value * (2 * cut - 1)).log1p() - (-cut).log1p()) / (cut.log() - (-cut).log1p())
        return where(self._outside(), exact, value)

    def entropy(self) -> Tensor:
        return self.mean * -self.logits - (-self.probs).log1p() - self._log_constant()

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (x,) = natural_params
        outside = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = where(outside, x, self._lims[0] - 0.5)
        exact = cut.expm1().abs().log() - cut.abs().log()
        return where(outside, exact, 0.5 * x + x.square() / 24 - x.pow(4) / 2880)

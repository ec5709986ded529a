"""Discrete distributions: of truth values, categories and counts."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from tensor.core.dtypes.limits import finfo
from tensor.core.modes.grad_mode import no_grad
from tensor.operations.creation.grids import eye
from tensor.operations.creation.like import full_like, zeros_like
from tensor.operations.creation.ranges import arange
from tensor.operations.indexing.embedding import one_hot
from tensor.operations.pointwise.activations import softplus
from tensor.operations.pointwise.selection import where
from tensor.operations.random import counts
from tensor.operations.random.sampling import bernoulli
from tensor.operations.shapes.broadcasting import broadcast_tensors
from tensor.operations.special.logistic import xlogy

from . import constraints
from .continuous import uniforms
from .distribution import (
    Distribution,
    ExponentialFamily,
    batch_shape_of,
    broadcast_all,
    logits_of,
)
from .gammas import Gamma

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.core.size import Size
    from tensor.methods.tensor import Tensor


def _one_of(probs: Any, logits: Any) -> None:
    """Raise ValueError unless exactly one is given."""
    if (probs is None) == (logits is None):
        raise ValueError("pass either probs or logits, and not both")


class _Binary(Distribution):
    """Parameters of distributions that count successes: ``probs``, or their log odds ``logits``."""

    def _take(self, probs: Any, logits: Any, *others: Any) -> list[Tensor]:
        """Set the parameter that was given, broadcast with the others, which are returned.

        Raises
        ------
        ValueError
            If both or neither are given.
        """
        _one_of(probs, logits)
        parameter, *rest = broadcast_all(logits if probs is None else probs, *others)
        setattr(self, "logits" if probs is None else "probs", parameter)
        return [parameter, *rest]

    @cached_property
    def logits(self) -> Tensor:
        """Log odds of success."""
        return logits_of(self.probs, is_binary=True)

    @cached_property
    def probs(self) -> Tensor:
        """Probability of success."""
        return self.logits.sigmoid()

    @property
    def _parameter(self) -> Tensor:
        return self.probs if "probs" in vars(self) else self.logits

    @property
    def param_shape(self) -> Size:
        """Shape of the parameter that was given."""
        return self._parameter.shape


class Bernoulli(_Binary, ExponentialFamily):
    """Bernoulli distribution: 1 with probability ``probs``, otherwise 0.

    Parameters
    ----------
    probs, logits : Tensor or float
        Probability of 1, or its log odds; one of the two.
    validate_args : bool, optional
        As of :class:`Distribution`.

    Raises
    ------
    ValueError
        If both or neither of ``probs`` and ``logits`` are given.
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        (parameter,) = self._take(probs, logits)
        shape = batch_shape_of(logits if probs is None else probs, parameters=[parameter])
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        mode = (self.probs >= 0.5).to(self.probs.dtype)
        return where(self.probs == 0.5, math.nan, mode)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_tensors(self.logits, value)
        return value * logits - softplus(logits)

    def entropy(self) -> Tensor:
        return softplus(self.logits) - self.probs * self.logits

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(arange(2, dtype=self._parameter.dtype, device=self._parameter.device), expand)

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return softplus(natural_params[0])


class Geometric(_Binary):
    """Geometric distribution: the number of failures before the first success.

    Parameters
    ----------
    probs, logits : Tensor or float
        Probability of success, or its log odds; one of the two.
    validate_args : bool, optional
        As of :class:`Distribution`.

    Raises
    ------
    ValueError
        If both or neither of ``probs`` and ``logits`` are given, or a probability is 0.
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        (parameter,) = self._take(probs, logits)
        shape = batch_shape_of(logits if probs is None else probs, parameters=[parameter])
        super().__init__(shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not bool((self.probs > 0).all()):
            raise ValueError(f"probabilities of Geometric must be greater than 0, got:\n{self.probs}")

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            u = uniforms(self._extended_shape(sample_shape), self.probs)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_tensors(value, self.probs)
        # 0 times the infinite logarithm of no failure is 0.
        is_certain = (probs == 1) & (value == 0)
        return value * (-where(is_certain, 0.0, probs)).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return (softplus(self.logits) - self.probs * self.logits) / self.probs


class Binomial(_Binary):
    """Binomial distribution: successes in ``total_count`` trials.

    Parameters
    ----------
    total_count : Tensor or int
        Number of trials.
    probs, logits : Tensor or float
        Probability of success, or its log odds; one of the two.
    validate_args : bool, optional
        As of :class:`Distribution`.

    Raises
    ------
    ValueError
        If both or neither of ``probs`` and ``logits`` are given.
    """

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        parameter, count = self._take(probs, logits, total_count)
        self.total_count = count.type_as(parameter)
        super().__init__(parameter.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """Integers up to the number of trials."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return counts.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return ways + value * self.logits - n * softplus(self.logits)

    def entropy(self) -> Tensor:
        values = self.enumerate_support(expand=False)
        logs = self.log_prob(values)
        return -(logs.exp() * logs).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        total = int(self.total_count.max())
        if not bool((self.total_count == total).all()):
            raise NotImplementedError("enumerate_support() needs the same total_count in the whole batch")
        return self._enumerated(
            arange(1 + total, dtype=self._parameter.dtype, device=self._parameter.device), expand
        )


class NegativeBinomial(_Binary):
    """Negative binomial distribution: successes before ``total_count`` failures.

    Parameters
    ----------
    total_count : Tensor or float
        Number of failures; it need not be an integer.
    probs, logits : Tensor or float
        Probability of success, or its log odds; one of the two.
    validate_args : bool, optional
        As of :class:`Distribution`.

    Raises
    ------
    ValueError
        If both or neither of ``probs`` and ``logits`` are given.
    """

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        parameter, count = self._take(probs, logits, total_count)
        self.total_count = count.type_as(parameter)
        super().__init__(parameter.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        # A Poisson distribution whose rate has a gamma distribution.
        with no_grad():
            rates = Gamma(self.total_count, (-self.logits).exp(), validate_args=False)
            return counts.poisson(rates.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        unnormalized = -n * softplus(self.logits) - value * softplus(-self.logits)
        ways = (n + value).lgamma() - (value + 1).lgamma() - n.lgamma()
        # No failure is waited for: 0 is certain.
        return unnormalized + where(n + value == 0, 0.0, ways)


class Poisson(ExponentialFamily):
    """Poisson distribution.

    Parameters
    ----------
    rate : Tensor or float
        Mean number of events.
    validate_args : bool, optional
        As of :class:`Distribution`.
    """

    arg_constraints: ClassVar[Any] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(batch_shape_of(rate, parameters=[self.rate]), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return counts.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return xlogy(value, rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.rate.log(),)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return natural_params[0].exp()


class Categorical(Distribution):
    """Categorical distribution: an index, int64, with the probabilities of the last dimension.

    Parameters
    ----------
    probs, logits : Tensor
        Probabilities of shape ``(..., K)``, which are divided by their sum, or their logarithms up to a constant;
        one of the two.
    validate_args : bool, optional
        As of :class:`Distribution`.

    Raises
    ------
    ValueError
        If both or neither of ``probs`` and ``logits`` are given, or a tensor has no dimension.
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        _one_of(probs, logits)
        parameter = logits if probs is None else probs
        if parameter.dim() < 1:
            name = "logits" if probs is None else "probs"
            raise ValueError(f"{name} must have at least one dimension, got a tensor of shape ()")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(-1, keepdim=True)
        self._num_events = parameter.shape[-1]
        super().__init__(parameter.shape[:-1], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new._num_events = self._num_events
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The indices."""
        return constraints.integer_interval(0, self._num_events - 1)

    @cached_property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return logits_of(self.probs)

    @cached_property
    def probs(self) -> Tensor:
        """Probabilities, whose sum is 1."""
        return self.logits.softmax(-1)

    @property
    def _parameter(self) -> Tensor:
        return self.probs if "probs" in vars(self) else self.logits

    @property
    def param_shape(self) -> Size:
        """Shape of the parameter that was given."""
        return self._parameter.shape

    @property
    def mean(self) -> Tensor:
        """NaN: categories have no mean."""
        return full_like(self.probs[..., 0], math.nan)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        """NaN: categories have no variance."""
        return full_like(self.probs[..., 0], math.nan)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            count = math.prod(sample_shape)
            rows = self.probs.detach().reshape(-1, self._num_events)
            if not rows.shape[0] or not count:
                return rows.new_empty(tuple(shape)).long()
            return rows.multinomial(count, True).T.reshape(tuple(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, logits = broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        # Infinite logarithms of impossible categories would give NaN.
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(arange(self._num_events, device=self._parameter.device), expand)


class OneHotCategorical(Distribution):
    """Categorical distribution whose samples are one-hot vectors.

    Parameters
    ----------
    probs, logits : Tensor
        As of :class:`Categorical`.
    validate_args : bool, optional
        As of :class:`Distribution`.

    Raises
    ------
    ValueError
        As of :class:`Categorical`.
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        super().__init__(
            self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args
        )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new._categorical = self._categorical.expand(batch_shape)
        return new

    @property
    def probs(self) -> Tensor:
        """Probabilities, whose sum is 1."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """Shape of the parameter that was given."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return one_hot(self.probs.argmax(-1), self._event_shape[0]).to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return one_hot(self._categorical.sample(sample_shape), self._event_shape[0]).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = self._event_shape[0]
        values = eye(count, dtype=self.probs.dtype, device=self.probs.device)
        values = values.view((count, *(1,) * len(self._batch_shape), count))
        return values.expand((count, *self._batch_shape, count)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot samples whose derivatives are those of the probabilities (straight-through estimator).

    Parameters and errors are those of :class:`OneHotCategorical`. Bengio, Leonard and Courville (2013).
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(Distribution):
    """Multinomial distribution: how often each category occurs in ``total_count`` draws.

    Parameters
    ----------
    total_count : int
        Number of draws.
    probs, logits : Tensor
        As of :class:`Categorical`.
    validate_args : bool, optional
        As of :class:`Distribution`.

    Raises
    ------
    NotImplementedError
        If ``total_count`` is not an int.
    ValueError
        As of :class:`Categorical`.
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        argument: Any = total_count
        if not isinstance(argument, int):
            raise NotImplementedError(f"total_count must be one int for the whole batch, got {total_count!r}")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits, validate_args)
        super().__init__(
            self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args
        )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new.total_count = self.total_count
        new._categorical = self._categorical.expand(batch_shape)
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Counts whose sum is the number of draws."""
        return constraints.multinomial(self.total_count)

    @property
    def probs(self) -> Tensor:
        """Probabilities, whose sum is 1."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """Shape of the parameter that was given."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            drawn = self._categorical.sample((self.total_count, *sample_shape))
            return one_hot(drawn, self._event_shape[0]).sum(0).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        # An impossible category that does not occur contributes nothing.
        logits = where((value == 0) & (logits == -math.inf), 0.0, logits)
        return (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1) + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        n, probs = self.total_count, self.probs
        of_one = self._categorical.entropy()
        # Of each category's count, which is binomial, the mean of log(count!).
        drawn = Binomial(n, probs, validate_args=False)
        values = drawn.enumerate_support(expand=False)[1:]
        weights = drawn.log_prob(values).exp()
        return n * of_one - math.lgamma(n + 1) + (weights * (values + 1).lgamma()).sum((0, -1))

"""Relaxations of discrete distributions, whose samples have derivatives (the concrete distribution)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

from tensor.core.base import TensorBase
from tensor.operations.creation.like import zeros_like
from tensor.operations.special.logistic import logaddexp

from . import constraints, transforms
from .continuous import uniforms
from .discrete import Categorical, _Binary
from .distribution import Distribution, clamp_probs, logits_of
from .transformed import TransformedDistribution

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.core.size import Size
    from tensor.methods.tensor import Tensor


class LogitRelaxedBernoulli(_Binary):
    """Log odds of a :class:`RelaxedBernoulli` variable: a logistic variable, scaled.

    Maddison, Mnih and Teh, "The Concrete Distribution" (2017).

    Parameters
    ----------
    temperature : Tensor
        Near 0 samples are near 0 or 1 in probability.
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
    support = constraints.real
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        (parameter,) = self._take(probs, logits)
        super().__init__(parameter.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new.temperature = self.temperature
        return new

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        noise = clamp_probs(uniforms(shape, probs))
        result: Tensor = (
            noise.log() - (-noise).log1p() + logits_of(probs, is_binary=True)
        ) / self.temperature
        return result

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        difference = self.logits - value * self.temperature
        log_temperature = (
            self.temperature.log() if isinstance(self.temperature, TensorBase) else math.log(self.temperature)
        )
        result: Tensor = log_temperature + difference - 2 * logaddexp(difference, zeros_like(difference))
        return result


class RelaxedBernoulli(TransformedDistribution):
    """Concrete distribution of two categories: a Bernoulli variable with derivatives, in (0, 1).

    Parameters
    ----------
    temperature : Tensor
        Near 0 samples are near 0 or 1.
    probs, logits : Tensor or float
        Probability of 1, or its log odds; one of the two.
    validate_args : bool, optional
        As of :class:`Distribution`.
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    base_dist: LogitRelaxedBernoulli

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, transforms.SigmoidTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def probs(self) -> Tensor:
        """Probability of 1."""
        return self.base_dist.probs

    @property
    def logits(self) -> Tensor:
        """Log odds of 1."""
        return self.base_dist.logits


class ExpRelaxedCategorical(Distribution):
    """Logarithm of a :class:`RelaxedOneHotCategorical` variable.

    Parameters
    ----------
    temperature : Tensor
        The temperature.
    probs, logits : Tensor
        As of :class:`Categorical`.
    validate_args : bool, optional
        As of :class:`Distribution`.
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new.temperature = self.temperature
        new._categorical = self._categorical.expand(batch_shape)
        return new

    @property
    def param_shape(self) -> Size:
        """Shape of the parameter that was given."""
        return self._categorical.param_shape

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self._categorical.probs

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = clamp_probs(uniforms(self._extended_shape(sample_shape), self.logits))
        scores = (self.logits - (-noise.log()).log()) / self.temperature
        result: Tensor = scores - scores.logsumexp(-1, keepdim=True)
        return result

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        count, t = self._event_shape[0], self.temperature
        log_t = t.log() if isinstance(t, TensorBase) else math.log(t)
        scores = self.logits - value * t
        scores = (scores - scores.logsumexp(-1, keepdim=True)).sum(-1)
        result: Tensor = scores + (math.lgamma(count) + (count - 1) * log_t)
        return result


class RelaxedOneHotCategorical(TransformedDistribution):
    """Concrete (Gumbel-softmax) distribution: one-hot vectors with derivatives, in the simplex.

    Jang, Gu and Poole (2017); Maddison, Mnih and Teh (2017).

    Parameters
    ----------
    temperature : Tensor
        Near 0 samples are near one-hot vectors.
    probs, logits : Tensor
        As of :class:`Categorical`.
    validate_args : bool, optional
        As of :class:`Distribution`.
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    base_dist: ExpRelaxedCategorical

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, transforms.ExpTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self.base_dist.probs

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self.base_dist.logits

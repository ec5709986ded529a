"""Mixtures of distributions of one family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tensor.core.modes.grad_mode import no_grad

from . import constraints
from .discrete import Categorical
from .distribution import Distribution

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor


class MixtureSameFamily(Distribution):
    """A mixture of the distributions in the last batch dimension of another.

    Parameters
    ----------
    mixture_distribution : Categorical
        Weights of the components, of their batch shape without the last dimension.
    component_distribution : Distribution
        Components in the last batch dimension.
    validate_args : bool, optional
        As of :class:`Distribution`.

    Raises
    ------
    ValueError
        If the arguments are no such distributions, or their shapes do not fit.
    """

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(f"mixture_distribution must be a Categorical, got {mixture_distribution!r}")
        if not isinstance(component_distribution, Distribution):
            raise ValueError(f"component_distribution must be a Distribution, got {component_distribution!r}")
        weights, batch = mixture_distribution.batch_shape, component_distribution.batch_shape
        count = mixture_distribution.param_shape[-1]
        sizes = zip(reversed(weights), reversed(batch[:-1]), strict=False)
        if not batch or any(1 != first != second != 1 for first, second in sizes) or batch[-1] != count:
            raise ValueError(
                f"weights of shape {tuple(mixture_distribution.param_shape)} do not fit components of batch_shape "
                f"{tuple(batch)}"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        super().__init__(batch[:-1], component_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        count = self._mixture_distribution.param_shape[-1]
        new._component_distribution = self._component_distribution.expand((*batch_shape, count))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        return new

    @constraints.dependent_property
    def support(self) -> Any:
        """That of the components."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """Weights of the components."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    def _weights(self) -> Tensor:
        probs = self._mixture_distribution.probs
        return probs.reshape((*probs.shape, *(1,) * len(self._event_shape)))

    def _mixed(self, values: Tensor) -> Tensor:
        return (self._weights() * values).sum(-1 - len(self._event_shape))

    @property
    def mean(self) -> Tensor:
        return self._mixed(self._component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        components = self._component_distribution
        between = components.mean - self.mean.unsqueeze(-1 - len(self._event_shape))
        return self._mixed(components.variance) + self._mixed(between.square())

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            events = len(self._event_shape)
            # The weights may have fewer batch dimensions than the components.
            index = self._mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            values = self._component_distribution.sample(sample_shape)
            dim = values.dim() - events - 1
            index = index.reshape((*index.shape, *(1,) * (events + 1)))
            shape = (*values.shape[:dim], 1, *self._event_shape)
            return values.gather(dim, index.expand(shape)).squeeze(dim)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        of_components = self._component_distribution.log_prob(value.unsqueeze(-1 - len(self._event_shape)))
        return (of_components + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def cdf(self, value: Tensor) -> Tensor:
        of_components = self._component_distribution.cdf(value.unsqueeze(-1))
        return (of_components * self._mixture_distribution.probs).sum(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"

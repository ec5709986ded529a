"""Distributions made of others: transformed, and with more event dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tensor.core.base import TensorBase
from tensor.core.modes.grad_mode import no_grad

from . import constraints, transforms
from .distribution import Distribution, sum_rightmost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor


class Independent(Distribution):
    """A distribution of which trailing batch dimensions count as dimensions of the event.

    >>> normal = tensor.distributions.Normal(tensor.zeros(3), tensor.ones(3))
    >>> Independent(normal, 1).event_shape
    tensor.Size([3])

    Parameters
    ----------
    base_distribution : Distribution
        The distribution.
    reinterpreted_batch_ndims : int
        How many dimensions.
    validate_args : bool, optional
        As of :class:`Distribution`.

    Raises
    ------
    ValueError
        If the batch has fewer dimensions.
    """

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                f"reinterpreted_batch_ndims must be at most {len(batch)}, the dimensions of the batch, got "
                f"{reinterpreted_batch_ndims}"
            )
        shape = batch + base_distribution.event_shape
        events = reinterpreted_batch_ndims + len(base_distribution.event_shape)
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(
            shape[: len(shape) - events], shape[len(shape) - events :], validate_args=validate_args
        )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        more = self.event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand((*batch_shape, *more))
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        return new

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """As of the base."""
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """False with reinterpreted dimensions: there would be exponentially many events."""
        return self.base_dist.has_enumerate_support and self.reinterpreted_batch_ndims == 0

    @constraints.dependent_property
    def support(self) -> Any:
        """That of the base, with more event dimensions."""
        base = self.base_dist.support
        more = self.reinterpreted_batch_ndims
        return constraints.independent(base, more) if more else base

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        result: Tensor = sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)
        return result

    def entropy(self) -> Tensor:
        result: Tensor = sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)
        return result

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("the support of a product of distributions is not enumerated")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """The distribution of what transforms make of samples of another one.

    Parameters
    ----------
    base_distribution : Distribution
        Of what is transformed.
    transforms : Transform or list of Transform
        Applied in this order.
    validate_args : bool, optional
        As of :class:`Distribution`.

    Raises
    ------
    ValueError
        If ``transforms`` are none, or the base has fewer dimensions than they need.
    """

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None
    ) -> None:
        self.transforms = _listed(transforms)
        composed = _composed(self.transforms)
        shape = base_distribution.batch_shape + base_distribution.event_shape
        if len(shape) < composed.domain.event_dim:
            raise ValueError(
                f"the base distribution must have at least {composed.domain.event_dim} dimensions, got shape {shape}"
            )
        forward = composed.forward_shape(shape)
        base = base_distribution.expand(
            composed.inverse_shape(forward)[
                : len(composed.inverse_shape(forward)) - len(base_distribution.event_shape)
            ]
        )
        more = composed.domain.event_dim - len(base.event_shape)
        self.base_dist = Independent(base, more) if more > 0 else base
        change = composed.codomain.event_dim - composed.domain.event_dim
        events = max(composed.codomain.event_dim, len(base.event_shape) + change)
        cut = len(forward) - events
        super().__init__(forward[:cut], forward[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new.transforms = self.transforms
        composed = _composed(self.transforms)
        shape = composed.inverse_shape((*batch_shape, *self.event_shape))
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        return new

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """As of the base."""
        return self.base_dist.has_rsample

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """The codomain of the last transform."""
        if not self.transforms:
            return self.base_dist.support
        codomain = self.transforms[-1].codomain
        more = len(self.event_shape) - codomain.event_dim
        return constraints.independent(codomain, more) if more > 0 else codomain

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return _composed(self.transforms)(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return _composed(self.transforms)(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        events, total, y = len(self.event_shape), 0, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            events += transform.domain.event_dim - transform.codomain.event_dim
            change = transform.log_abs_det_jacobian(x, y)
            total = total - sum_rightmost(change, events - transform.domain.event_dim)
            y = x
        result: Tensor = total + sum_rightmost(
            self.base_dist.log_prob(y), events - len(self.base_dist.event_shape)
        )
        return result

    def _monotone(self, value: Tensor) -> Tensor:
        """A probability of at most, turned around where the transforms decrease."""
        sign: Any = _composed(self.transforms).sign
        if not isinstance(sign, TensorBase) and sign == 1:
            return value
        result: Tensor = sign * (value - 0.5) + 0.5
        return result

    def cdf(self, value: Tensor) -> Tensor:
        y = _composed(self.transforms).inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(y)
        return self._monotone(self.base_dist.cdf(y))

    def icdf(self, value: Tensor) -> Tensor:
        return _composed(self.transforms)(self.base_dist.icdf(self._monotone(value)))


def _listed(argument: Any) -> list[transforms.Transform]:
    """One transform or several as a list.

    Raises
    ------
    ValueError
        If they are none.
    """
    listed = [argument] if isinstance(argument, transforms.Transform) else argument
    if not isinstance(listed, list) or not all(isinstance(each, transforms.Transform) for each in listed):
        raise ValueError(f"expected a Transform or a list of them, got {argument!r}")
    return listed


def _composed(parts: list[transforms.Transform]) -> transforms.ComposeTransform:
    return transforms.ComposeTransform(parts)

"""Transforms of elements, each by itself."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tensor.core.base import TensorBase
from tensor.core.dtypes.limits import finfo
from tensor.distributions import constraints
from tensor.distributions.distribution import Distribution, sum_rightmost
from tensor.operations.creation.like import ones_like
from tensor.operations.pointwise.activations import softplus
from tensor.operations.shapes.broadcasting import broadcast_shapes

from .transform import Transform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor


class _Elementwise(Transform):
    """A bijection of numbers without parameters: equal to others of its class."""

    bijective = True
    domain: Any = constraints.real
    sign: Any = 1

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = object.__hash__


class ExpTransform(_Elementwise):
    """``y = exp(x)``; the parameter is that of :class:`Transform`.

    It works on each element: shape and floating dtype stay. ``codomain`` is the set that ``y`` lies in.
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class SigmoidTransform(_Elementwise):
    """``y = 1 / (1 + exp(-x))``; ``x`` is the log odds of ``y``. The parameter is that of :class:`Transform`.

    It works on each element: shape and floating dtype stay. ``codomain`` is the set that ``y`` lies in.
    """

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return x.sigmoid().clamp(finfo(x.dtype).tiny, 1 - finfo(x.dtype).eps)

    def _inverse(self, y: Tensor) -> Tensor:
        y = y.clamp(finfo(y.dtype).tiny, 1 - finfo(y.dtype).eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(_Elementwise):
    """``y = log(1 + exp(x))``; the parameter is that of :class:`Transform`.

    It works on each element: shape and floating dtype stay. ``codomain`` is the set that ``y`` lies in.
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class TanhTransform(_Elementwise):
    """``y = tanh(x)``. Near -1 and 1 the inverse loses digits: a cache avoids it. Parameter as of :class:`Transform`.

    It works on each element: shape and floating dtype stay.
    """

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # log(1 - tanh(x)**2) without the difference of nearly equal numbers.
        return 2 * (math.log(2.0) - x - softplus(-2 * x))


class AbsTransform(Transform):
    """``y = |x|``, which is no bijection: the inverse is ``y``. The parameter is that of :class:`Transform`.

    It works on each element: shape and floating dtype stay. ``codomain`` is the set that ``y`` lies in.
    """

    domain = constraints.real
    codomain = constraints.positive

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class PowerTransform(Transform):
    """``y = x**exponent`` of positive numbers.

    Parameters
    ----------
    exponent : Tensor or float
        The exponent.
    cache_size : int
        As of :class:`Transform`.

    Raises
    ------
    ValueError
        As of :class:`Transform`.
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.exponent = exponent

    @property
    def sign(self) -> Any:
        return _sign(self.exponent)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and _equal(self.exponent, other.exponent)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        result: Tensor = (self.exponent * y / x).abs().log()
        return result

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return broadcast_shapes(tuple(shape), tuple(getattr(self.exponent, "shape", ())))

    inverse_shape = forward_shape


def _sign(value: Any) -> Any:
    if isinstance(value, TensorBase):
        return value.sign()
    return (value > 0) - (value < 0)


def _equal(first: Any, second: Any) -> bool:
    result = first == second
    return bool(result.all()) if isinstance(result, TensorBase) else bool(result)


class AffineTransform(Transform):
    """``y = loc + scale * x``.

    Parameters
    ----------
    loc, scale : Tensor or float
        Offset and factor.
    event_dim : int
        Number of trailing dimensions of one event: 0 for numbers, 1 for vectors.
    cache_size : int
        As of :class:`Transform`.

    Raises
    ------
    ValueError
        As of :class:`Transform`.
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @property
    def domain(self) -> Any:
        """Real numbers, or tensors of them."""
        return (
            constraints.independent(constraints.real, self._event_dim)
            if self._event_dim
            else constraints.real
        )

    @property
    def codomain(self) -> Any:
        """Real numbers, or tensors of them."""
        return self.domain

    @property
    def sign(self) -> Any:
        return _sign(self.scale)

    def with_cache(self, cache_size: int = 1) -> Transform:
        same = self._cache_size == cache_size
        return self if same else AffineTransform(self.loc, self.scale, self._event_dim, cache_size)

    def __eq__(self, other: object) -> bool:
        is_affine = isinstance(other, AffineTransform)
        return is_affine and _equal(self.loc, other.loc) and _equal(self.scale, other.scale)  # type: ignore[attr-defined]

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        result: Tensor = self.loc + self.scale * x
        return result

    def _inverse(self, y: Tensor) -> Tensor:
        result: Tensor = (y - self.loc) / self.scale
        return result

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, TensorBase):
            logs: Tensor = self.scale.abs().log()
        else:
            logs = ones_like(x) * math.log(abs(self.scale))
        event = tuple(x.shape[x.dim() - self._event_dim :])
        if self._event_dim:
            # One factor may stand for all elements of an event.
            logs = logs.expand(broadcast_shapes(tuple(logs.shape), event))
            logs = sum_rightmost(logs, self._event_dim)
        return logs.expand(tuple(x.shape[: x.dim() - self._event_dim]))

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        others = (tuple(getattr(each, "shape", ())) for each in (self.loc, self.scale))
        return broadcast_shapes(tuple(shape), *others)

    inverse_shape = forward_shape


class CumulativeDistributionTransform(Transform):
    """``y = distribution.cdf(x)``, whose inverse are the quantiles.

    Parameters
    ----------
    distribution : Distribution
        Of numbers.
    cache_size : int
        As of :class:`Transform`.

    Raises
    ------
    ValueError
        As of :class:`Transform`.
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        """The support."""
        return self.distribution.support

    def with_cache(self, cache_size: int = 1) -> Transform:
        same = self._cache_size == cache_size
        return self if same else CumulativeDistributionTransform(self.distribution, cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)

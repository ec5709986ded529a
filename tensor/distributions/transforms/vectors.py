"""Transforms onto simplices, and others side by side along a dimension."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any

from tensor.core.dtypes.limits import finfo
from tensor.core.size import Size
from tensor.distributions import constraints
from tensor.distributions.distribution import sum_rightmost
from tensor.operations.creation.like import zeros_like
from tensor.operations.creation.ranges import arange
from tensor.operations.pointwise.activations import softplus
from tensor.operations.shapes.joining import cat as concatenate
from tensor.operations.shapes.joining import stack as stacked

from .transform import Transform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor


class SoftmaxTransform(Transform):
    """Softmax over the last dimension, no bijection: the inverse is the logarithm. Parameter as of :class:`Transform`.

    Shapes (..., n) stay. ``y`` is positive and sums to 1; adding a number to all of ``x`` does not change it.
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class StickBreakingTransform(Transform):
    """Bijection of ``K - 1`` real numbers and ``K`` probabilities: each breaks off a part of what is left of a stick.

    The parameter is that of :class:`Transform`.
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    __hash__ = object.__hash__

    def _log_fractions(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of the fractions that are broken off, and of what is left in front of each."""
        k = x.shape[-1]
        # Offsets make equal probabilities of zeros.
        shifted = x - (k - arange(k, dtype=x.dtype, device=x.device)).log()
        left = (-softplus(shifted)).cumsum(-1)
        return -softplus(-shifted), left

    def _call(self, x: Tensor) -> Tensor:
        fractions, left = self._log_fractions(x)
        first = zeros_like(x[..., :1])
        before = concatenate([first, left], -1)
        return (concatenate([fractions, first], -1) + before).exp()

    def _inverse(self, y: Tensor) -> Tensor:
        head = y[..., :-1]
        k = head.shape[-1]
        left = (1 - head.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return head.log() - left.log() + (k - arange(k, dtype=y.dtype, device=y.device)).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # Each derivative is the part broken off times the fraction that stays.
        k = x.shape[-1]
        shifted = x - (k - arange(k, dtype=x.dtype, device=x.device)).log()
        return (y[..., :-1].log() - softplus(shifted)).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return Size((*shape[:-1], shape[-1] - 1))


class CatTransform(Transform):
    """Transforms of slices of a tensor along a dimension.

    Parameters
    ----------
    tseq : sequence of Transform
        One for each slice.
    dim : int
        The dimension.
    lengths : sequence of int, optional
        Sizes of the slices, 1 each without it.
    cache_size : int
        As of :class:`Transform`.

    Raises
    ------
    ValueError
        If there are not as many lengths as transforms.
    """

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.transforms = [each.with_cache(cache_size) for each in tseq] if cache_size else list(tseq)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ValueError(
                f"expected a length for each of {len(self.transforms)} transforms, got {len(self.lengths)}"
            )
        self.dim = dim

    @property
    def length(self) -> int:
        """The size of the dimension."""
        return sum(self.lengths)

    @property
    def event_dim(self) -> int:
        """The most of them."""
        return max(each.event_dim for each in self.transforms)

    @property
    def domain(self) -> Any:
        """Their domains."""
        return constraints.cat([each.domain for each in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Any:
        """Their codomains."""
        return constraints.cat([each.codomain for each in self.transforms], self.dim, self.lengths)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all are."""
        return all(each.bijective for each in self.transforms)

    def with_cache(self, cache_size: int = 1) -> Transform:
        same = self._cache_size == cache_size
        return self if same else CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _slices(self, value: Tensor) -> Sequence[Tensor]:
        return value.split(self.lengths, self.dim)

    def _call(self, x: Tensor) -> Tensor:
        parts = zip(self.transforms, self._slices(x), strict=True)
        return concatenate([each(part) for each, part in parts], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._slices(y), strict=True)
        return concatenate([each.inv(part) for each, part in parts], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        dim = self.dim if self.dim < 0 else self.dim - x.dim()
        parts = zip(self.transforms, self._slices(x), self._slices(y), strict=True)
        terms = [
            sum_rightmost(each.log_abs_det_jacobian(first, second), self.event_dim - each.event_dim)
            for each, first, second in parts
        ]
        dim += self.event_dim
        if dim < 0:
            return concatenate(terms, dim)
        result: Tensor = functools.reduce(operator.add, terms)
        return result


class StackTransform(Transform):
    """Transforms of the elements of a dimension.

    Parameters
    ----------
    tseq : sequence of Transform
        One for each element.
    dim : int
        The dimension.
    cache_size : int
        As of :class:`Transform`.

    Raises
    ------
    ValueError
        As of :class:`Transform`.
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.transforms = [each.with_cache(cache_size) for each in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def domain(self) -> Any:
        """Their domains."""
        return constraints.stack([each.domain for each in self.transforms], self.dim)

    @property
    def codomain(self) -> Any:
        """Their codomains."""
        return constraints.stack([each.codomain for each in self.transforms], self.dim)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all are."""
        return all(each.bijective for each in self.transforms)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return (
            self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)
        )

    def _call(self, x: Tensor) -> Tensor:
        parts = zip(self.transforms, x.unbind(self.dim), strict=True)
        return stacked([each(part) for each, part in parts], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = zip(self.transforms, y.unbind(self.dim), strict=True)
        return stacked([each.inv(part) for each, part in parts], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        parts = zip(self.transforms, x.unbind(self.dim), y.unbind(self.dim), strict=True)
        return stacked([each.log_abs_det_jacobian(first, second) for each, first, second in parts], self.dim)

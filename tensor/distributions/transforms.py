"""Transforms: differentiable maps with the logarithm of how they change volumes."""

from __future__ import annotations

import functools
import math
import operator
import weakref
from typing import TYPE_CHECKING, Any

from tensor.core.base import TensorBase
from tensor.core.dtypes.limits import finfo
from tensor.core.names.absent import lazily as _lazily
from tensor.core.size import Size
from tensor.operations.creation.like import ones_like, zeros_like
from tensor.operations.creation.ranges import arange
from tensor.operations.pointwise.activations import softplus
from tensor.operations.shapes.broadcasting import broadcast_shapes
from tensor.operations.shapes.joining import cat as concatenate
from tensor.operations.shapes.joining import stack as stacked

from . import constraints
from .distribution import Distribution, sum_rightmost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]


class Transform:
    """A map ``y = t(x)``, whose inverse is ``t.inv``, with ``t.log_abs_det_jacobian(x, y)``.

    Subclasses define ``_call``, ``_inverse`` and ``log_abs_det_jacobian``, and the constraints ``domain`` and
    ``codomain``.

    Parameters
    ----------
    cache_size : int
        1 keeps the last pair of ``x`` and ``y``, so that the inverse of what was just computed is exact and free;
        0 keeps nothing.

    Attributes
    ----------
    bijective : bool
        Whether the inverse is one on both sides.
    sign : int or Tensor
        1 where the map increases, -1 where it decreases.

    Raises
    ------
    ValueError
        If ``cache_size`` is neither 0 nor 1.
    """

    bijective: bool = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"cache_size must be 0 or 1, got {cache_size}")
        self._cache_size = cache_size
        self._inv: Any = None
        self._pair: tuple[Any, Any] = (None, None)

    @property
    def event_dim(self) -> int:
        """Number of trailing dimensions that are mapped together.

        Raises
        ------
        ValueError
            If they differ between domain and codomain.
        """
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("event_dim of domain and codomain differ: ask these for it")
        return int(self.domain.event_dim)

    @property
    def inv(self) -> Transform:
        """The inverse map."""
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = weakref.ref(inverse)
        result: Transform = inverse
        return result

    @property
    def sign(self) -> Any:
        """1 where the map increases, -1 where it decreases; raises NotImplementedError where that is undefined."""
        raise NotImplementedError(f"{type(self).__name__} has no sign")

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same transform with another cache.

        Parameters
        ----------
        cache_size : int
            0 or 1.

        Raises
        ------
        NotImplementedError
            If the subclass has a constructor of its own and does not define it.
        """
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self).__name__} does not define with_cache()")

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __call__(self, x: Tensor) -> Tensor:
        """``y`` of ``x``."""
        if self._cache_size == 0:
            return self._call(x)
        if x is self._pair[0]:
            known: Tensor = self._pair[1]
            return known
        y = self._call(x)
        self._pair = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._inverse(y)
        if y is self._pair[1]:
            known: Tensor = self._pair[0]
            return known
        x = self._inverse(y)
        self._pair = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} cannot be called")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Logarithm of the absolute determinant of the derivative, without the dimensions of an event.

        Parameters
        ----------
        x, y : Tensor
            A value and what it is mapped to.

        Raises
        ------
        NotImplementedError
            If the transform does not change volumes in a defined way.
        """
        raise NotImplementedError(f"{type(self).__name__} has no Jacobian determinant")

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape of ``y`` for an ``x`` of ``shape``; raises ValueError if that does not fit."""
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape of ``x`` for a ``y`` of ``shape``; raises ValueError if that does not fit."""
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _InverseTransform(Transform):
    """The inverse of another transform, which it keeps alive."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._transform = transform

    @property
    def domain(self) -> Any:
        return self._transform.codomain

    @property
    def codomain(self) -> Any:
        return self._transform.domain

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self._transform.bijective

    @property
    def sign(self) -> Any:
        return self._transform.sign

    @property
    def inv(self) -> Transform:
        return self._transform

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._transform.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._transform == other._transform

    __hash__ = object.__hash__

    def __call__(self, x: Tensor) -> Tensor:
        return self._transform._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._transform.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._transform.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._transform.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{self._transform!r}.inv"


class ComposeTransform(Transform):
    """Several transforms, one after the other: ``x`` goes through all of them.

    Parameters
    ----------
    parts : sequence of Transform
        The first of them is applied first.
    cache_size : int
        As of :class:`Transform`; the parts get the same.

    Raises
    ------
    ValueError
        As of :class:`Transform`.
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        self.parts = [each.with_cache(cache_size) for each in parts] if cache_size else list(parts)
        super().__init__(cache_size=cache_size)

    def _event_dims(self) -> tuple[int, int]:
        """Dimensions of the events of the whole map, at its start and at its end."""
        start = end = 0
        for part in self.parts:
            more = max(part.domain.event_dim - end, 0)
            start, end = start + more, end + more
            end += part.codomain.event_dim - part.domain.event_dim
        return start, end

    @property
    def domain(self) -> Any:
        """That of the first, with as many event dimensions as the parts need."""
        if not self.parts:
            return constraints.real
        domain = self.parts[0].domain
        more = self._event_dims()[0] - domain.event_dim
        return constraints.independent(domain, more) if more > 0 else domain

    @property
    def codomain(self) -> Any:
        """That of the last, with as many event dimensions as the parts need."""
        if not self.parts:
            return constraints.real
        codomain = self.parts[-1].codomain
        more = self._event_dims()[1] - codomain.event_dim
        return constraints.independent(codomain, more) if more > 0 else codomain

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all parts are."""
        return all(each.bijective for each in self.parts)

    @property
    def sign(self) -> Any:
        return functools.reduce(operator.mul, (each.sign for each in self.parts), 1)

    @property
    def inv(self) -> Transform:
        inverse: Any = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = ComposeTransform([each.inv for each in reversed(self.parts)])
            self._inv, inverse._inv = weakref.ref(inverse), weakref.ref(self)
        result: Transform = inverse
        return result

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return zeros_like(x)
        between = [x]
        for part in self.parts[:-1]:
            between.append(part(between[-1]))
        between.append(y)
        event = self.domain.event_dim
        total: Any = 0
        for part, before, after in zip(self.parts, between[:-1], between[1:], strict=True):
            term = part.log_abs_det_jacobian(before, after)
            total = total + sum_rightmost(term, event - part.domain.event_dim)
            event += part.codomain.event_dim - part.domain.event_dim
        result: Tensor = total
        return result

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return functools.reduce(lambda known, part: part.forward_shape(known), self.parts, shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return functools.reduce(lambda known, part: part.inverse_shape(known), reversed(self.parts), shape)

    def __repr__(self) -> str:
        parts = ",\n    ".join(repr(each) for each in self.parts)
        return f"ComposeTransform(\n    {parts}\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform of which trailing batch dimensions count as dimensions of the event.

    Parameters
    ----------
    base_transform : Transform
        The transform.
    reinterpreted_batch_ndims : int
        How many dimensions.
    cache_size : int
        As of :class:`Transform`.

    Raises
    ------
    ValueError
        As of :class:`Transform`.
    """

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    @property
    def domain(self) -> Any:
        """That of the base, with more event dimensions."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Any:
        """That of the base, with more event dimensions."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """As of the base."""
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        if x.dim() < self.domain.event_dim:
            raise ValueError(f"expected at least {self.domain.event_dim} dimensions, got {x.dim()}")
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        if y.dim() < self.codomain.event_dim:
            raise ValueError(f"expected at least {self.codomain.event_dim} dimensions, got {y.dim()}")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        result: Tensor = sum_rightmost(
            self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims
        )
        return result

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """Reshape of the trailing dimensions; volumes stay.

    Parameters
    ----------
    in_shape, out_shape : sequence of int
        Shapes of an event before and after, with as many elements.
    cache_size : int
        As of :class:`Transform`.

    Raises
    ------
    ValueError
        If the numbers of elements differ.
    """

    bijective = True

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError(f"in_shape {self.in_shape} and out_shape {self.out_shape} differ in elements")
        super().__init__(cache_size=cache_size)

    @property
    def domain(self) -> Any:
        """Real tensors."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Any:
        """Real tensors."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Transform:
        same = self._cache_size == cache_size
        return self if same else ReshapeTransform(self.in_shape, self.out_shape, cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape((*x.shape[: x.dim() - len(self.in_shape)], *self.out_shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape((*y.shape[: y.dim() - len(self.out_shape)], *self.in_shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(tuple(x.shape[: x.dim() - len(self.in_shape)]))

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return _replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return _replaced(shape, self.out_shape, self.in_shape)


def _replaced(shape: Sequence[int], end: Sequence[int], by: Sequence[int]) -> Sequence[int]:
    kept = len(shape) - len(end)
    if kept < 0 or tuple(shape[kept:]) != tuple(end):
        raise ValueError(f"a shape that ends with {tuple(end)} was expected, got {tuple(shape)}")
    return Size((*shape[:kept], *by))


class _Elementwise(Transform):
    """A bijection of numbers without parameters: equal to others of its class."""

    bijective = True
    domain: Any = constraints.real
    sign: Any = 1

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = object.__hash__


class ExpTransform(_Elementwise):
    """``y = exp(x)``; the parameter is that of :class:`Transform`."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class SigmoidTransform(_Elementwise):
    """``y = 1 / (1 + exp(-x))``; ``x`` is the log odds of ``y``. The parameter is that of :class:`Transform`."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return x.sigmoid().clamp(finfo(x.dtype).tiny, 1 - finfo(x.dtype).eps)

    def _inverse(self, y: Tensor) -> Tensor:
        y = y.clamp(finfo(y.dtype).tiny, 1 - finfo(y.dtype).eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(_Elementwise):
    """``y = log(1 + exp(x))``; the parameter is that of :class:`Transform`."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class TanhTransform(_Elementwise):
    """``y = tanh(x)``. Near -1 and 1 the inverse loses digits: a cache avoids it. Parameter as of :class:`Transform`."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # log(1 - tanh(x)**2) without the difference of nearly equal numbers.
        return 2 * (math.log(2.0) - x - softplus(-2 * x))


class AbsTransform(Transform):
    """``y = |x|``, which is no bijection: the inverse is ``y``. The parameter is that of :class:`Transform`."""

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


class SoftmaxTransform(Transform):
    """Softmax over the last dimension, no bijection: the inverse is the logarithm. Parameter as of :class:`Transform`."""

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


# PyTorch has them here; they stand in a file of their own, which needs this one.
_LAZY = {
    name: f"tensor.distributions.constraint_registry:{name}"
    for name in ("CorrCholeskyTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform")
}

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker

    def __getattr__(name: str) -> Any:
        return _lazily(__name__, name, _LAZY)

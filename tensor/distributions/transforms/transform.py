"""Transforms: differentiable maps with the logarithm of how they change volumes."""

from __future__ import annotations

import functools
import operator
import weakref
from typing import TYPE_CHECKING, Any

from tensor.core.size import Size
from tensor.distributions import constraints
from tensor.distributions.distribution import sum_rightmost
from tensor.operations.creation.like import zeros_like

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor


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
        """The shape of ``y`` for an ``x`` of ``shape``.

        Raises
        ------
        ValueError
            If ``shape`` does not fit the transform; of one that has parameters, RuntimeError if they do not broadcast with it.
        """
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape of ``x`` for a ``y`` of ``shape``.

        Raises
        ------
        ValueError
            If ``shape`` does not fit the transform; of one that has parameters, RuntimeError if they do not broadcast with it.
        """
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
    leading = len(shape) - len(end)
    if leading < 0 or tuple(shape[leading:]) != tuple(end):
        raise ValueError(f"a shape that ends with {tuple(end)} was expected, got {tuple(shape)}")
    return Size((*shape[:leading], *by))

"""Constraints: sets of values, of parameters of distributions and of their samples.

``constraint.check(value)`` says for each event whether it lies in the set; a constraint's ``event_dim`` is the number of
trailing dimensions that make one event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import bool_
from tensor.core.names.absent import hints as _hints
from tensor.linalg.factorizations.cholesky import cholesky_ex
from tensor.linalg.factorizations.eigenvalues import eigvalsh
from tensor.operations.creation.factories import ones
from tensor.operations.shapes.joining import cat as concatenate
from tensor.operations.shapes.joining import stack as stacked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.methods.tensor import Tensor

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A set of values.

    Attributes
    ----------
    is_discrete : bool
        Whether values are isolated points, such as integers.
    event_dim : int
        Number of trailing dimensions of one event.
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Tensor) -> Tensor:
        """Boolean tensor of shape ``value.shape[: value.dim() - event_dim]``: whether each event lies in the set.

        Parameters
        ----------
        value : Tensor
            Events, of any batch shape.

        Raises
        ------
        NotImplementedError
            If the constraint does not define it.
        ValueError
            If ``value`` has fewer dimensions than an event, or the constraint depends on parameters.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define check()")

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value}" for name, value in vars(self).items() if name[0] != "_")
        return f"{type(self).__name__.lstrip('_')}({shown})"


class _Dependent(Constraint):
    """A set that depends on other parameters; nothing can be checked against it before these are known.

    Called with ``is_discrete`` or ``event_dim`` it returns one of which that is known.
    """

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    @property
    def is_discrete(self) -> bool:
        """Whether values are isolated points; raises NotImplementedError if that depends on parameters."""
        if self._is_discrete is NotImplemented:
            raise NotImplementedError("is_discrete cannot be determined before the parameters are known")
        return bool(self._is_discrete)

    @property
    def event_dim(self) -> int:
        """Dimensions of an event; raises NotImplementedError if they depend on parameters."""
        if self._event_dim is NotImplemented:
            raise NotImplementedError("event_dim cannot be determined before the parameters are known")
        return int(self._event_dim)

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        """Refuse ``value``, which cannot be checked before the parameters are known.

        Raises
        ------
        ValueError
            Always.
        """
        raise ValueError("a constraint that depends on parameters cannot be checked before they are known")


class dependent_property(property, _Dependent):  # noqa: N801 - PyTorch's name
    """A property that is a constraint which depends on the object's parameters; on the class it is ``dependent``.

    Parameters
    ----------
    fn : callable, optional
        Returns the constraint of an object; without it this is a decorator with options.
    is_discrete : bool, optional
        What is known of it before there is an object.
    event_dim : int, optional
        What is known of it before there is an object.
    """

    def __init__(
        self,
        fn: Callable[[Any], Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn: Callable[[Any], Any]) -> dependent_property:  # type: ignore[override]
        return dependent_property(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint: Any) -> bool:
    """Whether ``constraint`` depends on parameters, so that it cannot be checked alone.

    ``constraint`` may be any object; of one that is no constraint the answer is False.
    """
    return isinstance(constraint, _Dependent)


class _Independent(Constraint):
    """``base_constraint``, of which ``reinterpreted_batch_ndims`` trailing dimensions count as dimensions of the event.

    ``check(value)`` returns a bool for each event: whether all elements of these dimensions fulfil the base.
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:
        """As of the base."""
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:
        """That of the base, and the reinterpreted dimensions."""
        return int(self.base_constraint.event_dim) + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        if value.dim() < self.event_dim:
            raise ValueError(f"expected a value of at least {self.event_dim} dimensions, got {value.dim()}")
        result = self.base_constraint.check(value)
        batch = result.shape[: result.dim() - self.reinterpreted_batch_ndims]
        return result.reshape((*batch, -1)).all(-1)


class MixtureSameFamilyConstraint(Constraint):
    """The support of a mixture, whose events have no dimension of components.

    Parameters
    ----------
    base_constraint : Constraint
        The support of the components.
    """

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:
        """As of the components."""
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:
        """As of the components."""
        return int(self.base_constraint.event_dim)

    def check(self, value: Tensor) -> Tensor:
        """Whether each event lies in the support of all components.

        Parameters
        ----------
        value : Tensor
            Events without the dimension of components.

        Raises
        ------
        ValueError
            If ``value`` has fewer dimensions than an event.
        """
        event = self.event_dim
        if value.dim() < event:
            raise ValueError(f"expected a value of at least {event} dimensions, got {value.dim()}")
        result = self.base_constraint.check(value.unsqueeze(-1 - event))
        return result.reshape((*value.shape[: value.dim() - event], -1)).all(-1)


class _Boolean(Constraint):
    """0 or 1."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    """Vectors with a 1 and otherwise 0."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & value.sum(-1).eq(1)


class _IntegerInterval(Constraint):
    """Integers from ``lower_bound`` up to ``upper_bound``, both included.

    ``check(value)`` returns a bool for each element: whether it is a whole number between the bounds.
    ``value`` may have a floating dtype.
    """

    is_discrete = True

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        result: Tensor = (value % 1 == 0) & (value >= self.lower_bound) & (value <= self.upper_bound)
        return result


class _IntegerGreaterThan(Constraint):
    """Integers from ``lower_bound``."""

    is_discrete = True

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        result: Tensor = (value % 1 == 0) & (value >= self.lower_bound)
        return result


class _Real(Constraint):
    """Numbers, infinite ones too: all but NaN."""

    def check(self, value: Tensor) -> Tensor:
        # False for NaN alone.
        return value == value


class _GreaterThan(Constraint):
    """Numbers greater than ``lower_bound``.

    ``check(value)`` returns a bool for each element: ``value > lower_bound``.
    """

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        result: Tensor = value > self.lower_bound
        return result


class _GreaterThanEq(Constraint):
    """Numbers from ``lower_bound``.

    ``check(value)`` returns a bool for each element: ``value >= lower_bound``.
    """

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        result: Tensor = value >= self.lower_bound
        return result


class _LessThan(Constraint):
    """Numbers less than ``upper_bound``.

    ``check(value)`` returns a bool for each element: ``value < upper_bound``.
    """

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        result: Tensor = value < self.upper_bound
        return result


class _Interval(Constraint):
    """Numbers from ``lower_bound`` up to ``upper_bound``, both included.

    ``check(value)`` returns a bool for each element: ``lower_bound <= value <= upper_bound``.
    """

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        result: Tensor = (value >= self.lower_bound) & (value <= self.upper_bound)
        return result


class _HalfOpenInterval(_Interval):
    """Numbers from ``lower_bound`` up to ``upper_bound``, which is not included.

    ``check(value)`` returns a bool for each element: ``lower_bound <= value < upper_bound``.
    """

    def check(self, value: Tensor) -> Tensor:
        result: Tensor = (value >= self.lower_bound) & (value < self.upper_bound)
        return result


class _Simplex(Constraint):
    """Vectors of probabilities whose sum is 1."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Vectors of counts whose sum is at most ``upper_bound``.

    ``check(value)`` returns a bool for each vector of the last dimension: whether none is negative and the sum is not greater.
    """

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        result: Tensor = (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)
        return result


class _LowerTriangular(Constraint):
    """Lower triangular square matrices."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(Constraint):
    """Lower triangular matrices with positive diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1) & (value.diagonal(0, -2, -1) > 0).all(-1)


class _CorrCholesky(Constraint):
    """Cholesky factors of correlation matrices: their rows have unit length."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        from_one = ((value * value).sum(-1) - 1).abs()
        # The sum of a row rounds once per element.
        limit = (1.2e-7 if value.element_size() <= 4 else 2.3e-16) * value.shape[-1] * 10
        return (from_one < limit).all(-1) & lower_cholesky.check(value)


class _Square(Constraint):
    """Square matrices."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        is_square = value.shape[-2] == value.shape[-1]
        result = ones(tuple(value.shape[:-2]), dtype=bool_, device=value.device)
        return result if is_square else ~result


class _Symmetric(_Square):
    """Symmetric matrices."""

    def check(self, value: Tensor) -> Tensor:
        squares = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return squares
        difference = (value - value.mT).abs()
        return (difference <= 1e-6 + 1e-6 * value.mT.abs()).flatten(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not bool(symmetric.all()):
            return symmetric
        return eigvalsh(value).ge(0).all(-1)


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices that have a Cholesky factor."""

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not bool(symmetric.all()):
            return symmetric
        return cholesky_ex(value).info.eq(0)


class _Cat(Constraint):
    """Constraints ``cseq`` of slices of the values along ``dim``, of ``lengths`` elements, 1 each without them.

    It raises ValueError if there are not as many lengths as constraints.
    """

    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        self.cseq = list(cseq)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise ValueError(
                f"expected a length for each of {len(self.cseq)} constraints, got {len(self.lengths)}"
            )
        self.dim = dim

    @property
    def is_discrete(self) -> bool:
        """Whether one of them is."""
        return any(each.is_discrete for each in self.cseq)

    @property
    def event_dim(self) -> int:
        """The most of them."""
        return max(int(each.event_dim) for each in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        checks, start = [], 0
        for constraint, length in zip(self.cseq, self.lengths, strict=True):
            checks.append(constraint.check(value.narrow(self.dim, start, length)))
            start += length
        return concatenate(checks, self.dim)


class _Stack(Constraint):
    """Constraints ``cseq`` of the elements of dimension ``dim``.

    ``check(value)`` takes a value with ``len(cseq)`` slices along ``dim``, each of which is checked by its constraint.
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq = list(cseq)
        self.dim = dim

    @property
    def is_discrete(self) -> bool:
        """Whether one of them is."""
        return any(each.is_discrete for each in self.cseq)

    @property
    def event_dim(self) -> int:
        """One more than the most of them where the dimension lies inside their events."""
        dim = max(int(each.event_dim) for each in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Tensor) -> Tensor:
        slices = value.unbind(self.dim)
        return stacked([each.check(part) for part, each in zip(slices, self.cseq, strict=True)], self.dim)


dependent = _Dependent()
independent = _Independent
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)

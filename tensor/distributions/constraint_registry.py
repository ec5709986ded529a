"""``biject_to`` and ``transform_to``: transforms from real numbers to a constraint; and those to matrices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tensor.core.dtypes.limits import finfo
from tensor.core.size import Size
from tensor.operations.creation.factories import ones
from tensor.operations.creation.grids import eye, tril_indices
from tensor.operations.pointwise.activations import softplus
from tensor.operations.shapes.joining import cat as concatenate

from . import constraints, transforms
from .transforms import Transform

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.methods.tensor import Tensor

__all__ = [
    "ConstraintRegistry",
    "CorrCholeskyTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "biject_to",
    "transform_to",
]


class LowerCholeskyTransform(Transform):
    """Square matrices to lower triangular ones with positive diagonal. The parameter is that of :class:`Transform`.

    Shapes are (..., n, n) and stay. Elements above the diagonal are ignored, and those on it are the
    logarithms of the result's.
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerCholeskyTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(0, -2, -1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(0, -2, -1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Square matrices to positive definite ones, by their Cholesky factors. Parameter as of :class:`Transform`.

    Shapes are (..., n, n) and stay: ``y = L @ L.mT`` with ``L`` of :class:`LowerCholeskyTransform`.
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositiveDefiniteTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(y.cholesky())


class CorrCholeskyTransform(Transform):
    """``D (D - 1) / 2`` real numbers to the Cholesky factor of a correlation matrix of ``D`` rows.

    Each row is a unit vector with positive last element: tanh of each number is its element, relative to what the
    elements before leave of the unit length. The parameter is that of :class:`Transform`.
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    @staticmethod
    def _rows(count: int) -> int:
        """D for ``D (D - 1) / 2`` numbers.

        Raises
        ------
        ValueError
            If there is none.
        """
        rows = (1 + math.isqrt(1 + 8 * count)) // 2
        if rows * (rows - 1) // 2 != count:
            raise ValueError(f"the last dimension must be D (D - 1) / 2 for an integer D, got {count}")
        result: int = rows
        return result

    def _call(self, x: Tensor) -> Tensor:
        eps = finfo(x.dtype).eps
        partial = x.tanh().clamp(-1 + eps, 1 - eps)
        rows = self._rows(x.shape[-1])
        row, column = tril_indices(rows, rows, -1, device=x.device)
        square = x.new_zeros((*x.shape[:-1], rows, rows))
        square[..., row, column] = partial
        left = (1 - square.square()).sqrt().cumprod(-1)
        first = ones((*left.shape[:-1], 1), dtype=x.dtype, device=x.device)
        return (square + eye(rows, dtype=x.dtype, device=x.device)) * concatenate([first, left[..., :-1]], -1)

    def _inverse(self, y: Tensor) -> Tensor:
        rows = y.shape[-1]
        row, column = tril_indices(rows, rows, -1, device=y.device)
        partial = (y / self._left(y)).tril(-1)[..., row, column]
        return partial.atanh()

    def _left(self, y: Tensor) -> Tensor:
        """What the elements in front of each leave of the unit length of its row."""
        before = (y.square().cumsum(-1) - y.square()).tril(-1)
        return (1 - before).clamp(min=finfo(y.dtype).tiny).sqrt()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        rows = y.shape[-1]
        row, column = tril_indices(rows, rows, -1, device=y.device)
        lengths = self._left(y)[..., row, column].log().sum(-1)
        tanh = (2 * (math.log(2.0) - x - softplus(-2 * x))).sum(-1)
        result: Tensor = lengths + tanh
        return result

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        rows = self._rows(shape[-1])
        return Size((*shape[:-1], rows, rows))

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        rows, columns = shape[-2:]
        if rows != columns:
            raise ValueError(f"expected square matrices, got shape {tuple(shape)}")
        return Size((*shape[:-2], rows * (rows - 1) // 2))


class ConstraintRegistry:
    """A function of a ``constraint`` that returns a transform with this codomain; :meth:`register` adds to it.

    It raises NotImplementedError where none is registered for the class of the constraint.
    """

    def __init__(self) -> None:
        self._factories: dict[type, Callable[[Any], Transform]] = {}

    def register(self, constraint: Any, factory: Any = None) -> Any:
        """Let ``factory(constraint)`` make the transform of all constraints of a class; also a decorator.

        Parameters
        ----------
        constraint : type or Constraint
            The class of constraints, or one of them.
        factory : callable, optional
            Takes the constraint and returns a :class:`Transform`; without it, a decorator is returned.

        Raises
        ------
        TypeError
            If ``constraint`` is no constraint.
        """
        if factory is None:
            return lambda function: self.register(constraint, function)
        cls = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not (isinstance(cls, type) and issubclass(cls, constraints.Constraint)):
            raise TypeError(f"expected a constraint or a class of constraints, got {constraint!r}")
        self._factories[cls] = factory
        return factory

    def __call__(self, constraint: Any) -> Transform:
        """The transform to a constraint.

        Raises
        ------
        NotImplementedError
            If none is registered.
        """
        factory = self._factories.get(type(constraint))
        if factory is None:
            raise NotImplementedError(
                f"no transform to {type(constraint).__name__} constraints is registered"
            )
        return factory(constraint)


#: Bijections: with ``log_abs_det_jacobian``, for Hamiltonian Monte Carlo for example.
biject_to = ConstraintRegistry()
#: Maps onto the constraint, for optimization without one; simple and stable rather than invertible.
transform_to = ConstraintRegistry()


def _to_interval(constraint: Any) -> Transform:
    lower, upper = constraint.lower_bound, constraint.upper_bound
    is_unit = isinstance(lower, (int, float)) and isinstance(upper, (int, float)) and (lower, upper) == (0, 1)
    sigmoid = transforms.SigmoidTransform()
    if is_unit:
        return sigmoid
    return transforms.ComposeTransform([sigmoid, transforms.AffineTransform(lower, upper - lower)])


def _from_bound(constraint: Any) -> Transform:
    is_less = hasattr(constraint, "upper_bound")
    bound = constraint.upper_bound if is_less else constraint.lower_bound
    affine = transforms.AffineTransform(bound, -1 if is_less else 1)
    return transforms.ComposeTransform([transforms.ExpTransform(), affine])


def _to_positive(constraint: Any) -> Transform:
    return transforms.ExpTransform()


def _register() -> None:
    for registry in (biject_to, transform_to):
        registry.register(constraints.real, lambda constraint: transforms.identity_transform)
        # All bounds of a class share a factory; 0 needs no shift.
        for each in (constraints.greater_than, constraints.greater_than_eq):
            registry.register(
                each,
                lambda constraint: (
                    _to_positive(constraint)
                    if isinstance(constraint.lower_bound, (int, float)) and constraint.lower_bound == 0
                    else _from_bound(constraint)
                ),
            )
        registry.register(constraints.less_than, _from_bound)
        registry.register(constraints.interval, _to_interval)
        registry.register(constraints.half_open_interval, _to_interval)
        registry.register(
            constraints.independent,
            lambda constraint, registry=registry: transforms.IndependentTransform(
                registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims
            ),
        )
        registry.register(constraints.corr_cholesky, lambda constraint: CorrCholeskyTransform())
        registry.register(
            constraints.cat,
            lambda constraint, registry=registry: transforms.CatTransform(
                [registry(each) for each in constraint.cseq], constraint.dim, constraint.lengths
            ),
        )
        registry.register(
            constraints.stack,
            lambda constraint, registry=registry: transforms.StackTransform(
                [registry(each) for each in constraint.cseq], constraint.dim
            ),
        )
    for registry in (transform_to, biject_to):
        registry.register(constraints.lower_cholesky, lambda constraint: LowerCholeskyTransform())
        for matrices in (constraints.positive_definite, constraints.positive_semidefinite):
            registry.register(matrices, lambda constraint: PositiveDefiniteTransform())
    biject_to.register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform())
    transform_to.register(constraints.simplex, lambda constraint: transforms.SoftmaxTransform())


_register()

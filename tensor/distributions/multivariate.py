"""Distributions of vectors with covariances, and of matrices."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from tensor.core.modes.grad_mode import no_grad
from tensor.linalg.factorizations.cholesky import cholesky
from tensor.linalg.systems.triangular import solve_triangular
from tensor.operations.creation.grids import eye
from tensor.operations.creation.ranges import arange
from tensor.operations.random.creation import randn
from tensor.operations.shapes.broadcasting import broadcast_shapes
from tensor.operations.special.gamma import mvlgamma

from . import constraints
from .distribution import Distribution
from .gammas import Beta, standard_gamma

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.core.size import Size
    from tensor.methods.tensor import Tensor


def _inverse_factor(factor: Tensor) -> Tensor:
    """Inverse of a lower triangular matrix."""
    identity = eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    return solve_triangular(factor, identity, upper=False)


def factor_of_inverse(matrix: Tensor) -> Tensor:
    """Lower Cholesky factor of the inverse of a positive definite matrix, without that inverse."""
    # The Cholesky factor of the matrix with rows and columns reversed is an upper one, reversed.
    reversed_factor = cholesky(matrix.flip((-2, -1)))
    return _inverse_factor(reversed_factor.flip((-2, -1)).mT)


def squared_mahalanobis(factor: Tensor, difference: Tensor) -> Tensor:
    """Squared length of the difference, over its last dimension, where the covariance is ``factor @ factor.mT``."""
    return solve_triangular(factor, difference.unsqueeze(-1), upper=False).square().sum((-2, -1))


def half_log_det(factor: Tensor) -> Tensor:
    """Logarithm of the determinant of a triangular factor: half of the covariance's."""
    return factor.diagonal(0, -2, -1).log().sum(-1)


class MultivariateNormal(Distribution):
    """Multivariate normal distribution.

    Parameters
    ----------
    loc : Tensor
        Means, of shape ``(..., N)``.
    covariance_matrix, precision_matrix, scale_tril : Tensor, optional
        Covariance, its inverse, or its lower Cholesky factor, of shape ``(..., N, N)``; one of the three. The factor
        is computed from the others.
    validate_args : bool, optional
        As of :class:`Distribution`.

    Raises
    ------
    ValueError
        If ``loc`` has no dimension, the matrix less than two, or not exactly one matrix is given.
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must have at least one dimension, got a tensor of shape ()")
        name, matrix = _one_matrix(
            covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril
        )
        batch = broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]))
        self.loc = loc.expand((*batch, -1))
        setattr(self, name, matrix.expand((*batch, -1, -1)))
        # The checks come before the factorization, whose errors say less.
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        if name == "scale_tril":
            factor = matrix
        else:
            factor = cholesky(matrix) if name == "covariance_matrix" else factor_of_inverse(matrix)
        self._unbroadcasted_scale_tril = factor

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return new

    def _matrix(self) -> Size:
        return self._batch_shape + self._event_shape + self._event_shape

    @cached_property
    def scale_tril(self) -> Tensor:
        """Lower Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril.expand(self._matrix())

    @cached_property
    def covariance_matrix(self) -> Tensor:
        """Covariance."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(self._matrix())

    @cached_property
    def precision_matrix(self) -> Tensor:
        """Inverse of the covariance."""
        inverse = _inverse_factor(self._unbroadcasted_scale_tril)
        return (inverse.mT @ inverse).expand(self._matrix())

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        squares = self._unbroadcasted_scale_tril.square().sum(-1)
        return squares.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        noise = randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self._unbroadcasted_scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        factor = self._unbroadcasted_scale_tril
        squared = squared_mahalanobis(factor, value - self.loc)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + squared) - half_log_det(factor)

    def entropy(self) -> Tensor:
        constant = 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi))
        return (constant + half_log_det(self._unbroadcasted_scale_tril)).expand(self._batch_shape)


def _one_matrix(**matrices: Tensor | None) -> tuple[str, Tensor]:
    """The name and value of the only matrix.

    Raises
    ------
    ValueError
        If there is not exactly one, or it has less than two dimensions.
    """
    passed = [(name, matrix) for name, matrix in matrices.items() if matrix is not None]
    if len(passed) != 1:
        raise ValueError(f"exactly one of {', '.join(matrices)} must be given, got {len(passed)}")
    name, matrix = passed[0]
    if matrix.dim() < 2:
        raise ValueError(f"{name} must have at least two dimensions, got shape {tuple(matrix.shape)}")
    return name, matrix


class LowRankMultivariateNormal(Distribution):
    """Multivariate normal distribution with covariance ``cov_factor @ cov_factor.mT + diag(cov_diag)``.

    By the matrix determinant lemma and Woodbury's identity only matrices of the rank's size are factorized.

    Parameters
    ----------
    loc : Tensor
        Means, of shape ``(..., N)``.
    cov_factor : Tensor
        Of shape ``(..., N, rank)``.
    cov_diag : Tensor
        Positive, of shape ``(..., N)``.
    validate_args : bool, optional
        As of :class:`Distribution`.

    Raises
    ------
    ValueError
        If the shapes do not fit.
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        size = tuple(loc.shape[-1:])
        if loc.dim() < 1 or cov_factor.dim() < 2 or tuple(cov_factor.shape[-2:-1]) != size:
            raise ValueError(
                f"loc and cov_factor must have shapes (..., N) and (..., N, rank), got {tuple(loc.shape)} and "
                f"{tuple(cov_factor.shape)}"
            )
        if tuple(cov_diag.shape[-1:]) != size:
            raise ValueError(f"cov_diag must have shape (..., {size[0]}), got {tuple(cov_diag.shape)}")
        batch = broadcast_shapes(
            tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1])
        )
        self.loc = loc.expand((*batch, -1))
        self.cov_factor = cov_factor.expand((*batch, -1, -1))
        self.cov_diag = cov_diag.expand((*batch, -1))
        super().__init__(batch, size, validate_args=validate_args)

    def _capacitance_tril(self) -> Tensor:
        """Cholesky factor of ``I + W.mT @ inv(D) @ W``."""
        factor = self.cov_factor
        identity = eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
        return cholesky(identity + (factor / self.cov_diag.unsqueeze(-1)).mT @ factor)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.cov_factor.square().sum(-1) + self.cov_diag

    @property
    def covariance_matrix(self) -> Tensor:
        """Covariance."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @property
    def scale_tril(self) -> Tensor:
        """Lower Cholesky factor of the covariance."""
        return cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self) -> Tensor:
        """Inverse of the covariance."""
        scaled = (self.cov_factor / self.cov_diag.unsqueeze(-1)).mT
        half = solve_triangular(self._capacitance_tril(), scaled, upper=False)
        return self.cov_diag.reciprocal().diag_embed() - half.mT @ half

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        options: dict[str, Any] = {"dtype": self.loc.dtype, "device": self.loc.device}
        common = randn((*shape[:-1], self.cov_factor.shape[-1]), **options)
        own = randn(shape, **options)
        shared = (self.cov_factor @ common.unsqueeze(-1)).squeeze(-1)
        return self.loc + shared + self.cov_diag.sqrt() * own

    def _log_det(self, capacitance: Tensor) -> Tensor:
        return 2 * half_log_det(capacitance) + self.cov_diag.log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        difference, capacitance = value - self.loc, self._capacitance_tril()
        scaled = difference / self.cov_diag
        shared = (self.cov_factor.mT @ scaled.unsqueeze(-1)).squeeze(-1)
        squared = (difference * scaled).sum(-1) - squared_mahalanobis(capacitance, shared)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + self._log_det(capacitance) + squared)

    def entropy(self) -> Tensor:
        constant = self._event_shape[0] * (1 + math.log(2 * math.pi))
        return 0.5 * (constant + self._log_det(self._capacitance_tril()))


class Wishart(Distribution):
    """Wishart distribution of positive definite matrices, of sums of ``df`` outer products of normal vectors.

    Samples are drawn by Bartlett's decomposition.

    Parameters
    ----------
    df : Tensor or float
        Degrees of freedom, greater than ``N - 1``.
    covariance_matrix, precision_matrix, scale_tril : Tensor, optional
        Covariance of the vectors, its inverse, or its lower Cholesky factor, of shape ``(..., N, N)``; one of them.
    validate_args : bool, optional
        As of :class:`Distribution`.

    Raises
    ------
    ValueError
        If not exactly one matrix is given, or ``df`` is too small.
    """

    arg_constraints: ClassVar[Any] = {
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
        "df": constraints.greater_than(0),
    }
    support = constraints.positive_definite
    has_rsample = True

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = _one_matrix(
            covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril
        )
        df = df if hasattr(df, "dim") else matrix.new_tensor(float(df))
        if bool((df <= matrix.shape[-1] - 1).any()):
            raise ValueError(f"df must be greater than N - 1 = {matrix.shape[-1] - 1}, got {df}")
        checked = self._validate_args if validate_args is None else validate_args
        if checked and not bool(self.arg_constraints[name].check(matrix).all()):
            raise ValueError(
                f"parameter {name} (Tensor of shape {tuple(matrix.shape)}) of Wishart must satisfy the constraint "
                f"{self.arg_constraints[name]}; got:\n{matrix}"
            )
        batch = broadcast_shapes(tuple(matrix.shape[:-2]), tuple(df.shape))
        self.df: Tensor = df.expand(batch)
        if name == "scale_tril":
            factor = matrix
        else:
            factor = cholesky(matrix) if name == "covariance_matrix" else factor_of_inverse(matrix)
        self._factor = factor.expand((*batch, -1, -1))
        super().__init__(batch, matrix.shape[-2:], validate_args=validate_args)

    def _expandable(self) -> Sequence[str]:
        return ["df", "_factor"]

    @property
    def scale_tril(self) -> Tensor:
        """Lower Cholesky factor of the covariance of the vectors."""
        return self._factor

    @property
    def covariance_matrix(self) -> Tensor:
        """Covariance of the vectors."""
        return self._factor @ self._factor.mT

    @property
    def precision_matrix(self) -> Tensor:
        """Inverse of the covariance of the vectors."""
        inverse = _inverse_factor(self._factor)
        return inverse.mT @ inverse

    @property
    def mean(self) -> Tensor:
        return self.df.unsqueeze(-1).unsqueeze(-1) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self._event_shape[0] - 1
        factor = factor.masked_fill(factor <= 0, math.nan)
        return factor.unsqueeze(-1).unsqueeze(-1) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(0, -2, -1)
        products = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df.unsqueeze(-1).unsqueeze(-1) * (covariance.square() + products)

    def _half_dfs(self) -> Tensor:
        """Half of the degrees of freedom of each diagonal element of Bartlett's factor."""
        index = arange(self._event_shape[0], dtype=self._factor.dtype, device=self._factor.device)
        return (self.df.unsqueeze(-1) - index) / 2

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        noise = randn(tuple(shape), dtype=self._factor.dtype, device=self._factor.device)
        diagonal = (2 * standard_gamma(self._half_dfs().expand(shape[:-1]))).sqrt()
        factor = self._factor @ (noise.tril(-1) + diagonal.diag_embed())
        return factor @ factor.mT

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, df = self._event_shape[0], self.df
        inner = solve_triangular(self._factor, cholesky(value), upper=False)
        traces = inner.square().sum((-2, -1))
        logs = half_log_det(cholesky(value))
        normalizer = df * n / 2 * math.log(2) + mvlgamma(df / 2, n) + df * half_log_det(self._factor)
        return (df - n - 1) * logs - traces / 2 - normalizer

    def entropy(self) -> Tensor:
        n, df = self._event_shape[0], self.df
        logs = half_log_det(self._factor)
        mean_log_det = self._half_dfs().digamma().sum(-1) + n * math.log(2) + 2 * logs
        normalizer = df * n / 2 * math.log(2) + mvlgamma(df / 2, n) + df * logs
        return normalizer - (df - n - 1) / 2 * mean_log_det + df * n / 2


class LKJCholesky(Distribution):
    """LKJ distribution of the Cholesky factors of correlation matrices.

    The determinant of the matrix to the power ``concentration - 1`` is its density. Lewandowski, Kurowicka and Joe,
    "Generating random correlation matrices based on vines and extended onion method" (2009), section 3.

    Parameters
    ----------
    dim : int
        Rows of the matrices, at least 2.
    concentration : Tensor or float
        1 is uniform over correlation matrices.
    validate_args : bool, optional
        As of :class:`Distribution`.

    Raises
    ------
    ValueError
        If ``dim`` is less than 2.
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"dim must be at least 2, got {dim}")
        self.dim = dim
        self.concentration: Tensor = (
            concentration if hasattr(concentration, "dim") else eye(1)[0, 0] * concentration
        )
        super().__init__(self.concentration.shape, (dim, dim), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new.dim = self.dim
        return new

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            concentration = self.concentration
            rows = arange(1, self.dim, dtype=concentration.dtype, device=concentration.device)
            marginal = concentration.unsqueeze(-1) + (self.dim - 1 - rows) / 2
            # Row by row: a direction, and how much of the unit length it takes.
            squared = Beta((rows / 2).expand(marginal.shape), marginal).sample(sample_shape)
            noise = randn(tuple(shape), dtype=concentration.dtype, device=concentration.device).tril(-1)
            below = noise[..., 1:, :]
            direction = below / below.square().sum(-1, keepdim=True).sqrt()
            result = noise.clone()
            result[..., 1:, :] = squared.sqrt().unsqueeze(-1) * direction
            left = (1 - result.square().sum(-1)).clamp(min=1e-38).sqrt()
            return result + left.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, eta = self.dim, self.concentration
        order = arange(2, n + 1, dtype=value.dtype, device=value.device)
        powers = 2 * (eta - 1).unsqueeze(-1) + n - order
        unnormalized = (powers * value.diagonal(0, -2, -1)[..., 1:].log()).sum(-1)
        alpha = eta + 0.5 * (n - 1)
        normalizer = (
            0.5 * (n - 1) * math.log(math.pi) + mvlgamma(alpha - 0.5, n - 1) - (n - 1) * alpha.lgamma()
        )
        return unnormalized - normalizer

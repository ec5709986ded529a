"""Kullback-Leibler divergences: ``kl_divergence`` looks up a function by the classes of the two distributions."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tensor.autograd.differentiation import grad
from tensor.core.modes.grad_mode import enable_grad
from tensor.core.names.absent import hints as _hints
from tensor.linalg.systems.triangular import solve_triangular
from tensor.operations.creation.like import full_like
from tensor.operations.pointwise.activations import softplus
from tensor.operations.pointwise.selection import where
from tensor.operations.special.gamma import mvlgamma
from tensor.operations.special.logistic import xlogy

from .continuous import Cauchy, ContinuousBernoulli, Exponential, Laplace, Normal, Uniform
from .discrete import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from .distribution import Distribution, ExponentialFamily, sum_rightmost
from .gammas import Beta, Dirichlet, Gamma
from .multivariate import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    Wishart,
    half_log_det,
    squared_mahalanobis,
)
from .named_transformed import Gumbel, HalfNormal, Pareto
from .transformed import Independent, TransformedDistribution

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

__all__ = ["kl_divergence", "register_kl"]

_F = TypeVar("_F", bound=Callable[[Any, Any], Any])
_registered: dict[tuple[type, type], Callable[[Any, Any], Any]] = {}
_EULER = 0.57721566490153286060


def register_kl(type_p: type, type_q: type) -> Callable[[_F], _F]:
    """Decorator of a function of ``p`` and ``q``, which computes the divergence for these classes and subclasses.

    Parameters
    ----------
    type_p, type_q : type
        Classes of distributions. Of several that fit, the most special is used.

    Raises
    ------
    TypeError
        If one is no class of distributions.
    """
    for cls in (type_p, type_q):
        if not (isinstance(cls, type) and issubclass(cls, Distribution)):
            raise TypeError(f"expected a subclass of Distribution, got {cls!r}")

    def decorate(function: _F) -> _F:
        _registered[type_p, type_q] = function
        _lookup.cache_clear()
        return function

    return decorate


@functools.cache
def _lookup(type_p: type, type_q: type) -> Callable[[Any, Any], Any] | None:
    """The function for the most special classes; of equally good ones that of the more special ``p``, with a warning."""
    fits = [pair for pair in _registered if issubclass(type_p, pair[0]) and issubclass(type_q, pair[1])]
    if not fits:
        return None
    ranks = {(p, q): (type_p.__mro__.index(p), type_q.__mro__.index(q)) for p, q in fits}
    by_p, by_q = min(fits, key=ranks.__getitem__), min(fits, key=lambda pair: ranks[pair][::-1])
    if _registered[by_p] is not _registered[by_q]:
        warnings.warn(
            f"kl_divergence({type_p.__name__}, {type_q.__name__}) is ambiguous: register_kl({by_p[0].__name__}, "
            f"{by_q[1].__name__}) would decide it",
            RuntimeWarning,
            stacklevel=3,
        )
    return _registered[by_p]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Kullback-Leibler divergence, the mean of ``p.log_prob(x) - q.log_prob(x)`` for ``x`` of ``p``, in nats.

    Parameters
    ----------
    p, q : Distribution
        The distributions; the result has their batch shape.

    Raises
    ------
    NotImplementedError
        If nothing is registered for their classes.
    """
    type_p: Any = type(p)
    type_q: Any = type(q)
    function = _lookup(type_p, type_q)
    if function is None:
        raise NotImplementedError(
            f"no KL divergence is registered for {type(p).__name__} and {type(q).__name__}: see register_kl"
        )
    result: Tensor = function(p, q)
    return result


def _infinite(like: Tensor) -> Tensor:
    return full_like(like, math.inf)


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    distance = (p.loc - q.loc).abs()
    ratio = p.scale / q.scale
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    # Chyzak and Nielsen (2019).
    squared = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return squared.log() - (4 * p.scale * q.scale).log()


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return where((q.low > p.low) | (q.high < p.high), math.inf, result)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log()
        + b.lgamma()
        - a.lgamma()
        + (a - b) * a.digamma()
        + a * (q.rate / p.rate - 1)
    )


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1, True)
    normalizers = total.squeeze(-1).lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return normalizers + ((a - b) * (a.digamma() - total.digamma())).sum(-1)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    t1 = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    t1 = where((q.probs == 0) & (p.probs > 0), math.inf, where(p.probs == 0, 0.0, t1))
    t2 = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    t2 = where((q.probs == 1) & (p.probs < 1), math.inf, where(p.probs == 1, 0.0, t2))
    return t1 + t2


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("the divergence of a Binomial from one of more trials is not defined here")
    per_trial = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return where(p.total_count > q.total_count, math.inf, p.total_count * per_trial)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = where(p.probs == 0, 0.0, where(q.probs == 0, math.inf, terms))
    return terms.sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    constants = p._log_constant() + (-p.probs).log1p() - q._log_constant() - (-q.probs).log1p()
    return p.mean * (p.logits - q.logits) + constants


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio = p.scale / q.scale
    shift = (q.loc - p.loc) / q.scale
    return -ratio.log() + _EULER * (ratio - 1) - shift + (shift + (1 + ratio).lgamma()).exp() - 1


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return where(p.scale < q.scale, math.inf, result)


@register_kl(ExponentialFamily, ExponentialFamily)
def _same_family(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    if type(p) is not type(q):
        raise NotImplementedError(
            f"no KL divergence is registered for {type(p).__name__} and {type(q).__name__}: see register_kl"
        )
    # The Bregman divergence of the log normalizer.
    first = [each if each.requires_grad else each.detach().requires_grad_() for each in p._natural_params]
    with enable_grad():
        normalizer = p._log_normalizer(*first)
        means: Any = grad((normalizer.sum(),), first, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - normalizer
    for a, b, mean in zip(first, q._natural_params, means, strict=True):
        result = result - sum_rightmost((b - a) * mean, len(q.event_shape))
    return result


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("Independent distributions of different reinterpreted_batch_ndims")
    base = kl_divergence(p.base_dist, q.base_dist)
    result: Tensor = sum_rightmost(base, p.reinterpreted_batch_ndims)
    return result


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("transformed distributions of different transforms or event shapes")
    return kl_divergence(p.base_dist, q.base_dist)


def _squared_ratio(p_factor: Tensor, q_factor: Tensor) -> Tensor:
    """Trace of the inverse of one covariance times another, by their factors."""
    return solve_triangular(q_factor, p_factor, upper=False).square().sum((-2, -1))


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(f"event shapes differ: {tuple(p.event_shape)} and {tuple(q.event_shape)}")
    a, b = p.scale_tril, q.scale_tril
    terms = _squared_ratio(a, b) + squared_mahalanobis(b, q.loc - p.loc) - p.event_shape[0]
    result: Tensor = half_log_det(b) - half_log_det(a) + 0.5 * terms
    return result


register_kl(MultivariateNormal, LowRankMultivariateNormal)(_multivariate_normal)
register_kl(LowRankMultivariateNormal, MultivariateNormal)(_multivariate_normal)
register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)(_multivariate_normal)


@register_kl(Wishart, Wishart)
def _wishart(p: Wishart, q: Wishart) -> Tensor:
    n, a, b = p.event_shape[0], p.scale_tril, q.scale_tril
    trace = _squared_ratio(a, b)
    logs = 2 * (half_log_det(b) - half_log_det(a))
    digammas = p._half_dfs().digamma().sum(-1)
    normalizers = mvlgamma(q.df / 2, n) - mvlgamma(p.df / 2, n)
    return 0.5 * q.df * logs + 0.5 * p.df * (trace - n) + normalizers + 0.5 * (p.df - q.df) * digammas


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p: Beta, q: ContinuousBernoulli) -> Tensor:
    return -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._log_constant()


@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Beta, Exponential)
@register_kl(Gamma, Exponential)
@register_kl(Gumbel, Exponential)
@register_kl(Pareto, Exponential)
@register_kl(Uniform, Exponential)
def _to_exponential(p: Any, q: Exponential) -> Tensor:
    if isinstance(p, Gumbel):
        return _infinite(p.loc + q.rate)
    result: Tensor = -p.entropy() - q.rate.log() + q.rate * p.mean
    return where(p.low < 0, math.inf, result) if isinstance(p, Uniform) else result


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Pareto, Normal)
@register_kl(Uniform, Normal)
def _to_normal(p: Any, q: Normal) -> Tensor:
    second = p.variance + (p.mean - q.loc).square()
    result: Tensor = (
        -p.entropy() + 0.5 * math.log(2 * math.pi) + q.scale.log() + 0.5 * second / q.scale.square()
    )
    return result


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Exponential, q: Gamma) -> Tensor:
    mean_log = -p.rate.log() - _EULER
    return _cross_gamma(p, q, mean_log)


def _cross_gamma(p: Any, q: Gamma, mean_log: Tensor) -> Tensor:
    """For ``p`` of positive numbers whose logarithms have this mean."""
    a = q.concentration
    result: Tensor = -p.entropy() + a.lgamma() - a * q.rate.log() - (a - 1) * mean_log + q.rate * p.mean
    return result


@register_kl(Beta, Gamma)
def _beta_gamma(p: Beta, q: Gamma) -> Tensor:
    total = p.concentration1 + p.concentration0
    return _cross_gamma(p, q, p.concentration1.digamma() - total.digamma())


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Pareto, q: Gamma) -> Tensor:
    return _cross_gamma(p, q, p.scale.log() + p.alpha.reciprocal())


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Uniform, q: Gamma) -> Tensor:
    mean_log = (xlogy(p.high, p.high) - xlogy(p.low, p.low)) / (p.high - p.low) - 1
    return where(p.low < 0, math.inf, _cross_gamma(p, q, mean_log))


@register_kl(Exponential, Gumbel)
@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Gumbel) -> Tensor:
    a = p.concentration if isinstance(p, Gamma) else p.rate * 0 + 1
    # The moment generating function.
    mean_exp = (q.loc / q.scale - a * (1 / (p.rate * q.scale)).log1p()).exp()
    result: Tensor = -p.entropy() + q.scale.log() + (p.mean - q.loc) / q.scale + mean_exp
    return result


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Normal, q: Gumbel) -> Tensor:
    shift = (p.loc - q.loc) / q.scale
    mean_exp = (-shift + (p.scale / q.scale).square() / 2).exp()
    return -p.entropy() + q.scale.log() + shift + mean_exp


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Uniform, q: Gumbel) -> Tensor:
    low, high = (p.low - q.loc) / q.scale, (p.high - q.loc) / q.scale
    mean_exp = ((-low).exp() - (-high).exp()) / (high - low)
    return -p.entropy() + q.scale.log() + (low + high) / 2 + mean_exp


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    ratio = (p.loc - q.loc) / p.scale
    mean = math.sqrt(2 / math.pi) * (-ratio.square() / 2).exp() + ratio * (ratio / math.sqrt(2)).erf()
    return -p.entropy() + (2 * q.scale).log() + p.scale * mean / q.scale


def _outside(p: Any, q: Any) -> Tensor:
    """Infinite: ``p`` has values that are impossible for ``q``."""
    return _infinite(p.mean + q.mean)


for _p, _others in {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}.items():
    for _q in _others:
        register_kl(_p, _q)(_outside)


@register_kl(ContinuousBernoulli, Uniform)
def _continuous_bernoulli_uniform(p: ContinuousBernoulli, q: Uniform) -> Tensor:
    result = -p.entropy() + (q.high - q.low).log()
    # PyTorch asks for an interval that is larger on both sides.
    return where((q.high <= 1) | (q.low >= 0), math.inf, result)


@register_kl(Beta, Uniform)
def _beta_uniform(p: Beta, q: Uniform) -> Tensor:
    result = -p.entropy() + (q.high - q.low).log()
    return where((q.high < 1) | (q.low > 0), math.inf, result)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Tensor:
    def mean_log(low: Tensor, high: Tensor) -> Tensor:
        return (xlogy(high, high) - xlogy(low, low)) / (high - low) - 1

    a, b = q.concentration1, q.concentration0
    log_beta = a.lgamma() + b.lgamma() - (a + b).lgamma()
    cross = (a - 1) * mean_log(p.low, p.high) + (b - 1) * mean_log(1 - p.high, 1 - p.low)
    return where((p.high > 1) | (p.low < 0), math.inf, -p.entropy() - cross + log_beta)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Uniform, q: ContinuousBernoulli) -> Tensor:
    result = -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._log_constant()
    return where((p.high > 1) | (p.low < 0), math.inf, result)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    mean_log = (xlogy(p.high, p.high) - xlogy(p.low, p.low)) / (p.high - p.low) - 1
    log_density = q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * mean_log
    return where(p.low < q.scale, math.inf, -p.entropy() - log_density)


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)

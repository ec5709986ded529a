"""Random counts, of Poisson's and the binomial distribution: one uniform number each, inverted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import dtypes
from nvrtc_kernels.dtypes import Category
from tensor.core.plans.steps import host_step
from tensor.operations.definition import operation
from tensor.operations.pointwise.arithmetic import no_change
from tensor.operations.pointwise_operation import Pointwise
from tensor.operations.special.gamma import lgamma_on_host
from tensor.operations.special.incomplete_gamma import igammac_on_host

from .fills import uniform_

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

    from .generator import Generator


def _poisson(rate: Any, u: Any) -> Any:
    """The smallest k whose distribution function is at least ``u``, by bisection."""
    dtype = rate.dtype
    rate, u = np.broadcast_arrays(rate.astype(np.float64), u.astype(np.float64))
    rate = np.ascontiguousarray(rate)
    deviation = np.sqrt(rate)
    low, high = np.maximum(np.floor(rate - 10 * deviation - 10), -1), np.ceil(rate + 10 * deviation + 40)
    while np.any(high - low > 1):
        middle = np.floor((low + high) / 2)
        enough = igammac_on_host(middle + 1, rate) >= u
        unfinished = high - low > 1
        high, low = np.where(unfinished & enough, middle, high), np.where(unfinished & ~enough, middle, low)
    return np.where(rate == 0, 0.0, high).astype(dtype)


def _binomial(count: Any, probability: Any, u: Any) -> Any:
    """From the most likely number outwards, until the probabilities met exceed ``u``."""
    dtype = count.dtype
    n, p, u = np.broadcast_arrays(
        np.floor(count.astype(np.float64)), probability.astype(np.float64), u.astype(np.float64)
    )
    certain = (n <= 0) | (p <= 0) | (p >= 1)
    edge = np.where(p >= 1, np.maximum(n, 0.0), 0.0)
    n, p = np.where(certain, 1.0, n), np.where(certain, 0.5, p)
    mode = np.floor((n + 1) * p)
    logarithm = lgamma_on_host(n + 1) - lgamma_on_host(mode + 1) - lgamma_on_host(n - mode + 1)
    above = below = np.exp(logarithm + mode * np.log(p) + (n - mode) * np.log1p(-p))
    odds = p / (1 - p)
    upper, lower, result = mode.copy(), mode.copy(), mode.copy()
    rest = u - above
    going = rest > 0
    while going.any():
        above = np.where(upper < n, above * (n - upper) / (upper + 1) * odds, 0.0)
        upper = upper + 1
        rest = rest - np.where(going, above, 0)
        met = going & (rest <= 0)
        result = np.where(met, upper, result)
        going &= ~met
        below = np.where(lower > 0, below * lower / (n - lower + 1) / odds, 0.0)
        lower = lower - 1
        rest = rest - np.where(going, below, 0)
        met = going & ((rest <= 0) | ((upper >= n) & (lower <= 0)) | (above + below < 1e-30))
        result = np.where(met, np.clip(lower, 0, n), result)
        going &= ~met
    return np.where(certain, edge, result).astype(dtype)


POISSON = Pointwise(
    "poisson",
    "poisson_count(a, b)",
    _poisson,
    typed=1,
    categories=(Category.FLOATING,),
    include="random_counts.cuh",
    derivatives=(no_change,),
)
BINOMIAL = Pointwise(
    "binomial",
    "binomial_count(a, b, c)",
    _binomial,
    typed=1,
    categories=(Category.FLOATING,),
    include="random_counts.cuh",
    derivatives=(no_change, no_change),
)


@operation(method=False)
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """A random number of Poisson's distribution for each rate; gradients are zero.

    Raises
    ------
    RuntimeError
        If a rate is negative (which waits for a CUDA tensor).
    NotImplementedError
        For dtypes that are not floating point.

    Examples
    --------
    >>> tensor.poisson(tensor.tensor([0.0, 0.0]))
    tensor([0., 0.])
    """
    layout = input._layout
    if layout.dtype.category is Category.FLOATING and layout.numel:
        _check_rates(input.detach())
    return POISSON(input, _uniform(input, layout.shape, generator))


@host_step
def _check_rates(rates: Any) -> None:
    if (rates < 0).any():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")


@operation(method=False)
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """How many of ``count`` trials, of which each succeeds with the probability ``prob``, succeed; gradients are zero.

    Raises
    ------
    RuntimeError
        For dtypes that are not floating point.

    Examples
    --------
    >>> tensor.binomial(tensor.tensor([5.0, 5.0]), tensor.tensor([0.0, 1.0]))
    tensor([0., 5.])
    """
    for name, each in (("count", count), ("prob", prob)):
        dtype = each._layout.dtype
        if dtype.category is not Category.FLOATING:
            raise RuntimeError(f"binomial only supports floating-point dtypes for {name}, got: {dtype!r}")
    shape = np.broadcast_shapes(count._layout.shape, prob._layout.shape)
    return BINOMIAL(count, prob, _uniform(count, shape, generator))


def _uniform(like: Tensor, shape: Any, generator: Generator | None) -> Tensor:
    result: Any = like.new_empty(shape, dtype=dtypes.float64)
    return uniform_(result, generator=generator)

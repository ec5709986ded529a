"""Arrays of random numbers against SciPy's distributions."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from scipy import stats

from nvrtc_kernels import elementary
from tensor.operations.random import distributions
from tensor.operations.random.distributions import numbers, threshold

COUNT = 200_000
REFERENCES: list[tuple[str, float, float, Any]] = [
    ("uniform", -2.0, 5.0, stats.uniform(-2, 7)),
    ("normal", 1.5, 0.5, stats.norm(1.5, 0.5)),
    ("log_normal", 0.5, 0.75, stats.lognorm(0.75, scale=np.exp(0.5))),
    ("exponential", 3.0, 0.0, stats.expon(scale=1 / 3)),
    ("cauchy", -1.0, 2.0, stats.cauchy(-1, 2)),
]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "first", "second", "reference"), REFERENCES, ids=lambda v: str(v)[:12])
def test_continuous(name: str, first: float, second: float, reference: Any, kind: Any) -> None:
    x = numbers(name, np.dtype(kind), COUNT, 17, 4, first, second)
    assert np.isfinite(x).all()
    assert stats.kstest(x, reference.cdf).pvalue > 1e-3


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_uniform_excludes_its_end(kind: Any) -> None:
    x = numbers("uniform", np.dtype(kind), COUNT, 3, 0, 0.3, 0.7).astype(np.float64)
    assert float(kind(0.3)) <= x.min()
    assert x.max() < 0.7
    assert (numbers("uniform", np.dtype(kind), 10, 3, 0, 2.0, 2.0) == 2).all()


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
def test_geometric(kind: Any) -> None:
    x = numbers("geometric", np.dtype(kind), COUNT, 8, 1, float(np.log1p(-0.3)))
    assert x.min() == 1
    counts = np.bincount(x.astype(int), minlength=16)[1:16]
    expected = stats.geom(0.3).pmf(np.arange(1, 16)) * COUNT
    assert stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 1e-3


@pytest.mark.parametrize("p", [0.0, 0.01, 0.5, 0.99, 1.0])
def test_bernoulli(p: float) -> None:
    x = numbers("bernoulli", np.dtype(np.bool_), COUNT, 5, 2, threshold(p))
    assert stats.binomtest(int(x.sum()), COUNT, p).pvalue > 1e-3


def test_bernoulli_of_probabilities() -> None:
    p = np.repeat(np.linspace(0, 1, 11), COUNT // 10)
    x = numbers("bernoulli", np.dtype(np.float32), p.size, 5, 2, threshold(p)).reshape(11, -1)
    assert np.abs(x.mean(1) - np.linspace(0, 1, 11)).max() < 0.02
    assert x[0].sum() == 0
    assert x[-1].all()


@pytest.mark.parametrize("extent", [1, 2, 7, 1000])
def test_integers_are_equally_likely(extent: int) -> None:
    x = numbers("random", np.dtype(np.int64), COUNT, 6, 3, extent, -3)
    counts = np.bincount(x + 3, minlength=extent)
    assert len(counts) == extent
    assert extent == 1 or stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize(
    ("extent", "low"), [(1 << 32, 0), ((1 << 32) + 1, -5), (3 << 62, -(1 << 63)), ((1 << 64) - 1, -(1 << 63))]
)
def test_integers_by_exact_products(extent: int, low: int) -> None:
    from tensor.operations.random.philox import words

    x = numbers("random", np.dtype(np.int64), 500, 6, 3, extent, low)
    per = 2 if extent <= 1 << 32 else 4
    drawn = words(6, 3, 500 * per).reshape(-1, per).tolist()
    bits = [sum(word << 32 * device for device, word in enumerate(row)) for row in drawn]
    assert x.tolist() == [low + (value * extent >> 32 * per) for value in bits]


@pytest.mark.parametrize("name", ["uniform", "normal", "exponential", "cauchy", "random"])
def test_a_shorter_call_is_the_start_of_a_longer_one(name: str) -> None:
    long = numbers(name, np.dtype(np.float32), 50_000, 1, 2, 2, 5)
    assert np.array_equal(numbers(name, np.dtype(np.float32), 20_001, 1, 2, 2, 5), long[:20_001])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_elementary_functions(kind: Any) -> None:
    limit = 85 if kind is np.float32 else 700
    x = np.linspace(-limit, limit, 100_001).astype(kind)
    exact = np.exp(x.astype(np.longdouble))
    assert (np.abs(elementary.exponential(x) - exact) / np.spacing(exact.astype(kind))).max() <= 2
    assert elementary.exponential(np.array([-1000, 1000, np.inf], kind)).tolist() == [0, np.inf, np.inf]
    x = np.geomspace(1e-10, 0.4999, 100_001).astype(kind)
    angle = x.astype(np.longdouble) * np.longdouble("3.14159265358979323846264338327950288")
    exact = 1 / np.tan(angle)
    away = x < 0.45
    error = np.abs(elementary.cotangent_pi(x) - exact) / np.spacing(exact.astype(kind))
    assert error[away].max() <= 4


def test_permutations() -> None:
    orders = np.array([distributions.permutation(4, 1, call) for call in range(4800)])
    assert (np.sort(orders, 1) == np.arange(4)).all()
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > 1e-3
    assert distributions.permutation(0, 1, 2).shape == (0,)


@pytest.mark.parametrize("replacement", [False, True])
def test_categories(replacement: bool) -> None:
    weights = np.tile(np.array([0.0, 1, 2, 0, 5, 0]), (20_000, 1))
    drawn = distributions.categories(weights, 2, replacement, 2, 3)
    counts = np.bincount(drawn[:, 0], minlength=6)
    assert counts[[0, 3, 5]].sum() == 0
    assert stats.chisquare(counts[[1, 2, 4]], np.array([1, 2, 5]) / 8 * 20_000).pvalue > 1e-3
    assert replacement or (drawn[:, 0] != drawn[:, 1]).all()

"""Distributions of the numbers in tensors, for fixed seeds: Kolmogorov-Smirnov and chi-square tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import tensor
from nvrtc_kernels import dtypes

COUNT = 40_000
CONTINUOUS = [
    ("uniform_", (), stats.uniform()),
    ("uniform_", (-2.0, 6.0), stats.uniform(-2, 8)),
    ("normal_", (), stats.norm()),
    ("normal_", (3.0, 0.5), stats.norm(3, 0.5)),
    ("log_normal_", (), stats.lognorm(2, scale=np.e)),
    ("log_normal_", (-1.0, 0.5), stats.lognorm(0.5, scale=np.exp(-1))),
    ("exponential_", (), stats.expon()),
    ("exponential_", (4.0,), stats.expon(scale=0.25)),
    ("cauchy_", (), stats.cauchy()),
    ("cauchy_", (2.0, 3.0), stats.cauchy(2, 3)),
]


@pytest.fixture(autouse=True)
def _seed() -> None:
    tensor.manual_seed(2024)


def float64(drawn: tensor.Tensor) -> np.ndarray[Any, Any]:
    return drawn.numpy().astype(np.float64).ravel()


@pytest.mark.parametrize("kind", [dtypes.float32, dtypes.float64], ids=repr)
@pytest.mark.parametrize(("name", "arguments", "expected"), CONTINUOUS, ids=lambda value: str(value)[:20])
def test_continuous(name: str, arguments: tuple[float, ...], expected: Any, kind: dtypes.dtype) -> None:
    drawn = float64(getattr(tensor.empty(COUNT, dtype=kind), name)(*arguments))
    assert stats.kstest(drawn, expected.cdf).pvalue > 1e-3


@pytest.mark.parametrize("kind", [dtypes.float16, dtypes.bfloat16], ids=repr)
@pytest.mark.parametrize(("name", "arguments", "expected"), CONTINUOUS, ids=lambda value: str(value)[:20])
def test_half_precision(name: str, arguments: tuple[float, ...], expected: Any, kind: dtypes.dtype) -> None:
    drawn = float64(getattr(tensor.empty(COUNT, dtype=kind), name)(*arguments))
    # A number stands for all that are rounded to it.
    assert stats.kstest(drawn, expected.cdf).statistic < 0.02


@pytest.mark.parametrize("kind", [dtypes.int64, dtypes.int16, dtypes.float32], ids=repr)
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_geometric(kind: dtypes.dtype, p: float) -> None:
    drawn = float64(tensor.empty(COUNT, dtype=kind).geometric_(p))
    assert drawn.min() == 1
    last = int(np.log(20 / COUNT) / np.log1p(-p))
    seen = np.array([*((drawn == k).sum() for k in range(1, last + 1)), (drawn > last).sum()])
    chances = np.append(stats.geom(p).pmf(np.arange(1, last + 1)), stats.geom(p).sf(last))
    assert stats.chisquare(seen, chances * COUNT).pvalue > 1e-3


@pytest.mark.parametrize("kind", [dtypes.uint8, dtypes.int64, dtypes.float16, dtypes.float64], ids=repr)
def test_integers(kind: dtypes.dtype) -> None:
    drawn = float64(tensor.randint(3, 20, (COUNT,), dtype=kind))
    assert set(drawn) == set(range(3, 20))
    assert stats.chisquare(np.bincount(drawn.astype(int))[3:]).pvalue > 1e-3


@pytest.mark.parametrize("p", [0.0, 0.03, 0.5, 0.9, 1.0])
def test_bernoulli(p: float) -> None:
    ones = int(float64(tensor.empty(COUNT, dtype=dtypes.bool_).bernoulli_(p)).sum())
    assert stats.binomtest(ones, COUNT, p).pvalue > 1e-3


@pytest.mark.parametrize("kind", [dtypes.complex64, dtypes.complex128], ids=repr)
def test_complex_numbers(kind: dtypes.dtype) -> None:
    z = tensor.randn(COUNT, dtype=kind).numpy()
    assert stats.kstest(z.real, stats.norm(0, np.sqrt(0.5)).cdf).pvalue > 1e-3
    assert stats.kstest(z.imag, stats.norm(0, np.sqrt(0.5)).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(z.real, z.imag)[0, 1]) < 0.02
    u = tensor.rand(COUNT, dtype=kind).numpy()
    assert stats.kstest(u.real, stats.uniform().cdf).pvalue > 1e-3
    assert stats.kstest(u.imag, stats.uniform().cdf).pvalue > 1e-3


def test_normal_of_tensors() -> None:
    mean = tensor.arange(-2.0, 3.0).reshape(5, 1)
    std = tensor.tensor([0.5, 1.0, 3.0])
    drawn = tensor.normal(mean.expand(5, 3).expand(COUNT // 8, 5, 3), std).numpy()
    for row in range(5):
        for column, width in enumerate((0.5, 1.0, 3.0)):
            result = stats.kstest(drawn[:, row, column], stats.norm(row - 2, width).cdf)
            assert result.pvalue > 1e-3


def test_neighbours_and_calls_are_independent() -> None:
    calls = np.stack([float64(tensor.rand(COUNT)) for _ in range(4)])
    assert np.abs(np.corrcoef(calls) - np.eye(4)).max() < 0.03
    for lag in (1, 2, 3, 4):
        assert abs(np.corrcoef(calls[0, lag:], calls[0, :-lag])[0, 1]) < 0.03


def test_permutations() -> None:
    orders = np.stack([tensor.randperm(4).numpy() for _ in range(4800)])
    codes = orders @ (4 ** np.arange(4))
    assert stats.chisquare(np.unique(codes, return_counts=True)[1]).pvalue > 1e-3
    assert len(np.unique(codes)) == 24


def test_multinomial_with_replacement() -> None:
    weights = tensor.tensor([[0.0, 1, 2, 5], [4.0, 0, 4, 0]])
    drawn = tensor.multinomial(weights, COUNT, replacement=True).numpy()
    first, second = (np.bincount(row, minlength=4) for row in drawn)
    assert first[0] == second[1] == second[3] == 0
    assert stats.chisquare(first[1:], np.array([1, 2, 5]) / 8 * COUNT).pvalue > 1e-3
    assert stats.chisquare(second[[0, 2]]).pvalue > 1e-3


def test_multinomial_without_replacement() -> None:
    weights = np.array([1.0, 2, 3])
    drawn = tensor.multinomial(tensor.tensor([1.0, 2, 3]).expand(COUNT, 3), 2).numpy()
    pairs = np.unique(drawn @ [3, 1], return_counts=True)
    expected = {
        3 * i + j: weights[i] / 6 * weights[j] / (6 - weights[i])
        for i in range(3) for j in range(3) if i != j
    }  # fmt: skip
    assert set(pairs[0]) == set(expected)
    assert stats.chisquare(pairs[1], [expected[key] * COUNT for key in sorted(expected)]).pvalue > 1e-3

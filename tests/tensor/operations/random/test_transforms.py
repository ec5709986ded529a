"""Random numbers against the distributions they should have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from nvrtc_kernels import elementary
from tensor.operations.random import transforms
from tensor.operations.random.philox import words

COUNT = 400_000


@pytest.mark.parametrize(("kind", "limit"), [(np.float32, 3), (np.float64, 3)])
def test_logarithm_is_within_three_ulp(kind: Any, limit: int) -> None:
    x = np.exp(np.linspace(-80, 0, 100_001)).astype(kind)
    exact = np.log(x.astype(np.longdouble))
    error = np.abs(elementary.logarithm(x) - exact) / np.spacing(
        np.abs(exact).astype(kind) + np.finfo(kind).tiny
    )
    away = x < 0.99
    assert error[away].max() <= limit
    assert np.abs(elementary.logarithm(x) - exact)[~away].max() < 4 * np.finfo(kind).eps


@pytest.mark.parametrize(("convert", "per"), [(transforms.uniform32, 1), (transforms.uniform64, 2)])
def test_uniform(convert: Any, per: int) -> None:
    u = convert(words(7, 1, COUNT * per))
    assert 0 <= u.min() < 1e-4
    assert 1 - 1e-4 < u.max() < 1
    assert stats.kstest(u, "uniform").pvalue > 1e-3


@pytest.mark.parametrize(("convert", "per"), [(transforms.normal32, 1), (transforms.normal64, 2)])
def test_normal(convert: Any, per: int) -> None:
    z = convert(words(3, 2, COUNT * per))
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert abs(z.mean()) < 0.01
    assert abs(z.std() - 1) < 0.01


def test_quantiles_reach_the_tails_and_are_accurate() -> None:
    magnitudes = np.unique(np.geomspace(1, 2**31 - 1, 20_000).astype(np.uint32))
    z = transforms.normal32(magnitudes)
    exact = -stats.norm.ppf((magnitudes + 0.5) * 2.0**-32)
    assert np.abs(z - exact).max() < 1e-6
    assert (np.diff(z) <= 0).all()
    extreme = transforms.normal32(np.array([0, 2**31, 2**31 - 1, 2**32 - 1], np.uint32))
    assert np.isfinite(extreme).all()
    assert extreme[0] == -extreme[1] > 6.2

    low = np.zeros_like(magnitudes)
    z = transforms.normal64(np.stack([low, magnitudes], 1).ravel())
    exact = -stats.norm.ppf(((magnitudes.astype(np.float64) * 2**32) + 0.5) * 2.0**-64)
    assert np.abs(z - exact).max() < 1e-13

"""Sums of tensors whose dimensions lie in any order in memory are contiguous tensors, like others."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest

import tensor

_X = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)


@pytest.mark.parametrize("name", ["sum", "mean"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_any_order(name: str, count: int) -> None:
    for order in permutations(range(4)):
        for step in (1, 2):
            array = _X.transpose(order)[..., ::step]
            x = tensor.from_numpy(_X).permute(*order)[..., ::step]
            for dims in combinations(range(4), count):
                result = getattr(x, name)(dims)
                expected = getattr(array.astype(np.float64), name)(axis=dims)
                assert result.is_contiguous()
                # Read by NumPy as it lies, and by its address.
                for each in (result, result + 0, result.flatten().view(expected.shape)):
                    np.testing.assert_allclose(each.numpy(), expected, rtol=1e-5, atol=1e-5)

"""How large the errors of TF32 are, in the figures that users are told.

Rounded inputs give 2e-3 at any size. What remains without them is the rounding of sums, which grows with the root of
the number of products: added up in order in float32 it is 8.5e-6 for 1024 and about 4e-5 for 10240.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor


def _errors(size: int, *, exact_on: str) -> dict[str, float]:
    """Largest errors relative to the mean magnitude, of a product of standard normal matrices."""
    tensor.manual_seed(0)
    a, b = (tensor.randn(size, size) for _ in range(2))
    exact = a.to(exact_on).double() @ b.to(exact_on).double()
    magnitude = exact.abs().mean()
    result: dict[str, float] = {}
    for name in ("tf32", "ieee"):
        tensor.backends.cuda.matmul.fp32_precision = name
        product = a.cuda() @ b.cuda()
        result[name] = ((product.to(exact_on) - exact).abs().max() / magnitude).item()
    return result


def _check(errors: dict[str, Any], most: float) -> None:
    assert 1e-3 < errors["tf32"] < 4e-3
    assert 0 < errors["ieee"] < most


@pytest.mark.simulator_only
def test_at_1024(device: Any) -> None:
    _check(_errors(1024, exact_on="cpu"), 1e-5)


def test_at_10240(request: pytest.FixtureRequest, device: Any) -> None:
    if not request.config.getoption("--gpu"):
        pytest.skip("10240 x 10240 in double precision is for a GPU: run with --gpu")
    _check(_errors(10240, exact_on="cuda"), 6e-5)


@pytest.mark.simulator_only
def test_rounding_is_to_nearest_at_10_bits(device: Any) -> None:
    numbers = np.array([1 + 2.0**-11, 1 + 2.0**-12, 1 + 3 * 2.0**-11, -(1 + 2.0**-11)], np.float32)
    x = tensor.from_numpy(numbers).cuda()[:, None]
    one = tensor.ones(1, 1, device="cuda")
    assert (x @ one).flatten().tolist() == [1 + 2.0**-10, 1.0, 1 + 2.0**-9, -(1 + 2.0**-10)]
    # Sums are kept in float32.
    row = tensor.tensor([[1.0, 2.0**-20]], device="cuda")
    assert (row @ tensor.ones(2, 1, device="cuda")).item() == 1 + 2.0**-20

"""Forms that activations have for results of half precision, and of single precision with NumPy alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import drv
import tensor
from nn import functional


@pytest.mark.parametrize("dtype", [tensor.float16, tensor.bfloat16], ids=["float16", "bfloat16"])
def test_gelu_of_every_number_of_half_precision_on_a_device(dtype: Any) -> None:
    """It has a form of its own on devices, which is off by half a unit and a little."""
    drv.simulator.install(check="full")
    numbers = tensor.arange(1 << 16).to(tensor.int16).view(dtype)
    numbers = numbers[numbers.isfinite()]
    for of in (functional.gelu, _slope_of_gelu):
        exact, result = of(numbers.double()), of(numbers.cuda()).cpu().double()
        info = tensor.finfo(dtype)
        away = (result - exact).abs() / (exact.abs() * info.eps).clamp(min=info.tiny)
        # Where the slope is nearly 0, two numbers of the size of 1 have cancelled.
        allowed = 0.55 + (2e-5 / (exact.abs() * info.eps) if of is _slope_of_gelu else 0)
        assert bool((away <= allowed).all()), float((away / allowed).max())


def _slope_of_gelu(x: Any) -> Any:
    x = x.detach().requires_grad_()
    functional.gelu(x).backward(tensor.ones_like(x))
    return x.grad


#: Where exponentials under- and overflow, signs are lost, and squares are too large.
_HARD = [0.0, 1e-45, 1e-38, 1e-30, 0.5, 4.1, 4.3, 5.5, 13.2, 14.5, 14.6, 1e5, 1e20, 3e38]


@pytest.mark.parametrize("largest", [1e5, 3e38])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_gelu_and_erf_of_few_elements_at_their_ends(sign: float, largest: float) -> None:
    """Few elements are NumPy's, which computes gelu and its slope from the normal distribution function at ``-abs(x)``.

    It does so in another way where some are beyond 1e9.
    """
    points = np.array([x for x in _HARD if x <= largest], np.float32) * np.float32(sign)
    x, exact = tensor.from_numpy(points), points.astype(np.float64)
    below, density = special.ndtr(exact), np.exp(-exact * exact / 2) / np.sqrt(2 * np.pi)
    for result, expected in (
        (functional.gelu(x), exact * below),
        (_slope_of_gelu(x), below + exact * density),
        (tensor.erf(x), special.erf(exact)),
    ):
        # Beyond -5 relative errors grow with the square of the operand.
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=3e-45)
    for zero in (functional.gelu(x), tensor.erf(x)):
        assert (np.signbit(zero.numpy()) == np.signbit(points)).all()
    assert float(_slope_of_gelu(x)[0]) == 0.5
    limit = tensor.tensor([sign * float("inf"), float("nan")])
    assert np.isnan(_slope_of_gelu(limit).numpy()).all()
    assert tensor.erf(limit).tolist()[0] == sign
    assert functional.gelu(limit).isnan().tolist() == [sign < 0, True]

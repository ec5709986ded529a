"""Forms that activations have for results of half precision."""

from __future__ import annotations

from typing import Any

import pytest

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

"""Forms that activations have for results of half precision, and of single precision with NumPy alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import special

import drv
import tensor
from nn import functional
from nvrtc_kernels import host_loops
from tensor.core.devices.state import cpu

if TYPE_CHECKING:
    from collections.abc import Iterator


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


@pytest.fixture
def numpy_alone() -> Iterator[None]:
    former = host_loops.mode()
    cpu.plans.clear()
    host_loops.set_mode("off")
    yield
    cpu.plans.clear()
    host_loops.set_mode(former)


_EXPONENTIAL = {
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "softplus": lambda x: np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 30)))),
    "logsigmoid": lambda x: np.minimum(x, 0) - np.log1p(np.exp(-abs(x))),
}


@pytest.mark.usefixtures("numpy_alone")
@pytest.mark.parametrize("name", _EXPONENTIAL)
def test_exponential_activations_of_many_elements(name: str) -> None:
    """They have other forms than those of few elements, whose loops are slow."""
    sizes = np.float32(10.0) ** np.linspace(-37, 1.9, 20_000, dtype=np.float32)
    points = np.concatenate([sizes, -sizes, np.linspace(-30, 30, 60_001, dtype=np.float32)])
    result = getattr(functional, name)(tensor.from_numpy(points)).numpy()
    np.testing.assert_array_max_ulp(
        result, _EXPONENTIAL[name](points.astype(np.float64)).astype(np.float32), 5
    )
    ends = np.tile(np.array([np.inf, -np.inf, np.nan, 3e38, -3e38, 0.0], np.float32), 1000)
    few, many = (getattr(functional, name)(tensor.from_numpy(each)).numpy() for each in (ends[:6], ends))
    np.testing.assert_array_equal(many, np.tile(few, 1000))


@pytest.mark.usefixtures("numpy_alone")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("leaky_relu", (0.25,), lambda x: np.where(x > 0, x, x * 0.25)),
        ("leaky_relu", (0.0,), lambda x: np.where(x > 0, x, x * 0.0)),
        ("leaky_relu", (-2.0,), lambda x: np.where(x > 0, x, x * -2.0)),
        ("hardtanh", (0.0, 6.0), lambda x: np.where(x < 0, 0, np.where(x > 6, 6, x))),
        ("hardtanh", (-1.0, 1.0), lambda x: np.where(x < -1, -1, np.where(x > 1, 1, x))),
        ("hardsigmoid", (), lambda x: np.where(x <= -3, 0, np.where(x >= 3, 1, (x + 3) / 6))),
        ("hardshrink", (0.5,), lambda x: np.where((x >= -0.5) & (x <= 0.5), 0, x)),
        ("softshrink", (0.5,), lambda x: np.where(x > 0.5, x - 0.5, np.where(x < -0.5, x + 0.5, x * 0))),
        ("threshold", (0.5, 7.0), lambda x: np.where(x <= 0.5, 7, x)),
    ],
)
def test_piecewise_linear_activations_of_many_elements(
    name: str, arguments: tuple[float, ...], expected: Any, dtype: Any
) -> None:
    ends = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3.0, -3.0, 0.5, -0.5, 1e-40], dtype)
    points = np.concatenate(
        [np.tile(ends, 50), np.random.default_rng(0).standard_normal(70_003).astype(dtype) * 3]
    )
    with np.errstate(invalid="ignore"):
        reference = expected(points).astype(dtype)
    result = getattr(functional, name)(tensor.from_numpy(points), *arguments).numpy()
    np.testing.assert_array_equal(result, reference)
    zeros = reference == 0
    assert (np.signbit(result[zeros]) == np.signbit(reference[zeros])).all()


@pytest.mark.usefixtures("numpy_alone")
def test_hardswish_of_many_elements() -> None:
    points = np.linspace(-9, 9, 70_007, dtype=np.float32)
    exact = points.astype(np.float64) * np.clip(points.astype(np.float64) + 3, 0, 6) / 6
    result = functional.hardswish(tensor.from_numpy(points)).numpy()
    np.testing.assert_allclose(result, exact, rtol=1e-6, atol=1e-7)
    assert (result[points >= 3] == points[points >= 3]).all()
    ends = tensor.tensor([-np.inf, np.inf, np.nan])
    assert functional.hardswish(ends).tolist()[:2] == [0, np.inf]
    assert functional.hardswish(ends).isnan().tolist() == [False, False, True]

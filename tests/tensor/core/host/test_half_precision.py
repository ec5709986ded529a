"""Half precision becomes single precision and is rounded as IEEE 754 says, element for element as in NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tensor
from nn import functional
from nvrtc_kernels import host_loops
from tensor.core.devices.state import cpu
from tensor.core.host import half_precision

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Every number of half precision, infinities and NaN among them.
BITS = np.arange(1 << 16, dtype=np.uint16)


@pytest.fixture(autouse=True)
def numpy_alone() -> Iterator[None]:
    """Native loops convert by themselves."""
    former = host_loops.mode()
    cpu.plans.clear()
    host_loops.set_mode("off")
    yield
    cpu.plans.clear()
    host_loops.set_mode(former)


@pytest.mark.parametrize("count", [1 << 16, 700, 3])
@pytest.mark.parametrize("reverse", [False, True])
def test_every_number_of_float16_becomes_float32(count: int, reverse: bool) -> None:
    source = (BITS[::-1] if reverse else BITS).view(np.float16)[:count]
    target = np.empty(count, np.float32)
    half_precision.from_float16(target, source)
    np.testing.assert_array_equal(target.view(np.uint32), source.astype(np.float32).view(np.uint32))


def test_finite_numbers_of_float16_alone() -> None:
    """Which take no step for infinities."""
    source = BITS[BITS & 0x7FFF < 0x7C00].view(np.float16)
    target = np.empty(source.size, np.float32)
    half_precision.from_float16(target, source)
    np.testing.assert_array_equal(target.view(np.uint32), source.astype(np.float32).view(np.uint32))


def _round_to_float16(source: Any) -> Any:
    target = np.empty(source.shape, np.float16)
    half_precision.to_float16(target, source)
    return target


def _assert_rounded(source: Any) -> None:
    with np.errstate(all="ignore"):
        expected = source.astype(np.float16)
    result = _round_to_float16(source)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(source))
    numbers = ~np.isnan(source)
    np.testing.assert_array_equal(result.view(np.uint16)[numbers], expected.view(np.uint16)[numbers])


def test_numbers_between_two_of_float16_are_rounded_to_the_nearest_and_to_even_ones() -> None:
    """Every number of float16, the middle between each two, and what lies next to the middle; subnormal ones too."""
    numbers = np.append(BITS[:0x7C00:1].view(np.float16).astype(np.float32), np.float32(65536))
    middle = ((numbers[1:].astype(np.float64) + numbers[:-1]) / 2).astype(np.float32)
    near = [np.nextafter(middle, np.float32(to)) for to in (-np.inf, np.inf)]
    for each in (numbers, middle, *near):
        _assert_rounded(each)
        _assert_rounded(-each)


@pytest.mark.parametrize("seed", range(4))
def test_any_bits_of_float32_are_rounded(seed: int) -> None:
    """With infinities, NaN, numbers that overflow and underflow."""
    _assert_rounded(
        np.random.default_rng(seed).integers(0, 1 << 32, 200_000, dtype=np.uint32).view(np.float32)
    )


def test_arrays_with_gaps_are_converted() -> None:
    x = np.random.default_rng(0).standard_normal((70, 90)).astype(np.float32)
    np.testing.assert_array_equal(_round_to_float16(x[:, ::2]), x[:, ::2].astype(np.float16))
    target = np.zeros((90, 70), np.float16)
    half_precision.to_float16(target.T, x)
    np.testing.assert_array_equal(target.T, x.astype(np.float16))


@pytest.mark.parametrize("dtype", [tensor.float16, tensor.bfloat16], ids=str)
@pytest.mark.parametrize(
    "function",
    [
        tensor.exp, tensor.abs, tensor.neg, tensor.sqrt, tensor.sigmoid, tensor.erf, functional.relu, functional.silu,
        functional.gelu, functional.hardswish,
        lambda x: functional.leaky_relu(x, 0.0), lambda x: functional.leaky_relu(x, -0.0), lambda x: 3 - x, lambda x: x**3,
        lambda x: functional.threshold(x, 0.5, -0.0), lambda x: functional.threshold(x, 0.5, 0.0),
    ],
)  # fmt: skip
def test_results_that_are_looked_up_are_those_that_are_computed(function: Any, dtype: Any) -> None:
    """Large tensors of half precision, by bits or tables, as parts of 2,000 elements are in float32; signs of zeros, too."""
    x = tensor.from_numpy(BITS).view(tensor.int16).view(dtype).repeat(5)
    whole = function(x).float().numpy()
    parts = (
        tensor.cat([function(part.float()).to(dtype) for part in x[: 1 << 16].split(2000)]).float().numpy()
    )
    for each in whole.reshape(5, -1):
        np.testing.assert_array_equal(each, parts)
        numbers = ~np.isnan(parts)
        np.testing.assert_array_equal(np.signbit(each)[numbers], np.signbit(parts)[numbers])


@pytest.mark.parametrize("dtype", [tensor.float16, tensor.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["relu", "abs", "neg", "sigmoid"])
def test_results_by_bits_are_written_in_place_and_with_gaps(name: str, dtype: Any) -> None:
    x = tensor.randn(700, 800).to(dtype)
    expected = getattr(tensor, name)(x.float()).to(dtype)
    assert tensor.equal(getattr(tensor, name)(x[:, ::2]), expected[:, ::2])
    assert tensor.equal(getattr(tensor, name)(x.t()), expected.t())
    assert tensor.equal(getattr(x, f"{name}_")(), expected)
    assert tensor.equal(x, expected)

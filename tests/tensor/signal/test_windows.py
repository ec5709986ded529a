"""Window functions against PyTorch's."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import drv
import tensor
from tensor.signal import windows

OLD = ("bartlett", "blackman", "hamming", "hann", "kaiser")
SIZES = (0, 1, 2, 5, 64)
_OPTIONS: dict[str, list[dict[str, Any]]] = {
    "general_cosine": [{"a": [0.46, 0.23, 0.31]}, {"a": [1.0]}],
    "general_hamming": [{}, {"alpha": 0.5}],
    "gaussian": [{}, {"std": 3.5}],
    "exponential": [{}, {"tau": 2.5}, {"center": 1.0, "tau": 4.0, "sym": False}],
    "kaiser": [{}, {"beta": 0.5}, {"beta": 0.0}],
}


@pytest.mark.parity
@pytest.mark.parametrize("name", OLD)
def test_old_names_against_pytorch(name: str, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    mine, other = getattr(tensor, f"{name}_window"), getattr(torch, f"{name}_window")
    for size in SIZES:
        for periodic in (True, False):
            result = mine(size, periodic, dtype=tensor.float64, device=device_name)
            expected = other(size, periodic, dtype=torch.float64)
            np.testing.assert_allclose(result.cpu().numpy(), expected.numpy(), atol=1e-13)
    result = mine(9, device=device_name)
    assert result.dtype is tensor.float32
    # Worked out in double also where the result is in single precision.
    np.testing.assert_allclose(result.cpu().numpy(), other(9, dtype=torch.float64).numpy(), atol=6e-8)
    assert mine(9, dtype=tensor.float16, device=device_name).dtype is tensor.float16


@pytest.mark.parity
@pytest.mark.parametrize("name", windows.__all__)
def test_against_pytorch(name: str, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    mine, other = getattr(windows, name), getattr(torch.signal.windows, name)
    assert list(inspect.signature(mine).parameters) == list(inspect.signature(other).parameters)
    for size in SIZES:
        for options in _OPTIONS.get(name, [{}]):
            for sym in (True, False):
                argument = {"sym": sym, **options}
                result = mine(size, dtype=tensor.float64, device=device_name, **argument)
                expected = other(size, dtype=torch.float64, **argument)
                np.testing.assert_allclose(
                    result.cpu().numpy(), expected.numpy(), atol=1e-13, err_msg=f"{size} {argument}"
                )


@pytest.mark.parity
def test_all_of_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    assert set(windows.__all__) == set(torch.signal.windows.__all__)


def test_what_they_are_made_with(device_name: str) -> None:
    assert tensor.hamming_window(4, True, 0.5, 0.3, device=device_name).tolist() == pytest.approx(
        [0.2, 0.5, 0.8, 0.5]
    )
    assert tensor.kaiser_window(7, beta=3, device=device_name).shape == (7,)
    assert tensor.hann_window(4, requires_grad=True, device=device_name).requires_grad
    assert windows.hann(4, requires_grad=True, device=device_name).requires_grad
    tensor.set_default_dtype(tensor.float64)
    try:
        assert tensor.hann_window(4).dtype is tensor.float64
        assert windows.hann(4).dtype is tensor.float64
    finally:
        tensor.set_default_dtype(tensor.float32)


def test_pinned() -> None:
    drv.simulator.install()
    result = tensor.hann_window(8, pin_memory=True)
    assert result.is_pinned()
    assert result.tolist() == tensor.hann_window(8).tolist()


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "old, negative": (lambda: tensor.hann_window(-1), RuntimeError, "requires non-negative window_length"),
    "old, integers": (
        lambda: tensor.hann_window(4, dtype=tensor.int32),
        RuntimeError,
        "floating point dtypes",
    ),
    "old, complex": (
        lambda: tensor.hann_window(4, dtype=tensor.complex64),
        RuntimeError,
        "floating point dtypes",
    ),
    "old, fraction": (lambda: tensor.hann_window(2.5), TypeError, "must be int, not float"),
    "negative": (lambda: windows.hann(-1), ValueError, "requires non-negative window length, got M=-1"),
    "half": (
        lambda: windows.hann(4, dtype=tensor.float16),
        ValueError,
        "expects float32 or float64 dtypes",
    ),
    "layout": (lambda: windows.hann(4, layout="sparse"), ValueError, "strided tensors only"),
    "deviation": (lambda: windows.gaussian(4, std=0), ValueError, "must be positive, got: 0"),
    "tau": (lambda: windows.exponential(4, tau=-1), ValueError, "Tau must be positive"),
    "center": (lambda: windows.exponential(4, center=2.0), ValueError, "Center must be None"),
    "no coefficients": (lambda: windows.general_cosine(4, a=[]), ValueError, "cannot be empty"),
    "one coefficient": (lambda: windows.general_cosine(4, a=3), TypeError, "must be a list/tuple, got int"),
    "beta": (lambda: windows.kaiser(4, beta=-1.0), ValueError, "beta must be non-negative"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name: str) -> None:
    call, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        call()

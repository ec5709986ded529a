"""``tensor.testing.make_tensor``: range, dtype, layout, and refusals."""

from __future__ import annotations

from typing import Any

import pytest

import tensor
from tests.pytorch import torch

make_tensor = tensor.testing.make_tensor
DTYPES = ["float16", "bfloat16", "float32", "float64", "complex64", "uint8", "int8", "int64", "bool"]


def _range(x: Any) -> tuple[float, float]:
    x = x.real if x.is_complex() else x
    return x.float().min().item(), x.float().max().item()


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.sampled(4)
def test_range_of_every_dtype(name: str, device_name: str) -> None:
    dtype = getattr(tensor, name)
    x = make_tensor((20, 30), dtype=dtype, device=device_name)
    assert (x.shape, x.dtype, x.device.type) == ((20, 30), dtype, device_name)
    low, high = _range(x)
    least, most = {"uint8": (0, 9), "int8": (-9, 9), "int64": (-9, 9), "bool": (0, 1)}.get(name, (-9, 9))
    assert least <= low < high <= most
    assert high - low > 0.8 * (most - least)


@pytest.mark.parity
@pytest.mark.parametrize("name", DTYPES)
def test_range_is_pytorchs(name: str) -> None:
    for options in ({}, {"low": 1, "high": 2}) if name == "bool" else ({}, {"low": 2, "high": 5}):
        ours, theirs = (
            _range(m.testing.make_tensor(1000, dtype=getattr(m, name), device="cpu", **options))
            for m in (tensor, torch)
        )
        assert ours == pytest.approx(theirs, abs=0.25)


def test_options() -> None:
    x = make_tensor(3, 4, dtype=tensor.float32, device="cpu", noncontiguous=True, requires_grad=True)
    assert x.shape == (3, 4)
    assert not x.is_contiguous()
    assert x.requires_grad
    assert x.is_leaf
    ones = make_tensor(50, dtype=tensor.int64, device="cpu", low=0, high=2, exclude_zero=True)
    assert ones.tolist() == [1] * 50
    image = make_tensor(1, 2, 3, 4, dtype=tensor.float32, device="cpu", memory_format=tensor.channels_last)
    assert image.is_contiguous(memory_format=tensor.channels_last)
    assert make_tensor((), dtype=tensor.float32, device="cpu").shape == ()
    assert make_tensor(0, 3, dtype=tensor.float32, device="cpu").shape == (0, 3)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="requires_grad=True takes a floating point"):
        make_tensor(2, dtype=tensor.int64, device="cpu", requires_grad=True)
    with pytest.raises(ValueError, match="`low` must be less than `high`"):
        make_tensor(2, dtype=tensor.float32, device="cpu", low=2, high=1)
    with pytest.raises(ValueError, match="cannot be given together"):
        make_tensor(
            2, dtype=tensor.float32, device="cpu", noncontiguous=True, memory_format=tensor.contiguous_format
        )

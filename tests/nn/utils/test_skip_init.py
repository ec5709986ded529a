"""Modules without initial values, and weights in another order in memory."""

from __future__ import annotations

from typing import Any

import pytest

import nn
import tensor
from nn.utils import convert_conv2d_weight_memory_format, convert_conv3d_weight_memory_format, skip_init


@pytest.mark.parametrize(
    ("layer", "arguments"),
    [("Linear", (3, 4)), ("Conv2d", (3, 4, 3)), ("Embedding", (5, 3)), ("Bilinear", (2, 3, 4))],
)
def test_no_random_numbers_are_taken(layer: str, arguments: Any) -> None:
    before = tensor.get_rng_state()
    result = skip_init(getattr(nn, layer), *arguments, dtype=tensor.float64)
    assert tensor.equal(tensor.get_rng_state(), before)
    assert result.weight.dtype is tensor.float64
    assert isinstance(result.weight, nn.Parameter)
    # Only there, and only then.
    getattr(nn, layer)(*arguments)
    assert not tensor.equal(tensor.get_rng_state(), before)


def test_an_error_ends_it() -> None:
    with pytest.raises(ValueError, match="groups"):
        skip_init(nn.Conv2d, 3, 4, 3, groups=2)
    assert nn.init.ones_(tensor.zeros(2)).tolist() == [1, 1]


def test_what_cannot_be_skipped() -> None:
    with pytest.raises(RuntimeError, match="Expected a Module"):
        skip_init(dict)
    with pytest.raises(RuntimeError, match="'device'"):
        skip_init(nn.ReLU)


def test_memory_formats_of_convolutions() -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Sequential(nn.ConvTranspose2d(3, 2, 3), nn.Conv3d(2, 2, 2)))
    values = [each.detach().clone() for each in model.parameters()]
    assert convert_conv2d_weight_memory_format(model, tensor.channels_last) is model
    last = [model[0].weight, model[1][0].weight]
    assert all(each.is_contiguous(memory_format=tensor.channels_last) for each in last)
    assert not any(each.is_contiguous() for each in last)
    assert model[1][1].weight.is_contiguous()
    convert_conv3d_weight_memory_format(model, tensor.channels_last_3d)
    assert model[1][1].weight.is_contiguous(memory_format=tensor.channels_last_3d)
    assert all(tensor.equal(one, two) for one, two in zip(values, model.parameters(), strict=True))
    convert_conv2d_weight_memory_format(model, tensor.contiguous_format)
    assert all(each.is_contiguous() for each in last)

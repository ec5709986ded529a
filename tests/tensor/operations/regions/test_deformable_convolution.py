"""Deformable convolutions: without offsets the usual ones, with whole offsets other elements, between them sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
import tensor
from tensor.operations.regions.deformable_convolution import deform_conv2d, deform_conv2d_backward

_RNG = np.random.default_rng(0)


def arguments(device: str, offsets: Any = 0.0, groups: int = 2, offset_groups: int = 2) -> tuple[Any, ...]:
    """Input, weight, offset, mask and bias for a kernel of 3x2, stride (2, 1), padding (1, 1) and dilation (1, 2)."""
    values = (
        _RNG.standard_normal((2, 4, 7, 6)), _RNG.standard_normal((6, 4 // groups, 3, 2)),
        np.zeros((2, 2 * offset_groups * 6, 4, 6)) + offsets, np.ones((2, offset_groups * 6, 4, 6)),
        _RNG.standard_normal(6),
    )  # fmt: skip
    return tuple(tensor.from_numpy(each).to(device) for each in values)


GEOMETRY = (2, 1, 1, 1, 1, 2, 2, 2)


def test_without_offsets_it_is_a_convolution(checked_device: str) -> None:
    x, weight, offset, mask, bias = arguments(checked_device)
    result = deform_conv2d(x, weight, offset, mask * 2, bias, *GEOMETRY, True)
    expected = nn.functional.conv2d(2 * x, weight, bias, (2, 1), (1, 1), (1, 2), 2)
    np.testing.assert_allclose(result.cpu().numpy(), expected.cpu().numpy(), atol=1e-10)


def test_offsets_move_what_is_read() -> None:
    x, weight, offset, mask, bias = arguments("cpu")
    offset.view(2, 2, 6, 2, 4, 6)[:, :, :, 1] = 1.0
    result = deform_conv2d(x, weight, offset, mask, bias, *GEOMETRY, False)
    moved = nn.functional.pad(x, (0, 1))[..., 1:]
    # What is one to the left of the image before is its first column now.
    padded = nn.functional.pad(moved, (1, 1, 1, 1))
    padded[..., 1:-1, 0] = x[..., 0]
    expected = nn.functional.conv2d(padded, weight, bias, (2, 1), 0, (1, 2), 2)
    np.testing.assert_allclose(result.numpy(), expected.numpy(), atol=1e-10)


def test_gradients_are_those_of_differences(checked_device: str) -> None:
    values = arguments(checked_device, _RNG.uniform(-1.3, 1.3, (2, 24, 4, 6)))
    outer = tensor.from_numpy(_RNG.standard_normal((2, 6, 4, 6))).to(checked_device)
    gradients = deform_conv2d_backward(outer, *values, *GEOMETRY, True)
    step = 1e-6
    for number, gradient in enumerate(gradients):
        direction = tensor.from_numpy(_RNG.standard_normal(values[number].shape)).to(checked_device)
        ends = []
        for sign in (1, -1):
            moved = list(values)
            moved[number] = moved[number] + sign * step * direction
            ends.append((deform_conv2d(*moved, *GEOMETRY, True) * outer).sum().item())
        assert (gradient * direction).sum().item() == pytest.approx(
            (ends[0] - ends[1]) / (2 * step), rel=1e-4
        )


def test_bad_input() -> None:
    x, weight, offset, mask, bias = arguments("cpu")
    for changed, message in (
        ((x, weight, offset[:, :5], mask, bias), "offset has sizes"),
        ((x, weight, offset, mask[:1], bias), "mask has sizes"),
        ((x, weight, offset, mask, bias[:2]), "bias has sizes"),
        ((x[:, :2], weight, offset, mask, bias), "do not fit input"),
        ((x, weight.float(), offset, mask, bias), "expected weight on cpu with dtype"),
    ):
        with pytest.raises(RuntimeError, match=message):
            deform_conv2d(*changed, *GEOMETRY, True)

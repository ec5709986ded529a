"""Layers and functions that change the size of images, and those between images and columns."""

from __future__ import annotations

from typing import Any

import pytest

import nn
import tensor
from tests.nn.parity import assert_layer_like_pytorch, assert_like_pytorch

pytestmark = pytest.mark.parity

#: Name, arguments, options, shape of the input.
LAYERS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = {
    "size": ("Upsample", ((7, 5),), {}, (1, 2, 3, 4)),
    "factor": ("Upsample", (), {"scale_factor": 2, "mode": "bilinear"}, (1, 2, 3, 4)),
    "factors": (
        "Upsample",
        (),
        {"scale_factor": (1.5, 2), "mode": "bicubic", "align_corners": True},
        (1, 2, 4, 3),
    ),
    "recomputed": (
        "Upsample",
        (),
        {"scale_factor": 1.4, "mode": "linear", "recompute_scale_factor": True},
        (1, 2, 9),
    ),
    "volume": ("Upsample", (4,), {"mode": "trilinear"}, (1, 1, 2, 3, 3)),
    "nearest": ("UpsamplingNearest2d", (), {"scale_factor": 3}, (1, 2, 3, 2)),
    "bilinear": ("UpsamplingBilinear2d", (5,), {}, (1, 2, 3, 4)),
    "unfold": ("Unfold", ((2, 3),), {"padding": 1, "stride": 2}, (2, 3, 5, 6)),
    "fold": ("Fold", ((4, 5), 2), {"dilation": 2}, (1, 8, 6)),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.sampled(3)
def test_against_pytorch(name: str, device_name: str) -> None:
    layer, arguments, options, shape = LAYERS[name]
    assert_layer_like_pytorch(layer, arguments, options, shape, device_name)


@pytest.mark.parametrize("name", ["upsample", "upsample_nearest", "upsample_bilinear"])
def test_older_names_are_warned_of(name: str) -> None:
    with pytest.warns(UserWarning, match=f"`nn.functional.{name}` is deprecated") as warned:
        result = getattr(nn.functional, name)(tensor.ones(1, 1, 2, 2), scale_factor=2)
    assert [each.filename for each in warned] == [__file__]
    assert result.shape == (1, 1, 4, 4)
    assert_like_pytorch(
        lambda library, layers: getattr(layers.functional, name)(library.arange(6.0).view(1, 1, 2, 3), (4, 3))
    )

"""Layers and functions that change the size of images, and those between images and columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
import tensor
from tests.nn.parity import assert_like_pytorch

_RNG = np.random.default_rng(0)
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
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_against_pytorch(name: str, device: str, request: pytest.FixtureRequest) -> None:
    torch = pytest.importorskip("torch")
    if device == "cuda" and not request.config.getoption("--gpu"):
        import drv

        drv.simulator.install(check="race")
    layer, arguments, options, shape = LAYERS[name]
    mine, theirs = getattr(nn, layer)(*arguments, **options), getattr(torch.nn, layer)(*arguments, **options)
    assert repr(mine) == repr(theirs)
    array = _RNG.standard_normal(shape)
    x = tensor.from_numpy(array.copy()).to(device).requires_grad_()
    y = torch.from_numpy(array.copy()).requires_grad_()
    found, expected = mine(x), theirs(y)
    np.testing.assert_allclose(found.detach().cpu().numpy(), expected.detach().numpy(), atol=1e-12)
    (found**2).sum().backward()
    (expected**2).sum().backward()
    np.testing.assert_allclose(x.grad.cpu().numpy(), y.grad.numpy(), atol=1e-11)


@pytest.mark.parametrize("name", ["upsample", "upsample_nearest", "upsample_bilinear"])
def test_older_names_are_warned_of(name: str) -> None:
    with pytest.warns(UserWarning, match=f"`nn.functional.{name}` is deprecated") as warned:
        found = getattr(nn.functional, name)(tensor.ones(1, 1, 2, 2), scale_factor=2)
    assert [each.filename for each in warned] == [__file__]
    assert found.shape == (1, 1, 4, 4)
    assert_like_pytorch(
        lambda library, layers: getattr(layers.functional, name)(library.arange(6.0).view(1, 1, 2, 3), (4, 3))
    )

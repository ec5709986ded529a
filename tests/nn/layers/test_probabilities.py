"""Softmax layers and those that move channels, against PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

import nn
import tensor
from tests.nn.parity import assert_layer_like_pytorch

LAYERS: dict[str, tuple[str, tuple[Any, ...], tuple[int, ...]]] = {
    "softmax": ("Softmax", (1,), (3, 5)),
    "softmax first": ("Softmax", (0,), (3, 5, 2)),
    "softmin": ("Softmin", (-1,), (3, 5)),
    "log_softmax": ("LogSoftmax", (1,), (3, 5)),
    "softmax2d": ("Softmax2d", (), (2, 3, 4, 5)),
    "shuffle": ("PixelShuffle", (2,), (2, 8, 3, 4)),
    "shuffle one": ("PixelShuffle", (3,), (9, 2, 2)),
    "unshuffle": ("PixelUnshuffle", (2,), (2, 3, 4, 6)),
    "channels": ("ChannelShuffle", (2,), (2, 6, 3, 3)),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", LAYERS)
def test_against_pytorch(name: str, device_name: str) -> None:
    layer, arguments, shape = LAYERS[name]
    assert_layer_like_pytorch(layer, arguments, {}, shape, device_name)


def test_gumbel_softmax() -> None:
    tensor.manual_seed(0)
    logits = tensor.tensor([[0.0, 2.0, -1.0]]).repeat(4000, 1).requires_grad_()
    soft = nn.functional.gumbel_softmax(logits, tau=0.5)
    assert soft.sum(1).sub(1).abs().max().item() < 1e-5
    hard = nn.functional.gumbel_softmax(logits, hard=True)
    # Up to what adding and taking away the soft sample rounds.
    assert hard.detach().sub(hard.detach().round()).abs().max().item() < 1e-6
    shares = hard.detach().mean(0)
    assert (shares - tensor.tensor([0.0, 2.0, -1.0]).softmax(0)).abs().max().item() < 0.03
    hard[:, 0].sum().backward()
    assert logits.grad.abs().sum().item() > 0


def test_normalize() -> None:
    x = tensor.tensor([[3.0, 4.0], [0.0, 0.0]])
    assert nn.functional.normalize(x).tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 0]]
    assert nn.functional.normalize(x, p=1, dim=0)[0].tolist() == [1, 1]


def test_a_dimension_is_better_given() -> None:
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        result = nn.functional.softmax(tensor.zeros(2, 4))
    assert result.sum(1).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.functional.pixel_shuffle(tensor.ones(1, 3, 2, 2), 2), "not divisible by 4"),
        (lambda: nn.functional.pixel_shuffle(tensor.ones(2, 2), 2), "at least 3 dimensions"),
        (lambda: nn.functional.pixel_unshuffle(tensor.ones(1, 3, 3, 2), 2), "3 x 2 is not divisible by 2"),
        (lambda: nn.functional.channel_shuffle(tensor.ones(1, 3, 3), 2), "divisible by groups"),
    ],
)
def test_wrong_arguments(call: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()

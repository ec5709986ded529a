"""The adaptive softmax against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
import tensor
from tests.nn.parity import assert_like_pytorch, copy_weights
from tests.tensor.comparison import array_of

pytestmark = pytest.mark.parity


def test_like_pytorch(device_name: str) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0, head_bias=True)
    mine = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0, head_bias=True)
    assert repr(mine) == repr(theirs)
    copy_weights(mine, theirs)
    mine.to(device_name)
    # Products of float32 matrices on devices are of TF32.
    close = {"rtol": 1e-5 if device_name == "cpu" else 2e-3, "atol": 1e-6 if device_name == "cpu" else 1e-3}
    rng = np.random.default_rng(0)
    x, target = rng.standard_normal((6, 8)).astype(np.float32), np.array([0, 19, 5, 4, 12, 3])
    result = mine(tensor.from_numpy(x).to(device_name), tensor.from_numpy(target).to(device_name))
    expected = theirs(torch.from_numpy(x), torch.from_numpy(target))
    np.testing.assert_allclose(array_of(result.output), array_of(expected.output), **close)
    np.testing.assert_allclose(array_of(result.loss), array_of(expected.loss), **close)
    result.loss.backward()
    expected.loss.backward()
    for left, right in zip(mine.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(array_of(left.grad), array_of(right.grad), **close)
    argument = tensor.from_numpy(x).to(device_name)
    np.testing.assert_allclose(
        array_of(mine.log_prob(argument)), array_of(theirs.log_prob(torch.from_numpy(x))), **close
    )
    assert mine.predict(argument).tolist() == theirs.predict(torch.from_numpy(x)).tolist()
    mine.reset_parameters()
    one = mine(argument[0], tensor.tensor(7, device=device_name))
    assert one.output.shape == ()


def test_what_is_refused() -> None:
    def program(library: Any, layers: Any) -> Any:
        results = []
        layer = layers.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10])
        for call in (
            lambda: layers.AdaptiveLogSoftmaxWithLoss(8, 20, []),
            lambda: layers.AdaptiveLogSoftmaxWithLoss(8, 20, [10, 4]),
            lambda: layers.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 20]),
            lambda: layer(library.zeros(2, 8), library.tensor([0, 20])),
            lambda: layer(library.zeros(2, 8), library.tensor([0])),
            lambda: layer(library.zeros(2, 8), library.tensor([[0]])),
        ):
            try:
                call()
            except Exception as error:
                results.append(type(error).__name__)
        return results

    assert_like_pytorch(program)

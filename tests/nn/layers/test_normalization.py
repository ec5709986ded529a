"""Normalisation layers against PyTorch's: states, running averages, results, texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
import tensor
from tests.nn.parity import assert_like_pytorch, copy_weights
from tests.tensor.comparison import array_of

_RNG = np.random.default_rng(0)
#: Class, arguments, options, shape of the input.
LAYERS: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = [
    ("BatchNorm1d", (3,), {}, (4, 3)),
    ("BatchNorm1d", (3,), {"momentum": None}, (4, 3, 5)),
    ("BatchNorm2d", (3,), {"affine": False, "eps": 1e-2}, (4, 3, 2, 2)),
    ("BatchNorm2d", (3,), {"bias": False}, (4, 3, 2, 2)),
    ("BatchNorm3d", (3,), {"track_running_stats": False}, (2, 3, 2, 2, 2)),
    ("InstanceNorm1d", (3,), {}, (2, 3, 5)),
    ("InstanceNorm1d", (3,), {"affine": True}, (3, 5)),
    ("InstanceNorm2d", (3,), {"affine": True, "track_running_stats": True}, (2, 3, 2, 3)),
    ("InstanceNorm3d", (3,), {}, (2, 3, 2, 2, 2)),
    ("LayerNorm", (5,), {}, (4, 5)),
    ("LayerNorm", ((3, 5),), {"bias": False, "eps": 0.1}, (2, 3, 5)),
    ("LayerNorm", (5,), {"elementwise_affine": False}, (4, 5)),
    ("RMSNorm", (5,), {}, (4, 5)),
    ("RMSNorm", ((3, 5),), {"eps": 0.1, "elementwise_affine": False}, (2, 3, 5)),
    ("GroupNorm", (2, 4), {}, (3, 4, 5)),
    ("GroupNorm", (4, 4), {"affine": False}, (3, 4, 5)),
    ("LocalResponseNorm", (2,), {}, (2, 4, 3)),
]


@pytest.mark.parity
@pytest.mark.parametrize("number", range(len(LAYERS)), ids=lambda number: f"{LAYERS[number][0]}-{number}")
@pytest.mark.sampled(3)
def test_like_pytorch(number: int, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    name, arguments, options, shape = LAYERS[number]
    theirs = getattr(torch.nn, name)(*arguments, **options)
    mine = getattr(nn, name)(*arguments, **options)
    assert repr(mine) == repr(theirs)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.uniform_(0.5, 1.5)
    copy_weights(mine, theirs)
    mine.to(device_name)
    for training in (True, True, False):
        mine.train(training)
        theirs.train(training)
        x = _RNG.standard_normal(shape).astype(np.float32)
        a = tensor.from_numpy(x.copy()).to(device_name).requires_grad_()
        b = torch.from_numpy(x).requires_grad_()
        result, expected = mine(a), theirs(b)
        np.testing.assert_allclose(array_of(result), array_of(expected), rtol=2e-5, atol=2e-5)
        result.square().sum().backward()
        expected.square().sum().backward()
        np.testing.assert_allclose(array_of(a.grad), array_of(b.grad), rtol=2e-4, atol=2e-4)
        for key, value in theirs.state_dict().items():
            np.testing.assert_allclose(
                array_of(mine.state_dict()[key]), array_of(value), rtol=2e-5, atol=1e-6
            )
        for (key, left), (_, right) in zip(mine.named_parameters(), theirs.named_parameters(), strict=True):
            np.testing.assert_allclose(
                array_of(left.grad), array_of(right.grad), rtol=2e-4, atol=2e-4, err_msg=key
            )


@pytest.mark.parity
def test_what_is_refused() -> None:
    def program(library: Any, layers: Any) -> Any:
        results = []
        calls = (
            lambda: layers.BatchNorm1d(3)(library.zeros(1, 3)),
            lambda: layers.BatchNorm1d(3).eval()(library.zeros(1, 3)),
            lambda: layers.BatchNorm2d(3)(library.zeros(2, 3)),
            lambda: layers.BatchNorm1d(3)(library.zeros(2, 4)),
            lambda: layers.InstanceNorm1d(3, affine=True)(library.zeros(2, 4, 5)),
            lambda: layers.InstanceNorm1d(3)(library.zeros(2, 3, 1)),
            lambda: layers.GroupNorm(3, 4),
            lambda: layers.GroupNorm(2, 2)(library.zeros(1, 2, 1)),
            lambda: layers.LayerNorm(3)(library.zeros(2, 4)),
        )
        for call in calls:
            try:
                results.append(call().tolist())
            except Exception as error:
                results.append(type(error).__name__)
        return results

    assert_like_pytorch(program)


@pytest.mark.parity
def test_states_without_numbers_of_batches() -> None:
    def program(library: Any, layers: Any) -> Any:
        layer = layers.BatchNorm1d(2)
        state = {name: value for name, value in layer.state_dict().items() if name != "num_batches_tracked"}
        layer.load_state_dict(state)
        return layer.state_dict()

    assert_like_pytorch(program)


def test_running_averages_start_anew() -> None:
    layer = nn.BatchNorm1d(2)
    layer(tensor.randn(5, 2))
    assert layer.num_batches_tracked.item() == 1
    layer.reset_running_stats()
    assert layer.num_batches_tracked.item() == 0
    np.testing.assert_array_equal(layer.running_var.numpy(), [1, 1])

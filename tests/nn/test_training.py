"""Small networks are trained: what is learned, what memory it takes, and that a checkpoint goes on where it was."""

from __future__ import annotations

import copy
import gc
from typing import Any

import numpy as np
import pytest

import drv
import nn
import tensor
from tests.tensor.comparison import array_of

from .parity import copy_weights

pytestmark = pytest.mark.usefixtures("full_precision")


def network(nn: Any) -> Any:
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 1))


def data(count: int = 16) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    x = np.random.default_rng(0).standard_normal((count, 3)).astype(np.float32)
    return x, (x[:, :1] * x[:, 1:2] + x[:, 2:]).astype(np.float32)


def step(lib: Any, model: Any, x: Any, y: Any, rate: float = 0.05) -> Any:
    """One step of gradient descent; the loss before it."""
    loss = ((model(x) - y) ** 2).mean()
    model.zero_grad()
    loss.backward()
    with lib.no_grad():
        for each in model.parameters():
            each.sub_(each.grad, alpha=rate)
    return loss


@pytest.mark.parity
def test_losses_are_those_of_pytorch(device_name: str) -> None:
    torch = pytest.importorskip("torch")
    model, reference = network(nn), network(torch.nn)
    copy_weights(model, reference)
    model.to(device_name)
    x, y = data()
    mine = [tensor.from_numpy(each).to(device_name) for each in (x, y)]
    theirs = [torch.from_numpy(each) for each in (x, y)]
    result = [step(tensor, model, *mine).item() for _ in range(10)]
    expected = [step(torch, reference, *theirs).item() for _ in range(10)]
    np.testing.assert_allclose(result, expected, rtol=1e-4)
    for key, value in reference.state_dict().items():
        np.testing.assert_allclose(array_of(model.state_dict()[key]), array_of(value), rtol=1e-3, atol=1e-5)


def test_something_is_learned() -> None:
    tensor.manual_seed(0)
    model = network(nn)
    x, y = (tensor.from_numpy(each) for each in data(64))
    losses = [step(tensor, model, x, y).item() for _ in range(300)]
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.parametrize("hooks", [False, True])
def test_memory_is_flat_without_the_garbage_collector(hooks: bool) -> None:
    drv.simulator.install(check="race")
    model = network(nn).cuda()
    if hooks:
        for each in model.modules():
            each.register_forward_hook(lambda module, args, out: None)
            each.register_full_backward_pre_hook(lambda module, out: None)
            each.register_full_backward_hook(lambda module, given, out: None)
    x, y = (tensor.from_numpy(each).cuda().requires_grad_(hooks) for each in data(4))
    gc.collect()
    gc.disable()
    try:
        sizes = []
        for _ in range(6):
            step(tensor, model, x, y)
            sizes.append(tensor.cuda.memory_allocated())
    finally:
        gc.enable()
    assert len(set(sizes[1:])) == 1


def test_going_on_from_a_checkpoint_gives_the_same_losses() -> None:
    tensor.manual_seed(1)
    model = network(nn)
    x, y = (tensor.from_numpy(each) for each in data())
    for _ in range(3):
        step(tensor, model, x, y)
    state = copy.deepcopy(model.state_dict())
    losses = [step(tensor, model, x, y).item() for _ in range(5)]
    other = network(nn)
    other.load_state_dict(state)
    assert [step(tensor, other, x, y).item() for _ in range(5)] == losses


def test_a_module_in_use_is_freed_at_once() -> None:
    import weakref

    gc.collect()
    gc.disable()
    try:
        model = network(nn)
        model.register_full_backward_hook(lambda module, given, out: None)
        model(tensor.ones(1, 3, requires_grad=True)).sum().backward()
        watched = weakref.ref(model[0].weight)
        del model
        assert watched() is None
    finally:
        gc.enable()

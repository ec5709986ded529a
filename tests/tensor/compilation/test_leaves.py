"""Leaves of compiled functions: hooks on their gradients run once in a backward pass, as without compilation."""

from __future__ import annotations

from typing import Any

import pytest

import nn
import tensor

pytestmark = pytest.mark.usefixtures("device")


def _layers() -> Any:
    tensor.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.LayerNorm(4)).cuda()


def _hooked(mode: str | None) -> list[Any]:
    """What hooks have seen, and gradients, after some passes."""
    layers, seen = _layers(), [list[Any]() for _ in range(4)]
    layers[0].weight.register_hook(lambda grad: seen[0].append(grad.clone()) or grad * 2)
    layers[2].weight.register_post_accumulate_grad_hook(lambda x: seen[1].append(x.grad.clone()))
    function = layers.forward if mode is None else tensor.compile(layers.forward, fullgraph=True, mode=mode)
    results = []
    for number in range(5):
        layers.zero_grad()
        x = tensor.full((3, 4), 0.1 * number, device="cuda", requires_grad=True)
        before = x * tensor.linspace(1, 2, 4, device="cuda")
        before.register_hook(lambda grad: seen[2].append(grad.clone()) or grad * 3)
        before.grad_fn.register_prehook(lambda grads: seen[3].append(grads[0].clone()) or (grads[0] + 1,))
        (function(before) ** 2).sum().backward()
        results += [x.grad, *(each.grad.clone() for each in layers.parameters())]
    return [*(x for each in seen for x in each), *results]


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_hooks_on_gradients(mode: str) -> None:
    expected = _hooked(None)
    assert len(expected) == 5 * (4 + 7)
    for one, other in zip(_hooked(mode), expected, strict=True):
        tensor.testing.assert_close(one, other)


def test_hooks_where_gradients_are_set_inside() -> None:
    """They are Python code that each pass runs: such a function is not compiled, whenever the hook comes."""
    layers = _layers()

    def step(x: Any) -> None:
        layers.zero_grad()
        (layers(x) ** 2).sum().backward()

    x = tensor.ones(3, 4, device="cuda")
    compiled = tensor.compile(step)
    for _ in range(2):
        compiled(x)
    assert compiled.programs
    expected = layers[0].weight.grad * 2
    for register in (layers[0].weight.register_hook, layers[0].weight.register_post_accumulate_grad_hook):
        handle = register(_twice)
        compiled.forget()
        with pytest.warns(UserWarning, match=r"cannot be compiled: it calls (_twice|backward)\(\)"):
            compiled(x)
        tensor.testing.assert_close(layers[0].weight.grad, expected)
        handle.remove()
        compiled.forget()
        for _ in range(2):
            compiled(x)
        assert compiled.programs
        handle = register(_twice)
        with pytest.warns(UserWarning, match="cannot be compiled"):
            compiled(x)
        tensor.testing.assert_close(layers[0].weight.grad, expected)
        handle.remove()


def _twice(grad: Any) -> Any:
    """A hook on a gradient, and on what has accumulated one."""
    if grad.grad is None:
        return grad * 2
    grad.grad.mul_(2)
    return None

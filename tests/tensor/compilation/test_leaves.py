"""Where gradients of compiled functions end: what follows there, hooks and the rest of the graph, does so once."""

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


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("name", ["sum", "layer"])
def test_a_function_of_its_own_results(name: str, mode: str) -> None:
    """Its parameters are also what its argument was made of, whose gradients the rest of the pass gives."""
    layers = _layers()
    weight: Any = layers[0].weight
    function = layers.forward if name == "layer" else lambda x: (x + weight[0]) * 2 + weight[1]
    compiled = tensor.compile(function, fullgraph=True, mode=mode)
    for number in range(6):
        results = []
        for each in (function, compiled):
            x = tensor.full((3, 4), 0.1 * number, device="cuda")
            x = x + tensor.linspace(0, 1, 4, device="cuda")
            for _ in range(3):
                x = each(x)
            (first,) = tensor.autograd.grad(x.square().sum(), weight, create_graph=number == 5)
            results.append(first)
            if number == 5:
                results += tensor.autograd.grad(first.square().sum(), weight)
        half = len(results) // 2
        for one, other in zip(results[half:], results[:half], strict=True):
            tensor.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    assert compiled.programs == 2


def test_a_backward_pass_inside_that_goes_on() -> None:
    weight = tensor.ones(4, device="cuda", requires_grad=True)

    def step(x: Any) -> None:
        (x * 2).sum().backward()

    def penalty(x: Any) -> Any:
        return tensor.autograd.grad((x * weight).sum(), weight)[0] * 2

    for function in (step, penalty):
        compiled = tensor.compile(function, fullgraph=True)
        with pytest.raises(tensor.compiler.CompilationError, match="goes on to what a tensor from outside"):
            compiled(weight * 3)


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


def test_a_result_that_another_one_is_computed_from() -> None:
    """Its gradient within the function is not told apart from the rest: where that is asked for, it is refused."""

    def function(x: Any) -> Any:
        y = x * 3
        return y, (y * 2).sum()

    compiled = tensor.compile(function, fullgraph=True)
    for _ in range(2):
        x = tensor.ones(3, device="cuda", requires_grad=True)
        y, total = compiled(x)
        (total + (y * y).sum()).backward()
        assert x.grad is not None and x.grad.tolist() == [24.0] * 3
        # The other result takes no part.
        y, total = compiled(x)
        assert tensor.autograd.grad((y * y).sum(), y)[0].tolist() == [6.0] * 3
        with pytest.raises(RuntimeError, match=r"function\(\): the gradient of a result that another result"):
            tensor.autograd.grad(total + y.sum(), y, allow_unused=True)
        y, total = compiled(x)
        y.retain_grad()
        with pytest.raises(RuntimeError, match=r"function\(\): the gradient of a result that another result"):
            (total + y.sum()).backward()
        y, total = compiled(x)
        y.register_hook(lambda grad: None).remove()
        total.backward()

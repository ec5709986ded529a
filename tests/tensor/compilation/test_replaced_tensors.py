"""Compiled functions that put other tensors in the place of those that they read, as models with a state do."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import nn
import tensor

if TYPE_CHECKING:
    from collections.abc import Callable


class _Mean(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", tensor.zeros(4))

    def forward(self, x: Any) -> Any:
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return x - self.mean


class _Recurrent(nn.Module):
    """Its result and its state show the same memory."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 4)
        self.state: Any = tensor.zeros(2, 4, device="cuda")

    def forward(self, x: Any) -> Any:
        h = self.cell(x, self.state)
        self.state = h.detach()
        return h


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("make", [_Mean, _Recurrent])
def test_states_of_modules(schedule: None, make: Any, mode: str) -> None:
    results: list[list[Any]] = []
    for is_compiled in (False, True):
        tensor.manual_seed(2)
        model = make().cuda()
        if is_compiled:
            tensor.compile(model, fullgraph=True, mode=mode)
        results.append([])
        for _ in range(5):
            x = tensor.randn(2, 4, device="cuda", requires_grad=True)
            result = model(x)
            result.square().sum().backward()
            results[-1] += [result, x.grad, model.state if make is _Recurrent else model.mean]
    assert vars(model)["forward"].programs == 1
    for one, other in zip(*results, strict=True):
        assert one.requires_grad == other.requires_grad
        tensor.testing.assert_close(one, other)


def test_places(device: Any) -> None:
    """Attributes, elements, variables of the enclosing function; new tensors, arguments, and two that change places."""

    def run(compiled: Callable[[Callable[..., Any]], Callable[..., Any]]) -> list[Any]:
        x = tensor.full((3,), 1.5, device="cuda")
        state, elements, total = SimpleNamespace(a=x + 1), [x + 2], x + 3

        @compiled
        def change(x: Any) -> Any:
            nonlocal total
            state.a, elements[0] = elements[0] * x, state.a
            total = total - x
            return state.a + elements[0] + total

        @compiled
        def take(x: Any) -> Any:
            before, state.a = state.a, x
            return before + 1

        results = []
        for number in range(4):
            results += [change(x * number), take(x + number), state.a, elements[0], total]
        return results

    expected = run(lambda function: function)
    for one, other in zip(
        run(lambda function: tensor.compile(function, fullgraph=True)), expected, strict=True
    ):
        assert one.tolist() == other.tolist()


class _Owner:
    value: Any = None


def test_what_is_replaced_in_another_way(device: Any) -> None:
    """Attributes of classes, tensors of other classes, and what is no tensor any more."""
    state: Any = SimpleNamespace(weight=tensor.ones(3, device="cuda"))
    _Owner.value = x = tensor.ones(3, device="cuda")

    def of_class(x: Any) -> Any:
        _Owner.value = _Owner.value * 2
        return _Owner.value + x

    def parameter(x: Any) -> Any:
        state.weight = nn.Parameter(state.weight * 2)
        return state.weight.detach() + x

    def removed(x: Any) -> Any:
        result, state.weight = state.weight + x, None
        return result

    for function, reason, values in (
        (of_class, "replaces 'value', which it reads, by another Tensor", (3.0, 5.0)),
        (parameter, "replaces a tensor that it reads by a new Parameter", (3.0, 5.0)),
        (removed, "replaces a tensor that it reads by a new NoneType", (5.0,)),
    ):
        compiled = tensor.compile(function)
        with pytest.warns(UserWarning, match=reason):
            results = [compiled(x) for _ in values]
        assert [each[0].item() for each in results] == list(values)
        assert compiled.programs == 0


def test_results_that_show_the_same_elements(device: Any) -> None:
    """Each is a tensor of its own, of which one can be differentiated; nothing keeps them alive."""

    def function(x: Any) -> Any:
        y = x.exp()
        return y.detach(), y, y.detach().t()

    compiled = tensor.compile(function, fullgraph=True)
    for _ in range(3):
        x = tensor.randn(2, 3, device="cuda", requires_grad=True)
        first, y, turned = compiled(x)
        assert (first.requires_grad, y.requires_grad, turned.requires_grad) == (False, True, False)
        (expected,) = tensor.autograd.grad(function(x)[1].sum(), x)
        y.sum().backward(retain_graph=True)
        tensor.testing.assert_close(x.grad, expected)
        first.mul_(2)
        assert first.equal(y.detach()) and first.equal(turned.t())
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
    reference = weakref.ref(y)
    del first, y, turned
    gc.collect()
    assert reference() is None
    with pytest.warns(UserWarning, match="two of its results that can be differentiated share memory"):
        tensor.compile(lambda x: (y := x * 2, y[0]))(x)

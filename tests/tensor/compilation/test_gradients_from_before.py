"""Compiled functions that add to gradients which are there before, read them, or depend on whether there are any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import nn
import tensor
from nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

_MODES = ("default", "reduce-overhead")


def _both(run: Callable[[Callable[..., Any]], list[Any]], **options: Any) -> None:
    """What ``run`` gives with functions as they are and with compiled ones is the same."""
    tensor.manual_seed(1)
    expected = run(lambda function: function)
    tensor.manual_seed(1)
    results = run(lambda function: tensor.compile(function, fullgraph=True, **options))
    for one, other in zip(results, expected, strict=True):
        tensor.testing.assert_close(one, other)


@pytest.mark.parametrize("mode", _MODES)
def test_accumulation(schedule: None, mode: str) -> None:
    """Three small batches for each step of the optimizer: the first sets gradients, the others add to them."""
    programs = []

    def run(compiled: Callable[..., Any]) -> list[Any]:
        model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)).cuda()
        optimizer = nn.optim.AdamW(model.parameters(), lr=1e-2)

        def small_batch(x: Any, target: Any) -> Any:
            loss = functional.cross_entropy(model(x), target) / 3
            loss.backward()
            return loss.detach()

        function, losses = compiled(small_batch), []
        for number in range(9):
            x, target = tensor.randn(4, 4, device="cuda"), tensor.randint(0, 3, (4,), device="cuda")
            losses.append(function(x, target))
            if number % 3 == 2:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        programs.append(getattr(function, "programs", None))
        return [*losses, *model.parameters()]

    _both(run, mode=mode)
    assert programs == [None, 2]


@pytest.mark.parametrize("mode", _MODES)
def test_gradients_that_share_memory(schedule: None, mode: str) -> None:
    """They are views of one tensor, and lie in other places later."""

    def run(compiled: Callable[..., Any]) -> list[Any]:
        both = tensor.zeros(6, device="cuda")
        one, other = (tensor.randn(3, device="cuda", requires_grad=True) for _ in range(2))
        one.grad, other.grad = both[:3], both[3:]
        function = compiled(lambda x: ((one * x).sum() + (other * x).square().sum()).backward())
        results = []
        for number in range(8):
            if number == 4:
                one.grad = tensor.zeros(6, device="cuda")[::2]
            function(tensor.randn(3, device="cuda"))
            results += [both.clone(), one.grad.clone()]
        return results

    _both(run, mode=mode)


def test_a_gradient_that_is_an_argument_too(device: Any) -> None:
    def run(compiled: Callable[..., Any]) -> list[Any]:
        weight = tensor.randn(3, device="cuda", requires_grad=True)
        weight.grad, other = (tensor.zeros(3, device="cuda") for _ in range(2))

        def function(x: Any, y: Any) -> Any:
            (weight * x).sum().backward()
            return y * 2

        call, results = compiled(function), []
        for y in (weight.grad, weight.grad, other, weight.grad, other):
            results += [call(tensor.ones(3, device="cuda"), y), weight.grad.clone(), other.clone()]
        return results

    _both(run)


def test_zeros_and_steps_by_hand(device: Any) -> None:
    """Gradients that are set to zero or None, parameters that the function itself moves, norms of what is there."""

    def run(compiled: Callable[..., Any]) -> list[Any]:
        model = nn.Linear(3, 3).cuda()
        parameters: Any = list(model.parameters())
        optimizer = nn.optim.SGD(parameters, lr=0.1, momentum=0.9)

        def zeroed(x: Any) -> Any:
            optimizer.zero_grad(set_to_none=False)
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        def moved(x: Any) -> Any:
            loss = model(x).square().mean()
            loss.backward()
            with tensor.no_grad():
                for each in parameters:
                    each -= 0.1 * each.grad
                    each.grad = None
            return loss.detach()

        def norm(x: Any) -> Any:
            # The loss is differentiated outside.
            return model(x).sum(), sum(each.grad.square().sum() for each in parameters).sqrt()

        functions, results = [compiled(each) for each in (zeroed, norm, moved)], []
        clip = compiled(lambda: nn.utils.clip_grad_norm_(parameters, 0.1))
        for _ in range(3):
            for function in functions:
                result = function(tensor.randn(2, 3, device="cuda"))
                results.append(result[-1] if function is functions[1] else result)
                if function is functions[1]:
                    result[0].backward()
                    results += [clip(), *(each.grad.clone() for each in parameters)]
            results += [each.detach().clone() for each in parameters]
        return results

    _both(run)


def test_whether_there_is_a_gradient(device: Any) -> None:
    """A function that asks for it has a program for either answer, also where what is asked for is cleared again."""
    weight, other = (tensor.ones(3, device="cuda", requires_grad=True) for _ in range(2))
    doubled = tensor.compile(lambda x: x * 2 if weight.grad is None else x * 3, fullgraph=True)
    clip = tensor.compile(lambda: nn.utils.clip_grad_norm_([weight, other], 9.0), fullgraph=True)
    x = tensor.ones(3, device="cuda")
    for number in (0, 1, 0, 1):
        weight.grad, other.grad = x, x * 2 if number else None
        assert doubled(x).tolist() == [3.0] * 3
        assert clip().item() == pytest.approx((3 + 12 * number) ** 0.5)
        weight.grad = None
        assert doubled(x).tolist() == [2.0] * 3
    assert doubled.programs == clip.programs == 2


def test_gradients_that_are_cleared_where_there_were_none(device: Any) -> None:
    weight = tensor.ones(3, device="cuda", requires_grad=True)

    def function(x: Any) -> Any:
        weight.grad = None
        return weight.detach() + x

    compiled, x = tensor.compile(function, fullgraph=True), tensor.ones(3, device="cuda")
    for _ in range(2):
        compiled(x)
        weight.grad = x.clone()
        compiled(x)
        assert weight.grad is None


def test_two_passes_around_a_step(device: Any) -> None:
    """The second one adds to gradients that the optimizer has found at the parameters."""

    def run(compiled: Callable[..., Any]) -> list[Any]:
        weight = tensor.randn(3, device="cuda", requires_grad=True)
        optimizer = nn.optim.SGD([weight], lr=0.1)

        def step(x: Any) -> None:
            for scale in (1.0, 2.0):
                (weight * x * scale).square().sum().backward()
                if scale == 1.0:
                    optimizer.step()

        function, results = compiled(step), []
        for number in range(6):
            function(tensor.randn(3, device="cuda"))
            assert weight.grad is not None
            results += [weight.detach().clone(), weight.grad.clone()]
            if number % 2:
                weight.grad = None
        return results

    _both(run)


def test_an_average_of_parameters(device: Any) -> None:
    """What is written to leaves that require grad, outside of recording, is in no graph."""

    def run(compiled: Callable[..., Any]) -> list[Any]:
        model, average = nn.Linear(3, 3).cuda(), nn.Linear(3, 3).cuda()
        optimizer = nn.optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any) -> None:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            with tensor.no_grad():
                for mean, each in zip(average.parameters(), model.parameters(), strict=True):
                    mean.lerp_(each, 0.1)
                model.weight.clamp_(-0.3, 0.3)

        function = compiled(step)
        for _ in range(3):
            function(tensor.randn(2, 3, device="cuda"))
        return [*average.parameters(), *model.parameters()]

    _both(run)

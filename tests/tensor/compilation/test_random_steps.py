"""Random steps of training leave what they leave uncompiled: parameters, gradients from before, buffers, states, averages."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import drv
import nn
import tensor
from drv.host import machine_code
from nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

_CALLS = 5


def _clip(s: Any, h: Any) -> None:
    if s.w.grad is not None:
        s.outputs.append(nn.utils.clip_grad_norm_([s.w, s.v], 0.5))


def _backward(s: Any, h: Any) -> Any:
    loss = (h * s.v).square().mean() + (s.w * 0.1).sum()
    loss.backward()
    s.outputs.append(loss.detach())
    return h.detach()


def _clear(s: Any, h: Any) -> None:
    s.w.grad = s.v.grad = None


def _zero(s: Any, h: Any) -> None:
    for each in (s.w, s.v):
        if each.grad is not None:
            each.grad.zero_()


def _move(s: Any, h: Any) -> None:
    with tensor.no_grad():
        for each in (s.w, s.v):
            if each.grad is not None:
                each.sub_(each.grad, alpha=0.05)


def _average(s: Any, h: Any) -> None:
    with tensor.no_grad():
        s.average.lerp_(s.w, 0.1)
        s.w.clamp_(-0.7, 0.7)


def _read_gradient(s: Any, h: Any) -> Any:
    return h * (2.0 if s.v.grad is None else 1.0) + (0 if s.w.grad is None else s.w.grad.sum(0))


def _count(s: Any, h: Any) -> None:
    s.total.add_(h.detach().mean(0))


def _replace(s: Any, h: Any) -> None:
    s.states[0] = 0.5 * s.states[0] + h.detach().mean(0)


def _replace_by_parts(s: Any, h: Any) -> None:
    s.total = s.w.detach().sum(0) * 0.1


def _swap(s: Any, h: Any) -> None:
    s.states.reverse()


#: What a step may do to the activations ``h``, and to what it keeps.
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "linear": lambda s, h: functional.linear(h, s.w, s.v),
    "tanh": lambda s, h: h.tanh(),
    "softmax": lambda s, h: h.softmax(-1),
    "rows": lambda s, h: h[tensor.arange(len(h), device=h.device).flip(0)],
    "dropout": lambda s, h: functional.dropout(h, 0.3),
    "states": lambda s, h: h * s.states[0] + s.total * s.states[1],
    "backward": _backward,
    "clear": _clear,
    "zero": _zero,
    "zero_grad": lambda s, h: s.optimizer.zero_grad(),
    "zeros": lambda s, h: s.optimizer.zero_grad(set_to_none=False),
    "step": lambda s, h: s.optimizer.step(),
    "clip": _clip,
    "move": _move,
    "average": _average,
    "read": _read_gradient,
    "count": _count,
    "replace": _replace,
    "replace by parts": _replace_by_parts,
    "swap": _swap,
}


def _strided_gradient(s: Any) -> None:
    s.w.grad = tensor.ones(4, 4, device=s.w.device).t()


def _other_states(s: Any) -> None:
    s.total, s.states[0] = (tensor.full((4,), value, device=s.w.device) for value in (1.0, 0.25))


#: What happens between calls.
_BETWEEN: tuple[Callable[[Any], None], ...] = (
    lambda s: None,
    lambda s: None,
    lambda s: _clear(s, None),
    lambda s: _zero(s, None),
    lambda s: s.optimizer.step(),
    _strided_gradient,
    _other_states,
)


def _outcome(seed: int, device: str, compiled: Callable[[Any], Any]) -> list[Any]:
    """What several calls of a random step give and leave."""
    draw = random.Random(seed)
    names = [draw.choice([*_OPERATIONS, "backward", "linear"]) for _ in range(draw.randint(2, 9))]
    tensor.manual_seed(seed)
    s = SimpleNamespace(
        w=tensor.randn(4, 4, device=device).mul_(0.5).requires_grad_(),
        v=tensor.randn(4, device=device, requires_grad=True),
        average=tensor.randn(4, 4, device=device, requires_grad=True),
        total=tensor.zeros(4, device=device),
        states=[tensor.full((4,), value, device=device) for value in (1.0, 0.5)],
    )
    s.optimizer = nn.optim.SGD([s.w, s.v], lr=0.05, momentum=0.9)

    def step(x: Any) -> list[Any]:
        s.outputs, h = [], x
        for name in names:
            result = _OPERATIONS[name](s, h)
            h = result if isinstance(result, tensor.Tensor) else h
        outputs, s.outputs = [*s.outputs, h.detach().sum()], None
        return outputs

    function, results = compiled(step), []
    s.outputs = None
    for _ in range(_CALLS):
        results += function(tensor.randn(3, 4, device=device))
        left = (s.w, s.v, s.average, s.total, *s.states, s.w.grad, s.v.grad)
        results += [None if each is None else each.detach().clone() for each in left]
        draw.choice(_BETWEEN)(s)
    return results


def _check(seed: int, device: str) -> None:
    mode = "reduce-overhead" if seed % 3 == 0 and device == "cuda" else "default"
    expected = _outcome(seed, device, lambda step: step)
    results = _outcome(seed, device, lambda step: tensor.compile(step, mode=mode))
    assert [each is None for each in results] == [each is None for each in expected]
    for one, other in zip(results, expected, strict=True):
        if one is not None:
            tensor.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore:.*cannot be compiled")
@pytest.mark.parametrize("seed", (0, 1))
def test_random_steps(schedule: None, seed: int) -> None:
    _check(seed, "cuda")


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:.*cannot be compiled")
@pytest.mark.parametrize("start", range(100, 300, 20))
def test_many_random_steps(start: int) -> None:
    for seed in range(start, start + 20):
        with drv.simulator.installed(check="full", schedule=("lazy", "random", "eager")[seed % 3]):
            _check(seed, "cuda")
            assert not list(drv.simulator.findings())


@pytest.mark.skipif(not machine_code.available(), reason="llvmlite is not installed")
@pytest.mark.filterwarnings("ignore:.*cannot be compiled")
@pytest.mark.parametrize("seed", range(10, 13))
def test_random_steps_on_the_cpu(native_loops: None, seed: int) -> None:
    _check(seed, "cpu")

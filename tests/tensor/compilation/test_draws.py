"""Random numbers of recorded functions, in particular of parts that run again in the backward pass."""

from __future__ import annotations

from typing import Any

import pytest

import nn
import tensor
from tensor import cuda
from tensor.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("device")


def _layers() -> Any:
    tensor.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 8), nn.Dropout(0.5)).cuda()


def _steps(function: Any, layers: Any, count: int) -> list[Any]:
    """Results, gradients and numbers drawn after them."""
    tensor.manual_seed(4)
    x, results = tensor.linspace(-1, 1, 32, device="cuda").view(4, 8), []
    for _ in range(count):
        result = function(x)
        gradients = tensor.autograd.grad(result.sum(), list(layers.parameters()))
        results += [result.detach(), *gradients, tensor.rand(3, device="cuda")]
    return results


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_checkpoints(mode: str) -> None:
    """The second time they draw what they drew the first time, as without compilation."""
    layers = _layers()

    def function(x: Any) -> Any:
        x = checkpoint(layers, x, use_reentrant=False)
        return nn.functional.dropout(checkpoint(layers, x, use_reentrant=False), 0.3, True)

    compiled = tensor.compile(function, fullgraph=True, mode=mode)
    expected = _steps(function, layers, 5)
    assert all(
        tensor.equal(one, other) for one, other in zip(_steps(compiled, layers, 5), expected, strict=True)
    )
    assert compiled.programs == 1


def test_a_backward_pass_that_cannot_be_recorded() -> None:
    layers = _layers()
    x = tensor.ones(4, 8, device="cuda", requires_grad=True)
    compiled = tensor.compile(lambda x: checkpoint(layers, x, use_reentrant=True))
    with pytest.warns(UserWarning, match="its backward pass cannot be recorded: When use_reentrant=True"):
        compiled(x).sum().backward()
    assert x.grad is not None
    compiled(x).sum().backward()


class _Noise(tensor.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad + tensor.rand_like(grad)


def _seeding(x: Any) -> Any:
    tensor.manual_seed(3)
    return x * tensor.rand_like(x)


def _drawing_on_the_host(x: Any) -> Any:
    tensor.rand(2)
    return x * tensor.rand_like(x)


def _going_back(x: Any) -> Any:
    state = cuda.get_rng_state()
    x = x * tensor.rand_like(x)
    cuda.set_rng_state(state)
    return x


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (_Noise.apply, "its backward pass draws random numbers"),
        (_seeding, "in a way that compilation does not follow"),
        (_drawing_on_the_host, "in a way that compilation does not follow"),
        (_going_back, "in a way that compilation does not follow"),
    ],
)
def test_what_is_not_followed(function: Any, reason: str) -> None:
    x = tensor.ones(4, device="cuda", requires_grad=True)
    compiled = tensor.compile(lambda x: function(x), fullgraph=True)
    with pytest.raises(tensor.compiler.CompilationError, match=reason):
        compiled(x)

"""Operations that are a step of a program as a whole: compiled they give what they give uncompiled, on each device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import tensor
from nn import functional
from tensor.distributions import Bernoulli, Categorical
from tests.thinning import thinned

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.simulator_only


def _grid(x: Any) -> Any:
    return tensor.linspace(-1, 1, 3, device=x.device).expand(2, 4, 3)[..., None].repeat(1, 1, 1, 2)


def _classes(x: Any) -> Any:
    return (x[:, 0, 0, :3].abs() * 5).long() % 6


def _probabilities(x: Any) -> Any:
    return x[0, 0].sigmoid()


#: By name, what is computed of images (2, 4, 6, 6).
_OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "max_pool2d": lambda x: functional.max_pool2d(x, 2),
    "max_pool2d, channels last": lambda x: functional.max_pool2d(
        x.contiguous(memory_format=tensor.channels_last), 3, 2, 1
    ),
    "max_pool1d with indices": lambda x: functional.max_pool1d(x[0], 2, return_indices=True)[0],
    "adaptive_max_pool2d": lambda x: functional.adaptive_max_pool2d(x, 3),
    "nearest": lambda x: functional.interpolate(x, scale_factor=2),
    "bilinear": lambda x: functional.interpolate(x, size=(4, 9), mode="bilinear"),
    "bicubic": lambda x: functional.interpolate(x, scale_factor=0.5, mode="bicubic", antialias=True),
    "reflected": lambda x: functional.pad(x, (1, 2, 0, 3), mode="reflect"),
    "circular": lambda x: functional.pad(x, (1, 2, 0, 3), mode="circular"),
    "grid_sample": lambda x: functional.grid_sample(x, _grid(x), align_corners=False),
    "grid_sample of a computed grid": lambda x: functional.grid_sample(
        x.detach(), x[:, :2].permute(0, 2, 3, 1).tanh(), align_corners=True
    ),
    "one_hot": lambda x: functional.one_hot(_classes(x), 6) * x[0, 0, 0],
    "searchsorted": lambda x: tensor.searchsorted(tensor.linspace(-1, 1, 5, device=x.device), x.detach()) * x,
    "bucketize": lambda x: tensor.bucketize(x.detach(), tensor.tensor([-1.0, 0.0, 0.5], device=x.device)) * x,
    "histc": lambda x: tensor.histc(x.detach(), 4, -1, 1) * x[0, 0, 0, 0],
    "embedding_bag": lambda x: functional.embedding_bag(
        _classes(x), x[0, 0], per_sample_weights=x[:, 1, 0, :3], mode="sum"
    ),
    "embedding_bag with offsets": lambda x: functional.embedding_bag(
        _classes(x).flatten(), x[0, 0], tensor.tensor([0, 2, 5], device=x.device), mode="mean"
    ),
    "bce": lambda x: functional.binary_cross_entropy(_probabilities(x), _probabilities(x.detach().flip(-1))),
    "bernoulli": lambda x: tensor.bernoulli(_probabilities(x).detach()) * x,
    "a mask of probability": lambda x: x.new_empty(2, 1, 1, 1).bernoulli_(0.7).div_(0.7) * x,
    "bernoulli_": lambda x: tensor.empty(6, device=x.device).bernoulli_(_probabilities(x.detach())[0]) * x,
    "numbers": lambda x: x * tensor.tensor([1.0, 2.5, -1, 0, 3, 4], device=x.device),
    "numbers as indices": lambda x: x[:, [2, 0, 3]] + x[:, :1],
    "linspace": lambda x: x * tensor.linspace(0, 1, 6, device=x.device),
    "a categorical": lambda x: (
        Categorical(logits=x[0, 0]).log_prob(x[1, 1].detach().argmax(-1))
        + Categorical(logits=x[0, 1]).entropy()
    ),
    "a bernoulli": lambda x: Bernoulli(_probabilities(x)).log_prob((x[0, 0].detach() > 0).float()),
    # Of the following the host does a part.
    "multinomial": lambda x: x[0, 0, tensor.multinomial(_probabilities(x.detach()), 3)[:, 0]],
    "multinomial with replacement": lambda x: x[0, 0, tensor.multinomial(x[0, 0, 0].detach().abs(), 9, True)],
    "randperm": lambda x: x.flatten()[tensor.randperm(20, device=x.device)],
    "normal": lambda x: tensor.normal(x.detach(), x.detach().abs()) * x,
    "poisson": lambda x: tensor.poisson(x.detach().abs()) * x,
    "a gaussian loss": lambda x: functional.gaussian_nll_loss(x[0], x[1].detach(), x[0].detach().square()),
}


def _outcome(function: Callable[[Any], Any], x: Any, grad: bool) -> list[Any]:
    tensor.manual_seed(5)
    x = x.detach().requires_grad_(grad)
    result = function(x)
    return [result, *tensor.autograd.grad(result.sum(), x)] if grad else [result]


def _check(operation: Callable[[Any], Any], device: str, **options: Any) -> None:
    def function(x: Any) -> Any:
        return operation(x * 1.5) + 1

    x = tensor.randn(2, 4, 6, 6, generator=tensor.Generator().manual_seed(1)).to(device)
    compiled = tensor.compile(function, fullgraph=True, **options)
    for grad in (True, False):
        expected = _outcome(function, x, grad)
        for _ in range(5 if options else 2):
            for one, other in zip(_outcome(compiled, x, grad), expected, strict=True):
                tensor.testing.assert_close(one, other)
    assert compiled.programs == 2


@pytest.mark.parametrize("name", _OPERATIONS)
def test_on_a_device(schedule: None, name: str) -> None:
    _check(_OPERATIONS[name], "cuda")


#: Their kernels are those of the test above: one in three shows what a graph does with them.
@pytest.mark.parametrize("name", thinned(_OPERATIONS, lambda name: list(_OPERATIONS).index(name) % 3 == 0))
def test_replayed(schedule: None, name: str) -> None:
    _check(_OPERATIONS[name], "cuda", mode="reduce-overhead")


@pytest.mark.parametrize("name", _OPERATIONS)
def test_on_the_cpu(native_loops: None, name: str) -> None:
    _check(_OPERATIONS[name], "cpu")


def test_values_that_are_checked_on_the_cpu(native_loops: None) -> None:
    """In each call, as they are uncompiled."""
    checks: list[tuple[Callable[[Any], Any], float, float, str]] = [
        (lambda x: functional.binary_cross_entropy(x, x * 0), 0.5, 1.5, "between 0 and 1"),
        (lambda x: functional.one_hot(x.long(), 3), 2.0, 3.0, "3 is not below 3"),
        (lambda x: tensor.bernoulli(x), 0.5, -0.5, r"\[0, 1\], but got p=-0.5"),
        (lambda x: tensor.multinomial(x, 2, replacement=True), 0.5, -0.5, "element < 0"),
        (lambda x: tensor.normal(x, x), 0.5, -0.5, "the smallest is -0.5"),
        (lambda x: Bernoulli(x).entropy(), 0.5, 1.5, "parameter probs .* must satisfy the constraint"),
    ]
    for function, valid, wrong, text in checks:
        compiled = tensor.compile(function, fullgraph=True)
        for _ in range(2):
            compiled(tensor.full((4,), valid))
        with pytest.raises((RuntimeError, ValueError), match=text):
            compiled(tensor.full((4,), wrong))
        assert compiled.programs == 1

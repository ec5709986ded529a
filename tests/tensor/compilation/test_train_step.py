"""Steps of training that are compiled as a whole: forward, ``backward()``, clipping, optimizer and scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import drv
import nn
import tensor
from nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable


class _Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.2), nn.Linear(8, 3)
        )

    def forward(self, x: Any, y: Any) -> Any:
        return functional.cross_entropy(self.layers(x), y)


class _GPT(nn.Module):
    """One block of attention and its perceptron, of which the head shares the embedding's weight."""

    def __init__(self) -> None:
        super().__init__()
        self.characters, self.positions = nn.Embedding(8, 8), nn.Embedding(4, 8)
        self.norm1, self.attend, self.project = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)
        self.norm2, self.mlp = (
            nn.LayerNorm(8),
            nn.Sequential(nn.Linear(8, 16), nn.GELU("tanh"), nn.Linear(16, 8)),
        )
        self.drop, self.head = nn.Dropout(0.1), nn.Linear(8, 8, bias=False)
        self.head.weight = self.characters.weight

    def forward(self, x: Any, y: Any) -> Any:
        count, length = x.shape
        with tensor.autocast("cuda", dtype=tensor.bfloat16):
            h = self.characters(x) + self.positions(tensor.arange(length, device=x.device))
            q, k, v = self.attend(self.norm1(h)).view(count, length, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
            a = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + self.drop(self.project(a.transpose(1, 2).reshape(count, length, 8)))
            h = h + self.drop(self.mlp(self.norm2(h)))
            return functional.cross_entropy(self.head(h).flatten(0, 1), y.flatten())


def _train(
    make: Callable[[], Any], optimizer_class: Any, batches: list[Any], *, compiled: bool, **options: Any
) -> list[Any]:
    """Losses, parameters and gradients after a step for each of ``batches``."""
    tensor.manual_seed(3)
    model = make().to("cuda")
    optimizer = optimizer_class(model.parameters(), **options)
    scheduler = nn.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        return loss

    run: Any = tensor.compile(step, fullgraph=True) if compiled else step
    losses = [run(x, y) for x, y in batches]
    assert all(loss.requires_grad for loss in losses)
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        losses[-1].backward()
    if compiled:
        assert run.programs == 1
        text = run.explain(*batches[0])
        assert text.startswith("forward and backward: ")
        assert f"{optimizer_class.__name__}.step()" in text
        assert "StepLR.step()" in text
    return [*(loss.detach() for loss in losses), *model.parameters(), *(x.grad for x in model.parameters())]


def _check(make: Callable[[], Any], optimizer_class: Any, batches: list[Any], **options: Any) -> None:
    expected, results = (
        _train(make, optimizer_class, batches, compiled=compiled, **options) for compiled in (False, True)
    )
    for number, (one, other) in enumerate(zip(results, expected, strict=True)):
        assert tensor.equal(one, other), number


def _pairs(count: int) -> list[Any]:
    return [
        (tensor.randn(4, 6, device="cuda"), tensor.randint(0, 3, (4,), device="cuda")) for _ in range(count)
    ]


def _texts(count: int) -> list[Any]:
    return [tuple(tensor.randint(0, 8, (2, 4), device="cuda") for _ in range(2)) for _ in range(count)]


def test_a_perceptron(device: drv.Device) -> None:
    _check(_Perceptron, nn.optim.SGD, _pairs(4), lr=0.1, momentum=0.9)


def test_a_gpt(device: drv.Device) -> None:
    _check(_GPT, nn.optim.AdamW, _texts(3), lr=0.01)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["SGD", "AdamW", "Adam", "RMSprop", "Adagrad"])
def test_twenty_steps(name: str) -> None:
    drv.simulator.install(memory="2GiB", check="full")
    optimizer = getattr(nn.optim, name)
    _check(_Perceptron, optimizer, _pairs(20), lr=0.05)
    _check(_GPT, optimizer, _texts(20), lr=0.01)


def test_gradients_that_are_there_before(device: drv.Device) -> None:
    """Without ``zero_grad`` a step adds to them: that is done as it is, and a step that found none is not repeated."""
    model = nn.Linear(3, 2, device="cuda")
    x = tensor.ones(4, 3, device="cuda")

    def step(x: Any) -> None:
        model(x).sum().backward()

    compiled = tensor.compile(step)
    for count in (1.0, 2.0, 3.0):
        if count == 2.0:
            with pytest.warns(UserWarning, match="it writes to a tensor that comes from where"):
                compiled(x)
        else:
            compiled(x)
        assert model.bias.grad is not None
        assert model.bias.grad.tolist() == [4 * count] * 2
    model.zero_grad()
    compiled(x)
    assert model.bias.grad is not None
    assert model.bias.grad.tolist() == [4.0] * 2


def test_what_an_optimizer_keeps_is_not_read(device: drv.Device) -> None:
    model = nn.Linear(3, 2, device="cuda")
    optimizer = nn.optim.SGD(model.parameters(), lr=0.5)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        (model(x).sum() * optimizer.param_groups[0]["lr"]).backward()
        optimizer.step()

    compiled = tensor.compile(step)
    with pytest.warns(UserWarning, match="it reads param_groups of a SGD, which changes with each step"):
        compiled(tensor.ones(4, 3, device="cuda"))
    compiled(tensor.ones(4, 3, device="cuda"))
    assert compiled.programs == 0
    assert model.bias.grad is not None
    assert model.bias.grad.tolist() == [2.0] * 2


def test_a_result_that_can_be_differentiated_afterwards(device: drv.Device) -> None:
    weight = tensor.ones(3, device="cuda", requires_grad=True)

    def step(x: Any) -> Any:
        result = (weight * x).exp()
        result.sum().backward(retain_graph=True)
        return result

    x = tensor.ones(3, device="cuda")
    compiled = tensor.compile(step)
    with pytest.warns(UserWarning, match=r"it calls backward\(\), and its result can be differentiated"):
        result = compiled(x)
    result.sum().backward()
    tensor.testing.assert_close(weight.grad, 2 * tensor.full((3,), 1.0, device="cuda").exp())

"""Steps of training that are compiled as a whole: forward, ``backward()``, clipping, optimizer and scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import drv
import nn
import tensor
from nn import functional
from nvrtc_kernels import fused_products, outer_sums
from tensor.compilation import fusion

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


class _Residual(nn.Module):
    """A convolution, and a block of two with its shortcut, as those of a ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True)
        )
        self.first, self.norm1 = nn.Conv2d(4, 4, 3, 2, 1, bias=False), nn.BatchNorm2d(4)
        self.second, self.norm2 = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.shortcut = nn.Sequential(nn.Conv2d(4, 4, 1, 2, bias=False), nn.BatchNorm2d(4))
        self.relu, self.head = nn.ReLU(inplace=True), nn.Linear(4, 3)

    def forward(self, x: Any, y: Any) -> Any:
        x = self.stem(x)
        h = self.relu(self.norm1(self.first(x)))
        h = self.norm2(self.second(h))
        h += self.shortcut(x)
        return functional.cross_entropy(self.head(self.relu(h).mean((2, 3))), y)


class _LSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.characters, self.layers = nn.Embedding(8, 4), nn.LSTM(4, 4, 2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(4, 8)

    def forward(self, x: Any, y: Any) -> Any:
        return functional.cross_entropy(
            self.head(self.layers(self.characters(x))[0]).flatten(0, 1), y.flatten()
        )


class _ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.positions = nn.Conv2d(2, 8, 2, 2), nn.Parameter(tensor.randn(1, 5, 8) * 0.02)
        self.first = nn.Parameter(tensor.zeros(1, 1, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 16, 0.1, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x: Any, y: Any) -> Any:
        h = self.patches(x).flatten(2).transpose(1, 2)
        h = tensor.cat([self.first.expand(len(x), -1, -1), h], 1) + self.positions
        return functional.cross_entropy(self.head(self.norm(self.encoder(h))[:, 0]), y)


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
    gradients = [x.grad for x in model.parameters()]
    return [*(loss.detach() for loss in losses), *model.parameters(), *model.buffers(), *gradients]


def _check(
    make: Callable[[], Any], optimizer_class: Any, batches: list[Any], *, tolerance: float = 0, **options: Any
) -> None:
    expected, results = (
        _train(make, optimizer_class, batches, compiled=compiled, **options) for compiled in (False, True)
    )
    for one, other in zip(results, expected, strict=True):
        tensor.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def _pairs(count: int) -> list[Any]:
    return [
        (tensor.randn(4, 6, device="cuda"), tensor.randint(0, 3, (4,), device="cuda")) for _ in range(count)
    ]


def _texts(count: int) -> list[Any]:
    return [tuple(tensor.randint(0, 8, (2, 4), device="cuda") for _ in range(2)) for _ in range(count)]


def _images(count: int) -> list[Any]:
    return [
        (tensor.randn(2, 2, 4, 4, device="cuda"), tensor.randint(0, 3, (2,), device="cuda"))
        for _ in range(count)
    ]


def _leave_products_to_cublas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all be the same as without compilation, bit for bit: kernels of our own add in another order."""
    for each in (fused_products, outer_sums):
        monkeypatch.setattr(each, "takes", lambda *_: False)
    # Gelu of what is not rounded before.
    monkeypatch.setattr(fusion, "activated_products", lambda *_: {})


def test_a_perceptron(device: drv.Device) -> None:
    _check(_Perceptron, nn.optim.SGD, _pairs(3), lr=0.1, momentum=0.9)


def test_a_gpt(device: drv.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    _check(_GPT, nn.optim.SGD, _texts(2), lr=0.1, tolerance=2e-2)
    # All but products is the same, bit for bit.
    _leave_products_to_cublas(monkeypatch)
    _check(_GPT, nn.optim.AdamW, _texts(2), lr=0.01)


def test_a_residual_network(device: drv.Device) -> None:
    _check(_Residual, nn.optim.SGD, _images(2), lr=0.05, momentum=0.9)


def test_an_lstm(device: drv.Device) -> None:
    """Its steps write to gates and states, which is counted, and give what they keep in a tuple of their own."""
    _check(_LSTM, nn.optim.SGD, _texts(2), lr=0.1)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["SGD", "AdamW", "Adam", "RMSprop", "Adagrad"])
def test_twenty_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drv.simulator.install(memory="2GiB", check="full")
    _leave_products_to_cublas(monkeypatch)
    optimizer = getattr(nn.optim, name)
    _check(_Perceptron, optimizer, _pairs(20), lr=0.05)
    _check(_GPT, optimizer, _texts(20), lr=0.01)
    _check(_LSTM, optimizer, _texts(20), lr=0.01)
    _check(_Residual, optimizer, _images(20), lr=0.01)
    _check(_ViT, optimizer, _images(20), lr=0.01)


def test_gradients_that_are_there_before(device: drv.Device) -> None:
    """Without ``zero_grad`` a step adds to them, by a program of its own."""
    model = nn.Linear(3, 2, device="cuda")
    x = tensor.ones(4, 3, device="cuda")

    def step(x: Any) -> None:
        model(x).sum().backward()

    compiled = tensor.compile(step, fullgraph=True)
    for count in (1.0, 2.0, 3.0):
        compiled(x)
        assert model.bias.grad is not None
        assert model.bias.grad.tolist() == [4 * count] * 2
    model.zero_grad()
    compiled(x)
    assert model.bias.grad is not None
    assert model.bias.grad.tolist() == [4.0] * 2
    assert compiled.programs == 2


def test_parameters_that_an_optimizer_gets_later(device: drv.Device) -> None:
    """It clears their gradients then, and writes to them."""

    def trained(*, compiled: bool) -> list[Any]:
        tensor.manual_seed(1)
        first, second = nn.Linear(3, 3).cuda(), nn.Linear(3, 3).cuda()
        optimizer = nn.optim.SGD(first.parameters(), lr=0.1)

        def step(x: Any) -> None:
            optimizer.zero_grad()
            second(first(x)).square().mean().backward()
            optimizer.step()

        run = tensor.compile(step, fullgraph=True) if compiled else step
        for number in range(5):
            if number == 2:
                optimizer.add_param_group({"params": list(second.parameters()), "lr": 0.2})
            if number == 4:
                optimizer.param_groups[1]["params"].pop()
            run(tensor.ones(2, 3, device="cuda"))
        return [x for each in (*first.parameters(), *second.parameters()) for x in (each, each.grad)]

    for one, other in zip(trained(compiled=True), trained(compiled=False), strict=True):
        tensor.testing.assert_close(one, other)


def test_what_an_optimizer_keeps_is_not_read(device: drv.Device) -> None:
    model = nn.Linear(3, 2, device="cuda")
    optimizer = nn.optim.SGD(model.parameters(), lr=0.5)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        (model(x).sum() * optimizer.param_groups[0]["lr"]).backward()
        optimizer.step()

    compiled = tensor.compile(step)
    with pytest.warns(UserWarning, match="it reads SGD.param_groups, which changes with each step"):
        compiled(tensor.ones(4, 3, device="cuda"))
    compiled(tensor.ones(4, 3, device="cuda"))
    assert compiled.programs == 0
    assert model.bias.grad is not None
    assert model.bias.grad.tolist() == [2.0] * 2


def test_methods_that_are_not_called_may_read_it(device: drv.Device) -> None:
    class Trainer:
        def __init__(self) -> None:
            self.model = nn.Linear(3, 2, device="cuda")
            self.optimizer = nn.optim.SGD(self.model.parameters(), lr=0.5)

        def loss(self, x: Any) -> Any:
            return self.model(x).square().mean()

        def step(self, x: Any) -> Any:
            for group in self.optimizer.param_groups:
                group["lr"] *= 0.9
            self.loss(x).backward()
            self.optimizer.step()

    trainer, x = Trainer(), tensor.ones(4, 3, device="cuda")
    expected = trainer.loss(x)
    compiled = tensor.compile(trainer.loss, fullgraph=True)
    tensor.testing.assert_close(compiled(x), expected)
    trainer.step(x)
    tensor.testing.assert_close(compiled(x), trainer.loss(x))
    assert compiled.programs == 1


def test_what_a_scheduler_keeps_is_not_read(device: drv.Device) -> None:
    """Each class says what changes with its steps; the optimizer's is reached through the scheduler."""
    optimizer = nn.optim.SGD(nn.Linear(3, 2, device="cuda").parameters(), lr=0.5)
    scheduler = nn.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    x = tensor.ones(3, device="cuda")
    for function, what in (
        (lambda x: x * scheduler.num_bad_epochs, "num_bad_epochs"),
        (lambda x: x * scheduler.optimizer.param_groups[0]["lr"], "param_groups"),
    ):
        with pytest.warns(UserWarning, match=f"it reads ReduceLROnPlateau.{what}, which changes"):
            tensor.compile(function)(x)


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


@pytest.mark.parametrize("what", ["on the host", "on the device", "unscaled for clipping"])
def test_steps_with_a_scaler(what: str, device: drv.Device) -> None:
    """A step that overflows is left out, the scale falls and grows, and later steps have it as it is then."""
    x = tensor.ones(4, 3, device="cuda")

    def trained(*, compiled: bool) -> Any:
        weight = tensor.tensor([[0.5, -1.0, 2.0]], device="cuda").requires_grad_()
        optimizer = nn.optim.AdamW([weight], lr=0.125, capturable=what == "on the device")
        scaler = tensor.amp.GradScaler("cuda", init_scale=4.0, growth_interval=2)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = (x @ weight.T).square().mean()
            scaler.scale(loss).backward()
            if what == "unscaled for clipping":
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_([weight], 0.5)
            scaler.step(optimizer)
            scaler.update()
            return loss

        run: Any = tensor.compile(step, fullgraph=True) if compiled else step
        results = []
        for scale in (1.0, 1.0, float("inf"), 0.5, 0.25, 0.125):
            results += [run(x * scale).detach(), weight.detach().clone(), weight.grad.clone()]
            results.append(tensor.tensor(scaler.get_scale()))
        if compiled:
            assert run.programs == 1
            assert "GradScaler.step()" in run.explain(x)
        return results

    expected, results = trained(compiled=False), trained(compiled=True)
    for one, other in zip(results, expected, strict=True):
        tensor.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
    scales = [each.item() for each in expected[3::4]]
    assert scales == [4.0, 8.0, 4.0, 4.0, 8.0, 8.0]


def test_a_recorded_step_that_overflows(device: drv.Device) -> None:
    """It does not write to the parameters, and later ones do: sums of them before and after it stay where they are."""
    x = tensor.ones(4, 3, device="cuda")

    def trained(*, compiled: bool) -> list[Any]:
        weight = tensor.tensor([[0.5, -1.0, 2.0]], device="cuda").requires_grad_()
        optimizer = nn.optim.SGD([weight], lr=0.125)
        scaler = tensor.amp.GradScaler("cuda", init_scale=4.0)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            before = weight.detach().sum(0)
            scaler.scale((x @ weight.T).square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()
            return before, weight.detach().sum(0)

        run: Any = tensor.compile(step, fullgraph=True) if compiled else step
        return [result.clone() for scale in (float("inf"), 0.5, 0.25) for result in run(x * scale)]

    results, expected = trained(compiled=True), trained(compiled=False)
    assert not tensor.equal(expected[2], expected[3])
    for one, other in zip(results, expected, strict=True):
        tensor.testing.assert_close(one, other, rtol=0, atol=0)


def test_what_a_scaler_keeps_is_not_read(device: drv.Device) -> None:
    scaler = tensor.amp.GradScaler("cuda")
    with pytest.warns(UserWarning, match="it reads GradScaler.get_scale, which changes"):
        tensor.compile(lambda x: x * scaler.get_scale())(tensor.ones(3, device="cuda"))


def test_steps_with_a_closure_run_as_they_are(device: drv.Device) -> None:
    """A step that calls a function again is told, and done as without compilation."""
    x = tensor.ones(4, 3, device="cuda")

    def trained(*, compiled: bool) -> Any:
        weight = tensor.tensor([[0.5, -1.0, 2.0]], device="cuda").requires_grad_()
        optimizer = nn.optim.SGD([weight], lr=0.125)

        def step(x: Any) -> None:
            def loss() -> Any:
                optimizer.zero_grad()
                result = (x @ weight.T).square().mean()
                result.backward()
                return result

            optimizer.step(loss)

        run: Any = step
        if compiled:
            run = tensor.compile(step)
            with pytest.warns(UserWarning, match="cannot be compiled"):
                run(x)
        else:
            run(x)
        for scale in (1.0, 0.5):
            run(x * scale)
        assert not compiled or run.programs == 0
        return weight

    assert tensor.equal(trained(compiled=True), trained(compiled=False))


def test_several_blocks_of_autocast_in_a_step(schedule: None) -> None:
    """Parts of a batch, each under autocast, whose gradients are added up: a block casts nothing outside of the program."""

    def trained(*, compiled: bool) -> list[Any]:
        tensor.manual_seed(4)
        model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3)).cuda()
        optimizer = nn.optim.AdamW(model.parameters(), lr=1e-2)
        scaler = tensor.amp.GradScaler("cuda", init_scale=64.0)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            total = 0.0
            for part, labels in zip(x.chunk(2), y.chunk(2), strict=True):
                with tensor.autocast("cuda", dtype=tensor.float16):
                    loss = functional.cross_entropy(model(part), labels) / 2
                scaler.scale(loss).backward()
                total = total + loss.detach()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            return total

        run = tensor.compile(step, fullgraph=True) if compiled else step
        losses = []
        for _ in range(4):
            x, y = tensor.randn(8, 6, device="cuda"), tensor.randint(0, 3, (8,), device="cuda")
            losses.append(run(x, y))
        return [*losses, *(each.detach() for each in model.parameters())]

    for one, other in zip(trained(compiled=True), trained(compiled=False), strict=True):
        tensor.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)

"""Training on several devices takes the steps that training on one takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import nn
import tensor
from nn import functional, optim
from parallel import DataParallel
from tensor.utils.checkpoint import checkpoint
from tests.parallel.simulated import MACHINES, install

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.simulator_only


class Net(nn.Module):
    """(N, 1, 6, 6) to the scores of three classes."""

    def __init__(self, *, normalised: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)
        self.norm = nn.BatchNorm2d(3) if normalised else nn.Identity()
        self.linear = nn.Linear(3 * 16, 3)

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        x = functional.relu(self.norm(self.conv(x)), inplace=True)
        return self.linear(x.flatten(1))


class InTurn(nn.Module):
    """What DataParallel computes, on one device: the parts in turn, with the buffers that the first one leaves."""

    def __init__(self, module: nn.Module, parts: int) -> None:
        super().__init__()
        self.module, self.parts = module, parts

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        before = [each.clone() for each in self.module.buffers()]
        after: list[Any] = []
        outputs = []
        for part in x.chunk(self.parts):
            with tensor.no_grad():
                for buffer, value in zip(self.module.buffers(), before, strict=True):
                    buffer.copy_(value)
            outputs.append(self.module(part))
            after = after or [each.clone() for each in self.module.buffers()]
        with tensor.no_grad():
            for buffer, value in zip(self.module.buffers(), after, strict=True):
                buffer.copy_(value)
        return tensor.cat(outputs)


@pytest.fixture(autouse=True)
def _full_precision(request: pytest.FixtureRequest) -> None:
    before = tensor.backends.cudnn.allow_tf32, tensor.backends.cuda.matmul.allow_tf32
    tensor.backends.cudnn.allow_tf32 = tensor.backends.cuda.matmul.allow_tf32 = False
    request.addfinalizer(lambda: restore(*before))


def restore(convolutions: bool, products: bool) -> None:
    tensor.backends.cudnn.allow_tf32, tensor.backends.cuda.matmul.allow_tf32 = convolutions, products


def trained(
    wrap: Callable[[nn.Module], nn.Module], *, normalised: bool, steps: int = 3
) -> tuple[nn.Module, list[float]]:
    tensor.manual_seed(0)
    net = Net(normalised=normalised).cuda()
    model = wrap(net)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(steps):
        x, y = tensor.randn(8, 1, 6, 6), tensor.randint(0, 3, (8,))
        optimizer.zero_grad()
        # Nothing waits for a device between the steps.
        loss = functional.cross_entropy(model(x.cuda() if wrap is not DataParallel else x), y.cuda())
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return net, tensor.stack(losses).tolist()


def test_without_normalisation_the_steps_are_the_same() -> None:
    install(3, schedule="lazy", peers="none")
    one, expected = trained(lambda net: net, normalised=False)
    many, losses = trained(DataParallel, normalised=False)
    assert losses == pytest.approx(expected, abs=1e-5)
    for a, b in zip(one.parameters(), many.parameters(), strict=True):
        assert tensor.allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("machine", MACHINES[1:3])
def test_batch_normalisation_is_that_of_the_parts(machine: dict[str, Any]) -> None:
    install(3, **machine)
    one, expected = trained(lambda net: InTurn(net, 3), normalised=True)
    many, losses = trained(DataParallel, normalised=True)
    assert losses == pytest.approx(expected, abs=1e-5)
    state = one.state_dict()
    for name, value in many.state_dict().items():
        assert tensor.allclose(value, state[name], atol=1e-5), name
    assert many.norm.num_batches_tracked.item() == 3


def test_without_a_cache_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    # A block is given back when it is freed, also where another device still reads it.
    monkeypatch.setenv("GRAPHROOT_NO_CUDA_MEMORY_CACHING", "1")
    install(2, schedule="lazy")
    _, losses = trained(DataParallel, normalised=False, steps=2)
    assert losses == pytest.approx(trained(lambda net: net, normalised=False, steps=2)[1], abs=1e-5)


def test_mixed_precision_and_checkpoints() -> None:
    install(2)

    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 1)

        def forward(self, x: tensor.Tensor) -> tensor.Tensor:
            hidden = checkpoint(lambda y: self.first(y).tanh(), x, use_reentrant=False)
            assert hidden.dtype is tensor.float16
            return self.second(hidden)

    tensor.manual_seed(1)
    net = Checkpointed().cuda()
    model = DataParallel(net)
    optimizer = optim.Adam(model.parameters(), lr=0.05)
    scaler = tensor.amp.GradScaler("cuda", init_scale=64.0)
    x = tensor.randn(16, 4)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        with tensor.autocast("cuda"):
            y = model(x)
        loss = functional.mse_loss(y.float(), x.sum(1, keepdim=True).cuda())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert net.first.weight.grad.dtype is tensor.float32


def test_gradients_accumulate_over_passes() -> None:
    install(2)
    net = nn.Linear(2, 1, bias=False).cuda()
    model = DataParallel(net)
    for _ in range(2):
        model(tensor.ones(4, 2)).sum().backward()
    assert net.weight.grad.tolist() == [[8, 8]]
    (model(tensor.ones(4, 2)) + model(tensor.ones(2, 2)).sum()).sum().backward()
    assert net.weight.grad.tolist() == [[20, 20]]

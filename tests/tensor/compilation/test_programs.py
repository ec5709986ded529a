"""Programs as they are written for PyTorch, compiled as a whole: losses and states are those without compilation."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import drv
import nn
import tensor
from nn import functional
from tensor.distributions import Categorical

pytestmark = pytest.mark.simulator_only


class _Block(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.norm, self.first = nn.GroupNorm(2, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time, self.dropout = nn.Linear(8, outputs), nn.Dropout(0.1)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Any, time: Any) -> Any:
        hidden = self.first(functional.silu(self.norm(x))) + self.time(time)[:, :, None, None]
        return self.dropout(hidden) + self.skip(x)


class _UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Linear(4, 8)
        self.begin, self.down = nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(2)
        self.inner, self.up, self.end = _Block(4, 8), nn.Upsample(scale_factor=2), _Block(12, 3)

    def forward(self, x: Any, steps: Any) -> Any:
        angles = steps[:, None].float() * tensor.exp(-tensor.arange(2, device=x.device, dtype=tensor.float32))
        time = functional.silu(self.time(tensor.cat([angles.sin(), angles.cos()], dim=-1)))
        first = self.begin(x)
        return self.end(tensor.cat([self.up(self.inner(self.down(first), time)), first], 1), time)


class _Diffusion:
    """Noise is predicted; a copy of the weights follows them slowly."""

    def __init__(self, device: str) -> None:
        self.count = 0
        self.model = _UNet().to(device)
        self.averaged = copy.deepcopy(self.model).requires_grad_(False)
        self.optimizer = nn.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.scheduler = nn.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 10)
        self.kept = tensor.cumprod(1 - tensor.linspace(1e-4, 0.02, 10, device=device), 0)

    def step(self, x: Any) -> Any:
        steps, noise = tensor.randint(0, 10, (len(x),), device=x.device), tensor.randn_like(x)
        share = self.kept[steps].view(-1, 1, 1, 1)
        loss = functional.mse_loss(self.model(share.sqrt() * x + (1 - share).sqrt() * noise, steps), noise)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.scheduler.step()
        with tensor.no_grad():
            for slow, fast in zip(self.averaged.parameters(), self.model.parameters(), strict=True):
                slow.lerp_(fast, 0.1)
        return loss

    def log(self) -> None:
        self.count += 1

    @staticmethod
    def batch() -> Any:
        return tensor.randn(2, 3, 4, 4)


class _Policy:
    """Actions are drawn, and made more or less likely by what they have gained, but only so much in a step."""

    def __init__(self, device: str) -> None:
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).to(device)
        self.averaged = nn.Linear(4, 1).to(device)
        self.optimizer = nn.optim.Adam([*self.model.parameters(), *self.averaged.parameters()], lr=1e-2)
        self.history: list[int] = []

    def step(self, x: Any) -> Any:
        with tensor.no_grad():
            before = Categorical(logits=self.model(x))
            actions = before.sample()
            gains = x.sum(1) * (actions - 1) - self.averaged(x).squeeze(-1)
            gains, former = (gains - gains.mean()) / (gains.std() + 1e-8), before.log_prob(actions)
        for _ in range(2):
            now = Categorical(logits=self.model(x))
            ratio = (now.log_prob(actions) - former).exp()
            loss = -tensor.min(ratio * gains, ratio.clamp(0.8, 1.2) * gains).mean()
            loss = (
                loss + functional.mse_loss(self.averaged(x).squeeze(-1), gains) - 0.01 * now.entropy().mean()
            )
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.detach()

    def log(self) -> None:
        self.history.append(1)

    @staticmethod
    def batch() -> Any:
        return tensor.randn(8, 4)


@pytest.mark.parametrize("program", [_Diffusion, _Policy])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_steps(program: Any, device: str) -> None:
    def trained(*, compiled: bool) -> list[Any]:
        tensor.manual_seed(2)
        trainer = program(device)
        step = tensor.compile(trainer.step, fullgraph=True) if compiled else trainer.step
        losses = []
        for _ in range(4):
            losses.append(step(program.batch().to(device)))
            trainer.log()
        if compiled:
            assert step.programs == 1
        states = (trainer.model.state_dict(), trainer.averaged.state_dict())
        return [*(x.detach() for x in losses), *(x for state in states for x in state.values())]

    with drv.simulator.installed(check="race", schedule="random"):
        for one, other in zip(trained(compiled=True), trained(compiled=False), strict=True):
            tensor.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
        assert not list(drv.simulator.findings())

"""Training the models of packages, here and with PyTorch: from the same parameters to the same losses."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

from ..programs import run_on_pytorch
from .installed import run

if TYPE_CHECKING:
    from pathlib import Path

#: Waves in the place of random numbers, which differ between libraries, and some steps.
_TRAINING = """
import torch

# Batch normalizations of few elements enlarge what TF32 rounds away.
torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False


def train(model, size, steps=2):
    model = model.to(torch.float64 if device == "cpu" else torch.float32)
    for number, p in enumerate(model.parameters()):
        wave = torch.sin(torch.arange(p.numel(), dtype=torch.float64) * (number + 1.7)).reshape(p.shape)
        scale = 0.5 / max(1, p[0].numel()) ** 0.5
        with torch.no_grad():
            p.copy_(1 + 0.1 * wave if p.dim() == 1 and number % 2 else scale * wave)
    model.to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    wave = torch.sin(torch.arange(2 * 3 * size * size, dtype=torch.float64) * 0.37)
    x = wave.reshape(2, 3, size, size).to(device, next(model.parameters()).dtype)
    y = torch.tensor([1, 3], device=device)
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.9f}")


"""


def program(text: str) -> str:
    """A program in which ``train(model, size)`` prints losses."""
    return _TRAINING + dedent(text)


def printed_here(folder: Path, text: str, device: str) -> list[str]:
    """What a program prints that runs here, on the CPU or on the simulated device with races found."""
    return run(folder, program(text), device).splitlines()


def printed_by_pytorch(folder: Path, text: str) -> list[str]:
    """What the same program prints with PyTorch itself, on the CPU."""
    return run_on_pytorch(folder, "device = 'cpu'\n" + program(text)).splitlines()


def losses(lines: list[str]) -> list[float]:
    """The losses among the lines that a program printed."""
    return [float(line.split()[1]) for line in lines if line.startswith("loss ")]

"""The loss of a small network for digits under three optimizers: on the CPU, and the same program on a simulated GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import drv
import nn
import tensor
from docs.drawing.svg import Drawing
from nn import optim

from .chart import Axes

if TYPE_CHECKING:
    from collections.abc import Callable

#: Steps on the CPU, and on the simulated GPU.
STEPS = {"cpu": 120, "cuda": 20}
OPTIMIZERS: dict[str, tuple[str, Callable[..., Any]]] = {
    "SGD with momentum": ("blue", lambda parameters: optim.SGD(parameters, lr=0.05, momentum=0.9)),
    "AdamW": ("orange", lambda parameters: optim.AdamW(parameters, lr=3e-3)),
    "RMSprop": ("green", lambda parameters: optim.RMSprop(parameters, lr=1e-3)),
}

Losses = dict[str, dict[str, list[float]]]


def _train(device: str, optimizer_of: Callable[..., Any], steps: int) -> list[float]:
    from sklearn.datasets import load_digits

    tensor.manual_seed(0)
    pictures, labels = load_digits(return_X_y=True)
    x = (tensor.tensor(pictures, dtype=tensor.float32).view(-1, 1, 8, 8) / 16).to(device)
    y = tensor.tensor(labels).to(device)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10)
    ).to(device)
    optimizer = optimizer_of(model.parameters())
    losses = []
    for step in range(steps):
        batch = slice(64 * step % 1728, 64 * step % 1728 + 64)
        loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def measure() -> Losses:
    """The losses by device and optimizer."""
    drv.simulator.install(check="race")
    return {
        device: {name: _train(device, make, steps) for name, (_, make) in OPTIMIZERS.items()}
        for device, steps in STEPS.items()
    }


def draw(losses: Losses) -> Drawing:
    """Curves of the CPU, and a dot for each step of the simulated GPU."""
    drawing = Drawing(720, 380, "Training loss by step: the simulated GPU's dots lie on the CPU's curves")
    steps = max(len(each) for each in losses["cpu"].values())
    high = max(max(each) for each in losses["cpu"].values())
    axes = Axes(drawing, 50, 36, 640, 290, (0, steps), (0, high * 1.05))
    axes.frame("step", "cross entropy", y_text="{:.1f}".format)
    for row, (name, (colour, _)) in enumerate(OPTIMIZERS.items()):
        axes.curve(list(enumerate(losses["cpu"][name])), colour)
        axes.dots(list(enumerate(losses["cuda"][name])), colour)
        y = 62 + 20 * row
        drawing.line([(470, y - 4), (494, y - 4)], colour=colour, width=2.4)
        drawing.text(502, y, name, anchor="start")
    drawing.dot(482, 62 + 20 * len(OPTIMIZERS) - 4, colour="faint")
    drawing.text(
        502, 62 + 20 * len(OPTIMIZERS), "a step on the simulated GPU", colour="faint", anchor="start"
    )
    return drawing

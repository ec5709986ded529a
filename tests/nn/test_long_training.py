"""A training of many steps takes no more memory than one of few, though nothing collects garbage."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest

import drv
import nn
import tensor
from tensor.utils.data import DataLoader, TensorDataset


def parts(device: str) -> Any:
    """A network, what trains it, and endless batches."""
    tensor.manual_seed(0)
    x = tensor.randn(64, 1, 4, 4)
    data = TensorDataset(x, x.mean((1, 2, 3)).gt(0).long())
    loader = DataLoader(data, 8, shuffle=True, pin_memory=device == "cuda")
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.1),
        nn.Linear(8, 2),
    ).to(device)  # fmt: skip
    optimizer = nn.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = nn.optim.lr_scheduler.StepLR(optimizer, 100, 0.9)
    scaler = tensor.amp.GradScaler(device, enabled=device == "cuda")

    def batches() -> Any:
        while True:
            yield from loader

    return model, optimizer, scheduler, scaler, batches()


def train(device: str, steps: int, found: Any) -> None:
    model, optimizer, scheduler, scaler, batches = found
    for _ in range(steps):
        x, y = (each.to(device, non_blocking=True) for each in next(batches))
        optimizer.zero_grad()
        with tensor.autocast(device, enabled=device == "cuda"):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()


def collect() -> None:
    """Collect until nothing is left: the driver of an earlier test forgets parsed modules when it is collected."""
    for _ in range(10):
        if not gc.collect():
            return


@pytest.mark.parametrize(
    ("device", "steps"), [("cpu", 160), pytest.param("cpu", 1000, marks=pytest.mark.nightly), ("cuda", 8)]
)
def test_memory_is_flat(device: str, steps: int) -> None:
    if device == "cuda":
        drv.simulator.install(check="race")
    result = parts(device)
    train(device, 20, result)
    collect()
    gc.disable()
    if device == "cpu":
        tracemalloc.start()
    try:
        host, devices = [], []
        for count in (steps // 2, steps // 2):
            train(device, count, result)
            # Nothing was left to be collected; what Python keeps to use again is let go of.
            assert gc.collect() < 10
            if device == "cpu":
                host.append(tracemalloc.get_traced_memory()[0])
            else:
                devices.append((tensor.cuda.memory_allocated(), tensor.cuda.memory_reserved()))
    finally:
        if device == "cpu":
            tracemalloc.stop()
        gc.enable()
    if device == "cuda":
        assert devices[0] == devices[1]
    else:
        # An object that is kept at each step of the second half would be more.
        assert host[1] - host[0] < max(10 * steps, 9000)

"""The digits are learned by two processes, on the CPU and on simulated devices without races."""

from __future__ import annotations

import re

import pytest

from .running import needs, run

pytestmark = [pytest.mark.simulator_only, needs("sklearn")]


def train(*options: str) -> str:
    launch = ("-m", "parallel.launch", "--nproc-per-node", "2", "examples/train_ddp.py")
    return run(*launch, *options, OPENBLAS_NUM_THREADS="1")


def test_digits_are_learned() -> None:
    said = train("--epochs", "3")
    for rank in range(2):
        assert f"rank {rank} of 2 on cpu, with gloo" in said
    epochs = re.findall(r"epoch +(\d): loss ([\d.]+), test accuracy ([\d.]+)%, \d+ images/s", said)
    # One process says it for all.
    assert [number for number, _, _ in epochs] == ["1", "2", "3"]
    assert float(epochs[-1][1]) < 0.5 * float(epochs[0][1])
    assert float(epochs[-1][2]) > 90


def test_on_simulated_devices_without_races() -> None:
    said = train("--simulate", "--steps", "1", "--batch-size", "8")
    assert "rank 1 of 2 on cuda:0, with gloo" in said
    assert re.search(r"epoch +1: loss [\d.]+, test accuracy [\d.]+%", said)

"""The digits are learned on two simulated devices, without races, and on the CPU."""

from __future__ import annotations

import re

import pytest

from .running import needs, run

pytestmark = [pytest.mark.simulator_only, needs("sklearn")]


@pytest.mark.parametrize(
    ("options", "parts"), [(("--simulate", "--steps", "2"), "cuda:0, cuda:1"), (("--epochs", "1"), "cpu")]
)
def test_digits(options: tuple[str, ...], parts: str) -> None:
    said = run("examples/data_parallel.py", *options, OPENBLAS_NUM_THREADS="1")
    assert f"parts of a batch go to {parts}\n" in said
    ((first, last, accuracy),) = re.findall(
        r"epoch  1: loss ([\d.]+) to ([\d.]+), test accuracy ([\d.]+)%", said
    )
    assert float(last) < float(first)
    assert float(accuracy) > 20

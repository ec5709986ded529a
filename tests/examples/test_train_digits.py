"""The digits are learned, on the CPU and on a simulated device, and training goes on from a checkpoint bit for bit."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import pytest

import drv
import tensor
from tensor.utils.data import Subset

from .running import load, needs, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.simulator_only, needs("sklearn", "matplotlib", "tqdm")]


def train(directory: Path, *options: str) -> str:
    # Several tests run at the same time, and threads of BLAS that wait for each other take all processors.
    return run(
        "examples/train_digits.py",
        "--plot",
        str(directory / "digits.png"),
        *options,
        OPENBLAS_NUM_THREADS="1",
    )


def test_digits_are_learned(tmp_path: Path) -> None:
    said = train(tmp_path, "--epochs", "4", "--device", "cpu")
    result = re.findall(r"epoch +(\d): loss ([\d.]+), test accuracy ([\d.]+)%, \d+ images/s on cpu", said)
    assert [number for number, _, _ in result] == list("1234")
    assert float(result[-1][1]) < 0.7 * float(result[0][1])
    assert float(result[-1][2]) > 85
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")


def test_on_a_simulated_device_without_races(tmp_path: Path) -> None:
    said = train(tmp_path, "--simulate", "--steps", "1", "--batch-size", "4")
    assert re.search(r"epoch +1: loss [\d.]+, test accuracy [\d.]+%, \d+ images/s on cuda", said)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, tensor.Tensor):
        return one.dtype is other.dtype and tensor.equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@pytest.fixture
def example() -> Any:
    return load("train_digits")


@pytest.mark.parametrize(
    "where",
    [
        ("--device", "cpu", "--amp"),
        pytest.param(("--simulate", "--amp", "--batch-size", "8"), marks=pytest.mark.nightly),
    ],
    ids=["cpu", "simulated"],
)
def test_going_on_from_a_checkpoint_changes_nothing(
    where: tuple[str, ...], example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses, weights, and the states of optimizer, scheduler, scaler, sampler and generators are the same."""
    train_set, test_set = example.digits()
    few = Subset(train_set, range(100)), Subset(test_set, range(10))
    monkeypatch.setattr(example, "digits", lambda: few)
    monkeypatch.setattr(example, "draw", lambda *arguments: None)

    def main(checkpoint: Path, *options: str) -> None:
        options = (*where, "--epochs", "2", "--steps", "2", "--checkpoint", str(checkpoint), *options)
        monkeypatch.setattr(sys, "argv", ["train_digits.py", *options])
        drv.reset()
        example.main()

    once, twice = tmp_path / "once", tmp_path / "twice"
    main(once)
    main(twice, "--stop-after", "1")
    assert len(tensor.load(twice, map_location="cpu")["losses"]) == 1
    main(twice, "--resume")
    expected, result = (tensor.load(path, map_location="cpu") for path in (once, twice))
    assert [len(epoch) for epoch in expected["losses"]] == [2, 2]
    assert expected["losses"][0] != expected["losses"][1]
    assert list(expected) == list(result)
    for name in expected:
        assert same(result[name], expected[name]), name

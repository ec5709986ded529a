"""A small GPT learns a text, also on a simulated device, and goes on from a checkpoint bit for bit."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

import drv
import tensor

from .running import load, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.simulator_only
pytest.importorskip("tqdm")

SMALL = ("--layers", "1", "--width", "16", "--heads", "2", "--context", "16", "--batch-size", "4")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A text that is easy to learn."""
    path = tmp_path / "text"
    path.write_text("the cat sat on the mat. " * 200, encoding="utf-8")
    return path


def train(*options: str) -> str:
    return run("examples/train_gpt.py", *options, OPENBLAS_NUM_THREADS="1")


def test_a_text_is_learned(text: Path) -> None:
    options = ("--text", str(text), *SMALL, "--device", "cpu", "--steps", "200", "--lr", "0.02")
    said = train(*options, "--prompt", "the cat", "--length", "40", "--temperature", "0.1")
    losses = re.findall(r"step +\d+: loss ([\d.]+), on other text ([\d.]+), \d+ characters/s", said)
    assert len(losses) == 2
    assert float(losses[-1][1]) < 0.3
    assert said.splitlines()[-1].startswith("the cat sat on the mat. the cat sat on ")


def test_on_a_simulated_device_without_races(text: Path) -> None:
    said = train("--text", str(text), *SMALL, "--simulate", "--amp", "--steps", "2")
    assert "weights on cuda" in said
    assert "step    2: loss" in said


def test_it_learns_from_the_documents_of_this_project() -> None:
    said = train(*SMALL, "--device", "cpu", "--steps", "1", "--length", "5", "--prompt", "graphroot")
    # What is written may hold the ends of lines.
    assert re.search(r"step +1: .* characters/s\ngraphroot(.|\n){6}$", said)
    assert int(said.split()[0]) > 100_000


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What the example says when it runs with some options in this process, on a driver of its own."""
    example = load("train_gpt")

    def run_main(*options: str) -> str:
        monkeypatch.setattr(sys, "argv", ["train_gpt.py", *options])
        drv.reset()
        example.main()
        return capsys.readouterr().out

    return run_main


@pytest.mark.parametrize(
    "options", [pytest.param((), marks=pytest.mark.nightly), ("--amp",)], ids=["plain", "amp"]
)
def test_graphed_steps_and_compiled_losses_learn_the_same(
    text: Path, options: tuple[str, ...], main: Callable[..., str]
) -> None:
    common = ("--text", str(text), *SMALL, "--simulate", *options, "--steps", "3", "--save-every", "1")
    ways = (), ("--graph",), ("--compile", "reduce-overhead")
    plain, graphed, compiled = (main(*common, *each) for each in ways)
    losses, *others = (
        re.findall(r"loss ([\d.]+), on other text ([\d.]+)", said) for said in (plain, graphed, compiled)
    )
    assert len(losses) == 3
    assert [losses, losses] == others
    assert plain.splitlines()[-1] == graphed.splitlines()[-1]


@pytest.mark.parametrize(
    "where",
    [
        ("--device", "cpu"),
        ("--simulate", "--amp"),
        pytest.param(("--simulate", "--graph"), marks=pytest.mark.nightly),
    ],
    ids=["cpu", "simulated", "graph"],
)
def test_going_on_from_a_checkpoint_changes_nothing(
    where: tuple[str, ...], text: Path, main: Callable[..., str]
) -> None:
    def train_to(checkpoint: Path, *options: str) -> str:
        steps = ("--steps", "4", "--save-every", "2", "--length", "3", "--checkpoint", str(checkpoint))
        return main("--text", str(text), *SMALL, *where, *steps, *options)

    once, twice = text.with_name("once"), text.with_name("twice")
    written = train_to(once)
    train_to(twice, "--stop-after", "2")
    assert len(tensor.load(twice, map_location="cpu")["losses"]) == 2
    assert train_to(twice, "--resume").splitlines()[-1] == written.splitlines()[-1]
    expected, result = (tensor.load(path, map_location="cpu") for path in (once, twice))
    assert result["losses"] == expected["losses"]
    assert len(set(result["losses"])) == 4
    for name, each in expected["model"].items():
        assert tensor.equal(result["model"][name], each), name
    # The same weights on the way in and out are stored once.
    shared = [result["model"][name].data_ptr() for name in ("characters.weight", "head.weight")]
    assert shared[0] == shared[1]


def test_what_cannot_be_done_is_said(text: Path, main: Callable[..., str]) -> None:
    for options, message in (
        (("--prompt", "Qx"), "needs characters of the text, which has no 'Qx'"),
        (("--context", "1000"), "the text is too short: 4800 characters, for a context of 1000"),
    ):
        with pytest.raises(SystemExit, match=message):
            main("--text", str(text), "--device", "cpu", *options)

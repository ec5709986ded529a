"""Training programs in the styles of those that people have, unchanged on the CPU and on a simulated GPU.

They are in the folder ``styles``, say ``import torch``, make their data and print their losses.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .programs import run_on_pytorch, start

STYLES = Path(__file__).parent / "styles"
NAMES = ("dcgan", "mingpt", "mnist", "nanogpt", "resnet", "vae", "vit", "word_language_model")


def losses(printed: str) -> list[float]:
    return [float(each) for each in re.findall(r"^loss (\S+)$", printed, re.MULTILINE)]


def run_style(folder: Path, name: str, device: str) -> list[float]:
    simulated = ("--simulate=check=race",) if device == "cuda" else ()
    done = start("-m", "tools.run", *simulated, STYLES / f"{name}.py", folder=folder, DEVICE=device)
    assert done.returncode == 0, done.stdout + done.stderr
    return losses(done.stdout)


def test_every_style_is_run() -> None:
    assert sorted(each.stem for each in STYLES.glob("[!_]*.py")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_losses_fall_alike_on_both_devices(tmp_path: Path, name: str) -> None:
    on_cpu, on_gpu = (run_style(tmp_path, name, device) for device in ("cpu", "cuda"))
    assert len(on_cpu) >= 3 and on_cpu[-1] < on_cpu[0]
    # Convolutions are in TF32 on a GPU, and the game of two networks enlarges what it rounds away.
    assert on_gpu == pytest.approx(on_cpu, rel=1e-2)


@pytest.mark.parity
@pytest.mark.parametrize("name", NAMES)
def test_losses_are_pytorchs(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEVICE", "cpu")
    theirs = losses(run_on_pytorch(tmp_path, (STYLES / f"{name}.py").read_text(encoding="utf-8")))
    assert run_style(tmp_path, name, "cpu") == pytest.approx(theirs, rel=1e-5)

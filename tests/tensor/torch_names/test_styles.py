"""Training programs in the styles of those that people have, unchanged on the CPU and on a simulated GPU.

They are in the folder ``styles``, say ``import torch``, make their data and print their losses.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .programs import run_on_pytorch, start, write

STYLES = Path(__file__).parent / "styles"
NAMES = ("dcgan", "mingpt", "mnist", "nanogpt", "resnet", "vae", "vit", "word_language_model")


def losses(printed: str) -> list[float]:
    return [float(each) for each in re.findall(r"^loss (\S+)$", printed, re.MULTILINE)]


#: The same program for one device after the other, as a start of Python takes as long as some of them train.
ON_DEVICES = """
import os
import runpy
import sys

program, *devices = sys.argv[1:]
for device in devices:
    os.environ["DEVICE"] = device
    print("device", flush=True)
    runpy.run_path(program, run_name="__main__")
"""


def run_style(folder: Path, name: str, *devices: str) -> list[list[float]]:
    """Losses on each of the devices; the GPU is a simulated one, and races are looked for."""
    program = write(folder, ON_DEVICES, "on_devices.py")
    options = ("--simulate=check=race", program, STYLES / f"{name}.py", *devices)
    done = start("-m", "tools.run", *options, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    before, *said = done.stdout.split("device\n")
    assert not before and len(said) == len(devices)
    return [losses(each) for each in said]


def test_every_style_is_run() -> None:
    assert sorted(each.stem for each in STYLES.glob("[!_]*.py")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_losses_fall_alike_on_both_devices(tmp_path: Path, name: str) -> None:
    on_cpu, on_gpu = run_style(tmp_path, name, "cpu", "cuda")
    assert len(on_cpu) >= 3 and on_cpu[-1] < on_cpu[0]
    # Convolutions are in TF32 on a GPU, and the game of two networks enlarges what it rounds away.
    assert on_gpu == pytest.approx(on_cpu, rel=1e-2)


@pytest.mark.parity
@pytest.mark.parametrize("name", NAMES)
def test_losses_are_pytorchs(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEVICE", "cpu")
    theirs = losses(run_on_pytorch(tmp_path, (STYLES / f"{name}.py").read_text(encoding="utf-8")))
    (ours,) = run_style(tmp_path, name, "cpu")
    assert ours == pytest.approx(theirs, rel=1e-5)

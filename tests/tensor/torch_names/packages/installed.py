"""Running programs that use a package, on the CPU and on the simulated device with races found."""

from __future__ import annotations

import importlib.util
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from tests.thinning import thinned

from ..programs import start, write

if TYPE_CHECKING:
    from pathlib import Path

DEVICES = ("cpu", "cuda")
#: A test on both; the CPU takes the same way through a package, and has its turn with ``--nightly``.
on_devices = pytest.mark.parametrize("device", thinned(DEVICES, lambda device: device == "cuda"))


def needs(*packages: str) -> pytest.MarkDecorator:
    """The mark that skips a test where one of these packages is not installed."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed")


def run(folder: Path, text: str, device: str = "cpu") -> None:
    """Run the program ``text``, which has to succeed; ``device`` is a variable in it."""
    program = write(folder, f"device = {device!r}\n{dedent(text)}")
    simulated = ("--simulate=check=race",) if device == "cuda" else ()
    done = start("-m", "tools.run", *simulated, program, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr

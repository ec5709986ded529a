"""Running programs that use a package, on the CPU and on the simulated device with races found."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.thinning import thinned

from ..programs import ROOT, start, write

DEVICES = ("cpu", "cuda")
#: A test on both; the CPU takes the same way through a package, and has its turn with ``--nightly``.
on_devices = pytest.mark.parametrize("device", thinned(DEVICES, lambda device: device == "cuda"))


def needs(*packages: str) -> pytest.MarkDecorator:
    """The mark that skips a test where one of these packages is not installed."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed")


def run(folder: Path, text: str, device: str = "cpu") -> str:
    """Run the program ``text``, which has to succeed, and return what it printed; ``device`` is a variable in it."""
    program = write(folder, f"device = {device!r}\n{dedent(text)}")
    if not servers.alone:
        return servers.run(program, device)
    done = start("-m", "tools.run", *_simulated(device), program, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _simulated(device: str) -> list[str]:
    return ["--simulate=check=race"] if device == "cuda" else []


class _Server:
    """A process that runs programs one after the other."""

    def __init__(self, device: str) -> None:
        self._errors: Any = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tools.run",
                *_simulated(device),
                str(Path(__file__).with_name("serving.py")),
            ],
            cwd=tempfile.gettempdir(),
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def run(self, program: Path) -> tuple[str, str | None]:
        """What a program printed, and the traceback it ended with. If the process ended too, that is what it said."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{program}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            return "", f"the process ended: {self.close()}"
        printed, error = json.loads(answer)
        return printed, error

    def close(self) -> str | None:
        """End the process; what it said, if it failed or found races."""
        try:
            self._process.communicate(timeout=100)
        finally:
            self._process.kill()
        with self._errors as errors:
            errors.seek(0)
            said = errors.read().decode()
        return None if self._process.returncode == 0 else f"status {self._process.returncode}\n{said}"


class Servers:
    """The process of each device, started when the first program for it comes.

    Attributes
    ----------
    alone : bool
        Whether each program has a process of its own instead.
    """

    def __init__(self) -> None:
        self.alone = False
        self._servers: dict[str, _Server] = {}

    def run(self, program: Path, device: str) -> str:
        """Run a program, which has to succeed, and return what it printed."""
        if device not in self._servers:
            self._servers[device] = _Server(device)
        printed, error = self._servers[device].run(program)
        assert error is None, printed + error
        return printed

    def close(self) -> None:
        """End all; fails where races were found."""
        said = [server.close() for server in self._servers.values()]
        self._servers.clear()
        assert not any(said), "\n".join(each for each in said if each)


servers = Servers()

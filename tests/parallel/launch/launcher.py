"""Runs the launcher as users do, in a process of its own, and scripts whose ranks tell what they see."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from parallel.launch import main
from tests.parallel.processes import CONTEXT

ROOT = Path(__file__).resolve().parents[3]

# Ranks tell what they are in files, and wait for each other by them.
RANK = """
import json, os, signal, sys, threading, time
from pathlib import Path
folder = Path(__file__).parent
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

def tell(name, text=""):
    path = folder / f"{name}.part"
    path.write_text(text)
    path.rename(folder / name)

def wait_for(*names):
    deadline = time.monotonic() + 20
    while not all((folder / name).exists() for name in names):
        assert time.monotonic() < deadline, names
        time.sleep(0.01)

"""


def write_script(folder: Path, body: str) -> str:
    path = folder / "script.py"
    path.write_text(RANK + body, encoding="utf-8")
    return str(path)


class Launcher:
    """The launcher in a process that is forked from one which has imported all."""

    def __init__(self, arguments: tuple[str | Path, ...], environment: dict[str, str]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._outputs = [Path(self._folder.name, name) for name in ("stdout", "stderr")]
        command = [str(each) for each in arguments]
        self._process = CONTEXT.Process(target=_run, args=(command, environment, self._outputs))
        self._process.start()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def errors(self) -> str:
        """What has been written to stderr so far, carriage returns included."""
        return self._outputs[1].read_bytes().decode()

    def communicate(self, timeout: float = 30) -> tuple[str, str]:
        """Wait for its end: what has been written to stdout and stderr."""
        self._process.join(timeout)
        ended = not self._process.is_alive()
        if not ended:
            # It writes where its threads are.
            self.send_signal(signal.SIGABRT)
            self._process.join(10)
            self._process.kill()
            self._process.join()
        output, errors = (path.read_text(encoding="utf-8") for path in self._outputs)
        self._folder.cleanup()
        assert ended, f"the launcher did not end: {errors}"
        return output, errors


def _run(arguments: list[str], environment: dict[str, str], outputs: list[Path]) -> None:
    # Tests that run in the background of a shell inherit that SIGINT is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for descriptor, path in enumerate(outputs, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), descriptor)
    faulthandler.enable()
    os.environ.pop("OMP_NUM_THREADS", None)
    os.environ.update({"PYTHONPATH": str(ROOT), **environment})
    sys.exit(main(arguments))


def start(*arguments: str | Path, **environment: str) -> Launcher:
    return Launcher(arguments, environment)


def launch(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    launcher = start(*arguments, **environment)
    output, errors = launcher.communicate()
    return subprocess.CompletedProcess(arguments, launcher.returncode or 0, output, errors)


def wait_for(*paths: Path, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not all(path.exists() for path in paths):
        assert time.monotonic() < deadline, f"{paths} did not appear"
        time.sleep(0.01)


def assert_end(pids: list[int], seconds: float = 5) -> None:
    def alive(pid: int) -> bool:
        try:
            return (
                Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] not in "ZX"
            )
        except OSError:
            return False

    deadline = time.monotonic() + seconds
    while left := [pid for pid in pids if alive(pid)]:
        assert time.monotonic() < deadline, f"processes {left} are left behind"
        time.sleep(0.02)

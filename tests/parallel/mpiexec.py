"""Runs a program in processes that ``mpiexec`` starts, of which none stays behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[2]
_MARK = "GRAPHROOT_TEST_OF_MPI"
# Open MPI refuses more ranks than there are cores, and the administrator, unless told.
_OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
# What MPICH's launcher needs to take addresses of this machine for two machines.
TWO_MACHINES = ("-launcher", "fork", "-hosts", "127.0.0.2,127.0.0.3")


def mpiexec() -> str:
    """The path of ``mpiexec``; skips the test where there is none."""
    folders = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    result = shutil.which("mpiexec", path=folders)
    if result is None:
        pytest.skip("mpiexec is not installed")
    return result


def _marked(mark: str) -> Iterator[int]:
    """Processes that were started with this mark."""
    entry = f"{_MARK}={mark}".encode()
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and entry in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)
        except OSError:
            continue


def run_program(
    program: Sequence[str], ranks: int, *, options: Sequence[str] = (), timeout: float = 60, **variables: str
) -> tuple[int, str, str]:
    """Exit code, output and errors of ``python PROGRAM...`` under ``mpiexec OPTIONS``."""
    mark = uuid.uuid4().hex
    command = [mpiexec(), *options, "-n", str(ranks), sys.executable, *program]
    environment = {**os.environ, **_OPEN_MPI, _MARK: mark, "PYTHONPATH": str(ROOT), **variables}
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=timeout)
        deadline = time.monotonic() + 5
        while left := list(_marked(mark)):
            assert time.monotonic() < deadline, f"processes stayed behind: {left}\n{errors}"
            time.sleep(0.05)
    finally:
        for left_behind in _marked(mark):
            os.kill(left_behind, signal.SIGKILL)
    if "cannot load MPI library" in errors:
        pytest.skip("no MPI library is installed")
    return process.returncode, output, errors

"""``MpiTransport``, and groups on it, in processes that ``mpiexec`` starts."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import parallel
from parallel.backends.mpi.process import library

pytest.importorskip("mpi4py")

_ROOT = Path(__file__).parents[4]
_MARK = "GRAPHROOT_TEST_OF_MPI"
# Open MPI refuses more ranks than there are cores, and the administrator, unless told.
_OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def _mpiexec() -> str:
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


def run(*names: str, ranks: int = 3, timeout: float = 60) -> tuple[int, str, str]:
    """Exit code, output and errors of ranks that call functions of ``mpi_ranks``. None of them stays behind."""
    mark = uuid.uuid4().hex
    notes = tempfile.TemporaryDirectory()
    program = [sys.executable, "-m", "tests.parallel.backends.mpi.mpi_ranks", notes.name, *names]
    command = [_mpiexec(), "-n", str(ranks), *program]
    environment = {**os.environ, **_OPEN_MPI, _MARK: mark, "PYTHONPATH": str(_ROOT)}
    process = subprocess.Popen(
        command,
        cwd=_ROOT,
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
        with notes:
            for note in Path(notes.name).iterdir():
                for file in note.read_text().split():
                    Path(file).unlink(missing_ok=True)
    if "cannot load MPI library" in errors:
        pytest.skip("no MPI library is installed")
    return process.returncode, output, errors


def test_without_mpi4py_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(
        ImportError, match=r"'mpi' needs mpi4py and an MPI library.*'graphroot\[mpi\]'.*'gloo'"
    ):
        library()
    with pytest.raises(ImportError, match="'mpi' needs mpi4py"):
        parallel.init_process_group("mpi")
    assert not parallel.is_initialized()


def test_ranks() -> None:
    code, output, errors = run(
        "reductions", "copies", "messages", "groups", "process_groups", "aborted", "late"
    )
    assert code == 0, errors
    assert output.count("done") == 3


def test_a_rank_that_never_comes_does_not_hold_the_others() -> None:
    code, _, errors = run("missing", ranks=2, timeout=30)
    assert code != 0
    assert "leaves MPI after operations that were given up" in errors, errors


def test_the_failure_of_one_rank_ends_all() -> None:
    code, output, errors = run("failing", ranks=2, timeout=30)
    assert code != 0
    assert "ValueError: the reason" in errors, errors
    assert "rank 1 leaves MPI after an exception" in errors, errors
    assert "done" not in output

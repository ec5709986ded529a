"""``MpiTransport``, and groups on it, in processes that ``mpiexec`` starts."""

from __future__ import annotations

import random
import signal
import sys
import tempfile
from pathlib import Path

import pytest

import parallel
from parallel.backends.mpi.process import library, reaches_devices
from tests.parallel.mpiexec import run_program

pytest.importorskip("mpi4py")


def run(*names: str, ranks: int = 3, timeout: float = 60, **variables: str) -> tuple[int, str, str]:
    """Exit code, output and errors of ranks that call functions of ``mpi_ranks``. None of them stays behind."""
    notes = tempfile.TemporaryDirectory()
    program = ["-m", "tests.parallel.backends.mpi.mpi_ranks", notes.name, *names]
    try:
        return run_program(program, ranks, timeout=timeout, **variables)
    finally:
        with notes:
            for note in Path(notes.name).iterdir():
                for file in note.read_text().split():
                    Path(file).unlink(missing_ok=True)


def _attack(number: int, seed: int, ranks: int = 3) -> None:
    """A rank is killed or stopped at a random moment."""
    victim = random.Random(seed).randrange(ranks)
    what = f"seed {seed}: {signal.Signals(number).name} for rank {victim} of {ranks}"
    code, output, errors = run("attacked", ranks=ranks, timeout=60, ATTACK=f"{int(number)} {victim} {seed}")
    # All have ended, which run() has checked.
    assert code != 0, what
    if number == signal.SIGKILL:
        # MPI's launcher ends the others at once, so that they cannot say a word. MPICH's names the process that was
        # killed, or one of those that it has killed itself.
        assert code in (signal.SIGKILL, 128 + signal.SIGKILL, -signal.SIGKILL), (what, code, errors)
        return
    heard = [line for line in output.splitlines() if " heard: " in line]
    assert heard, (what, output, errors)
    for line in heard:
        assert f"does not answer: ranks {victim}" in line, (what, line)


@pytest.mark.parametrize(("number", "seed"), [(signal.SIGKILL, 1), (signal.SIGSTOP, 2)])
def test_a_rank_that_is_killed_or_stopped(number: int, seed: int) -> None:
    _attack(number, seed)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_random_ranks_at_random_moments(number: int) -> None:
    for seed in range(10, 17):
        _attack(number, seed, 2 + seed % 3)


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


def test_tensors_of_devices_are_handed_over_where_they_lie() -> None:
    code, output, errors = run("on_devices")
    assert code == 0, errors
    assert output.count("done") == 3


def test_this_library_knows_no_cuda() -> None:
    assert not reaches_devices()

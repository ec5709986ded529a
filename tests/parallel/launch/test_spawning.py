"""Functions in several processes: what they return to, what their failures look like, and that none stays behind."""

from __future__ import annotations

import faulthandler
import gc
import inspect
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from parallel.launch.spawning import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    spawn,
    start_processes,
)
from tests.pytorch import torch

ROOT = Path(__file__).resolve().parents[3]


def _write_index(index: int, folder: str, text: str) -> None:
    Path(folder, str(index)).write_text(f"{text}{index}", encoding="utf-8")


def _sleep(index: int, folder: str) -> None:
    Path(folder, f"pid{index}").write_text(str(os.getpid()), encoding="utf-8")
    time.sleep(60)


def _ignore_sigterm(index: int, folder: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _sleep(index, folder)


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)


def _second_raises(index: int, folder: str) -> None:
    if index == 1:
        _wait_for(Path(folder, "pid0"))
        raise ValueError("the reason")
    _sleep(index, folder)


def _second_raises_and_the_first_follows(index: int, folder: str) -> None:
    """Process 1 takes long to end after it raised; process 0 fails because of it and ends first."""
    if index == 1:
        import threading

        threading.Thread(target=time.sleep, args=(1,)).start()
        Path(folder, "raised").touch()
        raise ValueError("the cause")
    _wait_for(Path(folder, "raised"))
    time.sleep(0.2)
    raise ConnectionError("the consequence")


def _end(index: int, way: str) -> None:
    if index == 1:
        time.sleep(60)
    if way == "exit":
        sys.exit(3)
    if way == "_exit":
        os._exit(4)
    if way == "interrupt":
        raise KeyboardInterrupt
    faulthandler.disable()  # pytest's
    os.kill(os.getpid(), getattr(signal, way))


def _raise_much(index: int) -> None:
    raise ValueError("first" + "x" * 1_000_000 + "last")


def _raise_unless_first(index: int, folder: str) -> None:
    if index:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path(folder, "ignoring").touch()
        time.sleep(60)
    _wait_for(Path(folder, "ignoring"))
    raise ValueError("the reason")


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def _assert_end(pids: list[int], seconds: float = 5) -> None:
    deadline = time.monotonic() + seconds
    while left := [pid for pid in pids if _alive(pid)]:
        assert time.monotonic() < deadline, f"processes {left} are left behind"
        time.sleep(0.02)


def _sum_of_ranks(index: int, folder: str) -> None:
    import parallel
    import tensor

    parallel.init_process_group("gloo", init_method=f"file://{folder}/store", rank=index, world_size=2)
    x = tensor.tensor([index + 1.0])
    parallel.all_reduce(x)
    parallel.destroy_process_group()
    _write_index(index, folder, f"{x.item()} ")


def test_spawned_processes_make_a_process_group(tmp_path: Path) -> None:
    assert spawn(_sum_of_ranks, (str(tmp_path),), nprocs=2) is None
    assert [(tmp_path / str(index)).read_text() for index in range(2)] == ["3.0 0", "3.0 1"]


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_start_processes_by_other_methods(method: str, tmp_path: Path) -> None:
    assert start_processes(_write_index, (str(tmp_path), ""), nprocs=2, start_method=method) is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]


def test_an_exception_ends_the_others_and_is_raised_with_its_traceback(tmp_path: Path) -> None:
    start = time.monotonic()
    with pytest.raises(ProcessRaisedException) as caught:
        start_processes(_second_raises, (str(tmp_path),), nprocs=2, start_method="fork")
    assert time.monotonic() - start < 10
    error = caught.value
    assert "-- Process 1 terminated with the following error:\nTraceback (most recent call last)" in error.msg
    assert 'raise ValueError("the reason")' in error.msg
    assert error.msg.rstrip().endswith("ValueError: the reason")
    assert error.error_index == 1
    assert error.error_pid > 0
    _assert_end([error.error_pid, int((tmp_path / "pid0").read_text())])


def test_the_first_exception_counts_even_if_its_process_ends_last(tmp_path: Path) -> None:
    with pytest.raises(ProcessRaisedException) as caught:
        context = start_processes(
            _second_raises_and_the_first_follows, (str(tmp_path),), 2, join=False, start_method="fork"
        )
        time.sleep(0.6)
        while not context.join():
            pass
    assert caught.value.error_index == 1
    assert "ValueError: the cause" in caught.value.msg
    assert caught.value.msg.endswith("Process 0 failed after it: ConnectionError: the consequence")


@pytest.mark.parametrize(
    ("way", "code", "name", "text"),
    [
        ("exit", 3, None, "process 0 terminated with exit code 3"),
        ("_exit", 4, None, "process 0 terminated with exit code 4"),
        ("SIGKILL", -9, "SIGKILL", "process 0 terminated with signal SIGKILL .the system .* memory"),
        ("SIGSEGV", -11, "SIGSEGV", "process 0 terminated with signal SIGSEGV .*PYTHONFAULTHANDLER"),
        ("interrupt", -2, "SIGINT", "process 0 terminated with signal SIGINT"),
    ],
)
def test_a_process_that_ends_otherwise(way: str, code: int, name: str | None, text: str) -> None:
    with pytest.raises(ProcessExitedException, match=text) as caught:
        start_processes(_end, (way,), nprocs=2, start_method="fork")
    error = caught.value
    assert (error.error_index, error.exit_code, error.signal_name) == (0, code, name)
    again = pickle.loads(pickle.dumps(error))
    assert (again.msg, again.exit_code, again.signal_name) == (error.msg, code, name)


def test_a_process_that_ignores_sigterm_is_killed_after_the_grace_period(tmp_path: Path) -> None:
    context = start_processes(
        _raise_unless_first, (str(tmp_path),), nprocs=2, join=False, start_method="fork"
    )
    start = time.monotonic()
    with pytest.raises(ProcessRaisedException, match="the reason"):
        while not context.join(grace_period=0.3):
            pass
    assert 0.5 < time.monotonic() - start < 5
    _assert_end(context.pids(), 0)
    with pytest.raises(ProcessRaisedException, match="the reason"):
        context.join()


def test_a_long_traceback_is_cut_in_its_middle() -> None:
    with pytest.raises(ProcessRaisedException, match="characters left out") as caught:
        start_processes(_raise_much, nprocs=1, start_method="fork")
    assert caught.value.msg.endswith("last\n")
    assert "_raise_much" in caught.value.msg


def test_join_with_a_timeout(tmp_path: Path) -> None:
    context = start_processes(_sleep, (str(tmp_path),), nprocs=2, join=False, start_method="fork")
    assert isinstance(context, ProcessContext)
    start = time.monotonic()
    assert context.join(timeout=0.2) is False
    assert 0.15 < time.monotonic() - start < 5
    _wait_for(tmp_path / "pid1")
    assert [int((tmp_path / f"pid{i}").read_text() or 0) for i in range(2)] == context.pids()
    context.processes[0].terminate()
    with pytest.raises(ProcessExitedException, match="process 0 terminated with signal SIGTERM"):
        context.join()
    _assert_end(context.pids(), 0)


def test_no_descriptors_are_left_open(tmp_path: Path) -> None:
    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for way in ("exit", "interrupt"):
        with pytest.raises(ProcessExitedException):
            start_processes(_end, (way,), nprocs=2, start_method="fork")
    start_processes(_write_index, (str(tmp_path), ""), nprocs=2, start_method="fork")
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((print, 3), TypeError, r"args must be the tuple .* not int; .* args=\(value,\)"),
        ((None,), TypeError, "fn must be a function, not NoneType"),
        ((print, (), 0), ValueError, "nprocs must be an integer of at least 1, not 0"),
        ((print, (), 1, True, False, "threads"), ValueError, "start_method must be one of .*not 'threads'"),
    ],
)
def test_wrong_arguments(arguments: tuple[object, ...], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        start_processes(*arguments)


@pytest.mark.parity
def test_parameters_are_those_of_pytorch() -> None:
    theirs = torch.multiprocessing
    for ours, their in (
        (spawn, theirs.spawn),
        (start_processes, theirs.start_processes),
        (ProcessContext.join, theirs.ProcessContext.join),
        (ProcessExitedException, theirs.ProcessExitedException),
    ):
        expected = [(each.name, each.default) for each in inspect.signature(their).parameters.values()]
        assert [(each.name, each.default) for each in inspect.signature(ours).parameters.values()] == expected


def test_spawn_names_the_function_for_other_methods() -> None:
    with (
        pytest.warns(FutureWarning, match="parallel.start_processes"),
        pytest.raises(ValueError, match="nprocs"),
    ):
        spawn(print, nprocs=0, start_method="fork")


_SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from parallel.launch.spawning import start_processes
from tests.parallel.launch.test_spawning import {function}
start_processes({function}, ({folder!r},), nprocs=2, start_method="fork")
"""


def _start_script(function: str, folder: Path) -> tuple[subprocess.Popen[str], list[int]]:
    code = _SCRIPT.format(root=str(ROOT), function=function, folder=str(folder))
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stderr=subprocess.PIPE,
        text=True,
        # Tests that run in the background of a shell inherit that SIGINT is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    pids = []
    for index in range(2):
        _wait_for(folder / f"pid{index}")
        time.sleep(0.05)
        pids.append(int((folder / f"pid{index}").read_text()))
    return process, pids


def test_no_process_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    process, pids = _start_script("_sleep", tmp_path)
    process.kill()
    process.communicate(timeout=10)
    _assert_end(pids)


def test_ctrl_c_in_the_parent_ends_all(tmp_path: Path) -> None:
    process, pids = _start_script("_sleep", tmp_path)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=10)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in errors
    _assert_end(pids, 0.5)


def test_a_function_that_cannot_be_found_says_what_to_do(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from parallel.launch.spawning import spawn\n"
        "def work(index): pass\n"
        "spawn(work, nprocs=1)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "terminated with exit code 1, before the function was called" in done.stderr
    assert "if __name__ == '__main__':" in done.stderr.rstrip().splitlines()[-1]

"""The launcher: what ranks find in their environment, where their output goes, and how the end of one ends all."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from parallel.launch import main
from parallel.launch.local_ranks import LocalRanks, Rank

from .launcher import ROOT, assert_end, launch, start, wait_for, write_script

if TYPE_CHECKING:
    from pathlib import Path

NAMES = [
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "OMP_NUM_THREADS",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
]
TELL_ENVIRONMENT = (
    f"tell(f'rank{{rank}}', json.dumps([[os.environ.get(name) for name in {NAMES}], sys.argv[1:], __name__]))"
)


def _told(folder: Path, rank: int) -> tuple[dict[str, str], list[str], str]:
    values, arguments, name = json.loads((folder / f"rank{rank}").read_text(encoding="utf-8"))
    return dict(zip(NAMES, values, strict=True)), arguments, name


def test_ranks_of_one_machine(tmp_path: Path) -> None:
    script = write_script(tmp_path, TELL_ENVIRONMENT)
    done = launch("--standalone", "--nproc-per-node", "2", script, "--lr", "0.1", "-x")
    assert done.returncode == 0, done.stderr
    assert "OMP_NUM_THREADS is set to 1" in done.stderr
    ports = set()
    for rank in range(2):
        environment, arguments, name = _told(tmp_path, rank)
        assert (arguments, name) == (["--lr", "0.1", "-x"], "__main__")
        ports.add(environment.pop("MASTER_PORT"))
        assert environment.pop("TORCHELASTIC_RUN_ID")
        assert environment == {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": "2",
            "LOCAL_WORLD_SIZE": "2",
            "GROUP_RANK": "0",
            "GROUP_WORLD_SIZE": "1",
            "MASTER_ADDR": "127.0.0.1",
            "OMP_NUM_THREADS": "1",
            "TORCHELASTIC_RESTART_COUNT": "0",
        }
    assert len(ports) == 1
    assert 1024 < int(ports.pop()) < 65536


def test_the_free_port_can_be_listened_on_by_rank_0_and_is_given_to_nobody_else(tmp_path: Path) -> None:
    body = """
import socket
if rank == 0:
    server = socket.create_server(("127.0.0.1", int(os.environ["MASTER_PORT"])))
    tell("listening")
    server.accept()[0].sendall(b"hello")
else:
    wait_for("listening")
    with socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))) as connection:
        print(connection.recv(5))
"""
    done = launch("--nproc_per_node=2", write_script(tmp_path, body))
    assert (done.returncode, done.stdout) == (0, "b'hello'\n"), done.stderr


def test_two_machines(tmp_path: Path) -> None:
    script = write_script(tmp_path, TELL_ENVIRONMENT)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    common = ["--nnodes", "2", "--nproc-per-node", "2", "--master_addr", "127.0.0.1", "--master_port", port]
    nodes = [start(*common, "--node-rank", str(node), script, OMP_NUM_THREADS="3") for node in range(2)]
    for node in nodes:
        _, errors = node.communicate(timeout=60)
        assert (node.returncode, errors) == (0, "")
    for rank in range(4):
        environment, _, _ = _told(tmp_path, rank)
        assert environment == {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank % 2),
            "WORLD_SIZE": "4",
            "LOCAL_WORLD_SIZE": "2",
            "GROUP_RANK": str(rank // 2),
            "GROUP_WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "OMP_NUM_THREADS": "3",
            "TORCHELASTIC_RUN_ID": f"127.0.0.1:{port}",
            "TORCHELASTIC_RESTART_COUNT": "0",
        }


def test_ranks_of_two_machines_make_a_process_group(tmp_path: Path) -> None:
    body = """
import parallel, tensor
parallel.init_process_group("gloo")
x = tensor.full((2,), rank + 1.0)
parallel.all_reduce(x)
print(x.tolist())
if rank == 1:
    raise ValueError("the cause")
parallel.all_reduce(x)
"""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    common = ["--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", port]
    first = start(*common, "--node-rank", "0", write_script(tmp_path, body))
    command = [sys.executable, "-m", "parallel.launch", *common, "--node-rank", "1", tmp_path / "script.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    second = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    output, errors = first.communicate()
    assert output == second.stdout == "[3.0, 3.0]\n", errors + second.stderr
    assert first.returncode == second.returncode == 1
    assert "ValueError: the cause\nparallel.launch: rank 1 (local rank 0, " in second.stderr
    assert "rank 1 has left" in errors
    assert "parallel.launch: rank 0 (local rank 0, " in errors


def test_a_module_and_a_program(tmp_path: Path) -> None:
    write_script(tmp_path, TELL_ENVIRONMENT)
    done = launch("-m", "script", "a", PYTHONPATH=f"{ROOT}:{tmp_path}")
    assert done.returncode == 0, done.stderr
    assert _told(tmp_path, 0)[1:] == (["a"], "__main__")
    done = launch(
        "--no-python", "--nproc-per-node=2", "sh", "-c", "echo $RANK of $WORLD_SIZE; exit $((RANK * 5))"
    )
    assert done.returncode == 5
    assert sorted(done.stdout.splitlines()) == ["0 of 2", "1 of 2"]
    assert "rank 1 (local rank 1, process " in done.stderr
    assert "failed with exit code 5 after" in done.stderr


def test_a_failure_ends_the_others_and_its_traceback_comes_last(tmp_path: Path) -> None:
    body = """
if rank == 2:
    signal.signal(signal.SIGTERM, lambda *_: print("rank 2 was asked to end", file=sys.stderr) or sys.exit(0))
print("rank", rank, "waits", file=sys.stderr)
tell(f"pid{rank}", str(os.getpid()))
wait_for("pid0", "pid1", "pid2")
if rank == 1:
    try:
        {}["key"]
    except KeyError as error:
        raise ValueError("the reason") from error
time.sleep(60)
"""
    done = launch("--nproc-per-node", "3", write_script(tmp_path, body))
    assert done.returncode == 1
    before, report = done.stderr.split("parallel.launch: rank")
    assert "rank 0 waits" in before
    assert "rank 2 was asked to end" in before
    assert report.startswith(" 1 (local rank 1, process")
    assert "failed with exit code 1" in report
    assert "ranks 0, 2 were ended because of it" in report
    lines = report.splitlines()
    assert lines[1] == "Traceback (most recent call last):"
    assert "KeyError: 'key'" in report
    assert lines[-1] == "ValueError: the reason"
    assert_end([int((tmp_path / f"pid{rank}").read_text()) for rank in range(3)])


def test_the_first_traceback_counts_even_if_its_rank_ends_last(tmp_path: Path) -> None:
    body = """
if rank == 1:
    threading.Thread(target=lambda: (tell("raised"), time.sleep(0.2))).start()
    raise ValueError("the cause")
wait_for("raised")
time.sleep(0.05)
raise ConnectionError("the consequence")
"""
    done = launch("--nproc-per-node", "2", write_script(tmp_path, body))
    report = done.stderr.split("parallel.launch: rank")[1]
    assert report.startswith(" 1 (")
    assert "after it failed rank 0 (exit code 1)" in report
    assert report.endswith("ValueError: the cause\n")


def test_a_signal_is_named_and_nothing_is_left_behind(tmp_path: Path) -> None:
    body = """
import subprocess
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
tell(f"pids{rank}", f"{os.getpid()} {child.pid}")
wait_for("pids0", "pids1")
if rank == 0:
    os.kill(os.getpid(), signal.SIGKILL)
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
time.sleep(60)
"""
    done = launch("--nproc-per-node", "2", write_script(tmp_path, body))
    assert done.returncode == 128 + signal.SIGKILL
    assert "failed with signal SIGKILL (the system does this when memory runs out)" in done.stderr
    assert_end([int(pid) for rank in range(2) for pid in (tmp_path / f"pids{rank}").read_text().split()], 0.5)


WAIT = """
tell(f"pid{rank}", str(os.getpid()))
try:
    time.sleep(60)
except KeyboardInterrupt:
    os.write(1, f"interrupted {rank}\\n".encode())  # at once, so that no other rank's text comes between
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_launcher_ends_the_ranks(number: signal.Signals, tmp_path: Path) -> None:
    process = start("--nproc-per-node", "2", write_script(tmp_path, WAIT))
    files = [tmp_path / f"pid{rank}" for rank in range(2)]
    wait_for(*files)
    time.sleep(0.1)
    process.send_signal(number)
    output, errors = process.communicate(timeout=20)
    assert_end([int(file.read_text()) for file in files], 5)
    if number == signal.SIGKILL:
        return
    assert process.returncode == 128 + number
    assert f"parallel.launch: received {number.name}; every rank has been ended" in errors
    assert sorted(output.splitlines()) == (
        ["interrupted 0", "interrupted 1"] if number == signal.SIGINT else []
    )


def test_a_signal_after_the_last_rank_has_ended(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It must not be lost before the handlers of the time without ranks are back."""
    clear_away = LocalRanks._kill

    def clear_away_later(ranks: LocalRanks) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        clear_away(ranks)

    monkeypatch.setattr(LocalRanks, "_kill", clear_away_later)
    shown = frozenset(("stdout", "stderr"))
    outcome = LocalRanks([Rank(0, 0, ["true"], os.environ, shown, frozenset(), {})]).run()
    assert (outcome.status, outcome.signal) == (128 + signal.SIGTERM, signal.SIGTERM)
    assert "received SIGTERM" in capfd.readouterr().err


def test_a_second_signal_kills(tmp_path: Path) -> None:
    body = "signal.signal(signal.SIGINT, signal.SIG_IGN)\ntell('pid0', str(os.getpid()))\ntime.sleep(60)\n"
    process = start(write_script(tmp_path, body))
    wait_for(tmp_path / "pid0")
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    process.communicate(timeout=5)
    assert_end([int((tmp_path / "pid0").read_text())], 0.5)


#: Errors are written at once, as two ranks may share a stream.
PRINT = "print('out', rank); os.write(2, f'error {rank}\\n'.encode()); print('end', end='')\n"


def test_output_with_the_rank_before_each_line_and_in_files(tmp_path: Path) -> None:
    script, logs = write_script(tmp_path, PRINT), tmp_path / "logs"
    done = launch("--nproc-per-node=2", "--tee", "1", "--redirects", "2", "--log-dir", logs, script)
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == [
        "[rank0]: end",
        "[rank0]: out 0",
        "[rank1]: end",
        "[rank1]: out 1",
    ]
    assert "error" not in done.stderr
    for rank in range(2):
        assert (logs / f"rank_{rank}" / "stdout.log").read_text() == f"out {rank}\nend"
        assert (logs / f"rank_{rank}" / "stderr.log").read_text() == f"error {rank}\n"


def test_output_by_local_rank_and_files_of_all_that_is_shown(tmp_path: Path) -> None:
    script, logs = write_script(tmp_path, PRINT), tmp_path / "logs"
    done = launch("--nproc-per-node=2", "-t", "1:2", script)
    assert sorted(line for line in done.stderr.splitlines() if "error" in line) == [
        "[rank1]: error 1",
        "error 0",
    ]
    done = launch("--log-dir", logs, script)
    assert (done.stdout, done.stderr) == ("out 0\nend", "error 0\n")
    assert sorted(path.name for path in (logs / "rank_0").iterdir()) == ["stderr.log", "stdout.log"]


def test_progress_bars_are_shown_as_they_move(tmp_path: Path) -> None:
    body = "sys.stderr.write(f'10 %\\r20 %\\r'); tell(f'moved{rank}'); wait_for('moved0', 'moved1', 'end')\n"
    launcher = start("--nproc-per-node", "2", "--tee", "2", write_script(tmp_path, body))
    wait_for(tmp_path / "moved0", tmp_path / "moved1")
    time.sleep(0.1)
    for rank in range(2):
        assert f"[rank{rank}]: 10 %\r[rank{rank}]: 20 %\r" in launcher.errors()
    (tmp_path / "end").touch()
    launcher.communicate()
    assert launcher.returncode == 0


def test_a_rank_that_never_stops_writing_does_not_hide_the_failure_of_another(tmp_path: Path) -> None:
    body = """
if rank == 1:
    wait_for("writing")
    raise ValueError("the reason")
tell("writing")
while True:
    os.write(2, b"again\\n")
"""
    begun = time.monotonic()
    done = launch(
        "--nproc-per-node=2", "--redirects=0:2", "--log-dir", tmp_path, write_script(tmp_path, body)
    )
    assert time.monotonic() - begun < 20
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: the reason\n")


def test_the_console_may_go_away(tmp_path: Path) -> None:
    body = "for i in range(20_000): print('a line of output', i)\ntell(f'done{rank}')\n"
    script = write_script(tmp_path, body)
    command = f"{sys.executable} -m parallel.launch --nproc-per-node 2 --tee 1 {script} | head -1"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, shell=True, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert "a line of output 0\n" in done.stdout
    assert "Traceback" not in done.stderr
    assert all((tmp_path / f"done{rank}").exists() for rank in range(2))


def test_counts_of_processes_by_name(tmp_path: Path) -> None:
    script = write_script(tmp_path, TELL_ENVIRONMENT)
    simulated = {"GRAPHROOT_DRIVER": "simulator", "GRAPHROOT_SIMULATOR": "devices=2"}
    for name in ("gpu", "auto"):
        done = launch("--nproc-per-node", name, script, **simulated)
        assert done.returncode == 0, done.stderr
        assert _told(tmp_path, 1)[0]["WORLD_SIZE"] == "2"
        (tmp_path / "rank1").unlink()
    assert launch("--nproc-per-node", "cpu", script).returncode == 0
    assert _told(tmp_path, 0)[0]["WORLD_SIZE"] == str(len(os.sched_getaffinity(0)))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["--nproc-per-node", "0", __file__],
            "must be a number of at least 1, 'gpu', 'cpu' or 'auto', not '0'",
        ),
        (
            ["--nnodes", "3:1", __file__],
            "--nnodes must be a number of at least 1, or two as MIN:MAX, not '3:1'",
        ),
        (["--nnodes", "1:3", __file__], "--rdzv-endpoint is needed with --nnodes 1:3"),
        (["--nnodes", "2", "--rdzv-endpoint", "a:0", __file__], "--rdzv-endpoint must be HOST:PORT"),
        (["--nnodes", "1:2", "--rdzv-backend", "static", __file__], "a fixed number of machines"),
        (["--nnodes", "2", "--rdzv-backend", "etcd", __file__], "invalid choice: 'etcd'"),
        (["--rdzv-conf", "join_timeout=0", __file__], "--rdzv-conf takes join_timeout"),
        (["--max-restarts", "-1", __file__], "--max-restarts must be 0 or more, not -1"),
        (["--nnodes", "2", "--node-rank", "0", __file__], "--master-addr is needed with --nnodes 2"),
        (["--nnodes", "2", "--master-addr", "a", __file__], "--node-rank is needed with --nnodes 2"),
        (["--nnodes", "2", "--standalone", __file__], "--standalone is for one machine"),
        (["--node-rank", "1", __file__], "--node-rank must be from 0 to 0"),
        (["--master-port", "70000", __file__], "--master-port must be from 1 to 65535"),
        (["missing.py"], "there is no script 'missing.py'"),
        (["--no-python", "no-such-program"], "there is no program 'no-such-program'"),
        (["--no-python", "-m", "true"], "exclude each other"),
        (["--redirects", "3", __file__], "--redirects needs --log-dir"),
        (["--tee", "4", __file__], "not '4'"),
        (["--tee", "x:1", __file__], "not 'x:1'"),
    ],
)
def test_wrong_arguments(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert text in capsys.readouterr().err

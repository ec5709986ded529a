"""Jobs whose machines Ray finds. Its nodes are processes of this machine, with so many processors as they say."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from parallel.launch import main

from .launcher import ROOT, Launcher, start, write_script
from .test_restarts import CONF, TRAIN, UNTIL_END, await_attempt, trained

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
]
#: Nothing of Ray's is written elsewhere, nor sent.
OPTIONS = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}

#: Beside Ray's own processes launchers may be silent for longer than alone.
_CONF = f"{CONF},keep_alive_max_attempt=20"
#: Seconds; Ray starts processes, and notices that they are gone, in its own time.
_PATIENCE = 180.0
TELL = """
import parallel, tensor
parallel.init_process_group("gloo")
total = tensor.tensor(float(rank))
parallel.all_reduce(total)
tell(f"sum{rank}", json.dumps([size, int(os.environ["LOCAL_RANK"]), total.item(), sys.argv[1:]]))
parallel.destroy_process_group()
"""


class Cluster:
    """Commands to the process that has the cluster."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.parallel.launch.ray_cluster"],
            env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.address = self._answer()

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the cluster has ended"
        return line.strip()

    def end(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes with two processors each."""
    # Paths of sockets are short.
    folder = tempfile.mkdtemp(prefix="ray")
    result = Cluster(OPTIONS | {"RAY_TMPDIR": folder})
    try:
        yield result
    finally:
        result.end()
        shutil.rmtree(folder, ignore_errors=True)


def on_ray(cluster: Cluster, *arguments: object) -> Launcher:
    common = ("--ray", "--ray-address", cluster.address, "--nproc-per-node", "2", "--rdzv-conf", _CONF)
    return start(*common, *map(str, arguments), OMP_NUM_THREADS="1", **OPTIONS)


def test_ranks_of_two_nodes(cluster: Cluster, tmp_path: Path) -> None:
    script = write_script(tmp_path, TELL)
    command = on_ray(
        cluster, "--nnodes", "2", "--redirects=1:1", "--log-dir", tmp_path / "logs", script, "--steps", "3"
    )
    _, errors = command.communicate(_PATIENCE)
    assert command.returncode == 0, errors
    told = [json.loads((tmp_path / f"sum{rank}").read_text()) for rank in range(4)]
    assert told == [[4, rank % 2, 6.0, ["--steps", "3"]] for rank in range(4)]
    assert len(list(tmp_path.glob("logs/attempt_0/rank_*/stdout.log"))) == 4


@pytest.mark.nightly
def test_a_folder_that_is_copied(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "copied").mkdir()
    (tmp_path / "copied" / "program.py").write_text("import os\nprint('in', os.getcwd())\n")
    command = on_ray(cluster, "--ray-working-dir", tmp_path / "copied", "program.py")
    output, errors = command.communicate(_PATIENCE)
    assert command.returncode == 0, errors
    assert output.count("in /") == 2
    assert str(tmp_path) not in output


def test_a_node_that_is_lost_and_one_that_comes(cluster: Cluster, tmp_path: Path) -> None:
    """Training goes on from its checkpoint without the machine, and with another one when Ray has it."""
    script = write_script(tmp_path, UNTIL_END)
    command = on_ray(cluster, "--nnodes", "1:2", "--max-restarts", "2", script)
    await_attempt(tmp_path, 0, 4, _PATIENCE)
    cluster.tell("remove")
    await_attempt(tmp_path, 1, 2, _PATIENCE)
    cluster.tell("add")
    await_attempt(tmp_path, 1, 4, _PATIENCE)
    (tmp_path / "end").touch()
    _, errors = command.communicate(_PATIENCE)
    assert command.returncode == 0, errors
    assert "Ray has lost a launcher" in errors
    assert "another one is started" in errors


def test_training_goes_on_from_its_checkpoint(cluster: Cluster, tmp_path: Path) -> None:
    command = on_ray(cluster, "--nnodes", "2", "--max-restarts", "1", write_script(tmp_path, TRAIN), "rank")
    _, errors = command.communicate(_PATIENCE)
    assert command.returncode == 0, errors
    # The machine of the rank that was killed says so, or another one whose ranks miss it.
    assert "restart 1 of 1; 2 nodes with 4 ranks in all" in errors
    np.testing.assert_allclose(json.loads((tmp_path / "weight").read_text()), trained(), rtol=1e-4)


def test_a_failure_and_a_signal(cluster: Cluster, tmp_path: Path) -> None:
    failing = on_ray(cluster, write_script(tmp_path, "sys.exit(5 if rank else 0)"))
    _, errors = failing.communicate(_PATIENCE)
    assert failing.returncode == 5, errors
    assert "rank 1 failed with exit code 5" in errors

    stopped = on_ray(cluster, "--max-restarts", "3", write_script(tmp_path, UNTIL_END))
    await_attempt(tmp_path, 0, 2, _PATIENCE)
    stopped.send_signal(signal.SIGTERM)
    _, errors = stopped.communicate(_PATIENCE)
    assert stopped.returncode == 128 + signal.SIGTERM, errors

    missing = on_ray(cluster, tmp_path / "no_such_script.py")
    _, errors = missing.communicate(_PATIENCE)
    assert missing.returncode == 2, errors
    assert "there is no script" in errors


def test_a_signal_while_a_machine_is_waited_for(cluster: Cluster, tmp_path: Path) -> None:
    """Two machines of three have come; the cluster has no third."""
    script, hurry = write_script(tmp_path, UNTIL_END), f"{_CONF},last_call_timeout=1"
    command = on_ray(cluster, "--nnodes", "2:3", "--max-restarts", "3", "--rdzv-conf", hurry, script)
    await_attempt(tmp_path, 0, 4, _PATIENCE)
    command.send_signal(signal.SIGTERM)
    _, errors = command.communicate(_PATIENCE)
    assert command.returncode == 128 + signal.SIGTERM, errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ray", "--node-rank", "0"], "--node-rank is for launchers that are started by hand"),
        (["--ray", "--rdzv-conf", "is_host=true"], "this command serves the rendezvous"),
        (["--ray-working-dir", "."], "--ray-working-dir is for --ray"),
        (["--ray", "--nproc-per-node", "0"], "--nproc-per-node must be a number of at least 1"),
    ],
)
def test_options(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([*options, "script.py"])
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_without_ray_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SystemExit):
        main(["--ray", "script.py"])
    assert "pip install 'graphroot[ray]'" in capsys.readouterr().err

"""Jobs that survive the loss of ranks and nodes. Launchers on one machine stand for nodes."""

from __future__ import annotations

import json
import signal
import socket
import time
from pathlib import Path

import numpy as np
import pytest

from .launcher import Launcher, assert_end, launch, start, wait_for, write_script

#: What takes minutes on machines takes a moment here; a launcher of a busy test machine may be silent for seconds.
CONF = "last_call_timeout=20,keep_alive_interval=0.5,keep_alive_max_attempt=6"

# Ranks tell their attempt, process and world, and end when they are told to.
ATTEMPT = """
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
tell(f"attempt{attempt}.{size}.{rank}", json.dumps([os.getpid(), os.environ["GROUP_RANK"], os.environ["MASTER_PORT"]]))
"""
UNTIL_END = ATTEMPT + "while not (folder / 'end').exists(): time.sleep(0.01)\n"


def node(folder: Path, port: int, *options: str, arguments: tuple[str, ...] = ()) -> Launcher:
    """A launcher of two ranks; the first that comes to the port serves the rendezvous."""
    common = ["--nproc-per-node", "2", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-conf", CONF]
    return start(*common, *options, folder / "script.py", *arguments, OMP_NUM_THREADS="1")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def await_attempt(
    folder: Path, attempt: int, size: int, seconds: float = 20
) -> dict[int, tuple[int, str, str]]:
    """Process, node and port of every rank of an attempt, by rank, once all have started."""
    files = [folder / f"attempt{attempt}.{size}.{rank}" for rank in range(size)]
    wait_for(*files, seconds=seconds)
    told = [json.loads(file.read_text()) for file in files]
    assert len({port for _, _, port in told}) == 1
    return dict(enumerate(told))


# Whoever is to be lost kills itself, or the launcher that it has, in the fourth step of the first attempt.
TRAIN = """
import nn, parallel, tensor
from nn import optim
from parallel import checkpoint, fully_shard

class Training:
    def __init__(self):
        self.model = nn.Linear(4, 2, bias=False)
        with tensor.no_grad():
            self.model.weight.copy_(tensor.tensor([[0.5, -1.0, 2.0, 0.25], [1.0, 0.0, 0.5, -0.5]]))
        fully_shard(self.model)
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.step = 0

    def state_dict(self):
        model, optimizer = checkpoint.get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "step": self.step}

    def load_state_dict(self, state):
        checkpoint.set_state_dict(
            self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )
        self.step = state["step"]

parallel.init_process_group("gloo")
training, saved = Training(), folder / "checkpoint"
if saved.exists():
    checkpoint.load({"training": training}, checkpoint_id=saved)
print("from step", training.step)
for step in range(training.step, 6):
    if step == 3 and rank == size - 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill({"rank": os.getpid(), "node": os.getppid()}[sys.argv[1]], signal.SIGKILL)
        time.sleep(10)
    x = (tensor.arange(32.0).reshape(8, 4).sin() + step).chunk(size)[rank]
    training.optimizer.zero_grad()
    (training.model(x) - x.sum(1, keepdim=True)).square().mean().backward()
    training.optimizer.step()
    training.step += 1
    checkpoint.save({"training": training}, checkpoint_id=saved)
weight = training.model.weight.full_tensor()
if rank == 0:
    tell("weight", json.dumps(weight.tolist()))
parallel.destroy_process_group()
"""


def trained() -> np.ndarray:
    """The weight that TRAIN ends with when nothing fails, from formulas."""
    weight, momentum = np.array([[0.5, -1.0, 2.0, 0.25], [1.0, 0.0, 0.5, -0.5]]), np.zeros((2, 4))
    for step in range(6):
        x = np.sin(np.arange(32.0).reshape(8, 4)) + step
        momentum = 0.9 * momentum + 2 * (x @ weight.T - x.sum(1, keepdims=True)).T @ x / 16
        weight = weight - 0.1 * momentum
    return weight


def test_training_goes_on_from_its_checkpoint_when_a_rank_is_killed(tmp_path: Path) -> None:
    script, logs = write_script(tmp_path, TRAIN), tmp_path / "logs"
    done = launch("--nproc-per-node=2", "--max-restarts", "3", "--log-dir", logs, script, "rank")
    assert done.returncode == 0, done.stderr
    assert "rank 1 failed with signal SIGKILL" in done.stderr
    assert "restart 1 of 3" in done.stderr
    np.testing.assert_allclose(json.loads((tmp_path / "weight").read_text()), trained(), rtol=1e-4)
    for rank in range(2):
        # The output of the first attempt is still there.
        for attempt, first in enumerate((0, 3)):
            output = (logs / f"attempt_{attempt}" / f"rank_{rank}" / "stdout.log").read_text()
            assert output == f"from step {first}\n"


@pytest.mark.nightly
def test_training_goes_on_with_fewer_ranks_when_a_node_is_killed(tmp_path: Path) -> None:
    write_script(tmp_path, TRAIN)
    port, elastic = free_port(), ("--nnodes", "1:2", "--max-restarts", "1", "--log-dir", str(tmp_path))
    nodes = [node(tmp_path, port, *elastic, arguments=("node",)) for _ in range(2)]
    errors = [launcher.communicate()[1] for launcher in nodes]
    assert sorted(launcher.returncode or 0 for launcher in nodes) == [-signal.SIGKILL, 0], errors
    assert "restart 1 of 1; 1 node with 2 ranks" in "".join(errors)
    np.testing.assert_allclose(json.loads((tmp_path / "weight").read_text()), trained(), rtol=1e-4)
    for attempt, (size, first) in enumerate(((4, 0), (2, 3))):
        outputs = [path.read_text() for path in (tmp_path / f"attempt_{attempt}").glob("rank_*/stdout.log")]
        assert outputs == [f"from step {first}\n"] * size


def test_nodes_are_lost_and_come(tmp_path: Path) -> None:
    """The group gets smaller without one that is killed, and larger with one that comes; then all end well."""
    write_script(tmp_path, UNTIL_END)
    port, elastic = free_port(), ("--nnodes", "1:2", "--max-restarts", "1", "--rdzv-id", "job")
    host = node(tmp_path, port, *elastic)
    other = node(tmp_path, port, *elastic)
    ranks = await_attempt(tmp_path, 0, 4)
    assert [group for _, group, _ in ranks.values()] == ["0", "0", "1", "1"]
    # Both listen for the rendezvous at first, and who does serves it.
    host, other = (host, other) if parent(ranks[0][0]) == host.pid else (other, host)
    other.send_signal(signal.SIGKILL)
    other.communicate()
    await_attempt(tmp_path, 1, 2)
    assert_end([process for process, _, _ in ranks.values()])
    third = node(tmp_path, port, *elastic)
    # It is no failure that a node comes.
    await_attempt(tmp_path, 1, 4)
    (tmp_path / "end").touch()
    for launcher in (host, third):
        _, errors = launcher.communicate()
        assert launcher.returncode == 0, errors
        assert "has come; all ranks are restarted with it; 2 nodes with 4 ranks in all" in errors
    assert "nothing has been heard of" not in errors


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[1])


def test_restarts_are_used_up(tmp_path: Path) -> None:
    body = (
        ATTEMPT
        + "wait_for(f'attempt{attempt}.2.0', f'attempt{attempt}.2.1')\nif rank == 1: sys.exit(7)\ntime.sleep(60)\n"
    )
    done = launch("--nproc-per-node=2", "--max-restarts=2", write_script(tmp_path, body))
    assert done.returncode == 7
    attempts = [await_attempt(tmp_path, attempt, 2) for attempt in range(3)]
    assert len({ranks[0][2] for ranks in attempts}) == 3  # a port of its own each
    assert done.stderr.count("rank 1 failed with exit code 7; restart") == 2
    assert done.stderr.endswith(
        "parallel.launch: rank 1 failed with exit code 7, and the ranks have been restarted 2 times already, as often as "
        "--max-restarts allows; the job has failed\n"
    )
    assert_end([process for ranks in attempts for process, _, _ in ranks.values()], 0.5)


def test_restarts_of_nodes_are_used_up(tmp_path: Path) -> None:
    """A failure on one of two nodes, which are numbered by hand, restarts both, and at last ends both."""
    write_script(
        tmp_path,
        ATTEMPT
        + "wait_for(*(f'attempt{attempt}.4.{i}' for i in range(4)))\nif rank == 3: sys.exit(7)\ntime.sleep(60)\n",
    )
    port, fixed = free_port(), ("--nnodes", "2", "--max-restarts", "1", "--node-rank")
    nodes = [node(tmp_path, port, *fixed, str(rank)) for rank in (1, 0)]
    attempts = [await_attempt(tmp_path, attempt, 4) for attempt in range(2)]
    for launcher in nodes:
        _, errors = launcher.communicate()
        assert launcher.returncode == 7
        assert "restart 1 of 1; 2 nodes with 4 ranks in all" in errors
        assert "as often as --max-restarts allows; the job has failed\n" in errors
    for ranks in attempts:
        assert [parent_node for _, parent_node, _ in ranks.values()] == ["0", "0", "1", "1"]
        assert_end([process for process, _, _ in ranks.values()], 0.5)


def test_a_signal_to_the_launcher_is_no_failure(tmp_path: Path) -> None:
    launcher = start("--max-restarts", "3", write_script(tmp_path, UNTIL_END))
    ranks = await_attempt(tmp_path, 0, 1)
    launcher.send_signal(signal.SIGTERM)
    _, errors = launcher.communicate()
    assert launcher.returncode == 128 + signal.SIGTERM
    assert "restart" not in errors
    assert_end([ranks[0][0]], 0.5)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_nodes_are_waited_for(number: signal.Signals, tmp_path: Path) -> None:
    write_script(tmp_path, UNTIL_END)
    port = free_port()
    launcher = node(tmp_path, port, "--nnodes", "2", "--rdzv-id", "job")
    await_server(port)
    stranger = node(tmp_path, port, "--nnodes", "2", "--rdzv-id", "another")
    _, errors = stranger.communicate()
    assert stranger.returncode == 1
    assert "is that of job 'job', and this launcher's --rdzv-id is 'another'" in errors
    launcher.send_signal(number)
    _, errors = launcher.communicate()
    assert launcher.returncode == 128 + number
    assert errors == f"parallel.launch: received {number.name} while waiting for other nodes\n"


def await_server(port: int) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < deadline, "nobody listens"
            time.sleep(0.01)


def test_without_the_node_that_serves_the_others_end(tmp_path: Path) -> None:
    write_script(tmp_path, UNTIL_END)
    port = free_port()
    host = node(tmp_path, port, "--nnodes", "1:2", "--rdzv-conf", CONF + ",is_host=1")
    other = node(tmp_path, port, "--nnodes", "1:2", "--rdzv-conf", CONF + ",is_host=0")
    ranks = await_attempt(tmp_path, 0, 4)
    host.send_signal(signal.SIGKILL)
    host.communicate()
    _, errors = other.communicate()
    assert other.returncode == 1
    assert (
        f"the launcher that serves the rendezvous at 127.0.0.1:{port} is gone; the job has failed\n" in errors
    )
    assert_end([process for process, _, _ in ranks.values()], 0.5)

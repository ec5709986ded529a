"""A GPT that is divided among four simulated devices goes on with two, with the losses of one process."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import drv
import parallel
import tensor
from tests.parallel.mpiexec import run_program
from tests.parallel.thread_ranks import run_threads

from .running import load, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.simulator_only
pytest.importorskip("tqdm")

SMALL = ["--layers", "1", "--width", "8", "--heads", "2", "--context", "6", "--batch-size", "4"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A text that is easy to learn."""
    path = tmp_path / "text"
    path.write_text("the cat sat on the mat. " * 20, encoding="utf-8")
    return path


def _train(rank: int, size: int, device: str, command: list[str]) -> Any:
    where = tensor.device("cpu") if device == "cpu" else tensor.device("cuda", rank)
    example = load("train_sharded")
    return example.train(example.arguments(command), where)


def test_it_goes_on_with_half_of_the_devices(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    common = [*SMALL, "--text", str(text)]
    saved = ["--checkpoint", str(text.with_name("gpt")), "--save-every", "1"]
    begun = [*common, *saved, "--steps", "1"]
    resumed = [*common, *saved, "--steps", "3", "--resume"]
    options: dict[str, Any] = {"device": "cuda", "schedule": "random"}
    monkeypatch.setattr(tensor.backends.cuda.matmul, "allow_tf32", False)
    first = run_threads(_train, 4, "cuda", begun, **options)
    drv.reset()
    second = run_threads(_train, 2, "cuda", resumed, **options)
    alone = run_threads(_train, 1, "cpu", [*common, "--steps", "3"])[0]
    assert len(alone) == 3 and alone[2] < alone[0]
    for losses in first:
        assert losses == pytest.approx(alone[:1], rel=1e-4)
    for losses in second:
        assert losses == pytest.approx(alone[1:], rel=1e-4)


@pytest.mark.nightly
def test_it_is_launched(text: Path) -> None:
    def train(ranks: int, *options: str) -> str:
        launch = ("-m", "parallel.launch", "--nproc-per-node", str(ranks), "examples/train_sharded.py")
        folder = str(text.with_name("gpt"))
        where = ("--simulate", "--text", str(text), *SMALL, "--checkpoint", folder, "--save-every", "1")
        return run(*launch, *where, *options, OPENBLAS_NUM_THREADS="1")

    begun, resumed = train(4), train(2, "--resume", "--steps", "3")
    weights, share = re.findall(r"(\d+) weights, of which each of 4 processes has (\d+)", begun)[0]
    assert int(weights) / 4 <= int(share) < int(weights) / 2
    assert re.findall(r"step +(\d): loss", begun) == ["1", "2"]
    assert re.findall(r"step +(\d): loss", resumed) == ["3"]


@pytest.mark.parametrize("backend", ["gloo", "mpi"])
def test_mpiexec_starts_it(text: Path, backend: str) -> None:
    if backend == "mpi":
        pytest.importorskip("mpi4py")

    def train(ranks: int, *options: str) -> list[tuple[str, str]]:
        where = (
            "--cpu",
            "--text",
            str(text),
            *SMALL,
            "--checkpoint",
            str(text.with_name("gpt")),
            "--save-every",
            "1",
        )
        program = ["examples/train_sharded.py", *where, "--backend", backend, *options]
        code, output, errors = run_program(program, ranks, OMP_NUM_THREADS="1")
        assert code == 0, errors
        return re.findall(r"step +(\d): loss ([0-9.]+)", output)

    begun, resumed = train(4, "--steps", "2"), train(2, "--resume", "--steps", "3")
    example = load("train_sharded")
    parallel.init_process_group("gloo", store=parallel.HashStore(), rank=0, world_size=1)
    try:
        alone = example.train(
            example.arguments([*SMALL, "--cpu", "--text", str(text), "--steps", "3"]), tensor.device("cpu")
        )
    finally:
        parallel.destroy_process_group()
    assert [step for step, _ in begun + resumed] == ["1", "2", "3"]
    assert [float(loss) for _, loss in begun + resumed] == pytest.approx(alone, abs=1e-3)

"""Ranks that mpiexec and srun start find each other without being told where."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import parallel
from parallel.groups.process_managers import MANAGERS, machines, started
from tests.parallel.mpiexec import ROOT, TWO_MACHINES, run_program

JOB = """
import json, os, sys
from pathlib import Path
import parallel, tensor
from parallel.groups import job_secret
for turn in range(2):
    parallel.init_process_group("gloo")
    total = tensor.ones(2) * (parallel.get_rank() + 1)
    parallel.all_reduce(total)
    told = [parallel.get_rank(), parallel.get_world_size(), parallel.get_node_local_rank(), total.tolist()]
    parallel.destroy_process_group()
Path(sys.argv[1], str(told[0])).write_text(json.dumps([*told, job_secret.job_secret().stance]))
"""
_OF_JOBS = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "GRAPHROOT_JOB_SECRET")


@pytest.fixture(autouse=True)
def no_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    for manager in MANAGERS:
        for name in (manager.rank, manager.size, manager.local_rank, manager.local_size):
            monkeypatch.delenv(name or "SLURM_JOB_ID", raising=False)
    for name in _OF_JOBS:
        monkeypatch.delenv(name, raising=False)


def _written(folder: Path) -> list[list[object]]:
    """What each rank tells, by rank: who it is, the sum, and whether it has a secret."""
    return [json.loads((folder / str(rank)).read_text()) for rank in range(len(list(folder.iterdir())))]


def _script(folder: Path) -> tuple[str, Path]:
    script, results = folder / "job.py", folder / "results"
    script.write_text(JOB)
    results.mkdir()
    return str(script), results


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ("alone", ["alone"]),
        ("node[01-03,7],other", ["node01", "node02", "node03", "node7", "other"]),
        ("rack[1-2]n[8-9]", ["rack1n8", "rack1n9", "rack2n8", "rack2n9"]),
        ("a[1-2]-ib,b", ["a1-ib", "a2-ib", "b"]),
        ("n[099-101]", ["n099", "n100", "n101"]),
    ],
)
def test_a_list_of_machines(nodes: str, names: list[str]) -> None:
    assert list(machines(nodes)) == names


def test_who_a_process_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert started() is None
    for name, text in (
        ("PMI_RANK", "5"),
        ("PMI_SIZE", "8"),
        ("MPI_LOCALRANKID", "1"),
        ("MPI_LOCALNRANKS", "4"),
    ):
        monkeypatch.setenv(name, text)
    known = started()
    assert known is not None
    assert (known.rank, known.size, known.local_rank, known.local_size) == (5, 8, 1, 4)
    assert parallel.get_node_local_rank() == 1
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert parallel.get_node_local_rank() == 3
    monkeypatch.setenv("PMI_SIZE", "many")
    with pytest.raises(ValueError, match=r"PMI_SIZE, which mpiexec sets, is a number from 0 on, not 'many'"):
        started()


def test_a_batch_script_is_no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """There Slurm says how many tasks the job has, and has started one."""
    for name, text in (("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_LOCALID", "0")):
        monkeypatch.setenv(name, text)
    assert started() is None


def test_several_machines_without_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("PMI_RANK", "1"), ("PMI_SIZE", "4"), ("MPI_LOCALNRANKS", "2")):
        monkeypatch.setenv(name, text)
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(
        ValueError, match=r"4 processes on several machines.* set MASTER_ADDR .*'graphroot\[mpi\]'"
    ):
        parallel.init_process_group("gloo")
    assert not parallel.is_initialized()


def test_ranks_of_one_machine(tmp_path: Path) -> None:
    script, results = _script(tmp_path)
    code, _, errors = run_program([script, str(results)], 3)
    assert code == 0, errors
    assert [each[:2] + each[3:4] for each in _written(results)] == [
        [rank, 3, [6.0, 6.0]] for rank in range(3)
    ]
    assert sorted(str(each[2]) for each in _written(results)) == ["0", "1", "2"]


def test_ranks_of_two_machines(tmp_path: Path) -> None:
    """MPI tells them where rank 0 is, and a secret."""
    pytest.importorskip("mpi4py")
    script, results = _script(tmp_path)
    code, _, errors = run_program([script, str(results)], 4, options=TWO_MACHINES)
    assert code == 0, errors
    told = _written(results)
    assert [(each[0], each[1], each[3]) for each in told] == [(rank, 4, [10.0, 10.0]) for rank in range(4)]
    assert sorted(str(each[2]) for each in told) == ["0", "0", "1", "1"]
    assert {each[4] for each in told} == {1}


def test_launchers_of_two_machines(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    script, results = _script(tmp_path)
    launcher = ["-m", "parallel.launch", "--nproc-per-node", "2", script, str(results)]
    code, _, errors = run_program(launcher, 2, options=TWO_MACHINES, OMP_NUM_THREADS="1")
    assert code == 0, errors
    assert [each[:4] for each in _written(results)] == [
        [rank, 4, rank % 2, [10.0, 10.0]] for rank in range(4)
    ]


def _steps_of_slurm(program: list[str], counts: list[int], nodes: str) -> None:
    """Run a program as srun would start it: so many tasks on each node, with the variables of its documentation."""
    tasks = [(node, local) for node, count in enumerate(counts) for local in range(count)]
    of_step = {
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_TASKS": str(len(tasks)),
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_TASKS_PER_NODE": ",".join(map(str, counts)),
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, *program],
            env={
                **os.environ,
                **of_step,
                "SLURM_PROCID": str(number),
                "SLURM_LOCALID": str(local),
                "SLURM_NODEID": str(node),
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, (node, local) in enumerate(tasks)
    ]
    try:
        ends = [(process.communicate(timeout=60)[1], process.returncode) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert not any(code for _, code in ends), ends


@pytest.mark.parametrize(("counts", "nodes"), [([2], "anything"), ([2, 1], "127.0.0.[2-3]")])
def test_steps_of_slurm(tmp_path: Path, counts: list[int], nodes: str) -> None:
    script, results = _script(tmp_path)
    _steps_of_slurm([script, str(results)], counts, nodes)
    size = sum(counts)
    locals_ = [local for count in counts for local in range(count)]
    total = size * (size + 1) / 2
    assert [each[:4] for each in _written(results)] == [
        [rank, size, locals_[rank], [total, total]] for rank in range(size)
    ]


def test_launchers_that_slurm_starts(tmp_path: Path) -> None:
    script, results = _script(tmp_path)
    launcher = ["-m", "parallel.launch", "--nproc-per-node", "2", "--max-restarts", "1", script, str(results)]
    _steps_of_slurm(launcher, [1, 1], "127.0.0.[2-3]")
    assert [each[:4] for each in _written(results)] == [
        [rank, 4, rank % 2, [10.0, 10.0]] for rank in range(4)
    ]

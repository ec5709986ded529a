"""``graphroot launch``: ranks on simulated GPUs, whose mistakes are told together."""

from __future__ import annotations

import os
import subprocess
import sys
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from .running import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.simulator_only

PROGRAM = """
import os
import sys
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    x = torch.ones(1000, device="cuda")
if len(sys.argv) == 1:
    torch.cuda.current_stream().wait_stream(side)
y = x + 1
dist.all_reduce(y)
print(f"rank {rank} of {dist.get_world_size()}: {y.sum().item()} on {torch.cuda.device_count()} devices\\n", end="")
dist.destroy_process_group()
"""


def launch(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(dedent(PROGRAM))
    return subprocess.run(
        [sys.executable, "-m", "graphroot", "launch", "--as-torch", "--nproc-per-node", "2", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def test_every_rank_has_a_simulated_gpu(tmp_path: Path) -> None:
    run = launch(tmp_path, "--simulate", "program.py")
    assert run.returncode == 0, run.stderr
    assert sorted(run.stdout.splitlines()) == [f"rank {rank} of 2: 4000.0 on 2 devices" for rank in (0, 1)]
    assert (
        run.stderr
        == "graphroot: program.py ran on 2 simulated GPUs in 2 processes; no race between its streams was found\n"
    )


def test_races_of_all_ranks_are_told_together(tmp_path: Path) -> None:
    run = launch(tmp_path, "--simulate=schedule=lazy,devices=2", "program.py", "wrong")
    assert run.returncode == 86, run.stderr
    assert "graphroot: [1] race: let default stream of device" in run.stderr
    assert "(2 times, in rank 0 and rank 1)" in run.stderr
    assert "before program.py:15 " in run.stderr
    assert "Say torch.cuda.default_stream(" in run.stderr
    assert run.stderr.endswith(
        "graphroot: 1 error in how program.py uses streams and memory; --memcheck looks for more\n"
    )


def test_memcheck(tmp_path: Path) -> None:
    run = launch(tmp_path, "--memcheck", "--simulate", "program.py", "wrong")
    assert run.returncode == 86, run.stderr
    assert "memcheck: [1] race" in run.stderr
    assert run.stderr.endswith(
        "memcheck: program.py ended with status 0; 2 processes that it started used a GPU; 1 error\n"
    )


def test_a_rank_that_fails(tmp_path: Path) -> None:
    """Its status and its traceback are the last word, as without simulated GPUs."""
    (tmp_path / "failing.py").write_text("import os, sys\nsys.exit(3 if os.environ['RANK'] == '1' else 0)\n")
    run = launch(tmp_path, "--simulate", "failing.py")
    assert run.returncode == 3
    assert "rank 1 (local rank 1, process" in run.stderr


def test_wrong_options(tmp_path: Path) -> None:
    run = launch(tmp_path, "--simulate=devices=x", "program.py")
    assert run.returncode == 2
    assert "graphroot launch: error: --simulate: simulator option devices='x'" in run.stderr

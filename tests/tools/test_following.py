"""Processes that a watched program starts are watched as well: ``graphroot run --simulate`` and memcheck."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from .running import ROOT

pytestmark = pytest.mark.simulator_only

#: A kernel that does not wait for the stream of a copy, if the program is asked to be wrong.
WORK = """
def work(wrong):
    import torch
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x = torch.ones(1000, device="cuda")
    if not wrong:
        torch.cuda.current_stream().wait_stream(side)
    print((x + 1).shape, flush=True)
"""
STARTS = {
    "spawn": "process = mp.get_context('spawn').Process(target=work, args=(wrong,)); process.start(); process.join()",
    "fork": "process = mp.get_context('fork').Process(target=work, args=(wrong,)); process.start(); process.join()",
    "torch": "torch.multiprocessing.spawn(lambda_, (wrong,), nprocs=2)",
    "subprocess": "subprocess.run([sys.executable, 'child.py', str(int(wrong))], check=True)",
    "grandchild": "subprocess.run([sys.executable, 'middle.py', str(int(wrong))], check=True)",
}
NAMES = {
    "spawn": r"SpawnProcess-1",
    "fork": r"ForkProcess-1",
    "torch": r"SpawnProcess-1 and SpawnProcess-2",
}


def start(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "graphroot", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def write(folder: Path, how: str) -> None:
    (folder / "work.py").write_text(WORK)
    (folder / "child.py").write_text("import sys\nfrom work import work\nwork(bool(int(sys.argv[1])))\n")
    (folder / "middle.py").write_text(
        "import subprocess, sys\nsubprocess.run([sys.executable, 'child.py', sys.argv[1]], check=True)\n"
    )
    (folder / "parent.py").write_text(
        dedent(f"""
        import multiprocessing as mp, subprocess, sys
        from work import work

        def lambda_(rank, wrong):
            work(wrong)

        if __name__ == "__main__":
            import torch
            wrong = sys.argv[1] == "wrong"
            {STARTS[how]}
        """)
    )


@pytest.mark.parametrize("how", STARTS)
def test_races_of_children(tmp_path: Path, how: str) -> None:
    write(tmp_path, how)
    run = start(tmp_path, "run", "--simulate", "parent.py", "wrong")
    assert run.returncode == 86, run.stderr
    assert run.stdout == "torch.Size([1000])\n" * (2 if how == "torch" else 1)
    assert "[1] race: let default stream wait for stream" in run.stderr
    assert (
        f"(2 times, in {NAMES[how]})" if how == "torch" else f"in {NAMES.get(how, 'process ')}" in run.stderr
    )
    assert "created at work.py:4, by" in run.stderr
    assert 'File "work.py", line 9, in work\n        print((x + 1).shape, flush=True)' in run.stderr
    assert "graphroot: 1 error in how parent.py uses streams" in run.stderr


def test_children_that_are_right(tmp_path: Path) -> None:
    write(tmp_path, "torch")
    run = start(tmp_path, "run", "--simulate", "parent.py", "right")
    assert run.returncode == 0, run.stderr
    assert (
        run.stderr
        == "graphroot: parent.py ran on a simulated GPU in 2 processes; no race between its streams was found\n"
    )


def test_memcheck(tmp_path: Path) -> None:
    write(tmp_path, "spawn")
    (tmp_path / "work.py").write_text(
        WORK.replace("print((x", "print(torch.empty(3, device='cuda').sum() if wrong else 0); print((x")
    )
    record = tmp_path / "findings.json"
    run = start(tmp_path, "memcheck", "--as-torch", "--simulate", "--json", str(record), "parent.py", "wrong")
    assert run.returncode == 86, run.stderr
    document: dict[str, Any] = json.loads(record.read_text())
    assert {finding["kind"] for finding in document["findings"]} == {
        "race",
        "freed while in use",
        "uninitialized read",
    }
    assert {tuple(finding["processes"]) for finding in document["findings"]} == {("SpawnProcess-1",)}
    assert run.stderr.endswith(
        "memcheck: parent.py ended with status 0; a process that it started used a GPU; 3 errors\n"
    )


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    write(tmp_path, "spawn")
    assert start(tmp_path, "run", "--simulate", "parent.py", "wrong").returncode == 86
    assert not list(folder.iterdir())


def test_a_child_that_outlives_the_program(tmp_path: Path) -> None:
    """It has nobody to tell, and does its work as if nobody had watched."""
    write(tmp_path, "subprocess")
    (tmp_path / "parent.py").write_text(
        "import subprocess, sys\n"
        "code = 'import sys; sys.stdin.read(); from work import work; work(True)'\n"
        "child = subprocess.Popen([sys.executable, '-c', code], stdin=subprocess.PIPE, "
        "stdout=open('out', 'w'), stderr=open('err', 'w'))\n"
        "open('number', 'w').write(str(child.pid))\n"
        "import os; os.dup(child.stdin.fileno())\n"
    )
    run = start(tmp_path, "run", "--simulate", "parent.py")
    assert run.returncode == 0, run.stderr
    # Its input has ended with the program.
    child = Path("/proc", (tmp_path / "number").read_text())
    for _ in range(600):
        if not child.exists() or "Z" in (child / "stat").read_text().rpartition(")")[2].split()[0]:
            break
        time.sleep(0.1)
    assert (tmp_path / "out").read_text() == "torch.Size([1000])\n"
    assert "Traceback" not in (tmp_path / "err").read_text()

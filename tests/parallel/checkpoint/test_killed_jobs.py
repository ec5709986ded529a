"""A job that was killed at a random moment goes on from its last whole checkpoint, to the same bits."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.parallel.thread_ranks import run_threads

from .training import RANKS, train

pytestmark = pytest.mark.simulator_only

#: More than are reached before it is killed.
_MANY = 10**6


def _saved(folder: Path) -> str:
    path = folder / ".metadata"
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize("times", [2, pytest.param(20, marks=pytest.mark.nightly)])
def test_resumed_training_is_that_without_interruption(times: int, tmp_path: Path) -> None:
    moments = random.Random(times)
    begin = -1
    for _ in range(times):
        saved = _saved(tmp_path)
        with subprocess.Popen(
            [sys.executable, "-m", "tests.parallel.checkpoint.training", str(tmp_path), str(_MANY)],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            deadline = time.monotonic() + 30
            while _saved(tmp_path) == saved and time.monotonic() < deadline:
                time.sleep(0.001)
            # A step takes a few milliseconds.
            time.sleep(moments.uniform(0, 0.2))
            process.kill()
            assert line == "begins\n"
        assert process.returncode == -signal.SIGKILL
        before = begin
        begin, _ = run_threads(train, RANKS, tmp_path, 0)[0]
        assert begin > before
    steps = begin + 3
    resumed = run_threads(train, RANKS, tmp_path, steps)
    assert [each for each, _ in resumed] == [begin] * RANKS
    for (_, state), (_, expected) in zip(resumed, run_threads(train, RANKS, None, steps), strict=True):
        assert state.keys() == expected.keys()
        for name, value in expected.items():
            assert value.equal(state[name]), name

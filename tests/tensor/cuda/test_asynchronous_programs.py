"""Correct programs under many schedules raise no alarm and give the right numbers; every wrong one is found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv

from .asynchronous_programs import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.simulator_only

CORRECT = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
WRONG = [(program, line) for program, lines in PROGRAMS.items() for line in lines]


def check_correct(program: Callable[[str], Any], schedule: str, seed: int = 0) -> None:
    drv.reset()
    with drv.simulator.installed(devices=2, memory="256MiB", schedule=schedule, seed=seed, check="full"):
        for result, expected in program(""):
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4, err_msg=f"{schedule} {seed}")
        for device in range(2):
            drv.Device(device).synchronize()
        assert not list(drv.simulator.findings()), (schedule, seed)


@CORRECT
@pytest.mark.parametrize(("schedule", "seed"), [("eager", 0), ("lazy", 0), ("random", 1)])
def test_correct_programs(program: Callable[[str], Any], schedule: str, seed: int) -> None:
    check_correct(program, schedule, seed)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@CORRECT
def test_correct_programs_under_many_schedules(program: Callable[[str], Any]) -> None:
    for seed in range(200):
        check_correct(program, "random", seed)


@pytest.mark.parametrize(("program", "line"), WRONG, ids=[f"{p.__name__}-{line}" for p, line in WRONG])
def test_wrong_programs(program: Callable[[str], Any], line: str) -> None:
    drv.reset()
    with drv.simulator.installed(devices=2, memory="256MiB", schedule="lazy", check="full"):
        with drv.simulator.findings().collecting() as findings:
            for _ in program(line):
                continue
            for device in range(2):
                drv.Device(device).synchronize()
        assert len(findings) > 0

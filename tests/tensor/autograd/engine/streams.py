"""Programs on several streams, run under every order that CUDA allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import drv
from tensor import cuda

if TYPE_CHECKING:
    from collections.abc import Callable

#: What each correct program is run under.
ORDERS: list[dict[str, Any]] = [
    {"schedule": "eager"},
    {"schedule": "lazy"},
    *({"schedule": "random", "seed": seed} for seed in range(6)),
]


def finish() -> None:
    """Wait for all devices; raises what the race finder has found."""
    for ordinal in range(drv.device_count()):
        cuda.synchronize(ordinal)


def sound(program: Callable[[], Any], expected: Any, devices: int = 1) -> None:
    """Assert that ``program`` gives ``expected`` under every order, and that no two accesses are unordered."""
    for order in ORDERS:
        with drv.simulator.installed(devices=devices, check="race", **order):
            argument = program()
            finish()
            assert argument == pytest.approx(expected, rel=1e-5), order
            assert not list(drv.simulator.findings())


def unsound(program: Callable[[], Any], expected: Any, devices: int = 1) -> None:
    """Assert that ``program`` races, and gives wrong numbers where work runs late.

    Under other schedules the host may learn by asking, as the allocator does, that an event is done; that
    orders what it queues afterwards, so they need not all race.
    """
    raced = 0
    for order in ORDERS[:4]:
        with drv.simulator.installed(devices=devices, check="race", **order):
            with drv.simulator.findings().collecting():
                argument = program()
                finish()
            kinds = {finding.kind for finding in drv.simulator.findings()}
            assert kinds <= {"race"}
            raced += bool(kinds)
            if order["schedule"] == "lazy":
                assert kinds
                assert argument != pytest.approx(expected, rel=1e-5)
    assert raced

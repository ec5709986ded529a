"""Programs on several streams, run under every order that CUDA allows; and what a pass asks of the driver."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import drv
from tensor import cuda

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: What each correct program is run under.
ORDERS: list[dict[str, Any]] = [
    {"schedule": "eager"},
    {"schedule": "lazy"},
    *({"schedule": "random", "seed": seed} for seed in range(6)),
]

#: Driver calls that make the host wait.
BLOCKING = {
    "cuCtxSynchronize",
    "cuEventSynchronize",
    "cuMemAlloc",
    "cuMemFree",
    "cuMemcpy",
    "cuMemcpyDtoD",
    "cuMemcpyDtoH",
    "cuMemcpyHtoD",
    "cuMemcpyPeer",
    "cuMemcpyDtoHAsync",
    "cuMemcpyHtoDAsync",
    "cuMemHostAlloc",
    "cuStreamSynchronize",
}
#: Driver calls that order streams.
ORDERING = {"cuEventCreate", "cuEventRecord", "cuStreamWaitEvent"}


def finish() -> None:
    """Wait for all devices; raises what the race finder has found."""
    for ordinal in range(drv.device_count()):
        cuda.synchronize(ordinal)


def sound(program: Callable[[], Any], expected: Any, devices: int = 1) -> None:
    """Assert that ``program`` gives ``expected`` under every order, and that no two accesses are unordered."""
    for order in ORDERS:
        with drv.simulator.installed(devices=devices, check="race", **order):
            given = program()
            finish()
            assert given == pytest.approx(expected, rel=1e-5), order
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
                given = program()
                finish()
            kinds = {finding.kind for finding in drv.simulator.findings()}
            assert kinds <= {"race"}
            raced += bool(kinds)
            if order["schedule"] == "lazy":
                assert kinds
                assert given != pytest.approx(expected, rel=1e-5)
    assert raced


class Calls(Counter[str]):
    """How often each driver function was called."""

    def blocking(self) -> dict[str, int]:
        """Those that make the host wait."""
        return {name: count for name, count in self.items() if name in BLOCKING}

    def ordering(self) -> dict[str, int]:
        """Those that order streams."""
        return {name: count for name, count in self.items() if name in ORDERING}


@contextmanager
def counted() -> Iterator[Calls]:
    """Count the driver calls of a block."""
    driver, calls = drv.runtime().driver, Calls()
    names = [name for name in dir(type(driver)) if name.startswith("cu")]

    def counting(name: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            calls[name] += 1
            return function(*arguments)

        return call

    # Kernels and copies look functions up when they are planned: those from before are not counted.
    for name in names:
        setattr(driver, name, counting(name, getattr(driver, name)))
    try:
        yield calls
    finally:
        for name in names:
            delattr(driver, name)

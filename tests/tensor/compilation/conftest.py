"""What tests of compilation share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import drv
from nvrtc_kernels import host_loops
from tensor.core.devices.state import cpu

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def native_loops() -> Iterator[None]:
    """Operations on the CPU have native loops whatever their size."""
    former = host_loops.mode()
    cpu.plans.clear()
    host_loops.set_mode("on")
    yield
    cpu.plans.clear()
    host_loops.set_mode(former)


@pytest.fixture(params=["eager", "lazy", "random"])
def schedule(request: pytest.FixtureRequest) -> Iterator[None]:
    """A simulated device under each schedule, which finds everything that it can."""
    with drv.simulator.installed(check="full", schedule=request.param):
        yield
        assert not list(drv.simulator.findings())

"""Where the operations of a test run, with everything checked that can be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import drv
import tensor

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=["cpu", "cuda"])
def checked_device(request: pytest.FixtureRequest) -> Iterator[str]:
    """What ``device=`` gets: the CPU, and a device; a simulated one reports whatever a kernel does wrong."""
    simulated = request.param == "cuda" and not request.config.getoption("--gpu")
    if simulated:
        drv.simulator.install(check="full")
    yield request.param
    if request.param == "cuda":
        tensor.cuda.synchronize()
    if simulated:
        assert not list(drv.simulator.findings())

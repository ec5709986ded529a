"""Where the tensors of a test lie."""

from __future__ import annotations

import pytest

import drv


@pytest.fixture(params=["cpu", "cuda"])
def place_name(request: pytest.FixtureRequest) -> str:
    """What ``device=`` gets: the CPU, and a device, which is simulated, with races checked, or a GPU."""
    if request.param == "cuda" and not request.config.getoption("--gpu"):
        drv.simulator.install(check="race")
    return request.param

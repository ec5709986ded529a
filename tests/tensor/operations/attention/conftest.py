"""Where the tensors of a test lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import drv

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=["cpu", "cuda"])
def checked_device(request: pytest.FixtureRequest) -> Iterator[str]:
    """The CPU, and a simulated device on which races inside kernels and reads of fresh memory are found too."""
    simulated = request.param == "cuda" and not request.config.getoption("--gpu")
    if simulated:
        drv.simulator.install(check="full")
    yield request.param
    if simulated:
        assert not drv.simulator.findings()

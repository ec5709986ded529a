"""A device for tests of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import drv

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def device(request: pytest.FixtureRequest) -> Iterator[drv.Device]:
    """A simulated device, with every access checked, or with ``--gpu`` the first GPU."""
    if request.config.getoption("--gpu"):
        yield drv.Device(0)
        return
    with drv.simulator.installed(check="full"):
        yield drv.Device(0)
        assert not list(drv.simulator.findings())

"""Simulated machines that tests ask for by the number of their devices."""

from __future__ import annotations

import pytest

from .simulated import MACHINES, install


@pytest.fixture(params=MACHINES)
def three(request: pytest.FixtureRequest) -> None:
    install(3, **request.param)


@pytest.fixture
def two() -> None:
    install(2)

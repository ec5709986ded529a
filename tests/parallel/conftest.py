"""Simulated machines that tests ask for by the number of their devices."""

from __future__ import annotations

import pytest

from parallel.groups import job_secret

from .simulated import MACHINES, install


@pytest.fixture(params=MACHINES)
def three(request: pytest.FixtureRequest) -> None:
    install(3, **request.param)


@pytest.fixture
def two() -> None:
    install(2)


@pytest.fixture(autouse=True)
def _no_secret_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test shows the secret that another has handed to the processes it spawned."""
    monkeypatch.setattr(job_secret._handed_on, "text", "")

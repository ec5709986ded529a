"""Simulated machines on which what must be ordered is, or the test fails."""

from __future__ import annotations

from typing import Any

import pytest

import drv

#: How the driver may run what is queued, and which devices reach each other.
MACHINES = [
    pytest.param({"schedule": "eager", "peers": "all"}, id="eager"),
    pytest.param({"schedule": "lazy", "peers": "none"}, id="lazy-no-peers"),
    pytest.param({"schedule": "random", "seed": 1, "peers": "all"}, id="random-1"),
    pytest.param({"schedule": "random", "seed": 2, "peers": "none"}, id="random-2-no-peers"),
]


def install(devices: int = 2, **options: Any) -> None:
    """Use a simulated machine that looks for races."""
    drv.simulator.install(devices=devices, **{"check": "race"} | options)

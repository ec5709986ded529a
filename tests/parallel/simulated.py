"""Simulated machines on which what must be ordered is, or the test fails; and tensors to try them with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drv
import tensor

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


def values(*shape: int) -> tensor.Tensor:
    """0, 1, 2, ..., all different."""
    count = int(np.prod(shape))
    return tensor.arange(count, dtype=tensor.float32).reshape(shape)


def equal(x: Any, expected: Any) -> None:
    """The tensor holds exactly what is expected."""
    expected = expected.detach().cpu().numpy() if isinstance(expected, tensor.Tensor) else expected
    np.testing.assert_array_equal(x.detach().cpu().numpy(), expected)

"""Where the tensors of a test lie, and how precise products are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import drv
import tensor

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=["cpu", "cuda"])
def device_name(request: pytest.FixtureRequest) -> str:
    """What ``device=`` gets: the CPU, and a device, which is simulated, with races checked, or a GPU."""
    if request.param == "cuda" and not request.config.getoption("--gpu"):
        drv.simulator.install(check="race")
    return request.param


@pytest.fixture
def full_precision() -> Iterator[None]:
    """Products without the rounding of TF32."""
    before = tensor.get_float32_matmul_precision()
    tensor.set_float32_matmul_precision("highest")
    yield
    tensor.set_float32_matmul_precision(before)

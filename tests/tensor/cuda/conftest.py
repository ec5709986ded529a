"""A clean start of the current device and streams too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import drv
from tensor import cuda

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _nothing_selected(request: pytest.FixtureRequest) -> Iterator[None]:
    """A GPU's runtime lives on, and with it what the main thread selected."""
    yield
    if request.config.getoption("--gpu") and drv.is_initialized():
        for ordinal in range(drv.device_count()):
            cuda.set_stream(cuda.default_stream(ordinal))
        cuda.set_device(0)

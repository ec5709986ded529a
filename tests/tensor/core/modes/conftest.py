"""Settings as they are at first, before and after each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tensor.core.modes.precision import Precision, settings

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    yield
    first = Precision()
    for name in Precision.__slots__:
        setattr(settings, name, getattr(first, name))

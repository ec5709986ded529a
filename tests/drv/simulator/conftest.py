from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def machine() -> Machine:
    return Machine(devices=2)


@pytest.fixture
def lazy() -> Machine:
    return Machine(schedule="lazy", devices=2)


@pytest.fixture(params=["eager", "lazy", "random-0", "random-1", "random-2"])
def any_schedule(request: pytest.FixtureRequest) -> Callable[..., Machine]:
    """Makes machines under each schedule."""
    name, _, seed = request.param.partition("-")
    return lambda **options: Machine(schedule=name, seed=int(seed or 0), **options)

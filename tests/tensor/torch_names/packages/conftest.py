"""The processes that run the programs of these tests end with the session, and tell the races that they found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from . import installed

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def _processes(request: pytest.FixtureRequest) -> Iterator[None]:
    installed.servers.alone = request.config.getoption("--nightly")
    yield
    installed.servers.close()

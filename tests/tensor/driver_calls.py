"""How often a block of a test calls the functions of the driver."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import drv

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Driver calls that make the host wait.
BLOCKING = {
    "cuCtxSynchronize",
    "cuEventSynchronize",
    "cuMemAlloc",
    "cuMemFree",
    "cuMemcpy",
    "cuMemcpyDtoD",
    "cuMemcpyDtoH",
    "cuMemcpyHtoD",
    "cuMemcpyPeer",
    "cuMemcpyDtoHAsync",
    "cuMemcpyHtoDAsync",
    "cuMemHostAlloc",
    "cuStreamSynchronize",
}
#: Driver calls that order streams.
ORDERING = {"cuEventCreate", "cuEventRecord", "cuStreamWaitEvent"}


class Calls(Counter[str]):
    """How often each driver function was called."""

    def blocking(self) -> dict[str, int]:
        """Those that make the host wait."""
        return {name: count for name, count in self.items() if name in BLOCKING}

    def ordering(self) -> dict[str, int]:
        """Those that order streams."""
        return {name: count for name, count in self.items() if name in ORDERING}


@contextmanager
def counted() -> Iterator[Calls]:
    """Count the driver calls of a block."""
    driver, calls = drv.runtime().driver, Calls()
    names = [name for name in dir(type(driver)) if name.startswith("cu") and name[2:3].isupper()]

    def counting(name: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            calls[name] += 1
            return function(*arguments)

        return call

    # Kernels and copies look functions up when they are planned: those from before are not counted.
    for name in names:
        setattr(driver, name, counting(name, getattr(driver, name)))
    try:
        yield calls
    finally:
        for name in names:
            delattr(driver, name)

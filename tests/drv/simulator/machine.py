"""A simulated driver to call in tests, with results checked and unwrapped."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver import SimulatedDriver
from drv.simulator.options import parse_options

NON_BLOCKING = 1
DISABLE_TIMING = 2


class Machine:
    """``machine.cuXxx(...)`` gives the results of a call that must succeed; ``machine.status`` any status."""

    def __init__(self, text: str = "", environment: dict[str, str] | None = None, **options: Any) -> None:
        self.driver = SimulatedDriver(parse_options(text, **options), environment or {})
        assert self.driver.cuInit(0) == (CUresult.CUDA_SUCCESS,)
        self.contexts = []
        for ordinal in range(len(self.driver.devices)):
            self.contexts.append(self.cuDevicePrimaryCtxRetain(ordinal))
        self.use(0)
        self.log: list[Any] = []
        self.keep: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.driver, name)
        if not name.startswith("cu"):
            return function

        def checked(*arguments: Any) -> Any:
            status, *results = function(*arguments)
            assert status == CUresult.CUDA_SUCCESS, f"{name}{arguments}: {status.name}"
            return results[0] if len(results) == 1 else tuple(results) or None

        return checked

    def status(self, name: str, *arguments: Any) -> str:
        """Name of the status that a call answers with, without ``CUDA_ERROR_``."""
        answer = getattr(self.driver, name)(*arguments)
        if answer[0] != CUresult.CUDA_SUCCESS:
            assert all(result is None for result in answer[1:])
        return answer[0].name.removeprefix("CUDA_").removeprefix("ERROR_")

    def use(self, ordinal: int) -> None:
        self.cuCtxSetCurrent(self.contexts[ordinal])

    def stream(self, flags: int = NON_BLOCKING) -> cuda.CUstream:
        return self.cuStreamCreate(flags)

    def event(self, flags: int = 0) -> cuda.CUevent:
        return self.cuEventCreate(flags)

    def mark(self, stream: Any, label: Any) -> None:
        """Queue an operation that appends ``label`` to the log when it runs."""
        assert self.driver.library_call(stream, str(label), lambda memory: self.log.append(label))[0] == 0

    def device_memory(self, nbytes: int) -> int:
        return int(self.cuMemAlloc(nbytes))

    def pinned(self, nbytes: int) -> tuple[int, np.ndarray]:
        """Address of pinned memory, and the memory as an array."""
        address = self.cuMemAllocHost(nbytes)
        return address, np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))

    def peek(self, address: int, nbytes: int) -> np.ndarray:
        """What simulated memory holds now, whatever is still queued."""
        allocation = self.driver.memory.find(address)
        assert allocation is not None
        start = address - allocation.base
        return allocation.data[start : start + nbytes].copy()

    def poke(self, address: int, values: Any) -> None:
        """Set simulated memory at once."""
        allocation = self.driver.memory.find(address)
        assert allocation is not None
        data = np.asarray(values, np.uint8).reshape(-1)
        start = address - allocation.base
        allocation.data[start : start + data.size] = data

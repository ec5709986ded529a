"""A simulated driver with short names, for tests that are programs."""

from __future__ import annotations

import ctypes
import re
from functools import cache
from typing import Any

import numpy as np
from cuda.bindings import driver as cuda

from drv.compiler import compile_program
from drv.simulator.driver import SimulatedDriver
from drv.simulator.options import parse_options

#: Every schedule, ``random`` with several seeds.
SCHEDULES = [("eager", 0), ("lazy", 0), *(("random", seed) for seed in range(12))]
NON_BLOCKING = int(cuda.CUstream_flags.CU_STREAM_NON_BLOCKING)
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@cache
def compiled(source: str) -> tuple[bytes, list[str]]:
    """PTX with line information, and the names of its kernels."""
    image = compile_program(source, "compute_90", name="kernels.cu", line_info=True).image
    return image, re.findall(r"\.entry (\w+)", image.decode())


class Machine:
    """Devices 0 and 1 with peer access. A stream is a handle, memory an address."""

    def __init__(
        self,
        schedule: str = "eager",
        seed: int = 0,
        check: str = "race",
        devices: int = 2,
        same_values: str = "ignore",
    ) -> None:
        self.driver = SimulatedDriver(
            parse_options(
                schedule=schedule,
                seed=seed,
                check=check,
                devices=devices,
                memory="64MiB",
                same_values=same_values,
            )
        )
        self.call("cuInit", 0)
        self.contexts = [self.call("cuDevicePrimaryCtxRetain", device) for device in range(devices)]
        self.on(0)
        self.keep: list[Any] = []

    def call(self, name: str, *arguments: Any) -> Any:
        status, *results = getattr(self.driver, name)(*arguments)
        assert status == cuda.CUresult.CUDA_SUCCESS, (name, status, self.driver.fault_report())
        return results[0] if len(results) == 1 else results

    def on(self, device: int) -> None:
        self.call("cuCtxSetCurrent", self.contexts[device])

    def stream(self, *, blocking: bool = False) -> int:
        return int(self.call("cuStreamCreate", 0 if blocking else NON_BLOCKING))

    def event(self) -> int:
        return int(self.call("cuEventCreate", int(cuda.CUevent_flags.CU_EVENT_DISABLE_TIMING)))

    def record(self, event: int, stream: int) -> None:
        self.call("cuEventRecord", event, stream)

    def wait(self, stream: int, event: int) -> None:
        self.call("cuStreamWaitEvent", stream, event, 0)

    def follow(self, stream: int, other: int) -> None:
        """Let ``stream`` wait for what ``other`` has queued."""
        event = self.event()
        self.record(event, other)
        self.wait(stream, event)

    def sync(self, stream: int) -> None:
        self.call("cuStreamSynchronize", stream)

    def finish(self) -> None:
        for device in range(len(self.contexts)):
            self.on(device)
            self.call("cuCtxSynchronize")
        self.on(0)

    def alloc(self, nbytes: int = 1024) -> int:
        return int(self.call("cuMemAlloc", nbytes))

    def pinned(self, nbytes: int = 1024) -> tuple[int, np.ndarray]:
        address = int(self.call("cuMemHostAlloc", nbytes, 0))
        buffer = (ctypes.c_uint8 * nbytes).from_address(address)
        return address, np.frombuffer(buffer, np.uint8)

    def fill(self, address: int, value: int, stream: int, nbytes: int = 1024) -> None:
        self.call("cuMemsetD8Async", address, value, nbytes, stream)

    def copy(self, target: int, source: int, stream: int, nbytes: int = 1024) -> None:
        self.call("cuMemcpyAsync", target, source, nbytes, stream)

    def work(self, stream: int, target: int, source: int, nbytes: int = 1024) -> None:
        """A library call that adds 1 to bytes."""

        def run(memory: Any) -> None:
            memory.write(target, nbytes)[...] = memory.read(source, nbytes) + 1

        (status,) = self.driver.library_call(stream, "library call", run)
        assert status == cuda.CUresult.CUDA_SUCCESS

    def callback(self, stream: int, function: Any) -> None:
        result = HOST_FUNCTION(lambda _: function())
        self.keep.append(result)
        self.call("cuLaunchHostFunc", stream, ctypes.cast(result, ctypes.c_void_p).value, 0)

    def kernels(self, source: str) -> dict[str, Any]:
        """Kernels of a CUDA source by name, loaded in the current context."""
        image, names = compiled(source)
        module = self.call("cuModuleLoadData", image)
        return {name: self.call("cuModuleGetFunction", module, name.encode()) for name in names}

    def launch(
        self, kernel: Any, grid: int, block: int, stream: int, *arguments: Any, shared: int = 0
    ) -> None:
        """Addresses and other integers are 64-bit unless they are NumPy scalars."""
        types = tuple(ctypes.c_int if isinstance(one, np.int32) else ctypes.c_void_p for one in arguments)
        values = tuple(int(one) for one in arguments)
        self.call("cuLaunchKernel", kernel, grid, 1, 1, block, 1, 1, shared, stream, (values, types), 0)

    def bytes(self, address: int, nbytes: int = 1024) -> np.ndarray:
        """Contents of device memory, without any of the driver's ordering."""
        allocation = self.driver.memory.find(address)
        start = address - allocation.base
        return allocation.data[start : start + nbytes]

    @property
    def finding_kinds(self) -> list[str]:
        return [str(finding.kind) for finding in self.driver.findings]

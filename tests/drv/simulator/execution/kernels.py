"""Kernels on a simulated device, in few words."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

import drv
from nvrtc_kernels import KernelCache, Program


class Kernels:
    """The kernels of a CUDA source. Every call of :meth:`run` has a simulated driver of its own."""

    def __init__(self, source: str, *options: str) -> None:
        self.program = Program(source, name="kernels.cu", options=options)

    def run(
        self,
        name: str,
        grid: int,
        block: int,
        *arrays: np.ndarray,
        cooperative: bool = False,
        **simulator: Any,
    ) -> None:
        """Launch a kernel on copies of ``arrays``, wait for it, and copy back into them."""
        drv.reset()
        drv.simulator.install(**simulator)
        device = drv.Device(0)
        function = KernelCache.of(device.runtime).function(self.program, name, device)
        memories = [drv.DeviceMemory(array.nbytes) for array in arrays]
        for memory, array in zip(memories, arrays, strict=True):
            drv.copy_to_device(memory, array)
        if cooperative:
            _launch_cooperatively(function, grid, block, memories)
        else:
            drv.launch(function, grid, block, memories)
        device.synchronize()
        for memory, array in zip(memories, arrays, strict=True):
            drv.copy_to_host(array, memory)


def _launch_cooperatively(function: Any, grid: int, block: int, memories: list[Any]) -> None:
    slots = [ctypes.c_void_p(memory.address) for memory in memories]
    table = (ctypes.c_void_p * len(slots))(*(ctypes.addressof(slot) for slot in slots))
    (status,) = drv.runtime().driver.cuLaunchCooperativeKernel(
        function.handle, grid, 1, 1, block, 1, 1, 0, 0, ctypes.addressof(table)
    )
    assert int(status) == 0


def ints(*values: int, count: int = 0) -> np.ndarray:
    """An array of int32: the values, or ``count`` zeros."""
    return np.array(values, np.int32) if values else np.zeros(count, np.int32)

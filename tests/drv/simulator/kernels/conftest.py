"""Launching CUDA C++ on NumPy arrays."""

from __future__ import annotations

import re
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import settings

import drv
from nvrtc_kernels import KernelCache, Program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

few_examples = settings(max_examples=8, deadline=None)

_KERNEL = re.compile(r"__global__\s+(?:\w+\s+)*?(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\(")


class Launch:
    """Compiles, with ``options`` too, launches and waits. Programs stay loaded from test to test."""

    def __init__(self, *, gpu: bool, options: tuple[str, ...] = ()) -> None:
        self.gpu = gpu
        self.options = options

    def __call__(
        self,
        source: str,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        *arguments: Any,
        name: str | None = None,
        shared: int = 0,
        options: tuple[str, ...] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Run a kernel of ``source`` to its end.

        Arrays are copied to the device, passed as pointers, and copied back in place unless they are
        read-only (one array given twice is one pointer); NumPy scalars, structured ones too, are passed
        by value. ``name`` may be left out where ``source`` has one kernel. ``shared`` is dynamic shared
        memory in bytes.
        """
        if name is None:
            (name,) = _KERNEL.findall(source)
        function = self.function(source, name, options, headers)
        if shared > function.max_dynamic_shared_bytes:
            function.max_dynamic_shared_bytes = shared
        with ExitStack() as stack:
            arrays = {id(argument): argument for argument in arguments if isinstance(argument, np.ndarray)}
            addresses = {
                key: np.uint64(stack.enter_context(self.on_device(array))) for key, array in arrays.items()
            }
            values = [addresses.get(id(argument), argument) for argument in arguments]
            drv.launch(function, grid, block, values, shared=shared)
            self.device.synchronize()

    @property
    def device(self) -> drv.Device:
        if not self.gpu and not drv.is_initialized():
            drv.simulator.install()
        return drv.Device(0)

    def program(
        self, source: str, name: str, options: tuple[str, ...] = (), headers: Mapping[str, str] | None = None
    ) -> Program:
        # Where kernels are extern "C", one program serves them all.
        expressions = () if 'extern "C"' in source else (name,)
        return Program(
            source,
            name="outsider.cu",
            options=(*self.options, *options),
            headers=tuple((headers or {}).items()),
            name_expressions=expressions,
        )

    def function(
        self,
        source: str,
        name: str,
        options: tuple[str, ...] = (),
        headers: Mapping[str, str] | None = None,
    ) -> drv.Function:
        device = self.device
        return KernelCache.of(device.runtime).function(
            self.program(source, name, options, headers), name, device
        )

    @contextmanager
    def on_device(self, array: np.ndarray) -> Iterator[int]:
        """The address of a copy of ``array``, which is copied back at the end."""
        assert array.flags.c_contiguous
        # An empty array has an address too. After an error the context may be lost, and nothing is freed.
        memory = drv.DeviceMemory(max(array.nbytes, 1), self.device)
        if array.nbytes:
            drv.copy_to_device(memory, array)
        yield memory.address
        if array.nbytes and array.flags.writeable:
            drv.copy_to_host(array, memory)
        memory.free()

    def upload(self, source: str, variable: str, array: np.ndarray, options: tuple[str, ...] = ()) -> None:
        """Write a ``__device__`` or ``__constant__`` variable."""
        address, size = self._variable(source, variable, options)
        assert array.nbytes <= size
        drv.copy_to_device(address, array)

    def download(
        self, source: str, variable: str, array: np.ndarray, options: tuple[str, ...] = ()
    ) -> np.ndarray:
        """Read a variable into ``array``, which is returned."""
        address, size = self._variable(source, variable, options)
        assert array.nbytes <= size
        drv.copy_to_host(array, address)
        return array

    def _variable(self, source: str, variable: str, options: tuple[str, ...]) -> tuple[int, int]:
        device = self.device
        program = self.program(source, "", options)
        return KernelCache.of(device.runtime).module(program, device).global_variable(variable)


@pytest.fixture(autouse=True)
def _clean_runtime(request: pytest.FixtureRequest) -> Iterator[None]:
    """The kernels of this folder share one runtime, so that programs are loaded once.

    It is dropped where a test ends with a lost context, so that no other test suffers.
    """
    yield
    if drv.is_initialized() and not request.config.getoption("--gpu"):
        try:
            drv.Device(0).synchronize()
        except drv.CudaError:
            drv.reset()


@pytest.fixture(scope="package")
def launch(request: pytest.FixtureRequest) -> Iterator[Launch]:
    """Launches kernels on device 0: simulated, or with ``--gpu`` a real one."""
    yield Launch(gpu=request.config.getoption("--gpu"))
    drv.reset()

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from tests.drv.simulator.compiled import ptx
from tests.drv.simulator.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

    MachineMaker = Callable[..., Machine]

SOURCE = """
__managed__ int counter = 5;
__device__ int other = 7;
extern "C" __global__ void count() { counter += other; }
"""


def test_a_managed_variable_is_the_hosts_too(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    module = machine.cuModuleLoadData(ptx(SOURCE))
    address, size = machine.cuModuleGetGlobal(module, b"counter")
    assert size == 4
    counter = ctypes.c_int.from_address(int(address))
    assert counter.value == 5
    counter.value = 10
    machine.cuLaunchKernel(machine.cuModuleGetFunction(module, b"count"), 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
    machine.cuCtxSynchronize()
    assert counter.value == 17
    machine.cuModuleUnload(module)
    assert machine.status("cuMemGetAddressRange", address) == "NOT_FOUND"


def test_that_of_a_library_is_one_for_all_devices(machine: Machine) -> None:
    library = machine.cuLibraryLoadData(ptx(SOURCE), [], [], 0, [], [], 0)
    kernel = machine.cuLibraryGetKernel(library, b"count")
    addresses = set()
    for ordinal in range(2):
        machine.use(ordinal)
        machine.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
        machine.cuCtxSynchronize()
        address, size = machine.cuLibraryGetManaged(library, b"counter")
        addresses.add(int(address))
        assert size == 4
    (address,) = addresses
    assert ctypes.c_int.from_address(address).value == 5 + 7 + 7
    assert machine.status("cuLibraryGetManaged", library, b"other") == "NOT_FOUND"
    assert machine.status("cuLibraryGetManaged", library, b"nothing") == "NOT_FOUND"
    assert machine.status("cuLibraryGetUnifiedFunction", library, b"count") == "NOT_FOUND"
    machine.cuLibraryUnload(library)
    assert machine.status("cuMemGetAddressRange", address) == "NOT_FOUND"

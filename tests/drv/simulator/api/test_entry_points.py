from __future__ import annotations

import ctypes

import pytest
from cuda.bindings import driver as cuda

from tests.drv.simulator.machine import Machine

STATE = cuda.CUdriverProcAddressQueryResult
PER_THREAD = cuda.CUdriverProcAddress_flags.CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM


def test_the_address_of_a_function_calls_it(machine: Machine) -> None:
    address, state = machine.cuGetProcAddress(b"cuDeviceGetCount", 12000, 0)
    assert state == STATE.CU_GET_PROC_ADDRESS_SUCCESS
    count = ctypes.c_int()
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(address)
    assert function(ctypes.addressof(count)) == 0
    assert count.value == 2
    assert machine.cuGetProcAddress(b"cuDeviceGetCount", 13000, 0)[0] == address


def test_a_version_has_its_forms(machine: Machine) -> None:
    old = machine.cuGetProcAddress(b"cuMemAlloc", 3020, 0)[0]
    assert old == machine.cuGetProcAddress(b"cuMemAlloc", 13000, 0)[0]
    assert old != machine.cuGetProcAddress(b"cuMemAlloc", 2000, 0)[0]
    two = machine.cuGetProcAddress(b"cuGetProcAddress", 12000, 0)[0]
    assert two != machine.cuGetProcAddress(b"cuGetProcAddress", 11030, 0)[0]
    plain = machine.cuGetProcAddress(b"cuMemcpyAsync", 13000, 0)[0]
    assert plain != machine.cuGetProcAddress(b"cuMemcpyAsync", 13000, PER_THREAD)[0]
    # Where there is only one, it is for both.
    assert machine.cuGetProcAddress(b"cuInit", 13000, PER_THREAD) == machine.cuGetProcAddress(
        b"cuInit", 13000, 0
    )


@pytest.mark.parametrize(
    ("symbol", "version", "state"),
    [
        (b"cuNothingOfThatName", 13000, STATE.CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND),
        (b"cuMemAllocAsync", 11010, STATE.CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT),
    ],
)
def test_what_is_not_there(machine: Machine, symbol: bytes, version: int, state: STATE) -> None:
    assert machine.cuGetProcAddress(symbol, version, 0) == (0, state)


def test_arguments(machine: Machine) -> None:
    assert machine.status("cuGetProcAddress", b"cuInit", 13000, 8) == "INVALID_VALUE"
    assert machine.status("cuGetProcAddress", None, 13000, 0) == "INVALID_VALUE"

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.drv.simulator.compiled import KERNELS, ptx
from tests.drv.simulator.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

    MachineMaker = Callable[..., Machine]


@pytest.mark.parametrize("call", ["cuLaunchGrid", "cuLaunchGridAsync"])
def test_a_launch_with_parameters_set_before(any_schedule: MachineMaker, call: str) -> None:
    machine = any_schedule()
    function = machine.cuModuleGetFunction(machine.cuModuleLoadData(ptx(KERNELS)), b"axpy")
    out, x = machine.device_memory(400), machine.device_memory(400)
    machine.poke(out, np.full(100, 1, np.float32).view(np.uint8))
    machine.poke(x, np.arange(100, dtype=np.float32).view(np.uint8))
    machine.cuFuncSetBlockShape(function, 32, 1, 1)
    pointers = ctypes.create_string_buffer(struct.pack("<QQ", out, x))
    machine.cuParamSetv(function, 0, ctypes.addressof(pointers), 16)
    machine.cuParamSetf(function, 16, 2.0)
    machine.cuParamSeti(function, 20, 100)
    machine.cuParamSetSize(function, 24)
    stream = (machine.stream(),) if call.endswith("Async") else ()
    getattr(machine, call)(function, 4, 1, *stream)
    machine.cuCtxSynchronize()
    assert machine.peek(out, 400).view(np.float32).tolist() == [1 + 2.0 * i for i in range(100)]


def test_one_block(machine: Machine) -> None:
    function = machine.cuModuleGetFunction(machine.cuModuleLoadData(ptx(KERNELS)), b"nothing")
    assert machine.status("cuLaunch", function) == "INVALID_VALUE"
    machine.cuFuncSetBlockShape(function, 1, 1, 1)
    machine.cuFuncSetSharedSize(function, 1024)
    machine.cuLaunch(function)


def test_settings_are_checked(machine: Machine) -> None:
    function = machine.cuModuleGetFunction(machine.cuModuleLoadData(ptx(KERNELS)), b"axpy")
    assert machine.status("cuFuncSetBlockShape", function, 0, 1, 1) == "INVALID_VALUE"
    assert machine.status("cuFuncSetBlockShape", 0x10, 1, 1, 1) == "INVALID_HANDLE"
    assert machine.status("cuFuncSetSharedSize", function, 1 << 20) == "INVALID_VALUE"
    assert machine.status("cuParamSetSize", function, 5000) == "INVALID_VALUE"
    assert machine.status("cuParamSeti", function, 4093, 1) == "INVALID_VALUE"
    assert machine.status("cuParamSeti", function, -4, 1) == "INVALID_VALUE"
    assert machine.status("cuParamSetv", function, 0, 0, 8) == "INVALID_VALUE"
    machine.cuFuncSetBlockShape(function, 32, 1, 1)
    # Fewer parameters than it has.
    machine.cuParamSetSize(function, 20)
    assert machine.status("cuLaunchGrid", function, 1, 1) == "INVALID_VALUE"
    assert machine.status("cuFuncSetSharedMemConfig", function, 7) == "INVALID_VALUE"
    assert machine.status("cuFuncSetSharedMemConfig", function, 2) == "SUCCESS"

"""Driver calls of the linker."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver as cuda

from tests.drv.simulator.compiled import ptx
from tests.drv.simulator.machine import Machine

CALLER = """
extern "C" __device__ float twice(float x);
extern "C" __global__ void scale(float* x) { x[threadIdx.x] = twice(x[threadIdx.x]); }
"""
TWICE = 'extern "C" __device__ float twice(float x) { return 2 * x; }'
PTX, OBJECT = cuda.CUjitInputType.CU_JIT_INPUT_PTX, cuda.CUjitInputType.CU_JIT_INPUT_OBJECT
SEPARATE = "-rdc=true"


def add(machine: Machine, state: Any, code: bytes, kind: Any = PTX) -> Any:
    return machine.status("cuLinkAddData", state, kind, code, len(code), b"name", 0, [], [])


def test_a_kernel_of_two_texts(machine: Machine, tmp_path: Path) -> None:
    state = machine.cuLinkCreate(0, [], [])
    assert add(machine, state, ptx(CALLER, SEPARATE)) == "SUCCESS"
    path = tmp_path / "twice.ptx"
    path.write_bytes(ptx(TWICE, SEPARATE))
    machine.cuLinkAddFile(state, PTX, str(path).encode(), 0, [], [])
    address, size = machine.cuLinkComplete(state)
    module = machine.cuModuleLoadData(ctypes.string_at(address, size))
    machine.cuLinkDestroy(state)
    kernel = machine.cuModuleGetFunction(module, b"scale")
    values = np.arange(8, dtype=np.float32)
    memory = machine.cuMemAlloc(32)
    machine.cuMemcpyHtoD(memory, values.ctypes.data, 32)
    machine.cuLaunchKernel(kernel, 1, 1, 1, 8, 1, 1, 0, 0, ((int(memory),), (ctypes.c_void_p,)), 0)
    machine.cuMemcpyDtoH(values.ctypes.data, memory, 32)
    assert np.array_equal(values, np.arange(8) * 2)


def test_errors_are_in_the_log(machine: Machine) -> None:
    log = bytearray(200)
    options = [
        cuda.CUjit_option.CU_JIT_ERROR_LOG_BUFFER,
        cuda.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ]
    state = machine.cuLinkCreate(2, options, [log, len(log)])
    assert add(machine, state, b"\x7fELF", OBJECT) == "NO_BINARY_FOR_GPU"
    assert log.startswith(b"error   : the simulated driver links PTX, and no OBJECT\0")
    for _ in range(2):
        assert add(machine, state, ptx(TWICE, SEPARATE)) == "SUCCESS"
    assert machine.status("cuLinkComplete", state) == "INVALID_PTX"
    assert log.startswith(b"error   : Multiple definition of 'twice' in inputs 1 and 2")


def test_what_is_refused(machine: Machine, tmp_path: Path) -> None:
    state = machine.cuLinkCreate(0, [], [])
    assert machine.status("cuLinkComplete", state) == "INVALID_IMAGE"
    assert machine.status("cuLinkAddFile", state, PTX, bytes(tmp_path / "none"), 0, [], []) == (
        "FILE_NOT_FOUND"
    )
    assert add(machine, state, ptx(TWICE), 77) == "INVALID_VALUE"
    assert machine.status("cuLinkAddData", state, PTX, 0, 0, b"", 0, [], []) == "INVALID_VALUE"
    machine.cuLinkDestroy(state)
    assert machine.status("cuLinkDestroy", state) == "INVALID_HANDLE"
    assert machine.status("cuLinkComplete", state) == "INVALID_HANDLE"


@pytest.mark.parametrize("count", [1, 2])
def test_options_that_do_not_fit(machine: Machine, count: int) -> None:
    assert machine.status("cuLinkCreate", count, [], []) == "INVALID_VALUE"

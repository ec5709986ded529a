"""Random calls with wrong handles, numbers and types: CUDA's statuses come out, or the exceptions that the bindings raise."""

from __future__ import annotations

import inspect
import random
from typing import Any

import pytest
from cuda.bindings import driver as cuda

from drv.simulator.driver import SimulatedDriver
from tests.drv.simulator.compiled import KERNELS, ptx
from tests.drv.simulator.machine import Machine

#: Functions that read or call what the host's addresses point to: a wrong one is the caller's crash, as with NVIDIA's.
_ON_HOST_ADDRESSES = {
    "cuLaunchCooperativeKernel", "cuLaunchHostFunc", "cuLaunchKernel", "cuLaunchKernelEx", "cuLibraryLoadData",
    "cuMemHostRegister", "cuMemPoolSetAttribute", "cuMemcpy", "cuMemcpyAsync", "cuMemcpyDtoH", "cuMemcpyDtoHAsync",
    "cuMemcpyHtoD", "cuMemcpyHtoDAsync", "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary",
    "cuLaunchHostFunc_v2", "cuLogsDumpToFile", "cuLogsDumpToMemory", "cuLogsRegisterCallback", "cuMemGetLocationInfo",
    "cuMemcpy3DBatchAsync", "cuMemcpy3DWithAttributesAsync", "cuMemcpyBatchAsync", "cuMemcpyWithAttributesAsync",
    "cuOccupancyMaxPotentialBlockSize", "cuOccupancyMaxPotentialBlockSizeWithFlags", "cuParamSetv", "cuStreamAddCallback",
}  # fmt: skip
_NAMES = [
    name
    for name in dir(SimulatedDriver)
    if name.startswith("cu") and name[2].isupper() and name not in _ON_HOST_ADDRESSES
]
_ENUMS = (
    "CUdevice_attribute", "CUfunction_attribute", "CUlimit", "CUmemAllocationGranularity_flags", "CUmemPool_attribute",
    "CUpointer_attribute", "CUstreamCaptureMode",
)  # fmt: skip
#: What the bindings raise before the driver is called.
_REFUSED_BY_THE_BINDINGS = (TypeError, OverflowError, ValueError)


def call_at_random(seed: int, calls: int) -> set[str]:
    """Make calls whose arguments fit by chance, and may be the results of others; returns their statuses."""
    draw = random.Random(seed)
    machine = Machine(
        devices=2,
        memory="64MiB",
        schedule=draw.choice(("eager", "lazy", "random")),
        check=draw.choice(("on", "race", "full")),
        seed=seed,
    )
    module = machine.cuModuleLoadData(ptx(KERNELS, "--generate-line-info"))
    values: list[Any] = [
        *(0, 1, 2, -1, 7, 64, 4096, 1 << 31, 1 << 32, (1 << 64) - 1, 0xBAD0, True, None, 1.5, "x", b"x", b"axpy", b"counter"),
        *([], (), object(), machine.stream(), machine.event(), machine.device_memory(4096), machine.pinned(64)[0], module),
        *(machine.cuModuleGetFunction(module, name) for name in (b"nothing", b"axpy")),
        *(next(iter(getattr(cuda, name))) for name in _ENUMS),
        *(cuda.CUDA_MEMCPY2D(), cuda.CUmemAllocationProp(), cuda.CUmemPoolProps(), cuda.CUmemAccessDesc()),
        *(cuda.CUmemLocation(), cuda.CUdevResource(), cuda.CUstreamAttrValue(), cuda.CUmulticastObjectProp()),
        *machine.contexts,
    ]  # fmt: skip
    statuses = set()
    for _ in range(calls):
        name = draw.choice(_NAMES)
        function = getattr(machine.driver, name)
        arguments = [draw.choice(values) for _ in inspect.signature(function).parameters]
        try:
            status, *results = function(*arguments)
        except _REFUSED_BY_THE_BINDINGS:
            continue
        except RuntimeError as error:
            assert str(error).startswith("List is too small"), (seed, name, arguments)
            continue
        assert isinstance(status, cuda.CUresult), (seed, name, arguments)
        statuses.add(status.name)
        if status == cuda.CUresult.CUDA_SUCCESS:
            values += [result for result in results if not isinstance(result, (str, type(None)))]
        else:
            assert not any(result is not None for result in results), (seed, name, arguments, results)
    for fault in machine.driver.faults:
        assert "could not run" not in fault.report, (seed, fault.report)
    return statuses


def test_random_calls() -> None:
    statuses = set.union(*(call_at_random(seed, 200) for seed in range(15)))
    assert {"CUDA_SUCCESS", "CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_INVALID_HANDLE"} <= statuses


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_many_random_calls() -> None:
    for seed in range(15, 1500):
        call_at_random(seed, 200)

"""What each call answers to arguments that mean nothing: a status or, for wrong types, the bindings' exception."""

from __future__ import annotations

from typing import Any

import pytest

from tests.drv.simulator.machine import Machine

BAD = 0xBAD0

CASES: list[tuple[str, tuple[Any, ...], str]] = [
    ("cuDeviceGet", (-1,), "INVALID_DEVICE"),
    ("cuDeviceGet", (2,), "INVALID_DEVICE"),
    ("cuDeviceGetName", (0, 0), "INVALID_VALUE"),
    ("cuDeviceGetName", (16, 7), "INVALID_DEVICE"),
    ("cuDeviceTotalMem", (7,), "INVALID_DEVICE"),
    ("cuDeviceGetUuid", (7,), "INVALID_DEVICE"),
    ("cuDeviceGetPCIBusId", (5, 0), "INVALID_VALUE"),
    ("cuDeviceCanAccessPeer", (0, 7), "INVALID_DEVICE"),
    ("cuDevicePrimaryCtxRetain", (7,), "INVALID_DEVICE"),
    ("cuDevicePrimaryCtxReset", (7,), "INVALID_DEVICE"),
    ("cuCtxSetCurrent", (BAD,), "INVALID_CONTEXT"),
    ("cuCtxDestroy", (BAD,), "INVALID_CONTEXT"),
    ("cuCtxCreate", (None, 0, 7), "INVALID_DEVICE"),
    ("cuCtxCreate", (None, 1 << 30, 0), "INVALID_VALUE"),
    ("cuStreamCreate", (2,), "INVALID_VALUE"),
    ("cuStreamCreateWithPriority", (4, 0), "INVALID_VALUE"),
    ("cuStreamDestroy", (BAD,), "INVALID_HANDLE"),
    ("cuStreamDestroy", (0,), "INVALID_HANDLE"),
    ("cuStreamDestroy", (1,), "INVALID_HANDLE"),
    ("cuStreamQuery", (BAD,), "INVALID_HANDLE"),
    ("cuStreamSynchronize", (BAD,), "INVALID_HANDLE"),
    ("cuStreamWaitEvent", (0, BAD, 0), "INVALID_HANDLE"),
    ("cuStreamWaitEvent", (BAD, 0, 0), "INVALID_HANDLE"),
    ("cuStreamGetPriority", (BAD,), "INVALID_HANDLE"),
    ("cuEventCreate", (8,), "INVALID_VALUE"),
    ("cuEventCreate", (4,), "INVALID_VALUE"),
    ("cuEventDestroy", (BAD,), "INVALID_HANDLE"),
    ("cuEventDestroy", (None,), "INVALID_HANDLE"),
    ("cuEventQuery", (BAD,), "INVALID_HANDLE"),
    ("cuEventSynchronize", (BAD,), "INVALID_HANDLE"),
    ("cuEventRecord", (BAD, 0), "INVALID_HANDLE"),
    ("cuEventElapsedTime", (BAD, BAD), "INVALID_HANDLE"),
    ("cuMemAlloc", (0,), "INVALID_VALUE"),
    ("cuMemAllocHost", (0,), "INVALID_VALUE"),
    ("cuMemHostAlloc", (64, 8), "INVALID_VALUE"),
    ("cuMemAllocManaged", (0, 1), "INVALID_VALUE"),
    ("cuMemAllocManaged", (64, 4), "INVALID_VALUE"),
    ("cuMemAllocAsync", (0, 0), "INVALID_VALUE"),
    ("cuMemAllocAsync", (64, BAD), "INVALID_HANDLE"),
    ("cuMemFree", (BAD,), "INVALID_VALUE"),
    ("cuMemFreeHost", (BAD,), "INVALID_VALUE"),
    ("cuMemFreeAsync", (BAD, 0), "INVALID_VALUE"),
    ("cuMemHostRegister", (BAD, 0, 0), "INVALID_VALUE"),
    ("cuMemHostRegister", (BAD, 64, 64), "INVALID_VALUE"),
    ("cuMemHostUnregister", (BAD,), "HOST_MEMORY_NOT_REGISTERED"),
    ("cuMemHostGetDevicePointer", (BAD, 0), "INVALID_VALUE"),
    ("cuMemsetD8", (BAD, 0, 1), "INVALID_VALUE"),
    ("cuMemcpyPeer", (BAD, BAD, BAD, BAD, 1), "INVALID_CONTEXT"),
    ("cuMemcpy2D", (None,), "INVALID_VALUE"),
    ("cuModuleLoadData", (None,), "INVALID_VALUE"),
    ("cuModuleLoadData", (b"no image",), "INVALID_IMAGE"),
    ("cuModuleLoadData", (b"\x7fELF" + bytes(64),), "NO_BINARY_FOR_GPU"),
    ("cuModuleLoad", (b"/no/such/file",), "FILE_NOT_FOUND"),
    ("cuModuleUnload", (BAD,), "INVALID_HANDLE"),
    ("cuModuleGetFunction", (BAD, b"k"), "INVALID_HANDLE"),
    ("cuModuleGetGlobal", (BAD, b"k"), "INVALID_HANDLE"),
    ("cuFuncGetAttribute", (0, BAD), "INVALID_HANDLE"),
    ("cuLaunchKernel", (BAD, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0), "INVALID_HANDLE"),
    ("cuLibraryUnload", (BAD,), "INVALID_HANDLE"),
    ("cuLibraryGetKernel", (BAD, b"k"), "INVALID_HANDLE"),
    ("cuFuncGetName", (0,), "INVALID_VALUE"),
    ("cuFuncGetParamCount", (0,), "INVALID_VALUE"),
    ("cuFuncGetParamInfo", (0, 0), "INVALID_VALUE"),
    ("cuKernelGetName", (0,), "INVALID_VALUE"),
    ("cuKernelGetParamCount", (0,), "INVALID_VALUE"),
    ("cuKernelGetParamInfo", (0, 0), "INVALID_VALUE"),
    ("cuKernelGetFunction", (0,), "INVALID_HANDLE"),
    ("cuPointerGetAttribute", (99, BAD), "INVALID_VALUE"),
    ("cuCtxSetCacheConfig", (9,), "INVALID_VALUE"),
    ("cuIpcCloseMemHandle", (BAD,), "INVALID_VALUE"),
]


@pytest.mark.parametrize(("name", "arguments", "status"), CASES)
def test_status(machine: Machine, name: str, arguments: tuple[Any, ...], status: str) -> None:
    assert machine.status(name, *arguments) == status


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("cuMemAlloc", ("64",)),
        ("cuMemAlloc", (None,)),
        ("cuStreamSynchronize", ("stream",)),
        ("cuMemcpyHtoD", (0, object(), 4)),
        ("cuModuleLoadData", ("text",)),
        ("cuLaunchKernel", ("f", 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)),
    ],
)
def test_wrong_types_are_type_errors(machine: Machine, name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        getattr(machine.driver, name)(*arguments)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("cuMemAlloc", (-1,)),
        ("cuMemAlloc", (1 << 64,)),
        ("cuStreamCreate", (1 << 32,)),
        ("cuMemAllocHost", (-5,)),
    ],
)
def test_numbers_that_do_not_fit_are_overflow_errors(
    machine: Machine, name: str, arguments: tuple[Any, ...]
) -> None:
    with pytest.raises(OverflowError):
        getattr(machine.driver, name)(*arguments)


def test_without_a_context(machine: Machine) -> None:
    machine.cuCtxSetCurrent(None)
    for name, arguments in (
        ("cuMemAlloc", (64,)),
        ("cuMemGetInfo", ()),
        ("cuStreamCreate", (0,)),
        ("cuEventCreate", (0,)),
        ("cuCtxSynchronize", ()),
        ("cuStreamSynchronize", (0,)),
        ("cuMemHostAlloc", (64, 0)),
        ("cuMemcpyDtoD", (0, 0, 0)),
        ("cuModuleLoadData", (b".version",)),
        ("cuCtxGetLimit", (0,)),
        ("cuCtxGetStreamPriorityRange", ()),
        ("cuCtxEnablePeerAccess", (machine.contexts[1], 0)),
        ("cuProfilerStart", ()),
    ):
        assert machine.status(name, *arguments) == "INVALID_CONTEXT", name

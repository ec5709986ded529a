"""Handles of the simulated cuBLAS: settings, streams, workspaces, scalars."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from cuda.bindings.driver import CUresult

from drv.bindings.cublas import (
    STATUS_TEXT,
    cublasAtomicsMode_t,
    cublasMath_t,
    cublasPointerMode_t,
    cublasStatus_t,
    failure,
)
from drv.bindings.library_types import cudaDataType
from drv.simulator.memory.address_space import DEVICE_BASE

from .library_call import Driver, Refusal, answer_text, refusing
from .matrix_products import DTYPES
from .strided_memory import load, store

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from drv.simulator.memory.library_memory import LibraryMemory
    from drv.simulator.work.simulated_library import LibraryCost

VERSION = 131000
#: Elements of arrays of addresses in device memory.
POINTER = np.dtype(np.int64)
#: What cuBLAS asks of a workspace's address.
WORKSPACE_ALIGNMENT = 256

_HOST = cublasPointerMode_t.CUBLAS_POINTER_MODE_HOST

NOT_INITIALIZED = cublasStatus_t.CUBLAS_STATUS_NOT_INITIALIZED
INVALID_VALUE = cublasStatus_t.CUBLAS_STATUS_INVALID_VALUE
NOT_SUPPORTED = cublasStatus_t.CUBLAS_STATUS_NOT_SUPPORTED
EXECUTION_FAILED = cublasStatus_t.CUBLAS_STATUS_EXECUTION_FAILED

call = refusing(failure, cublasStatus_t.CUBLAS_STATUS_INTERNAL_ERROR)


@dataclass(frozen=True, slots=True)
class Workspace:
    """Device memory that the caller gave for intermediate results; of 0 bytes when cuBLAS uses its own."""

    address: int
    nbytes: int

    def use(self, memory: LibraryMemory, nbytes: int) -> None:
        """Overwrite up to ``nbytes`` of it, as a routine with that much intermediate data would."""
        used = min(nbytes, self.nbytes)
        if used:
            memory.write(self.address, used)[...] = 0xFF


#: No two streams share it, so no race can come from it.
OWN_WORKSPACE = Workspace(0, 0)


@dataclass(slots=True)
class Handle:
    """Settings of one handle."""

    device: int
    stream: int = 0
    pointer_mode: int = _HOST
    math_mode: int = cublasMath_t.CUBLAS_DEFAULT_MATH
    atomics_mode: int = cublasAtomicsMode_t.CUBLAS_ATOMICS_NOT_ALLOWED
    workspace: Workspace = OWN_WORKSPACE


@dataclass(slots=True)
class DeviceScalar:
    """``alpha`` or ``beta`` in device memory."""

    dtype: np.dtype[Any]
    address: int


#: A number that was read during the call, or where the device has it.
Scalar = complex | float | int | DeviceScalar


def number(scalar: Scalar, memory: LibraryMemory) -> complex | float | int:
    """The number, read from device memory now that the operation runs, if it is there."""
    if isinstance(scalar, DeviceScalar):
        value: complex | float | int = load(memory, scalar.address, scalar.dtype, (1,), (1,))[0].item()
        return value
    return scalar


def refuse_value(detail: str) -> Refusal:
    """``CUBLAS_STATUS_INVALID_VALUE``, and why."""
    return Refusal(INVALID_VALUE, detail)


class CublasState:
    """Handles and their settings; the functions that compute are in the classes that extend this one."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        # A handle of cuBLAS is one of cuBLASLt, too.
        self._handles: dict[int, Handle]
        self._handles, self._numbers = driver.shared.setdefault("cublas", ({}, count(0x6000_0000_0000, 64)))

    @call
    def cublasCreate(self, /) -> int:
        return self._new_handle()

    @call
    def cublasDestroy(self, handle: int, /) -> None:
        if self._handles.pop(handle, None) is None:
            raise _no_handle(handle)

    @call
    def cublasGetVersion(self, handle: int, /) -> int:
        return VERSION

    @call
    def cublasSetStream(self, handle: int, streamId: int, /) -> None:
        state = self._handle(handle)
        state.stream = int(streamId)
        state.workspace = OWN_WORKSPACE

    @call
    def cublasGetStream(self, handle: int, /) -> int:
        return self._handle(handle).stream

    @call
    def cublasSetWorkspace(self, handle: int, workspace: int, workspaceSizeInBytes: int, /) -> None:
        state = self._handle(handle)
        if workspace % WORKSPACE_ALIGNMENT:
            raise refuse_value(f"workspace {workspace:#x} is not aligned to {WORKSPACE_ALIGNMENT} bytes")
        if not workspace and workspaceSizeInBytes:
            raise refuse_value(f"workspace is null, and its size {workspaceSizeInBytes}")
        state.workspace = Workspace(workspace, workspaceSizeInBytes)

    @call
    def cublasSetMathMode(self, handle: int, mode: int, /) -> None:
        state = self._handle(handle)
        flag = cublasMath_t.CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION
        # 1 is the deprecated CUBLAS_TENSOR_OP_MATH.
        if mode & ~flag not in (0, 1, 2, 3):
            raise refuse_value(f"{mode} is no math mode")
        state.math_mode = mode

    @call
    def cublasGetMathMode(self, handle: int, /) -> int:
        return self._handle(handle).math_mode

    @call
    def cublasSetPointerMode(self, handle: int, mode: int, /) -> None:
        state = self._handle(handle)
        if mode not in (0, 1):
            raise refuse_value(f"{mode} is no pointer mode")
        state.pointer_mode = mode

    @call
    def cublasGetPointerMode(self, handle: int, /) -> int:
        return self._handle(handle).pointer_mode

    @call
    def cublasSetAtomicsMode(self, handle: int, mode: int, /) -> None:
        state = self._handle(handle)
        if mode not in (0, 1):
            raise refuse_value(f"{mode} is no atomics mode")
        state.atomics_mode = mode

    @call
    def cublasGetAtomicsMode(self, handle: int, /) -> int:
        return self._handle(handle).atomics_mode

    def cublasGetStatusName(self, status: int, /) -> bytes:
        return cublasStatus_t(status).name.encode() if status in STATUS_TEXT else b"unrecognized status"

    def cublasGetStatusString(self, status: int, /) -> bytes:
        return (
            STATUS_TEXT.get(cublasStatus_t(status), "").encode()
            if status in STATUS_TEXT
            else b"unrecognized status"
        )

    # For the functions that compute

    def _handle(self, handle: int) -> Handle:
        state = self._handles.get(handle)
        if state is None:
            raise _no_handle(handle)
        return state

    def _new_handle(self) -> int:
        device = self._current_device()
        handle: int = next(self._numbers)
        self._handles[handle] = Handle(device)
        return handle

    def _current_device(self) -> int:
        answer = self._driver.cuCtxGetDevice()
        if answer[0]:
            raise Refusal(NOT_INITIALIZED, f"no context is current ({answer[0].name})")
        return int(answer[1])

    def _scalar(self, state: Handle, address: int, data_type: int, name: str) -> Scalar:
        if not address:
            raise refuse_value(f"{name} is null")
        if state.pointer_mode != _HOST:
            return DeviceScalar(DTYPES[data_type], address)
        if data_type == cudaDataType.CUDA_R_32F:
            return ctypes.c_float.from_address(_host(address, name)).value
        value: complex | float | int = _host_view(address, DTYPES[data_type], name)[0].item()
        return value

    def _queue(
        self,
        state: Handle,
        label: str,
        run: Callable[[LibraryMemory], None],
        cost: LibraryCost | None = None,
    ) -> None:
        def quiet(memory: LibraryMemory) -> None:
            with np.errstate(all="ignore"):
                run(memory)

        answer = self._driver.library_call(state.stream, label, quiet, state.device, cost)
        if answer[0]:
            self._fail(state, answer[0])

    def _fail(self, state: Handle, status: Any) -> NoReturn:
        detail = answer_text(self._driver, status)
        if status == CUresult.CUDA_ERROR_INVALID_CONTEXT:
            detail += f"; the handle was made on device {state.device}, and the stream is another device's"
        raise Refusal(EXECUTION_FAILED, detail)

    def _deliver(
        self,
        state: Handle,
        label: str,
        result: int,
        dtype: np.dtype[Any],
        compute: Callable[[LibraryMemory], Any],
    ) -> None:
        """Queue ``compute`` and put its number at ``result``: on the device, or on the host after waiting for it."""
        if not result:
            raise refuse_value("result is null")
        workspace = state.workspace
        if state.pointer_mode != _HOST:

            def run(memory: LibraryMemory) -> None:
                workspace.use(memory, 1024)
                store(memory, result, np.array([compute(memory)]).astype(dtype), (1,))

            self._queue(state, label, run)
            return
        view = _host_view(result, dtype, "result")
        number = np.zeros(1, dtype)

        def run_for_host(memory: LibraryMemory) -> None:
            workspace.use(memory, 1024)
            number[0] = compute(memory)

        self._queue(state, label, run_for_host)
        answer = self._driver.cuStreamSynchronize(state.stream)
        if answer[0]:
            self._fail(state, answer[0])
        view[0] = number[0]


def _no_handle(handle: int) -> Refusal:
    return Refusal(NOT_INITIALIZED, f"{handle:#x} is no cuBLAS handle, or was destroyed")


def _host(address: int, name: str) -> int:
    """``address``, unless reading it on the host would crash the process."""
    if address >= DEVICE_BASE:
        raise refuse_value(f"{name} {address:#x} is a device address, and the pointer mode is host")
    return address


def _host_view(address: int, dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    buffer: Any = (ctypes.c_char * dtype.itemsize).from_address(_host(address, name))
    return np.frombuffer(buffer, dtype)

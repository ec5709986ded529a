from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cuda.bindings import driver as cuda

from drv.simulator.driver_call import contents, filled
from tests.drv.simulator.machine import DISABLE_TIMING, Machine

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERPROCESS = DISABLE_TIMING | int(cuda.CUevent_flags.CU_EVENT_INTERPROCESS)
LAZY_PEER_ACCESS = int(cuda.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
DESCRIPTOR = cuda.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
PAGE = 2 << 20


class Other:
    """Another process with a simulated driver of its own, which runs lines of Python that it is sent.

    They see ``machine``, and the file descriptors that were sent as ``fds``; what they leave in ``answer`` comes back.
    """

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket) -> None:
        self.process = process
        self._connection = connection

    def run(self, lines: str, *descriptors: int, **values: Any) -> Any:
        message = json.dumps({"lines": lines, "values": values}).encode()
        socket.send_fds(self._connection, [message], list(descriptors))
        data = self._connection.recv(1 << 16)
        assert data, "the other process has ended"
        answer = json.loads(data)
        assert "error" not in answer, answer["error"]
        return answer["answer"]


@contextmanager
def other_process(**options: Any) -> Iterator[Other]:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "tests.drv.simulator.api.memory.other_process", str(theirs.fileno())]
    with ours, theirs:
        process = subprocess.Popen([*command, json.dumps(options)], pass_fds=[theirs.fileno()])
        theirs.close()
        ours.settimeout(60)
        try:
            yield Other(process, ours)
        finally:
            ours.close()
            process.wait(60)


@pytest.fixture(scope="module")
def other() -> Iterator[Other]:
    with other_process(devices=2) as process:
        yield process


def handle_of(machine: Machine, memory: int) -> str:
    return contents(machine.cuIpcGetMemHandle(memory), 64).hex()


def test_two_processes_have_the_same_memory(machine: Machine, other: Other) -> None:
    memory = machine.device_memory(1000)
    machine.cuMemsetD8(memory, 7, 1000)
    seen = other.run(
        """
        memory = int(machine.cuIpcOpenMemHandle(ipc_memory(handle), 1))
        answer = machine.peek(memory, 1000).tolist()
        machine.cuMemsetD8Async(memory + 500, 9, 500, 0)
        machine.cuCtxSynchronize()
        """,
        handle=handle_of(machine, memory),
    )
    assert seen == [7] * 1000
    assert machine.peek(memory, 1000).tolist() == [7] * 500 + [9] * 500
    machine.cuMemsetD8(memory, 1, 1000)
    assert other.run("answer = machine.peek(memory, 1000).tolist()") == [1] * 1000
    assert other.run(
        "machine.cuIpcCloseMemHandle(memory); answer = machine.driver.memory.find(memory) is None"
    )


def test_other_processes_find_what_memory_holds(machine: Machine, other: Other) -> None:
    handle = other.run(
        """
        memory = int(machine.cuMemAlloc(64))
        machine.cuMemsetD8(memory, 5, 64)
        answer = bytes_of(machine.cuIpcGetMemHandle(memory))
        """
    )
    ipc_handle = filled(cuda.CUipcMemHandle(), bytes.fromhex(handle))
    memory = int(machine.cuIpcOpenMemHandle(ipc_handle, LAZY_PEER_ACCESS))
    second_address = int(machine.cuIpcOpenMemHandle(ipc_handle, LAZY_PEER_ACCESS))
    assert second_address == memory
    assert (machine.peek(memory, 64) == 5).all()
    attribute = cuda.CUpointer_attribute
    assert machine.cuPointerGetAttribute(attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory) == 0
    # Opened twice, and so closed twice.
    machine.cuIpcCloseMemHandle(memory)
    assert (machine.peek(memory, 64) == 5).all()
    machine.cuIpcCloseMemHandle(memory)
    assert machine.status("cuIpcCloseMemHandle", memory) == "INVALID_VALUE"
    assert machine.status("cuMemFree", memory) == "INVALID_VALUE"


def test_memory_of_another_process_is_not_freed_here(machine: Machine, other: Other) -> None:
    handle = other.run("answer = bytes_of(machine.cuIpcGetMemHandle(machine.cuMemAlloc(64)))")
    ipc_handle = filled(cuda.CUipcMemHandle(), bytes.fromhex(handle))
    memory = machine.cuIpcOpenMemHandle(ipc_handle, LAZY_PEER_ACCESS)
    assert machine.status("cuMemFree", memory) == "INVALID_VALUE"
    machine.cuIpcCloseMemHandle(memory)


def test_handles_of_memory_are_checked(machine: Machine, other: Other) -> None:
    memory = machine.device_memory(64)
    handle = machine.cuIpcGetMemHandle(memory)
    assert machine.status("cuIpcOpenMemHandle", handle, 0) == "INVALID_VALUE"
    assert machine.status("cuIpcOpenMemHandle", cuda.CUipcMemHandle(), LAZY_PEER_ACCESS) == "INVALID_VALUE"
    # A process cannot open its own memory.
    assert machine.status("cuIpcOpenMemHandle", handle, LAZY_PEER_ACCESS) == "INVALID_CONTEXT"
    assert machine.status("cuIpcGetMemHandle", 0x10) == "INVALID_VALUE"
    assert machine.status("cuIpcGetMemHandle", machine.pinned(64)[0]) == "INVALID_VALUE"
    assert machine.status("cuIpcGetMemHandle", machine.cuMemAllocAsync(64, 0)) == "INVALID_VALUE"
    text = contents(handle, 64).hex()
    machine.cuMemFree(memory)
    status = other.run('answer = machine.status("cuIpcOpenMemHandle", ipc_memory(handle), 1)', handle=text)
    assert status == "MAP_FAILED"


def test_memory_outlives_the_process_that_had_it(machine: Machine) -> None:
    with other_process() as owner:
        handle = owner.run(
            """
            memory = machine.cuMemAlloc(64)
            machine.cuMemsetD8(memory, 5, 64)
            answer = bytes_of(machine.cuIpcGetMemHandle(memory))
            """
        )
        ipc_handle = filled(cuda.CUipcMemHandle(), bytes.fromhex(handle))
        memory = int(machine.cuIpcOpenMemHandle(ipc_handle, LAZY_PEER_ACCESS))
        os.kill(owner.process.pid, signal.SIGKILL)
        owner.process.wait()
    assert (machine.peek(memory, 64) == 5).all()
    machine.cuIpcCloseMemHandle(memory)
    assert machine.status("cuIpcOpenMemHandle", ipc_handle, LAZY_PEER_ACCESS) == "MAP_FAILED"


def test_a_stream_waits_for_an_event_of_another_process(lazy: Machine, other: Other) -> None:
    event = lazy.event(INTERPROCESS)
    stream, memory = lazy.stream(), lazy.device_memory(64)
    lazy.cuMemsetD8Async(memory, 3, 64, stream)
    lazy.cuEventRecord(event, stream)
    handle = contents(lazy.cuIpcGetEventHandle(event), 64).hex()
    other.run(
        """
        event = machine.cuIpcOpenEventHandle(ipc_event(handle))
        memory = int(machine.cuIpcOpenMemHandle(ipc_memory(memory_handle), 1))
        stream, copy = machine.stream(), machine.device_memory(64)
        machine.cuStreamWaitEvent(stream, event, 0)
        machine.cuMemcpyDtoDAsync(copy, memory, 64, stream)
        answer = machine.status("cuEventQuery", event), machine.status("cuStreamQuery", stream)
        """,
        handle=handle,
        memory_handle=handle_of(lazy, memory),
    )
    assert other.run('answer = machine.status("cuStreamQuery", stream)') == "NOT_READY"
    lazy.cuStreamSynchronize(stream)
    answer = other.run(
        """
        machine.cuEventSynchronize(event)
        machine.cuStreamSynchronize(stream)
        answer = machine.status("cuEventQuery", event), machine.peek(copy, 64).tolist()
        """
    )
    assert answer == ["SUCCESS", [3] * 64]


def test_the_host_waits_for_an_event_that_another_process_records(machine: Machine, other: Other) -> None:
    event = machine.event(INTERPROCESS)
    handle = contents(machine.cuIpcGetEventHandle(event), 64).hex()
    # Never recorded, it stands for nothing that is to be waited for.
    machine.cuEventSynchronize(event)
    other.run(
        "event = machine.cuIpcOpenEventHandle(ipc_event(handle)); machine.cuEventRecord(event, 0); answer = 0",
        handle=handle,
    )
    machine.cuEventSynchronize(event)
    assert machine.status("cuEventQuery", event) == "SUCCESS"


def test_handles_of_events_are_checked(machine: Machine) -> None:
    assert machine.status("cuIpcGetEventHandle", machine.event()) == "INVALID_HANDLE"
    assert machine.status("cuIpcGetEventHandle", 0x10) == "INVALID_HANDLE"
    assert machine.status("cuIpcOpenEventHandle", cuda.CUipcEventHandle()) == "INVALID_HANDLE"
    handle = machine.cuIpcGetEventHandle(machine.event(INTERPROCESS))
    assert machine.status("cuIpcOpenEventHandle", handle) == "INVALID_CONTEXT"


def properties(handles: int = int(DESCRIPTOR)) -> cuda.CUmemAllocationProp:
    result = cuda.CUmemAllocationProp()
    result.type = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    result.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    result.requestedHandleTypes = cuda.CUmemAllocationHandleType(handles)
    return result


def mapped(machine: Machine, handle: Any) -> int:
    address = int(machine.cuMemAddressReserve(PAGE, 0, 0, 0))
    machine.cuMemMap(address, PAGE, 0, handle, 0)
    grant = cuda.CUmemAccessDesc()
    grant.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    grant.flags = cuda.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    machine.cuMemSetAccess(address, PAGE, [grant], 1)
    return address


def test_physical_memory_goes_to_other_processes_as_a_file(machine: Machine, other: Other) -> None:
    handle = machine.cuMemCreate(PAGE, properties(), 0)
    address = mapped(machine, handle)
    machine.cuMemsetD8(address, 4, PAGE)
    descriptor = machine.cuMemExportToShareableHandle(handle, DESCRIPTOR, 0)
    seen = other.run(
        """
        handle = machine.cuMemImportFromShareableHandle(fds[0], DESCRIPTOR)
        address = mapped(machine, handle)
        answer = machine.peek(address, 64).tolist()
        machine.cuMemsetD8(address, 6, 32)
        """,
        descriptor,
    )
    os.close(descriptor)
    assert seen == [4] * 64
    assert machine.peek(address, 64).tolist() == [6] * 32 + [4] * 32


def test_exports_of_physical_memory_are_checked(machine: Machine) -> None:
    private = machine.cuMemCreate(PAGE, properties(0), 0)
    assert machine.status("cuMemExportToShareableHandle", private, DESCRIPTOR, 0) == "INVALID_VALUE"
    handle = machine.cuMemCreate(PAGE, properties(), 0)
    assert machine.status("cuMemExportToShareableHandle", handle, DESCRIPTOR, 1) == "INVALID_VALUE"
    fabric = cuda.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_FABRIC
    assert machine.status("cuMemExportToShareableHandle", handle, fabric, 0) == "NOT_SUPPORTED"
    with Path(os.devnull).open() as file:
        status = machine.status("cuMemImportFromShareableHandle", file.fileno(), DESCRIPTOR)
    assert status == "INVALID_VALUE"
    assert machine.status("cuMemImportFromShareableHandle", -1, DESCRIPTOR) == "INVALID_VALUE"


def test_a_pool_and_its_memory_in_another_process(machine: Machine, other: Other) -> None:
    properties = cuda.CUmemPoolProps()
    properties.allocType = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.handleTypes = DESCRIPTOR
    pool = machine.cuMemPoolCreate(properties)
    memory = int(machine.cuMemAllocFromPoolAsync(256, pool, 0))
    machine.cuMemsetD8(memory, 8, 256)
    descriptor = machine.cuMemPoolExportToShareableHandle(pool, DESCRIPTOR, 0)
    exported = contents(machine.cuMemPoolExportPointer(memory + 64), 64).hex()
    seen = other.run(
        """
        pool = machine.cuMemPoolImportFromShareableHandle(fds[0], DESCRIPTOR, 0)
        memory = int(machine.cuMemPoolImportPointer(pool, pool_pointer(exported)))
        answer = machine.peek(memory, 64).tolist(), machine.status("cuMemAllocFromPoolAsync", 64, pool, 0)
        machine.cuMemsetD8(memory, 2, 64)
        machine.cuMemFreeAsync(memory - 64, 0)
        machine.cuCtxSynchronize()
        machine.cuMemPoolDestroy(pool)
        """,
        descriptor,
        exported=exported,
    )
    os.close(descriptor)
    assert seen == [[8] * 64, "INVALID_VALUE"]
    assert machine.peek(memory, 256).tolist() == [8] * 64 + [2] * 64 + [8] * 128


def test_exports_of_pools_are_checked(machine: Machine) -> None:
    pool = machine.cuDeviceGetDefaultMemPool(0)
    assert machine.status("cuMemPoolExportToShareableHandle", pool, DESCRIPTOR, 0) == "INVALID_VALUE"
    assert machine.status("cuMemPoolExportPointer", machine.cuMemAllocAsync(64, 0)) == "INVALID_VALUE"
    with Path(os.devnull).open() as file:
        status = machine.status("cuMemPoolImportFromShareableHandle", file.fileno(), DESCRIPTOR, 0)
    assert status == "INVALID_VALUE"
    export = cuda.CUmemPoolPtrExportData()
    assert machine.status("cuMemPoolImportPointer", pool, export) == "INVALID_VALUE"


def test_nothing_stays_open(machine: Machine) -> None:
    # Drivers of earlier tests close theirs when they are collected, which must not happen in between.
    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    memory = machine.device_memory(64)
    machine.cuIpcGetMemHandle(memory)
    event = machine.event(INTERPROCESS)
    machine.cuIpcGetEventHandle(event)
    assert len(list(Path("/proc/self/fd").iterdir())) >= before + 2
    machine.cuMemFree(memory)
    machine.cuEventDestroy(event)
    assert len(list(Path("/proc/self/fd").iterdir())) == before

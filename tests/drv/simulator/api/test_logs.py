from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from cuda.bindings import driver as cuda

from tests.drv.simulator.machine import Machine

if TYPE_CHECKING:
    from pathlib import Path

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)


def test_failed_calls_are_logged(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "log"
    start = machine.cuLogsCurrent(0)
    machine.status("cuMemAlloc", 0)
    machine.status("cuStreamQuery", 0x10)
    position = machine.cuLogsDumpToFile(start, str(path).encode(), 0)
    lines = path.read_text().splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("[CUDA][E] cuMemAlloc returns CUDA_ERROR_INVALID_VALUE")
    assert lines[1].endswith("cuStreamQuery returns CUDA_ERROR_INVALID_HANDLE")
    # The iterator goes on from there.
    machine.status("cuMemFree", 0x10)
    machine.cuLogsDumpToFile(position, str(path).encode(), 0)
    assert len(path.read_text().splitlines()) == 1
    machine.cuLogsDumpToFile(None, str(path).encode(), 0)
    assert len(path.read_text().splitlines()) == 3


def test_not_being_ready_is_no_error(lazy: Machine) -> None:
    stream, event = lazy.stream(), lazy.event()
    start = int(lazy.cuLogsCurrent(0))
    lazy.cuEventRecord(event, stream)
    assert lazy.status("cuEventElapsedTime", event, event) == "NOT_READY"
    assert int(lazy.cuLogsCurrent(0)) == start


def test_a_log_in_memory(machine: Machine) -> None:
    buffer = ctypes.create_string_buffer(b"x" * 4000)
    address = ctypes.addressof(buffer)
    assert machine.cuLogsDumpToMemory(machine.cuLogsCurrent(0), address, 4000, 0)[1] == 0
    assert buffer.value == b""
    for size in range(3):
        machine.status("cuMemFree", 0x10 + size)
    _, length = machine.cuLogsDumpToMemory(None, address, 4000, 0)
    assert buffer.value.count(b"\n") == 3
    assert len(buffer.value) == length
    each = length // 3
    _, shorter = machine.cuLogsDumpToMemory(None, address, 2 * each + 20, 0)
    assert shorter < 2 * each + 20
    assert buffer.value.startswith(b"[older messages are lost]")
    assert machine.status("cuLogsDumpToMemory", None, address, 20, 0) == "INVALID_VALUE"


def test_old_messages_are_lost(machine: Machine, tmp_path: Path) -> None:
    start = machine.cuLogsCurrent(0)
    for _ in range(400):
        machine.status("cuMemFree", 0x10)
    machine.cuLogsDumpToFile(start, str(tmp_path / "log").encode(), 0)
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[0] == "[older messages are lost]"
    assert len(lines) == 321


def test_callbacks(machine: Machine) -> None:
    seen: list[tuple[int, bytes]] = []
    callback = CALLBACK(lambda data, level, message, length: seen.append((level, message[:length])))
    address = ctypes.cast(callback, ctypes.c_void_p).value
    handle = machine.cuLogsRegisterCallback(cuda.CUlogsCallback(address), 0)
    machine.status("cuMemFree", 0x10)
    machine.cuLogsUnregisterCallback(handle)
    machine.status("cuMemFree", 0x10)
    assert len(seen) == 1
    assert seen[0][0] == int(cuda.CUlogLevel.CU_LOG_LEVEL_ERROR)
    assert b"cuMemFree returns CUDA_ERROR_INVALID_VALUE" in seen[0][1]
    assert machine.status("cuLogsUnregisterCallback", handle) == "INVALID_VALUE"
    assert machine.status("cuLogsRegisterCallback", 0, 0) == "INVALID_VALUE"
    assert machine.status("cuLogsCurrent", 1) == "INVALID_VALUE"
    assert machine.status("cuLogsDumpToFile", None, b"/no/such/folder/log", 0) == "INVALID_VALUE"

"""Driver calls by which processes of one machine share memory and events.

The bytes of what is exported move into memory that other processes can map. A handle says which process has it open,
and as what: it is of use as long as that process lives and has not freed the memory.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver_call import (
    OK,
    SUCCESS,
    CallError,
    call,
    contents,
    filled,
    from_finalizer,
    integer,
    invalid_handle,
    invalid_value,
    structure,
    unsigned,
)
from drv.simulator.memory.address_space import Allocation, MemoryKind
from drv.simulator.memory.records import MemoryBook, MemoryRecord
from drv.simulator.memory.shared_bytes import SharedBytes
from drv.simulator.scheduler import Event
from drv.simulator.shared_events import SharedEvent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from drv.simulator.options import Options

_HANDLE_BYTES = 64
#: Magic, process and file descriptor there, number of the device, size.
_MEMORY = struct.Struct("<16sQQQQ")
_MEMORY_MAGIC = b"graphroot mem"
_EVENT = struct.Struct("<16sQQQ")
_EVENT_MAGIC = b"graphroot event"
_LAZY_PEER_ACCESS = int(cuda.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
_EVENT_BYTES = 16


@dataclass(slots=True)
class _Opened:
    """Memory of another process: how often it was opened, and by which handle."""

    record: MemoryRecord
    handle: bytes
    count: int = 1


class SharingCalls(MemoryBook):
    """``cuIpc*``."""

    def __init__(self, options: Options, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(options, environment)
        self._opened: dict[int, _Opened] = {}

    # Memory

    @call(1)
    def cuIpcGetMemHandle(self, dptr: Any) -> tuple[Any, ...]:
        record = self.record_at(integer(dptr))
        if record is None or record.allocation.kind is not MemoryKind.DEVICE or record.pool is not None:
            raise invalid_value()
        if record.graph_allocation is not None or not self.execute:
            raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
        allocation = record.allocation
        if record.shared is None:
            record.shared = SharedBytes.create(allocation.size)
            allocation.move(record.shared.data)
        index = self.devices[allocation.device].index if allocation.device is not None else 0
        known = os.getpid(), record.shared.descriptor, index, allocation.size
        return SUCCESS, filled(cuda.CUipcMemHandle(), _MEMORY.pack(_MEMORY_MAGIC, *known))

    @call(1)
    def cuIpcOpenMemHandle(self, handle: Any, Flags: Any) -> tuple[Any, ...]:
        context = self.current()
        if unsigned(Flags, 32) != _LAZY_PEER_ACCESS:
            raise invalid_value()
        reserved = contents(structure(handle, cuda.CUipcMemHandle), _HANDLE_BYTES)
        for opened in self._opened.values():
            if opened.handle == reserved and opened.record.context is context:
                opened.count += 1
                return SUCCESS, cuda.CUdeviceptr(opened.record.allocation.base)
        magic, process, descriptor, index, size = _MEMORY.unpack_from(reserved)
        if magic.rstrip(b"\0") != _MEMORY_MAGIC:
            raise invalid_value()
        if process == os.getpid():
            raise CallError(CUresult.CUDA_ERROR_INVALID_CONTEXT)
        device = next((each for each in self.devices if each.index == index), None)
        if device is None:
            raise CallError(CUresult.CUDA_ERROR_INVALID_DEVICE)
        try:
            shared = SharedBytes.open_of(process, descriptor)
        except (OSError, ValueError):
            raise CallError(CUresult.CUDA_ERROR_MAP_FAILED) from None
        allocation = Allocation(
            self.new_address(device, size),
            size,
            MemoryKind.IMPORTED,
            shared.data,
            device.ordinal,
            stack=self.recorder.take(),
        )
        record = self.book(allocation, context, 0, "cuIpcOpenMemHandle")
        record.shared = shared
        self._opened[allocation.base] = _Opened(record, reserved)
        return SUCCESS, cuda.CUdeviceptr(allocation.base)

    @from_finalizer
    @call()
    def cuIpcCloseMemHandle(self, dptr: Any) -> tuple[Any, ...]:
        address = integer(dptr)
        opened = self._opened.get(address)
        if opened is None or self.records.get(address) is not opened.record:
            raise invalid_value()
        opened.count -= 1
        if opened.count == 0:
            context = opened.record.context
            if context is not None and context.lost is None:
                self.wait_context(context)
            del self._opened[address]
            self.release(opened.record)
        return OK

    # Events

    @call(1)
    def cuIpcGetEventHandle(self, event: Any) -> tuple[Any, ...]:
        known = self.event(event)
        if not known.interprocess:
            raise invalid_handle()
        if known.shared is None:
            known.shared = SharedEvent(SharedBytes.create(_EVENT_BYTES))
            known.shared.begin(known.record)
        index = known.context.device.index
        data = _EVENT.pack(_EVENT_MAGIC, os.getpid(), known.shared.descriptor, index)
        return SUCCESS, filled(cuda.CUipcEventHandle(), data)

    @call(1)
    def cuIpcOpenEventHandle(self, handle: Any) -> tuple[Any, ...]:
        context = self.current()
        reserved = contents(structure(handle, cuda.CUipcEventHandle), _HANDLE_BYTES)
        magic, process, descriptor, index = _EVENT.unpack_from(reserved)
        if magic.rstrip(b"\0") != _EVENT_MAGIC:
            raise invalid_handle()
        if process == os.getpid():
            raise CallError(CUresult.CUDA_ERROR_INVALID_CONTEXT)
        if context.device.index != index:
            raise CallError(CUresult.CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)
        try:
            shared = SharedBytes.open_of(process, descriptor)
        except (OSError, ValueError):
            raise CallError(CUresult.CUDA_ERROR_MAP_FAILED) from None
        number = self.new_handle()
        event = Event(number, context, timing=False, interprocess=True)
        event.shared = SharedEvent(shared)
        self.events[number] = event
        return SUCCESS, cuda.CUevent(number)

"""Driver calls that describe addresses."""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver as cuda

from drv.simulator.driver_call import (
    OK,
    SUCCESS,
    call,
    integer,
    invalid_value,
    unsigned,
)
from drv.simulator.memory.address_space import Allocation, MemoryKind
from drv.simulator.memory.records import MemoryBook, MemoryRecord

_ATTRIBUTES = cuda.CUpointer_attribute
_DESCRIPTOR = int(cuda.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
#: What ``cuPointerGetAttributes`` gives for an address that is not CUDA's.
_UNKNOWN: dict[cuda.CUpointer_attribute, Any] = {
    _ATTRIBUTES.CU_POINTER_ATTRIBUTE_CONTEXT: cuda.CUcontext(0),
    _ATTRIBUTES.CU_POINTER_ATTRIBUTE_MEMORY_TYPE: 0,
    _ATTRIBUTES.CU_POINTER_ATTRIBUTE_DEVICE_POINTER: cuda.CUdeviceptr(0),
    _ATTRIBUTES.CU_POINTER_ATTRIBUTE_HOST_POINTER: 0,
    _ATTRIBUTES.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: False,
    _ATTRIBUTES.CU_POINTER_ATTRIBUTE_BUFFER_ID: 0,
    _ATTRIBUTES.CU_POINTER_ATTRIBUTE_IS_MANAGED: False,
    _ATTRIBUTES.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: -2,
    _ATTRIBUTES.CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: False,
    _ATTRIBUTES.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: cuda.CUdeviceptr(0),
    _ATTRIBUTES.CU_POINTER_ATTRIBUTE_RANGE_SIZE: 0,
    _ATTRIBUTES.CU_POINTER_ATTRIBUTE_MAPPED: False,
    _ATTRIBUTES.CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: 0,
    _ATTRIBUTES.CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: False,
    _ATTRIBUTES.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: cuda.CUmemoryPool(0),
    _ATTRIBUTES.CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: False,
}


class PointerCalls(MemoryBook):
    """``cuPointer*``."""

    @call(1)
    def cuPointerGetAttribute(self, attribute: Any, ptr: Any) -> tuple[Any, ...]:
        requested, address = _attribute(attribute), integer(ptr)
        record = self.record_at(address)
        if record is None:
            raise invalid_value()
        value = self._attribute(record, address, requested)
        if value is None:
            raise invalid_value()
        return SUCCESS, value

    @call(1)
    def cuPointerGetAttributes(self, numAttributes: Any, attributes: Any, ptr: Any) -> tuple[Any, ...]:
        requested = [_attribute(attribute) for attribute in attributes or ()]
        if unsigned(numAttributes, 32) != len(requested) or not requested:
            raise invalid_value()
        address = integer(ptr)
        record = self.record_at(address)
        values = []
        for attribute in requested:
            value = None if record is None else self._attribute(record, address, attribute)
            values.append(_UNKNOWN.get(attribute, 0) if value is None else value)
        return SUCCESS, values

    def _attribute(self, record: MemoryRecord, address: int, attribute: cuda.CUpointer_attribute) -> Any:
        allocation = record.allocation
        if attribute == _ATTRIBUTES.CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
            return self._access_flags(allocation)
        host, managed = allocation.device is None, allocation.kind is MemoryKind.MANAGED
        ordinal = allocation.device
        if ordinal is None and record.context is not None:
            ordinal = record.context.device.ordinal
        values: dict[cuda.CUpointer_attribute, Any] = {
            _ATTRIBUTES.CU_POINTER_ATTRIBUTE_CONTEXT: cuda.CUcontext(
                record.context.handle if record.context is not None else 0
            ),
            _ATTRIBUTES.CU_POINTER_ATTRIBUTE_MEMORY_TYPE: (
                cuda.CUmemorytype.CU_MEMORYTYPE_HOST
                if host and not managed
                else cuda.CUmemorytype.CU_MEMORYTYPE_DEVICE
            ),
            _ATTRIBUTES.CU_POINTER_ATTRIBUTE_DEVICE_POINTER: cuda.CUdeviceptr(address),
            _ATTRIBUTES.CU_POINTER_ATTRIBUTE_HOST_POINTER: address if host else None,
            _ATTRIBUTES.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: record.sync_memops,
            _ATTRIBUTES.CU_POINTER_ATTRIBUTE_BUFFER_ID: record.identifier,
            _ATTRIBUTES.CU_POINTER_ATTRIBUTE_IS_MANAGED: managed,
            _ATTRIBUTES.CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: (
                allocation.kind is MemoryKind.DEVICE and record.pool is None
            ),
            _ATTRIBUTES.CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: self._handle_types(record),
            _ATTRIBUTES.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: ordinal,
            _ATTRIBUTES.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: cuda.CUdeviceptr(allocation.base),
            _ATTRIBUTES.CU_POINTER_ATTRIBUTE_RANGE_SIZE: allocation.size,
            _ATTRIBUTES.CU_POINTER_ATTRIBUTE_MAPPED: True,
            _ATTRIBUTES.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: cuda.CUmemoryPool(
                record.pool.handle if record.pool is not None else 0
            ),
        }
        if allocation.kind is MemoryKind.MAPPED:
            values[_ATTRIBUTES.CU_POINTER_ATTRIBUTE_MAPPING_SIZE] = allocation.size
            values[_ATTRIBUTES.CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR] = cuda.CUdeviceptr(allocation.base)
        return values.get(attribute, _UNKNOWN.get(attribute))

    def _access_flags(self, allocation: Allocation) -> cuda.CUmemAccess_flags:
        """What the current device may do with the memory."""
        device = self.current().device.ordinal
        rights = cuda.CUmemAccess_flags
        if self.memory.accessible(allocation, device, write=True):
            return rights.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        if self.memory.accessible(allocation, device):
            return rights.CU_MEM_ACCESS_FLAGS_PROT_READ
        return rights.CU_MEM_ACCESS_FLAGS_PROT_NONE

    @staticmethod
    def _handle_types(record: MemoryRecord) -> int:
        """By which handles other processes may have the memory."""
        exportable = record.pool is not None and record.pool.shareable
        return _DESCRIPTOR if exportable else 0

    @call()
    def cuPointerSetAttribute(self, value: Any, attribute: Any, ptr: Any) -> tuple[Any, ...]:
        record = self.record_at(integer(ptr))
        if _attribute(attribute) != _ATTRIBUTES.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS or record is None:
            raise invalid_value()
        record.sync_memops = bool(value)
        return OK


def _attribute(attribute: Any) -> cuda.CUpointer_attribute:
    try:
        return _ATTRIBUTES(integer(attribute))
    except ValueError:
        raise invalid_value() from None

"""Operations of a stream on a word of memory: wait for a value, write one, add to one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUgraphNodeType

from drv.simulator.checks.observation import Access
from drv.simulator.driver_call import integer, invalid_value, structure
from drv.simulator.memory.library_memory import LibraryMemory

from .work import Work

if TYPE_CHECKING:
    from drv.simulator.driver_state import Context, DriverState
    from drv.simulator.scheduler import Operation, Stream

_TYPES = cuda.CUstreamBatchMemOpType
_WAITS = {
    int(_TYPES.CU_STREAM_MEM_OP_WAIT_VALUE_32): 4,
    int(_TYPES.CU_STREAM_MEM_OP_WAIT_VALUE_64): 8,
}
_WRITES = {
    int(_TYPES.CU_STREAM_MEM_OP_WRITE_VALUE_32): 4,
    int(_TYPES.CU_STREAM_MEM_OP_WRITE_VALUE_64): 8,
}
WAIT_32, WAIT_64 = _WAITS
WRITE_32, WRITE_64 = _WRITES
_BARRIER = int(_TYPES.CU_STREAM_MEM_OP_BARRIER)
_FLUSH = int(_TYPES.CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES)
_REDUCTION = int(_TYPES.CU_STREAM_MEM_OP_ATOMIC_REDUCTION)
_GREATER_OR_EQUAL, _EQUAL, _AND, _NOR = range(4)
_CONDITIONS = ("reaches", "is", "has a bit of", "lacks a bit of")
_REDUCTIONS = {
    int(cuda.CUstreamAtomicReductionOpType.CU_STREAM_ATOMIC_REDUCTION_OP_OR): np.bitwise_or,
    int(cuda.CUstreamAtomicReductionOpType.CU_STREAM_ATOMIC_REDUCTION_OP_AND): np.bitwise_and,
    int(cuda.CUstreamAtomicReductionOpType.CU_STREAM_ATOMIC_REDUCTION_OP_ADD): np.add,
}
_REDUCTION_WIDTHS = {
    int(cuda.CUstreamAtomicReductionDataType.CU_STREAM_ATOMIC_REDUCTION_UNSIGNED_32): 4,
    int(cuda.CUstreamAtomicReductionDataType.CU_STREAM_ATOMIC_REDUCTION_UNSIGNED_64): 8,
}
#: Fewer operations than this make a batch.
BATCH_LIMIT = 256


@dataclass(slots=True, frozen=True)
class MemoryOperation:
    """One operation: its ``CUstreamBatchMemOpType``, the word that it is about, a value and flags."""

    operation_type: int
    address: int = 0
    value: int = 0
    width: int = 0
    flags: int = 0
    reduction: int = 0

    @property
    def waits(self) -> bool:
        """Whether it waits for a value."""
        return self.operation_type in _WAITS

    @property
    def label(self) -> str:
        """What reports call it."""
        if self.waits:
            return (
                f"wait until {self.width} bytes at {self.address:#x} {_CONDITIONS[self.flags]} {self.value}"
            )
        if self.operation_type in _WRITES:
            return f"write of {self.value} to {self.width} bytes at {self.address:#x}"
        if self.operation_type == _REDUCTION:
            return f"reduction into {self.width} bytes at {self.address:#x}"
        return "memory barrier"

    def satisfied(self, word: int) -> bool:
        """Whether a wait is over when its word has the value ``word``."""
        mask = (1 << 8 * self.width) - 1
        if self.flags == _EQUAL:
            return word == self.value
        if self.flags == _AND:
            return bool(word & self.value)
        if self.flags == _NOR:
            return bool(~(word | self.value) & mask)
        return (word - self.value & mask) >> 8 * self.width - 1 == 0

    def structure(self) -> cuda.CUstreamBatchMemOpParams:
        """It as the bindings have it."""
        result = cuda.CUstreamBatchMemOpParams()
        result.operation = _TYPES(self.operation_type)
        if self.waits or self.operation_type in _WRITES:
            member = result.waitValue if self.waits else result.writeValue
            member.operation = _TYPES(self.operation_type)
            member.address = cuda.CUdeviceptr(self.address)
            member.value64 = cuda.cuuint64_t(self.value)
            member.flags = self.flags
        elif self.operation_type == _REDUCTION:
            member = result.atomicReduction
            member.operation = _TYPES(self.operation_type)
            member.address = cuda.CUdeviceptr(self.address)
            member.value = cuda.cuuint64_t(self.value)
            member.reductionOp = cuda.CUstreamAtomicReductionOpType(self.reduction)
            width = next(each for each, size in _REDUCTION_WIDTHS.items() if size == self.width)
            member.dataType = cuda.CUstreamAtomicReductionDataType(width)
        return result


def operation_of(parameters: Any) -> MemoryOperation:
    """The operation that a ``CUstreamBatchMemOpParams`` describes. Refuses flags and types that do not exist."""
    structure(parameters, cuda.CUstreamBatchMemOpParams)
    try:
        operation_type = int(parameters.operation)
    except ValueError:
        raise invalid_value() from None
    if operation_type in _WAITS or operation_type in _WRITES:
        waits = operation_type in _WAITS
        member = parameters.waitValue if waits else parameters.writeValue
        width = _WAITS[operation_type] if waits else _WRITES[operation_type]
        value = integer(member.value64 if width == 8 else member.value)
        return checked_operation(
            MemoryOperation(operation_type, integer(member.address), value, width, int(member.flags))
        )
    if operation_type == _REDUCTION:
        member = parameters.atomicReduction
        try:
            reduction, width = int(member.reductionOp), _REDUCTION_WIDTHS[int(member.dataType)]
        except (KeyError, ValueError):
            raise invalid_value() from None
        value = integer(member.value) & (1 << 8 * width) - 1
        return checked_operation(
            MemoryOperation(
                operation_type, integer(member.address), value, width, int(member.flags), reduction
            )
        )
    flags = int(
        (parameters.memoryBarrier if operation_type == _BARRIER else parameters.flushRemoteWrites).flags
    )
    if flags > (operation_type == _BARRIER):
        raise invalid_value()
    return MemoryOperation(operation_type)


def checked_operation(operation: MemoryOperation) -> MemoryOperation:
    """``operation``, unless its flags or its address make no sense."""
    most = _NOR if operation.waits else 0
    if not 0 <= operation.flags <= most or not operation.address or operation.address % operation.width:
        raise invalid_value()
    return operation


class MemoryOperationsWork(Work):
    """Operations on memory, one after the other."""

    __slots__ = ("operations",)
    node_type = CUgraphNodeType.CU_GRAPH_NODE_TYPE_BATCH_MEM_OP

    def __init__(self, context: Context, operations: tuple[MemoryOperation, ...]) -> None:
        super().__init__(context, "operations on memory")
        self.operations = operations

    def queue(
        self, driver: DriverState, stream: Stream, after: list[Operation] | None = None, note: str = ""
    ) -> Operation:
        """See :meth:`Work.queue`. Each of them is queued for itself."""
        for each in self.operations:
            operation = driver.operation(stream, each.label + note, None, after)
            operation.work = self
            operation.run = partial(_run, driver, operation, each)
            if each.waits:
                operation.ready = partial(_ready, driver, each)
            driver.scheduler.enqueue(operation)
            after = None
        return operation


def _ready(driver: DriverState, each: MemoryOperation) -> bool:
    allocation = driver.memory.find(each.address)
    if allocation is None:
        # It is freed: the wait ends in a fault.
        return True
    start = each.address - allocation.base
    word = int.from_bytes(allocation.data[start : start + each.width].tobytes(), "little")
    return each.satisfied(word)


def _run(driver: DriverState, operation: Operation, each: MemoryOperation) -> None:
    if not each.address:
        return
    observer = driver.observer
    word = LibraryMemory(driver.memory, None).write(each.address, each.width)
    allocation = driver.memory.find(each.address)
    assert allocation is not None
    start = each.address - allocation.base
    if each.waits:
        if observer is not None:
            # What has been done before the value was written has been done before what comes now.
            observer.learn(
                operation, allocation, start, start + each.width, driver.scheduler.pending_operations()
            )
        return
    if observer is not None:
        if each.operation_type in _WRITES:
            observer.written(allocation, start, start + each.width)
        observer.range_access(allocation, start, start + each.width, Access.ATOMIC)
    value = np.frombuffer(each.value.to_bytes(each.width, "little"), np.uint8)
    if each.operation_type == _REDUCTION:
        dtype = np.uint32 if each.width == 4 else np.uint64
        view = word.view(dtype)
        view[...] = _REDUCTIONS[each.reduction](view, value.view(dtype))
    else:
        word[...] = value

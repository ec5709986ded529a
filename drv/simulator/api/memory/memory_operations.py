"""Driver calls that queue operations on a word of memory: waits for a value, writes of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drv.simulator.driver_call import OK, call, integer, invalid_value, listed, unsigned
from drv.simulator.memory.address_space import MemoryKind
from drv.simulator.memory.records import MemoryBook
from drv.simulator.work.memory_operations import (
    BATCH_LIMIT,
    WAIT_32,
    WAIT_64,
    WRITE_32,
    WRITE_64,
    MemoryOperation,
    MemoryOperationsWork,
    checked_operation,
    operation_of,
)

if TYPE_CHECKING:
    from drv.simulator.driver_state import Context


class MemoryOperationCalls(MemoryBook):
    """``cuStreamWaitValue*``, ``cuStreamWriteValue*``, ``cuStreamBatchMemOp``."""

    @call()
    def cuStreamWaitValue32(self, stream: Any, addr: Any, value: Any, flags: Any) -> tuple[Any, ...]:
        return self._one(stream, WAIT_32, addr, unsigned(value, 32), 4, flags)

    @call()
    def cuStreamWaitValue64(self, stream: Any, addr: Any, value: Any, flags: Any) -> tuple[Any, ...]:
        return self._one(stream, WAIT_64, addr, unsigned(value), 8, flags)

    @call()
    def cuStreamWriteValue32(self, stream: Any, addr: Any, value: Any, flags: Any) -> tuple[Any, ...]:
        return self._one(stream, WRITE_32, addr, unsigned(value, 32), 4, flags)

    @call()
    def cuStreamWriteValue64(self, stream: Any, addr: Any, value: Any, flags: Any) -> tuple[Any, ...]:
        return self._one(stream, WRITE_64, addr, unsigned(value), 8, flags)

    def _one(
        self, hStream: Any, operation_type: int, address: Any, value: int, width: int, flags: Any
    ) -> tuple[Any, ...]:
        operation = MemoryOperation(operation_type, integer(address), value, width, unsigned(flags, 32))
        return self._queue(hStream, (checked_operation(operation),))

    @call()
    def cuStreamBatchMemOp(self, stream: Any, count: Any, paramArray: Any, flags: Any) -> tuple[Any, ...]:
        number = unsigned(count, 32)
        if unsigned(flags, 32) != 0:
            raise invalid_value()
        operations = self.memory_operations(number, paramArray)
        return self._queue(stream, operations)

    def memory_operations(self, count: int, parameters: Any) -> tuple[MemoryOperation, ...]:
        """The operations that structures describe."""
        structures = listed(parameters, count)
        if not 0 < count < BATCH_LIMIT:
            raise invalid_value()
        return tuple(operation_of(each) for each in structures)

    def memory_operations_work(
        self, context: Context, operations: tuple[MemoryOperation, ...]
    ) -> MemoryOperationsWork:
        """The work of ``operations``, whose words are device memory, or page-locked memory of the host."""
        for operation in operations:
            if operation.address:
                allocation = self.simulated_range(operation.address, operation.width)
                if allocation is None or allocation.kind is MemoryKind.MANAGED:
                    raise invalid_value()
        return MemoryOperationsWork(context, operations)

    def _queue(self, hStream: Any, operations: tuple[MemoryOperation, ...]) -> tuple[Any, ...]:
        stream = self.stream(hStream)
        work = self.memory_operations_work(stream.context, operations)
        if self.execute or stream.capture is not None:
            self.submit(stream, work)
        return OK

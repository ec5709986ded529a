"""Driver calls that fill memory. Filling device memory never blocks the host; filling pinned memory does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drv.simulator.driver_call import OK, call, integer, invalid_value, unsigned
from drv.simulator.memory.records import MemoryBook
from drv.simulator.work.fill import FillWork

if TYPE_CHECKING:
    from drv.simulator.driver_state import Context
    from drv.simulator.scheduler import Stream


class FillCalls(MemoryBook):
    """``cuMemset*``."""

    @call()
    def cuMemsetD8(self, dstDevice: Any, uc: Any, N: Any) -> tuple[Any, ...]:
        return self._fill(dstDevice, unsigned(uc, 8), 1, unsigned(N), 1, 0, None)

    @call()
    def cuMemsetD16(self, dstDevice: Any, us: Any, N: Any) -> tuple[Any, ...]:
        return self._fill(dstDevice, unsigned(us, 16), 2, unsigned(N), 1, 0, None)

    @call()
    def cuMemsetD32(self, dstDevice: Any, ui: Any, N: Any) -> tuple[Any, ...]:
        return self._fill(dstDevice, unsigned(ui, 32), 4, unsigned(N), 1, 0, None)

    @call()
    def cuMemsetD8Async(self, dstDevice: Any, uc: Any, N: Any, hStream: Any) -> tuple[Any, ...]:
        return self._fill(dstDevice, unsigned(uc, 8), 1, unsigned(N), 1, 0, self.stream(hStream))

    @call()
    def cuMemsetD16Async(self, dstDevice: Any, us: Any, N: Any, hStream: Any) -> tuple[Any, ...]:
        return self._fill(dstDevice, unsigned(us, 16), 2, unsigned(N), 1, 0, self.stream(hStream))

    @call()
    def cuMemsetD32Async(self, dstDevice: Any, ui: Any, N: Any, hStream: Any) -> tuple[Any, ...]:
        return self._fill(dstDevice, unsigned(ui, 32), 4, unsigned(N), 1, 0, self.stream(hStream))

    @call()
    def cuMemsetD2D8(
        self, dstDevice: Any, dstPitch: Any, uc: Any, Width: Any, Height: Any
    ) -> tuple[Any, ...]:
        shape = unsigned(Width), unsigned(Height), unsigned(dstPitch)
        return self._fill(dstDevice, unsigned(uc, 8), 1, *shape, None)

    @call()
    def cuMemsetD2D16(
        self, dstDevice: Any, dstPitch: Any, us: Any, Width: Any, Height: Any
    ) -> tuple[Any, ...]:
        shape = unsigned(Width), unsigned(Height), unsigned(dstPitch)
        return self._fill(dstDevice, unsigned(us, 16), 2, *shape, None)

    @call()
    def cuMemsetD2D32(
        self, dstDevice: Any, dstPitch: Any, ui: Any, Width: Any, Height: Any
    ) -> tuple[Any, ...]:
        shape = unsigned(Width), unsigned(Height), unsigned(dstPitch)
        return self._fill(dstDevice, unsigned(ui, 32), 4, *shape, None)

    @call()
    def cuMemsetD2D8Async(
        self, dstDevice: Any, dstPitch: Any, uc: Any, Width: Any, Height: Any, hStream: Any
    ) -> tuple[Any, ...]:
        shape = unsigned(Width), unsigned(Height), unsigned(dstPitch)
        return self._fill(dstDevice, unsigned(uc, 8), 1, *shape, self.stream(hStream))

    @call()
    def cuMemsetD2D16Async(
        self, dstDevice: Any, dstPitch: Any, us: Any, Width: Any, Height: Any, hStream: Any
    ) -> tuple[Any, ...]:
        shape = unsigned(Width), unsigned(Height), unsigned(dstPitch)
        return self._fill(dstDevice, unsigned(us, 16), 2, *shape, self.stream(hStream))

    @call()
    def cuMemsetD2D32Async(
        self, dstDevice: Any, dstPitch: Any, ui: Any, Width: Any, Height: Any, hStream: Any
    ) -> tuple[Any, ...]:
        shape = unsigned(Width), unsigned(Height), unsigned(dstPitch)
        return self._fill(dstDevice, unsigned(ui, 32), 4, *shape, self.stream(hStream))

    def _fill(
        self,
        dstDevice: Any,
        value: int,
        item: int,
        count: int,
        rows: int,
        pitch: int,
        stream: Stream | None,
    ) -> tuple[Any, ...]:
        context = self.current() if stream is None else stream.context
        work = self.fill_work(context, integer(dstDevice), value, item, count, rows, pitch)
        if work is None:
            return OK
        queue = stream if stream is not None else self.legacy_stream(context)
        if not self.execute and queue.capture is None:
            return OK
        operation = self.submit(queue, work)
        allocation = self.memory.find(work.address)
        waits = stream is None and allocation is not None and allocation.device is None
        if operation is not None and (waits or self.launch_blocking):
            self.wait(operation)
            return self.status(queue.context)
        return OK

    def fill_work(
        self, context: Context, address: int, value: int, item: int, count: int, rows: int, pitch: int
    ) -> FillWork | None:
        """A fill of rows of elements, in ``context``; None for one of nothing."""
        row_bytes = count * item
        if rows > 1 and (pitch < row_bytes or pitch % item):
            raise invalid_value()
        if row_bytes == 0 or rows == 0:
            return None
        if address % item or self.simulated_range(address, (rows - 1) * pitch + row_bytes) is None:
            raise invalid_value()
        return FillWork(context, address, value, item, count, rows, pitch)

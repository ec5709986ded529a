"""Memory that the simulated driver's own checks guard to the byte."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from drv.allocators.direct import DirectAllocator, DirectBlock
from drv.capture_mode import unseen_by_captures
from drv.device import pushed
from drv.errors import CudaError

from .patterns import POISON

if TYPE_CHECKING:
    from drv.allocators.events import StreamEvents, StreamKey
    from drv.device import Device

_NON_BLOCKING = 1
_DISABLE_TIMING = 2


class OrderedBlock(DirectBlock):
    """An allocation in the order of a stream.

    Attributes
    ----------
    uses : dict
        Other streams that use it, as ``(device, stream)``.
    """

    __slots__ = ("uses",)

    def __init__(self, address: int, size: int, stream: int) -> None:
        super().__init__(address, size, stream)
        self.uses: dict[StreamKey, None] = {}


class StreamOrderedMemory(DirectAllocator[OrderedBlock]):
    """Each block is an allocation of the driver, made and freed in the order of its stream.

    Nothing waits: a free that did would order the streams, and hide the races between them. Work on another
    stream that nothing orders before the free is a use of freed memory, whether or not the memory would have
    been handed out again by then. Fresh memory is poisoned, without that counting as written.

    Parameters
    ----------
    device : Device
        A simulated one.
    events : StreamEvents
        Tells when the driver may be called.
    """

    def __init__(self, device: Device, events: StreamEvents) -> None:
        super().__init__(device)
        self._events = events
        self._deferred: deque[OrderedBlock] = deque()
        self._last: Any = None

    def record_stream(self, block: OrderedBlock, stream: int, device: int | None = None) -> None:
        """See :meth:`~drv.allocators.protocol.Allocator.record_stream`."""
        block.uses[self.ordinal if device is None else device, stream] = None

    def _obtain(self, size: int, stream: int) -> OrderedBlock:
        device, runtime = self.device, self.device.runtime
        device.use()
        runtime.collect()
        while self._deferred:
            self._free(self._deferred.popleft())
        status, address = runtime.driver.cuMemAllocAsync(size, stream)
        if status:
            runtime.fail(status, "cuMemAllocAsync", f"{size} bytes on device {device.ordinal}")
        runtime.driver.poison(int(address), POISON)
        return OrderedBlock(int(address), size, stream)

    def _obtain_kept(self, size: int, stream: int) -> OrderedBlock:
        # In the order of a stream that is captured it would be a node, and happen at each launch of the graph.
        device, runtime = self.device, self.device.runtime
        device.use()
        with unseen_by_captures(runtime):
            status, address = runtime.driver.cuMemAlloc(size)
        if status:
            runtime.fail(status, "cuMemAlloc", f"{size} bytes on device {device.ordinal}")
        runtime.driver.poison(int(address), POISON)
        return OrderedBlock(int(address), size, stream)

    def _give_back_kept(self, block: OrderedBlock) -> None:
        self.device.runtime.release(self.device, "cuMemFree", block.address)

    def _nothing(self, stream: int) -> OrderedBlock:
        return OrderedBlock(0, 0, stream)

    def _give_back(self, block: OrderedBlock) -> None:
        if not self._events.ready():
            self._deferred.append(block)
        elif self.device.runtime.alive:
            self._free(block)

    def _free(self, block: OrderedBlock) -> None:
        try:
            with pushed(self.device):
                self._free_in_order(block)
        except CudaError:
            # A stream is gone: no order is left to keep. (Or the context is lost, and the memory with it.)
            self.device.runtime.release(self.device, "cuMemFree", block.address)

    def _free_in_order(self, block: OrderedBlock) -> None:
        driver, check = self.device.runtime.driver, self.device.runtime.check
        block.uses.pop((self.ordinal, block.stream), None)
        stream: Any = block.stream
        if block.uses:
            # On a stream of its own the free comes after all uses and orders nothing else.
            if self._last is None:
                self._last = check(driver.cuStreamCreate(_NON_BLOCKING), "cuStreamCreate")
            stream = self._last
            for key in ((self.ordinal, block.stream), *block.uses):
                self._wait(stream, key)
        check(driver.cuMemFreeAsync(block.address, stream), "cuMemFreeAsync")

    def _wait(self, stream: Any, key: StreamKey) -> None:
        """Let ``stream`` wait for what the stream of ``key`` has queued."""
        driver, check = self.device.runtime.driver, self.device.runtime.check
        with pushed(self.device.runtime.device(key[0])):
            event = check(driver.cuEventCreate(_DISABLE_TIMING), "cuEventCreate")
            try:
                check(driver.cuEventRecord(event, key[1]), "cuEventRecord")
                check(driver.cuStreamWaitEvent(stream, event, 0), "cuStreamWaitEvent")
            finally:
                driver.cuEventDestroy(event)

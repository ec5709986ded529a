"""Copies of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuda.bindings.driver import CUgraphNodeType

from drv.simulator.memory.queued_copy import Endpoint, QueuedCopy, direction

from .work import Work

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from drv.simulator.driver_state import Context, DriverState
    from drv.simulator.scheduler import Operation, Stream


class CopyWork(Work):
    """A copy of ``shape`` bytes ``(depth, height, width)`` from ``source`` to ``target``."""

    __slots__ = ("shape", "source", "target")
    node_type = CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMCPY

    def __init__(
        self, context: Context, target: Endpoint, source: Endpoint, shape: tuple[int, int, int]
    ) -> None:
        depth, height, width = shape
        super().__init__(context, f"copy of {depth * height * width} bytes {direction(source, target)}")
        self.target = target
        self.source = source
        self.shape = shape

    @property
    def nbytes(self) -> int:
        """How many bytes are copied."""
        depth, height, width = self.shape
        return depth * height * width

    def queue(
        self, driver: DriverState, stream: Stream, after: list[Operation] | None = None, note: str = ""
    ) -> Operation:
        """See :meth:`Work.queue`. Pageable memory is touched when the copy runs."""
        return self.queue_staged(driver, stream, None, after, note)[0]

    def run(self, driver: DriverState) -> None:
        """Copy the memory as it is now."""
        QueuedCopy(
            driver.memory, driver.observer, self.target, self.source, self.shape, None, delivered=False
        )()

    def queue_staged(
        self,
        driver: DriverState,
        stream: Stream,
        staged: list[NDArray[np.uint8]] | None,
        after: list[Operation] | None = None,
        note: str = "",
        *,
        delivered: bool = False,
    ) -> tuple[Operation, QueuedCopy]:
        """Queue it for a call, which has read a pageable source, to ``staged``.

        With ``delivered`` the call itself writes to a pageable target, when it has waited.
        """
        copy = QueuedCopy(
            driver.memory,
            driver.observer,
            self.target,
            self.source,
            self.shape,
            staged,
            delivered=delivered,
        )
        operation = driver.operation(stream, self.label + note, copy, after)
        operation.work = self
        origin = self.source.allocation
        if driver.observer is not None and origin is not None and origin.device is None:
            # The host may write pinned memory without a word.
            pitches = (self.source.slice_pitch, self.source.pitch)
            start = self.source.address - origin.base
            driver.observer.watch_source(operation, origin, start, self.shape, pitches)
        driver.scheduler.enqueue(operation)
        return operation, copy

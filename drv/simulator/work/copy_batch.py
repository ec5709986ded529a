"""Copies that are queued together, in no order."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from cuda.bindings.driver import CUgraphNodeType

from drv.simulator.memory.queued_copy import QueuedCopy

from .work import InnerOperation, Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from drv.simulator.driver_state import Context, DriverState
    from drv.simulator.memory.queued_copy import Endpoint
    from drv.simulator.scheduler import Operation, Stream

    from .copy import CopyWork


class CopyBatchWork(Work):
    """A batch of copies, one operation of its stream. ``staged`` are bytes of pageable sources that were read already.

    Their order is the schedule's. To the race finder those that may touch the same bytes are work of their own.
    """

    __slots__ = ("copies", "staged")
    node_type = CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMCPY

    def __init__(
        self,
        context: Context,
        copies: Sequence[CopyWork],
        staged: Sequence[list[NDArray[np.uint8]] | None],
    ) -> None:
        super().__init__(context, f"batch of {len(copies)} copies")
        self.copies = copies
        self.staged = staged

    def queue(
        self, driver: DriverState, stream: Stream, after: list[Operation] | None = None, note: str = ""
    ) -> Operation:
        """See :meth:`Work.queue`."""
        operation = driver.operation(stream, self.label + note, None, after)
        operation.work = self
        close = _close(self.copies) if driver.observer is not None else []
        branches = {index: (stream.identifier, "copy", number) for number, index in enumerate(close)}
        operation.inside = tuple(branches.values())
        operation.run = partial(self._run, driver, operation, branches)
        driver.scheduler.enqueue(operation)
        return operation

    def _run(
        self, driver: DriverState, operation: Operation, branches: dict[int, tuple[int, str, int]]
    ) -> None:
        left = list(range(len(self.copies)))
        checker: Any = driver.observer
        while left:
            index = left.pop(driver.scheduler.choose(len(left)))
            if index not in branches:
                self._copy(driver, index)
                continue
            running = checker.suspend()
            label = f"copy {index} of a {self.label}"
            inner = InnerOperation(label, operation.stack, operation.stream_name, operation.launch)
            checker.submit_inside(inner, branches[index], operation, [])
            checker.start(inner)
            try:
                self._copy(driver, index)
            finally:
                checker.finish(inner)
                checker.resume(running)

    def _copy(self, driver: DriverState, index: int) -> None:
        copy = self.copies[index]
        QueuedCopy(
            driver.memory,
            driver.observer,
            copy.target,
            copy.source,
            copy.shape,
            self.staged[index],
            delivered=False,
        )()


def _close(copies: Sequence[CopyWork]) -> list[int]:
    """The copies that write where another one may read or write."""
    if len(copies) < 2:
        return []
    spans = sorted(
        (*_span(end, copy.shape), index, writes)
        for index, copy in enumerate(copies)
        for end, writes in ((copy.target, True), (copy.source, False))
    )
    result: set[int] = set()
    reaching: list[tuple[int, int, bool]] = []
    for start, stop, index, writes in spans:
        reaching = [each for each in reaching if each[0] > start]
        for _, other, other_writes in reaching:
            if other != index and (writes or other_writes):
                result |= {index, other}
        reaching.append((stop, index, writes))
    return sorted(result)


def _span(end: Endpoint, shape: tuple[int, int, int]) -> tuple[int, int]:
    depth, height, width = shape
    return end.address, end.address + (depth - 1) * end.slice_pitch + (height - 1) * end.pitch + width

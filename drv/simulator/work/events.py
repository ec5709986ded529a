"""Records of events, and waits for them."""

from __future__ import annotations

from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING

from cuda.bindings.driver import CUgraphNodeType

from .work import Work

if TYPE_CHECKING:
    from drv.simulator.driver_state import Context, DriverState
    from drv.simulator.scheduler import Event, Operation, Stream
    from drv.simulator.shared_events import SharedEvent


class EventRecordWork(Work):
    """A record of ``event``: what waits for it from now on waits for what comes before this."""

    __slots__ = ("event",)
    node_type = CUgraphNodeType.CU_GRAPH_NODE_TYPE_EVENT_RECORD

    def __init__(self, context: Context, event: Event) -> None:
        super().__init__(context, "record of an event")
        self.event = event

    def queue(
        self, driver: DriverState, stream: Stream, after: list[Operation] | None = None, note: str = ""
    ) -> Operation:
        """See :meth:`Work.queue`."""
        operation = driver.operation(stream, self.label + note, None, after)
        shared = self.event.shared
        number = None if shared is None else shared.recorded()
        operation.run = partial(_stamp, operation, shared, number)
        operation.work = self
        self.event.record = operation
        driver.scheduler.enqueue(operation)
        return operation


class EventWaitWork(Work):
    """A wait for the latest record of ``event``, of the moment in which this is queued."""

    __slots__ = ("event",)
    node_type = CUgraphNodeType.CU_GRAPH_NODE_TYPE_WAIT_EVENT

    def __init__(self, context: Context, event: Event) -> None:
        super().__init__(context, "wait for an event")
        self.event = event

    @property
    def does_something(self) -> bool:
        """False."""
        return False

    def queue(
        self, driver: DriverState, stream: Stream, after: list[Operation] | None = None, note: str = ""
    ) -> Operation:
        """See :meth:`Work.queue`."""
        record, shared = self.event.record, self.event.shared
        earlier = [] if after is None else after
        if record is not None:
            earlier = [*earlier, record]
        if shared is None or not shared.latest:
            return super().queue(driver, stream, earlier, note)
        # Another process may have recorded it since.
        operation = driver.operation(stream, self.label + note, None, earlier)
        operation.work = self
        operation.ready = partial(shared.reached, shared.latest)
        driver.scheduler.enqueue(operation)
        return operation


def _stamp(operation: Operation, shared: SharedEvent | None, number: int | None) -> None:
    operation.time = perf_counter_ns()
    if shared is not None and number is not None:
        shared.done(number)

"""What all work has in common."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from cuda.bindings.driver import CUgraphNodeType

if TYPE_CHECKING:
    from drv.python_stack import Frame
    from drv.simulator.driver_state import Context, DriverState
    from drv.simulator.graphs.graph import Graph
    from drv.simulator.scheduler import GraphLaunch, Operation, Stream


class Work:
    """One piece of work, in a context.

    Attributes
    ----------
    context : Context
        Where it runs.
    label : str
        What reports call it.
    """

    __slots__ = ("context", "label")

    #: What a node of a graph is that does it.
    node_type: ClassVar[Any]
    #: Whether it runs on the host, in a thread of the driver's.
    on_host: ClassVar[bool] = False

    def __init__(self, context: Context, label: str) -> None:
        self.context = context
        self.label = label

    def queue(
        self, driver: DriverState, stream: Stream, after: list[Operation] | None = None, note: str = ""
    ) -> Operation:
        """Queue it at the end of ``stream``, after the operations ``after`` as well.

        ``note`` is what reports say beside the label, such as which node of a graph it is.
        """
        run = partial(self.run, driver) if self.does_something else None
        operation = driver.operation(stream, self.label + note, run, after, host=self.on_host)
        operation.work = self
        driver.scheduler.enqueue(operation)
        return operation

    @property
    def does_something(self) -> bool:
        """Whether there is anything to run."""
        return True

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The graphs that it is made of, if it is."""
        return ()

    def check(self, driver: DriverState) -> None:
        """Raise :class:`~drv.simulator.driver_call.CallError` for what a launch of a graph with it is refused for."""

    def run(self, driver: DriverState) -> None:
        """Do it. Raises :class:`~drv.simulator.faults.DeviceFault` where a device would."""
        raise NotImplementedError


class EmptyWork(Work):
    """Nothing: a point in the order of other work."""

    __slots__ = ()
    node_type = CUgraphNodeType.CU_GRAPH_NODE_TYPE_EMPTY

    def __init__(self, context: Context, label: str = "empty node") -> None:
        super().__init__(context, label)

    @property
    def does_something(self) -> bool:
        """False."""
        return False


@dataclass(slots=True, eq=False)
class InnerOperation:
    """Work that runs within an operation, each time that it does, and is unordered with other work within it.

    What checkers need to know of it is what an operation has.
    """

    label: str
    stack: tuple[Frame, ...]
    stream_name: str
    launch: GraphLaunch | None = None
    work: Any = None
    clock: Any = None
    timing: Any = None

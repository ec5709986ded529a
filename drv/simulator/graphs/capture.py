"""Captures: streams whose work becomes nodes of a graph instead of being queued."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cuda.bindings.driver import CUresult

from drv.python_stack import format_stack
from drv.simulator.driver_call import CallError

from .graph import WHOLE, behind

if TYPE_CHECKING:
    from drv.python_stack import Frame
    from drv.simulator.driver_state import Context
    from drv.simulator.scheduler import Stream
    from drv.simulator.work.work import Work

    from .book import GraphBook
    from .graph import Edge, Graph, Node


@dataclass(slots=True, eq=False)
class Fork:
    """A stream that has joined a capture: what its next node depends on, and where it joined."""

    dependencies: dict[Node, Edge]
    stack: tuple[Frame, ...] = ()


@dataclass(slots=True, eq=False)
class Capture:
    """A capture, from ``cuStreamBeginCapture`` on ``origin`` to its end there."""

    driver: GraphBook
    identifier: int
    graph: Graph
    origin: Stream
    mode: int
    thread: int
    #: Whether the graph is the capture's own, and goes with it when it fails.
    owns_graph: bool = True
    forks: dict[Stream, Fork] = field(default_factory=dict)
    ended: bool = False
    #: Why it is void, if it is, for people.
    failure: str | None = None

    def append(self, stream: Stream, work: Work) -> Node:
        """Make ``work`` the next node of ``stream``."""
        self.check()
        fork = self.forks[stream]
        node = self.driver.new_node(self.graph, work, fork.dependencies)
        fork.dependencies = {node: WHOLE}
        return node

    def check(self) -> None:
        """Refuse work where the capture is void."""
        if self.failure is not None:
            raise CallError(CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)

    def join(self, stream: Stream, dependencies: dict[Node, Edge]) -> None:
        """``stream`` waits for nodes of the capture: it joins, or goes on after them, too."""
        fork = self.forks.get(stream)
        if fork is None:
            self.forks[stream] = Fork(dict(dependencies), self.driver.recorder.take())
            stream.capture = self
        else:
            fork.dependencies = {**fork.dependencies, **dependencies}

    def blocks_legacy(self, context: Context) -> bool:
        """Whether the legacy default stream of ``context`` would have to wait for a stream that is captured."""
        return any(stream.blocking and stream.context is context for stream in self.forks)

    def invalidate(self, status: CUresult, reason: str) -> CallError:
        """Make the capture void; the error with which the call that did so answers."""
        if self.failure is None and not self.ended:
            stack = self.driver.recorder.take()
            called_by = f", called by\n{format_stack(stack)}" if stack else ""
            self.failure = f"{reason}{called_by}"
            self.driver.capture_report = f"The capture on {self.origin.name} is void: {self.failure}"
        return CallError(status)

    def unjoined(self) -> list[tuple[Stream, Fork]]:
        """Streams whose last nodes the end of the origin does not depend on."""
        reached = behind(self.forks[self.origin].dependencies)
        return [
            (stream, fork)
            for stream, fork in self.forks.items()
            if stream is not self.origin and any(node not in reached for node in fork.dependencies)
        ]

    def finish(self) -> None:
        """Take all streams out of the capture."""
        self.ended = True
        self.graph.capture = None
        for stream in self.forks:
            stream.capture = None
        if self in self.driver.captures:
            self.driver.captures.remove(self)


@dataclass(slots=True)
class CapturedRecord:
    """What an event stands for that was recorded in a stream that is captured."""

    capture: Capture
    dependencies: dict[Node, Edge]

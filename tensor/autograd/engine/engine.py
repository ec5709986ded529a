"""Running the graph backward.

Nodes run from the newest to the oldest, each when the gradients of all its uses have arrived. A node runs
on the stream of its forward operation. Where a gradient goes from one stream to another, an event is
recorded when it is made and waited for when it is used; a pass on one stream records none. Nothing waits on
the host, and nothing recurses, however deep the graph is.
"""

from __future__ import annotations

import itertools
from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from tensor.autograd.recording import anomaly
from tensor.autograd.recording.anomaly import check_gradients, report
from tensor.autograd.recording.node import AccumulateGrad, Node

from .accumulation import Awaited, accumulate, add, fit, hold
from .graph_task import current, run_nested
from .node_streams import ONE_STREAM, NodeStreams, stream_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tensor.core.devices.stream import Stream
    from tensor.methods.tensor import Tensor

    from .root import GraphRoot

_numbers = itertools.count()


def run(
    root: GraphRoot,
    *,
    keep_graph: bool,
    create_graph: bool,
    captures: Sequence[Any] | None = None,
    accumulates: bool = True,
) -> list[Tensor | None]:
    """Run backward from ``root``.

    Parameters
    ----------
    keep_graph
        Whether what nodes have saved is kept.
    create_graph
        Whether the pass itself is recorded.
    captures
        Edges whose gradients are wanted; only what they need is run then.
    accumulates
        Whether gradients are added to ``grad`` of leaves (those in ``captures``, where given).

    Returns
    -------
    list
        The gradients of ``captures``, ``None`` for those that nothing reached.
    """
    task = GraphTask(root, keep_graph, captures, accumulates)
    # The caller may hold the root, but not its gradients any longer.
    del root
    run_nested(task, create_graph)
    return task.captured


def queue_callback(function: Callable[[], Any], *, outermost: bool = False) -> None:
    """Have ``function`` called at the end of this thread's backward pass, before it returns.

    The caller's streams are current then, and have waited for the gradients. Of passes inside each other it is the
    innermost one, or the outermost.

    Raises
    ------
    RuntimeError
        If no backward pass runs in this thread.
    """
    running = _running("queue_callback()")
    while outermost and running.outer is not None:
        running = running.outer
    running.callbacks.append(function)


def pass_number() -> int:
    """Number of the backward pass that runs in this thread; -1 where none does."""
    return -1 if current.task is None else current.task.number


def will_execute(node: Node) -> bool:
    """Whether this thread's backward pass runs ``node``, or has run it.

    Raises
    ------
    RuntimeError
        If no backward pass runs in this thread.
    """
    running = _running("will_execute()")
    if running.needed is not None and node not in running.needed:
        return False
    return node in running.dependencies


def _running(name: str) -> GraphTask:
    if current.task is None:
        raise RuntimeError(
            f"{name} is for code that runs inside a backward pass, such as hooks: none is running"
        )
    result: GraphTask = current.task
    return result


class GraphTask:
    """One backward pass."""

    __slots__ = (
        "accumulated",
        "accumulates",
        "arrived",
        "awaits",
        "callbacks",
        "captured",
        "captures",
        "dependencies",
        "keep_graph",
        "leaves",
        "needed",
        "number",
        "outer",
        "ready",
        "root",
        "streams",
    )

    def __init__(
        self, root: GraphRoot, keep_graph: bool, captures: Sequence[Any] | None, accumulates: bool
    ) -> None:
        self.number = next(_numbers)
        #: The pass that this one is inside of.
        self.outer: GraphTask | None = current.task
        self.keep_graph = keep_graph
        self.accumulates = accumulates
        self.captures: dict[Node, list[tuple[int, int]]] = {}
        self.captured: list[Tensor | None] = [None] * len(captures or ())
        for position, (node, number) in enumerate(captures or ()):
            self.captures.setdefault(node, []).append((number, position))
        self.dependencies = _count_uses(root.edges)
        self.needed = None if captures is None else _needed(self.dependencies, self.captures)
        #: For each output of a node what has arrived: a gradient, or one that is to be waited for.
        self.arrived: dict[Node, list[Any]] = {}
        #: Whether there ever was one to be waited for.
        self.awaits = False
        #: Nodes whose gradients are all there, by age; and leaves, which go first.
        self.ready: list[tuple[int, Node]] = []
        self.leaves: deque[AccumulateGrad] = deque()
        #: Leaves on devices that gradients were added to.
        self.accumulated: list[AccumulateGrad] = []
        self.callbacks: list[Callable[[], Any]] = []
        self.streams = NodeStreams()
        self.root: GraphRoot | None = root

    def run(self) -> None:
        """Run all nodes that are needed."""
        self.start()
        ready, leaves, streams = self.ready, self.leaves, self.streams
        try:
            while True:
                if leaves:
                    leaf = leaves.popleft()
                    if leaf.stream is not streams.held:
                        streams.enter(leaf)
                    self.finish(leaf)
                elif ready:
                    node = heappop(ready)[1]
                    if node.stream is not streams.held or type(node).streams is not ONE_STREAM:
                        streams.enter(node)
                    self.pass_on(node, self.evaluate(node))
                else:
                    break
        finally:
            streams.leave()
        self.join_callers_streams()
        for function in self.callbacks:
            function()

    def start(self) -> None:
        """Deliver the gradients of the root."""
        root, self.root = self.root, None
        assert root is not None
        gradients = root.gradients
        for position, ((node, number), stream) in enumerate(zip(root.edges, root.streams, strict=True)):
            self.deliver(node, number, gradients, position, stream, None)
        for node in {edge[0]: None for edge in root.edges}:
            if not self.dependencies[node]:
                self.push(node)

    def push(self, node: Node) -> None:
        """Let ``node`` run: all its gradients are there."""
        if self.needed is None or node in self.needed:
            if type(node) is AccumulateGrad:
                self.leaves.append(node)
            else:
                heappush(self.ready, (-node.sequence, node))

    def pass_on(self, maker: Node, results: list[Any]) -> None:
        """Hand the gradients that ``maker`` gave to where they go."""
        dependencies, stream = self.dependencies, maker.stream
        for position, edge in enumerate(maker.next):
            if edge is None:
                continue
            target, number = edge
            if results and results[position] is not None:
                self.deliver(target, number, results, position, stream, maker)
            left = dependencies[target] - 1
            if left:
                dependencies[target] = left
            else:
                self.push(target)

    def deliver(
        self,
        node: Node,
        number: int,
        gradients: list[Any],
        position: int,
        stream: Stream | None,
        maker: Node | None,
    ) -> None:
        """Move a gradient, ready on ``stream``, from ``gradients`` to what ``node`` gets for output ``number``.

        For what ``maker`` has made on several devices, ``stream`` is the one of its first.
        """
        if self.needed is not None and node not in self.needed:
            return
        # The only reference shall be that of the list of what has arrived: the memory of a gradient that
        # nobody else holds is used again.
        gradient = gradients[position]
        gradients[position] = None
        layout = gradient._layout
        if layout is not node.layouts[number]:
            gradient = fit(gradient, node, number, maker, position)
            layout = gradient._layout
        target = node.stream
        if stream is not target or (stream is not None and stream.device_state is not layout.device_state):
            device_state = layout.device_state
            if not device_state.is_cuda:
                stream = target = None
            else:
                if maker is not None and (stream is None or stream.device_state is not device_state):
                    stream = stream_on(device_state, maker)
                if target is None or target.device_state is not device_state:
                    target = stream_on(device_state, node)
        slots = self.arrived.get(node)
        if slots is None:
            slots = self.arrived[node] = [None] * len(node.layouts)
        if slots[number] is not None:
            add(slots, number, gradient, stream, target)
        elif stream is target:
            slots[number] = gradient
        else:
            slots[number] = hold(gradient, stream, target)
            self.awaits = True

    def evaluate(self, node: Node) -> list[Any]:
        """Gradients of the inputs of ``node``, for the edges in ``node.next``; an empty list where there are none."""
        grads = self.gradients_of(node)
        hooks = node.hooks
        if hooks is not None:
            hooks.run_on_outputs(grads)
        if self.captures:
            self.capture(node, grads)
        if self.needed is not None and not _leads_to(node, self.needed):
            return []
        if hooks is not None:
            hooks.run_before(grads)
        results = (
            self._watched(node, grads) if anomaly.mode.enabled else node.gradients(grads, self.keep_graph)
        )
        if hooks is not None and hooks.after:
            results = list(hooks.run_after(tuple(results), tuple(grads)))
        if not self.keep_graph:
            node.release()
        return results

    def finish(self, node: AccumulateGrad) -> None:
        """Add what has arrived to the gradient of a leaf."""
        grads = self.gradients_of(node)
        hooks = node.hooks
        if hooks is not None:
            hooks.run_on_outputs(grads)
        grads[0] = node.hooked(grads[0])
        if self.captures:
            self.capture(node, grads)
        if hooks is not None:
            hooks.run_before(grads)
        arrived = tuple(grads) if hooks is not None and hooks.after else ()
        if self.accumulates and grads[0] is not None:
            if node.stream is not None:
                self.accumulated.append(node)
            accumulate(node, grads)
        if hooks is not None and hooks.after:
            hooks.run_after((), arrived)

    def gradients_of(self, node: Node) -> list[Any]:
        """The gradients that have arrived for the outputs of ``node``."""
        grads = self.arrived.pop(node, None)
        if grads is None:
            return [None] * len(node.layouts)
        if self.awaits:
            for number, value in enumerate(grads):
                if type(value) is Awaited:
                    grads[number] = value.take(stream_on(value.value._layout.device_state, node))
        return grads

    def capture(self, node: Node, grads: list[Any]) -> None:
        """Keep the gradients that the caller wants."""
        expected = self.captures.get(node)
        if expected is None:
            return
        for number, position in expected:
            self.captured[position] = grads[number]

    def _watched(self, node: Node, grads: list[Any]) -> list[Any]:
        """The gradients of the inputs of ``node``, in anomaly mode."""
        before, anomaly.running.node = anomaly.running.node, node
        try:
            results = node.gradients(grads, self.keep_graph)
        except Exception:
            report(node)
            raise
        finally:
            anomaly.running.node = before
        if anomaly.mode.check_nan:
            check_gradients(node, results)
        return results

    def join_callers_streams(self) -> None:
        """Make the caller's current streams wait for those that its gradients are ready on."""
        waited: set[Stream] = set()
        for leaf in self.accumulated:
            assert leaf.stream is not None
            if _differs(leaf.stream):
                _hand_over(leaf.variable.grad, leaf.stream, waited)
        for node, expected in self.captures.items():
            for _, position in expected if node.stream is not None else ():
                gradient = self.captured[position]
                if gradient is not None and gradient._layout.device_state.is_cuda:
                    _hand_over(gradient, stream_on(gradient._layout.device_state, node), waited)


def _differs(stream: Stream) -> bool:
    callers = stream.device_state.local.stream
    return callers is not stream and callers != stream


def _hand_over(gradient: Tensor | None, stream: Stream, waited: set[Stream]) -> None:
    """Let the caller's current stream use ``gradient``, which is ready on ``stream``."""
    if not _differs(stream):
        return
    callers: Stream = stream.device_state.local.stream
    if stream not in waited:
        callers.native.wait_stream(stream.native)
        waited.add(stream)
    # A hook may have taken it, or put another one in its place.
    if gradient is not None and gradient._layout.device_state is stream.device_state:
        gradient.record_stream(callers)


def _count_uses(roots: Iterable[tuple[Node, int]]) -> dict[Node, int]:
    """All nodes that can be reached, with the number of edges that lead to each."""
    counts: dict[Node, int] = {}
    for node, _ in roots:
        counts[node] = 0
    waiting = list(counts)
    while waiting:
        for edge in waiting.pop().next:
            if edge is not None:
                target = edge[0]
                if target in counts:
                    counts[target] += 1
                else:
                    counts[target] = 1
                    waiting.append(target)
    return counts


def _needed(reached: Iterable[Node], expected: dict[Node, Any]) -> set[Node]:
    """Nodes from which a wanted one can be reached, and those themselves."""
    result = {node for node in reached if node in expected}
    # A node is newer than all that its gradients go to, but for the ends of the graph.
    inner = sorted((node for node in reached if not isinstance(node, AccumulateGrad)), key=_age)
    for node in inner:
        if _leads_to(node, result):
            result.add(node)
    return result


def _leads_to(node: Node, nodes: set[Node]) -> bool:
    """Whether an edge of ``node`` leads to one of ``nodes``."""
    return any(edge is not None and edge[0] in nodes for edge in node.next)


def _age(node: Node) -> int:
    return node.sequence

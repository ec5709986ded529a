"""Running the graph backward.

Nodes run from the newest to the oldest, each when the gradients of all its uses have arrived. A node runs
on the stream of its forward operation. Where a gradient goes from one stream to another, an event is
recorded when it is made and waited for when it is used; a pass on one stream records none. Nothing waits on
the host, and nothing recurses, however deep the graph is.
"""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING, Any

from ..recording import anomaly
from ..recording.node import AccumulateGrad, Node
from .accumulation import Gradient, accumulate, fit
from .anomaly_checks import check_gradients, report
from .nesting import current, run_nested

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..streams import Stream
    from ..tensors import Tensor
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
    pass_ = Pass(root, keep_graph, captures, accumulates)
    # The caller may hold the root, but not its gradients any longer.
    del root
    run_nested(pass_, create_graph)
    return pass_.captured


def queue_callback(function: Callable[[], Any]) -> None:
    """Have ``function`` called at the end of this thread's backward pass, before it returns.

    The caller's streams are current then, and have waited for the gradients.

    Raises
    ------
    RuntimeError
        If no backward pass runs in this thread.
    """
    _running("queue_callback()").callbacks.append(function)


def pass_number() -> int:
    """Number of the backward pass that runs in this thread; -1 where none does."""
    return -1 if current.pass_ is None else current.pass_.number


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


def _running(name: str) -> Pass:
    if current.pass_ is None:
        raise RuntimeError(
            f"{name} is for code that runs inside a backward pass, such as hooks: none is running"
        )
    found: Pass = current.pass_
    return found


class Pass:
    """One backward pass."""

    __slots__ = (
        "accumulates",
        "buffers",
        "callbacks",
        "captured",
        "captures",
        "dependencies",
        "keep_graph",
        "last",
        "needed",
        "number",
        "order",
        "ready",
        "root",
    )

    def __init__(
        self, root: GraphRoot, keep_graph: bool, captures: Sequence[Any] | None, accumulates: bool
    ) -> None:
        self.number = next(_numbers)
        self.keep_graph = keep_graph
        self.accumulates = accumulates
        self.captures: dict[Node, list[tuple[int, int]]] = {}
        self.captured: list[Tensor | None] = [None] * len(captures or ())
        for position, (node, number) in enumerate(captures or ()):
            self.captures.setdefault(node, []).append((number, position))
        self.dependencies = _count_uses(edge[0] for edge in root.edges)
        self.needed = None if captures is None else _needed(self.dependencies, self.captures)
        self.buffers: dict[Node, list[Gradient | None]] = {}
        self.ready: list[tuple[int, int, Node]] = []
        self.order = itertools.count()
        #: Streams that gradients were accumulated on, with the leaves.
        self.last: dict[Stream, list[Tensor]] = {}
        self.callbacks: list[Callable[[], Any]] = []
        self.root: GraphRoot | None = root

    def run(self) -> None:
        """Run all nodes that are needed."""
        self.start()
        ready = self.ready
        while ready:
            node = heapq.heappop(ready)[2]
            self.pass_on(node, self.evaluate(node))
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
            heapq.heappush(self.ready, (-node.sequence, next(self.order), node))

    def pass_on(self, maker: Node, results: list[Any]) -> None:
        """Hand the gradients that ``maker`` gave to where they go."""
        dependencies = self.dependencies
        for position, edge in enumerate(maker.next):
            if edge is None:
                continue
            target, number = edge
            result = results[position] if results else None
            if result is not None:
                place = result._layout.place
                del result
                stream = stream_on(place, maker) if place.is_cuda else None
                self.deliver(target, number, results, position, stream, maker)
            left = dependencies[target] - 1
            dependencies[target] = left
            if not left:
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
        """Move a gradient, ready on ``stream``, from ``gradients`` to what ``node`` gets for output ``number``."""
        if self.needed is not None and node not in self.needed:
            return
        # The only reference shall be that of the buffer: the memory of a gradient that nobody else holds is
        # used again.
        gradient = gradients[position]
        gradients[position] = None
        if gradient._layout is not node.layouts[number]:
            gradient = fit(gradient, node, number, maker, position)
        slots = self.buffers.get(node)
        if slots is None:
            slots = self.buffers[node] = [None] * len(node.layouts)
        there = slots[number]
        target = node.stream
        if target is not None and gradient._layout.place.is_cuda:
            target = stream_on(gradient._layout.place, node)
        if there is None:
            slots[number] = Gradient(gradient, stream, target)
        else:
            there.add(gradient, stream, target)

    def evaluate(self, node: Node) -> list[Any]:
        """Gradients of the inputs of ``node``, for the edges in ``node.next``; an empty list where there are none."""
        streams = node.streams()
        if not streams:
            return self._evaluate(node)
        before = [(stream.place.local, stream.place.local.stream) for stream in streams]
        for stream in streams:
            stream.place.local.stream = stream
        selected = streams[0].place.runtime.current
        chosen, selected.selected = selected.selected, streams[0].place.native
        try:
            return self._evaluate(node)
        finally:
            for local, stream in before:
                local.stream = stream
            selected.selected = chosen

    def _evaluate(self, node: Node) -> list[Any]:
        grads = self.gradients_of(node)
        hooks = node.hooks
        if hooks is not None:
            hooks.run_on_outputs(grads)
        if type(node) is AccumulateGrad:
            grads[0] = node.hooked(grads[0])
        if self.captures:
            self.capture(node, grads)
        if type(node) is AccumulateGrad:
            if hooks is not None:
                hooks.run_before(grads)
            arrived = tuple(grads) if hooks is not None and hooks.after else ()
            if self.accumulates and grads[0] is not None:
                if node.stream is not None:
                    self.last.setdefault(node.stream, []).append(node.variable)
                accumulate(node, grads)
            if hooks is not None and hooks.after:
                hooks.run_after((), arrived)
            return []
        if self.needed is not None and not any(
            edge is not None and edge[0] in self.needed for edge in node.next
        ):
            return []
        if hooks is not None:
            hooks.run_before(grads)
        if anomaly.mode.enabled:
            results = self._watched(node, grads)
        else:
            results = self.derivatives(node, grads)
        if hooks is not None and hooks.after:
            results = list(hooks.run_after(tuple(results), tuple(grads)))
        if not self.keep_graph:
            node.release()
        return results

    def gradients_of(self, node: Node) -> list[Any]:
        """The gradients that have arrived for the outputs of ``node``."""
        slots = self.buffers.pop(node, None)
        if slots is None:
            return [None] * len(node.layouts)
        target = node.stream
        grads: list[Any] = []
        for number, slot in enumerate(slots):
            if slot is None:
                grads.append(None)
                continue
            if slot.event is not None:
                target = stream_on(slot.value._layout.place, node)
            grads.append(slot.take(target))
            slots[number] = None
        return grads

    def capture(self, node: Node, grads: list[Any]) -> None:
        """Keep the gradients that the caller wants."""
        wanted = self.captures.get(node)
        if wanted is None:
            return
        for number, position in wanted:
            self.captured[position] = grads[number]

    def derivatives(self, node: Node, grads: list[Any]) -> list[Any]:
        """Gradients of the inputs of ``node``."""
        if not node.takes_none and all(grad is None for grad in grads):
            return [None] * len(node.next)
        results = node.backward(*grads)
        if type(results) is not tuple:
            results = (results,)
        if len(results) != len(node.next):
            raise RuntimeError(
                f"Function {node.name()} returned an incorrect number of gradients (expected {len(node.next)}, got "
                f"{len(results)})"
            )
        return list(results)

    def _watched(self, node: Node, grads: list[Any]) -> list[Any]:
        """:meth:`derivatives` in anomaly mode."""
        before, anomaly.running.node = anomaly.running.node, node
        try:
            results = self.derivatives(node, grads)
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
        for stream, leaves in self.last.items():
            for leaf in leaves if _differs(stream) else ():
                _hand_over(leaf.grad, stream, waited)
        for node, wanted in self.captures.items():
            for _, position in wanted if node.stream is not None else ():
                gradient = self.captured[position]
                if gradient is not None and gradient._layout.place.is_cuda:
                    _hand_over(gradient, stream_on(gradient._layout.place, node), waited)


def _differs(stream: Stream) -> bool:
    callers = stream.place.local.stream
    return callers is not stream and callers != stream


def _hand_over(gradient: Tensor | None, stream: Stream, waited: set[Stream]) -> None:
    """Let the caller's current stream use ``gradient``, which is ready on ``stream``."""
    if not _differs(stream):
        return
    callers: Stream = stream.place.local.stream
    if stream not in waited:
        callers.native.wait_stream(stream.native)
        waited.add(stream)
    # A hook may have taken it, or put another one in its place.
    if gradient is not None and gradient._layout.place is stream.place:
        gradient.record_stream(callers)


def stream_on(place: Any, node: Node) -> Stream:
    """The stream that work of ``node`` on a device runs on."""
    stream = node.stream
    if stream is not None and stream.place is place:
        return stream
    for stream in node.streams():
        if stream.place is place:
            return stream
    found: Stream = place.local.stream
    return found


def _count_uses(roots: Iterable[Node]) -> dict[Node, int]:
    """All nodes that can be reached, with the number of edges that lead to each."""
    counts: dict[Node, int] = dict.fromkeys(roots, 0)
    waiting = list(counts)
    while waiting:
        for edge in waiting.pop().next:
            if edge is not None:
                target = edge[0]
                seen = counts.get(target)
                if seen is None:
                    counts[target] = 1
                    waiting.append(target)
                else:
                    counts[target] = seen + 1
    return counts


def _needed(reached: Iterable[Node], wanted: dict[Node, Any]) -> set[Node]:
    """Nodes from which a wanted one can be reached, and those themselves."""
    found = {node for node in reached if node in wanted}
    # A node is newer than all that its gradients go to, but for the ends of the graph.
    inner = sorted((node for node in reached if not isinstance(node, AccumulateGrad)), key=_age)
    for node in inner:
        if any(edge is not None and edge[0] in found for edge in node.next):
            found.add(node)
    return found


def _age(node: Node) -> int:
    return node.sequence

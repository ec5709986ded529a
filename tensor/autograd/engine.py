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

from ..recording.modes import modes
from ..recording.node import AccumulateGrad, Node
from .accumulation import Gradient, accumulate, fit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..streams import Stream
    from ..tensors import Tensor
    from .root import GraphRoot


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
    before = modes.recording
    modes.recording = create_graph
    try:
        pass_ = _Pass(root, keep_graph, captures, accumulates)
        pass_.run()
    finally:
        modes.recording = before
    pass_.join_callers_streams()
    return pass_.captured


class _Pass:
    """One backward pass."""

    def __init__(
        self, root: GraphRoot, keep_graph: bool, captures: Sequence[Any] | None, accumulates: bool
    ) -> None:
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
        #: Streams that leaf gradients, or captured ones, are ready on.
        self.last_streams: dict[Stream, None] = {}
        for (node, number), gradient, stream in zip(root.edges, root.gradients, root.streams, strict=True):
            self.deliver(node, number, gradient, stream)
        for node in {edge[0]: None for edge in root.edges}:
            if not self.dependencies[node]:
                self.push(node)

    def push(self, node: Node) -> None:
        """Let ``node`` run: all its gradients are there."""
        if self.needed is None or node in self.needed:
            heapq.heappush(self.ready, (-node.sequence, next(self.order), node))

    def deliver(self, node: Node, number: int, gradient: Tensor, stream: Stream | None) -> None:
        """Add a gradient, ready on ``stream``, to what ``node`` gets for output ``number``."""
        if self.needed is not None and node not in self.needed:
            return
        gradient = fit(gradient, node, number)
        slots = self.buffers.get(node)
        if slots is None:
            slots = self.buffers[node] = [None] * len(node.layouts)
        there = slots[number]
        if there is None:
            slots[number] = Gradient(gradient, stream, node.stream)
        else:
            there.add(gradient, stream, node.stream)

    def run(self) -> None:
        """Run all nodes that are needed."""
        ready, dependencies = self.ready, self.dependencies
        while ready:
            node = heapq.heappop(ready)[2]
            results = self.evaluate(node)
            for edge, result in zip(node.next, results, strict=True):
                if edge is None:
                    continue
                target, number = edge
                if result is not None:
                    place = result._layout.place
                    self.deliver(
                        target, number, result, self.stream_on(place, node) if place.is_cuda else None
                    )
                left = dependencies[target] - 1
                dependencies[target] = left
                if not left:
                    self.push(target)
            del results

    def stream_on(self, place: Any, node: Node) -> Stream:
        """The stream that a gradient which ``node`` made in ``place`` is ready on."""
        for stream in node.streams():
            if stream.place is place:
                return stream
        found: Stream = place.local.stream
        return found

    def evaluate(self, node: Node) -> Sequence[Any]:
        """Gradients of the inputs of ``node``, for the edges in ``node.next``."""
        slots = self.buffers.pop(node, None)
        streams = node.streams()
        before = [(stream.place.local, stream.place.local.stream) for stream in streams]
        selected = None
        for stream in streams:
            stream.place.local.stream = stream
        if streams:
            selected = streams[0].place.runtime.current
            chosen, selected.selected = selected.selected, streams[0].place.native
        try:
            return self._evaluate(node, slots)
        finally:
            for local, stream in before:
                local.stream = stream
            if selected is not None:
                selected.selected = chosen

    def _evaluate(self, node: Node, slots: list[Gradient | None] | None) -> Sequence[Any]:
        grads: list[Any] = [
            None if slot is None else slot.take(node.stream) for slot in slots or (None,) * len(node.layouts)
        ]
        del slots
        if node.prehooks:
            for hook in list(node.prehooks.values()):
                hook(grads)
        is_leaf = isinstance(node, AccumulateGrad)
        if is_leaf:
            grads[0] = node.hooked(grads[0])  # type: ignore[attr-defined]
        captures = self.captures.get(node)
        if captures is not None:
            for number, position in captures:
                self.captured[position] = grads[number]
            if node.stream is not None:
                self.last_streams[node.stream] = None
        if is_leaf:
            if grads[0] is not None and self.accumulates:
                if node.stream is not None:
                    self.last_streams[node.stream] = None
                accumulate(node, grads)  # type: ignore[arg-type]
            return ()
        if self.needed is not None and not any(
            edge is not None and edge[0] in self.needed for edge in node.next
        ):
            return (None,) * len(node.next)
        if all(grad is None for grad in grads) and not node.takes_none:
            results: Any = (None,) * len(node.next)
        else:
            results = node.backward(*grads)
            if type(results) is not tuple:
                results = (results,)
            if len(results) != len(node.next):
                raise RuntimeError(
                    f"Function {node.name()} returned an incorrect number of gradients (expected {len(node.next)}, got "
                    f"{len(results)})"
                )
        if node.hooks:
            for hook in list(node.hooks.values()):
                changed = hook(results, tuple(grads))
                if changed is not None:
                    results = changed if isinstance(changed, tuple) else (changed,)
        if not self.keep_graph:
            node.release()
        return results  # type: ignore[no-any-return]

    def join_callers_streams(self) -> None:
        """Make the caller's current streams wait for those that its gradients are ready on."""
        for stream in self.last_streams:
            current = stream.place.local.stream
            if current is not stream:
                current.native.wait_stream(stream.native)


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

"""The streams that are current while nodes run backward: those of the forward operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.autograd.recording.node import Node

if TYPE_CHECKING:
    from tensor.core.devices.stream import Stream

#: How nodes say that they work on their one stream.
ONE_STREAM = Node.streams


class NodeStreams:
    """What one pass has made current in its thread.

    Nodes that follow each other on one stream leave it current. On the devices that a node does not work
    on, the caller's streams are current.

    Attributes
    ----------
    held : Stream or None
        The one stream that is current instead of the caller's, so that further nodes of it can run; ``None``
        where nothing is. Anything else means that the next node must :meth:`enter`.
    """

    __slots__ = ("_before", "_selected", "held")

    def __init__(self) -> None:
        self.held: Any = None
        self._before: list[tuple[Any, Stream]] = []
        self._selected: tuple[Any, Any] | None = None

    def enter(self, node: Node) -> None:
        """Make the streams and the device of ``node`` current, and those of the caller elsewhere."""
        if self.held is not None:
            self.leave()
        streams = node.streams()
        if not streams:
            return
        for stream in streams:
            local = stream.device_state.local
            self._before.append((local, local.stream))
            local.stream = stream
        selection = streams[0].device_state.runtime.current
        self._selected = selection, selection.selected
        selection.selected = streams[0].device_state.native
        # Users' code, which may leave other streams current, runs in hooks and in nodes of their own classes.
        plain = node.hooks is None and type(node).streams is ONE_STREAM
        self.held = streams[0] if plain else self

    def leave(self) -> None:
        """Make the caller's streams and device current again."""
        self.held = None
        for local, stream in self._before:
            local.stream = stream
        self._before.clear()
        if self._selected is not None:
            selection, selected = self._selected
            self._selected = None
            selection.selected = selected


def stream_on(device_state: Any, node: Node) -> Stream:
    """The stream that work of ``node`` on a device runs on."""
    stream = node.stream
    if stream is not None and stream.device_state is device_state:
        return stream
    for stream in node.streams():
        if stream.device_state is device_state:
            return stream
    result: Stream = device_state.local.stream
    return result

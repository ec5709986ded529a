"""The CPU under the names that devices have, for programs that ask ``getattr(tensor, device.type)``.

What the CPU computes is done when a call returns, so that streams and events order nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tensor.core.names.absent import hints as _hints

from . import amp as amp

if TYPE_CHECKING:
    from tensor.core.devices.current import DeviceArgument

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "device_count",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


class Stream:
    """A stream of the CPU, on which nothing ever waits.

    Parameters
    ----------
    priority : int
        Accepted for the sake of programs that set one.
    """

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        """Return at once: what ``stream`` was given is done.

        The argument is not looked at, and may be None.
        """

    def record_event(self) -> None:
        """Return at once: there is nothing to wait for."""

    def wait_event(self, event: Any) -> None:
        """Return at once: what came before ``event`` is done.

        The argument is not looked at, and may be None.
        """


class Event:
    """An event of the CPU, which has always happened.

    For programs that take their events from ``tensor.get_device_module(device)``. Its methods return at once.
    """

    def query(self) -> bool:
        """True: what came before is done."""
        return True

    def record(self, stream: Any = None) -> None:
        """Return at once, whichever ``stream``.

        ``stream`` is not looked at.
        """

    def synchronize(self) -> None:
        """Return at once."""

    def wait(self, stream: Any = None) -> None:
        """Return at once, whichever ``stream``.

        ``stream`` is not looked at.
        """


class _Current:
    stream = Stream()


class StreamContext:
    """Make a stream the current one inside ``with``; None changes nothing.

    Parameters
    ----------
    stream : Stream, optional
        What :func:`current_stream` returns inside.
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> Self:
        self._before = _Current.stream
        if self.stream is not None:
            _Current.stream = self.stream
        return self

    def __exit__(self, *exception: object) -> None:
        _Current.stream = self._before


def stream(stream: Stream | None) -> StreamContext:
    """A context manager inside which ``stream`` is current: :class:`StreamContext`.

    ``None`` changes nothing.
    """
    return StreamContext(stream)


def current_stream(device: DeviceArgument = None) -> Stream:
    """The current stream of the CPU, whatever ``device`` says.

    There is one, as work of the CPU is done when a call returns.
    """
    return _Current.stream


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True: the CPU needs no initialization."""
    return True


def device_count() -> int:
    """1, however many cores there are."""
    return 1


def current_device() -> str:
    """``"cpu"``."""
    return "cpu"


def set_device(device: DeviceArgument) -> None:
    """Return at once: there is one CPU, whatever ``device`` says.

    ``device`` is not checked.
    """


def synchronize(device: DeviceArgument = None) -> None:
    """Return at once, whatever ``device`` says: what the CPU computes is done when a call returns.

    ``device`` is not checked.
    """


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)

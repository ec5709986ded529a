"""The current stream of each device, per thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .current import index_or_current, restore, select
from .state import cuda_place
from .stream import ExternalStream, Stream

if TYPE_CHECKING:
    from types import TracebackType

    from .current import DeviceArgument


class StreamContext:
    """Makes a stream, and its device, current in this thread. Restores both, also on errors.

    Parameters
    ----------
    stream : Stream or None
        Which; ``None`` changes nothing.

    Raises
    ------
    TypeError
        For anything else.
    """

    __slots__ = ("_entered", "stream")

    def __init__(self, stream: Stream | None) -> None:
        if stream is not None:
            _check(stream, "stream")
        self.stream = stream
        self._entered: list[tuple[Any, ...]] = []

    def __enter__(self) -> None:
        stream = self.stream
        if stream is not None:
            place = stream.place
            before = select(place.native)
            here = place.local
            # The block may also set another stream of the device that it was entered from.
            outside = here if before is place.native else cuda_place(before.ordinal if before else 0).local
            self._entered.append((before, outside, outside.stream, here, here.stream))
            here.stream = stream

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        stream = self.stream
        if stream is not None:
            before, outside, outside_stream, here, here_stream = self._entered.pop()
            here.stream = here_stream
            outside.stream = outside_stream
            restore(stream.place.runtime, before)


def stream(stream: Stream | None) -> StreamContext:
    """Context manager that makes ``stream``, and its device, current in this thread; ``None`` changes nothing."""
    return StreamContext(stream)


def set_stream(stream: Stream | None) -> None:
    """Make ``stream``, and its device, current in this thread; ``None`` changes nothing.

    ``with cuda.stream(stream):`` restores what was, and is nearly always the better choice.
    """
    if stream is not None:
        _check(stream, "set_stream")
        select(stream.place.native)
        stream.place.local.stream = stream


def current_stream(device: DeviceArgument = None) -> Stream:
    """The current stream of this thread on ``device``, by default the current device."""
    return cuda_place(index_or_current(device)).local.stream


def default_stream(device: DeviceArgument = None) -> Stream:
    """The default stream of ``device``, by default the current device."""
    return cuda_place(index_or_current(device)).default_stream


def get_stream_from_external(data_ptr: int, device: DeviceArgument = None) -> Stream:
    """The stream whose ``cudaStream_t`` has that value. See :class:`ExternalStream`."""
    return ExternalStream(data_ptr, device)


def _check(given: Any, function: str) -> None:
    if not isinstance(given, Stream):
        raise TypeError(
            f"{function}() expects a tensor.cuda.Stream or None, got {type(given).__name__}; for a stream of "
            "another library use tensor.cuda.ExternalStream(pointer)"
        )

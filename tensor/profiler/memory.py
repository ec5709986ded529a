"""Memory over time: what the allocators of devices hand out and take back, with the Python line of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from drv.allocators.history import python_stack
from tensor.core.devices.state import cuda_state

if TYPE_CHECKING:
    import drv
    from drv.allocators.history import Frames
    from tensor.core.spans import Span, Spans

#: Folder of the project's packages: what they do for the user is not the line to name.
_ROOT = __file__.rpartition("/")[0].rpartition("/")[0].rpartition("/")[0]
_OWN = tuple(f"{_ROOT}/{name}/" for name in ("drv", "nvrtc_kernels", "tensor", "nn", "parallel", "tools"))


@dataclass(slots=True)
class MemoryEvent:
    """An allocation (``size`` above 0) or a free (below 0), in bytes, on a device.

    Attributes
    ----------
    time : int
        Nanoseconds of the profile's clock.
    line : str
        ``file:line`` that allocated, outside the project's own packages.
    total : int
        Bytes that are allocated from then on.
    """

    time: int
    device: int
    address: int
    size: int
    line: str
    total: int
    span: Span | None


class MemoryObserver:
    """Of one device's allocator, in front of the history that the user may record.

    Parameters
    ----------
    spans : Spans
        Whose clock and spans count.
    device : int
        Ordinal.
    other : Observer or None
        The history.
    """

    def __init__(self, spans: Spans, device: int, other: Any) -> None:
        self.events: list[MemoryEvent] = []
        self._spans = spans
        self._device = device
        self._other = other
        self._live: dict[int, tuple[int, str]] = {}
        self._total = 0

    def frames_for_allocation(self) -> Frames | None:
        """See :class:`~drv.allocators.protocol.Observer`."""
        return python_stack()

    def frames_for_free(self) -> Frames | None:
        """See :class:`~drv.allocators.protocol.Observer`."""
        return None if self._other is None else self._other.frames_for_free()

    def record(self, action: str, address: int, size: int, stream: int, frames: Frames | None) -> None:
        """See :class:`~drv.allocators.protocol.Observer`."""
        if self._other is not None:
            self._other.record(action, address, size, stream, frames)
        if action == "alloc":
            line = line_of(frames)
            self._live[address] = size, line
            change = size
        elif action == "free_completed" and address in self._live:
            size, line = self._live.pop(address)
            change = -size
        else:
            return
        self._total += change
        spans = self._spans
        self.events.append(
            MemoryEvent(spans.clock(), self._device, address, change, line, self._total, spans.top)
        )


def line_of(frames: Frames | None) -> str:
    """``file:line`` of the innermost frame outside the project's packages."""
    for code, line in frames or ():
        if not code.co_filename.startswith((*_OWN, "<")):
            return f"{code.co_filename}:{line}"
    return "unknown"


class MemoryWatch:
    """Observes the allocators of all devices of a driver for a profile."""

    def __init__(self, spans: Spans, runtime: drv.Runtime) -> None:
        self._spans = spans
        self._runtime = runtime
        self._observers: list[tuple[Any, Any, MemoryObserver]] = []

    def start(self) -> None:
        """Begin."""
        for ordinal in range(len(self._runtime.devices)):
            state = cuda_state(ordinal)
            recordings: dict[int, Any] = state.runtime.cache("memory recordings", dict)
            other = recordings.get(ordinal)
            observer = MemoryObserver(self._spans, ordinal, other)
            state.allocator.observe(observer)
            self._observers.append((state, other, observer))

    def stop(self) -> None:
        """End."""
        for state, other, _ in self._observers:
            if state.runtime.alive:
                state.allocator.observe(other)

    @property
    def events(self) -> list[MemoryEvent]:
        """What happened, in order."""
        result = [event for _, _, observer in self._observers for event in observer.events]
        return sorted(result, key=lambda event: event.time)

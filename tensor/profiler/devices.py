"""What devices did while a profile ran, from the source that there is: the model of the simulated driver, or CUPTI."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import drv

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.core.spans import Span, Spans

#: Categories of traces, by those of records.
_CATEGORIES = {
    "kernel": "kernel",
    "library": "kernel",
    "copy": "gpu_memcpy",
    "fill": "gpu_memset",
    "host": "gpu_user",
}


@dataclass(slots=True, eq=False)
class DeviceEvent:
    """Something that ran on a device. Times are in nanoseconds of the profile's clock.

    Attributes
    ----------
    category : str
        ``kernel``, ``gpu_memcpy``, ``gpu_memset``.
    queued : int
        When the host queued it; -1 if that is not known.
    span : Span or None
        The innermost span of the host that queued it.
    line : str
        ``file:line`` of the user's Python that queued it, empty if that is not known.
    details : dict
        Grid, block, bytes, figures of the model.
    advice : list of str
        What bounds a kernel and what would help, by the model.
    """

    name: str
    category: str
    device: int
    stream: int
    stream_name: str
    start: int
    end: int
    queued: int = -1
    span: Span | None = None
    line: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    advice: list[str] = field(default_factory=list)
    kernel: Any = None

    @property
    def nanoseconds(self) -> int:
        """How long it took."""
        return self.end - self.start


class DeviceSource(Protocol):
    """Where times of devices come from."""

    #: ``modelled`` or ``measured``, and how.
    kind: str
    how: str
    #: Reads the host's clock, to which the events' times belong.
    clock: Callable[[], int]

    def start(self, spans: Spans) -> None:
        """Begin to collect."""

    def stop(self) -> None:
        """End; what is queued is waited for."""

    def events(self) -> list[DeviceEvent]:
        """What ran, in order of its start."""


class Modelled:
    """Times of the simulated driver's model.

    Parameters
    ----------
    runtime : drv.Runtime
        The simulated driver's.
    results : bool
        Whether results are needed; see :func:`drv.simulator.timed`.
    """

    kind = "modelled"

    def __init__(self, runtime: drv.Runtime, *, results: bool = True) -> None:
        from drv.simulator.timing.recorder import Recorder

        self._runtime = runtime
        self._spans: Spans | None = None
        self.recorder = Recorder(runtime.driver, results=results, context=self._context, origin=0)
        self.clock: Callable[[], int] = self._now
        self._recorded_stacks = runtime.driver.recorder.enabled
        models = [device.model for device in runtime.driver.machine]
        names = sorted({"H100 (no model was asked for)" if each is None else each.name for each in models})
        self.how = f"modelled on the simulated driver, not measured: {', '.join(names)}"

    def _now(self) -> int:
        return round(self.recorder.clock.now() * 1e9)

    def _context(self) -> Any:
        return None if self._spans is None else self._spans.top

    def start(self, spans: Spans) -> None:
        """See :class:`DeviceSource`."""
        self._spans = spans
        self._runtime.driver.recorder.enabled = True
        self.recorder.attach()

    def stop(self) -> None:
        """See :class:`DeviceSource`."""
        if self._runtime.alive:
            for device in self._runtime.devices:
                if device.context is not None:
                    device.synchronize()
        self.recorder.detach()
        self._runtime.driver.recorder.enabled = self._recorded_stacks

    def events(self) -> list[DeviceEvent]:
        """See :class:`DeviceSource`."""
        result = []
        for each in self.recorder.operations:
            details: dict[str, Any] = dict(each.metrics)
            if each.grid is not None:
                details["grid"], details["block"] = list(each.grid), list(each.block or ())
            if each.nbytes:
                details["bytes"] = each.nbytes
            if each.direction:
                details["direction"] = each.direction
            result.append(
                DeviceEvent(
                    each.name,
                    _CATEGORIES.get(each.category, each.category),
                    each.device,
                    each.stream,
                    each.stream_name,
                    round(each.start * 1e9),
                    round(each.end * 1e9),
                    round(each.submitted * 1e9),
                    each.context,
                    f"{each.stack[0][0]}:{each.stack[0][1]}" if each.stack else "",
                    details,
                    each.advice,
                    each.kernel,
                )
            )
        return sorted(result, key=lambda event: event.start)


def source_of_devices(runtime: drv.Runtime | None = None, *, results: bool = True) -> DeviceSource | None:
    """The source of ``runtime``'s devices, by default of the driver in use; ``None`` where there is no driver."""
    if runtime is None:
        if not drv.is_available():
            return None
        runtime = drv.runtime()
    return Modelled(runtime, results=results) if runtime.simulated else None

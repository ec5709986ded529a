"""What ran on a simulated device, with modelled times."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drv.python_stack import Frame

    from .kernel_time import KernelTime


@dataclass(slots=True)
class TimedOperation:
    """One operation. Times are in seconds of modelled time since the recorder began.

    Attributes
    ----------
    name : str
        The kernel's name, the library's function, or what is copied where.
    category : str
        ``kernel``, ``library``, ``copy``, ``fill``, ``host`` or ``event``.
    device : int
        Ordinal of the device.
    stream, stream_name
        Number of the stream among the driver's objects, and what reports call it.
    submitted : float
        When the host queued it.
    start, end : float
        When it ran.
    stack : tuple of Frame
        Python stack of the call that queued it, innermost first.
    context
        What the recorder's ``context`` said when it was queued.
    thread : int
        The thread that queued it.
    nbytes : int
        Bytes of a copy or fill.
    direction : str
        Of a copy: ``device``, ``peer``, ``host``, ``pageable``.
    bound : str
        What bounds it.
    kernel : KernelTime or None
        More about a kernel.
    metrics : dict
        Figures by name; see :data:`.advice.METRICS`.
    advice : list of str
        What bounds a kernel and what would help.
    """

    name: str
    category: str
    device: int
    stream: int
    stream_name: str
    submitted: float
    stack: tuple[Frame, ...] = ()
    context: Any = None
    thread: int = 0
    start: float = 0.0
    end: float = 0.0
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    nbytes: int = 0
    direction: str = ""
    bound: str = ""
    kernel: KernelTime | None = None
    metrics: dict[str, Any] = field(default_factory=dict)
    advice: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """How long it ran."""
        return self.end - self.start

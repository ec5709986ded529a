"""Work that runs within an operation, and is unordered with other work within it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drv.python_stack import Frame
    from drv.simulator.scheduler import GraphLaunch


@dataclass(slots=True, eq=False)
class InnerOperation:
    """One piece of it, each time that it runs. What checkers need to know of it is what an operation has."""

    label: str
    stack: tuple[Frame, ...]
    stream_name: str
    launch: GraphLaunch | None = None
    work: Any = None
    clock: Any = None
    timing: Any = None

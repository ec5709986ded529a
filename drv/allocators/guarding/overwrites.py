"""What the guarding allocators found: writes where nothing may be written."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from drv.python_stack import format_stack

if TYPE_CHECKING:
    from collections.abc import Hashable

    from drv.python_stack import Frame


class OverwriteKind(StrEnum):
    """Where was written."""

    #: Below or above an allocation.
    OUT_OF_BOUNDS = "out of bounds"
    #: To memory that was freed.
    FREED = "use after free"


@dataclass(slots=True, frozen=True)
class Overwrite:
    """Bytes that changed where nothing may write. ``str(overwrite)`` is the report for people."""

    kind: OverwriteKind
    #: What was allocated: ``"device memory"`` or ``"pinned host memory"``, its device, address and size in bytes.
    memory: str
    device: int | None
    address: int
    size: int
    #: First and last changed byte, counted from the allocation's first: negative before it.
    first: int
    last: int
    #: How many bytes changed.
    changed: int
    #: Kernels launched last, the latest last.
    launches: tuple[str, ...]
    #: Python stacks, innermost first: of the call after which the change was seen, of the allocation, of the free.
    seen: tuple[Frame, ...]
    allocated: tuple[Frame, ...]
    freed: tuple[Frame, ...] | None = None

    @property
    def where(self) -> str:
        """``4 bytes, 0 bytes past the end of an allocation of 4000 bytes``."""
        bytes_changed = f"{self.changed} byte{'s' if self.changed != 1 else ''}"
        if self.kind is OverwriteKind.FREED:
            return f"{bytes_changed}, from byte {self.first} on, of {self.size} bytes that were freed"
        if self.first < 0:
            return f"{bytes_changed}, from {-self.first} bytes before an allocation of {self.size} bytes on"
        return (
            f"{bytes_changed}, from {self.first - self.size} bytes past the end of an allocation of "
            f"{self.size} bytes on"
        )

    def key(self) -> Hashable:
        """Equal for changes that the same lines of Python made."""
        return (self.kind, self.first < 0, self.seen, self.allocated, self.freed)

    def __str__(self) -> str:
        where = "" if self.device is None else f" on device {self.device}"
        lines = [
            f"{self.kind}: something wrote to {self.where}",
            f"  in {self.memory}{where} at {self.address:#x}, allocated by",
            format_stack(self.allocated) or "    an unknown place",
        ]
        if self.freed is not None:
            lines += ["  and freed by", format_stack(self.freed) or "    an unknown place"]
        lines += ["Seen after", format_stack(self.seen) or "    an unknown place"]
        if self.launches:
            lines.append(f"Kernels launched last, the latest last: {', '.join(map(repr, self.launches))}.")
        return "\n".join(lines)

"""The guard of a runtime: what its guarding allocators share, and the overwritten memory that they report to it."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from threading import RLock
from typing import TYPE_CHECKING, Protocol

from drv.errors import CudaError, OverwriteError
from drv.python_stack import StackRecorder, format_stack

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from drv.python_stack import Frame
    from drv.runtime import Runtime

    from .patterns import Range


class OverwriteKind(StrEnum):
    """Where memory was overwritten; a member is a str.

    ``"out of bounds"``: before or behind an allocation; ``"use after free"``: inside of one that was freed.
    """

    #: Below or above an allocation.
    OUT_OF_BOUNDS = "out of bounds"
    #: To memory that was freed.
    FREED = "use after free"


@dataclass(slots=True, frozen=True)
class Overwrite:
    """Bytes that changed where nothing may write. ``str(overwrite)`` is the report for people.

    Attributes
    ----------
    kind : OverwriteKind
        Outside of an allocation, or in freed memory.
    memory : str
        What was allocated: ``"device memory"`` or ``"pinned host memory"``.
    device : int or None
        Its device; ``None`` for the host.
    address, size : int
        The allocation, in bytes.
    first, last : int
        First and last changed byte, counted from the allocation's first: negative before it.
    changed : int
        How many bytes changed.
    launches : tuple of str
        Kernels launched last, the latest last.
    seen, allocated, freed : tuple of Frame
        Python stacks, innermost first: of the call after which the change was seen, of the allocation, of the free.
    """

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
        """What changed, as text: ``4 bytes, from 0 bytes past the end of an allocation of 4000 bytes on``."""
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
        """Equal for changes that the same lines of Python made.

        So that a report counts the repetitions of one mistake in a loop as one: addresses and offsets are no part of it.
        """
        return (self.kind, self.first < 0, self.seen, self.allocated, self.freed)

    def __str__(self) -> str:
        device_text = "" if self.device is None else f" on device {self.device}"
        lines = [
            f"{self.kind}: something wrote to {self.where}",
            f"  in {self.memory}{device_text} at {self.address:#x}, allocated by",
            format_stack(self.allocated) or "    an unknown place",
        ]
        if self.freed is not None:
            lines += ["  and freed by", format_stack(self.freed) or "    an unknown place"]
        lines += ["Seen after", format_stack(self.seen) or "    an unknown place"]
        if self.launches:
            lines.append(f"Kernels launched last, the latest last: {', '.join(map(repr, self.launches))}.")
        return "\n".join(lines)


class Guarded(Protocol):
    """Memory between red zones."""

    address: int
    size: int
    allocated: tuple[Frame, ...]
    freed: tuple[Frame, ...] | None


class Checked(Protocol):
    """An allocator of guarded memory: what it allocates, in words, and its device, ``None`` for the host."""

    @property
    def memory(self) -> str: ...

    @property
    def owner(self) -> int | None: ...

    def live_blocks(self) -> Sequence[Guarded]:
        """What was handed out and not freed."""

    def check(self) -> list[Overwrite]:
        """Overwritten memory since the last check."""


class Guard:
    """Looks for overwritten memory whenever the runtime synchronises or memory is freed.

    Parameters
    ----------
    red_zone, quarantine : int
        Bytes on each side of a block; bytes of freed memory that are kept from reuse, for each device.

    Attributes
    ----------
    overwrites : list of Overwrite
        Everything so far, the earliest first; for the same lines of Python once, with how often in ``counts``.
    faults : list of (str, tuple)
        Errors that have lost a device's context, and the Python stacks of the calls that told of them.
    collect : bool
        Whether what was found is only kept here, and no synchronising call raises it.
    """

    def __init__(self, runtime: Runtime, red_zone: int, quarantine: int) -> None:
        self.red_zone = red_zone
        self.quarantine = quarantine
        self.overwrites: list[Overwrite] = []
        self.counts: dict[Hashable, int] = {}
        self.faults: list[tuple[str, tuple[Frame, ...]]] = []
        self.collect = False
        self.members: list[Checked] = []
        self._runtime = runtime
        self._recorder = StackRecorder(enabled=True)
        self._unraised: list[Overwrite] = []
        self._lock = RLock()
        self._busy = False

    def stack(self) -> tuple[Frame, ...]:
        """The Python stack of the program's own code, innermost first.

        Code objects with lines; this package's own frames are left out.
        """
        return self._recorder.take()

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Keep other threads out of the block of a ``with``.

        It gives whether this thread was outside: False in a finalizer that runs while the thread is inside, which then must
        leave the guard's lists alone.
        """
        with self._lock:
            outside = not self._busy
            self._busy = True
            try:
                yield outside
            finally:
                if outside:
                    self._busy = False

    def check(self) -> None:
        """Compare all guarded memory with what it should hold. Raises nothing."""
        with self.alone() as outside:
            if outside:
                self.compare()

    def compare(self) -> None:
        """What :meth:`check` does, for those who are :meth:`alone`."""
        # Where the context is lost, the call that is about to return says so.
        with suppress(CudaError):
            for member in self.members if self._runtime.alive else ():
                for each in member.check():
                    self._keep(each)

    def faulted(self, error: str) -> None:
        """Note that ``error``, as text, has lost a device's context, with the Python stack of now.

        Reports of memory that is still held afterwards refer to it.
        """
        self.faults.append((error, self.stack()))

    def pending_error(self) -> OverwriteError | None:
        """Check, and return what a synchronising call has to raise: an OverwriteError, or ``None``.

        Each change is raised once; several are in one error, with the first one's text. With ``collect`` none is raised.
        """
        self.check()
        with self._lock:
            due, self._unraised = self._unraised, []
        if not due or self.collect:
            return None
        more = f"\n({len(due) - 1} more)" if len(due) > 1 else ""
        return OverwriteError(f"{due[0]}{more}", tuple(due))

    def overwrite(
        self, member: Checked, memory: Guarded, each: Range, offsets: NDArray[np.intp]
    ) -> Overwrite:
        """The record of bytes having changed.

        Parameters
        ----------
        member : Checked
            The allocator.
        memory : Guarded
            The allocation that the bytes are beside, or in.
        each : Range
            The bytes that were compared.
        offsets : array of int
            Which of them differ.
        """
        base = each.start - memory.address
        inside = 0 <= base < memory.size
        return Overwrite(
            OverwriteKind.FREED if inside else OverwriteKind.OUT_OF_BOUNDS,
            member.memory,
            member.owner,
            memory.address,
            memory.size,
            base + int(offsets[0]),
            base + int(offsets[-1]),
            int(offsets.size),
            tuple(function.name for function in self._runtime.recent_launches),
            self.stack(),
            memory.allocated,
            memory.freed,
        )

    def _keep(self, each: Overwrite) -> None:
        key = each.key()
        if key not in self.counts:
            self.overwrites.append(each)
        self.counts[key] = self.counts.get(key, 0) + 1
        self._unraised.append(each)

"""Findings of the checkers: records of races and of uses of memory that was never written.

There is one finding for a pair of source lines: the same two source lines that race in
every iteration of a loop are one finding with a count.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from threading import RLock
from typing import TYPE_CHECKING, overload

from drv.python_stack import format_stack

from .observation import Access

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from drv.python_stack import Frame
    from drv.simulator.memory.address_space import Allocation
    from drv.simulator.scheduler import GraphLaunch

    from .observation import Site

#: What an access of each kind does, in reports.
ACTIONS = {Access.READ: "reads", Access.WRITE: "writes", Access.ATOMIC: "updates atomically"}
#: Byte ranges kept in one finding; a scattered access can touch thousands.
MAX_RANGES = 8


class Kind(StrEnum):
    """What is wrong."""

    #: Two operations, or an operation and the host, touch the same bytes and nothing orders them.
    RACE = "race"
    #: Memory was freed while an operation that nothing orders before the free could still use it.
    FREED_IN_USE = "freed while in use"
    #: A kernel or library call read bytes that nothing ever wrote.
    UNINITIALIZED = "uninitialized"
    #: Two threads of a block touch the same shared memory with no barrier between.
    SHARED_RACE = "shared race"
    #: Two threads of one kernel touch the same global memory and nothing orders them.
    KERNEL_RACE = "kernel race"
    #: A thread touches registers that an asynchronous matrix product has not written, or read, yet.
    REGISTER_RACE = "register race"
    #: Two threads of one kernel store the same value to the same memory and nothing orders them.
    SAME_VALUE = "same value"


@dataclass(slots=True, frozen=True)
class AccessReport:
    """One side of a finding: who touched memory, how, and where that stands in the source.

    Attributes
    ----------
    operation : str
        The operation's label such as ``"kernel 'scale'"``, or ``"the host"``.
    action : str
        What it does to the bytes: ``"reads"``, ``"writes"``, ``"updates atomically"`` or ``"frees"``.
    stream : str or None
        Name of the stream on which it was queued; ``None`` for the host.
    stack : tuple
        Python stack of the call that queued it, innermost frame first.
    site : Site or None
        The instruction, where it is a kernel's.
    thread : str
        Block and thread, where a single one is known.
    launch : GraphLaunch or None
        The launch of a graph that it belongs to.
    """

    operation: str
    action: str
    stream: str | None = None
    stack: tuple[Frame, ...] = ()
    site: Site | None = None
    thread: str = ""
    launch: GraphLaunch | None = None

    def origin(self) -> Hashable:
        """Equal for accesses made by the same lines of source."""
        site = self.site
        line = None if site is None else (site.source or (site.ptx_line, site.text))
        return (self.operation, self.action, self.stack, line)

    def describe(self) -> str:
        """Lines for a report: operation, stream, instruction and Python stack."""
        stream = "" if self.stream is None else f" on {self.stream}"
        thread = f" ({self.thread})" if self.thread else ""
        lines = [f"{self.operation}{stream} {self.action}{thread}"]
        if self.site is not None:
            ptx = f"PTX line {self.site.ptx_line}: {self.site.text}"
            source = self.site.source
            lines.append("    at " + (ptx if source is None else f"{source[0]}:{source[1]} ({ptx})"))
        if self.stack:
            lines.append(format_stack(self.stack))
        return "\n".join(lines)


@dataclass(slots=True)
class Finding:
    """One mistake, as :func:`drv.simulator.findings` lists it. ``str(finding)`` is the report for people.

    Attributes
    ----------
    kind : str
        What is wrong, such as ``"race"`` or ``"uninitialized"``.
    message : str
        The report.
    first, second : AccessReport or None
        The two accesses; of a read of memory never written only ``second``, the read.
    ranges : tuple of tuple
        Byte ranges ``[start, stop)`` within ``allocation``, or within a block's shared memory; the first few only.
    allocation : Allocation or None
        The memory, where it is not shared memory or registers.
    count : int
        How often the same pair of source lines was caught.
    """

    kind: Kind
    message: str
    first: AccessReport | None = None
    second: AccessReport | None = None
    ranges: tuple[tuple[int, int], ...] = ()
    allocation: Allocation | None = None
    count: int = 1

    def key(self) -> Hashable:
        """Equal for findings that are the same mistake."""
        allocation = self.allocation
        return (
            self.kind,
            None if self.first is None else self.first.origin(),
            None if self.second is None else self.second.origin(),
            None if allocation is None else (allocation.kind, allocation.device, allocation.stack),
        )

    def __str__(self) -> str:
        return self.message if self.count == 1 else f"{self.message}\n(found {self.count} times)"


@dataclass(slots=True, eq=False)
class Findings(Sequence[Finding]):
    """All findings so far, in the order in which they were reported. Safe to use from several threads.

    ``str(findings)`` is the report for people; a finding is raised by the next synchronising call unless it is
    being collected.
    """

    #: Whether findings are only collected, and no synchronising call raises them.
    collect: bool = False
    _all: dict[Hashable, Finding] = field(default_factory=dict)
    _unraised: dict[Hashable, Finding] = field(default_factory=dict)
    _lock: RLock = field(default_factory=RLock)

    def add(self, finding: Finding) -> Finding:
        """Record ``finding``; one with the same key is counted instead. Returns the one that is kept."""
        key = finding.key()
        with self._lock:
            known = self._all.get(key)
            if known is None:
                known = self._all[key] = finding
            else:
                known.count += finding.count
                ranges = dict.fromkeys(known.ranges + finding.ranges)
                known.ranges = tuple(ranges)[:MAX_RANGES]
            self._unraised[key] = known
            return known

    def take_unraised(self) -> list[Finding]:
        """Findings since the last call that are to be raised; none while they are only collected.

        A mistake that is made again after it was raised is due to be raised again.
        """
        if not self._unraised:
            return []
        with self._lock:
            due = [] if self.collect else list(self._unraised.values())
            self._unraised.clear()
            return due

    @contextmanager
    def collecting(self) -> Iterator[Findings]:
        """Record findings of the block without raising them, and give this sequence.

        Findings from before the block are in it too.
        """
        before, self.collect = self.collect, True
        try:
            yield self
        finally:
            with self._lock:
                self._unraised.clear()
                self.collect = before

    def clear(self) -> None:
        """Forget all findings, those that are still to be raised too."""
        with self._lock:
            self._all.clear()
            self._unraised.clear()

    def __len__(self) -> int:
        return len(self._all)

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> list[Finding]: ...
    def __getitem__(self, index: int | slice) -> Finding | list[Finding]:
        with self._lock:
            return list(self._all.values())[index]

    def __str__(self) -> str:
        return "\n\n".join(str(finding) for finding in self) or "no findings"

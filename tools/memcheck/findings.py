"""What was found, as one kind of record, whichever checker found it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from drv.python_stack import Frame

Stack = tuple["Frame", ...]


@dataclass(slots=True, frozen=True)
class Access:
    """One side of a mistake: an operation, or the host, and what it does to the memory.

    Attributes
    ----------
    operation : str
        Such as ``"kernel 'scale'"``, ``"copy of 4000 bytes ..."`` or ``"the host"``.
    action : str
        ``"reads"``, ``"writes"``, ``"updates atomically"``, ``"allocates"``, ``"frees"``; empty where it is not known.
    stream, thread : str or None
        Where it was queued; block and thread of a kernel.
    stream_created : tuple
        Python lines of the call that created the stream, the innermost first; empty for default streams.
    source : tuple of str and int, or None
        File and line of the CUDA source.
    instruction : str or None
        The instruction in PTX, where the source line is not known.
    stack : tuple
        Python lines of the call that queued it, the innermost first.
    """

    operation: str
    action: str = ""
    stream: str | None = None
    thread: str | None = None
    source: tuple[str, int] | None = None
    instruction: str | None = None
    stack: Stack = ()
    stream_created: Stack = ()


@dataclass(slots=True, frozen=True)
class Memory:
    """An allocation: what it is (``"device memory"``), its device, address and size in bytes, and its Python lines."""

    what: str
    device: int | None
    address: int
    size: int
    allocated: Stack = ()
    freed: Stack | None = None

    def describe(self) -> str:
        """``4000 bytes of device memory on device 0``."""
        where = "" if self.device is None else f" on device {self.device}"
        return f"{self.size} bytes of {self.what}{where}"


@dataclass(slots=True)
class Finding:
    """One mistake.

    Attributes
    ----------
    kind : str
        One of the kinds that docs/memcheck.md lists.
    message : str
        One line.
    accesses : tuple of Access
        Who did it; both sides of a race, in the order in which they were queued.
    memory : Memory or None
        The allocation that it is about, or the nearest one.
    ranges : tuple of pairs
        Bytes ``[start, stop)`` from the allocation's beginning; negative before it.
    advice : str
        What to do about it, where that is known.
    count : int
        How often the same lines were caught.
    processes : tuple of str
        In which processes that the program started, by their names; empty where in its own alone.
    """

    kind: str
    message: str
    accesses: tuple[Access, ...] = ()
    memory: Memory | None = None
    ranges: tuple[tuple[int, int], ...] = ()
    advice: str = ""
    count: int = 1
    details: dict[str, Any] = field(default_factory=dict)
    processes: tuple[str, ...] = ()

    def key(self) -> Hashable:
        """Equal for mistakes that the same lines make."""
        sides = tuple((a.operation, a.action, a.source or a.instruction, a.stack) for a in self.accesses)
        memory = self.memory
        # Ranks run the same lines on devices of their own.
        where = None if memory is None else (memory.what, memory.allocated, memory.freed)
        return self.kind, sides, where

    def cause(self) -> Hashable:
        """Equal for findings that one wait would end: of a race between streams, what has to be waited for, and where.

        None where there is no such wait.
        """
        if self.kind != "race" or len(self.accesses) != 2:
            return None
        first, second = self.accesses
        if first.stream is None or second.stream is None or not first.stack:
            return None
        return first.stream, second.stream, first.stack


def merged(findings: list[Finding]) -> list[Finding]:
    """The findings, those that the same lines make as one with a count."""
    by_key: dict[Hashable, Finding] = {}
    for each in findings:
        known = by_key.setdefault(each.key(), each)
        if known is not each:
            known.count += each.count
            known.processes = tuple(dict.fromkeys(known.processes + each.processes))
    return list(by_key.values())


def grouped(findings: Sequence[Finding]) -> list[list[Finding]]:
    """The findings, those with one cause together, each group where its first one stands."""
    groups: dict[Hashable, list[Finding]] = {}
    for each in findings:
        cause = each.cause()
        groups.setdefault(id(each) if cause is None else cause, []).append(each)
    return list(groups.values())

"""Records of the checkers as findings: of the simulated driver, of the guarding allocators, and what is left."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from drv.allocators.guarding.guard import OverwriteKind
from drv.kernel_names import with_readable_names
from drv.simulator.checks.findings import ACTIONS, Kind
from drv.simulator.faults import FaultKind
from tools.counted import counted

from .findings import Access, Finding, Memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from drv.allocators.guarding.guard import Overwrite
    from drv.simulator.checks.findings import AccessReport
    from drv.simulator.checks.findings import Finding as DriverFinding
    from drv.simulator.faults import FaultRecord
    from drv.simulator.memory.address_space import Allocation

    from .findings import Stack

_KINDS = {
    Kind.RACE: "race",
    Kind.FREED_IN_USE: "freed while in use",
    Kind.UNINITIALIZED: "uninitialized read",
    Kind.SHARED_RACE: "race within a kernel",
    Kind.KERNEL_RACE: "race within a kernel",
    Kind.REGISTER_RACE: "race within a kernel",
    Kind.SAME_VALUE: "same value",
}

#: What may have written where nothing may be written: the kernel launched last, or who knows.
KERNEL, SOMETHING = "kernel", "something"

#: An address so many bytes away from an allocation, beside its size, has nothing to do with it.
_FAR = 1 << 20
_KEEP = (
    "Hold on to the tensor until this has run; where another stream than the one it was made on uses it, call "
    "its record_stream(stream) before it is dropped."
)


def joined(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Byte ranges in ascending order, those that touch as one."""
    result: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if result and start <= result[-1][1]:
            result[-1] = result[-1][0], max(stop, result[-1][1])
        else:
            result.append((start, stop))
    return tuple(result)


def from_driver(finding: DriverFinding, streams: Mapping[str, Stack]) -> Finding:
    """A race or a read of memory never written; ``streams`` knows where streams were created."""
    kind = _KINDS[finding.kind]
    accesses = tuple(_access(each, streams) for each in (finding.first, finding.second) if each is not None)
    # Where it was freed later has nothing to do with it.
    memory = None if finding.allocation is None else replace(memory_of(finding.allocation), freed=None)
    advice = with_readable_names(finding.message.splitlines()[-1])
    last = accesses[-1]
    if kind == "uninitialized read":
        message = f"{_who(last)} {last.action} memory that nothing has written"
    elif kind in ("race within a kernel", "same value"):
        space = "shared" if memory is None else "global"
        touch = "store the same value to" if kind == "same value" else "touch"
        message = f"two threads of {last.operation} {touch} {space} memory and nothing orders them"
    elif kind == "freed while in use":
        message = f"memory is freed, and nothing says that {_who(accesses[0])} has ended before"
        if last.stream is not None and last.operation.startswith("free of"):
            accesses = (accesses[0], replace(last, operation="the memory", action="is freed"))
            advice = (
                f"Call record_stream({accesses[0].stream}) on the tensor before it is dropped, or let {last.stream} "
                f"wait for {accesses[0].stream} first."
            )
    elif accesses[0].action == "allocates" and accesses[0].stream is not None:
        stream = accesses[0].stream
        accesses = (replace(accesses[0], operation="the memory", action="is allocated"), *accesses[1:])
        message = f"nothing orders {_who(last)} after the allocation on {stream} of the memory that it {last.action}"
        advice = (
            f"Memory is handed out in the order of its stream: what {stream} has queued before may still use it. Let "
            f"{last.stream or 'the host'} wait for {stream} after the allocation, or allocate on {last.stream or stream}."
        )
    else:
        message = f"nothing orders {_who(last)} after {_who(accesses[0])}, and both touch the same memory"
    return Finding(kind, message, accesses, memory, joined(finding.ranges), advice, finding.count)


def from_fault(fault: FaultRecord, streams: Mapping[str, Stack]) -> Finding:
    """What stopped a kernel or a copy; ``streams`` knows where streams were created."""
    bad, site = fault.access, fault.site
    operation = with_readable_names(fault.operation)
    access = Access(
        operation,
        "" if bad is None else ACTIONS[bad.access],
        fault.stream,
        None if bad is None else bad.thread or None,
        None if site is None else site.source,
        None if site is None else f"PTX line {site.ptx_line}: {site.text}",
        fault.stack,
        streams.get(fault.stream or "", ()),
    )
    if bad is None:
        what, *more = (line.strip() for line in with_readable_names(fault.report).splitlines())
        thread = next((line.removeprefix("by ") for line in more if line.startswith("by block")), None)
        # An assertion's own text says where it stands.
        message = what if site is not None or not more else f"{what}: {more[0]}"
        return Finding("stopped kernel", message, (replace(access, thread=thread),))
    memory = None if bad.allocation is None else memory_of(bad.allocation)
    ranges: tuple[tuple[int, int], ...] = ()
    if memory is not None:
        start = bad.address - memory.address
        ranges = ((start, start + bad.width),)
        if bad.kind is FaultKind.OUT_OF_BOUNDS and max(-start, start - memory.size) > memory.size + _FAR:
            memory, ranges = None, ()
    what = f"{operation} {access.action} {counted(bad.width, 'byte')}"
    freed = bad.kind is FaultKind.FREED
    if memory is not None and not freed:
        memory = replace(memory, freed=None)
    advice = _KEEP if freed else ""
    return Finding(str(bad.kind), f"{what} {_location(bad, memory)}", (access,), memory, ranges, advice)


def _location(bad: Any, memory: Memory | None) -> str:
    if bad.space != "global":
        names = {"shared": "the block's shared memory", "local": "the thread's local memory"}
        return f"at byte {bad.address} of {names.get(bad.space, 'its parameters')}"
    if bad.kind is FaultKind.MISALIGNED:
        return f"at {bad.address:#x}, which is no multiple of {bad.width}"
    if memory is None:
        return "through a null pointer" if bad.address < 1 << 16 else f"at {bad.address:#x}, where nothing is"
    start = bad.address - memory.address
    if bad.kind is FaultKind.FREED:
        return f"at byte {start} of {counted(memory.size, 'byte')} that were freed"
    if bad.kind is FaultKind.FORBIDDEN:
        return f"at byte {start} of memory that it may not touch that way"
    if start < 0:
        return f"that begin {counted(-start, 'byte')} before an allocation of {counted(memory.size, 'byte')}"
    if start < memory.size:
        return f"across the end of an allocation of {counted(memory.size, 'byte')}"
    past = start - memory.size
    return f"{counted(past, 'byte') + ' past' if past else 'right past'} the end of an allocation of {counted(memory.size, 'byte')}"


def from_overwrite(overwrite: Overwrite, count: int, writer: str) -> Finding:
    """Changed bytes that a guarding allocator saw; ``writer`` is what may have written them."""
    operation = SOMETHING if writer == KERNEL and not overwrite.launches else writer
    if operation == KERNEL:
        operation = f"{KERNEL} '{with_readable_names(overwrite.launches[-1])}', or what followed it,"
    access = Access(operation, "writes", stack=overwrite.seen)
    memory = Memory(
        overwrite.memory,
        overwrite.device,
        overwrite.address,
        overwrite.size,
        overwrite.allocated,
        overwrite.freed,
    )
    where = overwrite.where
    kind = "use after free" if overwrite.kind is OverwriteKind.FREED else "out of bounds"
    message = f"{operation} wrote {where}"
    ranges = ((overwrite.first, overwrite.last + 1),)
    return Finding(kind, message, (access,), memory, ranges, count=count)


def from_error(text: str, stack: Stack) -> Finding:
    """An error that has lost a device's context, as a driver tells it that checks nothing."""
    first, *others = with_readable_names(text).splitlines()
    launches = next((line for line in others if line.startswith("Launches before")), "")
    return Finding("stopped kernel", first, (Access("the device", stack=stack),), advice=launches)


def leaks(left: Iterable[Memory]) -> list[Finding]:
    """Memory that is still allocated, one finding for each line of Python that allocated it."""
    groups: dict[Any, list[Memory]] = {}
    for memory in left:
        groups.setdefault((memory.what, memory.device, memory.allocated), []).append(memory)
    leaked = []
    for group in groups.values():
        first = group[0]
        total = sum(memory.size for memory in group)
        where = "" if first.device is None else f" on device {first.device}"
        pieces = "is" if len(group) == 1 else f"in {len(group)} allocations are"
        message = f"{counted(total, 'byte')} of {first.what}{where} {pieces} still allocated when the script is gone"
        if len(group) == 1 and total != 1:
            message = message.replace(" is still", " are still")
        leaked.append(
            Finding("leak", message, (), first, count=1, details={"bytes": total, "allocations": len(group)})
        )
    return leaked


def _who(access: Access) -> str:
    return access.operation if access.stream is None else f"{access.operation} on {access.stream}"


def _access(report: AccessReport, streams: Mapping[str, Stack]) -> Access:
    site = report.site
    return Access(
        with_readable_names(report.operation),
        report.action,
        report.stream,
        report.thread or None,
        None if site is None else site.source,
        None if site is None else f"PTX line {site.ptx_line}: {site.text}",
        report.stack,
        streams.get(report.stream or "", ()),
    )


def memory_of(allocation: Allocation) -> Memory:
    """An allocation of the simulated driver."""
    return Memory(
        f"{allocation.kind.value} '{allocation.name}'" if allocation.name else allocation.kind.value,
        allocation.device,
        allocation.base,
        allocation.size,
        allocation.stack,
        allocation.freed,
    )

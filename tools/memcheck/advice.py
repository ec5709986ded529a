"""What to do about a finding: in one line, with the user's own line, and in full."""

from __future__ import annotations

import sys
import sysconfig
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from drv.simulator.checks import finding_text
from drv.simulator.checks.finding_text import HOST
from nvrtc_kernels.printed_names import printed

from .sources import own, short

if TYPE_CHECKING:
    from .findings import Access, Finding, Stack

_DEFAULT = "default stream"
#: What to do about races within a kernel, by the advice that the checkers give: in a line, with the lines of the two accesses.
_WITHIN_A_KERNEL = {
    finding_text.BARRIER: "put a barrier between {first} and {second}",
    finding_text.ONE_WRITER: "let one thread write at {second}, or use an atomic",
    finding_text.ONE_IS_ENOUGH: "let one thread write at {second}",
    finding_text.ACROSS_CLUSTER: "let the cluster meet between {first} and {second}",
    finding_text.ACROSS_GRID: "let blocks agree on who comes first at {first} and {second}",
    finding_text.WITHIN_LIFE: "let the cluster meet before and after {second}",
    finding_text.BEFORE_THE_END: "wait for the operation of {second} before the block ends",
    finding_text.IN_FLIGHT: "wait for the asynchronous operation between {first} and {second}",
    finding_text.UNFENCED: "put fence.proxy.async between {first} and {second}",
    finding_text.UNFENCED_MAP: "hand the tensor map over by fences between {first} and {second}",
    finding_text.CACHED: "write at {first} and read at {second} in different launches",
    finding_text.REGISTERS_EARLY: "wait for the matrix product between {first} and {second}",
    finding_text.REGISTERS_UNFENCED: "put wgmma.fence before {second}",
}


def location(stack: Stack) -> str:
    """``train.py:23``: the innermost line that is the user's own, else of an installed package; empty without one."""
    frames = own(stack)
    frame = next((frame for frame in frames if not _is_installed(frame[0])), frames[0] if frames else None)
    return "" if frame is None else f"{short(frame[0])}:{frame[1]}"


def _line(access: Access) -> str:
    """``kernel.cu:7``, or the line in PTX where the source's is not known; empty without either."""
    if access.source is not None:
        return f"{short(access.source[0])}:{access.source[1]}"
    return (access.instruction or "").partition(":")[0]


def headline(finding: Finding) -> str:
    """What to do and where, or what is wrong where nothing else is known."""
    accesses, memory = finding.accesses, finding.memory
    where = _at(location(accesses[-1].stack)) if accesses else ""
    allocated = _at(location(memory.allocated)) if memory is not None else ""
    if finding.kind == "race" and len(accesses) == 2:
        first, second = accesses
        if second.operation == HOST or second.stream is None:
            return f"wait for {first.stream or first.operation} before the host {second.action} its memory{where}"
        if first.stream == second.stream or first.stream is None:
            return f"order {first.operation} before {second.operation}{where}"
        return f"let {second.stream} wait for {first.stream} before {_named(second, where)}"
    if finding.kind == "freed while in use" and accesses[0].stream is not None:
        return f"keep memory until {accesses[0].stream} has used it{_at(location(accesses[0].stack))}"
    if finding.advice in _WITHIN_A_KERNEL and all(_line(each) for each in accesses):
        lines = {"first": _line(accesses[0]), "second": _line(accesses[-1])}
        if lines["first"] == lines["second"]:
            lines["first"] = "itself"
        return f"{_WITHIN_A_KERNEL[finding.advice].format(**lines)} in {accesses[-1].operation}"
    if finding.kind == "uninitialized read":
        return f"write memory before it is read{where}{allocated and f'; it is allocated{allocated}'}"
    if finding.kind == "leak":
        return f"{finding.message}, allocated{allocated}" if allocated else finding.message
    return finding.message


def advice(finding: Finding) -> str:
    """What to do, in a sentence or two; empty where that is not known."""
    if len(finding.accesses) != 2 or "tensor" not in sys.modules:
        return finding.advice
    first, second = finding.accesses
    if finding.kind == "freed while in use":
        return _kept_for(first, second) or finding.advice
    if finding.kind != "race":
        return finding.advice
    where = location(second.stack)
    if None in (first.stream, second.stream) or first.stream == second.stream or not where:
        return finding.advice
    if first.operation == "the memory":
        return finding.advice
    names = ("s", "s") if _is_default(first) or _is_default(second) else ("first", "second")
    awaited, waiting = (_expression(each, name) for each, name in zip((first, second), names, strict=True))
    told = [
        f"{name} is {stream_of(each)}"
        for each, name in zip((first, second), names, strict=True)
        if not _is_default(each)
    ]
    return printed(
        f"Say {waiting}.wait_stream({awaited}) before {where}, or queue both on one stream; {'; '.join(told)}."
    )


def _kept_for(use: Access, free: Access) -> str:
    """How memory is kept until a stream has used it; empty where the places are not known."""
    where = location(use.stack)
    if use.stream is None or free.operation != "the memory" or not where:
        return ""
    named = "" if _is_default(use) else f" s is {stream_of(use)}."
    return printed(
        f"Say record_stream({_expression(use, 's')}) of the tensor that {where} uses, before it is dropped; or let "
        f"{free.stream} wait for {use.stream} first.{named}"
    )


def stream_of(access: Access) -> str:
    """The stream of an access, and where the program created it."""
    created = location(access.stream_created)
    return f"{access.stream}, created at {created}" if created else access.stream or ""


def _named(access: Access, where: str) -> str:
    return where.removeprefix(" at ") or access.operation


def _at(where: str) -> str:
    return f" at {where}" if where else ""


def _is_default(access: Access) -> bool:
    return (access.stream or "").startswith(_DEFAULT)


def _expression(access: Access, name: str) -> str:
    if not _is_default(access):
        return name
    device = (access.stream or "").rpartition(" of device ")[2]
    return f"tensor.cuda.default_stream({device if device.isdecimal() else ''})"


@cache
def _is_installed(file: str) -> bool:
    """Whether a file belongs to a package that is installed."""
    folders = (sysconfig.get_path(name) for name in ("purelib", "platlib"))
    return any(Path(file).is_relative_to(folder) for folder in folders)

"""The report for people, and the same for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TextIO

from .sources import own, short

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from .findings import Access, Finding, Stack
    from .sources import Sources

VERSION = 1


def write(
    out: TextIO, findings: Sequence[Finding], sources: Sources, limit: int, tool: str = "memcheck"
) -> None:
    """Tell the first ``limit`` findings in full, in the name of ``tool``."""
    for number, finding in enumerate(findings[:limit], 1):
        print(f"{tool}: [{number}] {finding.kind}: {finding.message}", file=out)
        for line in _body(finding, sources):
            print(f"  {line}", file=out)
        print(file=out)
    if len(findings) > limit:
        hint = " (--max-reports)" if tool == "memcheck" else ""
        print(f"{tool}: {len(findings) - limit} more are not shown{hint}\n", file=out)


def _body(finding: Finding, sources: Sources) -> Iterator[str]:
    two_sided = len(finding.accesses) > 1
    for number, access in enumerate(finding.accesses):
        if two_sided:
            yield f"{('first', 'then')[number]}: {access.operation} {access.action}".rstrip()
        margin = "  " if two_sided else ""
        for line in _access(access, sources, two_sided=two_sided):
            yield margin + line
    if finding.kind == "leak":
        yield "allocated by"
        assert finding.memory is not None
        yield from _stack(finding.memory.allocated, sources)
    elif finding.memory is not None:
        memory = finding.memory
        part = f"{_ranges(finding)} of " if finding.ranges else ""
        yield f"{part}{memory.describe()}, allocated by"
        yield from _stack(memory.allocated, sources)
        if memory.freed is not None:
            yield "and freed by"
            yield from _stack(memory.freed, sources)
    if finding.advice:
        yield finding.advice
    if finding.count > 1:
        yield f"({finding.count} times)"


def _access(access: Access, sources: Sources, *, two_sided: bool) -> Iterator[str]:
    if access.thread:
        yield f"in {access.thread}" if not access.thread.startswith("by ") else access.thread
    if access.source is not None:
        file, line = access.source
        text = sources.cuda(file, line)
        yield f"at {short(file)}:{line}{': ' + text if text else ''}"
    elif access.instruction:
        yield f"at {access.instruction}"
    if access.stream is not None:
        yield f"queued on {access.stream} by"
    elif not two_sided:
        yield "seen after"
    yield from _stack(access.stack, sources)


def _stack(stack: Stack, sources: Sources) -> Iterator[str]:
    """Lines of a Python stack, the innermost last."""
    if not stack:
        yield "  an unknown place"
    for frame in reversed(own(stack)):
        file, line, function = frame
        yield f'  File "{short(file)}", line {line}, in {function}'
        text = sources.python(frame)
        if text:
            yield f"    {text}"


def _ranges(finding: Finding) -> str:
    shown = ", ".join(f"[{start}, {stop})" for start, stop in finding.ranges[:4])
    return f"bytes {shown}{', ...' if len(finding.ranges) > 4 else ''}"


def write_json(
    path: Path,
    findings: Sequence[Finding],
    sources: Sources,
    *,
    command: Sequence[str],
    drivers: Sequence[str],
    script_status: int,
    status: int,
) -> None:
    """Write all findings to ``path``; docs/memcheck.md says what is where."""
    document = {
        "tool": "memcheck",
        "version": VERSION,
        "command": list(command),
        "drivers": list(drivers),
        "script_status": script_status,
        "status": status,
        "errors": len(findings),
        "findings": [_finding(each, sources) for each in findings],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _finding(finding: Finding, sources: Sources) -> dict[str, Any]:
    memory = finding.memory
    return {
        "kind": finding.kind,
        "message": finding.message,
        "count": finding.count,
        "accesses": [
            {
                "operation": each.operation,
                "action": each.action or None,
                "stream": each.stream,
                "thread": each.thread,
                "source": None if each.source is None else _source(each.source, sources),
                "instruction": each.instruction,
                "stack": _frames(each.stack, sources),
            }
            for each in finding.accesses
        ],
        "memory": None
        if memory is None
        else {
            "kind": memory.what,
            "device": memory.device,
            "address": memory.address,
            "size": memory.size,
            "allocated": _frames(memory.allocated, sources),
            "freed": None if memory.freed is None else _frames(memory.freed, sources),
        },
        "ranges": [list(each) for each in finding.ranges],
        "advice": finding.advice or None,
        **({"leak": finding.details} if finding.details else {}),
    }


def _source(source: tuple[str, int], sources: Sources) -> dict[str, Any]:
    return {"file": source[0], "line": source[1], "text": sources.cuda(*source)}


def _frames(stack: Stack, sources: Sources) -> list[dict[str, Any]]:
    return [
        {"file": frame[0], "line": frame[1], "function": frame[2], "text": sources.python(frame)}
        for frame in own(stack)
    ]

"""The report for people, and the same for programs."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from .advice import advice, headline, location, stream_of
from .findings import grouped
from .kinds import link
from .sources import own, short

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .findings import Access, Finding, Stack
    from .sources import Sources

VERSION = 1


def write(
    out: TextIO, findings: Sequence[Finding], sources: Sources, limit: int, tool: str = "memcheck"
) -> None:
    """Tell the first ``limit`` findings in full, in the name of ``tool``; those of one cause with the first of them."""
    style, number, explained = Style.of(out), 0, set()
    for group in grouped(findings):
        first = group[0]
        if number >= limit:
            number += len(group)
            continue
        number += 1
        kind = style.strong(f"[{number}] {first.kind}")
        print(f"{tool}: {kind}: {style.bold(headline(first))}{_frequency(first)}", file=out)
        for line in _body(first, sources, style):
            print(f"  {line}", file=out)
        for line in _others(group[1:]):
            print(f"  {line}", file=out)
        if first.kind not in explained:
            explained.add(first.kind)
            print(f"  {style.faint(_more(first.kind))}", file=out)
        number += len(group) - 1
        print(file=out)
    hidden = number - limit
    if hidden > 0:
        hint = " (--max-reports)" if tool == "memcheck" else ""
        print(f"{tool}: {hidden} more are not shown{hint}\n", file=out)


def _more(kind: str) -> str:
    """Where to read what a kind means."""
    return f"more: graphroot memcheck --explain {shlex.quote(kind)}"


@dataclass(slots=True, frozen=True)
class Style:
    """Colours of a terminal, or none."""

    colours: bool = False

    @classmethod
    def of(cls, out: TextIO) -> Style:
        """What suits ``out``: none for a file, and where the environment has ``NO_COLOR``."""
        return cls(out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")

    def strong(self, text: str) -> str:
        """What is wrong."""
        return f"\x1b[1;31m{text}\x1b[0m" if self.colours else text

    def bold(self, text: str) -> str:
        """What to read first."""
        return f"\x1b[1m{text}\x1b[0m" if self.colours else text

    def code(self, text: str) -> str:
        """A line of the program."""
        return f"\x1b[36m{text}\x1b[0m" if self.colours else text

    def faint(self, text: str) -> str:
        """What is not the program's own."""
        return f"\x1b[2m{text}\x1b[0m" if self.colours else text


def _frequency(finding: Finding) -> str:
    """How often and where, as the end of a line."""
    phrases = [f"{finding.count} times"] if finding.count > 1 else []
    if finding.processes:
        phrases.append(f"in {_listed(finding.processes)}")
    return f" ({', '.join(phrases)})" if phrases else ""


def _body(finding: Finding, sources: Sources, style: Style) -> Iterator[str]:
    two_sided = len(finding.accesses) > 1
    if headline(finding) != finding.message:
        yield finding.message
    # Both sides of a race within a kernel were queued by one call.
    common = two_sided and len({(each.stream, each.stack) for each in finding.accesses}) == 1
    for number, access in enumerate(finding.accesses):
        if two_sided:
            yield f"{('first', 'then')[number]}: {access.operation} {access.action}".rstrip()
        margin = "  " if two_sided else ""
        before, after = _site(access, sources, style)
        call = () if common else _call(access, sources, style, two_sided=two_sided)
        for line in (*before, *call, *after):
            yield margin + line
    if common:
        yield from _call(finding.accesses[0], sources, style, two_sided=True)
    if finding.kind == "leak":
        yield "allocated by"
        assert finding.memory is not None
        yield from _stack(finding.memory.allocated, sources, style)
    elif finding.memory is not None:
        memory = finding.memory
        part = f"{_ranges(finding)} of " if finding.ranges else ""
        yield f"{part}{memory.describe()}, allocated by"
        yield from _stack(memory.allocated, sources, style)
        if memory.freed is not None:
            yield "and freed by"
            yield from _stack(memory.freed, sources, style)
    words = advice(finding)
    if words:
        yield style.bold(words)


def _others(rest: Sequence[Finding]) -> Iterator[str]:
    """Findings that the same wait would end, a line each."""
    if rest:
        yield f"The same wait is missing for {len(rest)} more:"
    for each in rest:
        access = each.accesses[-1]
        where = location(access.stack)
        yield f"  {access.operation} {access.action}{f' at {where}' if where else ''}{_frequency(each)}"


def _site(access: Access, sources: Sources, style: Style) -> tuple[list[str], list[str]]:
    """Thread and line of a kernel: what stands before the call that queued it, and what behind it.

    The line of the program's own kernel is what a finding is about, one of ours is only where it came to light.
    """
    lines = []
    if access.thread:
        lines.append(f"in {access.thread}" if not access.thread.startswith("by ") else access.thread)
    if access.source is not None:
        file, line = access.source
        text = sources.cuda(file, line)
        at = f"at {short(file)}:{line}{': ' + text if text else ''}"
        if not Path(file).is_absolute():
            return [*lines, style.code(at)], []
        lines.append(at)
    elif access.instruction:
        lines.append(f"at {access.instruction}")
    return [], [style.faint(line) for line in lines]


def _call(access: Access, sources: Sources, style: Style, *, two_sided: bool) -> Iterator[str]:
    """The call that queued an access."""
    if access.stream is not None:
        stream = stream_of(access)
        yield f"queued on {stream}{',' if ',' in stream else ''} by"
    elif not two_sided:
        yield "seen after"
    yield from _stack(access.stack, sources, style)


def _stack(stack: Stack, sources: Sources, style: Style) -> Iterator[str]:
    """Lines of a Python stack, the innermost last."""
    if not stack:
        yield "  an unknown place"
    for frame in reversed(own(stack)):
        file, line, function = frame
        yield f'  File "{short(file)}", line {line}, in {function}'
        text = sources.python(frame)
        if text:
            yield f"    {style.code(text)}"


def _ranges(finding: Finding) -> str:
    shown = ", ".join(f"[{start}, {stop})" for start, stop in finding.ranges[:4])
    return f"bytes {shown}{', ...' if len(finding.ranges) > 4 else ''}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def write_json(
    path: Path,
    findings: Sequence[Finding],
    sources: Sources,
    *,
    tool: str = "memcheck",
    command: Sequence[str],
    drivers: Sequence[str],
    script_status: int,
    status: int,
) -> None:
    """Write all findings to ``path``; docs/memcheck.md says what is where."""
    document = {
        "tool": tool,
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
                "stream_created": _frames(each.stream_created, sources),
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
        "to_do": headline(finding),
        "advice": advice(finding) or None,
        "page": link(finding.kind),
        "processes": list(finding.processes),
        **({"leak": finding.details} if finding.details else {}),
    }


def _source(source: tuple[str, int], sources: Sources) -> dict[str, Any]:
    return {"file": source[0], "line": source[1], "text": sources.cuda(*source)}


def _frames(stack: Stack, sources: Sources) -> list[dict[str, Any]]:
    return [
        {"file": frame[0], "line": frame[1], "function": frame[2], "text": sources.python(frame)}
        for frame in own(stack)
    ]

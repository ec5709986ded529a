"""Findings of several processes: what each of them reports, and all together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from .findings import merged

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .findings import Finding
    from .sources import Sources


class Finder(Protocol):
    """What gathers the findings of one process."""

    sources: Sources

    def settle(self) -> None:
        """Let everything that is queued run."""

    def findings(self) -> list[Finding]:
        """Everything found so far."""


def report_of(finder: Finder, process: str) -> Any:
    """What a process, called ``process``, reports: its findings, and the texts of the kernels that they are about."""
    finder.settle()
    findings = [replace(each, processes=(process,)) for each in finder.findings()]
    return findings, dict(finder.sources.kernels)


def together(finder: Finder, reports: Iterable[Any]) -> list[Finding]:
    """Findings of this process and of those that have left ``reports``; the same lines once, with a count."""
    findings = finder.findings()
    for others, kernels in reports:
        findings += others
        finder.sources.add(kernels)
    return merged(findings)

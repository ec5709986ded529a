"""Collecting what the simulated GPU finds while a program runs, to tell it at the program's end."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from drv import selection
from tools.memcheck import conversion, report
from tools.memcheck.findings import merged
from tools.memcheck.sources import Sources
from tools.memcheck.watching import settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from drv import Runtime
    from tools.memcheck.findings import Finding

#: How many findings are told in full.
_LIMIT = 20


class Races:
    """Has the simulated driver look for races, unless the program or the user asks for other checks."""

    def __init__(self) -> None:
        self.sources = Sources()
        self._runtimes: list[Runtime] = []
        self._gather: list[Callable[[], list[Finding]]] = []

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch for a block."""
        selection.supervise(self)
        try:
            yield
        finally:
            selection.supervise(None)

    def simulator_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """See :class:`drv.selection.Supervisor`."""
        return options

    def started(self, runtime: Runtime) -> None:
        """See :class:`drv.selection.Supervisor`."""
        if not runtime.simulated:
            return
        findings = runtime.driver.findings
        # A mistake in one stream says nothing against the rest of the program.
        findings.collect = True
        self._runtimes.append(runtime)
        self._gather.append(lambda: [conversion.from_driver(each) for each in findings])

    def ending(self, runtime: Runtime) -> None:
        """See :class:`drv.selection.Supervisor`."""
        settle(runtime)
        self.sources.learn(runtime)

    def tell(self) -> int:
        """Let everything run that is queued, write the findings to stderr, and return how many there are."""
        for runtime in self._runtimes:
            settle(runtime)
            if runtime.alive:
                self.sources.learn(runtime)
        findings = merged([each for gathered in self._gather for each in gathered()])
        if findings:
            report.write(sys.stderr, findings, self.sources, _LIMIT, tool="run")
            print(
                f"run: {len(findings)} error{'s' * (len(findings) > 1)} in the program's use of streams and memory; "
                "--memcheck looks for more",
                file=sys.stderr,
            )
        return len(findings)

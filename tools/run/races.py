"""Collecting what the simulated GPU finds while a program runs, to tell it at the program's end."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from drv import selection
from tools.memcheck import conversion
from tools.memcheck.findings import merged
from tools.memcheck.processes import report_of
from tools.memcheck.sources import Sources
from tools.memcheck.watching import settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from drv import Runtime
    from tools.memcheck.findings import Finding


class Races:
    """Has the simulated driver look for races, unless the program or the user asks for other checks.

    Parameters
    ----------
    faults : bool, default: False
        Whether to tell also what has stopped a kernel or a copy, for programs whom no exception of ours tells it.

    Attributes
    ----------
    runtimes : list of Runtime
        The simulated ones that were made, the earliest first.
    sources : Sources
        Texts of the kernels that they have loaded, among others.
    """

    def __init__(self, faults: bool = False) -> None:
        self._faults = faults
        self.runtimes: list[Runtime] = []
        self.sources = Sources()
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
        findings, faults = runtime.driver.findings, runtime.driver.faults
        streams = runtime.driver.stream_stacks
        # A mistake in one stream says nothing against the rest of the program.
        findings.collect = True
        self.runtimes.append(runtime)
        if self._faults:
            self._gather.append(lambda: [conversion.from_fault(each, streams) for each in faults])
        self._gather.append(lambda: [conversion.from_driver(each, streams) for each in findings])

    def ending(self, runtime: Runtime) -> None:
        """See :class:`drv.selection.Supervisor`."""
        settle(runtime)
        self.sources.learn(runtime)

    def report(self, process: str) -> Any:
        """See :class:`tools.run.following.Observer`."""
        return report_of(self, process)

    def settle(self) -> None:
        """Let everything run that is queued."""
        for runtime in self.runtimes:
            settle(runtime)
            if runtime.alive:
                self.sources.learn(runtime)

    def findings(self) -> list[Finding]:
        """Everything found; the same lines once, with a count."""
        return merged([each for gathered in self._gather for each in gathered()])

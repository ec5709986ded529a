"""Running a program on simulated GPUs, and telling at its end what is wrong with its use of streams."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from drv import environment
from drv.simulator.options import parse_options
from tools.memcheck import report
from tools.memcheck.processes import together

from .arguments import simulate
from .following import Followed
from .races import Races

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.memcheck.findings import Finding

#: The exit status of a program in which something was found, as memcheck has it.
FINDINGS_STATUS = 86
#: How many findings are told in full.
_LIMIT = 20


def watched(name: str, options: str, run: Callable[[], int]) -> int:
    """Run a program on simulated GPUs, tell the races in it and in processes that it starts; the exit status.

    Parameters
    ----------
    name : str
        What the user calls the program.
    options : str
        Options of the simulator. Races are looked for unless they say otherwise.
    run : function
        Runs it and returns its exit status, which is kept where nothing is found.
    """
    # First, so that options of the user's hold.
    simulate(options if "check=" in options else f"check=race,{options}")
    races, children = Races(), Followed("tools.run.races:Races")
    with children.following(), races.watching():
        status = run()
        races.settle()
    findings = together(races, children.reports)
    report.write(sys.stderr, findings, races.sources, _LIMIT, tool="graphroot")
    print(f"graphroot: {_summary(name, races, len(children.reports), findings)}", file=sys.stderr)
    return FINDINGS_STATUS if findings else status


def _summary(name: str, races: Races, processes: int, findings: Sequence[Finding]) -> str:
    """One line at the end, which says what was looked for."""
    if findings:
        errors = f"{len(findings)} error{'s' * (len(findings) > 1)}"
        return f"{errors} in how {name} uses streams and memory; --memcheck looks for more"
    if not races.runtimes and not processes:
        return f"{name} used no GPU"
    options = parse_options(environment.simulator_options())
    if races.runtimes:
        options = races.runtimes[0].driver.options
    gpus = "a simulated GPU" if options.devices == 1 else f"{options.devices} simulated GPUs"
    others = (processes + bool(races.runtimes)) if processes else 0
    where = f"{name} ran on {gpus}{f' in {others} processes' if others > 1 else ''}"
    if options.check not in ("race", "full"):
        return f"{where}; races were not looked for (check={options.check})"
    return f"{where}; no race between its streams was found"

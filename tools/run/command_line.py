"""Running a program as its command line says: ``graphroot run``, or ``python -m tools.run``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from drv import environment
from drv.simulator.options import parse_options
from tools.memcheck import report
from tools.memcheck.checking import main as memcheck

from .arguments import simulate
from .following import Followed
from .options import parse
from .races import Races
from .script import CannotRun, Script, become_torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.memcheck.findings import Finding

#: The exit status of a program in which something was found, as memcheck has it.
FOUND = 86
#: How many findings are told in full.
_LIMIT = 20


def main(arguments: Sequence[str] | None = None, prog: str = "python -m tools.run") -> int:
    """Run the program that a command line names, and return its exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        What stands behind the name of the command; that of this process by default. ``--help`` lists the options.
    prog : str, default: "python -m tools.run"
        What the command is called in messages.

    Returns
    -------
    int
        The status that ``python`` would end with: 1 after an exception, whose traceback is on stderr, 130 after
        Ctrl-C; 2 if there is no such script; 86 if it was to run on a simulated GPU or under memcheck and something
        was found.

    Raises
    ------
    SystemExit
        With status 2, if an option is unknown or has an impossible value, and with 0 after ``--help``.
    """
    options = parse(sys.argv[1:] if arguments is None else arguments, prog)
    if options.memcheck:
        simulated = [] if options.simulate is None else [f"--simulate={options.simulate}"]
        torch = ["--as-torch"] if options.as_torch else []
        return memcheck([*torch, *simulated, *(["-m"] if options.module else []), *options.target], prog)
    if options.as_torch and not become_torch(prog):
        return 2
    if options.simulate is not None:
        # First, so that options of the user's hold.
        simulate(options.simulate if "check=" in options.simulate else f"check=race,{options.simulate}")
    script = Script(options.target, options.module)
    try:
        if options.simulate is not None:
            return _watched(script)
        script.run()
        return script.status
    except CannotRun as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return 2


def _watched(script: Script) -> int:
    """Run a script on a simulated GPU, tell the races that were found in it and in processes that it started."""
    races, children = Races(), Followed("tools.run.races:Races")
    with children.following(), races.watching():
        script.run()
        races.settle()
    findings = children.together(races)
    report.write(sys.stderr, findings, races.sources, _LIMIT, tool="graphroot")
    print(f"graphroot: {_summary(script, races, children.processes, findings)}", file=sys.stderr)
    return FOUND if findings else script.status


def _summary(script: Script, races: Races, processes: int, findings: Sequence[Finding]) -> str:
    """One line at the end, which says what was looked for."""
    if findings:
        errors = f"{len(findings)} error{'s' * (len(findings) > 1)}"
        return f"{errors} in how {script.name} uses streams and memory; --memcheck looks for more"
    if not races.runtimes and not processes:
        return f"{script.name} used no GPU"
    options = parse_options(environment.simulator_options())
    if races.runtimes:
        options = races.runtimes[0].driver.options
    gpus = "a simulated GPU" if options.devices == 1 else f"{options.devices} simulated GPUs"
    others = (processes + bool(races.runtimes)) if processes else 0
    where = f"{script.name} ran on {gpus}{f' in {others} processes' if others > 1 else ''}"
    if options.check not in ("race", "full"):
        return f"{where}; races were not looked for (check={options.check})"
    return f"{where}; no race between its streams was found"

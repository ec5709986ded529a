"""Running a program as its command line says: ``graphroot run``, or ``python -m tools.run``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tools.memcheck.checking import main as memcheck

from .options import parse
from .script import CannotRun, Script, become_torch
from .watched import watched

if TYPE_CHECKING:
    from collections.abc import Sequence


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
    script = Script(options.target, options.module)

    def run() -> int:
        script.run()
        return script.status

    try:
        return run() if options.simulate is None else watched(script.name, options.simulate, run)
    except CannotRun as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return 2

"""Running a program as its command line says: ``graphroot run``, or ``python -m tools.run``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from graphroot.coexistence import own
from tools.memcheck.checking import main as memcheck

from .arguments import simulate
from .options import parse
from .races import Races
from .script import CannotRun, Script

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The exit status of a program in which something was found, as memcheck has it.
FOUND = 86


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
    if options.as_torch:
        try:
            installation: Any = own("tensor.torch_names.installation")
            installation.install()
        except ImportError as error:
            print(f"{prog}: {error}", file=sys.stderr)
            return 2
    if options.memcheck:
        simulated = [] if options.simulate is None else [f"--simulate={options.simulate}"]
        return memcheck([*simulated, *(["-m"] if options.module else []), *options.target], prog)
    if options.simulate is not None:
        # First, so that options of the user's hold.
        simulate(options.simulate if "check=" in options.simulate else f"check=race,{options.simulate}")
    script, races = Script(options.target, options.module), Races()
    try:
        if options.simulate is None:
            script.run()
            return script.status
        with races.watching():
            script.run()
            return FOUND if races.tell() else script.status
    except CannotRun as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return 2

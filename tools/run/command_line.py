"""The command line of ``python -m tools.run``: which program, and on what."""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import TYPE_CHECKING

from tools.memcheck.checking import main as memcheck

from . import arguments as arguments_
from .races import Races
from .script import CannotRun, Script

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The exit status of a program in which something was found, as memcheck has it.
FOUND = 86
_DESCRIPTION = """\
Run a PyTorch program as it is: `import torch` in it, and in the processes that it starts, gives graphroot's tensors.
Options come before the script; what comes after it belongs to the script.
"""


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
    usage = f"{prog} [options] (script.py | -m module) [arguments]"
    parser = argparse.ArgumentParser(prog=prog, usage=usage, description=_DESCRIPTION, allow_abbrev=False)
    arguments_.add_simulate(parser)
    parser.add_argument(
        "--memcheck", action="store_true", help="look for mistakes with GPU memory, as tools.memcheck does"
    )
    parser.add_argument(
        "--as-torch",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="let `import torch` be graphroot (default: yes)",
    )
    arguments_.add_target(parser)
    options, target = arguments_.parse(parser, sys.argv[1:] if arguments is None else arguments)
    if options.as_torch:
        try:
            importlib.import_module("tensor.as_torch")
        except ImportError as error:
            print(f"{prog}: {error}", file=sys.stderr)
            return 2
    if options.memcheck:
        simulate = [] if options.simulate is None else [f"--simulate={options.simulate}"]
        return memcheck([*simulate, *([] if options.module is None else ["-m"]), *target])
    if options.simulate is not None:
        # First, so that options of the user's hold.
        arguments_.simulate(
            options.simulate if "check=" in options.simulate else f"check=race,{options.simulate}"
        )
    script, races = Script(target, options.module is not None), Races()
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

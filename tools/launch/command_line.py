"""Starting ranks, on simulated GPUs and checked if asked: ``graphroot launch``, or ``python -m tools.launch``."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from nvrtc_kernels import printed_names
from parallel.launch.command_line import process_count, run
from tools.memcheck.checking import checked
from tools.memcheck.options import Options
from tools.run.arguments import check_simulate, with_values
from tools.run.watched import watched

from .options import parser

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None, prog: str = "python -m tools.launch") -> int:
    """Start the ranks that a command line asks for, and return the exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        What stands behind the name of the tool; that of this process by default. ``--help`` lists the options.
    prog : str, default: "python -m tools.launch"
        What the tool is called in messages.

    Returns
    -------
    int
        0, or the status of the rank that failed first: of one that a signal ended, 128 plus its number. 86 if ranks
        were to run on simulated GPUs or under memcheck and something was found in one.

    Raises
    ------
    SystemExit
        With status 2, if an option is unknown or has an impossible value, or the script does not exist, and with 0 after
        ``--help``.
    """
    described = parser(prog)
    options = described.parse_args(with_values(described, sys.argv[1:] if arguments is None else arguments))
    check_simulate(described, options)
    if options.as_torch:
        # Reports speak of modules as the ranks know them.
        printed_names.library = "torch"
    simulated = options.simulate
    if simulated is not None and "devices=" not in os.environ.get("GRAPHROOT_SIMULATOR", "") + simulated:
        # Every rank looks for a device of its own number.
        count = process_count(described, options.nproc_per_node)
        simulated = ",".join(filter(None, (f"devices={count}", simulated)))
    if options.memcheck:
        target = (options.script, *options.arguments)
        return checked(
            Options(target=target, simulate=simulated, leak_check=False),
            options.script,
            lambda: run(described, options),
        )
    if simulated is not None:
        return watched(options.script, simulated, lambda: run(described, options))
    return run(described, options)

"""The command line of simulate: which command, and on what GPU."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from drv.simulator.options import OptionError, parse_options

if TYPE_CHECKING:
    from collections.abc import Sequence

_DESCRIPTION = """\
Run a command with a simulated GPU in the place of NVIDIA's: Python programs in it that load libcuda.so.1, from Python
or from C, get a library whose functions end in the simulator. OPTIONS are those of GRAPHROOT_SIMULATOR, such as
devices=2,check=full.
"""


def parser(prog: str) -> argparse.ArgumentParser:
    """The options, and what they mean, of the command that is called ``prog``."""
    result = argparse.ArgumentParser(
        prog=prog, usage=f"{prog} [OPTIONS] COMMAND [arguments]", description=_DESCRIPTION, allow_abbrev=False
    )
    result.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return result


def parse(arguments: Sequence[str], prog: str) -> tuple[str, list[str]]:
    """Options of the simulator, and the command; ends the program with status 2 and a message where they are wrong."""
    options = parser(prog)
    words = options.parse_args(arguments).command
    simulator = words.pop(0) if words and re.match(r"\w+=", words[0]) else ""
    try:
        parse_options(simulator)
    except OptionError as error:
        options.error(str(error))
    if not words:
        options.error("expected a command to run")
    return simulator, words

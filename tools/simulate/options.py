"""The command line of simulate: which command, and on what GPU."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from drv.simulator.options import OptionError, parse_options

if TYPE_CHECKING:
    from collections.abc import Sequence

_DESCRIPTION = """\
Run a command with a simulated GPU in the place of NVIDIA's: Python programs in it that load libcuda.so.1, from Python
or from C, get a library whose functions end in the simulator. OPTIONS are those of GRAPHROOT_SIMULATOR, such as
devices=2,check=full.
"""


@dataclass(slots=True, frozen=True)
class Options:
    """What the command line says.

    Attributes
    ----------
    simulator : str
        Options of the simulator, as in ``GRAPHROOT_SIMULATOR``.
    command : list of str
        The command, and its arguments.
    json : Path or None
        Where the findings are written for programs.
    """

    simulator: str
    command: list[str]
    json: Path | None = None


def parser(prog: str) -> argparse.ArgumentParser:
    """The options, and what they mean, of the command that is called ``prog``."""
    result = argparse.ArgumentParser(
        prog=prog,
        usage=f"{prog} [--json FILE] [OPTIONS] COMMAND [arguments]",
        description=_DESCRIPTION,
        allow_abbrev=False,
    )
    result.add_argument("--json", type=Path, metavar="FILE", help="where to write the findings for programs")
    result.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return result


def parse(arguments: Sequence[str], prog: str) -> Options:
    """What a command line says; ends the program with status 2 and a message where it is wrong."""
    options = parser(prog)
    parsed = options.parse_args(arguments)
    words = parsed.command
    simulator = words.pop(0) if words and re.match(r"\w+=", words[0]) else ""
    try:
        parse_options(simulator)
    except OptionError as error:
        options.error(str(error))
    if not words:
        options.error("expected a command to run")
    return Options(simulator, words, parsed.json)

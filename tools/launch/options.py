"""The command line of launch: that of :mod:`parallel.launch`, and on what GPUs the ranks run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parallel.launch.command_line import parser as parser_of_ranks
from tools.run.arguments import add_simulate

if TYPE_CHECKING:
    import argparse


def parser(prog: str) -> argparse.ArgumentParser:
    """The options, and what they mean, of the command that is called ``prog``."""
    result = parser_of_ranks(prog)
    add_simulate(result)
    result.add_argument(
        "--memcheck",
        action="store_true",
        help="look for mistakes with GPU memory in all ranks: `graphroot memcheck` with its usual options",
    )
    return result

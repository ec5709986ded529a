# PYTHON_ARGCOMPLETE_OK
"""The command ``graphroot``: a table of subcommands, each of which loads what it needs when it is called."""

from __future__ import annotations

import difflib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import __version__
from .coexistence import own

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

_USAGE = "usage: graphroot [--version] [--help] COMMAND [arguments]"
_DESCRIPTION = "GPU programs without a GPU, and PyTorch programs as they are."
_EPILOG = (
    "graphroot COMMAND --help tells the options of each; `graphroot completion` completes them in a shell."
)


@dataclass(frozen=True, slots=True)
class Subcommand:
    """A row of the table.

    Attributes
    ----------
    name, summary : str
        What it is called, and one line that says what it does.
    main : str
        ``"module:function"``: called with the arguments and the name of the command, it returns the exit status.
    parser : str
        ``"module:function"``: called with the name of the command, it returns the ``ArgumentParser`` of the options. Its
        module is loaded for each completion in a shell, and should be a light one.
    """

    name: str
    summary: str
    main: str
    parser: str

    @property
    def prog(self) -> str:
        """What it is called in messages."""
        return f"graphroot {self.name}"


#: All subcommands, in the order in which they are listed.
SUBCOMMANDS = (
    Subcommand(
        "run",
        "run a PyTorch program as it is; with --simulate on a simulated GPU",
        "tools.run.command_line:main",
        "tools.run.options:parser",
    ),
    Subcommand(
        "simulate",
        "run any command with a simulated GPU in the place of NVIDIA's",
        "tools.simulate.command_line:main",
        "tools.simulate.options:parser",
    ),
    Subcommand(
        "memcheck",
        "run a program and report its mistakes with GPU memory",
        "tools.memcheck.checking:main",
        "tools.memcheck.options:parser",
    ),
    Subcommand(
        "profile",
        "say what a program does with its time; without a GPU by a model",
        "tools.profile.command_line:main",
        "tools.profile.options:parser",
    ),
    Subcommand(
        "scale",
        "predict how a training would scale to many devices",
        "tools.scale.command_line:main",
        "tools.scale.options:parser",
    ),
    Subcommand(
        "launch",
        "start a program as several ranks, each a process",
        "tools.launch.command_line:main",
        "tools.launch.options:parser",
    ),
    Subcommand(
        "bench",
        "measure this project, beside PyTorch and CuPy where they are installed",
        "tools.bench.command_line:main",
        "tools.bench.options:parser",
    ),
    Subcommand(
        "info",
        "tell the driver, the devices, versions, libraries and settings",
        "tools.info.command_line:main",
        "tools.info.options:parser",
    ),
    Subcommand(
        "completion",
        "print what makes bash, zsh or fish complete this command",
        "graphroot.completion:main",
        "graphroot.completion:parser",
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command ``graphroot`` with ``arguments``, by default those of this process; the exit status.

    Returns
    -------
    int
        That of the subcommand; 2 if there is none of that name.

    Raises
    ------
    SystemExit
        By the subcommand, if its options are wrong, and after its ``--help``.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "_ARGCOMPLETE" in os.environ:
        # A shell asks, at each press of its key: nothing else is loaded.
        from .completion import complete

        complete(SUBCOMMANDS, parser_of)
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    if not words or words[0] in ("-h", "--help"):
        print(_help(), file=sys.stdout if words else sys.stderr)
        return 0 if words else 2
    if words[0] in ("-V", "--version"):
        print(f"graphroot {__version__} (Python {sys.version.split()[0]})")
        return 0
    row = next((row for row in SUBCOMMANDS if row.name == words[0]), None)
    if row is None:
        print(f"{_USAGE}\ngraphroot: {_unknown(words)}", file=sys.stderr)
        return 2
    try:
        status: int = load(row.main)(words[1:], row.prog)
    except KeyboardInterrupt:
        return 130
    return status


def load(reference: str) -> Callable[..., Any]:
    """The function that ``"module:function"`` names."""
    module, _, name = reference.partition(":")
    result: Callable[..., Any] = getattr(own(module), name)
    return result


def parser_of(row: Subcommand) -> argparse.ArgumentParser:
    """The options of a subcommand."""
    result: argparse.ArgumentParser = load(row.parser)(row.prog)
    return result


def _help() -> str:
    width = max(len(row.name) for row in SUBCOMMANDS)
    rows = [f"  {row.name:{width}}  {row.summary}" for row in SUBCOMMANDS]
    return "\n".join((_USAGE, "", _DESCRIPTION, "", "commands:", *rows, "", _EPILOG))


def _unknown(words: Sequence[str]) -> str:
    name = words[0]
    if name.endswith(".py") or Path(name).is_file():
        return f"to run a program, say `graphroot run {' '.join(words)}`"
    near = difflib.get_close_matches(name, [row.name for row in SUBCOMMANDS], n=1, cutoff=0.5)
    hint = (
        f": did you mean {near[0]!r}?"
        if near
        else f"; there are {', '.join(row.name for row in SUBCOMMANDS)}"
    )
    return f"there is no command {name!r}{hint}"

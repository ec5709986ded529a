"""Completing the command ``graphroot`` in bash, zsh and fish: by the argcomplete package, from the parsers themselves."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .command import Subcommand

SHELLS = ("bash", "zsh", "fish")
_DESCRIPTION = """\
Print what makes a shell complete `graphroot`, its commands and their options. The shell reads it when it starts:

  bash   echo 'eval "$(graphroot completion bash)"' >> ~/.bashrc
  zsh    echo 'eval "$(graphroot completion zsh)"' >> ~/.zshrc
  fish   graphroot completion fish > ~/.config/fish/completions/graphroot.fish
"""


def parser(prog: str) -> argparse.ArgumentParser:
    """The options of the command that is called ``prog``."""
    result = argparse.ArgumentParser(
        prog=prog, description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    result.add_argument("shell", choices=SHELLS)
    return result


def main(arguments: Sequence[str], prog: str) -> int:
    """Print the code for the shell that is named, and return 0.

    Raises
    ------
    SystemExit
        With status 2 for another shell, and with 0 after ``--help``.
    """
    # Of all commands only this one, and a shell that completes, need it.
    from argcomplete.shell_integration import shellcode

    print(shellcode(["graphroot"], shell=parser(prog).parse_args(arguments).shell))
    return 0


def complete(rows: Sequence[Subcommand], parser_of: Callable[[Subcommand], argparse.ArgumentParser]) -> None:
    """Answer the shell, whose environment has the line and the cursor, and end the process.

    Parameters
    ----------
    rows : sequence of Subcommand
        All commands.
    parser_of : function
        Gives the options of one, for the command that stands on the line.
    """
    import argcomplete

    words = os.environ.get("COMP_LINE", "").split()
    by_name = {row.name: row for row in rows}
    excluded: list[str] = []

    def parser_named(*, prog: str, **_: Any) -> argparse.ArgumentParser:
        name = prog.split()[-1]
        if name not in words:
            return argparse.ArgumentParser(prog=prog)
        result = parser_of(by_name[name])
        # Second spellings of those with dashes.
        excluded.extend(text for action in result._actions for text in action.option_strings if "_" in text)
        return result

    everything = argparse.ArgumentParser(prog="graphroot")
    everything.add_argument("--version", action="store_true")
    # It need not be a class; type checkers are told that it is.
    make: Any = parser_named
    commands = everything.add_subparsers(parser_class=make)
    for row in rows:
        commands.add_parser(row.name, help=row.summary)
    argcomplete.autocomplete(everything, exclude=excluded)
    # It returns where nothing is asked of it.
    sys.exit(0)

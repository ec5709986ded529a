"""The command line of run: which program, and on what."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .arguments import add_simulate, add_target
from .arguments import parse as parse_target

if TYPE_CHECKING:
    from collections.abc import Sequence

_DESCRIPTION = """\
Run a PyTorch program as it is: `import torch` in it, and in the processes that it starts, gives graphroot's tensors.
With --simulate it needs no GPU, and what is wrong with its use of streams is told at the end. Options come before the
script; what comes after it belongs to the script.
"""


@dataclass(slots=True, frozen=True)
class Options:
    """What the command line says.

    Attributes
    ----------
    target : tuple of str
        The script or module, and its arguments.
    module : bool
        Whether it is a module.
    simulate : str or None
        Options of the simulated driver that is asked for, or ``None`` where the script and its environment decide.
    """

    target: tuple[str, ...]
    module: bool
    simulate: str | None
    memcheck: bool
    as_torch: bool


def parser(prog: str) -> argparse.ArgumentParser:
    """The options, and what they mean, of the command that is called ``prog``."""
    result = argparse.ArgumentParser(
        prog=prog,
        usage=f"{prog} [options] (script.py | -m module) [arguments]",
        description=_DESCRIPTION,
        allow_abbrev=False,
    )
    add_simulate(result)
    result.add_argument(
        "--memcheck",
        action="store_true",
        help="look for mistakes with GPU memory, too: `graphroot memcheck` with its usual options",
    )
    result.add_argument(
        "--as-torch",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="let `import torch` be graphroot (default: yes)",
    )
    add_target(result)
    return result


def parse(arguments: Sequence[str], prog: str) -> Options:
    """Options from the command line; ends the program with status 2 and a message where it is wrong."""
    parsed, target = parse_target(parser(prog), arguments)
    return Options(
        target=target,
        module=parsed.module is not None,
        simulate=parsed.simulate,
        memcheck=parsed.memcheck,
        as_torch=parsed.as_torch,
    )

"""The command line: what to check, how, and what to run."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tools.run.arguments import add_simulate, add_target
from tools.run.arguments import parse as parse_target

from .kinds import Explain

if TYPE_CHECKING:
    from collections.abc import Sequence

_DESCRIPTION = """\
Run a script and report its mistakes with GPU memory: accesses outside an allocation, uses of freed memory, reads of
memory never written, races between streams, misaligned accesses, leaks. Options come before the script; what comes
after it belongs to the script.
"""
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@dataclass(slots=True, frozen=True)
class Options:
    """What the command line says. Sizes are in bytes.

    Attributes
    ----------
    simulate : str or None
        Options of the simulated driver that is asked for, or ``None`` where the script and its environment decide.
    target : tuple of str
        The script or module, and its arguments.
    """

    target: tuple[str, ...]
    module: bool = False
    simulate: str | None = None
    schedule: str | None = None
    leak_check: bool = True
    red_zone: int = 512
    quarantine: int = 256 << 20
    max_reports: int = 50
    error_exitcode: int = 86
    json: Path | None = None
    sanitizer: bool = False
    as_torch: bool = False


def parser(prog: str) -> argparse.ArgumentParser:
    """The options, and what they mean, of the command that is called ``prog``."""
    result = argparse.ArgumentParser(
        prog=prog,
        usage=f"{prog} [options] (script.py | -m module) [arguments]",
        description=_DESCRIPTION,
        allow_abbrev=False,
    )
    add = result.add_argument
    add_simulate(result)
    add(
        "--as-torch",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="let `import torch` be graphroot, as `graphroot run` does (default: no)",
    )
    add(
        "--schedule",
        choices=("eager", "lazy", "random"),
        help="when a simulated GPU runs queued work (default: eager, or what the script says)",
    )
    add(
        "--leak-check",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="report memory that is still allocated when the script is gone (default: yes)",
    )
    add("--red-zone", type=_size, default=512, metavar="BYTES", help="on each side of an allocation (512)")
    add(
        "--quarantine",
        type=_size,
        default=256 << 20,
        metavar="BYTES",
        help="freed memory that is kept from reuse on each GPU (256m)",
    )
    add("--max-reports", type=_count, default=50, metavar="N", help="how many findings are told in full (50)")
    add(
        "--error-exitcode",
        type=_status,
        default=86,
        metavar="N",
        help="exit status when something was found (86)",
    )
    add("--json", type=Path, metavar="FILE", help="where to write the findings for programs")
    add("--explain", action=Explain, metavar="KIND", help="say what a kind of finding means, and exit")
    add(
        "--sanitizer",
        action="store_true",
        help="run under NVIDIA's compute-sanitizer, which has to be installed, on a GPU",
    )
    add_target(result)
    return result


def parse(arguments: Sequence[str], prog: str = "python -m tools.memcheck") -> Options:
    """Options from the command line; ends the program with status 2 and a message where it is wrong."""
    options = parser(prog)
    parsed, target = parse_target(options, arguments)
    if parsed.sanitizer and (parsed.simulate is not None or parsed.schedule is not None):
        options.error("--sanitizer runs on a GPU: leave out --simulate and --schedule")
    return Options(
        target=target,
        module=parsed.module is not None,
        simulate=parsed.simulate,
        schedule=parsed.schedule,
        leak_check=parsed.leak_check,
        red_zone=parsed.red_zone,
        quarantine=parsed.quarantine,
        max_reports=parsed.max_reports,
        error_exitcode=parsed.error_exitcode,
        json=parsed.json,
        sanitizer=parsed.sanitizer,
        as_torch=parsed.as_torch,
    )


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+)([kmg]?)(?:i?b)?", text.strip().lower())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes, such as 4096, 64k or 1g")
    return int(match[1]) * _UNITS[match[2]]


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(text)


def _status(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 255:
        raise argparse.ArgumentTypeError(f"{text!r} is not an exit status from 1 to 255")
    return int(text)

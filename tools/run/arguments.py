"""The part of command lines that names what to run, and on what: shared by the tools that run programs."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drv.simulator.device_models import MODELS
from drv.simulator.options import (
    CHECKS,
    DEFAULTS,
    SAME_VALUES,
    SCHEDULES,
    OptionError,
    parse_options,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


#: The words that options of the simulator take, and those that take numbers.
_WORDS: dict[str, tuple[str, ...]] = {
    "model": tuple(MODELS),
    "schedule": SCHEDULES,
    "check": CHECKS,
    "same_values": SAME_VALUES,
    "execute": ("on", "off"),
    "cudnn": ("on", "off"),
}


def add_simulate(parser: argparse.ArgumentParser) -> None:
    """Give ``parser`` the option ``--simulate``."""
    action: Any = parser.add_argument(
        "--simulate",
        nargs="?",
        const="",
        metavar="OPTIONS",
        help="run on a simulated GPU; OPTIONS as in GRAPHROOT_SIMULATOR, such as devices=2,memory=1GiB",
    )
    # What argcomplete asks where a shell completes the value.
    action.completer = simulator_completions


def simulator_completions(prefix: str, **more: object) -> list[str]:
    """What options of the simulator ``prefix``, which may end in the middle of one, can become."""
    before, comma, _ = prefix.rpartition(",")
    taken = {part.partition("=")[0] for part in before.split(",")}
    return [
        f"{before}{comma}{name}={word}"
        for name in DEFAULTS
        if name not in taken
        for word in _WORDS.get(name, ("",))
    ]


def add_target(parser: argparse.ArgumentParser) -> None:
    """Give ``parser`` what to run: a script, or ``-m`` and a module, and the arguments of either."""
    parser.add_argument(
        "-m", dest="module", nargs=argparse.REMAINDER, help="run a module as `python -m` does"
    )
    parser.add_argument("script", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def parse(
    parser: argparse.ArgumentParser, arguments: Sequence[str]
) -> tuple[argparse.Namespace, tuple[str, ...]]:
    """Options, and what to run with its arguments; ends the program with status 2 and a message where they are wrong."""
    parsed = parser.parse_args(with_values(parser, arguments))
    target = parsed.script if parsed.module is None else parsed.module
    if not target or (parsed.module is None and target[0].startswith("-")):
        parser.error(f"expected a script to run: {parser.usage}")
    check_simulate(parser, parsed)
    return parsed, tuple(target)


def check_simulate(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> None:
    """End the program with status 2 and a message where options of the simulator are wrong."""
    try:
        parse_options(parsed.simulate or "")
    except OptionError as error:
        parser.error(f"--simulate: {error}")


def simulate(options: str) -> None:
    """Let this process and its children run on a simulated GPU, with ``options`` after those of the environment."""
    inherited = os.environ.get("GRAPHROOT_SIMULATOR", "")
    os.environ["GRAPHROOT_DRIVER"] = "simulator"
    os.environ["GRAPHROOT_SIMULATOR"] = ",".join(filter(None, (inherited, options)))


def with_values(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> list[str]:
    """Arguments with ``--simulate`` and its optional value joined, so that a script after it is no value."""
    takes_value = {
        text for action in parser._actions if action.nargs is None for text in action.option_strings
    }
    result = list(arguments)
    at = 0
    while at < len(result) and result[at].startswith("-") and result[at] not in ("-m", "--"):
        if result[at] == "--simulate":
            value = result[at + 1] if at + 1 < len(result) else ""
            if re.match(r"\w+=", value) and not Path(value).exists():
                result[at : at + 2] = [f"--simulate={value}"]
            else:
                result[at] = "--simulate="
        at += 2 if result[at] in takes_value else 1
    return result

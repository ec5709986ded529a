"""Running one suite of benchmarks: ``graphroot bench``, or ``python -m tools.bench``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphroot.coexistence import own

from . import report
from .options import parser

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None, prog: str = "python -m tools.bench") -> int:
    """Run one suite, print its table and write the JSON file.

    Parameters
    ----------
    arguments : sequence of str, optional
        ``SUITE [--json FILE] [--only TEXT]`` and the options of the suite; those of this process by default.
    prog : str, default: "python -m tools.bench"
        What the tool is called in messages.

    Returns
    -------
    int
        0.

    Raises
    ------
    SystemExit
        With status 2, for an unknown suite or option, and with 0 after ``--help``.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    # Help of a suite is the suite's.
    helped = [word for word in words if word in ("-h", "--help")] if words[:1] and words[0][0] != "-" else []
    parsed, rest = parser(prog).parse_known_args([word for word in words if word not in helped])
    suite: Any = own(f"tools.bench.suites.{parsed.suite}")
    options = argparse.ArgumentParser(prog=f"{prog} {parsed.suite}", description=suite.__doc__)
    if hasattr(suite, "add_options"):
        suite.add_options(options)
    rows = list(suite.rows(parsed.only, options.parse_args([*rest, *helped])))
    print(report.table(rows))
    path = parsed.json or Path("runs/bench") / f"{parsed.suite}.json"
    report.write_json(path, parsed.suite, rows)
    print(f"\nwritten to {path}")
    return 0

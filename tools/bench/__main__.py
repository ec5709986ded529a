"""Command line of the benchmarks."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from . import report, suites


def main() -> None:
    """Run one suite, print its table and write the JSON file.

    The command line is that of the process: ``python -m tools.bench SUITE [--json FILE] [--only TEXT]``, and the
    options of the suite. Raises SystemExit with status 2 for an unknown suite or option.
    """
    names = sorted(module.name for module in iter_modules(suites.__path__))
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument("suite", choices=names)
    parser.add_argument(
        "--json", type=Path, help="where to write the figures (default: runs/bench/SUITE.json)"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="only rows whose name contains TEXT")
    arguments, rest = parser.parse_known_args()
    suite = import_module(f"tools.bench.suites.{arguments.suite}")
    options = argparse.ArgumentParser(
        prog=f"python -m tools.bench {arguments.suite}", description=suite.__doc__
    )
    if hasattr(suite, "add_options"):
        suite.add_options(options)
    rows = list(suite.rows(arguments.only, options.parse_args(rest)))
    print(report.table(rows))
    path = arguments.json or Path("runs/bench") / f"{arguments.suite}.json"
    report.write_json(path, arguments.suite, rows)
    print(f"\nwritten to {path}")


if __name__ == "__main__":
    main()

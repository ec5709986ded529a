"""The command line of the benchmarks: which suite, and which rows of it."""

from __future__ import annotations

import argparse
from pathlib import Path
from pkgutil import iter_modules

_SUITES = Path(__file__).parent / "suites"
_DESCRIPTION = """\
Measure this project, and beside it PyTorch and CuPy where they are installed: run one suite, print its table, and write
the same as JSON.
"""


def parser(prog: str) -> argparse.ArgumentParser:
    """The options that all suites have, of the command that is called ``prog``."""
    result = argparse.ArgumentParser(prog=prog, description=_DESCRIPTION)
    result.add_argument("suite", choices=sorted(module.name for module in iter_modules([str(_SUITES)])))
    result.add_argument(
        "--json", type=Path, help="where to write the figures (default: runs/bench/SUITE.json)"
    )
    result.add_argument("--only", default="", metavar="TEXT", help="only rows whose name contains TEXT")
    return result

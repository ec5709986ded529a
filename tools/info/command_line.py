"""Telling the facts: ``graphroot info``, or ``python -m tools.info``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from .facts import facts
from .options import parser
from .report import as_text

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None, prog: str = "python -m tools.info") -> int:
    """Print what graphroot runs on, and return 0.

    Parameters
    ----------
    arguments : sequence of str, optional
        What stands behind the name of the tool; that of this process by default. ``--help`` lists the options.
    prog : str, default: "python -m tools.info"
        What the tool is called in messages.

    Returns
    -------
    int
        0, also where there is no driver.

    Raises
    ------
    SystemExit
        With status 2, if an option is unknown, and with 0 after ``--help``.
    """
    options = parser(prog).parse_args(sys.argv[1:] if arguments is None else arguments)
    told = facts()
    print(json.dumps(told, indent=2) if options.json else as_text(told))
    return 0

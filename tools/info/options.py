"""The command line of info."""

from __future__ import annotations

import argparse

_DESCRIPTION = """\
Tell the driver and its devices, or why there is none, versions of packages, libraries, settings, and the cache of
compiled kernels. Nothing is sent anywhere.
"""


def parser(prog: str) -> argparse.ArgumentParser:
    """The options of the command that is called ``prog``."""
    result = argparse.ArgumentParser(prog=prog, description=_DESCRIPTION)
    result.add_argument("--json", action="store_true", help="as JSON, for programs")
    return result

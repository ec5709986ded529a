"""Command line: write the stubs, or say with ``--check`` which are not current."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .generate import stubs

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Write every stub that differs from what the definitions say; with ``--check``, exit with 1 if there is one.

    The command line is that of the process. Raises SystemExit with status 2 for an unknown option.
    """
    parser = argparse.ArgumentParser(prog="python -m tools.stubs", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if a stub is not current"
    )
    check = parser.parse_args().check
    stale = []
    for name, text in stubs().items():
        path = ROOT / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"{name} {'is not current: run python -m tools.stubs' if check else 'written'}")
    sys.exit(bool(check and stale))


if __name__ == "__main__":
    main()

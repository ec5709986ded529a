"""Make pictures of the gallery afresh: all, or those whose names are given."""

from __future__ import annotations

import argparse
import subprocess
import sys

from . import pictures


def main() -> None:
    """Run the programs, each in a process of its own, and write the pictures."""
    parser = argparse.ArgumentParser(prog="python -m docs.gallery", description=__doc__)
    parser.add_argument("name", nargs="*", choices=[*pictures.PICTURES, []], help="pictures (default: all)")
    names = parser.parse_args().name or list(pictures.PICTURES)
    if len(names) > 1:
        # A simulated GPU is installed once in a process.
        for name in names:
            subprocess.run([sys.executable, "-m", "docs.gallery", name], check=True)
        return
    print(f"written to {pictures.write(names[0])}")


if __name__ == "__main__":
    main()

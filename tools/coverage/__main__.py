"""Which public names of an installed PyTorch are here, left out on purpose, planned, or missing."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .comparison import compare
from .public_names import NAMESPACES, PyTorchNotInstalledError
from .report import as_markdown, as_text, missing_text

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coverage.md"


def main() -> None:
    """Print the counts of each namespace and what is not here; ``--missing`` prints names without a word alone.

    The command line is that of the process: ``python -m tools.coverage [NAMESPACE ...] [--missing] [--markdown [FILE]]``.
    Raises SystemExit with status 2 for an unknown option or namespace, and with 1 where PyTorch is not installed, saying
    what to install.
    """
    parser = argparse.ArgumentParser(prog="python -m tools.coverage", description=__doc__)
    parser.add_argument(
        "namespaces",
        nargs="*",
        metavar="NAMESPACE",
        help="as torch.nn or nn; without any, all of them",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--missing", action="store_true", help="only the names that are missing without a word")
    form.add_argument(
        "--markdown",
        type=Path,
        nargs="?",
        const=PAGE,
        metavar="FILE",
        help=f"write the page of the documentation (default: {PAGE.name} in docs)",
    )
    arguments = parser.parse_args()
    chosen = [_full(name) for name in arguments.namespaces]
    unknown = [name for name in chosen if name not in NAMESPACES]
    if unknown:
        parser.error(f"{', '.join(unknown)}: no namespace that is compared; they are {', '.join(NAMESPACES)}")
    try:
        compared = compare(chosen or NAMESPACES)
    except PyTorchNotInstalledError as error:
        sys.exit(str(error))
    if arguments.markdown is not None:
        arguments.markdown.write_text(as_markdown(compared), encoding="utf-8")
        print(f"written to {arguments.markdown}")
    else:
        print(missing_text(compared) if arguments.missing else as_text(compared), end="")


def _full(name: str) -> str:
    return name if name.split(".")[0] == "torch" else f"torch.{name}"


if __name__ == "__main__":
    main()

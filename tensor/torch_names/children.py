"""The environment by which processes that a program starts have the import hook, too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The folder in which processes find ``torch``, and its version.
SEARCH_PATH = Path(__file__).resolve().parent / "search_path"


def search_path(environment: Mapping[str, str]) -> str:
    """``PYTHONPATH`` of ``environment`` with the folder in front by which processes have the hook, once."""
    present = environment.get("PYTHONPATH")
    # Empty entries mean the current folder, and stay.
    others = (
        [] if not present else [entry for entry in present.split(os.pathsep) if entry != str(SEARCH_PATH)]
    )
    return os.pathsep.join([str(SEARCH_PATH), *others])

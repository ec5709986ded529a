"""The pictures of the gallery by their names, and where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import losses, memory, overlap, race, scaling, spectrum, streams

FOLDER = Path(__file__).resolve().parents[1] / "pictures"
PICTURES: dict[str, Any] = {
    "losses.svg": losses,
    "memory.svg": memory,
    "overlap.svg": overlap,
    "race.svg": race,
    "scaling.svg": scaling,
    "spectrum.jpg": spectrum,
    "streams.svg": streams,
}


def write(name: str) -> Path:
    """Run the program of a picture, and write the picture."""
    FOLDER.mkdir(exist_ok=True)
    path, module = FOLDER / name, PICTURES[name]
    if path.suffix == ".jpg":
        module.write(path)
    else:
        path.write_text(module.draw(module.measure()).svg(), encoding="utf-8")
    return path

"""The table that people read and the JSON that programs read, from the same rows."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from .measure import OURS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .measure import Row

PACKAGES = ("graphroot", "cuda-bindings", "nvidia-cuda-nvrtc", "numpy", "torch", "cupy-cuda13x")


def number(value: float) -> str:
    """``value`` with three significant digits and thousands separated."""
    if value >= 1e6:
        return f"{value:.3g}"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def table(rows: Sequence[Row]) -> str:
    """Markdown table of ``rows``: a column per contender, the ratio of each peer to this project."""
    contenders = [OURS, *dict.fromkeys(name for row in rows for name in row.values if name != OURS)]
    peers = contenders[1:]
    header = ["row", "unit", *contenders, *(f"vs {peer}" for peer in peers), "reach", "note"]
    lines = [header]
    for row in rows:
        cells = [row.name, row.unit]
        cells += [number(row.values[name]) if name in row.values else "" for name in contenders]
        for peer in peers:
            both = peer in row.values and OURS in row.values
            cells.append(f"{row.values[OURS] / row.values[peer]:.2f}x" if both and row.values[peer] else "")
        sign = "<=" if row.better == "lower" else ">="
        verdict = {True: " ok", False: " MISSED", None: ""}[row.reached]
        cells.append("" if row.reach is None else f"{sign} {number(row.reach)}{verdict}")
        cells.append(row.note)
        lines.append(cells)
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    drawn = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    drawn.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(drawn)


def machine() -> dict[str, object]:
    """What the figures were measured on: processor, cores, Python and package versions, the time."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def write_json(path: Path, suite: str, rows: Sequence[Row]) -> None:
    """Write ``rows`` and the machine's description to ``path``."""
    document = {
        "suite": suite,
        "machine": machine(),
        "rows": [
            {
                "name": row.name,
                "unit": row.unit,
                "values": dict(row.values),
                "better": row.better,
                "reach": row.reach,
                "reached": row.reached,
                "note": row.note,
                **row.details,
            }
            for row in rows
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")

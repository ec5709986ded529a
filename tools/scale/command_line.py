"""The command line of ``python -m tools.scale``: what to predict, and a table, JSON or a picture of it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import tensor

from .jobs import job_of
from .network import Network
from .options import parser
from .picture import picture
from .prediction import predict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .jobs import Job
    from .prediction import Row

_COLUMNS = ("devices", "step ms", "compute", "exposed", "idle", "communication", "GB", "efficiency")


def main(arguments: Sequence[str] | None = None, prog: str = "python -m tools.scale") -> int:
    """Predict what a command line asks for, print it, and return 0.

    Parameters
    ----------
    arguments : sequence of str, optional
        What stands behind the name of the tool; that of this process by default. ``--help`` lists the options.
    prog : str, default: "python -m tools.scale"
        What the tool is called in messages.

    Returns
    -------
    int
        0.

    Raises
    ------
    SystemExit
        With status 2, if an option is unknown or has an impossible value, or this machine has too little memory, and with 0
        after ``--help``.
    """
    described = parser(prog)
    options = described.parse_args(sys.argv[1:] if arguments is None else arguments)
    try:
        counts = _counts(options.devices)
        job, network = job_of(options.model), Network.parse(options.network)
        dtype = None if options.dtype == "float32" else getattr(tensor, options.dtype)
        rows = predict(job, options.strategy, counts, network, options.gpu, dtype)
    except (ValueError, MemoryError) as error:
        described.error(str(error))
    if options.plot is not None:
        title = f"{job.name}, {options.strategy}, {options.gpu}, {network.name}"
        Path(options.plot).write_text(picture(rows, title), encoding="utf-8")
    if options.json:
        print(json.dumps([asdict(each) for each in rows], indent=2))
    else:
        print(table(job, rows))
    return 0


def _counts(text: str) -> list[int]:
    counts = text.split(",")
    if not all(each.isdecimal() for each in counts):
        raise ValueError(f"--devices must be numbers with commas between them, as 8,64, not {text!r}")
    return [int(each) for each in counts]


def table(job: Job, rows: Sequence[Row]) -> str:
    """Rows as text: milliseconds of a step and its parts, memory of a rank, and where it is known TFLOP/s of a device."""
    lines = [[*_COLUMNS, *(["TFLOP/s"] if job.flops else [])]]
    for each in rows:
        times = (each.step_ms, each.compute_ms, each.exposed_ms, each.idle_ms, each.communication_ms)
        cells = [
            f"{each.devices:,}",
            *(f"{time:,.2f}" for time in times),
            f"{each.memory_bytes / 1e9:.2f}{'' if each.fits else ' (!)'}",
            f"{each.efficiency:.1%}",
        ]
        if job.flops:
            cells.append(f"{job.flops / each.step_ms / 1e9:.1f}")
        lines.append(cells)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    if not all(each.fits for each in rows):
        text.append("(!) more than a device has")
    return "\n".join(text)

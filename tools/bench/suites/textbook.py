"""Published ratios of the textbook series beside modelled ones, on simulated GPUs: the validation of ``docs/model.md``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import drv
from tools.bench.measure import OURS, Row
from tools.bench.textbook import SERIES, modelled

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from tools.bench.textbook import Series


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the suite."""
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="where to write the table of the documentation"
    )


def rows(only: str, options: argparse.Namespace) -> Iterator[Row]:
    """The series whose name contains ``only``: time over that of the first kernel."""
    drv.reset()
    lines: list[str] = []
    for series in SERIES:
        if only not in series.name:
            continue
        for row in _of(series):
            lines.append(_line(series, row))
            yield row
    if options.markdown is not None:
        options.markdown.write_text("\n".join([*_HEAD, *lines]) + "\n", encoding="utf-8")


_HEAD = (
    "| series | kernel | published | modelled | modelled us | bound by |",
    "|---|---|---|---|---|---|",
)


def _of(series: Series) -> Iterator[Row]:
    first = 0.0
    for step, operation in modelled(series):
        first = first or operation.seconds
        ratio = operation.seconds / first
        values = {OURS: ratio} if step.published is None else {OURS: ratio, "published": step.published}
        details = {
            "label": step.label,
            "us": operation.seconds * 1e6,
            "bound": operation.bound,
            "model": series.model,
            "source": series.source,
        }
        note = f"{operation.seconds * 1e6:,.1f} us on {series.model}, bound by {operation.bound}"
        yield Row(f"{series.name}: {step.label}", "x", values, note=note, details=details)


def _line(series: Series, row: Row) -> str:
    published = f"{row.values['published']:.3g}" if "published" in row.values else ""
    details = row.details
    return (
        f"| {series.name} ({series.model}) | {details['label']} | {published} | {row.values[OURS]:.3g} "
        f"| {float(str(details['us'])):,.1f} | {details['bound']} |"
    )

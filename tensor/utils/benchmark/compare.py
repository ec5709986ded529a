"""``Compare``: measurements side by side in a table."""

from __future__ import annotations

import math
from enum import Enum
from itertools import groupby
from typing import TYPE_CHECKING, Any

from .measurement import Measurement, ordered_unique, select_unit, trim_sigfig, unit_to_english

if TYPE_CHECKING:
    from collections.abc import Iterable

_BOLD, _END = "\033[1m", "\033[0m"
#: Colours by how many times the best a value is: at most the first two, at least the last two.
_BEST, _GOOD, _BAD, _WORST = "\033[92m", "\033[34m", "\033[2m\033[91m", "\033[31m"
#: Seconds by which nothing differs.
_SAME = 100e-9


class Colorize(Enum):
    """Among which values of a table the best one is looked for.

    ``NONE``: no colours; ``COLUMNWISE``, ``ROWWISE``: the best of its column, or of its row.
    """

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """Tables of measurements: one for each label, rows by sub-label, columns by description.

    Parameters
    ----------
    results : list of Measurement
        Those of one task are merged.

    Raises
    ------
    ValueError
        If one is no :class:`Measurement`.
    """

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self._trims = False
        self._warns = False
        self._colorize = Colorize.NONE
        self.extend_results(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add further measurements.

        Raises
        ------
        ValueError
            If one of the ``results`` is no :class:`Measurement`; nothing is added then.
        """
        added = list(results)
        for each in added:
            if not isinstance(each, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(each)} instead.")
        self._results += added

    def trim_significant_figures(self) -> None:
        """Show as many digits as the measurements support."""
        self._trims = True

    def highlight_warnings(self) -> None:
        """Show the interquartile range beside medians of unsteady measurements."""
        self._warns = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colour values by how they compare with the best of their column, or of their row if ``rowwise``.

        The colours are those of a terminal, and are part of what :meth:`print` prints.
        """
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def print(self) -> None:
        """Print the tables."""
        print(str(self))

    def __str__(self) -> str:
        labels: dict[Any, list[Measurement]] = {}
        for each in Measurement.merge(self._results):
            labels.setdefault(each.task_spec.label, []).append(each)
        return "\n".join(self._table(label, group) for label, group in labels.items())

    def _table(self, label: str | None, results: list[Measurement]) -> str:
        unit, scale = select_unit(min(each.median for each in results))
        columns = ordered_unique(each.task_spec.description for each in results)
        # Statements keep their order among the same numbers of threads.
        keys = sorted(ordered_unique(_row_of(each) for each in results), key=lambda key: key[:2])
        cells = {(_row_of(each), each.task_spec.description): each for each in results}
        texts = [
            _Column([cells.get((key, each)) for key in keys], scale, self._trims, self._warns)
            for each in columns
        ]
        names = self._row_names(keys)
        widths = [max(map(len, names))]
        widths += [
            max(len(str(each or "")), *map(len, column.texts))
            for each, column in zip(columns, texts, strict=True)
        ]
        header = [" " * widths[0], *(str(each or "") for each in columns)]
        lines = ["  |  ".join(text.center(width) for text, width in zip(header, widths, strict=True))]
        overall = len(lines[0])
        for threads, group in groupby(range(len(keys)), key=lambda row: keys[row][0]):
            rows = list(group)
            lines.append(f"{threads} threads: ".ljust(overall, "-"))
            for row in rows:
                line = [names[row].ljust(widths[0])]
                for column, width in zip(texts, widths[1:], strict=True):
                    compared = [column.results[each] for each in rows]
                    if self._colorize is Colorize.ROWWISE:
                        compared = [each.results[row] for each in texts]
                    line.append(self._colored(column.texts[row].center(width), column.results[row], compared))
                lines.append("  |  ".join(line))
        title = f" {label or ''} ".center(overall - 2, "-")
        notes = [f"Times are in {unit_to_english(unit)}s ({unit})."]
        if self._warns and any(each.has_warnings for each in results):
            notes.append("(! XX%) Measurement has high variance, where XX is the IQR / median * 100.")
        return "\n".join([f"[{title}]", *lines, "", *notes, ""])

    def _row_names(self, keys: list[tuple[int, str, str]]) -> list[str]:
        environments = {key[1] for key in keys}
        if len(environments) == 1:
            return [f"      {name}" for _, _, name in keys]
        width = max(map(len, environments)) + 4
        names, before = [], None
        for threads, environment, name in keys:
            shown = "" if (threads, environment) == before else f"({environment})"
            names.append(f"  {shown.ljust(width)}{name}")
            before = threads, environment
        return names

    def _colored(self, text: str, result: Measurement | None, compared: list[Measurement | None]) -> str:
        if self._colorize is Colorize.NONE or result is None:
            return text
        best = min(each.median for each in compared if each is not None)
        value = result.median
        if value <= max(best * 1.01, best + _SAME):
            return f"{_BEST}{_BOLD}{text}{_END}{_END}"
        if value <= best * 1.1:
            return f"{_GOOD}{_BOLD}{text}{_END}{_END}"
        if value >= best * 5:
            return f"{_WORST}{_BOLD}{text}{_END}{_END}"
        return f"{_BAD}{text}{_END}{_END}" if value >= best * 2 else text


class _Column:
    """The texts of one column, all of one width."""

    def __init__(self, results: list[Measurement | None], scale: float, trims: bool, warns: bool) -> None:
        self.results = results
        present = [each for each in results if each is not None]
        digits = {id(each): math.ceil(math.log10(each.median / scale)) for each in present}
        decimals = 1
        if trims:
            decimals = min(max(each.significant_figures - digits[id(each)], 0) for each in present)
        width = max(digits.values()) + decimals + (1 if decimals else 0)
        notes = 7 if warns and any(each.has_warnings for each in present) else 0
        self.texts = []
        for each in results:
            if each is None:
                self.texts.append(" " * (width + notes))
                continue
            value = each.median / scale
            if trims:
                value = trim_sigfig(value, each.significant_figures)
            note = f" (! {each.iqr / each.median * 100:.0f}%)" if notes and each.has_warnings else ""
            self.texts.append(
                f"{value:>{width}.{decimals}f}{note:>{notes}}" if notes else f"{value:>{width}.{decimals}f}"
            )


def _row_of(each: Measurement) -> tuple[int, str, str]:
    task = each.task_spec
    return task.num_threads, "Unspecified env" if task.env is None else task.env, each.as_row_name

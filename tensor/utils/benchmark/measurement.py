"""What a timer measured, with its statistics; and units of time."""

from __future__ import annotations

import math
import textwrap
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.core.modes.threads import get_num_threads, set_num_threads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Interquartile ranges, relative to the median, from which on a measurement is called unsteady, and disturbed.
_UNSTEADY, _DISTURBED = 0.1, 0.25
#: Seconds below which no confidence interval is believed, and the most digits that are.
_LEAST_INTERVAL, _MOST_DIGITS = 25e-9, 4
#: Quantile of the normal distribution for a 90 % interval.
_Z = 1.645
_UNITS = {
    "ns": (1e-9, "nanosecond"),
    "us": (1e-6, "microsecond"),
    "ms": (1e-3, "millisecond"),
    "s": (1.0, "second"),
}


@dataclass(frozen=True, repr=False)
class TaskSpec:
    """What was timed, without its globals.

    Parameters
    ----------
    stmt, setup : str
        The statement, and what runs once before it.
    global_setup : str
        Unused; PyTorch has it for C++.
    label, sub_label, description, env : str, optional
        Names in tables: of the table, the row, the column, and the environment.
    num_threads : int
        Threads of operations on the CPU.
    """

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label and the sub-label; the statement where there is no label."""
        if self.label is None and "\n" in self.stmt:
            of = f" ({self.sub_label})" if self.sub_label else ""
            return f"stmt:{of}\n{textwrap.indent(self.stmt, '  ')}"
        name = self.stmt if self.label is None else self.label
        return f"{name}: {self.sub_label}" if self.sub_label else name

    def setup_str(self) -> str:
        """The setup as lines of text; nothing where there is none."""
        if self.setup in ("", "pass"):
            return ""
        return (
            f"setup:\n{textwrap.indent(self.setup, '  ')}" if "\n" in self.setup else f"setup: {self.setup}"
        )

    def summarize(self) -> str:
        """Title, description and setup as lines of text."""
        parts = [part for part in (self.title, self.description or "", self.setup_str()) if part]
        return "\n".join(f"{part}\n" if "\n" in part else part for part in parts)


_OF_TASK = frozenset(each.name for each in fields(TaskSpec))


@dataclass(repr=False)
class Measurement:
    """Times of a statement. All times are in seconds; statistics are of one execution of the statement.

    The fields of ``task_spec`` (``label``, ``num_threads``, ...) are attributes of the measurement too.

    Parameters
    ----------
    number_per_run : int
        Executions that each time is of.
    raw_times : list of float
        The times.
    task_spec : TaskSpec
        What was timed.
    metadata : dict, optional
        What the program wants to keep with it.
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in _OF_TASK:
            return getattr(self.task_spec, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    @property
    def times(self) -> list[float]:
        """Seconds of one execution, for each time that was taken."""
        return [each / self.number_per_run for each in self.raw_times]

    @cached_property
    def _quartiles(self) -> tuple[float, float, float]:
        if not self.raw_times:
            return -1.0, -1.0, -1.0
        first, median, third = np.quantile(np.array(self.times), (0.25, 0.5, 0.75))
        return float(first), float(median), float(third)

    @property
    def median(self) -> float:
        """Median of the times; -1 where there are none."""
        return self._quartiles[1]

    @property
    def mean(self) -> float:
        """Mean of the times; -1 where there are none."""
        return float(np.mean(self.times)) if self.raw_times else -1.0

    @property
    def iqr(self) -> float:
        """Interquartile range of the times."""
        return self._quartiles[2] - self._quartiles[0]

    @property
    def significant_figures(self) -> int:
        """Digits of the median, from 1 to 4, that a 90 % confidence interval of the middle half supports."""
        ordered = sorted(self.times)
        middle = ordered[len(ordered) // 4 : math.ceil(3 * len(ordered) / 4)]
        interval = max(_Z * float(np.std(middle)) / math.sqrt(len(middle)), _LEAST_INTERVAL)
        return min(max(math.floor(math.log10(self.median / interval)), 1), _MOST_DIGITS)

    def meets_confidence(self, threshold: float = _UNSTEADY) -> bool:
        """Whether the interquartile range is less than ``threshold`` of the median.

        The interquartile range of a single time is 0, so that it always meets it.
        """
        return self.iqr / self.median < threshold

    @property
    def has_warnings(self) -> bool:
        """Whether times differ by more than a steady machine explains."""
        return bool(self._warning)

    @property
    def _warning(self) -> str:
        if not self.raw_times or self.meets_confidence(_UNSTEADY):
            return ""
        cause = (
            "This could indicate system fluctuation."
            if self.meets_confidence(_DISTURBED)
            else "This suggests significant environmental influence."
        )
        part = 100 * self.iqr / self.median
        return f"  WARNING: Interquartile range is {part:.1f}% of the median measurement.\n           {cause}"

    @property
    def title(self) -> str:
        """That of the task."""
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        """The name of its row in a table: the sub-label, or the statement."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        first, median, third = (each / scale for each in self._quartiles)
        count, threads = len(self.raw_times), self.task_spec.num_threads
        several = count > 1
        lines = [object.__repr__(self), self.task_spec.summarize()]
        lines.append(f"  {'Median: ' if several else ''}{median:.2f} {unit}")
        if count >= 4:
            lines.append(f"  IQR:    {third - first:.2f} {unit} ({first:.2f} to {third:.2f})")
        lines.append(
            f"  {count} measurement{'s' if several else ''}, {self.number_per_run} runs "
            f"{'per measurement,' if several else ','} {threads} thread{'s' if threads > 1 else ''}"
        )
        return "\n".join([*lines, self._warning] if self._warning else lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One measurement for each task, with the times of all of it, as of one execution each; without metadata.

        Parameters
        ----------
        measurements : iterable of Measurement
            In any order.
        """
        times: dict[TaskSpec, list[float]] = {}
        for each in measurements:
            times.setdefault(each.task_spec, []).extend(each.times)
        return [Measurement(1, values, task) for task, values in times.items()]


def select_unit(t: float) -> tuple[str, float]:
    """Unit and its length in seconds in which ``t`` seconds are 1 or more, if any does: ``("us", 1e-06)``.

    Units are ``"ns"``, ``"us"``, ``"ms"`` and ``"s"``.

    Examples
    --------
    >>> select_unit(0.002)
    ('ms', 0.001)
    """
    for unit, (scale, _) in reversed(_UNITS.items()):
        if t >= scale:
            return unit, scale
    return "ns", 1e-9


def unit_to_english(u: str) -> str:
    """The name of the unit ``u``: ``"microsecond"`` for ``"us"``.

    Raises KeyError for anything but ``"ns"``, ``"us"``, ``"ms"`` and ``"s"``.
    """
    return _UNITS[u][1]


def trim_sigfig(x: float, n: int) -> float:
    """``x`` rounded to ``n`` significant digits.

    >>> tensor.utils.benchmark.trim_sigfig(1234.5, 2)
    1200.0
    """
    if x == 0:
        return 0.0
    scale = 10 ** (math.floor(math.log10(abs(x))) + 1 - n)
    return float(round(x / scale) * scale) if scale >= 1 else round(x, -round(math.log10(scale)))


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """The ``elements``, each once, in the order in which they come first.

    They must be hashable; TypeError is raised otherwise.
    """
    return list(dict.fromkeys(elements))


@contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Let operations on the CPU use ``n`` threads inside ``with``.

    The number of before is set again afterwards. Raises as :func:`tensor.set_num_threads`.
    """
    before = get_num_threads()
    set_num_threads(n)
    try:
        yield
    finally:
        set_num_threads(before)

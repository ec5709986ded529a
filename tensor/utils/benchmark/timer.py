"""``Timer``: how long a statement takes, with the device waited for."""

from __future__ import annotations

import sys
import textwrap
import timeit
from enum import IntEnum
from statistics import median
from typing import TYPE_CHECKING, Any

import drv
from tensor import cuda

from .measurement import Measurement, TaskSpec, set_torch_threads

if TYPE_CHECKING:
    from collections.abc import Callable

#: No statement takes less: two readings of the clock may agree.
_LEAST = 1e-9
#: Part of a block's time that reading the clock, and waiting for the device, may take.
_OVERHEAD = 1e-4
_MOST_RUNS = 2**31 - 1


class Language(IntEnum):
    """Languages of statements; those in C++ are refused.

    ``PYTHON`` is 0, ``CPP`` 1. :class:`Timer` raises ValueError for the latter.
    """

    PYTHON = 0
    CPP = 1


def timer() -> float:
    """Seconds of a clock, read when all work that was queued on the current device is done."""
    if drv.is_initialized():
        cuda.synchronize()
    return timeit.default_timer()


class Timer:
    """Time a statement as ``timeit.Timer`` does, and wait for the device before the clock is read.

    Operations on the CPU use one thread unless ``num_threads`` says otherwise, and the statement runs before it is
    timed, so that kernels are compiled.

    Parameters
    ----------
    stmt : str
        What is timed.
    setup : str
        What runs once before it.
    global_setup : str
        Refused unless empty: PyTorch has it for C++.
    timer : callable
        Returns seconds.
    globals : dict, optional
        Names that the statement uses, besides ``tensor`` and ``torch``, which are this package.
    label, sub_label, description, env : str, optional
        Names in tables: of the table, the row, the column, and the environment.
    num_threads : int
        Threads of operations on the CPU.
    language : Language or str
        ``Language.PYTHON``, ``"python"`` or ``"py"``.

    Raises
    ------
    ValueError
        If ``stmt`` is no text, ``global_setup`` is not empty, or the language is not Python.
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError(f"Timer: stmt has to be a str, got {type(stmt).__name__}")
        if language not in (Language.PYTHON, "py", "python"):
            raise ValueError(f"Timer: statements are Python, got the language {language!r}")
        if global_setup:
            raise ValueError(f"Timer: global_setup is for C++, got {global_setup!r}; use setup")
        public = sys.modules["tensor"]
        names = {"tensor": public, "torch": public, **(globals or {})}
        stmt, setup = (_dedented(text) for text in (stmt, setup))
        self._timer = timeit.Timer(stmt, setup, timer, globals=names)
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Run the statement ``number`` times in one block, after a hundredth as many, at least 2, to warm up.

        Returns
        -------
        Measurement
            With one time in seconds, that of all ``number`` runs; its ``mean`` is that of one.
        """
        with set_torch_threads(self._task_spec.num_threads):
            self._timed(max(number // 100, 2))
            return Measurement(number, [self._timed(number)], self._task_spec)

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Run blocks of the statement for ``min_run_time`` seconds in all, at least one.

        A block is so long that reading the clock takes less than 1/10000 of it.

        Parameters
        ----------
        callback : callable, optional
            Called with the size of a block and its seconds.
        min_run_time : float
            In seconds.
        """
        return self._measured(self._block(min_run_time), callback, min_run_time)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Run blocks until their interquartile range is less than ``threshold`` of the median, at least four.

        Parameters
        ----------
        threshold : float
            As of :meth:`Measurement.meets_confidence`.
        min_run_time, max_run_time : float
            Seconds in all, at least and at most.
        callback : callable, optional
            Called with the size of a block and its seconds.
        """
        return self._measured(self._block(0.05), callback, min_run_time, max_run_time, threshold)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Not supported, whatever ``repeat`` and ``number``: use :meth:`blocked_autorange`.

        Raises
        ------
        NotImplementedError
            Always.
        """
        raise NotImplementedError("Timer.repeat: use Timer.blocked_autorange")

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> None:
        """Not supported, whatever the ``callback``: use :meth:`blocked_autorange`.

        Raises
        ------
        NotImplementedError
            Always.
        """
        raise NotImplementedError("Timer.autorange: use Timer.blocked_autorange")

    def _measured(
        self,
        number: int,
        callback: Callable[[int, float], Any] | None,
        least: float,
        most: float = float("inf"),
        threshold: float | None = None,
    ) -> Measurement:
        times: list[float] = []
        is_steady = False
        with set_torch_threads(self._task_spec.num_threads):
            while (sum(times) < least or not is_steady) and sum(times) <= most:
                times.append(self._timed(number))
                if callback is not None:
                    callback(number, times[-1])
                is_steady = threshold is None or (
                    len(times) > 3 and Measurement(number, times, self._task_spec).meets_confidence(threshold)
                )
        return Measurement(number, times, self._task_spec)

    def _block(self, least: float) -> int:
        """Runs of a block: a power of ten."""
        with set_torch_threads(self._task_spec.num_threads):
            overhead = median(self._timed(0) for _ in range(5))
            number = 1
            while number * 10 <= _MOST_RUNS:
                taken = self._timed(number)
                if taken > least or (overhead / taken <= _OVERHEAD and taken >= least / 1000):
                    break
                number *= 10
        return number

    def _timed(self, number: int) -> float:
        return max(self._timer.timeit(number), _LEAST)


def _dedented(text: str) -> str:
    return textwrap.dedent(text).removeprefix("\n").rstrip()

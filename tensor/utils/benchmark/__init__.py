"""Timing of statements: the names of ``torch.utils.benchmark``.

>>> from tensor.utils import benchmark
>>> x = tensor.ones(16)
>>> timer = benchmark.Timer("x + x", globals={"x": x}, label="add")
>>> timer.timeit(10)  # doctest: +SKIP
"""

from typing import TYPE_CHECKING

from tensor.core.names.absent import hints as _hints

from .compare import Colorize, Compare
from .measurement import (
    Measurement,
    TaskSpec,
    ordered_unique,
    select_unit,
    set_torch_threads,
    trim_sigfig,
    unit_to_english,
)
from .timer import Language, Timer, timer

__all__ = [
    "Colorize",
    "Compare",
    "Language",
    "Measurement",
    "TaskSpec",
    "Timer",
    "ordered_unique",
    "select_unit",
    "set_torch_threads",
    "timer",
    "trim_sigfig",
    "unit_to_english",
]

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)

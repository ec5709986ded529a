"""Values that differ, among many of which most are as their neighbours.

Accesses come thread after thread and block after block. NumPy's ``unique`` has a table of all values, or sorts them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """As ``numpy.unique`` of one dimension: each value once, in ascending order."""
    changes = np.flatnonzero(values[1:] != values[:-1])
    if not changes.size:
        return values[:1].copy()
    return np.unique(np.append(values[changes], values[-1]))


def distinct_and_where(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The same, and where among them each of ``values`` is."""
    each = distinct(values)
    return each, np.searchsorted(each, values)


def divided(numbers: NDArray[np.int64], by: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """As ``numpy.divmod``, which divides element by element where a division alone does several at a time."""
    quotient = numbers // by
    return quotient, numbers - quotient * by

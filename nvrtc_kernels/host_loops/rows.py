"""Rows of contiguous arrays, which loops ``loop(first, last, n, ...)`` go over, shared out among threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drv.host.threads import share

from .planning import PIECE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[Any]

#: Pieces of the rows at most: each has sums of its own.
_MOST_PIECES = 32


def fits(*arrays: Array | None) -> bool:
    """Whether arrays are contiguous and all of float32, or of float64."""
    there = [each for each in arrays if each is not None]
    dtype = there[0].dtype
    return dtype in (np.float32, np.float64) and all(
        each.dtype == dtype and each.flags.c_contiguous for each in there
    )


def bounds_of(rows: int, n: int) -> list[int]:
    """Where the pieces of the rows begin and end: this does not depend on threads."""
    pieces = max(min(rows * n // PIECE, rows, _MOST_PIECES), 1)
    return [rows * piece // pieces for piece in range(pieces + 1)]


def over_rows(loop: Callable[..., None], rows: int, n: int, *arguments: Any) -> None:
    """Call ``loop(first, last, n, *arguments)`` for all pieces of ``rows`` rows of ``n`` elements."""
    bounds = bounds_of(rows, n)
    share(lambda piece: loop(bounds[piece], bounds[piece + 1], n, *arguments), len(bounds) - 1)

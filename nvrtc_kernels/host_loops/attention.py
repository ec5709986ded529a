"""Weights of attention on the CPU as native loops over rows of scores, and what their gradients are made of, on threads."""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING

import numpy as np

from .code import assembled
from .planning import worth
from .rows import fits, over_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from .rows import Array


@functools.cache
def _loop(name: str, causal: bool) -> Callable[..., None] | None:
    # Needed to compile only; most loops are on disk.
    from .attention_text import text

    types = [*[ctypes.c_int64] * 3, *[ctypes.c_void_p] * (3 if name == "weights" else 5), ctypes.c_float]
    return assembled(("attention", name, causal), lambda: text(name, causal=causal), types)


def weights(scores: Array, visible: Array | None, logarithms: Array, scale: float) -> bool:
    """Make weights of scores ``(rows, keys)``, in place, and write the logarithms of their sums; whether there is a loop for that.

    Scores are multiplied by ``scale``; a row sees as many keys as ``visible`` (int64) says, at least one, or all of them.
    """
    return _run("weights", scores, visible, (scores, logarithms), scale)


def gradients(
    scores: Array, slopes: Array, visible: Array | None, logarithms: Array, along: Array, scale: float
) -> bool:
    """Make weights of scores, and of the gradients of these, ``slopes``, those of the scores; whether there is a loop for that.

    Both are written in place. ``along`` is the sum of a row's weights times their gradients.
    """
    return _run("gradients", scores, visible, (scores, slopes, logarithms, along), scale)


def _run(name: str, scores: Array, visible: Array | None, arrays: tuple[Array, ...], scale: float) -> bool:
    if not worth(scores.size) or scores.dtype != np.float32 or not fits(*arrays):
        return False
    loop = _loop(name, visible is not None)
    if loop is None:
        return False
    rows, n = scores.shape
    addresses = [each.ctypes.data for each in arrays]
    addresses.insert(len(addresses) // 2, 0 if visible is None else visible.ctypes.data)
    over_rows(loop, rows, n, *addresses, scale)
    return True

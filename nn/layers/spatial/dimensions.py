"""What layers that exist for signals, images and volumes share: options of each dimension, and documentation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_WORDS = (
    {"rank": "1", "signals": "signals", "dims": "L", "out": "L_out", "N": "(N, C, L) or (C, L)"},
    {
        "rank": "2",
        "signals": "images",
        "dims": "H, W",
        "out": "H_out, W_out",
        "N": "(N, C, H, W) or (C, H, W)",
    },
    {
        "rank": "3",
        "signals": "volumes",
        "dims": "D, H, W",
        "out": "D_out, H_out, W_out",
        "N": "(N, C, D, H, W) or (C, D, H, W)",
    },
)


def for_each_dimension(value: Any, rank: int) -> tuple[Any, ...]:
    """``value`` as a tuple of ``rank``, which is how PyTorch shows it: one value for all dimensions, or one for each."""
    return tuple(value) if isinstance(value, Iterable) else (value,) * rank


def for_rank(text: str | None, rank: int) -> str:
    """The docstring of a family for one rank: ``$rank``, ``$signals``, ``$dims``, ``$out`` and ``$N`` are filled in."""
    result = text or ""
    for name, words in _WORDS[rank - 1].items():
        result = result.replace(f"${{{name}}}", words).replace(f"${name}", words)
    return result

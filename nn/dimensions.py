"""Options of layers that have a value for each dimension."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def for_each_dimension(given: Any, rank: int) -> tuple[Any, ...]:
    """One value for all of ``rank`` dimensions, or one for each, as a tuple, which is how PyTorch shows them."""
    return tuple(given) if isinstance(given, Iterable) else (given,) * rank

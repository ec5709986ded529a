"""Names that annotations of scripted functions are made of. Programs run as Python, which does not look at them."""

from __future__ import annotations

from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: UP035 - the names that programs import

from tensor.core.names.absent import hints as _hints

__all__ = [
    "Any",
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "BroadcastingList4",
    "BroadcastingList5",
    "BroadcastingList6",
    "Dict",
    "Final",
    "List",
    "Optional",
    "Tuple",
    "Union",
]


class _BroadcastingList:
    """``BroadcastingList2[int]``: a list of so many numbers, or one number that stands for all."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __getitem__(self, types: Any) -> None:
        """None, as annotations are not looked at."""

    def __repr__(self) -> str:
        return f"BroadcastingList{self._length}"


BroadcastingList1, BroadcastingList2, BroadcastingList3 = map(_BroadcastingList, (1, 2, 3))
BroadcastingList4, BroadcastingList5, BroadcastingList6 = map(_BroadcastingList, (4, 5, 6))

__getattr__ = _hints(__name__)

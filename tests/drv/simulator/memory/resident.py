"""What memory the system has provided."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from drv.simulator.memory.address_space import PAGE


def resident_pages(data: Any) -> int:
    """How many pages of an array the system has provided."""
    first = -(-data.ctypes.data // PAGE) * PAGE
    count = (data.ctypes.data + data.size - first) // PAGE
    pages = np.zeros(count, np.uint8)
    failed = ctypes.CDLL(None).mincore(
        ctypes.c_void_p(first), ctypes.c_size_t(count * PAGE), ctypes.c_void_p(pages.ctypes.data)
    )
    assert not failed
    return int(np.count_nonzero(pages & 1))

"""Sizes: how requests are rounded, which pool serves them, how large the segments are.

The figures are those of PyTorch's ``CUDACachingAllocator``.
"""

from __future__ import annotations

#: Every block's size is a multiple of this.
BLOCK_UNIT = 512
#: Largest block of the small pool.
SMALL_LIMIT = 1 << 20
#: Segment of the small pool.
SMALL_SEGMENT = 2 << 20
#: Segment for large blocks under ``WHOLE_SEGMENT``.
LARGE_SEGMENT = 20 << 20
#: From here on a request has a segment of its own, a multiple of ``LARGE_UNIT``.
WHOLE_SEGMENT = 10 << 20
LARGE_UNIT = 2 << 20
#: ``max_split_size`` when there is no limit.
NO_LIMIT = 1 << 62


def round_to_unit(size: int) -> int:
    """``size`` rounded up to a multiple of 512."""
    return (size + BLOCK_UNIT - 1) & -BLOCK_UNIT


def round_to_division(size: int, divisions: int) -> int:
    """``size`` rounded up to one of ``divisions`` equal steps between two powers of two.

    With 4 divisions, 1200 becomes 1280, as the steps from 1024 on are 1280, 1536 and 1792.
    ``divisions`` is a power of two.
    """
    if size & (size - 1) == 0:
        return size
    floor = 1 << (size.bit_length() - 1)
    step = floor // divisions
    if step == 0:
        return floor << 1
    return (size + step - 1) & -step


def segment_size(size: int) -> int:
    """Size of the segment to reserve for a block of ``size`` bytes (already rounded)."""
    if size <= SMALL_LIMIT:
        return SMALL_SEGMENT
    if size < WHOLE_SEGMENT:
        return LARGE_SEGMENT
    return (size + LARGE_UNIT - 1) & -LARGE_UNIT

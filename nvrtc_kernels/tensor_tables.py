"""Tables of many tensors among the arguments of one launch: ``Table`` in ``cuda/optimizer_steps.cuh``."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Bytes of a table: with the other arguments it stays under the 4 KiB that every device takes.
_BYTES = 3840
_MAX_GRID = (1 << 31) - 1


class Tables:
    """Divides tensors over launches whose blocks each take ``chunk`` elements of one of them.

    Parameters
    ----------
    operands : int
        Addresses that a tensor has in the table.
    chunk : int
        Elements of a full chunk.

    Attributes
    ----------
    parameters : str
        What a kernel declares for the table: its first two parameters.
    codes : tuple
        What :func:`nvrtc_kernels.plans.launcher` is told of them.
    """

    __slots__ = ("_capacity", "_chunk", "_operands", "_table", "codes", "parameters")

    def __init__(self, operands: int, chunk: int) -> None:
        capacity = _BYTES // (8 * operands + 12)
        self._operands, self._chunk, self._capacity = operands, chunk, capacity
        self._table = struct.Struct(f"={capacity * operands}Q{capacity}q{capacity}I")
        self.parameters = f"const __grid_constant__ Table<{operands}, {capacity}> table, unsigned int tensors"
        # Tables are aligned to 8 bytes, and a multiple of that long.
        self.codes = (-(-self._table.size // 8) * 8, "I")

    def launches(self, addresses: Sequence[int], counts: Sequence[int]) -> Iterator[tuple[int, bytes, int]]:
        """Blocks, table and number of tensors of each launch that has something to do.

        ``addresses`` are those of the tensors' operands, one tensor after the other; ``counts`` are the tensors'
        elements.
        """
        operands, chunk, capacity = self._operands, self._chunk, self._capacity
        for begin in range(0, len(counts), capacity):
            sizes = counts[begin : begin + capacity]
            first, grid = [], 0
            for size in sizes:
                first.append(grid)
                grid += -(-size // chunk)
            if grid > _MAX_GRID:
                raise ValueError(f"{sum(sizes)} elements are more than one launch can take")
            if not grid:
                continue
            missing = (0,) * (capacity - len(sizes))
            yield (
                grid,
                self._table.pack(
                    *addresses[begin * operands : (begin + capacity) * operands],
                    *missing * operands,
                    *sizes,
                    *missing,
                    *first,
                    *missing,
                ),
                len(sizes),
            )

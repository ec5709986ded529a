"""Where the elements of a matrix stand in the registers of a warp: fragments of ``mma`` and ``wmma``.

A slot is an element of a register of a lane: ``lane * per + element``, where every lane has ``per`` elements. The
layouts of ``mma.sync`` are those of the PTX ISA. Those of ``wmma`` are left open there; here accumulators of whole 16
by 8 tiles are laid out as the accumulators of ``mma.sync`` tile by tile, as current GPUs do, and everything else in
order, twice where a warp has twice the room.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .products import BITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[Any]

LANES = 32
#: Registers that ``wmma`` gives a lane for factors of 16-bit floats, whatever the shape: some elements are there twice.
_HALVES_OF_WMMA = 16


@dataclass(frozen=True, slots=True, eq=False)
class Fragment:
    """Layout of ``count`` matrices ``(rows, columns)`` in the registers of a warp.

    ``slots`` says where each element of the matrices is, ``elements`` which element each slot holds.
    """

    count: int
    rows: int
    columns: int
    per: int
    slots: Array
    elements: Array

    def matrices(self, values: Array) -> Array:
        """Matrices ``(warps * count, rows, columns)`` from ``values`` ``(warps, 32 * per)``."""
        return values[:, self.slots].reshape(-1, self.rows, self.columns)

    def spread(self, matrices: Array) -> Array:
        """``values`` ``(warps, 32 * per)`` from matrices."""
        flat = matrices.reshape(-1, self.count * self.rows * self.columns)
        spread: Array = flat[:, self.elements]
        return spread


def _fragment(
    rows: int, columns: int, per: int, coordinates: Callable[[Array, Array], Any], count: int = 1
) -> Fragment:
    """``coordinates`` gives row and column, or matrix, row and column, of arrays of lanes and elements."""
    lane, element = np.divmod(np.arange(LANES * per), per)
    *matrix, row, column = coordinates(lane, element)
    elements = ((matrix[0] if matrix else 0) * rows + row) * columns + column
    # Where an element is there twice the first one counts.
    slots = np.full(count * rows * columns, -1)
    slots[elements[::-1]] = np.arange(LANES * per)[::-1]
    return Fragment(count, rows, columns, per, slots, elements)


@functools.cache
def left(m: int, k: int, ptx_type: str) -> Fragment:
    """Factor ``a`` of ``mma.sync``."""
    group = max(32 // BITS[ptx_type], 1)
    halves = m // 8

    def coordinates(lane: Array, element: Array) -> tuple[Array, Array]:
        register, within = np.divmod(element, group)
        return lane // 4 + 8 * (register % halves), (register // halves * 4 + lane % 4) * group + within

    return _fragment(m, k, m * k // LANES, coordinates)


@functools.cache
def right(k: int, n: int, ptx_type: str) -> Fragment:
    """Factor ``b`` of ``mma.sync``."""
    group = max(32 // BITS[ptx_type], 1)

    def coordinates(lane: Array, element: Array) -> tuple[Array, Array]:
        register, within = np.divmod(element, group)
        return (register * 4 + lane % 4) * group + within, lane // 4

    return _fragment(k, n, k * n // LANES, coordinates)


@functools.cache
def accumulator(m: int, n: int) -> Fragment:
    """Addend and result of ``mma.sync``; of several tiles next to each other, tile by tile."""

    def coordinates(lane: Array, element: Array) -> tuple[Array, Array]:
        tile, within = np.divmod(element, min(m, 16) // 4)
        across = n // 8
        return lane // 4 + 8 * (within // 2) + 16 * (tile // across), lane % 4 * 2 + within % 2 + 8 * (
            tile % across
        )

    return _fragment(m, n, m * n // LANES, coordinates)


@functools.cache
def of_quad_pairs(which: str, layout: str) -> Fragment:
    """``mma.sync.m8n8k4`` of 16-bit floats: four products, each by lanes ``4 i`` to ``4 i + 3`` and those 16 further.

    ``which`` is ``"a"``, ``"b"``, ``"f16"`` or ``"f32"`` (the accumulators of these types).
    """

    def coordinates(lane: Array, element: Array) -> tuple[Array, Array, Array]:
        high, product = np.divmod(lane, 16)
        line = lane % 4 + 4 * high
        if which == "f32":
            row = lane % 2 + (element & 2) + 4 * high
            return product // 4, row, (element & 4) + (lane & 2) + (element & 1)
        if which == "f16":
            return product // 4, line, element
        across = layout == ("row" if which == "a" else "col")
        # Along k the lanes of one half hold it all, or each lane one step of it.
        if which == "a":
            return (product // 4, line, element) if across else (product // 4, element + 4 * high, lane % 4)
        return (product // 4, element, line) if across else (product // 4, lane % 4, element + 4 * high)

    rows, columns = {"a": (8, 4), "b": (4, 8)}.get(which, (8, 8))
    return _fragment(rows, columns, rows * columns // 8, coordinates, 4)


@functools.cache
def of_wmma(which: str, m: int, n: int, k: int, ptx_type: str) -> Fragment:
    """Fragments of ``wmma``; ``which`` is ``"a"``, ``"b"`` or ``"c"``."""
    rows, columns = {"a": (m, k), "b": (k, n), "c": (m, n)}[which]
    if which == "c" and rows % 16 == 0:
        return accumulator(m, n)
    size = rows * columns
    per = _HALVES_OF_WMMA if which != "c" and ptx_type == "f16" else size // LANES

    def coordinates(lane: Array, element: Array) -> tuple[Array, Array]:
        position = (lane * per + element) % size
        if which == "b":
            # Along k, so that what is packed into a register lies side by side in memory.
            column, row = np.divmod(position, rows)
            return row, column
        row, column = np.divmod(position, columns)
        return row, column

    return _fragment(rows, columns, per, coordinates)


def unpacked(registers: Array, ptx_type: str) -> Array:
    """Elements ``(warps, 32 * per)`` of ``registers`` ``(warps, 32, count)``, as unsigned integers or floats."""
    warps = registers.shape[0]
    bits = BITS[ptx_type]
    if bits >= 32:
        return registers.reshape(warps, -1)
    if bits == 1:
        packed = registers.view(np.uint8).reshape(warps, -1)
        return np.unpackbits(packed, axis=1, bitorder="little")
    if bits == 4:
        packed = registers.view(np.uint8).reshape(warps, -1)
        return np.stack([packed & np.uint8(15), packed >> np.uint8(4)], axis=2).reshape(warps, -1)
    return registers.view(np.dtype(f"uint{bits}")).reshape(warps, -1)

"""Arrays with strides in simulated memory: matrices with a leading dimension, vectors with an increment, FFT layouts.

Only bytes that belong to elements are read or written, so that a race is reported where elements are shared and
nowhere else. An access is split into the fewest rows that the memory can serve at once: an array whose elements
fill a range is one access, a matrix with padded columns is one access with a pitch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from cuda.bindings.driver import CUresult
from numpy.lib.stride_tricks import as_strided

from drv.simulator.checks.observation import Access
from drv.simulator.faults import BadAccess, DeviceFault, FaultKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from drv.simulator.memory.library_memory import LibraryMemory

Axes = tuple[int, ...]


def load(
    memory: LibraryMemory, address: int, dtype: np.dtype[Any], shape: Axes, strides: Axes
) -> NDArray[Any]:
    """Elements of an array of ``shape``; ``strides`` (not negative) are in elements, element 0 is at ``address``.

    The result may be a view of the memory: it must not be written, and changes when the memory does.
    """
    if 0 in shape:
        return np.empty(shape, dtype)
    _require_aligned(address, dtype, Access.READ)
    pattern = _pattern(shape, strides, dtype.itemsize)
    if not pattern.outer:
        return pattern.view(_rows(memory, address, pattern, write=False), dtype)
    result = np.empty(shape, dtype)
    for position, offset in pattern.blocks():
        result[position] = pattern.view(_rows(memory, address + offset, pattern, write=False), dtype)
    return result


def store(memory: LibraryMemory, address: int, values: NDArray[Any], strides: Axes) -> None:
    """Write ``values``, already of the type in memory, to an array as :func:`load` reads it."""
    if values.size == 0:
        return
    _require_aligned(address, values.dtype, Access.WRITE)
    pattern = _pattern(values.shape, strides, values.dtype.itemsize)
    for position, offset in pattern.blocks():
        rows = _rows(memory, address + offset, pattern, write=True)
        pattern.view(rows, values.dtype)[...] = values[position]


def _require_aligned(address: int, dtype: np.dtype[Any], access: Access) -> None:
    if address % dtype.itemsize:
        raise DeviceFault(
            CUresult.CUDA_ERROR_MISALIGNED_ADDRESS,
            f"{access.value} of {dtype.name} elements at {address:#x}, which is no multiple of "
            f"{dtype.itemsize} bytes",
            access=BadAccess(FaultKind.MISALIGNED, access, dtype.itemsize, address),
        )


def _rows(memory: LibraryMemory, address: int, pattern: _Pattern, *, write: bool) -> NDArray[np.uint8]:
    if pattern.rows == 1:
        flat = memory.write if write else memory.read
        return flat(address, pattern.row_bytes).reshape(1, pattern.row_bytes)
    rows = memory.write_rows if write else memory.read_rows
    return rows(address, pattern.rows, pattern.row_bytes, pattern.pitch)


@dataclass(frozen=True, slots=True)
class _Pattern:
    """How an array lies in memory: blocks of ``rows`` rows of ``row_bytes`` that begin ``pitch`` bytes apart.

    ``outer`` are the axes (axis, count, stride in bytes) that number the blocks; the others are within a block,
    ``steps`` saying for each axis how many rows and how many bytes one step on it advances.
    """

    shape: Axes
    rows: int
    row_bytes: int
    pitch: int
    steps: tuple[tuple[int, int], ...]
    outer: tuple[tuple[int, int, int], ...]

    def blocks(self) -> Iterator[tuple[tuple[Any, ...], int]]:
        """Index of each block in the array, and its offset in bytes."""
        position: list[Any] = [slice(None)] * len(self.shape)
        for indices in product(*(range(count) for _, count, _ in self.outer)):
            offset = 0
            for index, (axis, _, stride) in zip(indices, self.outer, strict=True):
                position[axis] = index
                offset += index * stride
            yield tuple(position), offset

    def view(self, rows: NDArray[np.uint8], dtype: np.dtype[Any]) -> NDArray[Any]:
        """A block's elements, given its rows."""
        outer = {axis for axis, _, _ in self.outer}
        inner = [axis for axis in range(len(self.shape)) if axis not in outer]
        row = rows.strides[0]
        return as_strided(
            rows.view(dtype),
            [self.shape[axis] for axis in inner],
            [self.steps[axis][0] * row + self.steps[axis][1] for axis in inner],
        )


@lru_cache(maxsize=1024)
def _pattern(shape: Axes, strides: Axes, itemsize: int) -> _Pattern:
    axes = sorted(range(len(shape)), key=lambda axis: (strides[axis], shape[axis]))
    steps = [(0, 0)] * len(shape)
    outer: list[tuple[int, int, int]] = []
    row_bytes, rows, pitch = itemsize, 1, 0
    for axis in axes:
        count, stride = shape[axis], strides[axis] * itemsize
        if count == 1:
            continue
        if not pitch and stride <= row_bytes:
            row_bytes += (count - 1) * stride
            steps[axis] = (0, stride)
        elif not pitch:
            pitch, rows = stride, count
            steps[axis] = (1, 0)
        elif not outer and stride % pitch == 0 and stride <= rows * pitch:
            steps[axis] = (stride // pitch, 0)
            rows += (count - 1) * (stride // pitch)
        else:
            outer.append((axis, count, stride))
    return _Pattern(shape, rows, row_bytes, pitch, tuple(steps), tuple(outer))

"""Copies as they run: rows in slices, between simulated memory and pageable host memory."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .address_space import AddressSpace, Allocation, MemoryKind
from .library_memory import LibraryMemory

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from drv.simulator.checks.races import RaceChecker

    from .arrays import CudaArray


@dataclass(slots=True)
class Endpoint:
    """One side of a copy: rows that begin ``pitch`` bytes apart, in slices ``slice_pitch`` bytes apart.

    ``allocation`` is where it begins, ``None`` when that is pageable host memory; ``array`` the CUDA array that it is
    in, if it is in one.
    """

    address: int
    pitch: int
    allocation: Allocation | None
    slice_pitch: int = 0
    array: CudaArray | None = None

    @property
    def host(self) -> bool:
        """Whether it is host memory of any sort."""
        return self.allocation is None or self.allocation.device is None


class QueuedCopy:
    """What a copy does when it runs.

    The queue may outlive the call that filled it: Ctrl-C ends a wait, and the program frees the memory. So what a call
    queues knows no pageable memory: ``staged`` are the bytes of such a source, taken by the call, and those for such a
    target are ``delivered`` by it: kept until the call, once it has waited, calls :meth:`deliver`. A copy in a graph
    knows nothing but the addresses, and touches pageable memory when it runs.
    """

    __slots__ = ("_delivered", "_observer", "_received", "_shape", "_source", "_space", "_staged", "_target")

    def __init__(
        self,
        space: AddressSpace,
        observer: RaceChecker | None,
        target: Endpoint,
        source: Endpoint,
        shape: tuple[int, int, int],
        staged: list[NDArray[np.uint8]] | None,
        *,
        delivered: bool,
    ) -> None:
        self._space, self._observer = space, observer
        self._target, self._source = target, source
        self._shape, self._staged = shape, staged
        self._delivered = delivered
        self._received: list[NDArray[np.uint8]] = []

    def __call__(self) -> None:
        source, target, observer = self._source, self._target, self._observer
        memory = LibraryMemory(self._space, None, observer)
        if observer is not None:
            observer.copy_begins()
        depth, height, width = self._shape
        for z in range(depth):
            start = source.address + z * source.slice_pitch
            if self._staged is not None:
                data = self._staged[z]
            elif source.allocation is None:
                data = pageable_rows(start, height, width, source.pitch)
            else:
                data = memory.read_rows(start, height, width, source.pitch)
            address = target.address + z * target.slice_pitch
            if target.allocation is not None:
                memory.write_rows(address, height, width, target.pitch)[...] = data
            elif self._delivered:
                self._received.append(np.array(data, order="C"))
            else:
                _write_pageable_rows(address, target.pitch, np.array(data, order="C"))
        memory.flush()

    def deliver(self) -> None:
        """Write what was read to the pageable target: nothing where the copy failed, or has another target."""
        target = self._target
        for z, data in enumerate(self._received):
            _write_pageable_rows(target.address + z * target.slice_pitch, target.pitch, data)
        self._received.clear()


def direction(source: Endpoint, target: Endpoint) -> str:
    """``from pinned host memory to device 0``."""
    return f"from {_memory_name(source)} to {_memory_name(target)}"


def _memory_name(endpoint: Endpoint) -> str:
    allocation = endpoint.allocation
    if allocation is None:
        return "pageable host memory"
    if allocation.device is None:
        return "pinned host memory" if allocation.kind is MemoryKind.PINNED else "registered host memory"
    if endpoint.array is not None:
        return f"a CUDA array of device {allocation.device}"
    return f"device {allocation.device}"


def pageable_rows(address: int, rows: int, row_bytes: int, pitch: int) -> NDArray[np.uint8]:
    """A copy of rows of pageable host memory, shape ``(rows, row_bytes)``."""
    span = (rows - 1) * pitch + row_bytes
    flat = np.frombuffer(ctypes.string_at(address, span), np.uint8)
    if rows == 1:
        return flat.reshape(1, row_bytes)
    strided = np.lib.stride_tricks.as_strided(flat, (rows, row_bytes), (pitch, 1))
    return strided if pitch == row_bytes else np.ascontiguousarray(strided)


def _write_pageable_rows(address: int, pitch: int, data: NDArray[np.uint8]) -> None:
    rows, row_bytes = data.shape
    if rows == 1 or pitch == row_bytes:
        ctypes.memmove(address, data.ctypes.data, rows * row_bytes)
        return
    for row in range(rows):
        ctypes.memmove(address + row * pitch, data[row].ctypes.data, row_bytes)

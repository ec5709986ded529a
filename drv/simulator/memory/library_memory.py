"""Memory as queued work that is not a kernel sees it: copies, memsets and the simulated libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from cuda.bindings.driver import CUresult

from drv.simulator.checks.observation import Access, AccessObserver
from drv.simulator.faults import BadAccess, DeviceFault, FaultKind

from .address_space import AddressSpace, Allocation, MemoryKind

if TYPE_CHECKING:
    from numpy.typing import NDArray


class LibraryMemory:
    """Reads and writes ranges of simulated memory by address, with the checks a device makes.

    ``device`` is the ordinal of the device that works, or ``None`` for a copy, which reaches every
    device's memory. A view is of the memory itself where it lies in one allocation; where a range spans
    several mapped ones, a write goes to a buffer that :meth:`flush` (called when the operation ends) copies
    out. Every method raises :class:`DeviceFault` for memory that is not there or not accessible.
    """

    def __init__(
        self, space: AddressSpace, device: int | None, observer: AccessObserver | None = None
    ) -> None:
        self._space = space
        self._device = device
        self._observer = observer
        self._buffered: list[tuple[NDArray[np.uint8], list[NDArray[np.uint8]]]] = []

    def read(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        """The bytes ``[address, address + nbytes)``, shape ``(nbytes,)``; not to be written."""
        pieces = self._pieces(address, nbytes, write=False)
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def write(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        """The bytes ``[address, address + nbytes)``, shape ``(nbytes,)``, all of them to be written."""
        pieces = self._pieces(address, nbytes, write=True)
        if len(pieces) == 1:
            return pieces[0]
        buffer = np.concatenate(pieces)
        self._buffered.append((buffer, pieces))
        return buffer

    def read_rows(self, address: int, rows: int, row_bytes: int, pitch: int) -> NDArray[np.uint8]:
        """Bytes of ``rows`` rows that begin ``pitch`` bytes apart, shape ``(rows, row_bytes)``."""
        return self._rows(address, rows, row_bytes, pitch, write=False)

    def write_rows(self, address: int, rows: int, row_bytes: int, pitch: int) -> NDArray[np.uint8]:
        """As :meth:`read_rows`, all of them to be written; bytes between the rows stay as they are."""
        return self._rows(address, rows, row_bytes, pitch, write=True)

    def flush(self) -> None:
        """Copy buffered writes to where they belong."""
        for buffer, pieces in self._buffered:
            start = 0
            for piece in pieces:
                piece[...] = buffer[start : start + piece.size]
                start += piece.size
        self._buffered.clear()

    def _rows(self, address: int, rows: int, row_bytes: int, pitch: int, *, write: bool) -> NDArray[np.uint8]:
        if rows == 0 or row_bytes == 0:
            return np.empty((rows, row_bytes), np.uint8)
        if pitch == row_bytes or rows == 1:
            flat = self.write(address, rows * row_bytes) if write else self.read(address, rows * row_bytes)
            return flat.reshape(rows, row_bytes)
        span = (rows - 1) * pitch + row_bytes
        kind = Access.WRITE if write else Access.READ
        allocation = self._allocation(address, span, write=write)
        if address + span <= allocation.end:
            start = address - allocation.base
            if self._observer is not None:
                for row in range(start, start + rows * pitch, pitch):
                    self._observer.range_access(allocation, row, row + row_bytes, kind)
            return np.lib.stride_tricks.as_strided(
                allocation.data[start : start + span], (rows, row_bytes), (pitch, 1)
            )
        pieces = [self._pieces(address + row * pitch, row_bytes, write=write) for row in range(rows)]
        buffer = np.stack([np.concatenate(row) for row in pieces])
        if write:
            self._buffered.append((buffer.reshape(-1), [piece for row in pieces for piece in row]))
        return buffer

    def _pieces(self, address: int, nbytes: int, *, write: bool) -> list[NDArray[np.uint8]]:
        if nbytes == 0:
            return [np.empty(0, np.uint8)]
        pieces = []
        end = address + nbytes
        while address < end:
            allocation = self._allocation(address, end - address, write=write)
            start, stop = address - allocation.base, min(end, allocation.end) - allocation.base
            if self._observer is not None:
                self._observer.range_access(allocation, start, stop, Access.WRITE if write else Access.READ)
            pieces.append(allocation.data[start:stop])
            address = allocation.base + stop
            if address < end and allocation.kind is not MemoryKind.MAPPED:
                raise self._fault(address, end - address, write)
        return pieces

    def _allocation(self, address: int, nbytes: int, *, write: bool) -> Allocation:
        allocation = self._space.find(address)
        if allocation is None:
            raise self._fault(address, nbytes, write)
        if self._device is None:
            # Copies go through engines that reach all devices, but mapped memory needs some access.
            reachable = allocation.access is None or bool(allocation.access)
        else:
            reachable = self._space.accessible(allocation, self._device, write=write)
        if not reachable:
            raise DeviceFault(
                CUresult.CUDA_ERROR_ILLEGAL_ADDRESS,
                f"{_verb(write)} of {nbytes} bytes at {address:#x}, to which "
                f"{'no device' if self._device is None else f'device {self._device}'} has access: "
                f"{allocation.describe()}",
                access=BadAccess(FaultKind.FORBIDDEN, _access(write), nbytes, address, allocation),
            )
        return allocation

    def _fault(self, address: int, nbytes: int, write: bool) -> DeviceFault:
        text = f"{_verb(write)} of {nbytes} bytes at {address:#x} outside any allocation"
        freed = self._space.find_freed(address)
        near = self._space.nearest(address)
        if freed is not None:
            text += f"; the address was in {freed.describe()}, which is freed"
        elif near is not None:
            text += f"; the nearest is {near.describe()}"
        reason = FaultKind.OUT_OF_BOUNDS if freed is None else FaultKind.FREED
        access = BadAccess(reason, _access(write), nbytes, address, freed or near)
        return DeviceFault(CUresult.CUDA_ERROR_ILLEGAL_ADDRESS, text, access=access)


def _access(write: bool) -> Access:
    return Access.WRITE if write else Access.READ


def _verb(write: bool) -> str:
    return "write" if write else "read"

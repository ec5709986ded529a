"""Bytes that several processes of a machine share: memory without a name, which lives as long as somebody has it open."""

from __future__ import annotations

import mmap
import os
import struct
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PAGE = mmap.PAGESIZE
_MAGIC = b"graphroot memory"
#: Behind the bytes, on a page of its own: magic, how many they are, and a number of whoever made them.
_FOOTER = struct.Struct("<16sQQ")


class SharedBytes:
    """Shared bytes, mapped into this process.

    Attributes
    ----------
    data : ndarray
        The bytes, shape ``(size,)``, padded to whole pages.
    size : int
        How many bytes were asked for.
    note : int
        The number that they were made with.
    descriptor : int
        The file descriptor, open until :meth:`close`.
    """

    def __init__(self, descriptor: int, size: int, note: int) -> None:
        self.descriptor = descriptor
        self.size = size
        self.note = note
        mapped = mmap.mmap(descriptor, _whole(size))
        self.data: NDArray[np.uint8] = np.frombuffer(mapped, np.uint8)

    @classmethod
    def create(cls, size: int, note: int = 0) -> Self:
        """New bytes, all 0."""
        descriptor = os.memfd_create("graphroot", os.MFD_CLOEXEC)
        try:
            os.ftruncate(descriptor, _whole(size) + _PAGE)
            os.pwrite(descriptor, _FOOTER.pack(_MAGIC, size, note), _whole(size))
            return cls(descriptor, size, note)
        except BaseException:
            os.close(descriptor)
            raise

    @classmethod
    def open(cls, descriptor: int) -> Self:
        """The bytes behind a file descriptor, which stays the caller's. Raises OSError or ValueError for any other file."""
        own = os.dup(descriptor)
        try:
            length = os.fstat(own).st_size
            magic, size, note = _FOOTER.unpack(os.pread(own, _FOOTER.size, max(length - _PAGE, 0)))
            if magic != _MAGIC or _whole(size) + _PAGE != length:
                raise ValueError("the file descriptor is not one of shared memory of a simulated device")
            return cls(own, size, note)
        except struct.error as error:
            os.close(own)
            raise ValueError(
                "the file descriptor is not one of shared memory of a simulated device"
            ) from error
        except BaseException:
            os.close(own)
            raise

    @classmethod
    def open_of(cls, process: int, descriptor: int) -> Self:
        """The bytes that another process has open. Raises OSError or ValueError where it has none such."""
        own = os.open(f"/proc/{process}/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
        try:
            return cls.open(own)
        finally:
            os.close(own)

    def close(self) -> None:
        """Close the file descriptor; the bytes stay as long as ``data`` is used. A second call does nothing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        if getattr(self, "descriptor", -1) >= 0:
            self.close()


def _whole(size: int) -> int:
    return -(-max(size, 1) // _PAGE) * _PAGE

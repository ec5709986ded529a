"""Where the bytes of a checkpoint come from: a file that is read in order, or one whose pages are shown."""

from __future__ import annotations

import mmap
import os
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from .structure import UnreadableError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .header import Entry


#: Bytes of a large tensor that are read at a time, while the checksum of those before is computed.
_PIECE = 4 << 20


class Stream:
    """Reads arrays one after the other, each into memory of its own."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._ahead = b""
        self.size = self._size()

    def _size(self) -> int | None:
        """Bytes from here to the end, where that can be known beforehand."""
        try:
            here: int = self._file.tell()
            end: int = self._file.seek(0, os.SEEK_END)
            self._file.seek(here)
        except (AttributeError, OSError):
            return None
        return end - here

    def peek(self, count: int) -> bytes:
        """The next ``count`` bytes, fewer at the end, which are read again later."""
        here = None if self.size is None else self._file.tell()
        result = self.read(count)
        if here is None:
            self._ahead = result
        else:
            self._file.seek(here)
        return result

    def read(self, count: int) -> bytes:
        """``count`` bytes, fewer at the end."""
        parts = []
        while count:
            part = self._more(count)
            if isinstance(part, str):
                raise TypeError("load(): the file is opened as text, open it with mode 'rb'")
            if not part:
                break
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def array(self, entry: Entry) -> NDArray[Any]:
        """The next tensor in the file."""
        try:
            result = np.empty(entry.shape, entry.dtype.numpy)
        except (MemoryError, ValueError) as error:
            raise _no_array(entry, error) from None
        self._fill_all(result.reshape(-1).view(np.uint8).data, entry)
        return result

    def _fill_all(self, rest: memoryview, entry: Entry) -> None:
        while rest:
            rest = rest[self._fill(rest, entry) :]

    def _more(self, count: int) -> Any:
        if not self._ahead:
            return self._file.read(count)
        result, self._ahead = self._ahead[:count], self._ahead[count:]
        return result

    def _fill(self, rest: memoryview, entry: Entry) -> int:
        if not self._ahead and hasattr(self._file, "readinto"):
            count = self._file.readinto(rest)
        else:
            part = self._more(len(rest))
            count = len(part)
            rest[:count] = part
        if not count:
            raise UnreadableError(f"it was cut off: it ends within tensor {entry.name!r}")
        return int(count)


class Checked(Stream):
    """Computes the checksum of each array as it is read.

    Attributes
    ----------
    crc32
        Of the last array.
    """

    crc32 = 0

    def _fill_all(self, rest: memoryview, entry: Entry) -> None:
        if len(rest) < 2 * _PIECE:
            super()._fill_all(rest, entry)
            self.crc32 = zlib.crc32(rest)
            return
        from concurrent.futures import ThreadPoolExecutor  # only programs that load large files need it

        # Reading and computing take about as long as each other, and neither holds the interpreter's lock.
        with ThreadPoolExecutor(1) as thread:
            crc32 = thread.submit(zlib.crc32, b"")
            while rest:
                count = self._fill(rest[:_PIECE], entry)
                crc32 = thread.submit(zlib.crc32, rest[:count], crc32.result())
                rest = rest[count:]
            self.crc32 = crc32.result()


class Mapped(Stream):
    """Shows arrays in the pages of a file."""

    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self._pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) if self.size else b""

    def array(self, entry: Entry) -> NDArray[Any]:
        """The tensor, where it is."""
        start = self._file.tell() + entry.start
        count = (entry.stop - entry.start) // entry.dtype.itemsize
        try:
            if not count:
                return np.empty(entry.shape, entry.dtype.numpy)
            flat: NDArray[Any] = np.frombuffer(self._pages, entry.dtype.numpy, count, start)
            result = flat.reshape(entry.shape)
            return result if result.flags.aligned else result.copy()
        except (MemoryError, ValueError) as error:
            raise _no_array(entry, error) from None


def _no_array(entry: Entry, error: Exception) -> UnreadableError:
    """For a shape that the memory, or NumPy, has no array of."""
    return UnreadableError(
        f"there is no memory for tensor {entry.name!r} of shape {list(entry.shape)} and type {entry.dtype.name}: {error}"
    )

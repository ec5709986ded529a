"""Files of ``torch.save`` since PyTorch 1.6: a ZIP archive of a pickle and of storages, none of them compressed.

Its directory is read by :mod:`zipfile`; everything that it says is checked before memory is taken for it.
"""

from __future__ import annotations

import mmap
import os
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.serialization.structure import UnreadableError

from .constructors import Constructors
from .errors import excerpt
from .machine import Machine
from .storages import Budget, Storages, check_bools

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nvrtc_kernels import dtypes
    from tensor.serialization.locations import Locations

MAGIC = b"PK\3\4"
_LOCAL = struct.Struct("<4s5H3I2H")
_ENCRYPTED = 1
#: What storages in memory are aligned to, at least.
_ALIGNMENT = 16


def read_archive(file: Any, locations: Locations, *, mapped: bool) -> Any:
    """The value in an archive.

    Parameters
    ----------
    file
        A file that can seek.
    locations
        Where storages go.
    mapped
        Whether storages show the file's pages, and are not checked.

    Raises
    ------
    UnreadableError
        If it is damaged, or no archive of ``torch.save``.
    """
    archive = _Archive(file, mapped=mapped)
    data = archive.read("data.pkl")
    order = archive.read("byteorder") if archive.has("byteorder") else b"little"
    if order != b"little":
        raise UnreadableError(
            f"its storages are of byte order {excerpt(order)}; write it anew on a machine of byte order little"
        )
    constructors = Constructors(Storages(archive.storage, locations), Budget(archive.size))
    return Machine(data, constructors).run()


class _Archive:
    """The entries of an archive, by their names without the folder that all are in."""

    def __init__(self, file: Any, *, mapped: bool) -> None:
        self._file = file
        self._mapped = mapped
        self._pages: Any = None
        self.size = file.seek(0, os.SEEK_END)
        try:
            with zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
                self._end = archive.start_dir
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError, struct.error) as error:
            raise UnreadableError(
                f"it begins as a ZIP archive, as torch.save writes, and is none, or was cut off: {error}"
            ) from None
        self._entries = self._by_name(entries)
        self._check_disjoint()

    def _by_name(self, entries: list[zipfile.ZipInfo]) -> dict[str, tuple[zipfile.ZipInfo, int]]:
        pickles = [each.filename for each in entries if each.filename.endswith("/data.pkl")]
        pickles = [name for name in pickles if name.count("/") == 1]
        if len(pickles) != 1:
            raise UnreadableError(
                f"it is a ZIP archive, as torch.save writes, but has {len(pickles)} pickles data.pkl in a folder, and not "
                "one" + ("; TorchScript's archives of programs are not read" if len(pickles) > 1 else "")
            )
        folder = pickles[0].removesuffix("data.pkl")
        result: dict[str, tuple[zipfile.ZipInfo, int]] = {}
        for entry in entries:
            name = entry.filename
            if name in result or name.removeprefix(folder) in result:
                raise UnreadableError(f"its archive has {excerpt(name)} twice")
            if not name.startswith(folder):
                raise UnreadableError(
                    f"its archive has {excerpt(name)} outside of the folder {excerpt(folder)}"
                )
            if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
                raise UnreadableError(
                    f"its archive has {excerpt(name)} compressed, which torch.save does not do; store it as it is "
                    "(zip -0)"
                )
            if entry.flag_bits & _ENCRYPTED:
                raise UnreadableError(f"its archive has {excerpt(name)} encrypted")
            result[name.removeprefix(folder)] = (entry, self._start(entry))
        return result

    def _start(self, entry: zipfile.ZipInfo) -> int:
        """Where the bytes of an entry begin."""
        self._file.seek(entry.header_offset)
        header = self._file.read(_LOCAL.size)
        if len(header) == _LOCAL.size:
            magic, _, flags, method, *_, name_length, extra_length = _LOCAL.unpack(header)
            name = self._file.read(name_length)
            start: int = entry.header_offset + _LOCAL.size + name_length + extra_length
            if (
                magic == MAGIC
                and method == zipfile.ZIP_STORED
                and not flags & _ENCRYPTED
                and name == entry.orig_filename.encode("utf-8", "surrogateescape")
                and start + entry.file_size <= self._end
            ):
                return start
        raise UnreadableError(f"its archive does not have {excerpt(entry.filename)} where its directory says")

    def _check_disjoint(self) -> None:
        end = 0
        for entry, start in sorted(self._entries.values(), key=lambda each: each[0].header_offset):
            if entry.header_offset < end:
                raise UnreadableError(
                    f"its archive has {excerpt(entry.filename)} among the bytes of another entry"
                )
            end = start + entry.file_size

    def has(self, name: str) -> bool:
        """Whether there is such an entry."""
        return name in self._entries

    def read(self, name: str) -> bytes:
        """The bytes of an entry."""
        entry, _ = self._entries[name]
        return self._filled(name, entry.file_size).tobytes()

    def storage(self, key: str, size: int, dtype: dtypes.dtype) -> NDArray[np.uint8]:
        """The bytes of a storage.

        Raises
        ------
        UnreadableError
            If it is not there, of another size, or damaged.
        """
        name = f"data/{key}"
        if name not in self._entries:
            raise UnreadableError(f"it lacks the storage {excerpt(key)}")
        entry, start = self._entries[name]
        if entry.file_size != size:
            raise UnreadableError(
                f"its storage {excerpt(key)} has {entry.file_size} bytes, and should have {size}"
            )
        if self._mapped and start % _ALIGNMENT == 0 and size:
            if self._pages is None:
                self._pages = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_COPY)
            pages: NDArray[np.uint8] = np.frombuffer(self._pages, np.uint8, size, start)
            return pages
        result = self._filled(name, size)
        check_bools(result, dtype, key)
        return result

    def _filled(self, name: str, size: int) -> NDArray[np.uint8]:
        entry, start = self._entries[name]
        self._file.seek(start)
        result = read_bytes(self._file, size, name)
        # PyTorch writes 0 where it was told to compute no checksums.
        if entry.CRC and zlib.crc32(result.data) != entry.CRC:
            raise UnreadableError(
                f"the bytes of {excerpt(name)} in its archive are not those that were written"
            )
        return result


def read_bytes(file: Any, size: int, name: str) -> NDArray[np.uint8]:
    """The next ``size`` bytes of a file, of which that many are known to be there.

    Raises
    ------
    UnreadableError
        If there are fewer, or there is no memory for them.
    """
    try:
        result = np.empty(size, np.uint8)
    except MemoryError as error:
        raise UnreadableError(f"there is no memory for {excerpt(name)}: {error}") from None
    rest = result.data
    while rest:
        if hasattr(file, "readinto"):
            count = file.readinto(rest)
        else:
            part = file.read(len(rest))
            count = len(part)
            rest[:count] = part
        if not count:
            raise UnreadableError(f"it was cut off: it ends within {excerpt(name)}")
        rest = rest[count:]
    return result

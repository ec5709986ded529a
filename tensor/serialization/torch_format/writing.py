"""The archive that ``torch.load`` reads: the pickle, then each storage at an aligned offset. The same values give the same bytes."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Any

from .pickler import Pickler

if TYPE_CHECKING:
    from tensor.core.storage import Storage

_FOLDER = "archive"
#: What storages in the file are aligned to, so that they can be mapped.
_ALIGNMENT = 64
_HEADER_BYTES = 30
#: From here on, sizes are written in fields of 64 bits, which take so many bytes.
_WIDE, _WIDE_BYTES = 1 << 30, 20
_EXTRA_BYTES = 4
_EARLIEST = (1980, 1, 1, 0, 0, 0)


class Archive:
    """A value as an archive that is yet to be written.

    Parameters
    ----------
    value
        The value.

    Raises
    ------
    TypeError
        For something that ``torch.load(weights_only=True)`` does not read.
    ValueError
        For what contains itself, or nests too deep.
    """

    def __init__(self, value: Any) -> None:
        pickler = Pickler()
        self._pickle = pickler.pickle(value)
        self._storages = pickler.storages

    def write(self, file: Any) -> None:
        """Write it to a file, which may be one that cannot seek. Storages on devices are copied one at a time."""
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            _write(archive, "data.pkl", self._pickle)
            _write(archive, ".format_version", b"1")
            _write(archive, ".storage_alignment", str(_ALIGNMENT).encode())
            _write(archive, "byteorder", b"little")
            for number, storage in enumerate(self._storages):
                _write(archive, f"data/{number}", _bytes_of(storage))
            _write(archive, "version", b"3\n")


def _bytes_of(storage: Storage) -> Any:
    on_host: Any = storage.cpu()
    return on_host.bytes().data


def _write(archive: zipfile.ZipFile, name: str, data: Any) -> None:
    entry = zipfile.ZipInfo(f"{_FOLDER}/{name}", _EARLIEST)
    size = memoryview(data).nbytes
    wide = size >= _WIDE
    file: Any = archive.fp
    start = file.tell() + _HEADER_BYTES + len(entry.filename) + _EXTRA_BYTES + (_WIDE_BYTES if wide else 0)
    padding = -start % _ALIGNMENT
    entry.extra = b"FB" + padding.to_bytes(2, "little") + b"Z" * padding
    entry.file_size = size
    # The same on every system.
    entry.create_system = 0
    with archive.open(entry, "w", force_zip64=wide) as output:
        output.write(data)

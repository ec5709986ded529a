"""Which format of ``torch.save`` a file has, by its first bytes, and its value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.serialization.structure import UnreadableError

from . import archive, legacy

if TYPE_CHECKING:
    from tensor.serialization.locations import Locations

#: How many bytes tell.
FIRST = 16
#: Where the header of a file in a ZIP archive says how it is compressed: 0 or 8, never a brace as safetensors has there.
_METHOD = 8


def is_torch_file(first: bytes) -> bool:
    """Whether a file that begins with these bytes is one of ``torch.save``."""
    return first.startswith(legacy.MAGIC) or _is_archive(first)


def read_torch_file(file: Any, first: bytes, locations: Locations, *, mapped: bool) -> Any:
    """The value in a file of ``torch.save``.

    Parameters
    ----------
    file
        A file at the position of the first of these bytes, that can seek.
    first
        Its first bytes.
    locations
        Where storages go.
    mapped
        Whether storages show the file's pages.

    Raises
    ------
    UnreadableError
        If it is damaged, or asks for what is not done.
    """
    if not hasattr(file, "seek") or not getattr(file, "seekable", lambda: True)():
        raise UnreadableError(
            "it is one of torch.save, which is read from a file that can seek: read it into an io.BytesIO first"
        )
    if _is_archive(first):
        return archive.read_archive(file, locations, mapped=mapped)
    if mapped:
        raise UnreadableError(
            "mmap=True is for the ZIP archives that torch.save writes since PyTorch 1.6, and it is older: load it without"
        )
    return legacy.read_legacy(file, locations)


def _is_archive(first: bytes) -> bool:
    return first.startswith(archive.MAGIC) and first[_METHOD : _METHOD + 1] != b"{"

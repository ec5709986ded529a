"""Compiled kernels, and the simulator's translations of them, on disk: shared by processes that know nothing of each other.

One file per entry. A file is written under another name and then renamed, so that a reader sees all of
it or none; what a file holds is checked before it is used, so that a damaged one is only a miss. What is loaded is run
on the user's data, so a file that someone else may have written is a miss too.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import hashlib

_MAGIC = b"graphroot kernel 1\n"
_SUFFIX = ".kernel"
_UNFINISHED = ".unfinished"
_ABANDONED_SECONDS = 3600.0
_LIMIT = 1 << 30
#: Share of the room that is left in a cache which a process fills until it looks again how much that is, for others fill it
#: too. A look at some thousand files takes as long as compiling a small kernel.
_RESCAN_SHARE = 0.5
#: The same at least, as a share of the limit.
_LEAST_ROOM = 1 / 64
#: A full cache shrinks to this share of its limit, so that not every later entry has to evict one.
_FILL_SHARE = 0.9


def sha256(data: bytes = b"") -> hashlib._Hash:
    """``hashlib.sha256``, for keys and to know damaged files by."""
    import hashlib  # brings OpenSSL: a process that compiles and loads nothing does without

    return hashlib.sha256(data)


class DiskCache:
    """Bytes under keys, in one directory.

    Parameters
    ----------
    directory : Path
        Made when the first entry is stored, for its user alone (mode 0700).
    limit : int
        Bytes that all files may take together; the least recently used go first.
    """

    def __init__(self, directory: Path, limit: int = _LIMIT) -> None:
        self.directory = directory
        self.limit = limit
        self._writable = True
        #: Bytes that may be stored until it is time to look for what to evict.
        self._room = 0.0

    @classmethod
    @functools.cache
    def of(cls, directory: Path, limit: int = _LIMIT) -> DiskCache:
        """The cache of a directory that all of this process shares, so that it is looked through rarely."""
        return cls(directory, limit)

    def load(self, key: str) -> bytes | None:
        """What is stored under ``key``; ``None`` where nothing is, or what is there is damaged or not ours to trust.

        A file is trusted that the user or root owns and nobody else may write.
        """
        path = self._path(key)
        try:
            with path.open("rb") as file:
                if not _trusted(os.fstat(file.fileno())):
                    return None
                content = file.read()
        except OSError:
            return None
        head = _MAGIC + key.encode() + b"\n"
        payload = content[len(head) + sha256().digest_size :]
        if content != head + sha256(payload).digest() + payload:
            return None
        # Its age decides what is evicted; a directory that cannot be written keeps the old one.
        with contextlib.suppress(OSError):
            os.utime(path)
        return payload

    def store(self, key: str, payload: bytes) -> None:
        """Keep ``payload`` under ``key``. Where that is impossible, warn once and go on without."""
        if not self._writable:
            return
        import tempfile  # brings compressors, which most processes, that only read, do without

        head = _MAGIC + key.encode() + b"\n"
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, unfinished = tempfile.mkstemp(_UNFINISHED, key[:16] + ".", self.directory)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(head + sha256(payload).digest() + payload)
                Path(unfinished).replace(self._path(key))
            except BaseException:
                Path(unfinished).unlink(missing_ok=True)
                raise
            self._room -= len(payload)
            if self._room < 0:
                self._evict()
        except OSError as error:
            self._writable = False
            warnings.warn(
                f"compiled kernels are not kept: {self.directory} cannot be written ({error}). Set "
                "GRAPHROOT_CACHE_DIR to a directory that can.",
                RuntimeWarning,
                stacklevel=2,
            )

    def _path(self, key: str) -> Path:
        return self.directory / (key + _SUFFIX)

    def _evict(self) -> None:
        """Remove the least recently used entries of a full cache, and what crashed writers left."""
        entries: list[tuple[float, int, str]] = []
        now = time.time()
        with os.scandir(self.directory) as listing:
            for entry in listing:
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat()
                    if entry.name.endswith(_SUFFIX):
                        entries.append((status.st_mtime, status.st_size, entry.path))
                    elif entry.name.endswith(_UNFINISHED) and now - status.st_mtime > _ABANDONED_SECONDS:
                        Path(entry.path).unlink(missing_ok=True)
        total = sum(size for _, size, _ in entries)
        if total > self.limit:
            for _, size, path in sorted(entries):
                if total <= self.limit * _FILL_SHARE:
                    break
                Path(path).unlink(missing_ok=True)
                total -= size
        self._room = max((self.limit - total) * _RESCAN_SHARE, self.limit * _LEAST_ROOM)


def _trusted(status: os.stat_result) -> bool:
    """Whether only this user, or root, can have written a file."""
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)

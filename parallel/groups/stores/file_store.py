"""A store in a file, for processes that share a file system."""

from __future__ import annotations

import atexit
import fcntl
import os
import struct
import threading
import time
import weakref
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from parallel.groups.errors import DistStoreError

from .store import Store, timeout_error
from .table import MAXIMUM_BYTES, WRITES, Operation, Request, Table, unpack_request

if TYPE_CHECKING:
    from collections.abc import Iterator

# The file is a log of what was written: each record is a length and a request, and every process replays it into a
# table of its own. Under the lock nobody sees half a record, unless its writer died in the middle.
_LENGTH = struct.Struct("<I")
# The users of a store with a world size are counted in the log, under keys that no caller can name.
_JOINED, _LEFT = b"\xff joined", b"\xff left"


#: Those of this process.
_stores: weakref.WeakSet[FileStore] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Leave the files of stores that nobody has closed, while there are modules to do it with."""
    for store in list(_stores):
        with suppress(DistStoreError, OSError):
            store.close()


class FileStore(Store):
    """A store in a file, for processes that share a file system. See :class:`parallel.Store` for the operations.

    >>> store = parallel.FileStore("/shared/job7", world_size=2)  # doctest: +SKIP
    >>> parallel.init_process_group("gloo", store=store, rank=0, world_size=2)  # doctest: +SKIP

    Parameters
    ----------
    file_name : str
        The file, which is created if it does not exist. One file serves one job.
    world_size : int
        How many objects use the file; the last one that is closed removes it. A negative number leaves it in place.

    Raises
    ------
    DistStoreError
        If the file cannot be opened, is not that of a store, or was opened more than ``world_size`` times: it was left
        behind by an earlier job then, and has to be removed.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self._path = Path(file_name)
        self._world_size = world_size
        self._table = Table()
        self._replayed = 0
        self._thread_lock = threading.Lock()
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DistStoreError(f"cannot open the file {file_name!r} of a FileStore: {error}") from error
        self._open = True
        _stores.add(self)
        self._process = os.getpid()
        if world_size >= 0:
            self._join()

    @property
    def path(self) -> str:
        """The file's name, as it was passed."""
        return str(self._path)

    def clone(self) -> Store:
        """Another object for the same file, with the same timeout. It does not count among the ``world_size`` users.

        Raises
        ------
        DistStoreError
            If the file cannot be opened.
        """
        twin = FileStore(str(self._path))
        twin._timeout = self._timeout
        return twin

    def close(self) -> None:
        """Close the file; the last of ``world_size`` users removes it. Idempotent.

        Raises
        ------
        DistStoreError
            If the file is damaged; it is closed all the same.
        """
        with self._thread_lock:
            if not self._open:
                return
            self._open = False
            try:
                # A child that was forked is no user of its own.
                if self._world_size >= 0 and self._process == os.getpid():
                    with self._locked():
                        left = self._write(Request(Operation.ADD, (_LEFT,), (b"1",)))
                        if int(left[0]) >= self._world_size and self._is_current():
                            self._path.unlink(missing_ok=True)
            finally:
                os.close(self._file)

    def __del__(self) -> None:
        if getattr(self, "_open", False):
            self.close()

    def __repr__(self) -> str:
        return f"FileStore({str(self._path)!r}, {self._world_size})"

    def _join(self) -> None:
        for _ in range(100):
            with self._locked():
                # The last user of an earlier store may have removed the file since it was opened.
                if self._is_current():
                    joined = int(self._write(Request(Operation.ADD, (_JOINED,), (b"1",)))[0])
                    break
            os.close(self._file)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        else:
            raise DistStoreError(
                f"the file {str(self._path)!r} is removed again and again while it is opened"
            )
        if joined > self._world_size:
            self._open = False
            os.close(self._file)
            raise DistStoreError(
                f"the file {str(self._path)!r} of a FileStore has been opened {joined} times for a world size of "
                f"{self._world_size}: it was left by an earlier job, or the ranks disagree on the world size; remove "
                f"it, or give another file"
            )

    def _reopen(self) -> None:
        # A forked child's file is its parent's, lock and all. The path may be gone; the file itself is not.
        inherited = self._file
        self._file = os.open(f"/proc/self/fd/{inherited}", os.O_RDWR | os.O_CLOEXEC)
        os.close(inherited)
        self._process = os.getpid()
        self._world_size = -1

    def _is_current(self) -> bool:
        try:
            current = self._path.stat()
        except FileNotFoundError:
            return False
        own = os.fstat(self._file)
        return (current.st_ino, current.st_dev) == (own.st_ino, own.st_dev)

    def _call(self, request: Request, timeout: float) -> tuple[bytes, ...]:
        deadline = time.monotonic() + timeout
        pause = 0.001
        while True:
            with self._thread_lock:
                if not self._open:
                    raise DistStoreError(f"{self!r} is closed")
                if self._process != os.getpid():
                    self._reopen()
                if request.operation in WRITES:
                    with self._locked():
                        self._replay()
                        missing = self._table.missing(request)
                        if not missing:
                            return self._visible(request, self._write(request))
                else:
                    # A quick look at the size spares waiting processes the lock.
                    if os.fstat(self._file).st_size > self._replayed:
                        with self._locked(shared=True):
                            self._replay()
                    missing = self._table.missing(request)
                    if not missing:
                        return self._visible(request, self._table.answer(request))
            left = deadline - time.monotonic()
            if left <= 0:
                raise timeout_error(self, missing, timeout)
            time.sleep(min(pause, left))
            pause = min(2 * pause, 0.02)

    def _visible(self, request: Request, answer: tuple[bytes, ...]) -> tuple[bytes, ...]:
        own = [key for key in (_JOINED, _LEFT) if key in self._table.values]
        if request.operation is Operation.COUNT:
            return (b"%d" % (int(answer[0]) - len(own)),)
        if request.operation is Operation.LIST:
            return tuple(key for key in answer if key not in own)
        return answer

    def _write(self, request: Request) -> tuple[bytes, ...]:
        self._replay()
        answer = self._table.answer(request)
        body = request.pack()
        record = _LENGTH.pack(len(body)) + body
        # What a writer that died left unfinished lies behind the last whole record, and is overwritten.
        os.ftruncate(self._file, self._replayed)
        written = 0
        while written < len(record):
            written += os.pwrite(self._file, record[written:], self._replayed + written)
        self._replayed += len(record)
        return answer

    def _replay(self) -> None:
        size = os.fstat(self._file).st_size
        while self._replayed + _LENGTH.size <= size:
            (length,) = _LENGTH.unpack(self._read(_LENGTH.size, self._replayed))
            end = self._replayed + _LENGTH.size + length
            if length > MAXIMUM_BYTES:
                raise self._corrupt()
            if end > size:
                return
            try:
                request = unpack_request(self._read(length, self._replayed + _LENGTH.size))
                self._table.answer(request)
            except (ValueError, LookupError):
                raise self._corrupt() from None
            self._replayed = end

    def _read(self, length: int, offset: int) -> bytes:
        pieces = []
        while length:
            piece = os.pread(self._file, length, offset)
            if not piece:
                raise self._corrupt()
            pieces.append(piece)
            length -= len(piece)
            offset += len(piece)
        return b"".join(pieces)

    def _corrupt(self) -> DistStoreError:
        return DistStoreError(
            f"the file {str(self._path)!r} is not the log of a FileStore (at byte {self._replayed}): remove it, or give "
            f"another file"
        )

    @contextmanager
    def _locked(self, shared: bool = False) -> Iterator[None]:
        # Nobody holds the lock while it waits for anything, so this comes back; the kernel ends a dead holder's.
        fcntl.flock(self._file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

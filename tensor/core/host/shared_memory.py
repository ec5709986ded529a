"""Memory that several processes map: anonymous blocks, which live as long as a process holds one of their descriptors.

A block is made under a name in ``/dev/shm`` that carries the process id, and unlinked at once, so that nothing is left
however the processes end; who gets its descriptor maps the same memory. With the strategy ``"file_system"`` the name
stays: a process that is given it opens the block, and the last one that lets go of it unlinks it. Who holds a block has
a lock on it, which the system takes back from a process that is killed, and tensors that are under way are counted in
the block itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_FOLDER = Path("/dev/shm")
_PREFIX = "graphroot"
#: Ways to hand a block to another process: by its descriptor, or by its name.
STRATEGIES = ("file_descriptor", "file_system")
#: At the end of a block with a name: how many messages with it are under way.
_COUNT = struct.Struct("<q")
_ALIGNED = 64


def new_name() -> str:
    """Name of a block, with the process id, so that who finds one that a killed process left knows whose it was."""
    return f"{_PREFIX}-{os.getpid()}-{os.urandom(4).hex()}"


def reserve(descriptor: int, size: int) -> bool:
    """Whether there is room: without asking, writing where there is none would kill the process."""
    if descriptor < 0 or not hasattr(os, "posix_fallocate"):
        return True
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError:
        return False
    return True


class _Sharing:
    """How this process hands its blocks to others."""

    __slots__ = ("strategy",)

    def __init__(self) -> None:
        self.strategy = STRATEGIES[0]


sharing = _Sharing()


class SharedBlock:
    """Shared memory that this process has mapped, and its descriptor, by which others get it.

    Attributes
    ----------
    size : int
        Bytes for the user.
    name : str or None
        Name of the file in ``/dev/shm``; ``None`` for a block that has none any more.
    descriptor : int
        Of the file.
    """

    __slots__ = ("__weakref__", "_map", "_memory", "descriptor", "name", "size")

    def __init__(self, descriptor: int, size: int, name: str | None) -> None:
        self.descriptor = descriptor
        self.size = size
        self.name = name
        self._map = mmap.mmap(descriptor, size if name is None else _with_count(size))
        self._memory: NDArray[np.uint8] = np.frombuffer(self._map, np.uint8)

    @classmethod
    def create(cls, size: int) -> SharedBlock:
        """A new block of ``size`` bytes, all 0; with a name where the strategy is ``"file_system"``.

        Raises
        ------
        RuntimeError
            If there is no shared memory left, or the system has none.
        """
        name, named = new_name(), sharing.strategy == "file_system"
        try:
            descriptor = os.open(_FOLDER / name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise RuntimeError(
                f"cannot make shared memory {_FOLDER / name}: {error.strerror}; send a copy of the elements, such as "
                "x.numpy().tobytes()"
            ) from error
        whole = _with_count(size) if named else size
        mapped = False
        try:
            os.ftruncate(descriptor, whole)
            if not reserve(descriptor, whole):
                raise RuntimeError(
                    f"no shared memory left for {size} bytes in {_FOLDER}: make it larger (a container's --shm-size), or "
                    "share fewer tensors"
                )
            if named:
                fcntl.flock(descriptor, fcntl.LOCK_SH)
            result = cls(descriptor, size, name if named else None)
            mapped = True
            return result
        finally:
            if not mapped:
                os.close(descriptor)
            if not (mapped and named):
                (_FOLDER / name).unlink()

    @classmethod
    def open(cls, name: str, size: int) -> SharedBlock:
        """The block that another process has under way to this one.

        Raises
        ------
        RuntimeError
            If it is not there any more.
        """
        if not re.fullmatch(rf"{_PREFIX}-\d+-[0-9a-f]+", name):
            raise RuntimeError(f"{name!r} is no name of shared memory of tensors")
        try:
            descriptor = os.open(_FOLDER / name, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise RuntimeError(
                f"the shared memory {_FOLDER / name} of a tensor is gone ({error.strerror}): it is received once by each "
                "message that it was sent with"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            result = cls(descriptor, size, name)
        except BaseException:
            os.close(descriptor)
            raise
        result.add(-1)
        return result

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (self.size,),
            "typestr": "|u1",
            "data": (self._memory.ctypes.data, False),
            "version": 3,
        }

    @property
    def identity(self) -> tuple[int, int]:
        """What is the same for the same memory in all processes."""
        status = os.fstat(self.descriptor)
        return status.st_dev, status.st_ino

    def add(self, messages: int) -> int:
        """Count messages that are under way, and return how many are."""
        with self._counting():
            at = _with_count(self.size) - _COUNT.size
            (count,) = _COUNT.unpack_from(self._map, at)
            _COUNT.pack_into(self._map, at, count + messages)
        result: int = count + messages
        return result

    @contextlib.contextmanager
    def _counting(self) -> Iterator[None]:
        # The block itself is locked by all that hold it; records of a file are locked by processes.
        fcntl.lockf(self.descriptor, fcntl.LOCK_EX, 1)
        try:
            yield
        finally:
            fcntl.lockf(self.descriptor, fcntl.LOCK_UN, 1)

    def __del__(self) -> None:
        descriptor = getattr(self, "descriptor", -1)
        if descriptor < 0:
            return
        if self.name is not None and hasattr(self, "_map"):
            with contextlib.suppress(Exception):
                _unlink_unless_held(self.name, descriptor, self.add(0))
        os.close(descriptor)


def _with_count(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED + _COUNT.size


def _unlink_unless_held(name: str, descriptor: int, under_way: int) -> None:
    """Unlink a block of which nobody else holds the lock, and that is not under way to anybody."""
    if under_way > 0:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    with contextlib.suppress(FileNotFoundError):
        (_FOLDER / name).unlink()


def remove_abandoned() -> None:
    """Unlink blocks with names that processes left that were killed, so that none of them is alive or holds one."""
    with contextlib.suppress(OSError):
        for path in _FOLDER.glob(f"{_PREFIX}-*"):
            match = re.fullmatch(rf"{_PREFIX}-(\d+)-[0-9a-f]{{8}}", path.name)
            if match is None or Path(f"/proc/{match[1]}").exists():
                continue
            with contextlib.suppress(OSError):
                descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                try:
                    _unlink_unless_held(path.name, descriptor, 0)
                finally:
                    os.close(descriptor)

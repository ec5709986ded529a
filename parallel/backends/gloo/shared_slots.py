"""Memory that the ranks of one machine share, through which long messages go instead of through the network.

Each rank owns slots for every other rank. It copies a message into a free one and sends the number of the slot over
the connection, whose order stays that of the messages; the receiver copies it out and marks the slot free. The memory
has no name in a file system, so nothing is left when processes die: the others open it by the owner's process id and
descriptor, which the system allows to the same user only, and look for a random token in it.
"""

from __future__ import annotations

import hmac
import mmap
import os
import secrets
import stat
import struct
import time
from typing import TYPE_CHECKING

import numpy as np

from parallel.groups.errors import DistBackendError
from parallel.groups.waiting import seconds_until

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from numpy.typing import NDArray

PIECE_BYTES = 1 << 19
"""Long messages travel in pieces of this size, 512 KiB, which is also that of a slot."""
SHARED_BYTES = 1 << 14
"""Shorter messages than 16 KiB are faster over the connection."""

_SLOTS = 4
_TOKEN_BYTES = 32
_MACHINE_BYTES = 16
# The token, a mark for each slot on a cache line of its own, then the slots.
_LINE = 64
_FREE, _FULL = 0, 1
_GREETING = struct.Struct(f"<?qi{_TOKEN_BYTES}s{_MACHINE_BYTES}s")


def _slots_at(size: int) -> int:
    marks = _LINE * (1 + size * _SLOTS)
    return -(-marks // mmap.PAGESIZE) * mmap.PAGESIZE


def _region_bytes(size: int) -> int:
    return _slots_at(size) + size * _SLOTS * PIECE_BYTES


class Outbox:
    """The slots of this rank for one other."""

    def __init__(self, region: NDArray[np.uint8], size: int, reader: int) -> None:
        self._marks = [region[_LINE * (1 + reader * _SLOTS + slot) :][:1] for slot in range(_SLOTS)]
        start = _slots_at(size) + reader * _SLOTS * PIECE_BYTES
        self._slots = [region[start + slot * PIECE_BYTES :][:PIECE_BYTES] for slot in range(_SLOTS)]
        self._next = 0

    def fill(self, body: memoryview | bytes, check: Callable[[], None]) -> int:
        """Copy ``body`` into the next slot, once it is free; its number. ``check`` raises to end the wait."""
        slot = self._next
        mark = self._marks[slot]
        pause = 2e-5
        while mark[0] != _FREE:
            check()
            time.sleep(pause)
            pause = min(2 * pause, 1e-3)
        # NumPy copies without holding up other threads. What orders the copy before the message that announces it, and
        # the receiver's before its mark, are the system calls and locks between them.
        np.copyto(self._slots[slot][: len(body)], np.frombuffer(body, np.uint8))
        mark[0] = _FULL
        self._next = (slot + 1) % _SLOTS
        return slot

    def take_back(self, slot: int) -> None:
        """The message in ``slot`` has not been announced."""
        self._marks[slot][0] = _FREE
        self._next = slot


class Inbox:
    """Another rank's slots for this one."""

    def __init__(self, region: NDArray[np.uint8], size: int, rank: int) -> None:
        # The same view of them as the owner's.
        self._owner = Outbox(region, size, rank)

    def empty(self, slot: int, view: memoryview) -> None:
        """Copy a message out of ``slot``, which is free then."""
        if not 0 <= slot < _SLOTS or len(view) > PIECE_BYTES:
            raise ValueError(f"no slot {slot} of {len(view)} bytes")
        np.copyto(np.frombuffer(view, np.uint8), self._owner._slots[slot][: len(view)])
        self._owner._marks[slot][0] = _FREE


class SharedMemory:
    """What this rank shares with those on its machine: :attr:`outboxes` and :attr:`inboxes` by rank."""

    def __init__(
        self, connections: dict[int, socket.socket], rank: int, size: int, machine: bytes, deadline: float
    ) -> None:
        self.outboxes: dict[int, Outbox] = {}
        self.inboxes: dict[int, Inbox] = {}
        self._descriptor = -1
        token = secrets.token_bytes(_TOKEN_BYTES)
        region = self._allocate(size, token) if len(connections) and len(machine) == _MACHINE_BYTES else None
        offered = region is not None
        greeting = _GREETING.pack(
            offered, os.getpid(), self._descriptor, token, machine.ljust(_MACHINE_BYTES)
        )
        try:
            for other, connection in connections.items():
                _send(connection, greeting, other, deadline)
            for other, connection in connections.items():
                theirs = _GREETING.unpack(_receive(connection, _GREETING.size, other, deadline))
                memory = (
                    _opened(size, *theirs[1:4]) if theirs[0] and offered and theirs[4] == machine else None
                )
                if memory is not None:
                    self.inboxes[other] = Inbox(memory, size, rank)
                _send(connection, b"\1" if memory is not None else b"\0", other, deadline)
            for other, connection in connections.items():
                if _receive(connection, 1, other, deadline) == b"\1" and region is not None:
                    self.outboxes[other] = Outbox(region, size, other)
        finally:
            # All that could open it have it.
            if self._descriptor >= 0:
                os.close(self._descriptor)

    def _allocate(self, size: int, token: bytes) -> NDArray[np.uint8] | None:
        try:
            self._descriptor = os.memfd_create("graphroot ranks", os.MFD_CLOEXEC)
            # Pages are there when they are written to first.
            os.ftruncate(self._descriptor, _region_bytes(size))
            region = np.frombuffer(mmap.mmap(self._descriptor, _region_bytes(size)), np.uint8)
        except (OSError, AttributeError):
            return None
        region[:_TOKEN_BYTES] = np.frombuffer(token, np.uint8)
        return region


def _opened(size: int, process: int, descriptor: int, token: bytes) -> NDArray[np.uint8] | None:
    """Another rank's memory; None where it cannot be had."""
    try:
        file = os.open(f"/proc/{process}/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        there = os.fstat(file)
        if not stat.S_ISREG(there.st_mode) or there.st_size != _region_bytes(size):
            return None
        region = np.frombuffer(mmap.mmap(file, there.st_size), np.uint8)
    except OSError:
        return None
    finally:
        os.close(file)
    return region if hmac.compare_digest(region[:_TOKEN_BYTES].tobytes(), token) else None


def _send(connection: socket.socket, data: bytes, other: int, deadline: float) -> None:
    connection.settimeout(seconds_until(deadline, 0.001))
    try:
        connection.sendall(data)
    except OSError as error:
        raise _lost(other, error) from None


def _receive(connection: socket.socket, length: int, other: int, deadline: float) -> bytes:
    data = b""
    while len(data) < length:
        connection.settimeout(seconds_until(deadline, 0.001))
        try:
            piece = connection.recv(length - len(data))
        except OSError as error:
            raise _lost(other, error) from None
        if not piece:
            raise _lost(other, "it closed the connection")
        data += piece
    return data


def _lost(other: int, why: object) -> DistBackendError:
    return DistBackendError(f"rank {other} has ended, or hangs, while the ranks connected ({why})")

"""What every store does with keys: one table of operations, and the bytes they travel as."""

from __future__ import annotations

import enum
import struct
from collections import deque
from dataclasses import dataclass

MAXIMUM_BYTES = 1 << 28
"""No request and no answer is longer (256 MiB): a length beyond it is garbage or a stranger."""

MAXIMUM_FIELDS = 1 << 20
"""No request has more keys and values: each costs a server time and memory beyond its bytes."""

_COUNTS = struct.Struct("<BHI")
_LENGTH = struct.Struct("<I")


class Operation(enum.IntEnum):
    """What a store can be asked; the comment says what comes back."""

    SET = 1  # nothing
    GET = 2  # the values, once all keys are there
    WAIT = 3  # nothing, once all keys are there
    CHECK = 4  # b"1" when all keys are there, else b"0"
    ADD = 5  # the sum
    APPEND = 6  # nothing
    COMPARE_SET = 7  # the value afterwards
    DELETE = 8  # b"1" when the key was there, else b"0"
    COUNT = 9  # the number of keys
    LIST = 10  # the keys
    PUSH = 11  # nothing
    POP = 12  # the oldest value of the queue, once there is one
    LENGTH = 13  # the length of the queue


# How many keys and values a request has, where that is fixed.
_FORMS = {
    Operation.ADD: (1, 1),
    Operation.APPEND: (1, 1),
    Operation.COMPARE_SET: (1, 2),
    Operation.DELETE: (1, 0),
    Operation.COUNT: (0, 0),
    Operation.LIST: (0, 0),
    Operation.PUSH: (1, 1),
    Operation.POP: (1, 0),
    Operation.LENGTH: (1, 0),
}


WRITES = frozenset(
    {
        Operation.SET,
        Operation.ADD,
        Operation.APPEND,
        Operation.COMPARE_SET,
        Operation.DELETE,
        Operation.PUSH,
        Operation.POP,
    }
)


@dataclass(frozen=True, slots=True)
class Request:
    """An operation with its keys and values."""

    operation: Operation
    keys: tuple[bytes, ...] = ()
    values: tuple[bytes, ...] = ()

    def pack(self) -> bytes:
        fields = (*self.keys, *self.values)
        head = _COUNTS.pack(self.operation, 0, len(self.keys))
        return head + pack_fields(fields)


def pack_fields(fields: tuple[bytes, ...]) -> bytes:
    """Each field with its length before it."""
    return b"".join(piece for field in fields for piece in (_LENGTH.pack(len(field)), field))


def unpack_fields(data: bytes, limit: int | None = None) -> tuple[bytes, ...]:
    """The fields that :func:`pack_fields` joined; ``ValueError`` when the lengths do not add up, or above ``limit``."""
    fields: list[bytes] = []
    at = 0
    while at < len(data):
        if len(fields) == limit:
            raise ValueError(f"more than {limit} parts")
        if at + _LENGTH.size > len(data):
            raise ValueError("a part without a length")
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if at + length > len(data):
            raise ValueError(f"a part of {length} bytes where {len(data) - at} are left")
        fields.append(data[at : at + length])
        at += length
    return tuple(fields)


def unpack_request(data: bytes) -> Request:
    """The request in ``data``; ``ValueError`` when it is none, or has not the keys and values of its operation."""
    if len(data) < _COUNTS.size:
        raise ValueError("a request that is too short")
    code, _, key_count = _COUNTS.unpack_from(data)
    operation = Operation(code)
    fields = unpack_fields(data[_COUNTS.size :], MAXIMUM_FIELDS)
    if key_count > len(fields):
        raise ValueError(f"a request with {key_count} keys in {len(fields)} parts")
    value_count = len(fields) - key_count
    expected = _FORMS.get(operation) or (key_count, key_count if operation is Operation.SET else 0)
    if (key_count, value_count) != expected:
        raise ValueError(f"{operation.name} with {key_count} keys and {value_count} values")
    return Request(operation, fields[:key_count], fields[key_count:])


class Table:
    """Keys and queues, and what every operation does to them. Not safe between threads: its owner locks."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self._queues: dict[bytes, deque[bytes]] = {}

    def missing(self, request: Request) -> tuple[bytes, ...]:
        """The keys that ``request`` has to wait for, in order; empty when it can be answered now."""
        if request.operation in (Operation.GET, Operation.WAIT):
            return tuple(key for key in request.keys if key not in self.values)
        if request.operation is Operation.POP and not self._queues.get(request.keys[0]):
            return request.keys
        return ()

    def has_all(self, request: Request) -> bool:
        """Whether nothing is :meth:`missing`; looks no further than to the first key that is."""
        if request.operation in (Operation.GET, Operation.WAIT):
            return all(key in self.values for key in request.keys)
        return request.operation is not Operation.POP or bool(self._queues.get(request.keys[0]))

    def answer(self, request: Request) -> tuple[bytes, ...]:
        """Do what ``request`` says; nothing of it may be :meth:`missing`.

        Raises
        ------
        ValueError
            ``add`` of or to a value that is no integer; nothing has changed.
        """
        keys, values, table = request.keys, request.values, self.values
        match request.operation:
            case Operation.SET:
                table.update(zip(keys, values, strict=True))
                return ()
            case Operation.GET:
                return tuple(table[key] for key in keys)
            case Operation.WAIT:
                return ()
            case Operation.CHECK:
                return (b"1" if all(key in table for key in keys) else b"0",)
            case Operation.ADD:
                total = b"%d" % (self._integer(keys[0]) + int(values[0]))
                table[keys[0]] = total
                return (total,)
            case Operation.APPEND:
                table[keys[0]] = table.get(keys[0], b"") + values[0]
                return ()
            case Operation.COMPARE_SET:
                return (self._compare_set(keys[0], *values),)
            case Operation.DELETE:
                return (b"1" if table.pop(keys[0], None) is not None else b"0",)
            case Operation.COUNT:
                return (b"%d" % len(table),)
            case Operation.LIST:
                return tuple(table)
            case Operation.PUSH:
                self._queues.setdefault(keys[0], deque()).append(values[0])
                return ()
            case Operation.POP:
                queue = self._queues[keys[0]]
                value = queue.popleft()
                if not queue:
                    del self._queues[keys[0]]
                return (value,)
            case Operation.LENGTH:
                return (b"%d" % len(self._queues.get(keys[0], ())),)

    def _integer(self, key: bytes) -> int:
        value = self.values.get(key, b"0")
        try:
            return int(value)
        except ValueError:
            message = f"add() counts with integers, and the value of {key.decode()!r} is {value[:50]!r}"
            raise ValueError(message) from None

    def _compare_set(self, key: bytes, expected: bytes, desired: bytes) -> bytes:
        current = self.values.get(key)
        # As PyTorch does it: an absent key is set when "" is expected, and otherwise what was expected comes back.
        if current is None and expected:
            return expected
        if current is None or current == expected:
            self.values[key] = desired
            return desired
        return current

"""Key-value stores by which the processes of a job find each other: what they share, and two of them."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING

from parallel.groups.errors import DistStoreError
from parallel.groups.waiting import seconds_until

from .table import Operation, Request, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_TIMEOUT = timedelta(seconds=300)


class QueueEmptyError(DistStoreError):
    """The queue of :meth:`Store.queue_pop` is empty, and ``block`` is False.

    A :class:`parallel.DistStoreError`; nothing was taken from any queue.
    """


class Store(ABC):
    """A key-value store that the processes of a job share. Base class of the stores, with all of their operations.

    Keys are strings; values are strings or bytes, and come back as bytes. An operation that waits does so for
    :attr:`timeout` at most (300 seconds unless set). A store may be used from several threads at once.

    >>> store = parallel.HashStore()
    >>> store.set("ready", "yes")
    >>> store.get("ready"), store.add("count", 2), store.add("count", 3)
    (b'yes', 2, 5)

    Raises
    ------
    TypeError
        From every operation: if a key is not a string, a value neither a string nor bytes, or one string was passed
        where a sequence of keys is expected.
    DistStoreError
        From every operation: if keys were not set within the timeout (the message names them), if the store was closed,
        and of a :class:`parallel.FileStore`, if its file is damaged.
    DistNetworkError
        From every operation of a :class:`parallel.TCPStore`: if the process that serves it ended or does not answer.
    """

    def __init__(self) -> None:
        self._timeout = DEFAULT_TIMEOUT

    @property
    def timeout(self) -> timedelta:
        """How long operations that wait do so at most, a ``datetime.timedelta``; 300 seconds unless set."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Wait for ``timeout`` at most from now on; clones that exist already keep theirs.

        Raises
        ------
        TypeError
            If ``timeout`` is not a ``datetime.timedelta``.
        ValueError
            If it is negative.
        """
        self._timeout = checked_timeout(timeout)

    def set(self, key: str, value: str | bytes) -> None:
        """Set ``key`` to ``value``, in place of a value that it has.

        A str is stored as UTF-8. Ranks that wait for the key go on. Raises as :class:`Store` says.
        """
        self._ask(Operation.SET, [key], [value])

    def get(self, key: str) -> bytes:
        """The value of ``key`` as bytes; waits until it is set.

        Raises as :class:`Store` says: DistStoreError if the key was not set within :attr:`timeout`.
        """
        return self._ask(Operation.GET, [key])[0]

    def add(self, key: str, amount: int) -> int:
        """Add ``amount`` to the integer at ``key`` (0 when absent) atomically, and return the sum.

        The value is kept as decimal digits, so that :meth:`get` of a sum of 5 is ``b"5"``.

        Raises
        ------
        ValueError
            If the value of ``key`` is not an integer; it is unchanged then.
        TypeError, DistStoreError, DistNetworkError
            As :class:`Store` says.
        """
        return int(self._ask(Operation.ADD, [key], [b"%d" % amount])[0])

    def append(self, key: str, value: str | bytes) -> None:
        """Append ``value`` to the value of ``key``, which may be absent. Raises as :class:`Store` says.

        >>> store = parallel.HashStore()
        >>> store.append("log", "one,")
        >>> store.append("log", "two")
        >>> store.get("log")
        b'one,two'
        """
        self._ask(Operation.APPEND, [key], [value])

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        """Set ``key`` to ``desired`` if its value is ``expected``, atomically; returns the value after that as bytes.

        An absent key is set if ``expected`` is empty; otherwise ``expected`` is returned. Raises as :class:`Store` says.

        >>> store = parallel.HashStore()
        >>> store.compare_set("leader", "", "rank 3")  # the first one is the leader
        b'rank 3'
        >>> store.compare_set("leader", "", "rank 5")
        b'rank 3'
        """
        return self._ask(Operation.COMPARE_SET, [key], [expected, desired])[0]

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all ``keys`` are set, without waiting for them.

        True for no keys at all. Raises as :class:`Store` says.
        """
        return self._ask(Operation.CHECK, _checked_keys(keys)) == (b"1",)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all ``keys`` are set, for ``timeout`` (by default :attr:`timeout`) at most.

        Raises
        ------
        TypeError
            If ``keys`` is one string, or ``timeout`` not a ``datetime.timedelta``.
        ValueError
            If ``timeout`` is negative.
        DistStoreError, DistNetworkError
            As :class:`Store` says: DistStoreError names the keys that were not set.
        """
        self._ask(Operation.WAIT, _checked_keys(keys), timeout=timeout)

    def delete_key(self, key: str) -> bool:
        """Delete ``key``; returns whether it was set.

        Ranks that wait for it go on waiting. Raises as :class:`Store` says.
        """
        return self._ask(Operation.DELETE, [key]) == (b"1",)

    def num_keys(self) -> int:
        """Number of keys that are set. Queues do not count. Raises as :class:`Store` says."""
        return int(self._ask(Operation.COUNT)[0])

    def list_keys(self) -> list[str]:
        """All keys that are set, in no particular order.

        Queues are not among them. Raises as :class:`Store` says.
        """
        return [key.decode() for key in self._ask(Operation.LIST)]

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values of ``keys`` as bytes, in their order; waits until all are set.

        Raises as :class:`Store` says: TypeError if ``keys`` is one string, DistStoreError if one was not set in time.
        """
        return list(self._ask(Operation.GET, _checked_keys(keys)))

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Set ``keys[i]`` to ``values[i]``, all atomically.

        Raises
        ------
        ValueError
            If there are not as many values as keys.
        TypeError, DistStoreError, DistNetworkError
            As :class:`Store` says.
        """
        if len(keys) != len(values):
            raise ValueError(f"multi_set() takes a value for each key, not {len(values)} for {len(keys)}")
        self._ask(Operation.SET, _checked_keys(keys), values)

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Append ``value`` to the queue ``key``, which need not exist. Queues and values have separate keys.

        Raises as :class:`Store` says.
        """
        self._ask(Operation.PUSH, [key], [value])

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Remove and return the oldest value of the queue ``key`` as bytes, waiting for one if ``block``.

        >>> store = parallel.HashStore()
        >>> store.queue_push("jobs", "first")
        >>> store.queue_push("jobs", "second")
        >>> store.queue_pop("jobs"), store.queue_len("jobs")
        (b'first', 1)

        Raises
        ------
        QueueEmptyError
            If the queue is empty and ``block`` is False.
        DistStoreError
            If ``block`` and no value came within :attr:`timeout`.
        TypeError, DistNetworkError
            As :class:`Store` says.
        """
        if block:
            return self._ask(Operation.POP, [key])[0]
        try:
            return self._ask(Operation.POP, [key], timeout=timedelta(0))[0]
        except DistStoreError:
            raise QueueEmptyError(f"the queue {key!r} is empty") from None

    def queue_len(self, key: str) -> int:
        """Number of values in the queue ``key``; 0 if there is no such queue.

        Raises as :class:`Store` says.
        """
        return int(self._ask(Operation.LENGTH, [key])[0])

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Wait until ``world_size`` callers have called this with ``key``.

        A key serves one barrier. The wait ends after ``timeout``, by default :attr:`timeout`.

        Raises
        ------
        DistStoreError
            If not all callers came in time; the message says how many did.
        TypeError, ValueError
            If ``timeout`` is not a ``datetime.timedelta``, or negative.
        """
        members, last = f"{key}/num_members", f"{key}/last_member"
        if self.add(members, 1) == world_size:
            self.set(last, "1")
        try:
            self.wait([last], timeout)
        except DistStoreError as error:
            raise DistStoreError(
                f"barrier {key!r}: {self.add(members, 0)} of {world_size} callers have come ({error})"
            ) from None

    def has_extended_api(self) -> bool:
        """Whether the store has ``append``, ``multi_get`` and ``multi_set``: True for every store here."""
        return True

    @abstractmethod
    def clone(self) -> Store:
        """Another object for the same keys, with a connection or file of its own and the same timeout.

        Both may be used by different threads at once, and one that waits does not hold up the other. Raises as the
        constructor does.
        """

    def close(self) -> None:  # noqa: B027 (a store in memory has nothing to give back)
        """Release connections, threads and files. Idempotent."""

    def local_address(self) -> str | None:
        """The address of this machine on the network that reaches the store; None where there is no network.

        Under it other ranks can reach this one, which is why connections between ranks listen there.
        """
        return None

    def _ask(
        self,
        operation: Operation,
        keys: Sequence[str] = (),
        values: Sequence[str | bytes] = (),
        timeout: timedelta | None = None,
    ) -> tuple[bytes, ...]:
        limit = self._timeout if timeout is None else checked_timeout(timeout)
        request = Request(operation, tuple(map(self._key, keys)), tuple(map(_value, values)))
        return self._call(request, limit.total_seconds())

    def _key(self, key: str) -> bytes:
        if not isinstance(key, str):
            raise TypeError(f"keys are strings, not {type(key).__name__}")
        return key.encode()

    @abstractmethod
    def _call(self, request: Request, timeout: float) -> tuple[bytes, ...]:
        """Have ``request`` answered within ``timeout`` seconds."""


class HashStore(Store):
    """A store in the memory of one process, for its threads. See :class:`parallel.Store` for the operations.

    >>> store = parallel.HashStore()
    >>> store.set("key", "value")
    >>> store.clone().get("key")
    b'value'
    """

    def __init__(self) -> None:
        super().__init__()
        self._table = Table()
        self._changed = threading.Condition()

    def _call(self, request: Request, timeout: float) -> tuple[bytes, ...]:
        deadline = time.monotonic() + timeout
        with self._changed:
            while missing := self._table.missing(request):
                left = seconds_until(deadline)
                if not left:
                    raise timeout_error(self, missing, timeout)
                self._changed.wait(left)
            answer = self._table.answer(request)
            self._changed.notify_all()
        return answer

    def clone(self) -> Store:
        """Another object for the same keys, with the same timeout.

        Both may be used by different threads at once.
        """
        twin = HashStore()
        twin._table, twin._changed, twin._timeout = self._table, self._changed, self._timeout
        return twin

    def __repr__(self) -> str:
        return "HashStore()"


class PrefixStore(Store):
    """A view of ``store`` in which every key has ``prefix/`` before it, so that several users of a store share no keys.

    >>> store = parallel.HashStore()
    >>> mine = parallel.PrefixStore("job7", store)
    >>> mine.set("ready", "1")
    >>> store.list_keys(), mine.list_keys()
    (['job7/ready'], ['ready'])

    Parameters
    ----------
    prefix : str
        The prefix, without the slash.
    store : Store
        The store that holds the keys. The timeout is its own.
    """

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self._prefix = prefix
        self._store = store

    @property
    def underlying_store(self) -> Store:
        """The store that holds the keys, as it was passed."""
        return self._store

    @property
    def timeout(self) -> timedelta:
        """How long operations that wait do so at most, a ``datetime.timedelta``: that of the underlying store."""
        return self._store.timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Wait for ``timeout`` at most from now on, in the underlying store too.

        Raises as :meth:`Store.set_timeout` does.
        """
        self._store.set_timeout(timeout)

    def num_keys(self) -> int:
        """Number of keys of the underlying store, those with other prefixes too. Raises as :class:`Store` says."""
        return self._store.num_keys()

    def list_keys(self) -> list[str]:
        """The keys that have the prefix, without it, in no particular order.

        Queues are not among them. Raises as :class:`Store` says.
        """
        start = f"{self._prefix}/"
        return [key.removeprefix(start) for key in self._store.list_keys() if key.startswith(start)]

    def _ask(
        self,
        operation: Operation,
        keys: Sequence[str] = (),
        values: Sequence[str | bytes] = (),
        timeout: timedelta | None = None,
    ) -> tuple[bytes, ...]:
        for key in keys:
            self._key(key)
        return self._store._ask(operation, [f"{self._prefix}/{key}" for key in keys], values, timeout)

    def _call(self, request: Request, timeout: float) -> tuple[bytes, ...]:
        return self._store._call(request, timeout)

    def clone(self) -> Store:
        """The same prefix before a clone of the underlying store.

        Raises as the underlying store's ``clone`` does.
        """
        return PrefixStore(self._prefix, self._store.clone())

    def local_address(self) -> str | None:
        """The underlying store's answer; see :meth:`Store.local_address`.

        None where there is no network.
        """
        return self._store.local_address()

    def __repr__(self) -> str:
        return f"PrefixStore({self._prefix!r}, {self._store!r})"


def checked_timeout(timeout: timedelta) -> timedelta:
    """``timeout``, if it is a time to wait."""
    if not isinstance(timeout, timedelta):
        raise TypeError(f"a timeout is a datetime.timedelta, not {type(timeout).__name__}")
    if timeout < timedelta(0):
        raise ValueError(f"a timeout is not negative: {timeout}")
    return timeout


def timeout_error(store: Store, missing: Sequence[bytes], timeout: float) -> DistStoreError:
    """The error of a call that waited for keys that did not come."""
    names = ", ".join(repr(key.decode(errors="replace")) for key in missing[:8])
    more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
    return DistStoreError(f"waited {timeout:g} s for {names}{more} in {store!r}, which nobody has set")


def _value(value: str | bytes) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"values are strings or bytes, not {type(value).__name__}")


def _checked_keys(keys: Sequence[str]) -> Sequence[str]:
    if isinstance(keys, str):
        raise TypeError(f"a sequence of keys, not one string: [{keys!r}]")
    return keys

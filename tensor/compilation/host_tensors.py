"""Tensors on the CPU that a recorded function gets from outside: what it reads of their elements is known to nobody later.

A program has the layouts of its tensors only. Where the function asks for an element on the way, as ``item()``, branches and
indices do, it would do something else in a later call.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tensor.core.storage import HostStorage, PinnedStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tensor.methods.tensor import Tensor

#: What is called for storages that are watched, by their id.
_watchers: dict[int, Callable[[], None]] = {}


class _WatchedStorage(HostStorage):
    """Memory whose elements are asked for in the presence of a watcher."""

    __slots__ = ()

    def _host_access(self, *, writes: bool) -> None:
        _watchers[id(self)]()


class _WatchedPinnedStorage(PinnedStorage):
    """As :class:`_WatchedStorage`, of pinned memory."""

    __slots__ = ()

    def _host_access(self, *, writes: bool) -> None:
        _watchers[id(self)]()
        super()._host_access(writes=writes)


_WATCHED: dict[type, type] = {HostStorage: _WatchedStorage, PinnedStorage: _WatchedPinnedStorage}


class HostWatch:
    """Calls ``asked()`` when the host reads or writes elements of storages that are watched, while it is on.

    Parameters
    ----------
    asked : callable
        What is called.
    """

    def __init__(self, asked: Callable[[], None]) -> None:
        self._asked = asked
        self._storages: dict[int, Any] = {}
        #: Class and ``plain`` of each while it is watched.
        self._before: dict[int, tuple[type, bool]] = {}
        self._is_on = False

    def add(self, storage: Any) -> None:
        """Watch ``storage`` too, if it is on the CPU and nobody else watches it."""
        if id(storage) not in self._storages and type(storage) in _WATCHED:
            self._storages[id(storage)] = storage
            if self._is_on:
                self._watch(storage)

    def start(self) -> None:
        """Be on."""
        self._is_on = True
        for storage in self._storages.values():
            self._watch(storage)

    def stop(self) -> None:
        """Be off."""
        self._is_on = False
        for number, (cls, plain) in self._before.items():
            storage = self._storages[number]
            storage.__class__, storage.plain = cls, plain
            del _watchers[number]
        self._before = {}

    def forget(self) -> None:
        """Watch none of those that were added, any more."""
        self.stop()
        self._storages = {}

    def _watch(self, storage: Any) -> None:
        if type(storage) in _WATCHED:
            self._before[id(storage)] = type(storage), storage.plain
            _watchers[id(storage)] = self._asked
            # Arrays that tensors keep of plain memory are used without asking it.
            storage.__class__, storage.plain = _WATCHED[type(storage)], False


@contextmanager
def watched_on_host(tensors: Iterable[Tensor], asked: Callable[[], None]) -> Iterator[None]:
    """Inside, ``asked()`` is called when the host reads or writes elements of those of ``tensors`` that are on the CPU."""
    watch = HostWatch(asked)
    for x in tensors:
        watch.add(x._storage)
    watch.start()
    try:
        yield
    finally:
        watch.stop()

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


@contextmanager
def watched_on_host(tensors: Iterable[Tensor], asked: Callable[[], None]) -> Iterator[None]:
    """Inside, ``asked()`` is called when the host reads or writes elements of those of ``tensors`` that are on the CPU."""
    storages: list[Any] = [*{id(x._storage): x._storage for x in tensors}.values()]
    storages = [each for each in storages if type(each) in _WATCHED]
    before = [(type(each), each.plain) for each in storages]
    for each in storages:
        _watchers[id(each)] = asked
        # Arrays that tensors keep of plain memory are used without asking it.
        each.__class__, each.plain = _WATCHED[type(each)], False
    try:
        yield
    finally:
        for each, (cls, plain) in zip(storages, before, strict=True):
            each.__class__, each.plain = cls, plain
            del _watchers[id(each)]

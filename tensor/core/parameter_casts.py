"""Parameters in half precision, which stay right from one step of training to the next.

A program that casts its parameters at the beginning of each step keeps the results, and the optimizer writes them with the
parameters: they are not read once more. They are right as long as all that writes to a parameter is counted by the version of its
storage. What is not counted takes that trust away, for good: others that have been told the address of a parameter, CUDA graphs,
which write at each replay, and collective operations of several processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet, ref

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .storage import Storage

#: Storages of devices whose address was handed out.
_handed_out: WeakSet[Storage] = WeakSet()


class ParameterCast:
    """A parameter in another dtype.

    Attributes
    ----------
    layout : Layout
        The parameter's; it is all of its storage.
    version, address : int
        Those that the parameter's storage had when the cast was right.
    target : Tensor or None
        The cast; ``None`` once nobody has it.
    """

    __slots__ = ("_storage", "_target", "address", "layout", "version")

    def __init__(self, x: Any, target: Any) -> None:
        self._storage, self._target = ref(x._storage), ref(target)
        self.layout = x._layout
        storage: Any = x._storage
        self.version, self.address = storage.version, storage.address

    @property
    def target(self) -> Any:
        """See the class."""
        return self._target()

    def is_right(self, x: Any) -> bool:
        """Whether ``target`` is ``x`` in its dtype."""
        storage: Any = x._storage
        return (
            storage.version == self.version
            and storage.address == self.address
            and x._layout is self.layout
            and self._storage() is storage
        )


#: By the parameter's storage.
by_storage: WeakKeyDictionary[Storage, ParameterCast] = WeakKeyDictionary()


class _Trust:
    """Of the process: whether nothing but what versions count writes to parameters."""

    group_of_processes = False


_trust = _Trust()


def register(tensors: Sequence[Any], targets: Sequence[Any]) -> list[ParameterCast]:
    """Have optimizers write ``targets``, which have just been cast from ``tensors``, with these."""
    result = [ParameterCast(x, target) for x, target in zip(tensors, targets, strict=True)]
    by_storage.update((x._storage, each) for x, each in zip(tensors, result, strict=True))
    return result


def can_be_cached(x: Any) -> bool:
    """Whether all that writes to a tensor of a device is counted, and it is all of its storage."""
    layout, storage = x._layout, x._storage
    return (
        is_trusted(layout.device_state.runtime)
        and layout.dense
        and not x._offset
        and layout.nbytes == storage.capacity
        and storage.resizable()
        and storage not in _handed_out
    )


def hand_out(storage: Storage) -> None:
    """Note that the address of a device's storage goes to somebody who may write there."""
    _handed_out.add(storage)
    one = by_storage.pop(storage, None)
    if one is not None:
        # No version of a storage.
        one.version = -1 << 63


def group_of_processes_begins() -> None:
    """Note that collective operations write to tensors from now on, which versions do not count."""
    _trust.group_of_processes = True


def is_trusted(runtime: Any) -> bool:
    """Whether what was kept of a runtime's tensors may be used."""
    return not _trust.group_of_processes and not runtime.has_captured

"""CPU tensors in messages between processes: by shared memory, of which sender and receiver see each other's writes.

Importing this module has Python's ``multiprocessing`` (queues, pipes, pools, arguments of processes) hand tensors over
so. A storage goes once into a message, so that views of one storage are views of one there, too; a storage that comes a
second time, or comes back, is the one that is there already.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
import time
from multiprocessing import reduction, resource_sharer, util
from multiprocessing.context import get_spawning_popen
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakValueDictionary

import numpy as np

from tensor.core.host.shared_memory import STRATEGIES, SharedBlock, remove_abandoned, sharing
from tensor.core.storage import (
    DeviceStorage,
    ForeignStorage,
    HostStorage,
    PinnedStorage,
    rebuild_storage,
)
from tensor.methods.tensor import Tensor

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from tensor.core.storage import Storage

#: Storages over shared memory by its identity.
_known: WeakValueDictionary[tuple[int, int], HostStorage] = WeakValueDictionary()
_lock = threading.Lock()
#: Descriptors in messages of this process that nobody has fetched so far; they go with the process.
_unfetched: set[int] = set()
#: When a process waits at its end: queues are closed at 10, and the socket that receivers connect to is gone at 0.
_PRIORITY = 5
#: Threads of queues, which pickle what has been put.
_FEEDERS = "QueueFeederThread"
#: Seconds that a process waits at its end for receivers of its tensors, and between looks whether they came.
_PATIENCE, _PAUSE = 5.0, 0.002


def get_all_sharing_strategies() -> set[str]:
    """The ways to hand shared memory to another process: ``"file_descriptor"`` and ``"file_system"``.

    >>> sorted(tensor.multiprocessing.get_all_sharing_strategies())
    ['file_descriptor', 'file_system']
    """
    return set(STRATEGIES)


def get_sharing_strategy() -> str:
    """How this process hands shared memory to others: ``"file_descriptor"`` unless set."""
    return sharing.strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Set how this process hands shared memory to others from now on.

    Parameters
    ----------
    new_strategy : str
        ``"file_descriptor"``, the default: nothing is left behind however processes end, but each shared storage takes
        two file descriptors, and a sender must live until its tensors have been received (one that another process
        started waits some seconds for that when it ends). ``"file_system"``: by names
        in ``/dev/shm``, which the last process that lets go of the memory unlinks; those of processes that were killed
        go when this is called.

    Raises
    ------
    ValueError
        If there is no such way.
    """
    if new_strategy not in STRATEGIES:
        raise ValueError(
            f"unknown sharing strategy {new_strategy!r}; expected one of {', '.join(STRATEGIES)}"
        )
    if new_strategy == "file_system":
        remove_abandoned()
    sharing.strategy = new_strategy


def reduce_tensor(input: Tensor) -> tuple[Any, ...]:
    """What a message has of a tensor: how its elements lie in a storage, which goes by :func:`reduce_storage`.

    Raises
    ------
    RuntimeError
        If the tensor requires grad and is no leaf: what made it is not in the other process.
    """
    if input.requires_grad and not input.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
            "crossing process boundaries. If you just want to transfer the data, call detach() on the tensor before "
            "serializing (e.g., putting it on the queue)."
        )
    return input.__reduce_ex__(pickle.DEFAULT_PROTOCOL)


def reduce_storage(storage: HostStorage) -> tuple[Any, ...]:
    """What a message has of a storage: where to map its memory, which becomes shared if it is not yet."""
    if isinstance(storage, PinnedStorage):
        copy = HostStorage(storage.bytes().copy())
        return reduce_storage(copy)
    if not storage.nbytes():
        return rebuild_storage, (b"", "cpu")
    storage.share_memory_()
    block = storage.shared_block()
    assert block is not None
    with _lock:
        _known[block.identity] = storage
    if block.name is not None:
        block.add(1)
        return rebuild_named, (block.name, block.size)
    starting = get_spawning_popen() is not None
    handle = reduction.DupFd(block.descriptor) if starting else _Descriptor(block.descriptor)
    return rebuild_described, (handle, block.size)


class _Descriptor(resource_sharer.DupFd):
    """A file descriptor in a message, which the receiver fetches from a thread of this process."""

    def __init__(self, descriptor: int) -> None:
        held = os.dup(descriptor)
        _unfetched.add(held)

        def send(connection: Connection, receiver: int) -> None:
            reduction.send_handle(connection, held, receiver)

        def close() -> None:
            os.close(held)
            _unfetched.discard(held)

        self._id = resource_sharer._resource_sharer.register(send, close)  # type: ignore[attr-defined]


class _AtStart:
    """Has each process that another one starts end only when its tensors have been received."""

    def __init__(self) -> None:
        util.register_after_fork(self, _AtStart.prepare)
        self.prepare()

    def prepare(self) -> None:
        """Have this process wait; a forked one has lost what its parent would do at its end."""
        util.Finalize(None, _wait_for_receivers, exitpriority=_PRIORITY)


def _wait_for_receivers() -> None:
    """Wait at the end of a process that another one has started: whoever is the first has nobody to wait for."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    deadline = time.monotonic() + _PATIENCE
    for thread in threading.enumerate():
        if thread.name == _FEEDERS:
            thread.join(max(0.0, deadline - time.monotonic()))
    while _unfetched and time.monotonic() < deadline and parent.is_alive():
        time.sleep(_PAUSE)


def rebuild_described(handle: Any, size: int) -> HostStorage:
    """The storage of which a message has a file descriptor."""
    try:
        descriptor: int = handle.detach()
    except (OSError, EOFError) as error:
        raise RuntimeError(
            "cannot receive a tensor: the process that sent it has ended. It must live until its tensors have been "
            "received, or use tensor.multiprocessing.set_sharing_strategy('file_system')"
        ) from error
    try:
        block = SharedBlock(descriptor, size, None)
    except BaseException:
        os.close(descriptor)
        raise
    return _storage_of(block)


def rebuild_named(name: str, size: int) -> HostStorage:
    """The storage of which a message has a name."""
    return _storage_of(SharedBlock.open(name, size))


def _storage_of(block: SharedBlock) -> HostStorage:
    identity = block.identity
    with _lock:
        known = _known.get(identity)
        if known is not None:
            current = known.shared_block()
            if current is not None and current.identity == identity and current.size == block.size:
                return known
        result = _known[identity] = HostStorage(np.asarray(block))
        return result


def _refuse(storage: Storage) -> NoReturn:
    raise RuntimeError(
        f"a tensor on {storage.device} cannot be sent to another process, as memory of devices is not shared between "
        "processes: send x.cpu(), and move it to the device there"
    )


_at_start = _AtStart()
reduction.ForkingPickler.register(Tensor, reduce_tensor)
reduction.ForkingPickler.register(HostStorage, reduce_storage)
reduction.ForkingPickler.register(PinnedStorage, reduce_storage)
for _cls in (DeviceStorage, ForeignStorage):
    reduction.ForkingPickler.register(_cls, _refuse)

"""What runs in a worker of a loader: it reads the batches that it is asked for, and sends them back."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import random
import signal
import threading
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.core.modes.threads import set_num_threads
from tensor.operations.random.generator import manual_seed

from .fetching import make_fetcher
from .transport import pack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from multiprocessing.connection import Connection

#: Seconds after which a worker looks whether its parent is still there.
_PARENT_CHECK = 2.0


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What a worker knows of itself.

    Attributes
    ----------
    id : int
        Number of the worker, from 0.
    num_workers : int
        How many there are.
    seed : int
        With which its random numbers started.
    dataset : Dataset
        The worker's copy of the dataset.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """What all workers of a loader are given when they start."""

    dataset: Any
    iterable: bool
    collate_fn: Callable[[Any], Any]
    batched: bool
    drop_last: bool
    init_fn: Callable[[int], None] | None
    count: int
    seed: int


@dataclass(frozen=True, slots=True)
class Epoch:
    """Asks a worker to start over."""

    number: int


@dataclass(frozen=True, slots=True)
class Task:
    """Asks a worker for a batch, in shared memory of this name."""

    index: int
    keys: Any
    name: str


@dataclass(frozen=True, slots=True)
class Reply:
    """A worker's answer to a task: a packed batch, an error, or neither where its dataset has ended."""

    epoch: int
    index: int
    packed: Any = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception on its way to another process.

    Attributes
    ----------
    error_type : bytes or None
        Its class, pickled; ``None`` where that cannot be pickled.
    """

    error_type: bytes | None
    text: str

    def reraise(self) -> None:
        """Raise an exception of the same class, which shows the traceback that it had in the worker.

        It is a ``RuntimeError`` where the class takes no message.
        """
        raise self._error()

    def _error(self) -> BaseException:
        if self.error_type is not None:
            with contextlib.suppress(Exception):
                error = pickle.loads(self.error_type)(_Text(self.text))
                if isinstance(error, Exception):
                    return error
        return RuntimeError(self.text)


class _Text(str):
    """A message that ``KeyError``, which shows the representation, shows line by line too."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker of a :class:`DataLoader`, what it knows of itself, a :class:`WorkerInfo`; elsewhere ``None``.

    >>> tensor.utils.data.get_worker_info() is None
    True
    """
    return _info


def work(pipe: Connection, setup: WorkerSetup, worker: int, inherited: Iterable[Connection]) -> None:
    """Answer tasks until told to stop, or until the parent is gone.

    Parameters
    ----------
    inherited : iterable of Connection
        The parent's ends of pipes that a forked process has too, and must not keep open.
    """
    global _info
    for each in inherited:
        each.close()
    # Ctrl-C reaches all processes of a terminal; the parent decides what becomes of its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    seed = setup.seed + worker
    _seed_all(seed)
    # Workers are many, and the machine is the main process's too. The user's function may say otherwise.
    set_num_threads(1)
    _info = WorkerInfo(worker, setup.count, seed, setup.dataset)
    failure = None
    if setup.init_fn is not None:
        try:
            setup.init_fn(worker)
        except Exception as error:
            failure = _failure(error, worker)
    # The parent may send as much as it likes and never waits for a worker that waits for the parent.
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(pipe, tasks), daemon=True).start()
    # A parent that is gone, or has closed the pipe, wants no answer.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        _answer(pipe, tasks, setup, worker, failure)
    pipe.close()


def _answer(
    pipe: Connection,
    tasks: queue.SimpleQueue[Any],
    setup: WorkerSetup,
    worker: int,
    init_failure: Failure | None,
) -> None:
    fetcher: Any = None
    failure, epoch = init_failure, 0
    while (task := tasks.get()) is not None:
        if isinstance(task, Epoch):
            epoch, failure = task.number, init_failure
            try:
                fetcher = make_fetcher(
                    setup.dataset, setup.iterable, setup.collate_fn, setup.batched, setup.drop_last
                )
            except Exception as error:
                failure = failure or _failure(error, worker)
            continue
        if failure is not None:
            reply = Reply(epoch, task.index, failure=failure)
        else:
            reply = _read(fetcher, task, epoch, setup.iterable, worker)
        pipe.send(reply)


def _read(fetcher: Any, task: Task, epoch: int, iterable: bool, worker: int) -> Reply:
    try:
        return Reply(epoch, task.index, pack(fetcher.fetch(task.keys), task.name))
    except Exception as error:
        if iterable and isinstance(error, StopIteration):
            return Reply(epoch, task.index)
        return Reply(epoch, task.index, failure=_failure(error, worker))


def _receive(pipe: Connection, tasks: queue.SimpleQueue[Any]) -> None:
    parent = os.getppid()
    task: Any = True
    try:
        while task is not None:
            if pipe.poll(_PARENT_CHECK):
                task = pipe.recv()
                tasks.put(task)
            elif os.getppid() != parent:
                break
    except (EOFError, OSError):
        pass
    tasks.put(None)


def _failure(error: Exception, worker: int) -> Failure:
    error_type = None
    with contextlib.suppress(Exception):
        error_type = pickle.dumps(type(error))
    shown = "".join(traceback.format_exception(error))
    return Failure(
        error_type, f"Caught {type(error).__name__} in DataLoader worker process {worker}.\nOriginal {shown}"
    )


def _seed_all(seed: int) -> None:
    manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % (1 << 32))

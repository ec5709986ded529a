"""Operations of one communicator of MPI: started, asked about until they are done, given up at their deadline."""

from __future__ import annotations

import hashlib
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from parallel.groups.errors import DistBackendError

from .process import calls, give_up, library, silent_ranks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from parallel.backends.backend import Array

#: Seconds of asking without a pause, and bytes that a transfer moves in one of them at least: it only goes on while
#: somebody asks.
_EAGER_SECONDS = 0.005
_SLOWEST_BYTES_PER_SECOND = 1e8
#: Pause between two questions after that, in seconds.
_PAUSE = 2e-4
#: Bytes of what a rank calls, as the others show it.
_TEXT_BYTES = 128


class Operations:
    """What ``communicator`` is asked to do.

    After an operation that failed, or was given up, the communicator is of no use: its ranks may be at different ones.
    """

    def __init__(self, communicator: Any) -> None:
        self._mpi = library()
        self._communicator = communicator
        self._rank: int = communicator.Get_rank()
        self._size: int = communicator.Get_size()
        self._error: DistBackendError | None = None
        self._lock = threading.Lock()
        self._under_way = 0
        self._closed = False
        with calls:
            # Failures are exceptions of the call, not the end of the process.
            communicator.Set_errhandler(self._mpi.ERRORS_RETURN)

    def agree(self, operation: str, array: Array, deadline: float) -> None:
        """Check that all ranks call ``operation`` with as many elements of the same type. Collective.

        Raises
        ------
        DistBackendError
            If they do not; it says what each called.
        """
        self._check_usable(operation)
        if self._size == 1:
            return
        text = f"{operation} of {len(array)} {array.dtype.name}"
        own = np.frombuffer(hashlib.blake2b(text.encode(), digest_size=8).digest(), np.int64)
        if (self._gathered(operation, own, deadline) == own).all():
            return
        shown = np.frombuffer(text.encode()[:_TEXT_BYTES].ljust(_TEXT_BYTES), np.int64)
        table = self._gathered(operation, shown, deadline).reshape(self._size, -1)
        ranks: dict[str, list[int]] = {}
        for rank, row in enumerate(table):
            ranks.setdefault(row.tobytes().decode().rstrip(), []).append(rank)
        called = "; ".join(
            f"rank{'s' if len(each) > 1 else ''} {', '.join(map(str, each))}: {text}"
            for text, each in ranks.items()
        )
        raise self.failed(operation, f"ranks called different operations: {called}")

    def _gathered(self, operation: str, own: Array, deadline: float) -> Array:
        gathered = np.empty(len(own) * self._size, np.int64)
        datatype = self._mpi.INT64_T
        self.finish(
            operation,
            lambda: self._communicator.Iallgather([own, datatype], [gathered, datatype]),
            (own, gathered),
            deadline,
        )
        return gathered

    def finish(
        self,
        operation: str,
        start: Callable[[], Any],
        buffers: Sequence[Array | None],
        deadline: float,
        *,
        status: Any = None,
        receives: bool = False,
        collective: bool = True,
    ) -> None:
        """Start an operation on ``buffers``, and wait until it is done.

        Raises
        ------
        DistBackendError
            If MPI reports a failure, or the deadline comes first.
        """
        self._check_usable(operation)
        with self._lock:
            self._under_way += 1
        done = False
        request = None
        try:
            with calls:
                request = start()
                done = request.Test(status)
            size = sum(each.nbytes for each in buffers if each is not None)
            patience = time.monotonic() + _EAGER_SECONDS + size / _SLOWEST_BYTES_PER_SECOND
            while not done:
                now = time.monotonic()
                if self._error is not None:
                    raise DistBackendError(f"{operation}: {self._error}")
                if now >= deadline:
                    raise self._late(operation, collective)
                time.sleep(0 if now < patience else _PAUSE)
                with calls:
                    done = request.Test(status)
        except self._mpi.Exception as error:
            done = True
            raise self.failed(operation, str(error)) from error
        finally:
            if not done and request is not None:
                give_up(request, buffers, receives=receives)
            with self._lock:
                self._under_way -= 1

    def _late(self, operation: str, collective: bool) -> DistBackendError:
        text = f"Operation timed out! Not every rank took part in time, of the ranks 0 to {self._size - 1}"
        # The group is of no use from here on, so others of its threads need not wait as well.
        error = self.failed(operation, text)
        silent = silent_ranks(self._communicator) if collective else []
        if not silent:
            return error
        verb = "rank does" if len(silent) == 1 else "ranks do"
        self._error = DistBackendError(
            f"{error}; {len(silent)} {verb} not answer: ranks {', '.join(map(str, silent))}"
        )
        return self._error

    def _check_usable(self, operation: str) -> None:
        if self._closed:
            raise DistBackendError(
                f"{operation}: rank {self._rank} of {self._size} over MPI: the process group was destroyed"
            )
        if self._error is not None:
            raise DistBackendError(f"{operation}: {self._error}") from self._error

    def failed(self, operation: str, what: str) -> DistBackendError:
        """The error of an operation after which the group cannot be used."""
        error = DistBackendError(f"{operation}: rank {self._rank} of {self._size} over MPI: {what}")
        if self._error is None:
            self._error = error
        return error

    def close(self) -> None:
        """Free the communicator, unless operations are left in it. Idempotent."""
        with self._lock:
            closed, self._closed = self._closed, True
            if closed or self._under_way or self._error is not None:
                return
        with calls:
            if not self._mpi.Is_finalized():
                self._communicator.Free()

    def abort(self, why: str) -> None:
        """Let the operations that are waited for fail, here alone. Never blocks."""
        if self._error is None:
            self._error = DistBackendError(why)

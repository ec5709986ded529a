"""One communicator of NCCL: created with a deadline, called by one thread at a time, ended in any state."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

import drv
from drv.bindings.nccl import Config, UniqueId, failure, ncclResult_t
from parallel.groups.errors import DistBackendError, DistStoreError
from parallel.groups.waiting import acquired_by, time_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from drv.bindings.nccl import Nccl
    from parallel.groups.stores.store import Store
    from tensor.cuda import Stream

#: Longest sleep between two questions whether NCCL is done with the host's part of a call, in seconds.
_LONGEST_PAUSE = 0.002
#: What the rank that makes the unique id puts into the store instead, when it cannot.
_NO_ID = b"error:"


class Communicator:
    """A communicator of ``size`` ranks on one device, and the stream that its work is queued on.

    It does not block: a call of NCCL returns at once, a thread of NCCL's does the host's part of the work, which may
    wait for other ranks, and :meth:`call` asks until that is done. So every wait has a deadline, and each call of
    NCCL is short, so that :meth:`abort` comes through while another thread waits.

    Parameters
    ----------
    library : Nccl
        NCCL's functions.
    store : Store
        Where the ranks find the unique id.
    name : str
        The same on all ranks, and for no other communicator of the store.
    rank, size : int
        This rank in the communicator, and how many there are.
    stream : Stream
        Its device is the communicator's.
    before_abort : callable
        Is called with the communicator while what is done can still be told from what is given up.
    """

    def __init__(
        self,
        library: Nccl,
        store: Store,
        name: str,
        rank: int,
        size: int,
        stream: Stream,
        before_abort: Callable[[Communicator], None],
    ) -> None:
        self.name = name
        self.rank = rank
        self.size = size
        self.stream = stream
        #: Why it cannot be used any more.
        self.error: BaseException | None = None
        self._library = library
        self._store = store
        self._before_abort = before_abort
        self._key = f"nccl/{name}"
        self._handle = 0
        #: Held for one operation, from its position in the order of the stream to its event.
        self._turn = threading.Lock()
        #: Held for calls of NCCL: a communicator is for one thread at a time.
        self._calls = threading.Lock()

    def __repr__(self) -> str:
        state = "ready" if self.error is None else f"ended: {self.error}"
        return f"<NCCL communicator {self.name!r}, rank {self.rank} of {self.size}, {state}>"

    @contextlib.contextmanager
    def turn(self, operation: str, deadline: float) -> Iterator[None]:
        """Of the threads that queue operations, this one is next; the first makes NCCL's communicator.

        Raises
        ------
        DistBackendError
            If the communicator cannot be created, by the deadline, with all its ranks; or was ended.
        """
        if not acquired_by(self._turn, deadline):
            raise self.described(
                operation, "Operation timed out! Another thread's operation is not queued yet"
            )
        try:
            if self.error is not None:
                raise self.described(operation, f"the communicator was ended: {self.error}") from self.error
            if not self._handle:
                self._start(operation, deadline)
            yield
        finally:
            self._turn.release()

    def require_started(self, operation: str) -> None:
        """Refuse to be created while a stream is captured, as that waits for the other ranks.

        Raises
        ------
        CaptureError
            If it was not created yet.
        """
        if not self._handle:
            raise drv.CaptureError(
                f"{operation}: NCCL's communicator {self.name!r} is created by its first operation, which waits for the other "
                "ranks, and a stream is captured into a CUDA graph: do such an operation (one step of training, say) before "
                "the capture"
            )

    def _start(self, operation: str, deadline: float) -> None:
        try:
            unique_id = self._agree(operation, deadline)
            self.stream.device_state.native.make_current()
            with self._calls:
                if self.error is None:
                    self._handle = self._library.ncclCommInitRankConfig(
                        self.size, unique_id, self.rank, Config(blocking=False, name=self.name)
                    )
        except drv.CudaError as raised:
            error = self.described(operation, str(raised))
            self.abort(error)
            raise error from raised
        except Exception as raised:
            self.abort(raised)
            raise
        self._settle(operation, deadline)
        if self.rank == 0:
            # All have read it. A later group in the same store must not find it.
            self._store.delete_key(self._key)

    def call(self, operation: str, issue: Callable[[int], None], deadline: float, *, grouped: bool) -> None:
        """Have ``issue(handle)`` call NCCL, and wait until its work is on the stream.

        Parameters
        ----------
        operation : str
            For messages.
        issue : callable
            Calls NCCL's functions with the communicator's handle.
        deadline : float
            ``time.monotonic()`` at which the communicator is aborted.
        grouped : bool
            Whether what it calls becomes one operation.

        Raises
        ------
        DistBackendError
            If a call fails, or other ranks do not take part in time.
        """
        with self._calls:
            if self.error is not None:
                raise self.error
            try:
                if grouped:
                    self._grouped(issue)
                else:
                    issue(self._handle)
            except drv.CudaError as error:
                raise self.described(operation, str(error)) from error
        self._settle(operation, deadline)

    def _grouped(self, issue: Callable[[int], None]) -> None:
        self._library.ncclGroupStart()
        try:
            issue(self._handle)
        except BaseException:
            # The group is the thread's: left open, it would swallow what comes next.
            with contextlib.suppress(drv.CudaError):
                self._library.ncclGroupEnd()
            raise
        self._library.ncclGroupEnd()

    def described(self, operation: str, what: str) -> DistBackendError:
        """The error for ``operation``, with the rank and the device."""
        return DistBackendError(
            f"{operation}: rank {self.rank} of {self.size} of NCCL's communicator {self.name!r} on "
            f"{self.stream.device}: {what}"
        )

    def failure(self) -> drv.CudaError | None:
        """What has gone wrong since the last operation was queued; None where nothing has."""
        with self._calls:
            if self.error is not None or not self._handle:
                return None
            state = self._library.ncclCommGetAsyncError(self._handle)
            if state in (ncclResult_t.ncclSuccess, ncclResult_t.ncclInProgress):
                return None
            detail = self._library.ncclGetLastError(self._handle).decode(errors="replace").strip()
        return failure(state, "an operation under way", detail)

    def _settle(self, operation: str, deadline: float) -> None:
        """Wait for the host's part of what was called; aborts where that fails or is not done in time."""
        pause = 0.0
        while True:
            with self._calls:
                if self.error is not None:
                    raise self.error
                state = self._library.ncclCommGetAsyncError(self._handle)
                detail = ""
                if state not in (ncclResult_t.ncclSuccess, ncclResult_t.ncclInProgress):
                    detail = self._library.ncclGetLastError(self._handle).decode(errors="replace").strip()
            if state == ncclResult_t.ncclSuccess:
                return
            if state != ncclResult_t.ncclInProgress:
                error = self.described(operation, str(failure(state, "NCCL", detail)))
                self.abort(error)
                raise error
            if time.monotonic() >= deadline:
                error = self.described(operation, "Operation timed out! Not every rank takes part")
                self.abort(error)
                raise error
            time.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause + 2e-5)

    def close(self, deadline: float) -> None:
        """End it with the other ranks, once the queued work is done; without them at the deadline. Idempotent."""
        if not self._handle:
            self.error = self.error or self.described("close", "the process group was destroyed")
            return
        try:
            with self.turn("close", deadline):
                self.call("close", self._library.ncclCommFinalize, deadline, grouped=False)
                with self._calls:
                    if self.error is None:
                        self.error = self.described("close", "the process group was destroyed")
                        handle, self._handle = self._handle, 0
                        self._library.ncclCommDestroy(handle)
        except (DistBackendError, drv.CudaError) as error:
            self.abort(error)

    def abort(self, error: BaseException) -> None:
        """Give up what is queued: kernels that wait for other ranks end. Never blocks. Idempotent.

        ``error`` is what later operations say.
        """
        if self.error is None:
            self._before_abort(self)
            self.error = error
            # NCCL waits for its threads and kernels to end.
            threading.Thread(target=self._abort, name=f"NCCL abort {self.name}", daemon=True).start()

    def _abort(self) -> None:
        # After this nobody calls NCCL with the handle: all look at the error first.
        with self._calls:
            handle, self._handle = self._handle, 0
        if handle and self.stream.device_state.runtime.alive:
            with contextlib.suppress(drv.CudaError):
                # NCCL goes back to the thread's device, which would otherwise become the first one.
                self.stream.device_state.native.use()
                self._library.ncclCommAbort(handle)

    def _agree(self, operation: str, deadline: float) -> UniqueId:
        """The unique id, which rank 0 makes."""
        key = self._key
        if self.rank == 0:
            try:
                unique_id = self._library.ncclGetUniqueId()
            except drv.CudaError as error:
                self._store.set(key, _NO_ID + str(error).encode())
                raise
            self._store.set(key, bytes(unique_id))
            return unique_id
        try:
            self._store.wait([key], time_until(deadline))
        except DistStoreError as error:
            raise self.described(operation, f"rank 0 of the communicator did not come: {error}") from error
        data = self._store.get(key)
        if data.startswith(_NO_ID):
            text = data[len(_NO_ID) :].decode(errors="replace")
            raise self.described(operation, f"rank 0 of the communicator failed: {text}")
        return UniqueId.from_bytes(data)

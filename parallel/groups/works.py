"""``Work``: an operation between ranks that may still be under way."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING

from tensor.cuda import Event, StreamContext

from .errors import DistBackendError, DistError
from .futures import future_of_work
from .waiting import lock_timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import timedelta

    import tensor
    from parallel.backends.worker import Worker
    from tensor.cuda import Stream

    from .futures import Future


class Work:
    """An operation under way, as ``async_op=True``, :func:`parallel.isend` and :func:`parallel.irecv` return it.

    It is done for the host once its results are in memory, or queued on CUDA streams; :meth:`wait` has the caller's
    current streams wait for those. Backends make one for each operation, and settle it with :meth:`succeed` or
    :meth:`fail`, from any thread.

    >>> x = tensor.ones(3)
    >>> work = parallel.all_reduce(x, async_op=True)
    >>> y = tensor.randn(3).exp()  # meanwhile
    >>> work.wait()  # x may be used now
    True

    Parameters
    ----------
    operation : str
        Its name, for messages.
    outputs : sequence of Tensor
        The tensors that :meth:`result` returns.
    streams : sequence of Stream
        The group's own streams on which results are written, at most one for each device.
    """

    def __init__(
        self, operation: str, outputs: Sequence[tensor.Tensor] = (), *, streams: Sequence[Stream] = ()
    ) -> None:
        self.operation = operation
        self.outputs = list(outputs)
        self._streams = tuple(streams)
        self._lock = threading.RLock()
        self._settled = threading.Event()
        self._error: BaseException | None = None
        self._source: int | None = None
        self._steps: list[Callable[[], None]] = []
        self._callbacks: list[Callable[[], None]] = []
        #: One event for each stream, after the results.
        self._events: list[Event] = []
        #: The worker that runs the operation, if it runs in a thread.
        self.worker: Worker | None = None

    def __repr__(self) -> str:
        state = "under way"
        if self._settled.is_set():
            state = "done" if self._error is None else f"failed: {self._error}"
        return f"<parallel.Work {self.operation}, {state}>"

    # What users call

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until the host may go on, and have this thread's current streams wait for the results.

        For CPU tensors it returns when the operation is done; for CUDA tensors as soon as the rest of it is queued on
        a stream.

        Parameters
        ----------
        timeout : timedelta, optional
            How long to wait at most; the operation goes on. By default the group's timeout holds.

        Returns
        -------
        bool
            True.

        Raises
        ------
        DistBackendError
            If the operation failed, or is not done in time.
        """
        if not self._settled.is_set():
            if self.worker is not None:
                self.worker.help(self, timeout is not None)
            if not self._settled.wait(None if timeout is None else lock_timeout(timeout.total_seconds())):
                raise DistBackendError(
                    f"{self.operation}: Operation timed out! It is not done after the {timeout} that wait() was given"
                )
        if self._error is not None:
            raise self._error
        for event, stream in zip(self._events, self._streams, strict=True):
            current = stream.device_state.local.stream
            if current != stream:
                event.wait(current)
        return True

    def synchronize(self) -> None:
        """As :meth:`wait` without a timeout, and raises as it does."""
        self.wait()

    def is_settled(self) -> bool:
        """Whether the host is done with the operation: its results are in place or on streams, or it failed."""
        return self._settled.is_set()

    def is_completed(self) -> bool:
        """Whether the operation is over, on the device too; it may have failed."""
        return self._settled.is_set() and (
            self._error is not None or all(event.query() for event in self._events)
        )

    def is_success(self) -> bool:
        """Whether the operation is over and did not fail."""
        return self.is_completed() and self._error is None

    def exception(self) -> BaseException | None:
        """Why the operation failed, an exception; None if it did not fail, or is under way.

        It does not wait, and does not raise the exception: :meth:`wait` does both.
        """
        return self._error

    def result(self) -> list[tensor.Tensor]:
        """The tensors that the operation fills, a list.

        It waits as :meth:`wait` does, and raises as it does.
        """
        self.wait()
        return self.outputs

    def source_rank(self) -> int:
        """Rank, in the group, from which a ``recv`` came.

        Raises
        ------
        DistError
            For other operations, and while it is under way.
        """
        if self._error is not None:
            raise self._error
        if self._source is None:
            raise DistError(
                "source_rank() may only be called on work objects that correspond to a recv or recv-from-any call "
                f"that is done; this is {self!r}"
            )
        return self._source

    _source_rank = source_rank

    def get_future(self) -> Future[list[tensor.Tensor]]:
        """A :class:`parallel.Future` of :meth:`result`, to which callbacks can be added with ``then``.

        If the operation fails, the future does with the same exception.
        """
        return future_of_work(self)

    # What backends and collectives call

    def succeed(self, source: int | None = None) -> None:
        """Settle the operation: all results are in place or queued on the streams. Backends call this.

        Steps that :meth:`add_step` registered run now; what one of them raises makes the operation fail.

        Parameters
        ----------
        source : int, optional
            Of a ``recv``, the rank in the group that the tensor came from.
        """
        try:
            with self._lock:
                self._source = source
                self._run(self._steps)
                self._record_events()
                self._settled.set()
        except BaseException as error:
            self.fail(error)
            return
        self._call_back()

    def fail(self, error: BaseException) -> None:
        """Settle the operation: it failed with ``error``, which :meth:`wait` raises.

        A no-op once it is settled, so the first error is the one that is reported. Callbacks of the future run in this thread.
        """
        with self._lock:
            if self._settled.is_set():
                return
            self._error = error
            self._steps.clear()
            self._settled.set()
        self._call_back()

    def add_step(self, step: Callable[[], None]) -> None:
        """Have ``step()`` run after the operation, as a step of it, with its streams current.

        If the operation is done for the host already, it runs at once. It does not run if the operation fails.
        """
        with self._lock:
            if not self._settled.is_set():
                self._steps.append(step)
            elif self._error is None:
                self._run([step])
                self._record_events()

    def add_callback(self, callback: Callable[[], None]) -> None:
        """Have ``callback()`` called once this is settled: by the thread that settles it, or at once.

        What it raises on the thread that settles is reported by ``threading.excepthook``, and the thread goes on.
        """
        with self._lock:
            if not self._settled.is_set():
                self._callbacks.append(callback)
                return
        callback()

    def _run(self, steps: list[Callable[[], None]]) -> None:
        if steps:
            with self.current_streams():
                for step in steps:
                    step()
        self._steps = []

    @contextlib.contextmanager
    def current_streams(self) -> Iterator[None]:
        """A block (``with``) in which the operation's streams are this thread's current ones.

        What is queued in it comes after the operation, without a wait of the host. On the CPU it changes nothing.
        """
        with contextlib.ExitStack() as stack:
            for stream in self._streams:
                stack.enter_context(StreamContext(stream))
            yield

    def _record_events(self) -> None:
        self._events = [stream.record_event() for stream in self._streams]

    def _call_back(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except BaseException:
                # The thread goes on to the next operation; the error is reported as that of a thread.
                error_type, error, traceback = sys.exc_info()
                threading.excepthook(
                    threading.ExceptHookArgs((error_type, error, traceback, threading.current_thread()))
                )

"""``Future``: a value that is set later, as communication hooks return it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tensor import Tensor
from tensor.cuda import current_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tensor.cuda import Event

    from .works import Work

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A value that is set later, with :meth:`set_result`, or as the result of a callback of :meth:`then`.

    Work on a value's CUDA tensors may still be queued on streams: :meth:`wait` has the caller's current streams wait
    for it.

    >>> future = parallel.Future()
    >>> doubled = future.then(lambda done: 2 * done.value())
    >>> future.set_result(21)
    >>> doubled.wait()
    42

    Parameters
    ----------
    devices : sequence of device, optional
        Accepted for compatibility: the devices are those of the value's tensors.
    """

    def __init__(self, *, devices: Sequence[Any] | None = None) -> None:
        self._lock = threading.RLock()
        self._settled = threading.Event()
        self._value: Any = None
        self._error: BaseException | None = None
        self._events: list[Event] = []
        self._callbacks: list[Callable[[Future[T]], Any]] = []

    def done(self) -> bool:
        """Whether the value, or an error, is there; CUDA tensors may still be under way on streams."""
        return self._settled.is_set()

    def wait(self) -> T:
        """Wait for the value and return it; the current streams wait for work on its CUDA tensors.

        Raises
        ------
        Exception
            The error that was set with :meth:`set_exception`, or raised by the callback of :meth:`then`.
        """
        self._settled.wait()
        if self._error is not None:
            raise self._error
        for event in self._events:
            event.wait(current_stream(event.device))
        if self._events:
            for each in _tensors(self._value):
                if each.is_cuda:
                    # Memory that is dropped while this thread's stream uses it is not handed out before.
                    each.record_stream(current_stream(each.device))
        value: T = self._value
        return value

    def value(self) -> T:
        """The value, without waiting; raises the error that was set instead.

        Raises
        ------
        RuntimeError
            If neither was set yet.
        """
        if not self.done():
            raise RuntimeError("Future.value(): the value is not there yet: call wait()")
        return self.wait()

    def set_result(self, result: T) -> None:
        """Set the value to ``result``, with its CUDA tensors as the current streams leave them.

        Tensors are found in tuples, lists and dicts, to any depth.

        Raises
        ------
        RuntimeError
            If a value or an error was set already.
        """
        self._settle(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Set the error that :meth:`wait` raises to ``result``, an exception.

        Raises
        ------
        TypeError
            If it is not an exception.
        RuntimeError
            If a value or an error was set already.
        """
        if not isinstance(result, BaseException):
            raise TypeError(f"{result} is of type {type(result).__name__}, not an Exception.")
        self._settle(None, result)

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """A future of ``callback(self)``.

        The callback is run by the first thread that waits for the returned future or asks whether it is done, so that
        it may itself wait for operations of the same group, in the same order on all ranks. When the returned
        future is dropped before that, the callback is run by the thread that sets this one's value.
        """
        return _Then(self, callback)

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        """Have ``callback(self)`` called once the value or error is there: by the thread that sets it, or at once.

        What the callback raises goes to that thread.
        """
        with self._lock:
            if not self._settled.is_set():
                self._callbacks.append(callback)
                return
        callback(self)

    def _settle(self, value: Any, error: BaseException | None) -> None:
        with self._lock:
            if self._settled.is_set():
                raise RuntimeError("Future: a value or an error can be set only once, and is there already")
            self._value, self._error = value, error
            states = {
                each._layout.device_state for each in _tensors(value) if each._layout.device_state.is_cuda
            }
            self._events = [state.local.stream.record_event() for state in states]
            self._settled.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)


class _OfWork(Future[list[Tensor]]):
    """Done when the work is."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self._work = work

    def done(self) -> bool:
        # What is under way on streams is a value; who takes it has streams wait.
        return self._work.is_settled()

    def wait(self) -> list[Tensor]:
        return self._work.result()

    def add_done_callback(self, callback: Callable[[Future[list[Tensor]]], Any]) -> None:
        self._work.add_callback(lambda: callback(self))

    def _settle(self, value: Any, error: BaseException | None) -> None:
        raise RuntimeError("the future of a work is set by the work itself")


class _Then(Future[T]):
    """The result of a callback, which is called when somebody asks."""

    def __init__(self, parent: Future[Any], callback: Callable[[Future[Any]], T]) -> None:
        super().__init__()
        self._parent = parent
        self._callback: Callable[[Future[Any]], T] | None = callback

    def done(self) -> bool:
        if not self._settled.is_set() and self._parent.done():
            self._call()
        return self._settled.is_set()

    def wait(self) -> T:
        if not self._settled.is_set():
            self._call()
        return super().wait()

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        super().add_done_callback(callback)
        # Nobody may ever ask for the value, and the callback is to be called all the same.
        self._parent.add_done_callback(lambda _: self.done())

    def _call(self) -> None:
        with self._lock:
            callback, self._callback = self._callback, None
            if callback is None:
                return
            try:
                # Streams have to wait for what the callback works on.
                _ignore_errors(self._parent.wait)
                value = callback(self._parent)
            except BaseException as error:
                self._settle(None, error)
            else:
                self._settle(value, None)

    def __del__(self) -> None:
        callback = getattr(self, "_callback", None)
        if callback is not None:
            self._parent.add_done_callback(callback)


def _ignore_errors(function: Callable[[], Any]) -> None:
    try:
        function()
    except Exception:
        # The callback gets the future, and with it the error.
        return


def future_of_work(work: Work) -> Future[list[Tensor]]:
    """A future of the work's result."""
    return _OfWork(work)


class _OfAll(Future[list[Future[Any]]]):
    """Done when each of several futures is."""

    def __init__(self, futures: Sequence[Future[Any]]) -> None:
        super().__init__()
        self._futures = list(futures)

    def done(self) -> bool:
        return all(each.done() for each in self._futures)

    def wait(self) -> list[Future[Any]]:
        wait_all(self._futures)
        return self._futures

    def add_done_callback(self, callback: Callable[[Future[list[Future[Any]]]], Any]) -> None:
        if not self._futures:
            callback(self)
            return
        others = threading.Semaphore(len(self._futures) - 1)

        def one_is_done(_: Future[Any]) -> None:
            if not others.acquire(blocking=False):
                callback(self)

        for each in self._futures:
            each.add_done_callback(one_is_done)


def collect_all(futures: Sequence[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future whose value is the list of ``futures``, done when each of them is.

    Its :meth:`Future.wait` raises the error of the first future in the list that failed.
    """
    return _OfAll(futures)


def wait_all(futures: Iterable[Future[Any]]) -> list[Any]:
    """Wait for all ``futures`` in order, and return their values as a list.

    >>> futures = [parallel.Future(), parallel.Future()]
    >>> futures[1].set_result("b")
    >>> futures[0].set_result("a")
    >>> parallel.wait_all(futures)
    ['a', 'b']

    Raises
    ------
    Exception
        The error of the first future in the list that failed; those after it are not waited for.
    """
    return [each.wait() for each in futures]


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)

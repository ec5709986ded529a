"""The runtime: the one driver in use, and everything that holds one of its handles or addresses."""

from __future__ import annotations

import contextlib
import operator
import sys
import threading
import traceback
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from . import environment
from .bindings import libraries
from .device import Device
from .errors import CudaError, DroppedRuntimeError, HostCallbackError, InvalidValueError, NoDeviceError
from .failures import failure, findings_error
from .host import interrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from .allocators.guarding.guard import Guard
    from .graphs.recording import Recording
    from .stream import Stream

_T = TypeVar("_T")
_NOT_READY = 600
#: Calls of finalizers that a capture does not allow.
_VOID_CAPTURES = frozenset(("cuMemFree", "cuMemFreeHost", "cuMemHostUnregister", "cuModuleUnload"))
_ACTIVE = 1
_DROPPED = "it belongs to a runtime that drv.reset() dropped; make a new one"


class CurrentDevice(threading.local):
    """What holds for one thread.

    ``device`` is the one whose context is current, as far as this runtime knows; ``selected`` is the
    one that the user chose with :meth:`Device.set_current`.
    """

    device: Device | None = None
    selected: Device | None = None
    in_callback: bool = False


class Refusal:
    """Stands in for the driver of a runtime that must not be used any more."""

    def __init__(self, error_class: type[CudaError], message: str) -> None:
        self._error_class = error_class
        self._message = message

    def __getattr__(self, name: str) -> NoReturn:
        raise self.error(name)

    def error(self, subject: str) -> CudaError:
        """Why ``subject`` is refused."""
        return self._error_class(f"{subject}: {self._message}")


class Runtime:
    """One driver, its devices, and all that hangs on them. :func:`drv.runtime` gives the one in use.

    Parameters
    ----------
    driver
        The attribute of this name.
    simulated : bool
        The attribute of this name.

    Attributes
    ----------
    driver
        ``cuda.bindings.driver`` or a simulated driver: the same functions either way.
    name : str
        ``"nvidia"`` or ``"simulator"``.
    simulated : bool
        Whether the driver is the simulated one.
    devices : tuple of Device
        The visible devices. Listing them creates no context.
    alive : bool
        False once the runtime was dropped, the process was forked, or the interpreter is exiting:
        handles are not given back any more then.

    Raises
    ------
    NoDeviceError
        If the driver has no visible device.
    NoDriverError
        If the driver does not work.
    """

    def __init__(self, driver: Any, *, simulated: bool) -> None:
        self.driver = driver
        self.simulated = simulated
        self.name = "simulator" if simulated else "nvidia"
        self.alive = True
        self.current = CurrentDevice()
        self.launch_blocking = environment.launch_blocking()
        #: Looks for overwritten memory at every synchronisation, where allocators guard it.
        self.guard: Guard | None = None
        self.recent_launches: deque[Any] = deque(maxlen=8)
        self.host_errors: deque[BaseException] = deque()
        #: Captures that have begun and not ended, and who is told of each: see :class:`drv.Capture`.
        self.captures: tuple[Recording, ...] = ()
        #: Whether there was one: graphs write to memory at each replay, which nobody counts.
        self.has_captured = False
        self.capture_listeners: list[Any] = []
        #: Streams that were made and not closed, by handle.
        self.streams: weakref.WeakValueDictionary[int, Stream] = weakref.WeakValueDictionary()
        #: Live page-locked ranges; their pages go with the contexts.
        self.host_allocations: weakref.WeakSet[Any] = weakref.WeakSet()
        self._cache: dict[Hashable, Any] = {}
        self._cache_lock = threading.RLock()
        self._garbage: deque[tuple[Device, str, Any]] = deque()
        self.check(driver.cuInit(0), "cuInit")
        count = self.check(driver.cuDeviceGetCount(), "cuDeviceGetCount")
        if count == 0:
            raise NoDeviceError(f"the {self.name} driver has no visible device: check CUDA_VISIBLE_DEVICES")
        self.devices = tuple(Device.create(self, ordinal) for ordinal in range(count))
        self._interrupts = interrupts.User()

    def __repr__(self) -> str:
        return f"<drv.Runtime {self.name}, {len(self.devices)} device(s){'' if self.alive else ', dropped'}>"

    def device(self, ordinal: int) -> Device:
        """The device of that ordinal.

        Raises
        ------
        InvalidValueError
            If there is none.
        DroppedRuntimeError
            If the runtime was dropped; in a forked child, ForkError.
        """
        self._require_alive()
        ordinal = operator.index(ordinal)
        if not 0 <= ordinal < len(self.devices):
            count = len(self.devices)
            expected = "expected 0" if count == 1 else f"expected 0 to {count - 1}"
            raise InvalidValueError(f"no device {ordinal}: {count} visible, {expected}")
        return self.devices[ordinal]

    def check(self, result: Sequence[Any], call: str, *arguments: Any) -> Any:
        """Result of a driver call without its status: nothing, one value, or a tuple.

        Parameters
        ----------
        result : tuple
            What the driver's function returned: a ``CUresult``, and what follows it.
        call : str
            Name of the function, for the message.
        *arguments
            What it was called with, for the message.

        Raises
        ------
        CudaError
            Of the class that fits the status, when it is not success.
        """
        if result[0]:
            self.fail(result[0], call, *arguments)
        size = len(result)
        return result[1] if size == 2 else None if size == 1 else result[1:]

    def fail(self, status: Any, call: str, *arguments: Any, kernel: str | None = None) -> NoReturn:
        """Raise the :class:`CudaError` for ``status``, of the class that fits it.

        Parameters
        ----------
        status : CUresult
            What the driver returned.
        call : str
            Name of the function, for the message.
        *arguments
            What it was called with, for the message.
        kernel : str, optional
            The kernel's name, where the call is a launch.
        """
        text = f"{call}({', '.join(map(str, arguments))})" if arguments else call
        error = failure(self, status, text, kernel)
        # A device fault may be what a reported finding or a failed host function has led to.
        error.__cause__ = self._pending_error()
        try:
            raise error
        finally:
            # The traceback refers to this frame. Referring to the error from here would keep all that the callers
            # have, such as what made memory run out, until the garbage collector comes.
            del error

    def cache(self, key: Hashable, factory: Callable[[], _T]) -> _T:
        """The value cached under ``key``; made by ``factory`` at the first call.

        Whatever holds a handle or an address is kept here and nowhere else, so that it goes with the
        runtime. ``factory`` runs once, also when several threads ask together.

        Raises
        ------
        DroppedRuntimeError
            If the runtime was dropped, and nothing is kept under ``key``; in a forked child, ForkError.
        """
        value = self._cache.get(key, self)
        if value is self:
            with self._cache_lock:
                value = self._cache.get(key, self)
                if value is self:
                    self._require_alive()
                    value = self._cache[key] = factory()
        # Not by cast(), which is a call at run time, on the path of every copy to a device.
        result: _T = value
        return result

    def cached(self, key: Hashable) -> Any:
        """What :meth:`cache` has kept under ``key``; ``None`` if that is nothing.

        It makes nothing, and raises nothing.
        """
        return self._cache.get(key)

    def forget_cached(self) -> None:
        """Drop everything cached under :meth:`cache`: what it holds of the driver's is given back.

        For the end of a program: whoever looked something up before goes on with what was forgotten. A value
        that has a method ``let_go`` has it called, to end what the garbage collector cannot.
        """
        with self._cache_lock:
            forgotten, self._cache = self._cache, {}
        for value in forgotten.values():
            let_go = getattr(value, "let_go", None)
            if let_go is not None:
                let_go()
        # Finalizers of what was kept still reach the driver.
        forgotten.clear()
        self.collect()

    def library(self, name: str) -> Any:
        """Functions of the library ``name``, ``"cublas"``, ``"cublasLt"``, ``"cufft"`` or ``"nccl"``, for the driver in use.

        Raises
        ------
        LibraryNotInstalledError
            If the library is missing; the message names the extra to install.
        """
        return self.cache(("library", name), lambda: libraries.load(self, name))

    def raise_pending(self) -> None:
        """Raise what earlier asynchronous work left behind; every synchronising call ends with this.

        Raises
        ------
        HostCallbackError
            If a host callback raised, or a thread that watches over queued work did.
        FindingError
            If the simulated driver found a race or a read of memory never written.
        """
        error = self._pending_error()
        if error is not None:
            try:
                raise error
            finally:
                del error

    def synchronized(self, result: Sequence[Any], call: str) -> None:
        """End a synchronising call: raise its failure, or what earlier asynchronous work left behind.

        Parameters
        ----------
        result : tuple
            What the driver's function returned.
        call : str
            Its name, for the message.

        Raises
        ------
        CudaError
            If the status is not success, and as :meth:`raise_pending`.
        """
        if result[0]:
            self.fail(result[0], call)
        self.raise_pending()

    def completed(self, result: Sequence[Any], call: str) -> bool:
        """Whether work is done, by what a query of the driver returned.

        Parameters
        ----------
        result : tuple
            What ``cuStreamQuery`` or ``cuEventQuery`` returned.
        call : str
            Its name, for the message.

        Returns
        -------
        bool
            False if the status is ``CUDA_ERROR_NOT_READY``.

        Raises
        ------
        CudaError
            As :meth:`synchronized`, if the work is done or failed.
        """
        if result[0] and int(result[0]) == _NOT_READY:
            return False
        self.synchronized(result, call)
        return True

    def is_captured(self, stream_handle: Any) -> bool:
        """Whether what is queued on the stream ``stream_handle`` becomes a graph. Asks no driver while nothing is captured.

        Raises
        ------
        CaptureError
            As :meth:`captured_into`.
        """
        if not self.captures:
            return False
        return int(self.captured_into(stream_handle)[0]) == _ACTIVE

    def captured_into(self, stream_handle: Any) -> Any:
        """What the driver says of the stream ``stream_handle``: whether it is captured, number of the capture, graph, ...

        Raises
        ------
        CaptureError
            For the legacy default stream, while a capture keeps it from being used.
        """
        return self.check(self.driver.cuStreamGetCaptureInfo(stream_handle), "cuStreamGetCaptureInfo")

    def release(self, device: Device, call: str, handle: Any) -> None:
        """Give ``handle`` of ``device`` back with the driver function ``call``; for finalizers, so it never raises.

        The garbage collector may run a finalizer inside a host callback, where CUDA forbids calls: the
        handle then waits for the next :meth:`collect`, as what would make a capture void does while one lasts. The
        thread's current context stays what it was.
        """
        if not self.alive:
            return
        if self.current.in_callback or (self.captures and call in _VOID_CAPTURES):
            self._garbage.append((device, call, handle))
            return
        with contextlib.suppress(Exception):
            self._release(device, call, handle)

    def collect(self) -> None:
        """Give back the handles that finalizers could not. Does nothing while a stream is captured, and raises nothing of theirs."""
        while self._garbage and not self.captures:
            with contextlib.suppress(IndexError):
                device, call, handle = self._garbage.popleft()
                self._release(device, call, handle)

    def retire(self, error_class: type[CudaError], message: str) -> None:
        """Refuse every further use with an error of class ``error_class`` and the text ``message``.

        For a runtime whose context is gone, after a fork or a reset. It calls no driver, frees nothing and raises nothing;
        calling it again changes the error.
        """
        self.alive = False
        self.driver = Refusal(error_class, message)
        self.current = CurrentDevice()
        self._cache = {}
        self._garbage.clear()
        self._interrupts.close()

    def close(self) -> None:
        """Give everything back and refuse further use, which raises DroppedRuntimeError. A second call does nothing.

        Contexts stay while NumPy arrays show pinned memory, which would vanish with them. :func:`drv.reset` calls this.
        """
        if not self.alive:
            return
        self.end_callbacks()
        self.forget_cached()
        # NumPy arrays may still show page-locked memory, which would vanish with its context.
        if not self.host_allocations:
            for device in self.devices:
                device.release_context()
        self.retire(DroppedRuntimeError, _DROPPED)

    def end_callbacks(self) -> None:
        """Wait for host callbacks, which run Python code in a thread of the driver. Returns at once if there were none."""
        if self._cache.get("host callbacks") or self._cache.get("recorded callbacks"):
            for device in self.devices:
                if device.context is not None:
                    with contextlib.suppress(CudaError):
                        device.make_current()
                        self.driver.cuCtxSynchronize()

    def exit(self) -> None:
        """At interpreter exit: let host callbacks end and report what no synchronising call has raised.

        Every handle is left to the operating system.
        """
        if self.alive:
            self.end_callbacks()
            while error := self._pending_error():
                print("After the last synchronising call, and therefore raised by none:", file=sys.stderr)
                traceback.print_exception(error)
            self.alive = False

    def _release(self, device: Device, call: str, handle: Any) -> None:
        driver = self.driver
        if self.simulated:
            # The collector may run in the middle of the simulated driver, which puts off a release, but
            # not a change of context. It finds the context by the handle.
            getattr(driver, call)(handle)
            return
        if device.context is None or driver.cuCtxPushCurrent(device.context)[0]:
            return
        try:
            getattr(driver, call)(handle)
        finally:
            driver.cuCtxPopCurrent()

    def _pending_error(self) -> CudaError | None:
        if self.host_errors:
            raised = self.host_errors.popleft()
            error = HostCallbackError(f"earlier asynchronous work failed: {type(raised).__name__}: {raised}")
            error.__cause__ = raised
            return error
        if self.simulated and self.alive:
            findings = self.driver.findings.take_unraised()
            if findings:
                return findings_error(findings)
        return None if self.guard is None else self.guard.pending_error()

    def _require_alive(self) -> None:
        if not self.alive:
            # At interpreter exit the driver is still there.
            refusal = (
                self.driver if isinstance(self.driver, Refusal) else Refusal(DroppedRuntimeError, _DROPPED)
            )
            raise refusal.error(repr(self))

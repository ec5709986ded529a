"""Python functions that the driver calls: those queued on streams, and those that nodes of graphs call."""

from __future__ import annotations

import ctypes
import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from .runtime import Runtime
    from .stream import Stream

_HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_NO_DESTRUCTOR_SYNC, _MOVE = 1, 1
#: C functions of runtimes that have been dropped: a driver may still be about to call them.
_outlived: list[Any] = []


class HostCallbacks:
    """The functions that a runtime's streams still have to call.

    The driver knows one C entry point and a ticket per function. An exception cannot travel through
    the driver: it is kept, and the runtime's next synchronising call raises it.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._tickets = itertools.count(1)
        self._pending: dict[int, tuple[Callable[..., object], tuple[Any, ...]]] = {}
        self._entry = _HOST_FUNCTION(self._run)
        address = ctypes.cast(self._entry, ctypes.c_void_p).value
        from cuda.bindings.driver import CUhostFn

        self._function = CUhostFn(address)

    def queue(self, stream: Stream, function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        """Have ``function(*arguments)`` called once everything queued on ``stream`` so far is done."""
        runtime = self._runtime
        ticket = next(self._tickets)
        self._pending[ticket] = (function, arguments)
        status = runtime.driver.cuLaunchHostFunc(stream.handle, self._function, ticket)[0]
        if status:
            del self._pending[ticket]
            runtime.fail(status, "cuLaunchHostFunc")

    def __bool__(self) -> bool:
        return bool(self._pending)

    def _run(self, ticket: int) -> None:
        runtime = self._runtime
        function, arguments = self._pending[ticket]
        current = runtime.current
        outer, current.in_callback = current.in_callback, True
        try:
            function(*arguments)
        except BaseException as error:
            # Also KeyboardInterrupt: there is no Python frame below this one that could take it.
            runtime.host_errors.append(error)
        finally:
            current.in_callback = outer
            del self._pending[ticket]


class RecordedCallbacks:
    """The functions that the graphs of a runtime call.

    The driver knows a C entry point and a ticket for each function. It says when the graph and all that was made of it
    are gone, by a user object of the graph.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._tickets = itertools.count(1)
        self._functions: dict[int, tuple[Callable[..., object], tuple[Any, ...]]] = {}
        self._entry, self._end = _HOST_FUNCTION(self._run), _HOST_FUNCTION(self._forget)
        from cuda.bindings.driver import CUhostFn

        self._address = CUhostFn(ctypes.cast(self._entry, ctypes.c_void_p).value)
        self._end_address = CUhostFn(ctypes.cast(self._end, ctypes.c_void_p).value)

    def __len__(self) -> int:
        return len(self._functions)

    def record(
        self,
        stream_handle: Any,
        graph_handle: Any,
        function: Callable[..., object],
        arguments: tuple[Any, ...],
    ) -> None:
        """Have ``function(*arguments)`` called by a node of the graph that a stream is captured into."""
        runtime, driver = self._runtime, self._runtime.driver
        ticket = next(self._tickets)
        create = "cuUserObjectCreate"
        user_object = runtime.check(
            driver.cuUserObjectCreate(ticket, self._end_address, 1, _NO_DESTRUCTOR_SYNC), create
        )
        self._functions[ticket] = (function, arguments)
        retain = "cuGraphRetainUserObject"
        runtime.check(driver.cuGraphRetainUserObject(graph_handle, user_object, 1, _MOVE), retain)
        status = driver.cuLaunchHostFunc(stream_handle, self._address, ticket)[0]
        if status:
            runtime.fail(status, "cuLaunchHostFunc")

    def _run(self, ticket: int) -> None:
        runtime = self._runtime
        function, arguments = self._functions[ticket]
        current = runtime.current
        outer, current.in_callback = current.in_callback, True
        try:
            function(*arguments)
        except BaseException as error:
            # Also KeyboardInterrupt: there is no Python frame below this one that could take it.
            runtime.host_errors.append(error)
        finally:
            current.in_callback = outer

    def let_go(self) -> None:
        """The runtime is dropped: keep what the driver has the address of."""
        _outlived.append((self._entry, self._end))

    def _forget(self, ticket: int) -> None:
        self._functions.pop(ticket, None)

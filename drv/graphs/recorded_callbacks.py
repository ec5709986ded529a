"""Python functions that nodes of graphs call, for as long as a graph may."""

from __future__ import annotations

import ctypes
import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv.runtime import Runtime

_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_NO_DESTRUCTOR_SYNC, _MOVE = 1, 1
#: C functions of runtimes that have been dropped: a driver may still be about to call them.
_outlived: list[Any] = []


class RecordedCallbacks:
    """The functions that the graphs of a runtime call.

    The driver knows a C entry point and a ticket for each function. It says when the graph and all that was made of it
    are gone, by a user object of the graph.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._tickets = itertools.count(1)
        self._functions: dict[int, tuple[Callable[..., object], tuple[Any, ...]]] = {}
        self._entry, self._end = _FUNCTION(self._run), _FUNCTION(self._forget)
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

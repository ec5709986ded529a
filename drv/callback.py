"""Python functions queued on a stream."""

from __future__ import annotations

import ctypes
import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from .runtime import Runtime
    from .stream import Stream

_PROTOTYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class HostCallbacks:
    """The functions that a runtime's streams still have to call.

    The driver knows one C entry point and a ticket per function. An exception cannot travel through
    the driver: it is kept, and the runtime's next synchronising call raises it.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._tickets = itertools.count(1)
        self._pending: dict[int, tuple[Callable[..., object], tuple[Any, ...]]] = {}
        self._entry = _PROTOTYPE(self._run)
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

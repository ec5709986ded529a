"""Driver calls about the driver's log, which holds the calls that failed."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

from cuda.bindings import driver as cuda

from drv.simulator.driver_call import OK, SUCCESS, call, host_address, integer, invalid_value, text, unsigned
from drv.simulator.driver_state import DriverState

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)
_ERROR = 0


class LogCalls(DriverState):
    """``cuLogs*``."""

    @call(1, uninitialised=True)
    def cuLogsRegisterCallback(self, callbackFunc: Any, userData: Any) -> tuple[Any, ...]:
        address, data = integer(callbackFunc), host_address(userData)
        if address == 0:
            raise invalid_value()
        function, handle = _CALLBACK(address), self.new_handle()

        def listener(message: str) -> None:
            encoded = message.encode()
            function(data, _ERROR, encoded, len(encoded))

        self.log.listeners[handle] = listener
        return SUCCESS, cuda.CUlogsCallbackHandle(handle)

    @call(uninitialised=True)
    def cuLogsUnregisterCallback(self, callback: Any) -> tuple[Any, ...]:
        if self.log.listeners.pop(integer(callback), None) is None:
            raise invalid_value()
        return OK

    @call(1, uninitialised=True)
    def cuLogsCurrent(self, flags: Any) -> tuple[Any, ...]:
        if unsigned(flags, 32):
            raise invalid_value()
        return SUCCESS, cuda.CUlogIterator(self.log.next)

    @call(1, uninitialised=True)
    def cuLogsDumpToFile(self, iterator: Any, pathToFile: Any, flags: Any) -> tuple[Any, ...]:
        path = Path(os.fsdecode(text(pathToFile)))
        if unsigned(flags, 32):
            raise invalid_value()
        try:
            path.write_text(self.log.since(_number(iterator)), encoding="utf-8")
        except OSError:
            raise invalid_value() from None
        return SUCCESS, self._advanced(iterator)

    @call(2, uninitialised=True)
    def cuLogsDumpToMemory(self, iterator: Any, buffer: Any, size: Any, flags: Any) -> tuple[Any, ...]:
        address, room = host_address(buffer), unsigned(size)
        if unsigned(flags, 32) or address == 0:
            raise invalid_value()
        entries = self.log.since(_number(iterator))
        messages = self.log.latest(_number(iterator), room - 1).encode()
        if entries and not messages:
            raise invalid_value()
        if room:
            ctypes.memmove(address, messages + b"\0", len(messages) + 1)
        return SUCCESS, self._advanced(iterator), len(messages)

    def _advanced(self, iterator: Any) -> Any:
        """``iterator``, now at the end of the log; None where there is none."""
        if iterator is not None:
            number = ctypes.c_uint32.from_address(int(iterator.getPtr()))
            number.value = self.log.next
        return iterator


def _number(iterator: Any) -> int:
    return 0 if iterator is None else int(iterator)

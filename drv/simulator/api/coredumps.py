"""Driver calls about core dumps of devices. What is set is remembered; a fault of a simulated device has a report instead."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver_call import OK, SUCCESS, CallError, call, integer, invalid_value
from drv.simulator.driver_state import DriverState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from drv.simulator.options import Options

_SETTINGS = cuda.CUcoredumpSettings
_FLAGS = int(_SETTINGS.CU_COREDUMP_GENERATION_FLAGS)
_TEXTS = (int(_SETTINGS.CU_COREDUMP_FILE), int(_SETTINGS.CU_COREDUMP_PIPE))
_OF_ALL = (int(_SETTINGS.CU_COREDUMP_ENABLE_USER_TRIGGER), int(_SETTINGS.CU_COREDUMP_PIPE))
_TRIGGER = int(_SETTINGS.CU_COREDUMP_ENABLE_USER_TRIGGER)
_LONGEST = 1023


class CoredumpCalls(DriverState):
    """``cuCoredump*``."""

    def __init__(self, options: Options, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(options, environment)
        self._dumps: dict[int, Any] = {}
        self._dumps_of: dict[int, dict[int, Any]] = {}
        #: Callbacks that were registered, for the start and for the end of a dump.
        self._dump_callbacks: dict[int, str] = {}

    @call(1)
    def cuCoredumpGetAttribute(self, attrib: Any) -> tuple[Any, ...]:
        context, attribute = self.current(), _attribute(attrib)
        own = self._dumps_of.get(context.handle, {})
        return SUCCESS, own.get(attribute, self._of_all(attribute))

    @call(1)
    def cuCoredumpGetAttributeGlobal(self, attrib: Any) -> tuple[Any, ...]:
        return SUCCESS, self._of_all(_attribute(attrib))

    @call()
    def cuCoredumpSetAttribute(self, attrib: Any, value: Any) -> tuple[Any, ...]:
        context, attribute = self.current(), _attribute(attrib)
        if attribute in _OF_ALL:
            raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
        self._dumps_of.setdefault(context.handle, {})[attribute] = _value(attribute, value)
        return OK

    @call()
    def cuCoredumpSetAttributeGlobal(self, attrib: Any, value: Any) -> tuple[Any, ...]:
        attribute = _attribute(attrib)
        if attribute == int(_SETTINGS.CU_COREDUMP_PIPE) and self._of_all(_TRIGGER):
            raise CallError(CUresult.CUDA_ERROR_NOT_PERMITTED)
        self._dumps[attribute] = _value(attribute, value)
        return OK

    def _of_all(self, attribute: int) -> Any:
        """The value for contexts that have none of their own."""
        if attribute in self._dumps:
            return self._dumps[attribute]
        suffix = f"cuda.{socket.gethostname()}.{os.getpid()}"
        defaults = {
            int(_SETTINGS.CU_COREDUMP_TRIGGER_HOST): True,
            int(_SETTINGS.CU_COREDUMP_FILE): f"core.{suffix}".encode(),
            int(_SETTINGS.CU_COREDUMP_PIPE): f"corepipe.{suffix}".encode(),
            _FLAGS: 0,
        }
        return defaults.get(attribute, False)

    # Callbacks

    @call(1)
    def cuCoredumpRegisterStartCallback(self, callback: Any, userData: Any) -> tuple[Any, ...]:
        return self._register(callback, "start")

    @call(1)
    def cuCoredumpRegisterCompleteCallback(self, callback: Any, userData: Any) -> tuple[Any, ...]:
        return self._register(callback, "complete")

    def _register(self, callback: Any, moment: str) -> tuple[Any, ...]:
        if integer(callback) == 0:
            raise invalid_value()
        handle = self.new_handle()
        self._dump_callbacks[handle] = moment
        return SUCCESS, cuda.CUcoredumpCallbackHandle(handle)

    @call()
    def cuCoredumpDeregisterStartCallback(self, callback: Any) -> tuple[Any, ...]:
        return self._deregister(callback, "start")

    @call()
    def cuCoredumpDeregisterCompleteCallback(self, callback: Any) -> tuple[Any, ...]:
        return self._deregister(callback, "complete")

    def _deregister(self, callback: Any, moment: str) -> tuple[Any, ...]:
        handle = integer(callback)
        if self._dump_callbacks.get(handle) != moment:
            raise invalid_value()
        del self._dump_callbacks[handle]
        return OK


def _attribute(attrib: Any) -> int:
    try:
        attribute = _SETTINGS(integer(attrib))
    except ValueError:
        raise invalid_value() from None
    if attribute == _SETTINGS.CU_COREDUMP_MAX:
        raise invalid_value()
    return int(attribute)


def _value(attribute: int, value: Any) -> Any:
    if attribute in _TEXTS:
        if not isinstance(value, bytes):
            raise TypeError(f"expected bytes, found {type(value).__name__}")
        if len(value) > _LONGEST:
            raise invalid_value()
        return value
    return integer(value) if attribute == _FLAGS else bool(value)

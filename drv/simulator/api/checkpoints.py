"""Driver calls that stop processes and keep what their devices hold. A simulated device is of its process alone."""

from __future__ import annotations

import os
from typing import Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver_call import CallError, call, integer, invalid_value, signed, structure
from drv.simulator.driver_state import DriverState


class CheckpointCalls(DriverState):
    """``cuCheckpoint*``."""

    @call(1, uninitialised=True)
    def cuCheckpointProcessGetState(self, pid: Any) -> tuple[Any, ...]:
        raise _refusal(pid)

    @call(1, uninitialised=True)
    def cuCheckpointProcessGetRestoreThreadId(self, pid: Any) -> tuple[Any, ...]:
        raise _refusal(pid)

    @call(uninitialised=True)
    def cuCheckpointProcessLock(self, pid: Any, args: Any) -> tuple[Any, ...]:
        raise _refusal(pid, args, cuda.CUcheckpointLockArgs)

    @call(uninitialised=True)
    def cuCheckpointProcessCheckpoint(self, pid: Any, args: Any) -> tuple[Any, ...]:
        raise _refusal(pid, args, cuda.CUcheckpointCheckpointArgs)

    @call(uninitialised=True)
    def cuCheckpointProcessRestore(self, pid: Any, args: Any) -> tuple[Any, ...]:
        raise _refusal(pid, args, cuda.CUcheckpointRestoreArgs)

    @call(uninitialised=True)
    def cuCheckpointProcessUnlock(self, pid: Any, args: Any) -> tuple[Any, ...]:
        raise _refusal(pid, args, cuda.CUcheckpointUnlockArgs)

    @call(uninitialised=True)
    def cuCheckpointOperationComplete(self, handle: Any) -> tuple[Any, ...]:
        integer(handle)
        raise invalid_value()


def _refusal(pid: Any, arguments: Any = None, kind: type | None = None) -> CallError:
    if kind is not None and arguments is not None:
        structure(arguments, kind)
    number = signed(pid)
    if number <= 0:
        return invalid_value()
    try:
        os.kill(number, 0)
    except PermissionError:
        pass
    except OSError:
        return invalid_value()
    return CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)

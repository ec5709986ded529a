"""Driver calls of stream capture, which the simulated driver does not have: what it answers instead."""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver_call import SUCCESS, CallError, call, integer, invalid_value
from drv.simulator.driver_state import DriverState

_NONE = cuda.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE


class CaptureCalls(DriverState):
    """``cuStream*Capture*``. No stream is ever capturing, and beginning to is refused."""

    @call()
    def cuStreamBeginCapture(self, hStream: Any, mode: Any) -> tuple[Any, ...]:
        self.stream(hStream)
        _mode(mode)
        raise CallError(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)

    @call()
    def cuStreamBeginCaptureToGraph(
        self,
        hStream: Any,
        hGraph: Any,
        dependencies: Any,
        dependencyData: Any,
        numDependencies: Any,
        mode: Any,
    ) -> tuple[Any, ...]:
        self.stream(hStream)
        raise CallError(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)

    @call(1)
    def cuStreamEndCapture(self, hStream: Any) -> tuple[Any, ...]:
        self.stream(hStream)
        raise CallError(CUresult.CUDA_ERROR_ILLEGAL_STATE)

    @call(1)
    def cuStreamIsCapturing(self, hStream: Any) -> tuple[Any, ...]:
        self.stream(hStream)
        return SUCCESS, _NONE

    @call(6)
    def cuStreamGetCaptureInfo(self, hStream: Any) -> tuple[Any, ...]:
        self.stream(hStream)
        return SUCCESS, _NONE, cuda.cuuint64_t(0), cuda.CUgraph(0), [], [], 0

    @call(1)
    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> tuple[Any, ...]:
        before, self.thread.capture_mode = self.thread.capture_mode, _mode(mode)
        return SUCCESS, cuda.CUstreamCaptureMode(before)


def _mode(mode: Any) -> int:
    try:
        return int(cuda.CUstreamCaptureMode(integer(mode)))
    except ValueError:
        raise invalid_value() from None

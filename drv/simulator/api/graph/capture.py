"""Driver calls of stream capture."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.python_stack import format_stack
from drv.simulator.driver_call import OK, SUCCESS, CallError, call, integer, invalid_value, unsigned
from drv.simulator.driver_state import RELAXED
from drv.simulator.graphs.book import GraphBook
from drv.simulator.graphs.capture import Capture, Fork

from .edges import edge_structure, edges_from

if TYPE_CHECKING:
    from drv.simulator.graphs.graph import Edge, Graph, Node
    from drv.simulator.scheduler import Stream

_STATUS = cuda.CUstreamCaptureStatus
_ADD = int(cuda.CUstreamUpdateCaptureDependencies_flags.CU_STREAM_ADD_CAPTURE_DEPENDENCIES)
_SET = int(cuda.CUstreamUpdateCaptureDependencies_flags.CU_STREAM_SET_CAPTURE_DEPENDENCIES)


class CaptureCalls(GraphBook):
    """``cuStream*Capture*``."""

    # Beginning

    @call()
    def cuStreamBeginCapture(self, hStream: Any, mode: Any) -> tuple[Any, ...]:
        stream, capture_mode = self.stream(hStream), _mode(mode)
        self._capturable(stream)
        self._begin(stream, self.new_graph(), {}, capture_mode, owns_graph=True)
        return OK

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
        stream, graph, capture_mode = self.stream(hStream), self.graph(hGraph), _mode(mode)
        earlier = edges_from(self, graph, dependencies, dependencyData, numDependencies)
        self._capturable(stream)
        if graph.capture is not None:
            raise invalid_value()
        self._begin(stream, graph, earlier, capture_mode, owns_graph=False)
        return OK

    @call()
    def cuStreamBeginRecaptureToGraph(
        self, hStream: Any, mode: Any, hGraph: Any, callbackFunc: Any, userData: Any
    ) -> tuple[Any, ...]:
        self.stream(hStream)
        _mode(mode)
        self.graph(hGraph)
        raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)

    def _capturable(self, stream: Stream) -> None:
        """Refuse a stream that cannot be captured, or is."""
        if stream is stream.context.legacy:
            raise CallError(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        if stream.capture is not None:
            raise CallError(CUresult.CUDA_ERROR_ILLEGAL_STATE)

    def _begin(
        self, stream: Stream, graph: Graph, dependencies: dict[Node, Edge], mode: int, *, owns_graph: bool
    ) -> None:
        self.accepted.clear()
        self.capture_report = None
        capture = Capture(self, self.new_identifier(), graph, stream, mode, get_ident(), owns_graph)
        capture.forks[stream] = Fork(dict(dependencies), self.recorder.take())
        graph.capture = stream.capture = capture
        self.captures.append(capture)

    # Ending

    @call(1)
    def cuStreamEndCapture(self, hStream: Any) -> tuple[Any, ...]:
        stream = self.stream(hStream)
        capture: Capture | None = stream.capture
        if capture is None:
            raise CallError(CUresult.CUDA_ERROR_ILLEGAL_STATE)
        if stream is not capture.origin:
            raise capture.invalidate(
                CUresult.CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
                f"its end was asked for on {stream.name}, on which it has not begun",
            )
        if capture.mode != RELAXED and capture.thread != get_ident():
            raise CallError(CUresult.CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
        status = None
        if capture.failure is not None:
            status = CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
        elif unjoined := capture.unjoined():
            status = CUresult.CUDA_ERROR_STREAM_CAPTURE_UNJOINED
            self.capture_report = f"{capture.origin.name} does not wait for the end of " + "; nor of ".join(
                _joining(other, fork) for other, fork in unjoined
            )
        capture.finish()
        if status is None:
            return SUCCESS, cuda.CUgraph(capture.graph.handle)
        if capture.owns_graph:
            self.destroy_graph(capture.graph)
        return status, None

    # Asking

    def _status(self, stream: Stream) -> cuda.CUstreamCaptureStatus:
        if stream is stream.context.legacy:
            for other in self.captures:
                # Asking does not make the capture void.
                if other.blocks_legacy(stream.context):
                    raise CallError(CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
        capture: Capture | None = stream.capture
        if capture is None:
            return _STATUS.CU_STREAM_CAPTURE_STATUS_NONE
        if capture.failure is not None:
            return _STATUS.CU_STREAM_CAPTURE_STATUS_INVALIDATED
        return _STATUS.CU_STREAM_CAPTURE_STATUS_ACTIVE

    @call(1)
    def cuStreamIsCapturing(self, hStream: Any) -> tuple[Any, ...]:
        return SUCCESS, self._status(self.stream(hStream))

    @call(6)
    def cuStreamGetCaptureInfo(self, hStream: Any) -> tuple[Any, ...]:
        stream = self.stream(hStream)
        status = self._status(stream)
        if status != _STATUS.CU_STREAM_CAPTURE_STATUS_ACTIVE:
            return SUCCESS, status, cuda.cuuint64_t(0), cuda.CUgraph(0), [], [], 0
        capture: Capture = stream.capture
        dependencies = capture.forks[stream].dependencies
        nodes = [cuda.CUgraphNode(node.handle) for node in dependencies]
        edges = [edge_structure(edge) for edge in dependencies.values()]
        identifier, graph = cuda.cuuint64_t(capture.identifier), cuda.CUgraph(capture.graph.handle)
        return SUCCESS, status, identifier, graph, nodes, edges, len(nodes)

    # Changing

    @call()
    def cuStreamUpdateCaptureDependencies(
        self, hStream: Any, dependencies: Any, dependencyData: Any, numDependencies: Any, flags: Any
    ) -> tuple[Any, ...]:
        stream = self.stream(hStream)
        capture: Capture | None = stream.capture
        if capture is None:
            raise CallError(CUresult.CUDA_ERROR_ILLEGAL_STATE)
        capture.check()
        action = unsigned(flags, 32)
        if action not in (_ADD, _SET):
            raise invalid_value()
        update = edges_from(self, capture.graph, dependencies, dependencyData, numDependencies)
        fork = capture.forks[stream]
        fork.dependencies = update if action == _SET else {**fork.dependencies, **update}
        return OK

    @call(1)
    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> tuple[Any, ...]:
        before, self.thread.capture_mode = self.thread.capture_mode, _mode(mode)
        return SUCCESS, cuda.CUstreamCaptureMode(before)

    @call()
    def cuStreamBeginCaptureToCig(self, hStream: Any, streamCigCaptureParams: Any) -> tuple[Any, ...]:
        self.stream(hStream)
        raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)

    @call()
    def cuStreamEndCaptureToCig(self, hStream: Any) -> tuple[Any, ...]:
        self.stream(hStream)
        raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)


def _joining(stream: Stream, fork: Fork) -> str:
    joined_at = f", which joined the capture at\n{format_stack(fork.stack)}\n" if fork.stack else ""
    return f"{stream.name}{joined_at}"


def _mode(mode: Any) -> int:
    try:
        return int(cuda.CUstreamCaptureMode(integer(mode)))
    except ValueError:
        raise invalid_value() from None

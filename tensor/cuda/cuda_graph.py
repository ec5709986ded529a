"""CUDA graphs: operations that are captured once and replayed as a whole, with one call of the driver."""

from __future__ import annotations

import gc
import threading
import warnings
from typing import TYPE_CHECKING

import drv
from tensor.core.devices.captured_graph import CapturedGraph, capture_stream, new_pool
from tensor.core.devices.graph_capture import GraphCapture
from tensor.core.devices.state import cuda_state
from tensor.core.devices.stream import Stream, StreamContext, current_stream

from .devices import synchronize
from .memory import empty_cache
from .memory_pools import pool_identifier

if TYPE_CHECKING:
    import os
    from types import TracebackType

    from drv.allocators.protocol import PoolIdentifier
    from tensor.core.devices.graph_capture import ErrorMode
    from tensor.operations.random.generator import Generator

    from .memory_pools import Pool

_MODES = ("global", "thread_local", "relaxed")


def is_current_stream_capturing() -> bool:
    """Whether this thread's current stream on the current device is captured, so that operations become nodes of a graph."""
    if not drv.is_initialized():
        return False
    state = cuda_state()
    return state.runtime.is_captured(state.local.stream.handle)


class CUDAGraph:
    """Operations that were captured, and are replayed as a whole.

    Between :meth:`capture_begin` and :meth:`capture_end`, or in a block ``with cuda.graph(g):``, operations of the current
    stream, and of streams that wait for it, are not carried out but recorded, with the addresses of their operands.
    :meth:`replay` carries them out: on the same memory, whose contents the program may change between replays, and with
    random numbers of its own each time.

    Parameters
    ----------
    keep_graph : bool
        Whether :meth:`instantiate` is left to the program, or to the first replay.

    Examples
    --------
    >>> _ = drv.simulator.install()
    >>> x = tensor.zeros(3, device="cuda")
    >>> g = tensor.cuda.CUDAGraph()
    >>> with tensor.cuda.graph(g):
    ...     y = x * 2 + 1
    >>> _ = x.fill_(5)
    >>> g.replay()
    >>> y
    tensor([11., 11., 11.], device='cuda:0')
    """

    def __init__(self, keep_graph: bool = False) -> None:
        self._keep_graph = keep_graph
        self._identifier = new_pool()
        self._pool: PoolIdentifier | None = None
        self._capture: GraphCapture | None = None
        self._captured: CapturedGraph | None = None

    def __repr__(self) -> str:
        if self._capture is not None:
            state = "being captured"
        elif self._captured is None:
            state = "empty"
        else:
            state = f"{len(self._captured.graph.nodes)} nodes"
        return f"<{type(self).__name__}, {state}>"

    def capture_begin(self, pool: Pool | None = None, capture_error_mode: ErrorMode = "global") -> None:
        """Begin to capture on the current stream; ``with cuda.graph(g):`` is nearly always the better choice.

        Parameters
        ----------
        pool
            What :func:`graph_pool_handle`, or :meth:`pool` of another graph, returned, to use memory together with it: their
            replays must not overlap, and be in the order of their captures. A :class:`MemPool` too. By default the graph
            has a pool of its own.
        capture_error_mode : {"global", "thread_local", "relaxed"}
            Of whom calls are errors that a capture does not see, such as those that wait: of every thread, of this one, or of
            none.

        Raises
        ------
        RuntimeError
            If the graph has been captured, or is being captured.
        CaptureError
            On the default stream, and on one that is captured already.
        ValueError
            For another ``capture_error_mode``.
        TypeError
            For another ``pool``.
        """
        if capture_error_mode not in _MODES:
            raise ValueError(
                f"capture_error_mode must be one of {', '.join(map(repr, _MODES))}, got {capture_error_mode!r}"
            )
        if self._capture is not None or self._captured is not None:
            raise RuntimeError(
                "this CUDAGraph already owns a captured graph, or is being captured: make another one, or call reset() first"
            )
        identifier = self._identifier if pool is None else pool_identifier(pool)
        stream = current_stream()
        if not stream.cuda_stream:
            raise drv.CaptureError(
                "a CUDA graph is captured on a non-default stream: use `with cuda.graph(g):`, or make another stream "
                "current (`with cuda.stream(cuda.Stream()):`). It may be replayed on the default stream"
            )
        other = stream.native.capture
        if other is not None:
            raise drv.CaptureError(
                f"{stream!r} is captured already, since {other.call_site}: a stream takes part in one capture at a time. A thread "
                "that captures while another one does needs a stream of its own: `with cuda.graph(g, stream=cuda.Stream()):`"
            )
        capture = GraphCapture(stream, identifier, capture_error_mode)
        with _beginning(stream):
            capture.begin()
        self._capture = capture
        self._pool = identifier

    def capture_end(self) -> None:
        """End the capture on the current stream.

        Raises
        ------
        RuntimeError
            If none has begun, or it has begun on another stream.
        CaptureError
            If something in it was not allowed, or a stream that had joined it is not waited for. The message says what;
            whatever was captured is dropped, and everything works as before.

        Warns
        -----
        UserWarning
            If nothing was captured.
        """
        capture = self._capture
        if capture is None:
            raise RuntimeError("capture_end() without a capture_begin() before it")
        if current_stream(capture.stream.device) != capture.stream:
            raise RuntimeError(
                f"a capture ends on the same stream that it began on: {capture.stream!r} was current at capture_begin()"
            )
        self._capture = None
        try:
            captured = self._captured = CapturedGraph(capture)
            if not captured.graph.nodes:
                warnings.warn(
                    "the CUDA graph is empty: nothing ran on the captured stream and those that wait for it. Was another "
                    "device, or another stream, current?",
                    stacklevel=2,
                )
            if not self._keep_graph:
                captured.instantiate()
        except BaseException:
            self._let_go()
            raise

    def _abandon(self) -> None:
        """End a capture in whose block there was an error."""
        capture, self._capture = self._capture, None
        if capture is not None:
            capture.abandon()
            self._let_go()

    def instantiate(self) -> None:
        """Make the graph executable, again where it was changed through :meth:`raw_cuda_graph`.

        Raises
        ------
        RuntimeError
            If there is none, or ``keep_graph`` was not passed.
        """
        captured = self._needed_by("instantiate()")
        if not self._keep_graph:
            raise RuntimeError(
                "instantiate() is for graphs that are made with CUDAGraph(keep_graph=True): others are executable when "
                "the capture ends"
            )
        captured.instantiate()

    def _needed_by(self, call: str) -> CapturedGraph:
        """What was captured, without which ``call`` is an error."""
        if self._captured is None:
            raise RuntimeError(f"{call} needs a graph: capture one first")
        return self._captured

    def replay(self) -> None:
        """Queue the captured operations on the current stream, in one call of the driver.

        Raises
        ------
        RuntimeError
            If nothing was captured, or earlier work on the device has failed.
        """
        if self._captured is None:
            raise RuntimeError(
                "CUDAGraph.replay() without a preceding successful capture: capture a graph first"
            )
        self._captured.replay()

    def reset(self) -> None:
        """Forget what was captured. Its memory goes back once no tensor and no other graph uses it.

        Raises
        ------
        RuntimeError
            During the capture.
        """
        if self._capture is not None:
            raise RuntimeError("reset() during the capture: end it first")
        self._let_go()

    def _let_go(self) -> None:
        captured, self._captured, self._pool = self._captured, None, None
        if captured is not None:
            captured.close()

    def pool(self) -> PoolIdentifier:
        """What goes by the memory of this graph: an argument ``pool`` of other captures, which share it then.

        Raises
        ------
        RuntimeError
            If nothing was captured.
        """
        if self._pool is None:
            raise RuntimeError(
                "CUDAGraph.pool() without a preceding successful capture: capture a graph first"
            )
        return self._pool

    def enable_debug_mode(self) -> None:
        """Ask for :meth:`debug_dump`, which works without, too."""

    def debug_dump(self, debug_path: str | os.PathLike[str]) -> None:
        """Write the graph to a file, as text that Graphviz draws: nodes, what they wait for, and their parameters.

        Parameters
        ----------
        debug_path
            The file.

        Raises
        ------
        RuntimeError
            If nothing was captured, or the file cannot be written.
        """
        self._needed_by("debug_dump()").graph.write_dot(debug_path, verbose=True)

    def register_generator_state(self, generator: Generator) -> None:
        """Accepted for compatibility: every generator that draws in a capture goes on at each replay, unasked.

        Parameters
        ----------
        generator : Generator
            One of a CUDA device.
        """

    def raw_cuda_graph(self) -> int:
        """Value of the driver's ``CUgraph``.

        Raises
        ------
        RuntimeError
            If nothing was captured.
        """
        return int(self._needed_by("raw_cuda_graph()").graph.handle)

    def raw_cuda_graph_exec(self) -> int:
        """Value of the driver's ``CUgraphExec``.

        Raises
        ------
        RuntimeError
            If the graph was not made executable.
        """
        if self._captured is None or self._captured.executable is None:
            raise RuntimeError("raw_cuda_graph_exec() needs an executable graph: call instantiate() first")
        return int(self._captured.executable.handle)


def _beginning(stream: Stream) -> threading.RLock:
    """What a thread holds while it begins a capture, so that no other one waits for the device meanwhile to begin one, too."""
    result: threading.RLock = stream.device_state.runtime.cache("graph beginnings", threading.RLock)
    return result


class graph:  # noqa: N801 - PyTorch's name
    """Context manager that captures its block into a :class:`CUDAGraph`.

    It waits for the device, returns cached memory to the driver, makes a side stream current and begins. While other threads
    capture in a mode that concerns themselves alone, it does not wait: that would make their captures void.

    Parameters
    ----------
    cuda_graph : CUDAGraph
        What the block becomes.
    pool
        See :meth:`CUDAGraph.capture_begin`.
    stream : Stream, optional
        The side stream; by default one that all such blocks use for the same device.
    capture_error_mode : {"global", "thread_local", "relaxed"}
        See :meth:`CUDAGraph.capture_begin`.

    Raises
    ------
    CaptureError
        At the end, if something in the block was not allowed; an error of the block itself is raised as it is. Either way
        what was captured is dropped, and everything works as before.

    Examples
    --------
    See :class:`CUDAGraph`.
    """

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Pool | None = None,
        stream: Stream | None = None,
        capture_error_mode: ErrorMode = "global",
    ) -> None:
        self.cuda_graph = cuda_graph
        self.pool = pool
        self.capture_stream = capture_stream(cuda_state()) if stream is None else stream
        self.capture_error_mode: ErrorMode = capture_error_mode
        self.stream_ctx = StreamContext(self.capture_stream)

    def __enter__(self) -> None:
        with _beginning(self.capture_stream):
            captures = self.capture_stream.device_state.runtime.captures
            # To wait for a whole device is an error while a stream of it is captured, whatever the mode. The memory that it
            # would free is no reason to fail where threads capture at once; "global" forbids it to all threads anyway.
            if not captures or any(each.mode == "global" for each in captures):
                synchronize(self.capture_stream.device)
                gc.collect()
                empty_cache()
            self.stream_ctx.__enter__()
            try:
                self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
            except BaseException:
                self.stream_ctx.__exit__(None, None, None)
                raise

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.cuda_graph.capture_end()
            else:
                # The block's own error is what the program is to see.
                self.cuda_graph._abandon()
        finally:
            self.stream_ctx.__exit__(exception_type, error, traceback)

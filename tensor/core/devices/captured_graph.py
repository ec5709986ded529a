"""What was captured: a graph that is launched as a whole, with its memory and its random numbers."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any

from .state import CudaState, cuda_state
from .stream import Stream

if TYPE_CHECKING:
    import drv
    from drv.allocators.protocol import PoolIdentifier

    from .graph_capture import GraphCapture

_numbers = itertools.count(1)


def new_pool() -> PoolIdentifier:
    """What a private pool of memory goes by that nothing else uses: two ints, never the same twice."""
    return next(_numbers), 0


def capture_stream(state: CudaState) -> Stream:
    """The stream of a device that graphs are captured on unless another is named."""
    stream: Stream = state.runtime.cache(("capture stream", state.ordinal), lambda: Stream(state.device))
    return stream


class CapturedGraph:
    """A capture that has ended: its graph, executable once that is asked for, and what it uses.

    Parameters
    ----------
    capture : GraphCapture
        It is ended.

    Attributes
    ----------
    graph : drv.Graph
        The graph.
    executable : drv.ExecutableGraph or None
        What :meth:`instantiate` has made of it.

    Raises
    ------
    CaptureError
        If something in the capture was not allowed; what was captured is dropped.
    """

    def __init__(self, capture: GraphCapture) -> None:
        self._state = capture.stream.device_state
        self._pool = capture.pool
        self._lock = threading.Lock()
        self._retained: list[CudaState] = []
        self.executable: drv.ExecutableGraph | None = None
        for ordinal in range(len(self._state.runtime.devices)):
            state = cuda_state(ordinal)
            state.allocator.retain_pool(self._pool)
            self._retained.append(state)
        try:
            self.graph = capture.end()
            self._draws = [each for each in capture.draws.values() if each.calls]
            for draws in self._draws:
                draws.prepare(self.graph)
            # Constants of plans, which kernels of the graph read, are forgotten with the plans.
            self._referenced: list[Any] = [
                *capture.referenced,
                *(list(each.plans.values()) for each in self._retained),
            ]
        except BaseException:
            self._release_pool()
            raise

    def instantiate(self) -> drv.ExecutableGraph:
        """Make the graph executable, as it is now."""
        executable = self.executable = self.graph.instantiate()
        return executable

    def replay(self) -> None:
        """Queue what was captured on this thread's current stream, in one call of the driver."""
        executable = self.executable or self.instantiate()
        if self._draws:
            with self._lock:
                for draws in self._draws:
                    draws.replay(executable)
                executable.launch(self._state.local.stream.native)
        else:
            executable.launch(self._state.local.stream.native)

    def close(self) -> None:
        """Forget what was captured. Its memory goes back once no tensor and no other graph uses it."""
        executable, self.executable = self.executable, None
        self._draws, self._referenced = [], []
        if executable is not None:
            executable.close()
        self.graph.close()
        self._release_pool()

    def _release_pool(self) -> None:
        retained, self._retained = self._retained, []
        for state in retained:
            if state.runtime.alive:
                state.allocator.release_pool(self._pool)

    def __del__(self) -> None:
        # What has handles goes by itself, in any order; the pool does not know of them.
        self._release_pool()

"""Random numbers in CUDA graphs: a replay draws what the generator would give next, and moves it on.

Kernels of a graph find seed and count of calls in device memory. The graph's first node writes them there: it adds to what
the last replay left, as much as the generator moved on between the last two, so that a replay takes no call of the driver
besides its launch. Where the generator is somewhere else (other numbers were drawn than before the last replay, it was seeded,
another graph was replayed), the node gets other arguments before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import drv
from drv.capture_mode import unseen_by_captures
from drv.failures import called_by
from nvrtc_kernels.random import BEGIN_REPLAY, CAPTURED, REPLAY_BYTES, begin_replay
from tensor.core.devices.graph_capture import capture_of, capture_of_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.core.devices.graph_capture import GraphCapture
    from tensor.core.devices.state import CudaState, DeviceState

    from .generator import Generator


_WORD = (1 << 64) - 1


class CapturedDraws:
    """What one generator draws in one graph.

    Parameters
    ----------
    generator : Generator
        The generator.
    capture : GraphCapture
        The graph's capture.
    begin : callable, optional
        ``begin(calls)`` is seed and first call of a replay which draws so often; by default the generator's, which moves on.

    Attributes
    ----------
    calls : int
        Calls that drew numbers so far, in the end those of a replay.
    """

    def __init__(
        self,
        generator: Generator,
        capture: GraphCapture,
        begin: Callable[[int], tuple[int, int]] | None = None,
    ) -> None:
        self.generator = generator
        self.calls = 0
        self._begin = generator.skip if begin is None else begin
        self._identifier = capture.recording.identifier
        self._memory: dict[CudaState, drv.DeviceMemory] = {}
        #: Nodes that write where the generator stands, with the kernel's device and the address.
        self._nodes: list[tuple[drv.GraphNode, CudaState, int]] = []
        #: What gives these nodes other arguments, in the executable graph that was launched last.
        self._setters: list[Callable[..., None]] = []
        self._executable: drv.ExecutableGraph | None = None
        self._epoch = 0
        #: Where the last replay began, and what the node adds to that.
        self._last: tuple[int, int] | None = None
        self._advance = 0

    def draw(self, state: CudaState, call: int | None = None) -> tuple[int, int]:
        """What a kernel on a device gets as seed and call: of the next call, or of another one by number."""
        memory = self._memory.get(state)
        if memory is None:
            # Not from the graph's pool: what it hands out now may have been something else earlier in the graph, whose
            # kernels write to it after the first node has.
            with unseen_by_captures(state.runtime):
                memory = self._memory[state] = drv.DeviceMemory(REPLAY_BYTES, state.native)
        if call is None:
            call = self.calls
        self.calls = max(self.calls, call + 1)
        return memory.address, CAPTURED | call

    def position(self) -> tuple[int, int]:
        """Where the generator stands in the capture, to come back to."""
        return self._identifier, CAPTURED | self.calls

    def go_to(self, seed: int, calls: int) -> None:
        """Come back to where the generator stood at an earlier moment of the capture.

        Raises
        ------
        RuntimeError
            If it was no moment of this capture.
        """
        if seed != self._identifier or not calls & CAPTURED:
            raise _set_in_capture(self.generator)
        self.calls = calls & ~CAPTURED

    def prepare(self, graph: drv.Graph) -> None:
        """Put the nodes into a graph whose capture has ended."""
        roots = [node for node in graph.nodes if not node.dependencies]
        for state, memory in self._memory.items():
            # No epoch is 0, so the first replay begins one.
            with unseen_by_captures(state.runtime):
                drv.memset(memory.address, 0, REPLAY_BYTES, stream=self._stream(state))
                self._stream(state).synchronize()
            arguments = [np.uint64(each) for each in (memory.address, 0, 0, 0, 0)]
            node = graph.add_kernel(begin_replay(state.native), 1, 1, arguments)
            for root in roots:
                graph.add_edge(node, root)
            self._nodes.append((node, state, memory.address))

    def replay(self, executable: drv.ExecutableGraph) -> None:
        """Let the next launch draw what the generator gives next, and move the generator on."""
        seed, first = self._begin(self.calls)
        if executable is not self._executable:
            self._bind(executable)
        last_seed, last_first = self._last or (None, 0)
        if (seed, first) != (last_seed, (last_first + self._advance) & _WORD):
            self._epoch += 1
            self._advance = (first - last_first) & _WORD if seed == last_seed else self.calls
            for (_, _, address), set_arguments in zip(self._nodes, self._setters, strict=True):
                set_arguments(address, self._epoch, seed, first, self._advance)
        self._last = seed, first

    def _bind(self, executable: drv.ExecutableGraph) -> None:
        """Prepare what a replay of another executable graph needs: its node begins as it was captured."""
        self._setters = [
            executable.arguments_of(node, begin_replay(state.native), BEGIN_REPLAY)
            for node, state, _ in self._nodes
        ]
        self._executable, self._last = executable, None

    @staticmethod
    def _stream(state: CudaState) -> drv.Stream:
        return state.runtime.cache(("replay stream", state.ordinal), lambda: drv.Stream(state.native))


def captured_draws(generator: Generator, state: DeviceState) -> CapturedDraws | None:
    """What a call that draws on a device's current stream is part of; ``None`` where it is not captured."""
    capture = capture_of(state) if state.is_cuda else None
    if capture is None:
        return None
    result: CapturedDraws | None = capture.draws.get(generator)
    if result is None:
        result = capture.draws[generator] = CapturedDraws(generator, capture)
    return result


def draws_of_thread(generator: Generator) -> CapturedDraws | None:
    """What the calling thread captures of a CUDA generator's calls; ``None`` where it captures nothing."""
    if generator.device.type != "cuda" or not drv.is_initialized():
        return None
    capture = capture_of_thread(drv.runtime())
    if capture is None:
        return None
    result: CapturedDraws | None = capture.draws.get(generator)
    if result is None:
        result = capture.draws[generator] = CapturedDraws(generator, capture)
    return result


def refuse_numbers_of_the_host(state: DeviceState, function: str) -> None:
    """Refuse a function whose random numbers the host computes, where the current stream is captured.

    Raises
    ------
    CaptureError
        In a capture.
    """
    if state.is_cuda and state.runtime.captures and state.runtime.is_captured(state.local.stream.handle):
        raise drv.CaptureError(
            f"{function}() while a stream is captured into a CUDA graph: the host makes its numbers, so every replay "
            "would have the same. Call it before the capture, and copy the result into a tensor that the graph reads\n"
            f"{called_by()}"
        )


def _set_in_capture(generator: Generator) -> RuntimeError:
    return RuntimeError(
        f"{generator!r} was to be seeded, or set to a state, by a thread that captures a CUDA graph: a replay goes on "
        "where the generator stands then. Seed it before a replay; within a capture only states that get_state() "
        "returned in the same capture can be set"
    )


def refuse_seeding(generator: Generator) -> None:
    """Refuse to seed a generator in a thread that captures.

    Raises
    ------
    RuntimeError
        If the thread captures a CUDA graph.
    """
    if draws_of_thread(generator) is not None:
        raise _set_in_capture(generator)

"""Captures: what they record, how they end, and what is said of what they do not allow."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv

if TYPE_CHECKING:
    from collections.abc import Callable


def contents(memory: Any, dtype: Any = np.uint8) -> list[Any]:
    result = np.zeros(memory.nbytes, np.uint8)
    drv.copy_to_host(result, memory)
    values: list[Any] = result.view(dtype).tolist()
    return values


def test_what_is_captured_is_done_at_each_launch(device: drv.Device, module: drv.Module) -> None:
    stream, memory = drv.Stream(device), drv.DeviceMemory(16, device)
    drv.memset(memory, 0, 16)
    fill = module.function("fill")
    with drv.capture(stream) as capture:
        assert stream.capture is capture
        drv.launch(fill, 1, 32, (memory, np.float32(2.5), np.int32(4)), stream=stream)
    assert stream.capture is None
    device.synchronize()
    assert contents(memory, np.float32) == [0] * 4
    executable = capture.graph.instantiate()
    for _ in range(2):
        drv.memset(memory, 0, 16, stream=stream)
        executable.launch(stream)
        stream.synchronize()
        assert contents(memory, np.float32) == [2.5] * 4


def test_streams_that_wait_for_each_other(device: drv.Device) -> None:
    stream, other, memory = drv.Stream(device), drv.Stream(device), drv.DeviceMemory(8, device)
    with drv.capture(stream) as capture:
        drv.memset(memory.address, 1, 4, stream=stream)
        other.wait_stream(stream)
        assert other.capture is capture
        drv.memset(memory.address + 4, 2, 4, stream=other)
        stream.wait_stream(other)
    graph = capture.graph
    assert [node.kind for node in graph.nodes] == ["memset", "memset"]
    assert [tuple(map(graph.nodes.index, edge)) for edge in graph.edges] == [(0, 1)]
    graph.instantiate().launch(other)
    other.synchronize()
    assert contents(memory) == [1] * 4 + [2] * 4


def test_a_stream_that_is_not_waited_for_is_named(device: drv.Device) -> None:
    stream, other, memory = drv.Stream(device), drv.Stream(device), drv.DeviceMemory(8, device)
    capture = drv.Capture(stream)
    capture.begin()
    other.wait_stream(stream)
    drv.memset(memory, 1, 4, stream=other)
    with pytest.raises(drv.CaptureError, match="UNJOINED") as caught:
        capture.end()
    assert repr(other) in str(caught.value)
    assert repr(stream) in str(caught.value)
    assert other.capture is None
    with pytest.raises(drv.CaptureError, match="has not ended, or has failed"):
        _ = capture.graph
    drv.memset(memory, 1, 4, stream=other)
    other.synchronize()


@pytest.mark.parametrize("name", ["synchronize", "query", "allocate", "event", "device", "copy", "pinned"])
def test_what_a_capture_does_not_allow_is_an_error_with_its_place(device: drv.Device, name: str) -> None:
    stream, memory, event = drv.Stream(device), drv.DeviceMemory(16, device), drv.Event(device)
    calls: dict[str, Callable[[], object]] = {
        "synchronize": stream.synchronize,
        "query": stream.query,
        "allocate": lambda: drv.DeviceMemory(16, device),
        "event": event.synchronize,
        "device": device.synchronize,
        "copy": lambda: drv.copy_to_host(np.zeros(16, np.uint8), memory),
        "pinned": lambda: drv.PinnedMemory(16, device),
    }
    capture = drv.Capture(stream)
    capture.begin()
    drv.memset(memory, 3, 16, stream=stream)
    with pytest.raises(drv.CaptureError, match="Called by") as caught:
        calls[name]()
    assert "test_capture.py" in str(caught.value)
    assert "is void by that" in str(caught.value)
    with pytest.raises(drv.CaptureError, match="INVALIDATED") as ended:
        capture.end()
    # The end says what it was.
    assert "It is void since this call failed:" in str(ended.value)
    assert str(caught.value).splitlines()[0] in str(ended.value)
    # And everything works on.
    drv.memset(memory, 5, 16, stream=stream)
    stream.synchronize()
    assert contents(memory) == [5] * 16
    with drv.capture(stream) as capture:
        drv.memset(memory, 6, 16, stream=stream)
    capture.graph.instantiate().launch(stream)
    stream.synchronize()
    assert contents(memory) == [6] * 16


def test_relaxed_captures_allow_what_does_not_conflict(device: drv.Device) -> None:
    stream = drv.Stream(device)
    with drv.capture(stream, mode="relaxed") as capture:
        memory = drv.DeviceMemory(16, device)
        drv.memset(memory, 4, 16, stream=stream)
    capture.graph.instantiate().launch(stream)
    stream.synchronize()
    assert contents(memory) == [4] * 16


def test_an_error_in_the_block_ends_the_capture(device: drv.Device) -> None:
    stream, memory = drv.Stream(device), drv.DeviceMemory(16, device)
    with pytest.raises(ZeroDivisionError), drv.capture(stream):
        drv.memset(memory, 3, 16, stream=stream)
        _ = 1 // 0
    assert device.runtime.captures == ()
    with pytest.raises(drv.CaptureError, match="Called by"), drv.capture(stream):
        stream.synchronize()
    assert device.runtime.captures == ()
    stream.synchronize()


def test_captures_that_cannot_begin(device: drv.Device) -> None:
    with pytest.raises(drv.CaptureError):
        drv.Capture(device.default_stream).begin()
    with pytest.raises(drv.InvalidValueError, match="mode='loose': expected one of 'global'"):
        drv.Capture(drv.Stream(device), mode="loose")  # type: ignore[arg-type]
    graph = drv.Graph(device)
    node = graph.add_empty()
    with pytest.raises(drv.InvalidValueError, match="does not say of which"):
        drv.Capture(drv.Stream(device), after=[node])
    with pytest.raises(drv.InvalidValueError, match="a node of another graph"):
        drv.Capture(drv.Stream(device), graph=drv.Graph(device), after=[node]).begin()
    stream = drv.Stream(device)
    with drv.capture(stream), pytest.raises(drv.CudaError):
        drv.Capture(stream).begin()
    assert device.runtime.captures == ()


def test_capture_into_a_graph(device: drv.Device) -> None:
    graph, stream, memory = drv.Graph(device), drv.Stream(device), drv.DeviceMemory(8, device)
    first = graph.add_memset(memory, 1, 8)
    with drv.capture(stream, graph=graph, after=[first]) as capture:
        drv.memset(memory, 2, 4, stream=stream)
    assert capture.graph is graph
    assert graph.nodes[1].dependencies == (first,)
    assert first.dependents == (graph.nodes[1],)
    graph.instantiate().launch(stream)
    stream.synchronize()
    assert contents(memory) == [2] * 4 + [1] * 4


def test_finalizers_leave_a_capture_alone(device: drv.Device) -> None:
    stream, memory = drv.Stream(device), drv.DeviceMemory(16, device)
    held: list[Any] = [drv.DeviceMemory(1 << 20, device), drv.PinnedMemory(64, device), drv.Event(device)]
    free = device.memory_info().free
    with drv.capture(stream) as capture:
        held.clear()
        gc.collect()
        drv.memset(memory, 1, 16, stream=stream)
        drv.Event(device)
    assert [node.kind for node in capture.graph.nodes] == ["memset"]
    if device.runtime.simulated:
        assert device.memory_info().free == free + (1 << 20)


def test_callbacks_are_made_at_each_launch_as_long_as_a_graph_can(device: drv.Device) -> None:
    stream = drv.Stream(device)
    log: list[int] = []
    with drv.capture(stream) as capture:
        stream.add_callback(log.append, 1)
        stream.add_callback(log.append, 2)
    graph = capture.graph
    first, second = graph.instantiate(), graph.instantiate()
    graph.close()
    for executable in (first, second, first):
        executable.launch(stream)
    first.close()
    second.launch(stream)
    stream.synchronize()
    assert log == [1, 2] * 4
    functions = device.runtime._cache["recorded callbacks"]
    assert len(functions) == 2
    second.close()
    device.synchronize()
    if device.runtime.simulated:
        thread = device.runtime.driver.scheduler._callback_thread
        if thread is not None:
            thread.join()
        assert len(functions) == 0


def test_callbacks_of_a_graph_that_is_gone_before_its_launch_is_done() -> None:
    with drv.simulator.installed(schedule="lazy"):
        stream = drv.Stream()
        log: list[int] = []
        with drv.capture(stream) as capture:
            stream.add_callback(log.append, 1)
        executable = capture.graph.instantiate()
        executable.launch(stream)
        executable.close()
        capture.graph.close()
        assert log == []
        stream.synchronize()
        assert log == [1]


def test_what_a_callback_of_a_graph_raises(device: drv.Device) -> None:
    stream = drv.Stream(device)

    def fail() -> None:
        raise KeyError("lost")

    with drv.capture(stream) as capture:
        stream.add_callback(fail)
    executable = capture.graph.instantiate()
    for _ in range(2):
        executable.launch(stream)
        with pytest.raises(drv.HostCallbackError, match="KeyError: 'lost'"):
            stream.synchronize()


def test_listeners_are_told_of_captures(device: drv.Device) -> None:
    told: list[Any] = []

    class Listener:
        def capture_begins(self, capture: drv.Capture) -> None:
            told.append(("begins", capture.stream.capture))

        def capture_ends(self, capture: drv.Capture) -> None:
            told.append(("ends", capture._graph))

    device.runtime.capture_listeners.append(Listener())
    stream = drv.Stream(device)
    with drv.capture(stream) as capture:
        pass
    with pytest.raises(drv.CaptureError), drv.capture(stream):
        stream.synchronize()
    with pytest.raises(drv.CaptureError):
        drv.Capture(device.default_stream).begin()
    assert told == [
        ("begins", None),
        ("ends", capture.graph),
        ("begins", None),
        ("ends", None),
        ("begins", None),
        ("ends", None),
    ]


def test_the_replay_of_a_static_input_that_is_written_too_early_is_a_race() -> None:
    with drv.simulator.installed(check="race", schedule="lazy"):
        device = drv.Device(0)
        static, result, host = drv.DeviceMemory(64), drv.DeviceMemory(64), drv.PinnedMemory(64)
        replays, uploads = drv.Stream(), drv.Stream()
        drv.memset(static, 0, 64)
        with drv.capture(replays) as capture:
            drv.copy_on_device(result, static, stream=replays)
        executable = capture.graph.instantiate()
        # With a wait for the replay: right.
        for _ in range(2):
            uploads.wait_stream(replays)
            drv.copy_to_device(static, host, stream=uploads)
            replays.wait_stream(uploads)
            executable.launch(replays)
        device.synchronize()
        # Without: found.
        executable.launch(replays)
        drv.copy_to_device(static, host, stream=uploads)
        with pytest.raises(drv.DataRaceError, match="after the launch of graph"):
            device.synchronize()


def test_launch_blocking_does_not_wait_in_a_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.drv.conftest import load

    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    with drv.simulator.installed():
        device = drv.Device(0)
        kernel, stream = load(device).function("nothing"), drv.Stream()
        with drv.capture(stream) as capture:
            drv.launch(kernel, 1, 1, stream=stream)
        assert [node.kind for node in capture.graph.nodes] == ["kernel"]

"""Events: order, time, and what is said when either cannot be had."""

from __future__ import annotations

import ctypes
import threading

import pytest

import drv
from tensor import cuda

SIZE = 1 << 16


def work(stream: cuda.Stream, memory: drv.DeviceMemory, value: int = 1) -> None:
    drv.memset(memory, value, memory.nbytes, stream=stream.native)


def test_an_event_is_made_when_it_is_first_recorded(two_devices: tuple[drv.Device, drv.Device]) -> None:
    event = cuda.Event()
    assert event.device is None
    assert event.cuda_event == 0
    assert event._as_parameter_.value is None
    assert repr(event) == "<tensor.cuda.Event uninitialized>"
    # Nothing is marked: nothing to wait for.
    assert event.query()
    event.synchronize()
    event.wait()
    cuda.Stream().wait_event(event)
    event.record(cuda.Stream(1))
    assert str(event.device) == "cuda:1"
    assert event.cuda_event
    assert isinstance(event._as_parameter_, ctypes.c_void_p)
    assert repr(event) == f"<tensor.cuda.Event {event.cuda_event:#x}>"
    event.synchronize()
    assert event.query()


@pytest.mark.simulator_only
def test_making_and_asking_creates_no_context() -> None:
    event = cuda.Event(enable_timing=True)
    assert event.query()
    event.synchronize()
    assert not cuda.is_initialized()


def test_the_current_stream_records_and_waits(two_devices: tuple[drv.Device, drv.Device]) -> None:
    event = cuda.Event()
    with cuda.stream(cuda.Stream(1)):
        event.record()
    assert str(event.device) == "cuda:1"
    with cuda.device(0):
        event.wait()
    again = cuda.Stream(1).record_event(event)
    assert again is event
    assert isinstance(cuda.Stream().record_event(), cuda.Event)


def test_another_devices_stream_cannot_record(two_devices: tuple[drv.Device, drv.Device]) -> None:
    event = cuda.Stream(0).record_event()
    with pytest.raises(RuntimeError, match="Event device cuda:0 does not match .*stream's device cuda:1"):
        event.record(cuda.Stream(1))
    cuda.Stream(1).wait_event(event)


def test_what_is_no_stream_is_refused(device: drv.Device) -> None:
    event = cuda.Event()
    with pytest.raises(TypeError, match=r"expected a tensor.cuda.Stream.*got Stream; .*ExternalStream"):
        event.record(drv.Stream())  # type: ignore[arg-type]
    assert event.device is None
    event.record()
    with pytest.raises(TypeError, match="got int"):
        event.wait(1)  # type: ignore[arg-type]


def test_a_stream_waits_for_the_drivers_events_too(device: drv.Device) -> None:
    stream = cuda.Stream()
    stream.wait_event(drv.Stream().record_event())
    stream.synchronize()


def test_elapsed_time(device: drv.Device) -> None:
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    stream = cuda.Stream()
    memory = drv.DeviceMemory(SIZE)
    start.record(stream)
    work(stream, memory)
    end.record(stream)
    end.synchronize()
    assert start.elapsed_time(end) >= 0
    assert isinstance(start.elapsed_time(end), float)


def test_elapsed_time_needs_timing(device: drv.Device) -> None:
    timed, plain = cuda.Event(enable_timing=True), cuda.Event()
    for event in (timed, plain):
        event.record()
        event.synchronize()
    with pytest.raises(ValueError, match="enable_timing=True'; the end event was not"):
        timed.elapsed_time(plain)
    with pytest.raises(ValueError, match="enable_timing=True'; the start event was not"):
        plain.elapsed_time(timed)
    with pytest.raises(TypeError, match=r"expects a tensor.cuda.Event, got Event"):
        timed.elapsed_time(drv.Event(timing=True))  # type: ignore[arg-type]


def test_elapsed_time_needs_both_recorded(device: drv.Device) -> None:
    recorded, other = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    recorded.record()
    recorded.synchronize()
    with pytest.raises(ValueError, match="recorded before calculating elapsed time; the end event"):
        recorded.elapsed_time(other)
    with pytest.raises(ValueError, match="recorded before calculating elapsed time; the start event"):
        other.elapsed_time(recorded)


@pytest.mark.simulator_only
def test_elapsed_time_needs_both_done() -> None:
    drv.simulator.install(schedule="lazy")
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    stream, memory = cuda.Stream(), drv.DeviceMemory(SIZE)
    start.record(stream)
    for _ in range(8):
        work(stream, memory)
    end.record(stream)
    with pytest.raises(RuntimeError, match=r"event is not: call its synchronize\(\) first"):
        start.elapsed_time(end)
    end.synchronize()
    assert start.elapsed_time(end) >= 0


def test_elapsed_time_is_of_one_device(two_devices: tuple[drv.Device, drv.Device]) -> None:
    events = [cuda.Event(enable_timing=True) for _ in range(2)]
    for ordinal, event in enumerate(events):
        event.record(cuda.Stream(ordinal))
        event.synchronize()
    with pytest.raises(RuntimeError, match="recorded on cuda:0 and the end event on cuda:1"):
        events[0].elapsed_time(events[1])


def test_options(device: drv.Device) -> None:
    with pytest.raises(ValueError, match="enable_timing=False"):
        cuda.Event(enable_timing=True, interprocess=True)
    blocking = cuda.Event(False, True)
    blocking.record()
    blocking.synchronize()
    plain = cuda.Event()
    with pytest.raises(RuntimeError, match="interprocess=True"):
        plain.ipc_handle()


@pytest.mark.simulator_only
@pytest.mark.parametrize("seed", range(6))
def test_a_wait_is_for_the_mark_at_the_time_of_the_call(seed: int) -> None:
    drv.simulator.install(schedule="random", seed=seed, check="race")
    writer, reader, event = cuda.Stream(), cuda.Stream(), cuda.Event()
    memory, other, host = drv.DeviceMemory(64), drv.DeviceMemory(64), drv.PinnedMemory(64)
    work(writer, memory, 5)
    event.record(writer)
    event.wait(reader)
    work(writer, other, 6)
    event.record(writer)
    drv.copy_to_host(host, memory, stream=reader.native)
    reader.synchronize()
    drv.host_access(host.address, 64, writes=False)
    assert (host.array() == 5).all()


@pytest.mark.simulator_only
def test_without_the_wait_the_race_is_found() -> None:
    drv.simulator.install(schedule="lazy", check="race")
    writer, reader, event = cuda.Stream(), cuda.Stream(), cuda.Event()
    memory, host = drv.DeviceMemory(64), drv.PinnedMemory(64)
    event.record(writer)
    work(writer, memory)
    event.wait(reader)
    drv.copy_to_host(host, memory, stream=reader.native)
    with pytest.raises(drv.DataRaceError):
        cuda.synchronize()


@pytest.mark.simulator_only
def test_query_lets_work_go_on() -> None:
    drv.simulator.install(schedule="lazy")
    stream, memory, event = cuda.Stream(), drv.DeviceMemory(SIZE), cuda.Event()
    for _ in range(4):
        work(stream, memory)
    event.record(stream)
    asked = 0
    while not event.query():
        asked += 1
        assert asked < 100
    assert asked


@pytest.mark.parametrize("_", range(10))
def test_threads_that_record_a_new_event_share_it(device: drv.Device, _: int) -> None:
    event, ready = cuda.Event(), threading.Barrier(4)
    values: set[int] = set()

    def record() -> None:
        ready.wait(30)
        event.record(cuda.Stream())
        values.add(event.cuda_event)

    threads = [threading.Thread(target=record) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(values) == 1
    event.synchronize()


@pytest.mark.simulator_only
def test_an_event_of_a_dropped_runtime_says_so() -> None:
    drv.simulator.install()
    event = cuda.Stream().record_event()
    drv.reset()
    drv.simulator.install()
    with pytest.raises(drv.DroppedRuntimeError, match="dropped"):
        event.record()
    with pytest.raises(drv.DroppedRuntimeError):
        event.query()
    fresh = cuda.Event()
    fresh.record()
    fresh.synchronize()

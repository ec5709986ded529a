"""Streams, events and host callbacks."""

from __future__ import annotations

import gc
import threading
import time

import numpy as np
import pytest

import drv


def test_creation(device: drv.Device) -> None:
    least, greatest = device.stream_priority_range()
    stream = drv.Stream(device, priority=greatest)
    assert stream.priority == greatest
    assert stream.non_blocking
    assert stream.device is device
    assert not drv.Stream(device, non_blocking=False).non_blocking
    assert drv.Stream(device, priority=greatest - 100).priority == greatest
    assert drv.Stream(device, priority=least + 100).priority == least


def test_equality_is_that_of_the_drivers_stream(device: drv.Device) -> None:
    stream = drv.Stream(device)
    same = drv.Stream.from_handle(device, int(stream.handle))
    assert stream == same
    assert hash(stream) == hash(same)
    assert stream != drv.Stream(device)
    assert stream != int(stream.handle)


def test_default_streams(device: drv.Device) -> None:
    default = device.default_stream
    assert default is device.default_stream
    assert default == drv.Stream.from_handle(device, 0) == drv.Stream.from_handle(device, 1)
    assert default != drv.Stream.from_handle(device, drv.Stream.PER_THREAD)
    for stream in (default, drv.Stream.from_handle(device, drv.Stream.PER_THREAD)):
        stream.synchronize()
        assert stream.query()
    with pytest.raises(drv.CudaError):
        drv.Stream.from_handle(device, 0xDEAD0).synchronize()


def test_default_streams_of_two_devices_differ(two_devices: tuple[drv.Device, drv.Device]) -> None:
    first, second = two_devices
    assert first.default_stream != second.default_stream


def test_the_stream_protocol_both_ways(two_devices: tuple[drv.Device, drv.Device]) -> None:
    class Foreign:
        def __init__(self, version: int, handle: int) -> None:
            self.answer = version, handle

        def __cuda_stream__(self) -> tuple[int, int]:
            return self.answer

    stream = drv.Stream(two_devices[1])
    assert stream.__cuda_stream__() == (0, int(stream.handle))
    assert drv.Stream.from_object(stream) is stream
    result = drv.Stream.from_object(Foreign(*stream.__cuda_stream__()))
    assert result == stream
    assert result.device is two_devices[1]
    assert drv.Stream.from_object(Foreign(0, 0)) == two_devices[0].default_stream
    assert drv.Stream.from_object(Foreign(0, 0), two_devices[1]) == two_devices[1].default_stream
    with pytest.raises(drv.InvalidValueError, match="version 7"):
        drv.Stream.from_object(Foreign(7, 0))
    with pytest.raises(drv.InvalidValueError, match="no __cuda_stream__"):
        drv.Stream.from_object(5)


def test_closing(device: drv.Device) -> None:
    stream, event = drv.Stream(device), drv.Event(device)
    stream.close()
    event.close()
    stream.close()
    event.close()
    for use in (stream.synchronize, stream.query, lambda: event.record(device.default_stream), event.query):
        with pytest.raises(drv.InvalidHandleError, match="was closed"):
            use()
    default = device.default_stream
    default.close()
    default.synchronize()


@pytest.mark.simulator_only
def test_dropped_objects_give_their_handles_back(device: drv.Device) -> None:
    driver = device.runtime.driver
    before = len(driver.streams), len(driver.events), device.memory_info().free, len(driver.records)
    cycle = [
        drv.Stream(device),
        drv.Event(device),
        drv.DeviceMemory(1 << 20, device),
        drv.PinnedMemory(1 << 20, device),
    ]
    assert len(driver.streams) == before[0] + 1
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert (len(driver.streams), len(driver.events), device.memory_info().free, len(driver.records)) == before


@pytest.mark.simulator_only
def test_what_a_callback_drops_is_given_back_later(device: drv.Device) -> None:
    driver = device.runtime.driver
    stream = drv.Stream(device)
    held = [drv.DeviceMemory(1 << 20, device), drv.Event(device)]
    free = device.memory_info().free
    stream.add_callback(held.clear)
    stream.synchronize()
    assert held == []
    device.synchronize()
    assert device.memory_info().free == free + (1 << 20)
    assert not driver.events


@pytest.mark.simulator_only
@pytest.mark.parametrize("options", [{"schedule": "lazy"}, {"schedule": "random", "seed": 3}, {}])
def test_order_between_streams(options: dict[str, object]) -> None:
    drv.simulator.install(check="race", **options)
    device = drv.Device(0)
    first, second = drv.Stream(device), drv.Stream(device)
    memory = drv.DeviceMemory(4096, device)
    result = np.zeros(4096, np.uint8)
    for value in range(1, 20):
        drv.memset(memory, value, 4096, stream=first)
        second.wait_stream(first)
        drv.copy_to_host(result, memory, stream=second)
        assert (result == value).all()
        event = second.record_event()
        event.wait(first)


@pytest.mark.simulator_only
def test_a_missing_wait_between_streams_is_raised() -> None:
    drv.simulator.install(check="race", schedule="lazy")
    device = drv.Device(0)
    first, second = drv.Stream(device), drv.Stream(device)
    memory = drv.DeviceMemory(4096, device)
    drv.memset(memory, 0, 4096)
    drv.memset(memory, 1, 4096, stream=first)
    drv.memset(memory, 2, 4096, stream=second)
    with pytest.raises(drv.DataRaceError, match="test_stream.py") as caught:
        device.synchronize()
    assert len(caught.value.findings) == 1
    assert list(drv.simulator.findings()) == list(caught.value.findings)
    device.synchronize()


@pytest.mark.simulator_only
def test_query_lets_lazy_work_progress() -> None:
    drv.simulator.install(schedule="lazy")
    device = drv.Device(0)
    stream = drv.Stream(device)
    memory = drv.DeviceMemory(64, device)
    for value in range(5):
        drv.memset(memory, value, 64, stream=stream)
    event = stream.record_event()
    assert not stream.query()
    polls = 0
    while not event.query():
        polls += 1
        assert polls < 20
    assert stream.query()


def test_events_of_another_device(two_devices: tuple[drv.Device, drv.Device]) -> None:
    first, second = two_devices
    event = drv.Event(first)
    with pytest.raises(drv.InvalidValueError, match="device 0 cannot be recorded on a stream of device 1"):
        event.record(second.default_stream)
    event.record(first.default_stream)
    event.wait(drv.Stream(second))
    second.synchronize()


def test_elapsed_time(device: drv.Device) -> None:
    stream = drv.Stream(device)
    start, end = drv.Event(device, timing=True), drv.Event(device, timing=True, blocking=True)
    start.record(stream)
    stream.add_callback(time.sleep, 0.02)
    end.record(stream)
    with pytest.raises(drv.CudaError, match="synchronise with the end event first"):
        start.elapsed_time(end)
    end.synchronize()
    assert 15 < start.elapsed_time(end) < 5000
    assert start.elapsed_time(start) == 0


def test_elapsed_time_says_what_is_missing(device: drv.Device) -> None:
    timed, untimed = drv.Event(device, timing=True), drv.Event(device)
    untimed.record(device.default_stream)
    with pytest.raises(drv.InvalidValueError, match="start event was never recorded"):
        timed.elapsed_time(timed)
    timed.record(device.default_stream)
    with pytest.raises(drv.InvalidValueError, match="end event was made without timing"):
        timed.elapsed_time(untimed)
    with pytest.raises(drv.InvalidValueError, match="start event was made without timing"):
        untimed.elapsed_time(timed)


def test_event_handles(device: drv.Device) -> None:
    event = drv.Event(device, timing=True)
    same = drv.Event.from_handle(device, int(event.handle), timing=True)
    same.record(device.default_stream)
    event.synchronize()
    assert same.query()
    assert event.query()


def test_interprocess_events(device: drv.Device) -> None:
    with pytest.raises(drv.InvalidValueError, match="timing=False"):
        drv.Event(device, interprocess=True, timing=True)
    with pytest.raises(drv.InvalidValueError, match="interprocess=True"):
        drv.Event(device).ipc_handle()
    with pytest.raises(drv.InvalidValueError, match="64 bytes, 3 bytes"):
        drv.Event.from_ipc_handle(device, b"abc")
    event = drv.Event(device, interprocess=True)
    assert len(event.ipc_handle()) == 64
    with pytest.raises(drv.InvalidHandleError):
        drv.Event.from_ipc_handle(device, bytes(64))


def test_callbacks_run_in_order_after_the_work_before_them(device: drv.Device) -> None:
    stream = drv.Stream(device)
    seen: list[int] = []
    for number in range(50):
        stream.add_callback(seen.append, number)
    stream.synchronize()
    assert seen == list(range(50))


def test_what_a_callback_raises_is_raised_by_the_next_synchronisation(device: drv.Device) -> None:
    stream = drv.Stream(device)
    stream.add_callback(int, "no number")
    stream.add_callback(int, "neither")
    with pytest.raises(
        drv.HostCallbackError, match="earlier asynchronous work failed: ValueError: invalid literal"
    ) as caught:
        stream.synchronize()
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(drv.HostCallbackError, match="neither"):
        device.synchronize()
    device.synchronize()


def test_a_callback_that_exits_does_not_end_the_process(device: drv.Device) -> None:
    stream = drv.Stream(device)

    def leave() -> None:
        raise SystemExit(3)

    stream.add_callback(leave)
    with pytest.raises(drv.HostCallbackError, match="SystemExit: 3"):
        stream.synchronize()


@pytest.mark.simulator_only
def test_cuda_calls_in_a_callback_are_refused(device: drv.Device) -> None:
    stream = drv.Stream(device)
    stream.add_callback(lambda: drv.DeviceMemory(1024, device))
    with pytest.raises(drv.HostCallbackError) as caught:
        stream.synchronize()
    assert isinstance(caught.value.__cause__, drv.NotPermittedError)


def test_a_callback_may_wait_for_another_thread(device: drv.Device) -> None:
    stream, gate, done = drv.Stream(device), threading.Event(), drv.Event(device)
    stream.add_callback(gate.wait, 30)
    done.record(stream)
    assert not done.query()
    gate.set()
    done.synchronize()
    assert stream.query()


@pytest.mark.simulator_only
@pytest.mark.parametrize("call", ["cuEventCreate", "cuEventRecord", "cuStreamWaitEvent"])
def test_streams_that_cannot_be_ordered_are_ordered_by_the_host(call: str) -> None:
    with drv.simulator.installed(schedule="lazy", check="race"):
        first, second = drv.Stream(), drv.Stream()
        memory, host = drv.DeviceMemory(64), drv.PinnedMemory(64)
        drv.memset(memory, 7, 64, stream=first)
        drv.simulator.inject().fail_call(name=call)
        with pytest.raises(drv.CudaError, match=call):
            second.wait_stream(first)
        drv.copy_to_host(host, memory, stream=second)
        second.synchronize()
        assert (host.array() == 7).all()

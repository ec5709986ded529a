"""The timeline: what comes after what, what runs beside what, and when the host goes on."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np
import pytest

import drv
from drv.simulator.timing.recorder import recording
from tests.drv.simulator.api.graph.test_conditional_nodes import WHILE, Program

SOURCE = r"""
extern "C" __global__ void fill(float *x, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        x[i] = i;
}

extern "C" __global__ void spin(float *x, int n)
{
    float v = x[threadIdx.x];
    for (int k = 0; k < n; k++)
        v = v * 1.0001f + 0.5f;
    x[threadIdx.x] = v;
}
"""
N = 1 << 20


@pytest.fixture(params=["eager", "lazy", "random"])
def runtime(request: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    # A host on which everything takes no time, so that nothing depends on this machine's.
    ticks = itertools.count(0, 10)
    monkeypatch.setattr("drv.simulator.timing.host_clock.perf_counter_ns", lambda: next(ticks))
    with drv.simulator.installed(model="h200", schedule=request.param, check="off") as result:
        yield result


def kernel(name: str) -> drv.Function:
    return drv.Module(drv.compile_program(SOURCE, "compute_90").image).function(name)


def of(recorder: Any, category: str) -> list[Any]:
    return [each for each in recorder.operations if each.category == category]


def test_operations_of_a_stream_follow_each_other(runtime: Any) -> None:
    fill, memory = kernel("fill"), drv.DeviceMemory(4 * N)
    with recording(runtime.driver) as recorder:
        for _ in range(3):
            fill.launch(64, 256, (memory, np.int32(N)), stream=None)
        drv.Device(0).synchronize()
    kernels = of(recorder, "kernel")
    assert len(kernels) == 3
    for earlier, later in itertools.pairwise(kernels):
        assert later.start >= earlier.end
    assert all(each.seconds > 0 for each in kernels)


def test_copies_go_beside_kernels_of_other_streams(runtime: Any) -> None:
    spin = kernel("spin")
    one, two = drv.Stream(), drv.Stream()
    memory, target = drv.DeviceMemory(4096), drv.DeviceMemory(4 * N)
    pinned = drv.PinnedMemory(4 * N)
    with recording(runtime.driver) as recorder:
        spin.launch(1, 256, (memory, np.int32(2000)), stream=one)
        drv.copy_to_device(target, pinned, stream=two)
        one.synchronize()
        two.synchronize()
    (launch,), (copy,) = of(recorder, "kernel"), of(recorder, "copy")
    assert copy.direction == "host"
    assert copy.start < launch.end
    assert launch.start < copy.end


def test_an_event_orders_streams(runtime: Any) -> None:
    spin, fill = kernel("spin"), kernel("fill")
    one, two = drv.Stream(), drv.Stream()
    memory, other = drv.DeviceMemory(4096), drv.DeviceMemory(4 * N)
    event = drv.Event()
    with recording(runtime.driver) as recorder:
        spin.launch(1, 256, (memory, np.int32(500)), stream=one)
        event.record(one)
        two.wait_event(event)
        fill.launch(64, 256, (other, np.int32(N)), stream=two)
        two.synchronize()
    times = {each.name: each for each in of(recorder, "kernel")}
    assert times["fill"].start >= times["spin"].end


def test_small_kernels_share_the_device_and_large_ones_do_not(runtime: Any) -> None:
    spin, fill = kernel("spin"), kernel("fill")
    streams = [drv.Stream() for _ in range(3)]
    memory = [drv.DeviceMemory(4 * N) for _ in streams]
    with recording(runtime.driver) as recorder:
        for stream, each in zip(streams, memory, strict=True):
            spin.launch(8, 256, (each, np.int32(3000)), stream=stream)
        drv.Device(0).synchronize()
    small = of(recorder, "kernel")
    assert max(each.start for each in small) < min(each.end for each in small)
    with recording(runtime.driver) as recorder:
        for stream, each in zip(streams, memory, strict=True):
            fill.launch(132 * 8, 256, (each, np.int32(N)), stream=stream)
        drv.Device(0).synchronize()
    large = sorted(of(recorder, "kernel"), key=lambda each: each.start)
    for earlier, later in itertools.pairwise(large):
        assert later.start >= earlier.end


def test_the_host_waits_for_the_device_and_events_measure_modelled_time(runtime: Any) -> None:
    spin, memory = kernel("spin"), drv.DeviceMemory(4096)
    before, after = drv.Event(timing=True), drv.Event(timing=True)
    with recording(runtime.driver) as recorder:
        stream = drv.Stream()
        before.record(stream)
        spin.launch(1, 256, (memory, np.int32(20_000)), stream=stream)
        after.record(stream)
        queued = recorder.clock.now()
        after.synchronize()
        waited = recorder.clock.now()
        milliseconds = before.elapsed_time(after)
    (launch,) = of(recorder, "kernel")
    assert waited >= launch.end
    assert queued >= launch.submitted
    assert milliseconds >= launch.seconds * 1e3
    # 20,000 dependent multiply-adds of 4 clocks at 1.98 GHz.
    assert launch.seconds == pytest.approx(20_000 * 4 / 1.98e9, rel=0.1)
    assert launch.bound == "latency"


def test_records_say_who_queued_them(runtime: Any) -> None:
    fill, memory = kernel("fill"), drv.DeviceMemory(4 * N)
    local = threading.local()
    local.name = "mine"
    with recording(runtime.driver, context=lambda: local.name) as recorder:
        fill.launch(64, 256, (memory, np.int32(N)))
        drv.Device(0).synchronize()
    (launch,) = of(recorder, "kernel")
    assert launch.context == "mine"
    assert launch.thread == threading.get_ident()
    assert (launch.grid, launch.block) == ((64, 1, 1), (256, 1, 1))


def test_one_recording_at_a_time(runtime: Any) -> None:
    with recording(runtime.driver):
        second = recording(runtime.driver)
        with pytest.raises(RuntimeError, match="being recorded already"):
            second.__enter__()
    with recording(runtime.driver):
        pass


def test_a_failing_kernel_leaves_a_record_and_the_recorder_works_on() -> None:
    with drv.simulator.installed(model="h200") as runtime:
        fill = kernel("fill")
        with recording(runtime.driver) as recorder:
            fill.launch(1, 32, (0x1234, np.int32(1)))
            with pytest.raises(drv.IllegalAddressError):
                drv.Device(0).synchronize()
        assert [each.name for each in of(recorder, "kernel")] == ["fill"]


def test_kernels_of_graphs_are_recorded_at_each_launch(runtime: Any) -> None:
    fill, memory = kernel("fill"), drv.DeviceMemory(4 * N)
    stream = drv.Stream()
    with drv.capture(stream) as capture:
        fill.launch(64, 256, (memory, np.int32(N)), stream=stream)
        fill.launch(64, 256, (memory, np.int32(N)), stream=stream)
    executable = capture.graph.instantiate()
    with recording(runtime.driver) as recorder:
        for _ in range(2):
            executable.launch(stream)
        stream.synchronize()
    kernels = of(recorder, "kernel")
    assert [each.name for each in kernels] == ["fill"] * 4
    for earlier, later in itertools.pairwise(kernels):
        assert later.start >= earlier.end


@pytest.mark.parametrize("checked", [True, False])
def test_bodies_of_conditional_nodes_are_recorded_each_time_that_they_run(checked: bool) -> None:
    program = Program("lazy", 0)
    left, total = program.number(5), program.number(0)
    handle = program.handle(default=1)
    _, bodies = program.node(handle, WHILE, 1)
    program.capture(bodies[0])
    program.kernel("add", total, np.int32(3))
    program.kernel("count_down", int(handle), left)
    program.end()
    driver = program.machine.driver
    if not checked:
        driver.scheduler.checker = driver.observer = None
    with recording(driver) as recorder:
        program.launch()
    assert program.value(total) == 15
    names = [each.name for each in of(recorder, "kernel")]
    assert sorted(names) == ["add"] * 5 + ["count_down"] * 5
    assert all(each.seconds > 0 for each in of(recorder, "kernel"))
    assert program.machine.finding_kinds == []

"""Launches that do the same as one before take what it took, and are not run; others are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drv
from drv.simulator.timing.recorder import recording
from drv.simulator.timing.repeats import Repeats
from drv.simulator.work.simulated_library import CommunicationCost
from tests.drv.simulator.memory.resident import resident_pages

pytestmark = pytest.mark.simulator_only

_SOURCE = r"""
extern "C" __global__ void twice(float *x, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        x[i] *= 2;
}
"""


def test_launches_that_do_the_same_are_timed_once() -> None:
    drv.simulator.install(model="a100")
    kernel = drv.Module(drv.compile_program(_SOURCE, "compute_80").image).function("twice")
    memory = [drv.DeviceMemory(4 << 20) for _ in range(3)]
    driver: Any = drv.runtime().driver
    repeats = Repeats()
    with recording(driver, results=False, repeats=repeats, host=False) as recorder:
        for each, count in ((memory[0], 1 << 20), (memory[1], 1 << 20), (memory[2], 1 << 10)):
            kernel.launch(64, 256, (each, np.int32(count)))
        drv.Device(0).synchronize()
    first, second, third = recorder.operations
    # The metrics are those of what was sampled.
    assert first.metrics and not second.metrics and third.metrics
    assert second.seconds == pytest.approx(first.seconds) and third.seconds < first.seconds / 2
    with recording(driver, repeats=repeats) as recorder:
        kernel.launch(64, 256, (memory[0], np.int32(1 << 20)))
        drv.Device(0).synchronize()
    # Results are computed.
    assert recorder.operations[0].metrics


def test_a_host_that_takes_no_time_does_not_wait_when_it_asks() -> None:
    drv.simulator.install(model="a100")
    kernel = drv.Module(drv.compile_program(_SOURCE, "compute_80").image).function("twice")
    memory, event = drv.DeviceMemory(4 << 20), drv.Event()
    driver: Any = drv.runtime().driver
    with recording(driver, host=False) as recorder:
        kernel.launch(64, 256, (memory, np.int32(1 << 20)))
        event.record(drv.runtime().devices[0].default_stream)
        assert event.query() and recorder.clock.now() == 0.0
        event.synchronize()
        assert recorder.clock.now() == pytest.approx(recorder.end)


def test_communication_leaves_the_multiprocessors_free() -> None:
    drv.simulator.install(model="a100")
    kernel = drv.Module(drv.compile_program(_SOURCE, "compute_80").image).function("twice")
    memory = drv.DeviceMemory(4 << 20)
    driver: Any = drv.runtime().driver
    beside, other = drv.Stream(), drv.Stream()
    with recording(driver, results=False, host=False) as recorder:
        for stream, link in ((beside, "rails"), (other, "rails"), (beside, "links")):
            cost = CommunicationCost(2e-3, 1 << 20, link)
            assert not driver.library_call(stream.handle, "all_reduce", lambda memory: None, cost=cost)[0]
        kernel.launch(64, 256, (memory, np.int32(1 << 20)))
        drv.Device(0).synchronize()
    one, two, links, computing = sorted(recorder.operations, key=lambda each: (each.name, each.start))
    assert [each.seconds for each in (one, two, links)] == pytest.approx([2e-3] * 3)
    assert one.bound == "network" and one.nbytes == 1 << 20
    # Two that share rails go one after the other, as do two of a stream; a kernel waits for none.
    assert two.start == pytest.approx(one.end) and links.start >= one.end - 1e-9
    assert computing.end < one.end


def test_samples_leave_no_memory_behind() -> None:
    """What a sample has written means nothing, so the system has it back."""
    drv.simulator.install(model="a100")
    kernel = drv.Module(drv.compile_program(_SOURCE, "compute_80").image).function("twice")
    driver: Any = drv.runtime().driver
    with recording(driver, results=False, repeats=Repeats(), host=False):
        memory = drv.DeviceMemory(256 << 20)
        kernel.launch(1 << 18, 256, (memory, np.int32(64 << 20)))
        drv.Device(0).synchronize()
        data = driver.memory.find(memory.address).data
    assert resident_pages(data) < 64

"""Programs with their synchronisation and without one part of it, on the simulated driver.

The correct program gives the right bytes and no finding, the incorrect one a finding, under every
schedule and seed: which operations happened to run in the right order does not matter.
"""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest
from cuda.bindings import driver as cuda
from hypothesis import given, settings
from hypothesis import strategies as st

from drv.simulator.checks.findings import Finding

from .machine import SCHEDULES, Machine

LEGACY = 0


@pytest.fixture(params=SCHEDULES, ids=lambda one: f"{one[0]}-{one[1]}")
def machine(request):
    return Machine(*request.param)


CORRECT = pytest.mark.parametrize("correct", [True, False], ids=["correct", "incorrect"])


def expect(machine: Machine, correct: bool, kind: str = "race") -> None:
    result = machine.finding_kinds
    if correct:
        assert result == [], str(machine.driver.findings)
    else:
        assert kind in result


@CORRECT
def test_stream_after_stream(machine, correct):
    one, two, memory, out = machine.stream(), machine.stream(), machine.alloc(), machine.alloc()
    machine.fill(memory, 7, one)
    if correct:
        machine.follow(two, one)
    machine.work(two, out, memory)
    machine.finish()
    expect(machine, correct)
    if correct:
        assert (machine.bytes(out) == 8).all()


@CORRECT
def test_the_wait_comes_before_the_record_it_means(machine, correct):
    one, two, memory, event = machine.stream(), machine.stream(), machine.alloc(), machine.event()
    if not correct:
        machine.wait(two, event)
    machine.fill(memory, 7, one)
    machine.record(event, one)
    if correct:
        machine.wait(two, event)
    machine.fill(memory, 8, two)
    machine.finish()
    expect(machine, correct)


@CORRECT
def test_an_event_recorded_again_before_the_wait(machine, correct):
    """The wait is for the latest record only, which is on another stream in the incorrect program."""
    one, two, three = machine.stream(), machine.stream(), machine.stream()
    memory, event = machine.alloc(), machine.event()
    machine.fill(memory, 7, one)
    machine.record(event, one)
    if not correct:
        machine.record(event, two)
    machine.wait(three, event)
    machine.fill(memory, 8, three)
    machine.finish()
    expect(machine, correct)


@CORRECT
def test_an_event_recorded_again_after_the_wait(machine, correct):
    """A wait keeps the record it was made for; work queued after that record is not waited for."""
    one, two, memory, event = machine.stream(), machine.stream(), machine.alloc(), machine.event()
    machine.fill(memory, 7, one)
    machine.record(event, one)
    machine.wait(two, event)
    if not correct:
        machine.fill(memory, 9, one)
    machine.record(event, one)
    machine.fill(memory, 8, two)
    machine.finish()
    expect(machine, correct)


@CORRECT
def test_copy_after_work_and_work_after_copy(machine, correct):
    copies, compute = machine.stream(), machine.stream()
    source, array = machine.pinned()
    array[:] = 3
    memory, result = machine.alloc(), machine.alloc()
    target, out = machine.pinned()
    machine.copy(memory, source, copies)
    if correct:
        machine.follow(compute, copies)
    machine.work(compute, result, memory)
    if correct:
        machine.follow(copies, compute)
    machine.copy(target, result, copies)
    machine.sync(copies)
    machine.driver.host_access(target, 1024, writes=False)
    if correct:
        assert (out == 4).all()
    machine.finish()
    expect(machine, correct)
    if not correct:
        assert len(machine.finding_kinds) >= 2


@CORRECT
@pytest.mark.parametrize("by", ["stream", "event", "context", "query", "other stream"])
def test_host_reads_a_result(machine, correct, by):
    stream, other = machine.stream(), machine.stream()
    memory, event = machine.alloc(), machine.event()
    target, out = machine.pinned()
    machine.fill(memory, 5, stream)
    machine.copy(target, memory, stream)
    machine.record(event, stream)
    if by == "other stream":
        if correct:
            machine.wait(other, event)
        machine.sync(other)
    elif correct and by == "stream":
        machine.sync(stream)
    elif correct and by == "event":
        machine.call("cuEventSynchronize", event)
    elif correct and by == "context":
        machine.call("cuCtxSynchronize")
    elif correct:
        while machine.driver.cuEventQuery(event)[0] != cuda.CUresult.CUDA_SUCCESS:
            pass
    machine.driver.host_access(target, 1024, writes=False)
    if correct:
        assert (out == 5).all()
    machine.finish()
    expect(machine, correct)


@CORRECT
@pytest.mark.parametrize("told", [True, False], ids=["told", "silent"])
def test_host_writes_while_a_copy_is_pending(machine, correct, told):
    """A staging buffer is filled for the next copy; a silent write leaves only its bytes as a trace."""
    stream, memory = machine.stream(), machine.alloc()
    source, array = machine.pinned()
    for value in (1, 2):
        if told:
            machine.driver.host_access(source, 1024, writes=True)
        array[:] = value
        machine.copy(memory, source, stream)
        if correct:
            machine.sync(stream)
    machine.finish()
    expect(machine, correct)
    if correct:
        assert (machine.bytes(memory) == 2).all()


def test_pinned_memory_that_queued_work_fills_while_a_copy_of_it_waits(machine):
    stream, memory, other = machine.stream(), machine.alloc(), machine.alloc()
    staging, _ = machine.pinned()
    machine.fill(memory, 6, stream)
    machine.copy(staging, memory, stream)
    machine.copy(other, staging, stream)
    machine.finish()
    expect(machine, True)
    assert (machine.bytes(other) == 6).all()


def test_a_source_in_rows_whose_padding_the_host_writes(machine):
    stream, memory = machine.stream(), machine.alloc()
    source, array = machine.pinned()
    copy = cuda.CUDA_MEMCPY2D()
    copy.srcMemoryType = cuda.CUmemorytype.CU_MEMORYTYPE_HOST
    copy.srcHost, copy.srcPitch = source, 64
    copy.dstMemoryType = cuda.CUmemorytype.CU_MEMORYTYPE_DEVICE
    copy.dstDevice, copy.dstPitch = memory, 32
    copy.WidthInBytes, copy.Height = 32, 16
    machine.call("cuMemcpy2DAsync", copy, stream)
    array.reshape(16, 64)[:, 32:] = 1
    machine.finish()
    expect(machine, True)


@pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "non-blocking"])
@pytest.mark.parametrize("legacy_first", [True, False])
def test_the_legacy_default_stream(machine, blocking, legacy_first):
    stream, memory = machine.stream(blocking=blocking), machine.alloc()
    order = [LEGACY, stream] if legacy_first else [stream, LEGACY]
    for value, one in enumerate(order):
        machine.fill(memory, value + 1, one)
    machine.finish()
    expect(machine, blocking)
    if blocking:
        assert (machine.bytes(memory) == 2).all()


def test_blocking_streams_are_ordered_through_the_legacy_stream_only(machine):
    one, two = machine.stream(blocking=True), machine.stream(blocking=True)
    memory, other = machine.alloc(), machine.alloc()
    machine.fill(memory, 1, one)
    machine.fill(other, 1, LEGACY)
    machine.fill(memory, 2, two)
    machine.finish()
    expect(machine, True)
    machine.fill(memory, 3, one)
    machine.finish()
    machine.fill(memory, 4, one)
    machine.fill(memory, 5, two)
    machine.finish()
    expect(machine, False)


@CORRECT
def test_memory_of_a_pool_is_used_after_its_allocation(machine, correct):
    one, two = machine.stream(), machine.stream()
    memory = int(machine.call("cuMemAllocAsync", 1024, one))
    if correct:
        machine.follow(two, one)
    machine.fill(memory, 1, two)
    machine.finish()
    expect(machine, correct)


@CORRECT
def test_memory_of_a_pool_is_freed_after_its_last_use(machine, correct):
    one, two = machine.stream(), machine.stream()
    memory, out = int(machine.call("cuMemAllocAsync", 1024, one)), machine.alloc()
    machine.fill(memory, 1, one)
    machine.follow(two, one)
    machine.work(two, out, memory)
    if correct:
        machine.follow(one, two)
    machine.call("cuMemFreeAsync", memory, one)
    if correct:
        machine.finish()
        expect(machine, True)
        return
    # Either the free ran first and the use faults, or the free finds that the use was not waited for.
    for stream in (one, two):
        machine.driver.cuStreamSynchronize(stream)
    faulted = "freed" in (machine.driver.fault_report() or "")
    assert faulted or machine.finding_kinds == ["freed while in use"]


@CORRECT
def test_pinned_memory_is_freed_after_the_copy(machine, correct):
    stream, memory = machine.stream(), machine.alloc()
    source, _ = machine.pinned()
    machine.copy(memory, source, stream)
    machine.record(event := machine.event(), stream)
    if correct:
        machine.call("cuEventSynchronize", event)
    else:
        # The copy happens to be done, and nobody knows.
        machine.driver.scheduler.complete(machine.driver.events[event].record)
    machine.call("cuMemFreeHost", source)
    machine.finish()
    expect(machine, correct, "freed while in use")


def test_freeing_waits_and_an_allocation_orders_nothing(machine):
    one, two = machine.stream(), machine.stream()
    memory, other = machine.alloc(), machine.alloc()
    machine.fill(memory, 1, one)
    machine.alloc()
    machine.fill(memory, 2, two)
    machine.finish()
    expect(machine, False)
    machine.driver.findings.clear()
    machine.fill(other, 1, one)
    machine.call("cuMemFree", memory)
    machine.fill(other, 2, two)
    machine.finish()
    expect(machine, True)


@CORRECT
def test_blocks_of_one_allocation_handed_from_stream_to_stream(machine, correct):
    """A caching allocator that reuses a block on another stream too early."""
    one, two, memory = machine.stream(), machine.stream(), machine.alloc(4096)
    machine.fill(memory, 1, one)
    machine.fill(memory + 1024, 1, two)
    if correct:
        machine.follow(two, one)
    machine.fill(memory, 2, two)
    machine.finish()
    expect(machine, correct)


@CORRECT
def test_a_peer_copy(machine, correct):
    machine.on(1)
    there, remote = machine.stream(), machine.alloc()
    machine.on(0)
    here, local = machine.stream(), machine.alloc()
    machine.fill(local, 9, here)
    machine.on(1)
    if correct:
        machine.on(0)
        machine.record(event := machine.event(), here)
        machine.on(1)
        machine.wait(there, event)
    machine.call("cuMemcpyPeerAsync", remote, machine.contexts[1], local, machine.contexts[0], 1024, there)
    machine.finish()
    expect(machine, correct)
    if correct:
        assert (machine.bytes(remote) == 9).all()


@CORRECT
def test_the_source_of_a_peer_copy_is_overwritten(machine, correct):
    machine.on(1)
    there, remote = machine.stream(), machine.alloc()
    machine.on(0)
    here, local = machine.stream(), machine.alloc()
    machine.fill(local, 9, here)
    machine.copy(remote, local, here)
    machine.on(1)
    if correct:
        machine.on(0)
        machine.record(event := machine.event(), here)
        machine.on(1)
        machine.wait(there, event)
    machine.fill(remote, 1, there)
    machine.finish()
    expect(machine, correct)


@CORRECT
def test_two_host_threads(machine, correct):
    """Joining a thread orders nothing on the device; what the thread waited for is done."""
    one, two, memory = machine.stream(), machine.stream(), machine.alloc()

    def first():
        machine.on(0)
        machine.fill(memory, 1, one)
        if correct:
            machine.sync(one)

    def second():
        machine.on(0)
        machine.fill(memory, 2, two)
        machine.sync(two)

    for work in (first, second):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    machine.finish()
    expect(machine, correct)
    if correct:
        assert (machine.bytes(memory) == 2).all()


def test_two_host_threads_on_one_stream(machine):
    stream, memory = machine.stream(), machine.alloc()

    def work():
        machine.on(0)
        for value in range(20):
            machine.fill(memory, value, stream)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    machine.finish()
    expect(machine, True)


@CORRECT
def test_a_host_callback_reads_a_result(machine, correct):
    stream, other, memory = machine.stream(), machine.stream(), machine.alloc()
    target, out = machine.pinned()
    seen = []

    def read():
        machine.driver.host_access(target, 1024, writes=False)
        seen.append(out.copy())

    machine.fill(memory, 4, stream)
    machine.copy(target, memory, stream)
    machine.callback(stream if correct else other, read)
    machine.finish()
    expect(machine, correct)
    if correct:
        assert (seen[0] == 4).all()


@CORRECT
def test_a_host_callback_writes_what_a_copy_takes(machine, correct):
    stream, other, memory = machine.stream(), machine.stream(), machine.alloc()
    source, array = machine.pinned()

    def write():
        machine.driver.host_access(source, 1024, writes=True)
        array[:] = 4

    machine.callback(stream if correct else other, write)
    machine.copy(memory, source, stream)
    machine.finish()
    expect(machine, correct)
    if correct:
        assert (machine.bytes(memory) == 4).all()


def test_a_callback_does_not_tell_the_host_that_work_is_done(machine):
    stream, memory = machine.stream(), machine.alloc()
    target, _ = machine.pinned()
    machine.copy(target, memory, stream)
    done = threading.Event()
    machine.callback(stream, done.set)
    machine.record(event := machine.event(), stream)
    while not done.is_set():
        machine.driver.scheduler.progress(machine.driver.events[event].record)
    machine.driver.host_access(target, 1024, writes=False)
    machine.finish()
    expect(machine, False)


@CORRECT
def test_pageable_copies_are_complete_or_staged_when_they_return(machine, correct):
    stream, memory = machine.stream(), machine.alloc()
    array = np.full(1024, 3, np.uint8)
    machine.copy(memory, array.ctypes.data, stream)
    array[:] = 4
    back = np.zeros(1024, np.uint8)
    if not correct:
        machine.fill(memory, 9, machine.stream())
    machine.copy(back.ctypes.data, memory, stream)
    if correct:
        assert (back == 3).all()
    machine.finish()
    expect(machine, correct)


def test_a_long_pipeline_over_three_streams(machine):
    """Double buffering, correct: uploads, work and downloads overlap and nothing is reported."""
    up, compute, down = (machine.stream() for _ in range(3))
    staged = [machine.pinned() for _ in range(2)]
    results = [machine.pinned() for _ in range(2)]
    inputs, outputs = [machine.alloc() for _ in range(2)], [machine.alloc() for _ in range(2)]
    uploaded = [machine.event() for _ in range(2)]
    consumed = [machine.event() for _ in range(2)]
    computed = [machine.event() for _ in range(2)]
    downloaded = [machine.event() for _ in range(2)]
    seen = []
    for step in range(10):
        side = step % 2
        if step >= 2:
            machine.call("cuEventSynchronize", downloaded[side])
            machine.driver.host_access(results[side][0], 1024, writes=False)
            seen.append(int(results[side][1][5]))
        machine.call("cuEventSynchronize", uploaded[side])
        machine.driver.host_access(staged[side][0], 1024, writes=True)
        staged[side][1][:] = 10 * step
        machine.wait(up, consumed[side])
        machine.copy(inputs[side], staged[side][0], up)
        machine.record(uploaded[side], up)
        machine.wait(compute, uploaded[side])
        machine.wait(compute, downloaded[side])
        machine.work(compute, outputs[side], inputs[side])
        machine.record(consumed[side], compute)
        machine.record(computed[side], compute)
        machine.wait(down, computed[side])
        machine.copy(results[side][0], outputs[side], down)
        machine.record(downloaded[side], down)
    machine.finish()
    expect(machine, True)
    assert seen == [10 * step + 1 for step in range(8)]


@st.composite
def programs(draw):
    """Fills of ranges on four streams, records and waits of two events, waits of the host."""
    steps = []
    streams, events = st.integers(0, 3), st.integers(0, 1)
    for _ in range(draw(st.integers(1, 16))):
        choice = draw(st.integers(0, 9))
        if choice < 5:
            start = 16 * draw(st.integers(0, 7))
            steps.append(("fill", draw(streams), start, 16 * draw(st.integers(1, 8 - start // 16))))
        elif choice < 7:
            steps.append(("record", draw(events), draw(streams)))
        elif choice < 9:
            steps.append(("wait", draw(streams), draw(events)))
        else:
            steps.append((draw(st.sampled_from(["sync", "query"])), draw(events)))
    return steps


def raced_bytes(steps, schedule: str, seed: int) -> set[int]:
    machine = Machine(schedule, seed, devices=1)
    # All fills stand on one line of Python and would be counted as one mistake.
    result: list[Finding] = []
    machine.driver.observer.findings = SimpleNamespace(add=result.append)
    streams = [LEGACY, machine.stream(blocking=True), machine.stream(), machine.stream()]
    events = [machine.event(), machine.event()]
    memory = machine.alloc()
    for number, step in enumerate(steps):
        match step:
            case ("fill", stream, start, size):
                machine.fill(memory + start, number, streams[stream], size)
            case ("record", event, stream):
                machine.record(events[event], streams[stream])
            case ("wait", stream, event):
                machine.wait(streams[stream], events[event])
            case ("sync", event):
                machine.call("cuEventSynchronize", events[event])
            case ("query", event):
                while machine.driver.cuEventQuery(events[event])[0] != cuda.CUresult.CUDA_SUCCESS:
                    pass
    machine.finish()
    ranges = [limits for finding in result for limits in finding.ranges]
    return {byte for start, stop in ranges for byte in range(start, stop)}


@settings(max_examples=100, deadline=None)
@given(programs(), st.integers(0, 1000))
def test_what_is_found_does_not_depend_on_the_schedule(steps, seed):
    eager = raced_bytes(steps, "eager", 0)
    assert raced_bytes(steps, "lazy", 0) == eager
    assert raced_bytes(steps, "random", seed) == eager

"""What an error on a device does to its context, and faults on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from .machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

    MachineMaker = Callable[..., Machine]


def go_wrong(machine: Machine, stream: Any) -> None:
    assert machine.driver.library_call(stream, "the bad one", lambda memory: memory.read(0x10, 4))[0] == 0


def test_a_fault_is_sticky(any_schedule: MachineMaker) -> None:
    machine = any_schedule(devices=2)
    stream, event, memory = machine.stream(), machine.event(), machine.device_memory(64)
    go_wrong(machine, stream)
    machine.cuStreamCreate  # noqa: B018 - looking a call up is no call
    assert machine.status("cuStreamSynchronize", stream) == "ILLEGAL_ADDRESS"
    for call in (
        ("cuCtxSynchronize",),
        ("cuStreamQuery", stream),
        ("cuEventQuery", event),
        ("cuEventRecord", event, stream),
        ("cuMemAlloc", 64),
        ("cuMemFree", memory),
        ("cuMemcpyDtoD", memory, memory, 4),
        ("cuMemsetD8", memory, 0, 4),
        ("cuStreamCreate", 0),
        ("cuStreamSynchronize", 0),
    ):
        assert machine.status(*call) == "ILLEGAL_ADDRESS"
    machine.use(1)
    machine.cuMemFree(machine.device_memory(64))
    machine.cuCtxSynchronize()


def test_the_report_names_the_operation_and_its_python_line(lazy: Machine) -> None:
    stream = lazy.stream()
    go_wrong(lazy, stream)
    assert lazy.driver.fault_report() is None
    lazy.status("cuStreamSynchronize", stream)
    report = lazy.driver.fault_report()
    assert report is not None
    assert "read of 4 bytes at 0x10 outside any allocation" in report
    assert "the bad one" in report
    assert "test_faults.py" in report
    assert "in go_wrong" in report
    lazy.use(1)
    assert lazy.driver.fault_report() == report


def test_what_was_queued_behind_a_fault_does_not_run(lazy: Machine) -> None:
    first, second, event = lazy.stream(), lazy.stream(), lazy.event()
    go_wrong(lazy, first)
    lazy.mark(first, "behind")
    lazy.cuEventRecord(event, first)
    lazy.mark(second, "beside")
    lazy.use(1)
    other = lazy.stream()
    lazy.cuStreamWaitEvent(other, event, 0)
    lazy.mark(other, "other device")
    lazy.cuStreamSynchronize(other)
    assert lazy.log == ["other device"]
    lazy.use(0)
    assert lazy.status("cuStreamSynchronize", second) == "ILLEGAL_ADDRESS"
    assert lazy.log == ["other device"]


def test_reset_recovers(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    stream = machine.stream()
    go_wrong(machine, stream)
    assert machine.status("cuCtxSynchronize") == "ILLEGAL_ADDRESS"
    machine.cuDevicePrimaryCtxReset(0)
    machine.cuDevicePrimaryCtxRetain(0)
    fresh = machine.stream()
    machine.mark(fresh, "works")
    machine.cuStreamSynchronize(fresh)
    assert machine.log == ["works"]


def test_an_exception_in_an_operation_is_a_launch_failure(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    stream = machine.stream()

    def broken(memory: object) -> None:
        raise KeyError("a mistake of the simulator itself")

    machine.driver.library_call(stream, "broken", broken)
    assert machine.status("cuStreamSynchronize", stream) == "LAUNCH_FAILED"
    report = machine.driver.fault_report()
    assert report is not None
    assert "a mistake of the simulator itself" in report


def test_an_interrupt_leaves_the_driver_usable(lazy: Machine) -> None:
    stream = lazy.stream()

    def interrupt(memory: object) -> None:
        raise KeyboardInterrupt

    lazy.driver.library_call(stream, "interrupted", interrupt)
    lazy.mark(stream, "behind")
    with pytest.raises(KeyboardInterrupt):
        lazy.driver.cuStreamSynchronize(stream)
    lazy.cuStreamSynchronize(stream)
    assert lazy.log == ["behind"]


def test_waiting_for_the_running_operation_is_refused(any_schedule: MachineMaker) -> None:
    """A finalizer inside an operation that synchronises would wait for itself."""
    machine = any_schedule()
    stream = machine.stream()
    machine.driver.library_call(
        stream, "waits", lambda memory: machine.log.append(machine.status("cuStreamSynchronize", stream))
    )
    machine.cuStreamSynchronize(stream)
    assert machine.log == ["NOT_PERMITTED"]


def test_work_that_a_finalizer_queues_runs(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    first, second, event = machine.stream(), machine.stream(), machine.event()

    def queue(memory: object) -> None:
        machine.cuEventRecord(event, second)
        machine.mark(second, "queued inside")

    machine.driver.library_call(first, "queues", queue)
    machine.cuStreamSynchronize(first)
    machine.cuStreamSynchronize(second)
    assert machine.log == ["queued inside"]


# Faults on demand


def test_out_of_memory_after_some_bytes(machine: Machine) -> None:
    machine.driver.inject.out_of_memory_after(10_000)
    machine.device_memory(4096)
    machine.pinned(4096)
    assert machine.status("cuMemAlloc", 4096) == "OUT_OF_MEMORY"
    assert machine.status("cuMemHostAlloc", 4096, 0) == "OUT_OF_MEMORY"
    machine.device_memory(512)
    machine.driver.inject.clear()
    machine.device_memory(1 << 20)


def test_out_of_memory_at_an_allocation(machine: Machine) -> None:
    machine.driver.inject.out_of_memory_after(allocations=2)
    machine.device_memory(1)
    machine.device_memory(1)
    assert machine.status("cuMemAlloc", 1) == "OUT_OF_MEMORY"
    assert machine.status("cuMemAllocAsync", 1, 0) == "OUT_OF_MEMORY"
    with pytest.raises(ValueError, match="one of them"):
        machine.driver.inject.out_of_memory_after()


def test_a_lost_device(machine: Machine) -> None:
    machine.use(1)
    stream, memory = machine.stream(), machine.device_memory(64)
    machine.driver.inject.lose_device(1)
    assert machine.status("cuStreamSynchronize", stream) == "DEVICE_UNAVAILABLE"
    assert machine.status("cuMemFree", memory) == "DEVICE_UNAVAILABLE"
    assert machine.status("cuDevicePrimaryCtxReset", 1) == "DEVICE_UNAVAILABLE"
    assert machine.status("cuDevicePrimaryCtxRetain", 1) == "DEVICE_UNAVAILABLE"
    report = machine.driver.fault_report()
    assert report is not None
    assert "Device 1 was lost" in report
    machine.use(0)
    machine.cuMemFree(machine.device_memory(64))

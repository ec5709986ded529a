"""Streams that wait for a value in memory, and write one."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cuda.bindings import driver as cuda

from tests.drv.simulator.checks.machine import SCHEDULES
from tests.drv.simulator.checks.machine import Machine as RaceMachine

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.drv.simulator.machine import Machine

    MachineMaker = Callable[..., Machine]

GEQ, EQ, AND, NOR = range(4)
OPERATIONS = cuda.CUstreamBatchMemOpType


def zeros(machine: Machine, count: int = 4) -> int:
    address = machine.device_memory(4 * count)
    machine.poke(address, np.zeros(4 * count))
    return address


def test_a_stream_waits_for_what_another_writes(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    flag, producer, consumer = zeros(machine), machine.stream(), machine.stream()
    machine.cuStreamWaitValue32(consumer, flag, 1, EQ)
    machine.mark(consumer, "consumed")
    machine.mark(producer, "produced")
    machine.cuStreamWriteValue32(producer, flag, 1, 0)
    machine.cuStreamSynchronize(consumer)
    assert machine.log == ["produced", "consumed"]


@pytest.mark.parametrize(
    ("flags", "value", "word", "over"),
    [
        (GEQ, 5, 5, True),
        (GEQ, 5, 4, False),
        (GEQ, 0xFFFFFFFF, 3, True),
        (GEQ, 3, 0xFFFFFFFF, False),
        (EQ, 5, 5, True),
        (EQ, 5, 6, False),
        (AND, 6, 2, True),
        (AND, 6, 1, False),
        (NOR, 0xFFFFFFF0, 0xF, False),
        (NOR, 0xFFFFFFF0, 0x7, True),
    ],
)
def test_conditions(machine: Machine, flags: int, value: int, word: int, over: bool) -> None:
    flag, stream = zeros(machine), machine.stream()
    machine.poke(flag, np.array([word], np.uint32).view(np.uint8))
    machine.cuStreamWaitValue32(stream, flag, value, flags)
    assert machine.status("cuStreamQuery", stream) == ("SUCCESS" if over else "NOT_READY")


def test_words_of_eight_bytes(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    flag, producer, consumer = zeros(machine), machine.stream(), machine.stream()
    machine.cuStreamWaitValue64(consumer, flag, 1 << 40, GEQ)
    machine.mark(consumer, 1)
    assert machine.status("cuStreamQuery", consumer) == "NOT_READY"
    machine.cuStreamWriteValue64(producer, flag, 1 << 40, 0)
    machine.cuStreamSynchronize(consumer)
    assert machine.log == [1]
    assert machine.peek(flag, 8).view(np.uint64)[0] == 1 << 40


def test_the_host_writes_the_value(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    address, array = machine.pinned(16)
    stream = machine.stream()
    machine.cuStreamWaitValue32(stream, address, 3, EQ)
    machine.mark(stream, "done")

    def write() -> None:
        time.sleep(0.02)
        array[0] = 3

    thread = threading.Thread(target=write)
    thread.start()
    machine.cuStreamSynchronize(stream)
    thread.join()
    assert machine.log == ["done"]


def test_a_loop_of_queries_ends(lazy: Machine) -> None:
    flag, producer, consumer = zeros(lazy), lazy.stream(), lazy.stream()
    lazy.cuStreamWaitValue32(consumer, flag, 1, EQ)
    lazy.cuStreamWriteValue32(producer, flag, 1, 0)
    for _ in range(10):
        if lazy.status("cuStreamQuery", consumer) == "SUCCESS":
            return
    raise AssertionError("the wait was never over")


def operation(kind: Any, member: str, address: int, value: int, **fields: Any) -> Any:
    result = cuda.CUstreamBatchMemOpParams()
    target = getattr(result, member)
    target.operation = kind
    target.address = cuda.CUdeviceptr(address)
    for name, each in {"value": value, **fields}.items():
        wide = member == "atomicReduction" and name == "value"
        field_value = cuda.cuuint64_t(each) if wide else cuda.cuuint32_t(each) if name == "value" else each
        setattr(target, name, field_value)
    return result


def test_batches_run_in_order(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    words, stream = zeros(machine), machine.stream()
    write, wait = OPERATIONS.CU_STREAM_MEM_OP_WRITE_VALUE_32, OPERATIONS.CU_STREAM_MEM_OP_WAIT_VALUE_32
    add = {
        "reductionOp": cuda.CUstreamAtomicReductionOpType.CU_STREAM_ATOMIC_REDUCTION_OP_ADD,
        "dataType": cuda.CUstreamAtomicReductionDataType.CU_STREAM_ATOMIC_REDUCTION_UNSIGNED_32,
    }
    reduction = OPERATIONS.CU_STREAM_MEM_OP_ATOMIC_REDUCTION
    barrier = cuda.CUstreamBatchMemOpParams()
    barrier.memoryBarrier.operation = OPERATIONS.CU_STREAM_MEM_OP_BARRIER
    batch = [
        operation(write, "writeValue", words, 5),
        barrier,
        operation(wait, "waitValue", words, 5),
        operation(write, "writeValue", words + 4, 6),
        operation(reduction, "atomicReduction", words + 4, 10, **add),
    ]
    machine.cuStreamBatchMemOp(stream, len(batch), batch, 0)
    machine.cuStreamSynchronize(stream)
    assert machine.peek(words, 8).view(np.uint32).tolist() == [5, 16]


def test_what_is_refused(machine: Machine) -> None:
    words, stream = zeros(machine), machine.stream()
    for name, wrong in (
        ("cuStreamWaitValue32", (words + 2, 0, EQ)),
        ("cuStreamWaitValue32", (0, 0, EQ)),
        ("cuStreamWaitValue32", (words, 0, 4)),
        ("cuStreamWaitValue64", (words + 4, 0, EQ)),
        ("cuStreamWriteValue32", (words, 0, 2)),
        ("cuStreamWriteValue32", (1 << 50, 0, 0)),
    ):
        assert machine.status(name, stream, *wrong) == "INVALID_VALUE", (name, wrong)
    write = operation(OPERATIONS.CU_STREAM_MEM_OP_WRITE_VALUE_32, "writeValue", words, 1)
    assert machine.status("cuStreamBatchMemOp", stream, 1, [write], 1) == "INVALID_VALUE"
    assert machine.status("cuStreamBatchMemOp", stream, 0, [write], 0) == "INVALID_VALUE"
    assert machine.status("cuStreamBatchMemOp", stream, 256, [write] * 256, 0) == "INVALID_VALUE"
    with pytest.raises(RuntimeError, match="List is too small: 1 < 2"):
        machine.driver.cuStreamBatchMemOp(stream, 2, [write], 0)
    with pytest.raises(OverflowError):
        machine.driver.cuStreamWaitValue32(stream, words, 1 << 32, EQ)


def test_a_wait_for_freed_memory_is_a_fault(lazy: Machine) -> None:
    word, stream = int(lazy.cuMemAllocAsync(4, 0)), lazy.stream()
    lazy.cuStreamWaitValue32(stream, word, 1, EQ)
    other = lazy.stream()
    lazy.cuMemFreeAsync(word, other)
    lazy.cuStreamSynchronize(other)
    assert lazy.status("cuStreamSynchronize", stream) == "ILLEGAL_ADDRESS"


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES[:8])
@pytest.mark.parametrize("first", ["wait", "write"])
@pytest.mark.parametrize("waits", [True, False])
def test_a_wait_orders_what_was_before_the_write_and_is_after_the_wait(
    schedule: str, seed: int, first: str, waits: bool
) -> None:
    machine = RaceMachine(schedule, seed, devices=1)
    flag, data = machine.alloc(4), machine.alloc()
    producer, consumer, further = machine.stream(), machine.stream(), machine.stream()
    machine.fill(flag, 0, producer, 4)
    machine.follow(consumer, producer)

    def produce() -> None:
        machine.fill(data, 1, producer)
        machine.call("cuStreamWriteValue32", producer, flag, 1, 0)

    def consume() -> None:
        if waits:
            machine.call("cuStreamWaitValue32", consumer, flag, 1, EQ)
        machine.work(consumer, data, data)
        machine.follow(further, consumer)
        machine.work(further, data, data)

    for each in (produce, consume) if first == "write" else (consume, produce):
        each()
    machine.finish()
    # What is queued later inherits the order, too.
    machine.work(further, data, data)
    machine.finish()
    assert bool(machine.finding_kinds) != waits

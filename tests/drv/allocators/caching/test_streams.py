"""Blocks that several streams use come back when, and not before, those streams are done with them."""

from __future__ import annotations

import random

import pytest

import drv
from drv.allocators import CachedBlock, device_allocator
from drv.errors import InvalidHandleError, NotPermittedError
from tests.drv.allocators.fakes import MIB, Bottom

SCHEDULES = [("eager", 0), ("lazy", 0), *(("random", seed) for seed in range(6))]


def test_a_block_waits_for_what_was_queued_when_it_was_freed() -> None:
    bottom = Bottom()
    block = bottom.allocator.allocate(1000, 1)
    bottom.allocator.record_stream(block, 2)
    bottom.events.work(2)
    bottom.allocator.free(block)
    # Work that comes later does not count.
    bottom.events.work(3)
    assert bottom.allocator.allocate(1000, 1).address != block.address
    assert bottom.stat("allocated_bytes.all.current") == 1024
    assert bottom.stat("active_bytes.all.current") == 2048
    bottom.events.finish(2)
    assert bottom.allocator.allocate(1000, 1).address == block.address
    assert bottom.events.waits == 0


def test_it_waits_for_all_streams_on_all_devices() -> None:
    bottom = Bottom()
    block = bottom.allocator.allocate(1000, 1)
    for stream, device in ((2, None), (3, None), (1, 1)):
        bottom.allocator.record_stream(block, stream, device)
        bottom.events.work(stream, device or 0)
    bottom.allocator.free(block)
    for stream, device in ((2, 0), (1, 1), (3, 0)):
        assert bottom.allocator.allocate(1000, 1).address != block.address
        bottom.events.finish(stream, device)
    assert bottom.allocator.allocate(1000, 1).address == block.address


def test_its_own_stream_needs_no_event() -> None:
    bottom = Bottom()
    block = bottom.allocator.allocate(1000, 1)
    bottom.allocator.record_stream(block, 1)
    bottom.allocator.record_stream(block, 1, 0)
    bottom.events.work(1)
    bottom.allocator.free(block)
    assert bottom.allocator.allocate(1000, 1).address == block.address
    assert bottom.events.queries == 0


def test_uses_end_with_the_block() -> None:
    bottom = Bottom()
    block = bottom.allocator.allocate(1000, 1)
    bottom.allocator.record_stream(block, 2)
    bottom.allocator.free(block)
    block = bottom.allocator.allocate(1000, 1)
    bottom.events.work(2)
    bottom.allocator.free(block)
    assert bottom.allocator.allocate(1000, 1).address == block.address


def test_polling_asks_only_for_the_first_event_of_each_stream() -> None:
    bottom = Bottom()
    blocks = [bottom.allocator.allocate(512, 1) for _ in range(100)]
    bottom.events.work(2)
    for block in blocks:
        bottom.allocator.record_stream(block, 2)
        bottom.allocator.free(block)
    before = bottom.events.queries
    for _ in range(10):
        bottom.allocator.allocate(512, 1)
    assert bottom.events.queries - before == 10


def test_pending_blocks_do_not_merge() -> None:
    bottom = Bottom()
    blocks = [bottom.allocator.allocate(1024, 1) for _ in range(3)]
    bottom.allocator.record_stream(blocks[1], 2)
    bottom.events.work(2)
    for block in blocks:
        bottom.allocator.free(block)
    (segment,) = bottom.allocator.snapshot()
    assert [b["state"] for b in segment["blocks"]] == ["inactive", "active_pending_free", "inactive"]
    assert segment["active_size"] == 1024
    bottom.events.finish(2)
    bottom.allocator.free(bottom.allocator.allocate(1024, 1))
    (segment,) = bottom.allocator.snapshot()
    assert len(segment["blocks"]) == 1


def test_the_memory_of_a_destroyed_stream_comes_back_when_all_is_waited_for() -> None:
    bottom = Bottom()

    def refuse(key: tuple[int, int]) -> int:
        raise InvalidHandleError("no such stream")

    bottom.events.record = refuse  # type: ignore[method-assign]
    block = bottom.allocator.allocate(30 * MIB, 1)
    bottom.allocator.record_stream(block, 2)
    bottom.allocator.free(block)
    assert bottom.allocator.allocate(1000, 1).address != block.address
    assert bottom.events.waits == 0
    bottom.allocator.empty_cache()
    assert bottom.events.waits == 1
    assert bottom.segment_sizes == [2 * MIB]


def _refuse(key: tuple[int, int]) -> int:
    raise NotPermittedError("not now")


def test_what_could_not_be_marked_when_it_was_freed_is_marked_later() -> None:
    bottom = Bottom()
    record = bottom.events.record
    bottom.events.record = _refuse  # type: ignore[method-assign]
    block = bottom.allocator.allocate(1000, 1)
    bottom.allocator.record_stream(block, 2)
    bottom.events.work(2)
    bottom.allocator.free(block)
    assert bottom.allocator.allocate(1000, 1).address != block.address
    bottom.events.record = record  # type: ignore[method-assign]
    # Behind what the stream holds by now.
    bottom.events.work(2)
    assert bottom.allocator.allocate(1000, 1).address != block.address
    bottom.events.finish(2)
    bottom.allocator.free(bottom.allocator.allocate(1, 1))
    assert bottom.allocator.allocate(1000, 1).address == block.address


def test_what_can_never_be_marked_comes_back_when_all_is_waited_for() -> None:
    bottom = Bottom()
    bottom.events.record = _refuse  # type: ignore[method-assign]
    block = bottom.allocator.allocate(30 * MIB, 1)
    bottom.allocator.record_stream(block, 2)
    bottom.allocator.free(block)
    bottom.allocator.empty_cache()
    assert bottom.events.waits == 1
    assert not bottom.segment_sizes


def test_a_free_where_cuda_must_not_be_called_is_put_off() -> None:
    bottom = Bottom()
    block = bottom.allocator.allocate(1000, 1)
    bottom.allocator.record_stream(block, 2)
    bottom.events.work(2)
    bottom.events.usable = False
    bottom.allocator.free(block)
    bottom.events.finish(2)
    assert bottom.allocator.allocate(1000, 1).address != block.address
    bottom.events.usable = True
    # The event is recorded now, and has passed at the next look.
    bottom.allocator.free(bottom.allocator.allocate(1, 1))
    assert bottom.allocator.allocate(1000, 1).address == block.address


def test_a_dropped_runtime_is_not_called() -> None:
    bottom = Bottom()
    block = bottom.allocator.allocate(1000, 1)
    bottom.allocator.record_stream(block, 2)
    bottom.events.alive = False
    bottom.allocator.free(block)
    assert bottom.allocator.snapshot()[0]["active_size"] == 0


class Program:
    """Random work of several streams on blocks of one allocator, ordered as a careful user would."""

    def __init__(self, runtime: drv.Runtime, seed: int, *, record: bool) -> None:
        self.random = random.Random(seed)
        self.allocator = device_allocator(runtime, 0)
        self.streams = [drv.Stream(drv.Device(0)) for _ in range(3)]
        self.record = record
        self.live: list[tuple[CachedBlock, drv.Stream]] = []

    def step(self) -> None:
        choice = self.random.random()
        if choice < 0.5 or not self.live:
            stream = self.random.choice(self.streams)
            block = self.allocator.allocate(self.random.choice([256, 1000, 4096]), int(stream.handle))
            drv.memset(block.address, 1, block.requested, stream=stream)
            self.live.append((block, stream))
        else:
            block, stream = self.live.pop(self.random.randrange(len(self.live)))
            if choice < 0.8:
                other = self.random.choice(self.streams)
                other.wait_stream(stream)
                drv.copy_on_device(block.address, block.address + 128, 128, stream=other)
                if self.record:
                    self.allocator.record_stream(block, int(other.handle))
            self.allocator.free(block)


@pytest.mark.simulator_only
@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_recorded_uses_never_race(schedule: str, seed: int) -> None:
    with drv.simulator.installed(memory="64MiB", check="race", schedule=schedule, seed=seed) as runtime:
        program = Program(runtime, seed, record=True)
        for _ in range(150):
            program.step()
        drv.Device(0).synchronize()
        assert list(drv.simulator.findings()) == []
        counted = program.allocator.statistics()
        if schedule == "lazy":
            assert counted["active.all.peak"] > counted["allocation.all.peak"]


@pytest.mark.simulator_only
@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_a_use_that_is_not_recorded_is_caught(schedule: str) -> None:
    with drv.simulator.installed(memory="64MiB", check="race", schedule=schedule) as runtime:
        program = Program(runtime, 1, record=False)
        with pytest.raises(drv.DataRaceError):
            for _ in range(150):
                program.step()
            drv.Device(0).synchronize()


@pytest.mark.simulator_only
def test_freeing_never_synchronises() -> None:
    with drv.simulator.installed(memory="64MiB", schedule="lazy") as runtime:
        allocator = device_allocator(runtime, 0)
        own, other = drv.Stream(drv.Device(0)), drv.Stream(drv.Device(0))
        block = allocator.allocate(4096, int(own.handle))
        drv.memset(block.address, 1, 4096, stream=own)
        other.wait_stream(own)
        drv.memset(block.address, 2, 4096, stream=other)
        allocator.record_stream(block, int(other.handle))
        allocator.free(block)
        assert not own.query() or not other.query()
        assert allocator.snapshot()[0]["blocks"][0]["state"] == "active_pending_free"


@pytest.mark.simulator_only
def test_a_use_on_another_device_is_waited_for() -> None:
    with drv.simulator.installed(devices=2, memory="64MiB", check="race", schedule="lazy") as runtime:
        allocator = device_allocator(runtime, 0)
        first, second = drv.Device(0), drv.Device(1)
        own, other = drv.Stream(first), drv.Stream(second)
        target = device_allocator(runtime, 1).allocate(4096, int(other.handle))
        block = allocator.allocate(4096, int(own.handle))
        drv.memset(block.address, 1, 4096, stream=own)
        other.wait_stream(own)
        drv.copy_peer(target.address, second, block.address, first, 4096, stream=other)
        allocator.record_stream(block, int(other.handle), 1)
        allocator.free(block)
        later_block = allocator.allocate(4096, int(own.handle))
        assert later_block.address != block.address
        drv.memset(later_block.address, 2, 4096, stream=own)
        other.synchronize()
        assert allocator.allocate(4096, int(own.handle)).address == block.address
        first.synchronize()
        assert list(drv.simulator.findings()) == []


@pytest.mark.simulator_only
def test_a_reset_drops_the_allocators() -> None:
    with drv.simulator.installed(memory="64MiB") as runtime:
        allocator = device_allocator(runtime, 0)
        block, used = allocator.allocate(1000, 1), allocator.allocate(1000, 1)
        stream = drv.Stream(drv.Device(0))
        allocator.record_stream(used, int(stream.handle))
    allocator.free(block)
    allocator.free(used)
    with pytest.raises(drv.DroppedRuntimeError):
        allocator.allocate(30 * MIB)
    with drv.simulator.installed(memory="64MiB") as runtime:
        assert device_allocator(runtime, 0) is not allocator
        assert device_allocator(runtime, 0).statistics()["allocation.all.allocated"] == 0

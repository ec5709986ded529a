"""Pinned host memory: size classes, and no reuse before the copies are done."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

import drv
from drv.allocators import PinnedAllocator, PinnedBlock, pinned_allocator
from drv.errors import InvalidValueError, OutOfMemoryError
from tests.drv.allocators.fakes import BASE, MIB, FakeEvents

if TYPE_CHECKING:
    from drv.memory import PinnedMemory


class FakeMemory:
    def __init__(self, host: Host, address: int, nbytes: int) -> None:
        self.host, self.address, self.nbytes = host, address, nbytes

    def free(self) -> None:
        self.host.pinned.remove(self)


class Host:
    """Pins memory, up to ``capacity`` bytes at once."""

    def __init__(self, capacity: int = 1 << 40) -> None:
        self.capacity = capacity
        self.pinned: list[FakeMemory] = []
        self.calls = 0
        self._next = BASE

    def pin(self, size: int) -> PinnedMemory:
        self.calls += 1
        if sum(memory.nbytes for memory in self.pinned) + size > self.capacity:
            raise OutOfMemoryError("exhausted")
        memory = FakeMemory(self, self._next, size)
        self._next += size
        self.pinned.append(memory)
        return memory  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("requested", "size"),
    [(1, 4096), (4096, 4096), (4097, 8192), (MIB, MIB), (MIB + 1, 2 * MIB), (5 * MIB, 8 * MIB)],
)
def test_sizes_are_powers_of_two(requested: int, size: int) -> None:
    block = PinnedAllocator(Host().pin, FakeEvents()).allocate(requested)
    assert (block.requested, block.size) == (requested, size)


def test_a_block_is_reused_once_the_copies_are_done() -> None:
    host, events = Host(), FakeEvents()
    allocator = PinnedAllocator(host.pin, events)
    block = allocator.allocate(5000)
    for stream, device in ((1, 0), (1, 1)):
        allocator.record_stream(block, stream, device)
        events.work(stream, device)
    allocator.free(block)
    assert allocator.allocate(5000) is not block
    events.finish(1, 0)
    assert allocator.allocate(5000) is not block
    events.finish(1, 1)
    assert allocator.allocate(8000) is block
    assert events.waits == 0


def test_a_block_that_nothing_used_is_reused_at_once() -> None:
    host = Host()
    allocator = PinnedAllocator(host.pin, FakeEvents())
    block = allocator.allocate(100)
    allocator.free(block)
    assert allocator.allocate(3000) is block
    assert host.calls == 1


def test_empty_cache_unpins_what_nothing_uses() -> None:
    host, events = Host(), FakeEvents()
    allocator = PinnedAllocator(host.pin, events)
    held, used, free = (allocator.allocate(100) for _ in range(3))
    allocator.record_stream(used, 1)
    events.work(1)
    allocator.free(used)
    allocator.free(free)
    allocator.empty_cache()
    assert {memory.address for memory in host.pinned} == {held.address, used.address}
    events.finish(1)
    allocator.empty_cache()
    assert [memory.address for memory in host.pinned] == [held.address]
    assert events.waits == 0


def test_cached_blocks_go_when_the_host_can_pin_no_more() -> None:
    host = Host(capacity=8 * MIB)
    allocator = PinnedAllocator(host.pin, FakeEvents())
    allocator.free(allocator.allocate(4 * MIB))
    allocator.free(allocator.allocate(8 * MIB))
    assert [memory.nbytes for memory in host.pinned] == [8 * MIB]
    with pytest.raises(OutOfMemoryError):
        allocator.allocate(16 * MIB)
    allocator.free(allocator.allocate(8 * MIB))
    assert allocator.statistics()["reserved_bytes.current"] == 8 * MIB


def test_without_caching_blocks_are_exact_and_unpinned_when_done() -> None:
    host, events = Host(), FakeEvents()
    allocator = PinnedAllocator(host.pin, events, caching=False)
    block = allocator.allocate(100)
    assert block.size == 100
    allocator.record_stream(block, 1)
    events.work(1)
    allocator.free(block)
    assert len(host.pinned) == 1
    events.finish(1)
    allocator.free(allocator.allocate(7))
    assert host.pinned == []


def test_misuse_is_an_error_that_changes_nothing() -> None:
    allocator = PinnedAllocator(Host().pin, FakeEvents())
    block = allocator.allocate(1)
    allocator.free(block)
    for call in (allocator.free, lambda b: allocator.record_stream(b, 1)):
        with pytest.raises(InvalidValueError, match="freed before"):
            call(block)
    for size in (0, -1):
        with pytest.raises(InvalidValueError, match=f"cannot allocate {size} bytes"):
            allocator.allocate(size)
    assert allocator.statistics()["allocation.current"] == 0


class Pinned(RuleBasedStateMachine):
    blocks: Bundle[PinnedBlock] = Bundle("blocks")

    def __init__(self) -> None:
        super().__init__()
        self.host, self.events = Host(), FakeEvents()
        self.allocator = PinnedAllocator(self.host.pin, self.events)
        self.live: list[PinnedBlock] = []
        #: For each freed range, what must have happened before it is reused.
        self.copies: dict[int, dict[tuple[int, int], int]] = {}

    @rule(target=blocks, size=st.one_of(st.integers(1, 20000), st.integers(1, 4 * MIB)))
    def allocate(self, size: int) -> PinnedBlock:
        block = self.allocator.allocate(size)
        assert block.size >= size
        for key, event in self.copies.pop(block.address, {}).items():
            assert self.events.done[key] >= event
        self.live.append(block)
        return block

    @rule(block=blocks, stream=st.integers(1, 3), device=st.integers(0, 1))
    def copy(self, block: PinnedBlock, stream: int, device: int) -> None:
        if block.live:
            self.events.work(stream, device)
            self.allocator.record_stream(block, stream, device)

    @rule(block=consumes(blocks))
    def free(self, block: PinnedBlock) -> None:
        self.live = [other for other in self.live if other is not block]
        self.copies[block.address] = {key: self.events.queued[key] for key in block.uses}
        self.allocator.free(block)

    @rule(stream=st.integers(1, 3), device=st.integers(0, 1))
    def copies_are_done(self, stream: int, device: int) -> None:
        self.events.finish(stream, device)

    @rule()
    def empty_cache(self) -> None:
        self.allocator.empty_cache()

    @invariant()
    def live_blocks_are_pinned_and_do_not_overlap(self) -> None:
        ranges = sorted((block.address, block.address + block.size) for block in self.live)
        assert all(end <= start for (_, end), (start, _) in pairwise(ranges))
        pinned = {(memory.address, memory.address + memory.nbytes) for memory in self.host.pinned}
        assert set(ranges) <= pinned

    @invariant()
    def counters_are_right(self) -> None:
        result = self.allocator.statistics()
        assert result["allocation.current"] == len(self.live)
        assert result["allocated_bytes.current"] == sum(block.size for block in self.live)
        assert result["segment.current"] == len(self.host.pinned)
        assert result["reserved_bytes.current"] == sum(memory.nbytes for memory in self.host.pinned)
        assert result["num_host_alloc"] == self.host.calls

    def teardown(self) -> None:
        assert self.events.waits == 0
        for block in self.live:
            self.allocator.free(block)
        for device in (0, 1):
            for stream in (1, 2, 3):
                self.events.finish(stream, device)
        self.allocator.empty_cache()
        assert self.host.pinned == []


TestPinned = Pinned.TestCase
TestPinned.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


def copy_through_pinned_memory(runtime: drv.Runtime, seed: int, *, record: bool) -> None:
    """Write blocks, copy them to the device, free them; each byte must arrive."""
    rng = random.Random(seed)
    allocator = pinned_allocator(runtime)
    streams = [drv.Stream(drv.Device(0)) for _ in range(2)]
    copies = 40
    device = drv.DeviceMemory(copies * 4096, drv.Device(0))
    for index in range(copies):
        block = allocator.allocate(4096)
        array = block.memory.array()
        drv.host_access(block.memory, writes=True)
        array[:] = index + 1
        stream = rng.choice(streams)
        drv.copy_to_device(device.address + index * 4096, block.address, 4096, stream=stream)
        if record:
            allocator.record_stream(block, int(stream.handle))
        allocator.free(block)
        if rng.random() < 0.1:
            rng.choice(streams).synchronize()
    for stream in streams:
        stream.synchronize()
    arrived = bytearray(copies * 4096)
    drv.copy_to_host(arrived, device)
    assert arrived == b"".join(bytes([index + 1]) * 4096 for index in range(copies))


@pytest.mark.simulator_only
@pytest.mark.parametrize(
    ("schedule", "seed"), [("eager", 0), ("lazy", 0), *(("random", seed) for seed in range(6))]
)
def test_no_copy_reads_a_block_that_was_reused(schedule: str, seed: int) -> None:
    with drv.simulator.installed(memory="16MiB", check="race", schedule=schedule, seed=seed) as runtime:
        copy_through_pinned_memory(runtime, seed, record=True)
        assert list(drv.simulator.findings()) == []
        reused = pinned_allocator(runtime).statistics()
        assert reused["num_host_alloc"] < reused["allocation.allocated"]


@pytest.mark.simulator_only
@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_a_copy_that_is_not_recorded_is_caught(schedule: str) -> None:
    with (
        drv.simulator.installed(memory="16MiB", check="race", schedule=schedule) as runtime,
        pytest.raises(drv.DataRaceError),
    ):
        copy_through_pinned_memory(runtime, 1, record=False)


@pytest.mark.simulator_only
def test_arrays_outlive_what_they_were_made_of() -> None:
    with drv.simulator.installed(memory="16MiB") as runtime:
        allocator = pinned_allocator(runtime)
        block = allocator.allocate(4096)
        array = block.memory.array()
        array[:] = 5
        allocator.free(block)
        allocator.empty_cache()
        assert array.sum() == 5 * 4096
        assert pinned_allocator(runtime) is allocator

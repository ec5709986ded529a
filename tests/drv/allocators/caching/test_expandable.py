"""Expandable segments: what is mapped, what is given back, where blocks lie."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

import drv
from drv.allocators import AllocatorOptions, CachedBlock, CachingAllocator, device_allocator
from drv.errors import InvalidValueError, OutOfMemoryError
from tests.drv.allocators.fakes import MIB, Bottom

OPTION = "expandable_segments:True"


def test_a_segment_grows_by_pages_and_blocks_lie_side_by_side() -> None:
    bottom = Bottom(OPTION)
    first = bottom.allocator.allocate(15 * MIB)
    assert list(bottom.addresses.pages.values()) == [20 * MIB]
    second = bottom.allocator.allocate(15 * MIB)
    assert second.address == first.address + 15 * MIB
    assert list(bottom.addresses.pages.values()) == [20 * MIB, 20 * MIB]
    # Large blocks are cut to 512 bytes here.
    assert bottom.allocator.allocate(10 * MIB - 512).address == second.address + 15 * MIB
    assert len(bottom.addresses.pages) == 2
    assert bottom.source.calls == []
    assert bottom.stat("reserved_bytes.large_pool.current") == 40 * MIB
    assert bottom.stat("segment.all.current") == 0
    assert bottom.stat("num_device_alloc") == 2


def test_small_blocks_have_pages_of_two_mib() -> None:
    bottom = Bottom(OPTION)
    for _ in range(3):
        bottom.allocator.allocate(MIB)
    assert list(bottom.addresses.pages.values()) == [2 * MIB, 2 * MIB]


def test_requests_that_grow_slowly_use_the_same_memory() -> None:
    """What expandable segments are for: without them each step would need segments of its own."""
    bottom = Bottom(OPTION)
    for step in range(20):
        blocks = [bottom.allocator.allocate((11 + step) * MIB) for _ in range(3)]
        for block in blocks:
            bottom.allocator.free(block)
    assert bottom.stat("reserved_bytes.all.current") == 100 * MIB


def test_only_pages_that_no_block_touches_are_given_back() -> None:
    bottom = Bottom(OPTION)
    blocks = [bottom.allocator.allocate(30 * MIB) for _ in range(4)]
    base = blocks[0].address
    bottom.allocator.free(blocks[1])
    bottom.allocator.free(blocks[2])
    bottom.allocator.empty_cache()
    # Blocks 1 and 2 were [30, 90) MiB; the pages in there are [40, 80).
    assert sorted(page - base for page in bottom.addresses.pages) == [0, 20 * MIB, 80 * MIB, 100 * MIB]
    assert bottom.addresses.waits == 1
    assert bottom.stat("reserved_bytes.all.current") == 80 * MIB
    segments = bottom.allocator.snapshot()
    assert [(s["address"] - base, s["total_size"]) for s in segments] == [(0, 40 * MIB), (80 * MIB, 40 * MIB)]
    # The hole is filled again, at its lowest address, together with the free bytes before it.
    second = bottom.allocator.allocate(60 * MIB)
    assert second.address == blocks[1].address
    assert len(bottom.addresses.pages) == 6


def test_a_segment_without_pages_goes() -> None:
    bottom = Bottom(OPTION)
    blocks = [bottom.allocator.allocate(size, stream) for size in (100, 30 * MIB) for stream in (1, 2)]
    assert len(bottom.addresses.reserved) == 4
    for block in blocks:
        bottom.allocator.free(block)
    bottom.allocator.empty_cache()
    assert bottom.addresses.pages == {}
    assert bottom.addresses.reserved == {}
    assert bottom.allocator.snapshot() == []
    bottom.allocator.free(bottom.allocator.allocate(100, 1))


def test_out_of_memory_gives_pages_of_other_streams_back() -> None:
    bottom = Bottom(OPTION, capacity=200 * MIB)
    held = bottom.allocator.allocate(20 * MIB, 1)
    bottom.allocator.free(bottom.allocator.allocate(120 * MIB, 2))
    bottom.allocator.free(bottom.allocator.allocate(100 * MIB, 1))
    assert bottom.stat("num_alloc_retries") == 1
    with pytest.raises(OutOfMemoryError) as caught:
        bottom.allocator.allocate(200 * MIB, 3)
    assert "expandable_segments" not in str(caught.value)
    assert bottom.stat("num_ooms") == 1
    bottom.allocator.free(held)
    bottom.allocator.free(bottom.allocator.allocate(200 * MIB, 3))
    bottom.allocator.empty_cache()
    assert bottom.addresses.used == 0


def test_blocks_of_both_kinds_live_side_by_side() -> None:
    bottom = Bottom()
    plain = bottom.allocator.allocate(30 * MIB)
    bottom.allocator.set_options(AllocatorOptions.from_text(OPTION))
    grown = bottom.allocator.allocate(30 * MIB)
    bottom.allocator.free(plain)
    bottom.allocator.free(grown)
    assert bottom.allocator.allocate(25 * MIB).address == grown.address
    bottom.allocator.set_options(AllocatorOptions())
    assert bottom.allocator.allocate(25 * MIB).address == plain.address
    expandable = {s["address"]: s["is_expandable"] for s in bottom.allocator.snapshot()}
    assert expandable == {plain.address: False, grown.address: True}


def test_a_block_that_could_grow_counts_as_large_as_it_could() -> None:
    bottom = Bottom(OPTION)
    inner, _ = bottom.allocator.allocate(8 * MIB), bottom.allocator.allocate(8 * MIB)
    bottom.allocator.free(inner)
    # The last 4 MiB of the page are the smaller fit, and worth more where they are.
    assert bottom.allocator.allocate(3 * MIB).address == inner.address
    assert bottom.allocator.allocate(3 * MIB).address == inner.address + 3 * MIB
    # 2 MiB are left of the inner block, 4 MiB at the end.
    assert bottom.allocator.allocate(3 * MIB).address == inner.address + 16 * MIB


def test_peers_that_come_later_are_granted_access() -> None:
    bottom = Bottom(OPTION)
    bottom.allocator.allocate(30 * MIB)
    bottom.allocator.grant_access(3)
    assert [(size, device) for _, size, device in bottom.addresses.granted] == [(20 * MIB, 3)] * 2


class Expandable(RuleBasedStateMachine):
    blocks: Bundle[CachedBlock] = Bundle("blocks")

    def __init__(self) -> None:
        super().__init__()
        self.bottom = Bottom(OPTION, capacity=400 * MIB)
        self.allocator = self.bottom.allocator
        self.live: list[CachedBlock] = []

    @rule(
        target=blocks,
        size=st.one_of(st.integers(1, 3 * MIB), st.integers(1, 80).map(lambda n: n * MIB)),
        stream=st.sampled_from([1, 2]),
    )
    def allocate(self, size: int, stream: int) -> CachedBlock:
        try:
            block = self.allocator.allocate(size, stream)
        except OutOfMemoryError:
            # Whatever could be given back was, and was not enough.
            assert self.bottom.addresses.used + size > 300 * MIB
            block = self.allocator.allocate(0, stream)
        else:
            assert block.size == (size + 511) // 512 * 512
            self.live.append(block)
        return block

    @rule(block=consumes(blocks))
    def free(self, block: CachedBlock) -> None:
        self.live = [other for other in self.live if other is not block]
        self.allocator.free(block)

    @rule()
    def empty_cache(self) -> None:
        self.allocator.empty_cache()
        touched = {
            page
            for page, size in self.bottom.addresses.pages.items()
            for block in self.live
            if block.address < page + size and page < block.address + block.size
        }
        assert touched == set(self.bottom.addresses.pages)

    @invariant()
    def live_blocks_are_mapped_and_do_not_overlap(self) -> None:
        ranges = sorted((block.address, block.address + block.size) for block in self.live)
        assert all(end <= start for (_, end), (start, _) in pairwise(ranges))
        mapped = sorted((page, page + size) for page, size in self.bottom.addresses.pages.items())
        for start, stop in ranges:
            covered = sum(max(0, min(stop, b) - max(start, a)) for a, b in mapped)
            assert covered == stop - start

    @invariant()
    def everything_mapped_is_accounted_for(self) -> None:
        segments = self.allocator.snapshot()
        mapped = sum(segment["total_size"] for segment in segments)
        assert mapped == self.bottom.addresses.used
        counted = self.allocator.statistics()
        assert mapped == counted["reserved_bytes.all.current"]
        assert counted["inactive_split.all.allocated"] == counted["inactive_split_bytes.all.peak"] == 0
        assert sum(s["allocated_size"] for s in segments) == sum(block.size for block in self.live)
        for segment in segments:
            states = [block["state"] for block in segment["blocks"]]
            assert ("inactive", "inactive") not in pairwise(states)

    def teardown(self) -> None:
        for block in self.live:
            self.allocator.free(block)
        self.allocator.empty_cache()
        assert self.bottom.addresses.pages == {}
        assert self.bottom.addresses.reserved == {}


TestExpandable = Expandable.TestCase
TestExpandable.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)


@pytest.mark.simulator_only
def test_on_the_simulated_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHROOT_CUDA_ALLOC_CONF", OPTION)
    with drv.simulator.installed(memory="128MiB", check="race", schedule="lazy") as runtime:
        allocator = device_allocator(runtime, 0)
        assert isinstance(allocator, CachingAllocator)
        device = drv.Device(0)
        stream = drv.Stream(device)
        before = device.memory_info().free
        block = allocator.allocate(30 * MIB, int(stream.handle))
        assert before - device.memory_info().free == 40 * MIB
        drv.memset(block.address, 7, 30 * MIB, stream=stream)
        host = bytearray(4)
        drv.copy_to_host(host, block.address + 30 * MIB - 4, 4, stream=stream)
        stream.synchronize()
        assert host == b"\7\7\7\7"
        address = block.address
        # Work that still runs when its pages are given back is waited for.
        drv.memset(address, 8, 30 * MIB, stream=stream)
        allocator.free(block)
        allocator.empty_cache()
        assert device.memory_info().free == before
        with pytest.raises(InvalidValueError):
            drv.memset(address, 0, 16, stream=stream)


@pytest.mark.simulator_only
def test_peers_may_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHROOT_CUDA_ALLOC_CONF", OPTION)
    with drv.simulator.installed(devices=2) as runtime:
        allocator = device_allocator(runtime, 0)
        early = allocator.allocate(MIB, 1)
        drv.Device(1).enable_peer_access(drv.Device(0))
        allocator.grant_access(1)
        late = allocator.allocate(30 * MIB, 1)
        stream = drv.Stream(drv.Device(1))
        for block in (early, late):
            drv.memset(block.address, 1, block.requested, stream=stream)
        stream.synchronize()

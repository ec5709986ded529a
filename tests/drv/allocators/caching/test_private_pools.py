"""Private pools: whose memory it is, how long it stays, and what goes on outside of them."""

from __future__ import annotations

import pytest

from drv.errors import InvalidValueError, OutOfMemoryError
from tests.drv.allocators.fakes import MIB, Bottom

POOL = (0, 7)


def always(stream: int) -> bool:
    return True


def only_one(stream: int) -> bool:
    return stream == 1


@pytest.mark.parametrize("option", ["", "expandable_segments:True"])
def test_blocks_of_a_pool_stay_in_it(option: str) -> None:
    bottom = Bottom(option)
    allocator = bottom.allocator
    before = allocator.allocate(1000, 1)
    allocator.free(before)
    allocator.begin_pool(POOL, only_one)
    inside = allocator.allocate(1000, 1)
    outside = allocator.allocate(1000, 2)
    large = allocator.allocate(3 * MIB, 1)
    allocator.retain_pool(POOL)
    allocator.end_pool(POOL, only_one)
    assert inside.address != before.address
    pools = {block["address"]: s["segment_pool_id"] for s in allocator.snapshot() for block in s["blocks"]}
    assert pools[inside.address] == pools[large.address] == POOL
    assert pools[outside.address] == (0, 0)
    allocator.free(inside)
    # What was freed inside is handed out inside, and nowhere else.
    assert allocator.allocate(1000, 1).address == before.address
    allocator.begin_pool(POOL, only_one)
    reused = allocator.allocate(1000, 1)
    allocator.end_pool(POOL, only_one)
    assert reused.address == inside.address


@pytest.mark.parametrize("option", ["", "expandable_segments:True"])
def test_memory_goes_back_once_nobody_uses_the_pool(option: str) -> None:
    bottom = Bottom(option)
    allocator = bottom.allocator
    allocator.begin_pool(POOL, always)
    block, held = allocator.allocate(3 * MIB, 1), allocator.allocate(30 * MIB, 1)
    allocator.retain_pool(POOL)
    allocator.end_pool(POOL, always)
    allocator.free(block)
    reserved = bottom.stat("reserved_bytes.all.current")
    allocator.empty_cache()
    assert bottom.stat("reserved_bytes.all.current") == reserved
    assert allocator.pool_users(POOL) == 1
    allocator.release_pool(POOL)
    allocator.empty_cache()
    # What a tensor occupies stays.
    assert 30 * MIB <= bottom.stat("reserved_bytes.all.current") < 60 * MIB
    allocator.free(held)
    allocator.empty_cache()
    assert bottom.stat("reserved_bytes.all.current") == 0
    with pytest.raises(InvalidValueError, match="not in use"):
        allocator.release_pool(POOL)
    with pytest.raises(InvalidValueError, match="no such block has begun"):
        allocator.end_pool(POOL, always)


def test_memory_of_a_pool_without_users_is_given_back_before_an_allocation_fails() -> None:
    bottom = Bottom(capacity=40 * MIB)
    allocator = bottom.allocator
    allocator.begin_pool(POOL, always)
    allocator.free(allocator.allocate(30 * MIB, 1))
    allocator.retain_pool(POOL)
    allocator.end_pool(POOL, always)
    with pytest.raises(OutOfMemoryError):
        allocator.allocate(30 * MIB, 1)
    allocator.release_pool(POOL)
    allocator.free(allocator.allocate(30 * MIB, 1))


def test_a_pool_that_lends_helps_out_and_one_that_does_not_split_gives_whole_segments() -> None:
    bottom = Bottom(capacity=40 * MIB)
    allocator = bottom.allocator
    allocator.begin_pool(POOL, always, splits=False, lends=True)
    first, second = allocator.allocate(3 * MIB, 1), allocator.allocate(2 * MIB, 1)
    allocator.retain_pool(POOL)
    allocator.end_pool(POOL, always)
    assert [first.size, second.size] == [20 * MIB, 20 * MIB]
    allocator.free(second)
    assert allocator.allocate(2 * MIB, 1).address == second.address
    with pytest.raises(OutOfMemoryError):
        allocator.allocate(2 * MIB, 1)


def test_in_a_capture_nothing_is_given_back_and_no_event_asked_for() -> None:
    bottom = Bottom(capacity=40 * MIB)
    allocator, events = bottom.allocator, bottom.events
    allocator.free(allocator.allocate(10 * MIB, 1))
    allocator.begin_pool(POOL, only_one)
    events.usable, events.capturing = False, True
    block = allocator.allocate(10 * MIB, 1)
    allocator.record_stream(block, 2)
    allocator.free(block)
    assert allocator.allocate(10 * MIB, 1).address != block.address
    with pytest.raises(OutOfMemoryError, match="call empty_cache\\(\\) before it begins"):
        allocator.allocate(20 * MIB, 1)
    allocator.empty_cache()
    assert ("free", 10 * MIB) not in bottom.source.calls
    events.usable, events.capturing = True, False
    allocator.retain_pool(POOL)
    allocator.end_pool(POOL, only_one)
    allocator.begin_pool(POOL, only_one)
    assert allocator.allocate(10 * MIB, 1).address == block.address

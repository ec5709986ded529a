"""Sizes of blocks and segments, splitting and merging: PyTorch's figures one by one."""

from __future__ import annotations

import pytest

from drv.allocators import AllocatorOptions
from drv.errors import InvalidValueError
from tests.drv.allocators.fakes import MIB, Bottom


@pytest.mark.parametrize(
    ("requested", "size", "segment"),
    [
        (1, 512, 2 * MIB),
        (512, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (MIB - 1, MIB, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        # From 10 MiB on a segment is cut only when more than 1 MiB would be left.
        (10 * MIB - 511, 10 * MIB, 10 * MIB),
        (10 * MIB, 10 * MIB, 10 * MIB),
        (11 * MIB, 12 * MIB, 12 * MIB),
        (11 * MIB - 512, 11 * MIB - 512, 12 * MIB),
        (100 * MIB + 1, 100 * MIB + 512, 102 * MIB),
    ],
)
def test_sizes_of_blocks_and_segments(requested: int, size: int, segment: int) -> None:
    bottom = Bottom()
    block = bottom.allocator.allocate(requested)
    assert (block.requested, block.size) == (requested, size)
    assert bottom.segment_sizes == [segment]


def test_small_blocks_share_a_segment_down_to_the_last_512_bytes() -> None:
    bottom = Bottom()
    blocks = [bottom.allocator.allocate(512) for _ in range(4096)]
    assert bottom.segment_sizes == [2 * MIB]
    assert [b.address for b in blocks] == list(range(blocks[0].address, blocks[0].address + 2 * MIB, 512))
    bottom.allocator.allocate(1)
    assert bottom.segment_sizes == [2 * MIB, 2 * MIB]


def test_large_blocks_leave_a_rest_only_above_one_mib() -> None:
    bottom = Bottom()
    first = bottom.allocator.allocate(9 * MIB)
    second = bottom.allocator.allocate(10 * MIB - 512)
    assert second.address == first.address + 9 * MIB
    # 1 MiB and 512 bytes are left: enough to be split off.
    assert second.size == 10 * MIB - 512
    third = bottom.allocator.allocate(MIB + 512)
    assert third.address == second.address + second.size
    assert bottom.segment_sizes == [20 * MIB]


def test_a_large_request_never_uses_the_small_pool_and_the_other_way_round() -> None:
    bottom = Bottom()
    small = bottom.allocator.allocate(100)
    large = bottom.allocator.allocate(2 * MIB)
    bottom.allocator.free(large)
    bottom.allocator.free(small)
    bottom.allocator.allocate(MIB + 1)
    bottom.allocator.allocate(MIB)
    assert bottom.segment_sizes == [2 * MIB, 20 * MIB]


def test_neighbours_merge_in_any_order_of_freeing() -> None:
    for order in ((0, 1, 2), (2, 1, 0), (0, 2, 1), (1, 0, 2)):
        bottom = Bottom()
        blocks = [bottom.allocator.allocate(1000) for _ in range(3)]
        for index in order:
            bottom.allocator.free(blocks[index])
        (segment,) = bottom.allocator.snapshot()
        assert [b["size"] for b in segment["blocks"]] == [2 * MIB]


def test_each_stream_has_a_pool() -> None:
    bottom = Bottom()
    first = bottom.allocator.allocate(1000, 1)
    bottom.allocator.free(first)
    other = bottom.allocator.allocate(1000, 2)
    assert other.address != first.address
    assert bottom.allocator.allocate(1000, 1).address == first.address


def test_a_freed_block_is_handed_out_again_at_once_without_the_driver() -> None:
    bottom = Bottom()
    block = bottom.allocator.allocate(3 * MIB)
    address, calls = block.address, len(bottom.source.calls)
    for _ in range(10):
        bottom.allocator.free(block)
        block = bottom.allocator.allocate(3 * MIB)
        assert block.address == address
    assert len(bottom.source.calls) == calls


def test_no_bytes_need_no_memory() -> None:
    bottom = Bottom()
    block = bottom.allocator.allocate(0, 5)
    assert (block.address, block.size, block.requested, block.stream) == (0, 0, 0, 5)
    bottom.allocator.record_stream(block, 9)
    bottom.allocator.free(block)
    with pytest.raises(InvalidValueError, match="freed before"):
        bottom.allocator.free(block)
    assert bottom.source.calls == []
    assert bottom.stat("allocation.all.allocated") == 0
    # No later request is served from it.
    assert bottom.allocator.allocate(1, 5).address != 0


def test_a_negative_size_is_an_error_that_changes_nothing() -> None:
    bottom = Bottom()
    for size in (-1, -512, -(1 << 70)):
        with pytest.raises(InvalidValueError, match=f"cannot allocate {size} bytes"):
            bottom.allocator.allocate(size)
    assert bottom.source.calls == []
    bottom.allocator.free(bottom.allocator.allocate(1))


def test_freeing_twice_is_an_error_that_changes_nothing() -> None:
    bottom = Bottom()
    neighbour, block = bottom.allocator.allocate(1000), bottom.allocator.allocate(1000)
    bottom.allocator.free(block)
    before = bottom.allocator.statistics()
    with pytest.raises(InvalidValueError, match="freed before"):
        bottom.allocator.free(block)
    with pytest.raises(InvalidValueError, match="freed before"):
        bottom.allocator.record_stream(block, 3)
    assert bottom.allocator.statistics() == before
    bottom.allocator.free(neighbour)


def test_empty_cache_gives_back_whole_unused_segments_only() -> None:
    bottom = Bottom()
    neighbour = bottom.allocator.allocate(1000)
    gone = [bottom.allocator.allocate(size) for size in (2 * MIB, 30 * MIB)]
    for block in gone:
        bottom.allocator.free(block)
    assert bottom.segment_sizes == [2 * MIB, 20 * MIB, 30 * MIB]
    bottom.allocator.empty_cache()
    assert bottom.segment_sizes == [2 * MIB]
    bottom.allocator.free(neighbour)
    assert bottom.segment_sizes == [2 * MIB]
    bottom.allocator.empty_cache()
    assert bottom.segment_sizes == []
    assert bottom.stat("num_device_free") == 3


def test_blocks_above_max_split_size_are_neither_split_nor_given_to_smaller_requests() -> None:
    bottom = Bottom("max_split_size_mb:32")
    large = bottom.allocator.allocate(64 * MIB)
    bottom.allocator.free(large)
    assert bottom.stat("oversize_segments.current") == 1
    assert bottom.stat("oversize_allocations.allocated") == 1
    assert bottom.stat("max_split_size") == 32 * MIB
    bottom.allocator.allocate(5 * MIB)
    assert bottom.segment_sizes == [20 * MIB, 64 * MIB]
    # A request of nearly the size may have it, whole; one that is 20 MiB smaller may not.
    near = bottom.allocator.allocate(50 * MIB)
    assert (near.address, near.size) == (large.address, 64 * MIB)
    bottom.allocator.free(near)
    far = bottom.allocator.allocate(44 * MIB)
    assert far.address != large.address
    assert bottom.stat("inactive_split.large_pool.current") == 1


def test_max_split_size_leaves_smaller_blocks_alone() -> None:
    bottom = Bottom("max_split_size_mb:100")
    block = bottom.allocator.allocate(60 * MIB)
    bottom.allocator.free(block)
    first, second = bottom.allocator.allocate(20 * MIB), bottom.allocator.allocate(40 * MIB)
    assert (first.address, second.address) == (block.address, block.address + 20 * MIB)
    assert bottom.stat("oversize_segments.allocated") == 0


@pytest.mark.parametrize(
    ("option", "requested", "size"),
    [
        ("4", 1200, 1536),
        ("4", 2049, 2560),
        ("4", 84 * MIB, 96 * MIB),
        ("4", 64 * MIB, 64 * MIB),
        ("8", 84 * MIB, 88 * MIB),
        ("[64:8,128:2,256:2,512:2,1024:1,>:1]", 84 * MIB, 88 * MIB),
        ("[64:8,128:2,256:2,512:2,1024:1,>:1]", 284 * MIB, 384 * MIB),
        ("[64:8,128:2,256:2,512:2,1024:1,>:1]", 1500 * MIB, 1500 * MIB),
        ("[64:8,>:2]", 100 * MIB, 104 * MIB),
        ("[64:8,>:2]", 129 * MIB, 192 * MIB),
        ("[256:4]", 5 * MIB + 1, 6 * MIB),
        ("[256:4]", 300 * MIB, 320 * MIB),
        ("[256:4]", 600 * MIB, 600 * MIB),
    ],
)
def test_sizes_round_up_to_divisions_of_powers_of_two(option: str, requested: int, size: int) -> None:
    options = AllocatorOptions.from_text(f"roundup_power2_divisions:{option}")
    assert not options.rounds_to_unit
    assert options.round(requested) == size


def test_rounded_sizes_are_what_blocks_have() -> None:
    bottom = Bottom("roundup_power2_divisions:4")
    assert bottom.allocator.allocate(1200 * 512).size == 1280 * 512
    assert bottom.stat("requested_bytes.all.current") == 1200 * 512


def test_old_unused_segments_go_when_the_threshold_of_the_limit_is_passed() -> None:
    bottom = Bottom("garbage_collection_threshold:0.6", capacity=1000 * MIB)
    old = bottom.allocator.allocate(100 * MIB)
    bottom.allocator.free(old)
    bottom.allocator.set_memory_fraction(0.4)
    # Reused often, and so young.
    young = bottom.allocator.allocate(98 * MIB - 512)
    second = bottom.allocator.allocate(90 * MIB)
    for _ in range(20):
        bottom.allocator.free(second)
        second = bottom.allocator.allocate(90 * MIB)
    bottom.allocator.free(young)
    for _ in range(20):
        bottom.allocator.free(second)
        second = bottom.allocator.allocate(90 * MIB)
    bottom.allocator.free(second)
    assert bottom.segment_sizes == [90 * MIB, 100 * MIB]
    # 190 of the 400 MiB that are allowed are held: under the threshold.
    third = bottom.allocator.allocate(120 * MIB)
    assert bottom.segment_sizes == [90 * MIB, 100 * MIB, 120 * MIB]
    # 310 are above it: the segment that has been free for longest goes.
    bottom.allocator.allocate(130 * MIB)
    assert bottom.segment_sizes == [90 * MIB, 120 * MIB, 130 * MIB]
    bottom.allocator.free(third)


def test_without_a_fraction_nothing_is_collected() -> None:
    bottom = Bottom("garbage_collection_threshold:0.1", capacity=1000 * MIB)
    for size in (100, 200, 300):
        bottom.allocator.free(bottom.allocator.allocate(size * MIB))
    assert bottom.segment_sizes == [100 * MIB, 200 * MIB, 300 * MIB]

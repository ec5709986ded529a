"""Memory runs out: what is given back, what the error says, that everything works after it."""

from __future__ import annotations

import pytest

import drv
from drv.allocators import DriverMemory, device_allocator
from drv.allocators.limits import explain, format_size
from drv.errors import InvalidValueError, OutOfMemoryError

from .fakes import MIB, Bottom


def test_cached_segments_are_given_back_and_the_request_tried_again() -> None:
    bottom = Bottom(capacity=100 * MIB)
    held = bottom.allocator.allocate(1000)
    for size in (40 * MIB, 30 * MIB):
        bottom.allocator.free(bottom.allocator.allocate(size))
    block = bottom.allocator.allocate(60 * MIB)
    assert bottom.segment_sizes == [2 * MIB, 60 * MIB]
    assert bottom.stat("num_alloc_retries") == 1
    assert bottom.stat("num_ooms") == 0
    bottom.allocator.free(block)
    bottom.allocator.free(held)


def test_blocks_that_streams_still_use_are_waited_for_before_giving_up() -> None:
    bottom = Bottom(capacity=100 * MIB)
    block = bottom.allocator.allocate(80 * MIB, 1)
    bottom.allocator.record_stream(block, 2)
    bottom.events.work(2)
    bottom.allocator.free(block)
    assert bottom.events.waits == 0
    bottom.allocator.allocate(90 * MIB, 1)
    assert bottom.events.waits == 1
    assert bottom.stat("num_sync_all_streams") == 1


def test_a_block_that_comes_back_in_a_used_segment_serves_the_request() -> None:
    bottom = Bottom(capacity=20 * MIB)
    first, second = bottom.allocator.allocate(9 * MIB, 1), bottom.allocator.allocate(9 * MIB, 1)
    bottom.allocator.record_stream(first, 2)
    bottom.events.work(2)
    bottom.allocator.free(first)
    assert bottom.allocator.allocate(9 * MIB, 1).address < second.address
    assert bottom.stat("num_ooms") == 0


def test_oversize_segments_of_the_stream_are_given_back_before_everything_else() -> None:
    bottom = Bottom("max_split_size_mb:25", capacity=160 * MIB)
    for size in (30, 50, 70):
        bottom.allocator.free(bottom.allocator.allocate(size * MIB))
    # No single one is large enough: the largest go, until there is enough.
    bottom.allocator.allocate(100 * MIB)
    assert bottom.segment_sizes == [30 * MIB, 100 * MIB]
    assert bottom.stat("num_alloc_retries") == 0
    # Another stream has none: then all cached memory goes.
    bottom.allocator.allocate(40 * MIB, 2)
    assert bottom.segment_sizes == [40 * MIB, 100 * MIB]
    assert bottom.stat("num_alloc_retries") == 1


def test_an_oversize_segment_of_the_same_stream_is_given_back_alone() -> None:
    bottom = Bottom("max_split_size_mb:25", capacity=150 * MIB)
    for size in (30, 70, 50):
        bottom.allocator.free(bottom.allocator.allocate(size * MIB))
    # 26 MiB may not use the larger blocks, which are more than 20 MiB too large, but for the first.
    assert bottom.allocator.allocate(26 * MIB).size == 30 * MIB
    bottom.allocator.allocate(26 * MIB)
    assert bottom.segment_sizes == [26 * MIB, 30 * MIB, 70 * MIB]
    assert bottom.stat("num_alloc_retries") == 0


def test_what_the_error_says() -> None:
    bottom = Bottom(capacity=100 * MIB)
    bottom.allocator.set_memory_fraction(0.5)
    blocks = [bottom.allocator.allocate(5 * MIB) for _ in range(4)]
    bottom.allocator.free(blocks[1])
    bottom.allocator.free(blocks[3])
    with pytest.raises(OutOfMemoryError) as caught:
        bottom.allocator.allocate(40 * MIB)
    assert str(caught.value) == (
        "CUDA out of memory. Tried to allocate 40.00 MiB. GPU 0 has a total capacity of 100.00 MiB of which "
        "80.00 MiB is free. Including memory outside the allocator, this process has 20.00 MiB memory in use. "
        "50.00 MiB allowed; Of the allocated memory 10.00 MiB is allocated by graphroot, and 10.00 MiB is "
        "reserved by graphroot but unallocated. If reserved but unallocated memory is large try setting "
        "GRAPHROOT_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
    )
    assert caught.value.status == "CUDA_ERROR_OUT_OF_MEMORY"
    assert bottom.stat("num_ooms") == 1


@pytest.mark.parametrize(
    ("allocated", "reserved", "free", "size", "hint"),
    [
        # Nothing is idle.
        (90, 90, 10, 20, False),
        # With the idle memory the request would have fitted.
        (80, 90, 15, 20, True),
        # It would not, and the idle memory is little.
        (80, 84, 10, 20, False),
        # It would not, and the idle memory is much.
        (40, 80, 10, 70, True),
    ],
)
def test_the_option_is_named_when_it_may_help(
    allocated: int, reserved: int, free: int, size: int, hint: bool
) -> None:
    def message(*, expandable: bool) -> str:
        return explain(
            size * MIB,
            0,
            free=free * MIB,
            total=100 * MIB,
            process_use=None,
            allowed=None,
            allocated=allocated * MIB,
            reserved=reserved * MIB,
            expandable=expandable,
        )

    assert ("expandable_segments:True" in message(expandable=False)) is hint
    assert "expandable_segments" not in message(expandable=True)
    assert "this process" not in message(expandable=True)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1024, "1024 bytes"),
        (1536, "1.50 KiB"),
        (20 * MIB, "20.00 MiB"),
        (3 << 30, "3.00 GiB"),
    ],
)
def test_sizes_in_messages(size: int, text: str) -> None:
    assert format_size(size) == text


def test_absurd_sizes_ask_the_driver_nothing() -> None:
    bottom = Bottom()
    cached = bottom.allocator.allocate(30 * MIB)
    bottom.allocator.free(cached)
    for size in (1 << 60, 1 << 63, 1 << 64, 1 << 100):
        with pytest.raises(OutOfMemoryError, match="more than 1EB"):
            bottom.allocator.allocate(size)
    assert bottom.segment_sizes == [30 * MIB]
    assert bottom.stat("num_ooms") == 4


def test_a_fraction_limits_what_is_held() -> None:
    bottom = Bottom(capacity=100 * MIB)
    bottom.allocator.set_memory_fraction(0.3)
    block = bottom.allocator.allocate(30 * MIB)
    with pytest.raises(OutOfMemoryError, match="allowed"):
        bottom.allocator.allocate(1)
    bottom.allocator.free(block)
    bottom.allocator.free(bottom.allocator.allocate(1))
    bottom.allocator.set_memory_fraction(1.0)
    bottom.allocator.allocate(90 * MIB)
    for fraction in (-0.1, 1.1, float("nan")):
        with pytest.raises(InvalidValueError, match="Allowed range: 0~1"):
            bottom.allocator.set_memory_fraction(fraction)


def test_a_refused_call_is_tried_again_once() -> None:
    bottom = Bottom()
    bottom.source.refuse = 1
    bottom.allocator.allocate(1)
    assert bottom.stat("num_alloc_retries") == 1
    bottom.source.refuse = 2
    with pytest.raises(OutOfMemoryError):
        bottom.allocator.allocate(30 * MIB)
    assert bottom.stat("segment.all.current") == 1
    bottom.allocator.allocate(30 * MIB)


@pytest.mark.simulator_only
def test_recovery_on_the_simulated_driver() -> None:
    with drv.simulator.installed(memory="64MiB") as runtime:
        allocator = device_allocator(runtime, 0)
        blocks = [allocator.allocate(10 * MIB) for _ in range(6)]
        with pytest.raises(drv.OutOfMemoryError, match=r"Tried to allocate 10\.00 MiB. GPU 0 has a total"):
            allocator.allocate(10 * MIB)
        with pytest.raises(drv.OutOfMemoryError):
            allocator.allocate(1 << 40)
        for block in blocks:
            allocator.free(block)
        allocator.free(allocator.allocate(60 * MIB))
        allocator.empty_cache()
        assert drv.Device(0).memory_info().free == 64 * MIB
        runtime.driver.inject.out_of_memory_after(allocations=1)
        block = allocator.allocate(1)
        with pytest.raises(drv.OutOfMemoryError):
            allocator.allocate(2 * MIB)
        runtime.driver.inject.clear()
        allocator.free(allocator.allocate(2 * MIB))
        allocator.free(block)
        allocator.empty_cache()
        assert allocator.statistics()["reserved_bytes.all.current"] == 0
        assert allocator.statistics()["num_ooms"] == 3


@pytest.mark.simulator_only
def test_without_caching_each_block_is_the_drivers_own() -> None:
    with drv.simulator.installed(memory="64MiB"):
        memory = DriverMemory(drv.Device(0))
        free = drv.Device(0).memory_info().free
        block = memory.allocate(1000, 3)
        assert (block.size, block.requested, block.stream) == (1000, 1000, 3)
        memory.record_stream(block, 5)
        (segment,) = memory.snapshot()
        assert (segment["address"], segment["total_size"], segment["stream"]) == (block.address, 1000, 3)
        with pytest.raises(drv.OutOfMemoryError, match="Tried to allocate 70.00 MiB"):
            memory.allocate(70 * MIB)
        memory.set_memory_fraction(0.5)
        with pytest.raises(drv.OutOfMemoryError, match="32.00 MiB allowed"):
            memory.allocate(40 * MIB)
        assert memory.statistics()["num_ooms"] == 2
        assert memory.statistics()["allocated_bytes.all.current"] == 1024
        assert memory.statistics()["requested_bytes.all.current"] == 1000
        memory.free(block)
        with pytest.raises(InvalidValueError, match="freed before"):
            memory.free(block)
        memory.free(memory.allocate(0))
        with pytest.raises(InvalidValueError, match="cannot allocate -1 bytes"):
            memory.allocate(-1)
        assert drv.Device(0).memory_info().free == free
        result = memory.statistics()
        assert result["allocated_bytes.all.current"] == 0
        assert (result["num_device_alloc"], result["num_device_free"]) == (1, 1)
        memory.empty_cache()
        memory.reset_accumulated()
        memory.reset_peaks()
        assert memory.statistics()["allocated_bytes.all.peak"] == 0
        assert memory.snapshot() == []

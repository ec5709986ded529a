"""Statistics, snapshots, the trace of actions, the summary table: names and shapes that PyTorch's tools read."""

from __future__ import annotations

import pytest

from drv.allocators import History, memory_summary
from drv.allocators.history import describe, python_stack
from drv.errors import OutOfMemoryError

from .fakes import MIB, Bottom

BY_POOL = (
    "active",
    "active_bytes",
    "allocated_bytes",
    "allocation",
    "inactive_split",
    "inactive_split_bytes",
    "requested_bytes",
    "reserved_bytes",
    "segment",
)
FIGURES = ("allocated", "current", "freed", "peak")


def test_the_names_of_statistics_are_pytorchs() -> None:
    expected = {
        f"{name}.{pool}.{figure}"
        for name in BY_POOL
        for pool in ("all", "large_pool", "small_pool")
        for figure in FIGURES
    }
    expected |= {
        f"{name}.{figure}" for name in ("oversize_allocations", "oversize_segments") for figure in FIGURES
    }
    expected |= {
        "num_alloc_retries",
        "num_ooms",
        "num_sync_all_streams",
        "num_device_alloc",
        "num_device_free",
    }
    expected |= {"max_split_size"}
    result = Bottom().allocator.statistics()
    assert set(result) == expected
    assert list(result) == sorted(result)
    assert result.pop("max_split_size") == -1
    assert not any(result.values())


def test_figures_after_a_few_steps() -> None:
    bottom = Bottom()
    first = bottom.allocator.allocate(1000)
    second = bottom.allocator.allocate(3 * MIB + 1)
    bottom.allocator.free(first)
    third = bottom.allocator.allocate(100)
    result = bottom.allocator.statistics()
    assert result["allocated_bytes.all.current"] == 3 * MIB + 1024
    assert result["allocated_bytes.all.peak"] == 3 * MIB + 512 + 1024
    assert result["allocated_bytes.small_pool.allocated"] == 1536
    assert result["allocated_bytes.small_pool.freed"] == 1024
    assert result["requested_bytes.all.current"] == 3 * MIB + 101
    assert result["allocation.all.current"] == 2
    assert result["segment.all.current"] == 2
    assert result["reserved_bytes.all.current"] == 22 * MIB
    assert result["inactive_split.all.current"] == 2
    assert result["inactive_split_bytes.large_pool.current"] == 17 * MIB - 512
    bottom.allocator.reset_peaks()
    bottom.allocator.reset_accumulated()
    bottom.allocator.free(second)
    result = bottom.allocator.statistics()
    assert result["allocated_bytes.all.peak"] == 3 * MIB + 1024
    assert result["allocated_bytes.all.allocated"] == 0
    assert result["allocated_bytes.all.freed"] == 3 * MIB + 512
    assert result["num_device_alloc"] == 0
    bottom.allocator.free(third)


def test_many_steps_between_two_readings_count_as_one_by_one() -> None:
    often, once = Bottom(), Bottom()
    for bottom in (often, once):
        blocks = []
        for index in range(3000):
            blocks.append(bottom.allocator.allocate(500 * (index % 7 + 1) if index % 3 else MIB + index))
            if index % 5 == 4:
                bottom.allocator.free(blocks.pop(index % len(blocks)))
            if bottom is often:
                bottom.stat("num_ooms")
    assert often.allocator.statistics() == once.allocator.statistics()


def test_a_snapshot_describes_segments_and_blocks() -> None:
    bottom = Bottom()
    block = bottom.allocator.allocate(1000, 7)
    (segment,) = bottom.allocator.snapshot()
    assert segment == {
        "device": 0,
        "address": block.address,
        "total_size": 2 * MIB,
        "allocated_size": 1024,
        "active_size": 1024,
        "requested_size": 1000,
        "stream": 7,
        "segment_type": "small",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [
            {
                "address": block.address,
                "size": 1024,
                "requested_size": 1000,
                "state": "active_allocated",
                "frames": [],
            },
            {
                "address": block.address + 1024,
                "size": 2 * MIB - 1024,
                "requested_size": 0,
                "state": "inactive",
                "frames": [],
            },
        ],
    }


def history(context: str | None = "all", *, trace: bool = True, max_entries: int = 100) -> History:
    return History(trace=trace, context=context, max_entries=max_entries)  # type: ignore[arg-type]


def test_every_action_is_recorded_in_order() -> None:
    bottom = Bottom(capacity=50 * MIB)
    recorded = history()
    bottom.allocator.observe(recorded)
    block = bottom.allocator.allocate(1000, 1)
    address = block.address
    bottom.allocator.record_stream(block, 2)
    bottom.events.work(2)
    bottom.allocator.free(block)
    with pytest.raises(OutOfMemoryError):
        bottom.allocator.allocate(60 * MIB, 1)
    bottom.allocator.snapshot()
    trace = recorded.trace()
    assert [(e["action"], e["size"], e["stream"]) for e in trace] == [
        ("segment_alloc", 2 * MIB, 1),
        ("alloc", 1000, 1),
        ("free_requested", 1000, 1),
        ("free_completed", 1000, 1),
        ("segment_free", 2 * MIB, 1),
        ("oom", 60 * MIB, 1),
        ("snapshot", 0, 0),
    ]
    assert [e["addr"] for e in trace[:5]] == [address] * 5
    assert trace[5]["device_free"] == 50 * MIB
    times = [e["time_us"] for e in trace]
    assert times == sorted(times)
    assert all(e["frames"] for e in trace[:6])
    name = "test_every_action_is_recorded_in_order"
    assert trace[1]["frames"][0]["name"] == name
    assert trace[1]["frames"][0]["filename"] == __file__


def test_expandable_segments_record_mappings() -> None:
    bottom = Bottom("expandable_segments:True")
    recorded = history()
    bottom.allocator.observe(recorded)
    block = bottom.allocator.allocate(5 * MIB, 3)
    (segment,) = bottom.allocator.snapshot()
    assert segment["frames"][0]["filename"] == __file__
    address = block.address
    bottom.allocator.free(block)
    bottom.allocator.empty_cache()
    result = [(e["action"], e["addr"], e["size"]) for e in recorded.trace() if "segment" in e["action"]]
    assert result == [("segment_map", address, 20 * MIB), ("segment_unmap", address, 20 * MIB)]


@pytest.mark.parametrize(
    ("context", "live", "alloc", "free"),
    [
        (None, False, False, False),
        ("state", True, False, False),
        ("alloc", True, True, True),
        ("all", True, True, True),
    ],
)
def test_stacks_are_kept_as_far_as_asked(context: str | None, live: bool, alloc: bool, free: bool) -> None:
    bottom = Bottom()
    recorded = history(context)
    bottom.allocator.observe(recorded)
    first, second = bottom.allocator.allocate(1), bottom.allocator.allocate(1)
    (segment,) = bottom.allocator.snapshot()
    assert bool(segment["blocks"][0]["frames"]) is live
    assert bool(segment["frames"]) is live
    bottom.allocator.free(second)
    by_action = {entry["action"]: entry for entry in recorded.trace()}
    assert ("frames" in by_action["alloc"]) is alloc
    assert ("frames" in by_action["free_completed"]) is free
    if context in ("alloc", "all"):
        # Without the stack of the free itself, the allocation's stands for it.
        own = by_action["free_completed"]["frames"] != by_action["alloc"]["frames"]
        assert own is (context == "all")
    bottom.allocator.observe(None)
    assert bottom.allocator.snapshot()[0]["blocks"][0]["frames"] == []
    bottom.allocator.free(first)


def test_only_the_latest_actions_are_kept() -> None:
    bottom = Bottom()
    recorded = history(None, max_entries=3)
    bottom.allocator.observe(recorded)
    for size in (1, 2, 3):
        bottom.allocator.free(bottom.allocator.allocate(size))
    assert [(e["action"], e["size"]) for e in recorded.trace()] == [
        ("alloc", 3),
        ("free_requested", 3),
        ("free_completed", 3),
    ]
    quiet = history("state", trace=False)
    bottom.allocator.observe(quiet)
    bottom.allocator.allocate(1)
    assert quiet.trace() == []


def test_a_stack_starts_outside_the_allocators() -> None:
    frames = describe(python_stack())
    assert frames[0]["name"] == "test_a_stack_starts_outside_the_allocators"
    assert {"filename", "line", "name"} == set(frames[0])
    assert len(frames) > 3
    assert describe(None) == []


def test_the_summary_is_a_table_of_the_statistics() -> None:
    bottom = Bottom()
    blocks = [bottom.allocator.allocate(size) for size in (100, 3 * MIB, 900 * MIB)]
    bottom.allocator.free(blocks[1])
    text = memory_summary(bottom.allocator.statistics(), 3)
    lines = text.splitlines()
    assert {len(line) for line in lines} == {77}
    assert all(line[0] == line[-1] == "|" for line in lines)
    assert "CUDA memory summary, device ID 3" in lines[1]
    assert "CUDA OOMs: 0" in lines[3]
    assert lines[5] == "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |"
    assert lines[7] == "| Allocated memory      |    900 MiB |    903 MiB |    903 MiB |   3072 KiB |"
    assert lines[9] == "|       from small pool |      0 MiB |      0 MiB |      0 MiB |      0 KiB |"
    assert "| Allocations           |       2    |       3    |       3    |       1    |" in lines
    short = memory_summary(bottom.allocator.statistics(), 3, abbreviated=True)
    assert "from large pool" not in short
    assert len(short.splitlines()) == len(lines) - 18
    for block in (blocks[0], blocks[2]):
        bottom.allocator.free(block)

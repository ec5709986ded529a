"""Snapshots and recorded history of the allocators."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import drv
from tensor import cuda
from tensor.core.devices.state import cuda_state

record = cuda.memory._record_memory_history


@pytest.fixture(autouse=True)
def _devices(two_devices: tuple[drv.Device, drv.Device]) -> Any:
    cuda.empty_cache()
    yield
    record(None)


def take(size: int, ordinal: int = 0) -> Any:
    device = cuda_state(ordinal)
    return device.allocate(size, device.local.stream.cuda_stream)


def give(block: Any, ordinal: int = 0) -> None:
    cuda_state(ordinal).free(block)


def actions(ordinal: int = 0) -> list[str]:
    return [entry["action"] for entry in cuda.memory._snapshot()["device_traces"][ordinal]]


def active(ordinal: int) -> list[dict[str, Any]]:
    return [
        block
        for segment in cuda.memory_snapshot()
        if segment["device"] == ordinal
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    ]


def test_the_snapshot_shows_all_devices() -> None:
    with cuda.stream(cuda.Stream(1)):
        blocks = [take(700), take(3 << 20, 1)]
        stream = cuda.current_stream().cuda_stream
    (mine,) = active(0)
    assert (mine["size"], mine["requested_size"], mine["address"]) == (1024, 700, blocks[0].address)
    assert mine["frames"] == []
    (segment,) = (each for each in cuda.memory_snapshot() if each["device"] == 1)
    assert segment["stream"] == stream
    assert segment["segment_type"] == "large"
    assert segment["total_size"] == 20 << 20
    assert segment["allocated_size"] == segment["active_size"] == 3 << 20
    assert [block["state"] for block in segment["blocks"]] == ["active_allocated", "inactive"]
    for ordinal, block in enumerate(blocks):
        give(block, ordinal)


def test_history_keeps_actions_and_stacks() -> None:
    record()
    block = take(512)
    (frame, *_) = active(0)[0]["frames"]
    assert Path(frame["filename"]).name == Path(__file__).name
    assert frame["name"] == "take"
    assert frame["line"] > 0
    give(block)
    entries = cuda.memory._snapshot()["device_traces"][0]
    kinds = [entry["action"] for entry in entries if entry["action"] != "snapshot"]
    assert kinds == ["segment_alloc", "alloc", "free_requested", "free_completed"]
    freed = next(entry for entry in entries if entry["action"] == "free_requested")
    assert freed["addr"] == block.address
    assert freed["size"] == 512
    assert freed["stream"] == block.stream
    assert freed["frames"][0]["name"] == "give"


def test_all_devices_are_recorded_apart() -> None:
    record(skip_actions=["snapshot"])
    give(take(512, 1), 1)
    assert actions(0) == []
    assert actions(1)[:2] == ["segment_alloc", "alloc"]


def test_state_keeps_no_actions() -> None:
    record("state")
    block = take(512)
    assert active(0)[0]["frames"]
    assert actions() == []
    give(block)


def test_context_says_for_what_stacks_are_kept() -> None:
    record(context=None)
    block = take(512)
    assert active(0)[0]["frames"] == []
    assert all("frames" not in entry for entry in cuda.memory._snapshot()["device_traces"][0])
    give(block)


def test_ending_forgets() -> None:
    record()
    block = take(512)
    record(None)
    assert active(0)[0]["frames"] == []
    give(block)
    record(True)
    assert actions() == ["snapshot"]
    record(False)
    assert actions() == []


def test_recording_again_keeps_what_was_recorded() -> None:
    record(skip_actions=["snapshot"])
    block = take(512)
    record(skip_actions=["snapshot", "free_requested"])
    give(block)
    assert actions() == ["segment_alloc", "alloc", "free_completed"]
    record(skip_actions=["snapshot"], max_entries=2)
    assert actions() == ["alloc", "free_completed"]
    give(take(512))
    assert actions() == ["free_requested", "free_completed"]
    record(clear_history=True, skip_actions=["snapshot"])
    assert actions() == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"enabled": "some"},
        {"context": "none"},
        {"stacks": "c++"},
        {"skip_actions": ["alloc", "free"]},
    ],
    ids=str,
)
def test_wrong_arguments_change_nothing(wrong: dict[str, Any]) -> None:
    record(skip_actions=["snapshot"])
    block = take(512)
    (name,) = wrong
    with pytest.raises(ValueError, match=f"{name} must be one of"):
        record(**wrong)
    assert actions()[-1] == "alloc"
    give(block)


@pytest.mark.simulator_only
def test_out_of_memory_is_recorded() -> None:
    record()
    with pytest.raises(cuda.OutOfMemoryError):
        take(1 << 50)
    (entry,) = (each for each in cuda.memory._snapshot()["device_traces"][0] if each["action"] == "oom")
    assert entry["device_free"] == cuda.mem_get_info()[0]
    assert entry["size"] >= 1 << 50


def test_the_dump_is_the_snapshot(tmp_path: Path) -> None:
    record(skip_actions=["snapshot"])
    block = take(512)
    file = tmp_path / "snapshot.json"
    cuda.memory._dump_snapshot(str(file))
    loaded = json.loads(file.read_text())
    assert loaded == json.loads(json.dumps(cuda.memory._snapshot()))
    assert loaded["device_traces"][0][-1]["addr"] == block.address
    assert loaded["allocator_settings"]["expandable_segments"] is False
    give(block)


@pytest.mark.simulator_only
def test_history_goes_with_the_runtime() -> None:
    record()
    give(take(512))
    drv.reset()
    assert cuda.memory._snapshot()["device_traces"] == []
    drv.simulator.install(devices=2)
    assert actions() == []
    take(512)
    assert actions() == []

"""Allocator options: what they may be, and errors that quote what is wrong."""

from __future__ import annotations

import re

import pytest

import drv
from drv.allocators import AllocatorOptions, CachingAllocator, DriverMemory, device_allocator
from drv.errors import InvalidValueError

from .fakes import MIB, FakeEvents, FakeSource


def test_nothing_given_is_the_default() -> None:
    options = AllocatorOptions.from_text("")
    assert options == AllocatorOptions()
    assert options.max_split_size is None
    assert options.rounds_to_unit
    assert not options.expandable_segments


def test_all_of_them() -> None:
    options = AllocatorOptions.from_text(
        "max_split_size_mb:128, garbage_collection_threshold:0.8,roundup_power2_divisions:[256:1,512:2,>:8],"
        "expandable_segments:True,backend:native"
    )
    assert options.max_split_size == 128 * MIB
    assert options.garbage_collection_threshold == 0.8
    assert options.roundup_power2_divisions == (1,) * 9 + (2,) + (8,) * 6
    assert options.expandable_segments


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("max_splt_size_mb:128", "'max_splt_size_mb'"),
        ("max_split_size_mb", "'max_split_size_mb' is not name:value"),
        ("max_split_size_mb:", "'max_split_size_mb:' is not name:value"),
        (":7", "':7' is not name:value"),
        ("max_split_size_mb:lots", "'lots'"),
        ("max_split_size_mb:20", "'20'"),
        ("max_split_size_mb:-30", "'-30'"),
        ("max_split_size_mb:1.5", "'1.5'"),
        ("garbage_collection_threshold:0", "'0'"),
        ("garbage_collection_threshold:1.0", "'1.0'"),
        ("garbage_collection_threshold:nan", "'nan'"),
        ("garbage_collection_threshold:much", "'much'"),
        ("roundup_power2_divisions:3", "'3'"),
        ("roundup_power2_divisions:[256:3]", "'3'"),
        ("roundup_power2_divisions:[100:2]", "'100'"),
        ("roundup_power2_divisions:[0:2]", "'0'"),
        ("roundup_power2_divisions:[256]", "'256'"),
        ("roundup_power2_divisions:[256:2", "'[256:2'"),
        ("roundup_power2_divisions:[]", "''"),
        ("expandable_segments:true", "'true'"),
        ("expandable_segments:1", "'1'"),
        ("backend:cudaMallocAsync", "'cudaMallocAsync'"),
        ("expandable_segments:True,expandable_segments:False", "'expandable_segments' is given twice"),
    ],
)
def test_what_is_wrong_is_quoted(text: str, quoted: str) -> None:
    with pytest.raises(InvalidValueError, match=re.escape(quoted)):
        AllocatorOptions.from_text(text)


@pytest.mark.simulator_only
@pytest.mark.parametrize("variable", ["GRAPHROOT_CUDA_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"])
def test_the_environment_is_read_when_the_allocator_is_made(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "max_split_size_mb:64")
    with drv.simulator.installed() as runtime:
        allocator = device_allocator(runtime, 0)
        assert allocator.statistics()["max_split_size"] == 64 * MIB
    monkeypatch.setenv(variable, "max_split_size_mb:none")
    with drv.simulator.installed() as runtime, pytest.raises(InvalidValueError, match="'none'"):
        device_allocator(runtime, 0)


@pytest.mark.simulator_only
@pytest.mark.parametrize("variable", ["GRAPHROOT_NO_CUDA_MEMORY_CACHING", "PYTORCH_NO_CUDA_MEMORY_CACHING"])
def test_caching_can_be_turned_off(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    with drv.simulator.installed(devices=2) as runtime:
        assert isinstance(device_allocator(runtime, 1), CachingAllocator)
        assert device_allocator(runtime, 1) is device_allocator(runtime, 1)
        assert device_allocator(runtime, 0) is not device_allocator(runtime, 1)
        with pytest.raises(InvalidValueError, match="no device 2"):
            device_allocator(runtime, 2)
    monkeypatch.setenv(variable, "1")
    with drv.simulator.installed() as runtime:
        assert isinstance(device_allocator(runtime, 0), DriverMemory)


def test_expandable_segments_need_memory_that_can_be_mapped() -> None:
    options = AllocatorOptions.from_text("expandable_segments:True")
    with pytest.raises(InvalidValueError, match="expandable_segments"):
        CachingAllocator(0, FakeSource(), FakeEvents(), options)


def test_options_can_change_while_blocks_are_live() -> None:
    allocator = CachingAllocator(0, FakeSource(), FakeEvents())
    block = allocator.allocate(64 * MIB)
    allocator.set_options(AllocatorOptions.from_text("max_split_size_mb:32"))
    allocator.free(block)
    assert allocator.allocate(2 * MIB).address != block.address
    allocator.set_options(AllocatorOptions())
    assert allocator.allocate(30 * MIB).address == block.address

"""Allocators that guard memory: by their own patterns, as on a GPU, and with the simulated driver's checks."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import drv
from drv.allocators import (
    AllocatorOptions,
    GuardingAllocator,
    History,
    StreamOrderedMemory,
    device_allocator,
    pinned_allocator,
)
from drv.allocators.guarding.device import zone_size
from drv.errors import InvalidValueError

if TYPE_CHECKING:
    from collections.abc import Iterator

ZONE, QUARANTINE = 300, 4096
LEGACY = drv.Stream.LEGACY


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[drv.Runtime]:
    """A runtime whose allocators guard memory by themselves."""
    conf = f"backend:guarding,guard_red_zone:{ZONE},guard_quarantine:{QUARANTINE}"
    monkeypatch.setenv("GRAPHROOT_CUDA_ALLOC_CONF", conf)
    if request.config.getoption("--gpu"):
        drv.reset()
    else:
        drv.simulator.install(check="off", memory="1MiB")
    yield drv.runtime()
    drv.reset()


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> Iterator[drv.Runtime]:
    """A simulated runtime whose driver guards memory."""
    monkeypatch.setenv("GRAPHROOT_CUDA_ALLOC_CONF", "backend:guarding")
    with drv.simulator.installed(check="full") as result:
        yield result


def poke(address: int, value: int = 0, count: int = 1) -> None:
    drv.memset(address, value, count)


def contents(address: int, nbytes: int) -> np.ndarray:
    result = np.empty(nbytes, np.uint8)
    drv.copy_to_host(result, address, nbytes)
    return result


def test_options() -> None:
    result = AllocatorOptions.from_text("backend:guarding,guard_red_zone:64,guard_quarantine:0")
    assert (result.guarding, result.red_zone, result.quarantine) == (True, 64, 0)
    assert not AllocatorOptions.from_text("backend:native").guarding
    with pytest.raises(InvalidValueError, match="guard_red_zone:-1"):
        AllocatorOptions.from_text("guard_red_zone:-1")


@pytest.mark.parametrize(("asked", "rounded"), [(0, 0), (1, 256), (256, 256), (257, 512)])
def test_red_zones_keep_blocks_aligned(asked: int, rounded: int) -> None:
    assert zone_size(asked) == rounded


def test_blocks_are_apart_aligned_and_poisoned(runtime: drv.Runtime) -> None:
    allocator = device_allocator(runtime, 0)
    assert isinstance(allocator, GuardingAllocator)
    blocks = [allocator.allocate(size, LEGACY) for size in (1, 100, 256, 1000)]
    for block in blocks:
        assert block.address % 256 == 0
        assert (contents(block.address, block.size) == 0xFF).all()
        zone = zone_size(ZONE)
        assert (contents(block.address - zone, zone) == 0xA5).all()
        assert (contents(block.address + block.size, zone) == 0xA5).all()
    counted = allocator.statistics()
    assert counted["requested_bytes.all.current"] == 1357
    assert counted["allocation.all.current"] == 4
    assert [segment["address"] for segment in allocator.snapshot()] == [block.address for block in blocks]
    for block in blocks:
        allocator.free(block)


@pytest.mark.parametrize(
    ("offset", "first"),
    [(-1, "1 bytes before"), (100, "0 bytes past the end"), (355, "255 bytes past the end")],
)
def test_overwritten_red_zone_is_raised_once_by_a_synchronising_call(
    runtime: drv.Runtime, offset: int, first: str
) -> None:
    allocator = device_allocator(runtime, 0)
    block = allocator.allocate(100, LEGACY)
    with pytest.raises(drv.OverwriteError, match=f"1 byte, from {first}") as caught:
        poke(block.address + offset)
    (result,) = caught.value.findings
    assert (result.kind, result.changed, result.size) == ("out of bounds", 1, 100)
    assert result.allocated[0][2] == result.seen[1][2] == caught.traceback[0].name
    assert result.freed is None
    runtime.devices[0].synchronize()
    allocator.free(block)
    runtime.devices[0].synchronize()


def test_red_zones_are_checked_when_a_block_is_freed(runtime: drv.Runtime) -> None:
    allocator = device_allocator(runtime, 0)
    block = allocator.allocate(100, LEGACY)
    stream = drv.Stream()
    drv.memset(block.address + 98, 0, 4, stream=stream)
    allocator.free(block)
    assert runtime.guard is not None
    (result,) = runtime.guard.overwrites
    assert (result.first, result.last, result.changed) == (100, 101, 2)
    assert "test_red_zones_are_checked_when_a_block_is_freed" in str(result)


def test_a_whole_red_zone_and_writes_inside_the_block(runtime: drv.Runtime) -> None:
    allocator = device_allocator(runtime, 0)
    block = allocator.allocate(1000, LEGACY)
    poke(block.address, 7, 1000)
    with pytest.raises(drv.OverwriteError, match="512 bytes, from 0 bytes past"):
        poke(block.address, 7, 1512)


def test_freed_memory_is_poisoned_kept_from_reuse_and_watched(runtime: drv.Runtime) -> None:
    allocator = device_allocator(runtime, 0)
    block = allocator.allocate(1000, LEGACY)
    poke(block.address, 0, 1000)
    allocator.free(block)
    assert (contents(block.address, 1000) == 0xFF).all()
    other = allocator.allocate(1000, LEGACY)
    assert other.address != block.address
    with pytest.raises(drv.OverwriteError, match="3 bytes, from byte 10 on, of 1000 bytes that were freed"):
        poke(block.address + 10, 0, 3)
    (result,) = runtime.guard.overwrites if runtime.guard else ()
    assert result.kind == "use after free"
    assert result.freed is not None


def test_quarantine_has_a_limit_and_can_be_emptied(runtime: drv.Runtime) -> None:
    allocator = device_allocator(runtime, 0)
    before = allocator.memory_info()[0]
    for _ in range(20):
        allocator.free(allocator.allocate(1000, LEGACY))
    assert len(allocator.source.live_blocks()) == QUARANTINE // 1000
    allocator.empty_cache()
    assert allocator.source.live_blocks() == []
    table = 2 << 20
    assert before - allocator.memory_info()[0] <= table


@pytest.mark.simulator_only
def test_quarantine_is_given_up_when_memory_runs_out(runtime: drv.Runtime) -> None:
    allocator = device_allocator(runtime, 0)
    size = 600 << 10
    runtime.guard.quarantine = 1 << 30
    for _ in range(3):
        allocator.free(allocator.allocate(size, LEGACY))
    with pytest.raises(drv.OutOfMemoryError, match="Tried to allocate 2.00 MiB"):
        allocator.allocate(2 << 20, LEGACY)
    assert allocator.statistics()["num_ooms"] == 1
    allocator.free(allocator.allocate(size, LEGACY))


def test_protocol(runtime: drv.Runtime) -> None:
    allocator = device_allocator(runtime, 0)
    nothing = allocator.allocate(0, LEGACY)
    assert (nothing.address, nothing.size) == (0, 0)
    allocator.free(nothing)
    with pytest.raises(InvalidValueError, match="-1 bytes"):
        allocator.allocate(-1, LEGACY)
    block = allocator.allocate(10, LEGACY)
    allocator.record_stream(block, LEGACY)
    history = History(trace=True, context="all", max_entries=10)
    allocator.observe(history)
    allocator.free(block)
    assert [entry["action"] for entry in history.trace()] == ["free_requested", "free_completed"]
    with pytest.raises(InvalidValueError, match="freed before"):
        allocator.free(block)
    allocator.set_memory_fraction(0.0)
    with pytest.raises(drv.OutOfMemoryError):
        allocator.allocate(10, LEGACY)


@pytest.mark.simulator_only
def test_the_current_context_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHROOT_CUDA_ALLOC_CONF", "backend:guarding")
    with drv.simulator.installed(devices=2, check="off") as runtime:
        first, second = (device_allocator(runtime, ordinal) for ordinal in (0, 1))
        mine, other = first.allocate(10, LEGACY), second.allocate(10, LEGACY)
        drv.Device(0).make_current()
        second.free(other)
        assert runtime.current.device is drv.Device(0)
        assert int(runtime.driver.cuCtxGetDevice()[1]) == 0
        first.free(mine)


@pytest.mark.simulator_only
def test_frees_after_the_context_is_lost_and_after_the_runtime_is_dropped(runtime: drv.Runtime) -> None:
    allocator = device_allocator(runtime, 0)
    blocks = [allocator.allocate(10, LEGACY) for _ in range(2)]
    drv.simulator.inject().lose_device(0)
    allocator.free(blocks[0])
    drv.reset()
    allocator.free(blocks[1])


def test_threads(runtime: drv.Runtime) -> None:
    allocator = device_allocator(runtime, 0)
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for size in np.random.default_rng(seed).integers(1, 2000, 8).tolist():
                block = allocator.allocate(size, LEGACY)
                drv.memset(block.address, 1, size)
                allocator.free(block)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert allocator.live_blocks() == []


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-300, 2300), st.integers(1, 1500)), max_size=12))
def test_writes_are_found_where_nothing_may_write_and_nowhere_else(
    runtime: drv.Runtime, steps: list[tuple[int, int, int]]
) -> None:
    allocator = device_allocator(runtime, 0)
    zone = zone_size(ZONE)
    live: list[Any] = []
    freed: list[Any] = []
    for what, offset, size in steps:
        block = live[offset % len(live)] if live else None
        if what == 0 or block is None:
            live.append(allocator.allocate(size, LEGACY))
        elif what == 1:
            live.remove(block)
            allocator.free(block)
            freed.append(block)
        elif what == 2:
            at = max(-zone, min(offset, block.size + zone - 1))
            if 0 <= at < block.size:
                poke(block.address + at)
            else:
                with pytest.raises(drv.OverwriteError):
                    poke(block.address + at)
        elif freed and freed[-1].quarantined and freed[-1].size <= QUARANTINE:
            with pytest.raises(drv.OverwriteError):
                poke(freed[-1].address + offset % freed[-1].size)
    for block in live:
        allocator.free(block)
    allocator.empty_cache()
    runtime.devices[0].synchronize()


def test_pinned_memory(runtime: drv.Runtime) -> None:
    allocator = pinned_allocator(runtime)
    block = allocator.allocate(100)
    memory = block.memory
    assert (memory.inside == 0xFF).all()
    assert block.address == memory.inside.ctypes.data
    assert allocator.statistics()["allocated_bytes.current"] == 100
    memory.inside[:] = 1
    runtime.devices[0].synchronize()
    memory.after[:2] = 1
    with pytest.raises(
        drv.OverwriteError, match="2 bytes, from 0 bytes past the end .*\n  in pinned host memory"
    ):
        runtime.devices[0].synchronize()
    allocator.free(block)
    memory.inside[5] = 1
    with pytest.raises(drv.OverwriteError, match="1 byte, from byte 5 on, of 100 bytes that were freed"):
        runtime.devices[0].synchronize()


# With the simulated driver's own checks


@pytest.mark.simulator_only
def test_memory_is_poisoned_without_counting_as_written(exact: drv.Runtime) -> None:
    allocator = device_allocator(exact, 0)
    assert isinstance(allocator, StreamOrderedMemory)
    block = allocator.allocate(8, LEGACY)
    with exact.driver.findings.collecting():
        assert (contents(block.address, 8) == 0xFF).all()
        (result,) = exact.driver.findings
    assert result.kind == "uninitialized"


@pytest.mark.simulator_only
def test_pinned_memory_has_its_true_bounds_and_zones_for_the_host(exact: drv.Runtime) -> None:
    allocator = pinned_allocator(exact)
    block = allocator.allocate(10)
    assert exact.driver.record_at(block.address).allocation.size == 10
    view = block.memory.inside
    assert (view == 0xFF).all()
    view[:] = 0
    exact.devices[0].synchronize()
    block.memory.before[-1] = 0
    with pytest.raises(drv.OverwriteError, match="1 byte, from 1 bytes before an allocation of 10 bytes"):
        exact.devices[0].synchronize()
    address = block.address
    allocator.free(block)
    del block, view
    assert exact.driver.record_at(address) is None


@pytest.mark.simulator_only
def test_a_free_waits_for_nothing_and_orders_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHROOT_CUDA_ALLOC_CONF", "backend:guarding")
    with drv.simulator.installed(check="full", schedule="lazy") as runtime:
        allocator = device_allocator(runtime, 0)
        one, two = drv.Stream(), drv.Stream()
        first, second = allocator.allocate(64, int(one.handle)), allocator.allocate(64, int(two.handle))
        drv.memset(first.address, 0, 64, stream=one)
        drv.memset(second.address, 0, 64, stream=two)
        allocator.free(first)
        assert not runtime.driver.streams[int(two.handle)].last.done
        drv.Device(0).synchronize()
        assert runtime.driver.record_at(first.address) is None
        assert list(runtime.driver.findings) == []


@pytest.mark.simulator_only
@pytest.mark.parametrize("recorded", [True, False])
def test_use_on_another_stream_has_to_be_recorded(exact: drv.Runtime, recorded: bool) -> None:
    allocator = device_allocator(exact, 0)
    one, two = drv.Stream(), drv.Stream()
    block = allocator.allocate(64, int(one.handle))
    drv.memset(block.address, 0, 64, stream=one)
    two.wait_stream(one)
    drv.memset(block.address, 1, 64, stream=two)
    if recorded:
        allocator.record_stream(block, int(two.handle))
    with exact.driver.findings.collecting():
        allocator.free(block)
        drv.Device(0).synchronize()
        kinds = [result.kind for result in exact.driver.findings]
    assert kinds == ([] if recorded else ["freed while in use"])


@pytest.mark.simulator_only
def test_a_block_whose_stream_is_gone_is_given_back(exact: drv.Runtime) -> None:
    allocator = device_allocator(exact, 0)
    stream = drv.Stream()
    block = allocator.allocate(64, int(stream.handle))
    stream.close()
    allocator.free(block)
    assert exact.driver.record_at(block.address) is None


@pytest.mark.simulator_only
def test_a_free_by_a_finalizer_inside_the_driver_is_put_off(exact: drv.Runtime) -> None:
    allocator = device_allocator(exact, 0)
    block = allocator.allocate(64, LEGACY)
    with exact.driver.lock:
        allocator.free(block)
        assert exact.driver.record_at(block.address) is not None
    allocator.free(allocator.allocate(64, LEGACY))
    assert exact.driver.record_at(block.address) is None


@pytest.mark.simulator_only
def test_freed_memory_tells_where_it_was_freed(exact: drv.Runtime) -> None:
    allocator = device_allocator(exact, 0)
    block = allocator.allocate(64, LEGACY)
    allocator.free(block)
    freed = exact.driver.memory.find_freed(block.address)
    assert freed is not None
    assert freed.freed[0][2] == "test_freed_memory_tells_where_it_was_freed"


# What tools stand on


@pytest.mark.simulator_only
def test_a_supervisor_sees_every_runtime_and_chooses_options() -> None:
    from drv import selection

    class Supervisor:
        def __init__(self) -> None:
            self.told: list[str] = []

        def simulator_options(self, options: dict[str, object]) -> dict[str, object]:
            self.told.append(f"options {options}")
            return options | {"check": "full"}

        def started(self, runtime: drv.Runtime) -> None:
            self.told.append(f"started {runtime.driver.options.check}")

        def ending(self, runtime: drv.Runtime) -> None:
            self.told.append(f"ending {runtime.alive}")

    supervisor = Supervisor()
    drv.reset()
    selection.supervise(supervisor)
    try:
        with drv.simulator.installed(check="off"):
            pass
    finally:
        selection.supervise(None)
    assert supervisor.told == ["options {'check': 'off'}", "started full", "ending True"]


def test_what_a_runtime_caches_is_let_go_of(device: drv.Device) -> None:
    class Cached:
        gone = False

        def let_go(self) -> None:
            self.gone = True

    cached = device.runtime.cache("mine", Cached)
    device.runtime.cache("other", list)
    device.runtime.forget_cached()
    assert cached.gone
    assert device.runtime.cache("mine", Cached) is not cached

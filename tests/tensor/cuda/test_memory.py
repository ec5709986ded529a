"""Figures of device memory, what empties the cache, and limits."""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING, Any

import pytest

import drv
import tensor
from tensor import cuda
from tensor.core.devices.state import cuda_state

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1 << 20


def take(size: int, ordinal: int = 0, stream: cuda.Stream | None = None) -> Any:
    device = cuda_state(ordinal)
    return device.allocate(size, (stream or device.local.stream).cuda_stream)


def give(block: Any, ordinal: int = 0) -> None:
    cuda_state(ordinal).free(block)


def test_the_module_is_there_as_in_pytorch() -> None:
    import tensor.cuda.memory as module

    assert cuda.memory is module
    for name in module.__all__:
        if not name.startswith("_"):
            assert getattr(cuda, name) is getattr(module, name)
    assert cuda.OutOfMemoryError is drv.OutOfMemoryError


@pytest.mark.simulator_only
def test_nothing_is_counted_before_the_first_use() -> None:
    stats = cuda.memory_stats()
    assert set(stats.values()) == {0, -1}
    assert stats["max_split_size"] == -1
    assert cuda.memory_allocated() == cuda.max_memory_allocated("cuda:1") == 0
    assert cuda.memory_reserved() == cuda.max_memory_reserved(3) == 0
    assert set(cuda.host_memory_stats().values()) == {0}
    assert cuda.memory_stats_as_nested_dict()["active"]["all"]["current"] == 0
    assert "CUDA OOMs: 0" in cuda.memory_summary()
    assert cuda.memory_snapshot() == []
    assert cuda.get_per_process_memory_fraction() == 1.0
    cuda.reset_peak_memory_stats()
    cuda.reset_accumulated_memory_stats()
    cuda.empty_cache()
    assert not drv.is_initialized()


@pytest.mark.simulator_only
def test_asking_makes_no_context() -> None:
    drv.simulator.install(devices=2)
    before = cuda.memory_stats(1)
    assert set(before.values()) == {0, -1}
    assert cuda.host_memory_stats().keys() >= {"allocated_bytes.current", "num_host_alloc"}
    cuda.memory_summary(1)
    cuda.memory_snapshot()
    cuda.memory._snapshot()
    cuda.reset_peak_memory_stats(1)
    cuda.empty_cache()
    assert not cuda.is_initialized()
    drv.reset()
    assert cuda.memory_stats(1) == before
    assert cuda.host_memory_stats() == dict.fromkeys(cuda.host_memory_stats(), 0)


def test_allocated_reserved_and_peaks(two_devices: tuple[drv.Device, drv.Device]) -> None:
    base = cuda.memory_allocated()
    cuda.empty_cache()
    small, large = take(1000), take(3 * MIB)
    assert cuda.memory_allocated() - base == 1024 + 3 * MIB
    assert cuda.memory_reserved() >= 2 * MIB + 20 * MIB
    assert cuda.memory_allocated(1) == cuda.memory_reserved("cuda:1") == 0
    give(large)
    assert cuda.memory_allocated() - base == 1024
    assert cuda.max_memory_allocated() - base >= 1024 + 3 * MIB
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_allocated() - base == 1024
    reserved = cuda.memory_reserved()
    cuda.empty_cache()
    assert cuda.memory_reserved() <= reserved - 20 * MIB
    assert cuda.max_memory_reserved() == reserved
    give(small)
    with cuda.device(1):
        block = take(512, 1)
        assert cuda.memory_allocated() == 512
        give(block, 1)


def test_statistics_and_their_resets(device: drv.Device) -> None:
    cuda.reset_accumulated_memory_stats()
    block = take(4096)
    stats = cuda.memory_stats()
    assert list(stats) == sorted(stats)
    assert stats["allocation.small_pool.allocated"] == 1
    assert stats["allocated_bytes.small_pool.allocated"] == 4096
    assert stats["requested_bytes.all.current"] >= 4096
    give(block)
    nested = cuda.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["freed"] == 4096
    assert nested["num_ooms"] == 0
    cuda.reset_accumulated_memory_stats()
    assert cuda.memory_stats()["allocated_bytes.all.freed"] == 0


def test_the_summary(two_devices: tuple[drv.Device, drv.Device]) -> None:
    block = take(5 * MIB, 1)
    text = cuda.memory_summary(1)
    assert "device ID 1" in text
    assert "Allocated memory" in text
    assert "5120 KiB" in text
    assert "from large pool" in text
    assert "from large pool" not in cuda.memory_summary("cuda:1", abbreviated=True)
    assert "device ID 0" in cuda.memory_summary()
    give(block, 1)


@pytest.mark.parametrize("wrong", ["cpu", 9, -1, 1.5, True])
@pytest.mark.parametrize(
    "ask",
    [
        cuda.memory_stats,
        cuda.memory_allocated,
        cuda.memory_summary,
        cuda.reset_peak_memory_stats,
        cuda.reset_accumulated_memory_stats,
        lambda device: cuda.set_per_process_memory_fraction(0.5, device),
        lambda device: cuda.caching_allocator_alloc(512, device),
    ],
)
def test_bad_devices(device: drv.Device, ask: Callable[[Any], Any], wrong: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"no device|but got: cpu|expected a device"):
        ask(wrong)


@pytest.mark.simulator_only
def test_freeing_never_synchronises() -> None:
    drv.simulator.install(schedule="lazy")
    stream, memory, event = cuda.Stream(), take(1 << 20), cuda.Event()
    drv.memset(memory.address, 0, 1 << 20, stream=stream.native)
    cuda_state().allocator.record_stream(memory, stream.cuda_stream)
    event.record(stream)
    give(memory)
    assert cuda.memory_allocated() == 0
    assert cuda.memory_stats()["active_bytes.all.current"] == 1 << 20
    assert not event.query()


@pytest.mark.simulator_only
@pytest.mark.parametrize("options", [{"schedule": "lazy"}, {"schedule": "random", "seed": 3}], ids=str)
def test_a_recorded_stream_delays_reuse(options: dict[str, Any]) -> None:
    drv.simulator.install(check="race", **options)
    side, block = cuda.Stream(), take(4096)
    address = block.address
    with cuda.stream(side):
        drv.memset(block.address, 1, 4096, stream=cuda.current_stream().native)
    cuda_state().allocator.record_stream(block, side.cuda_stream)
    give(block)
    reused = take(4096)
    drv.memset(reused.address, 2, 4096, stream=cuda.current_stream().native)
    cuda.synchronize()
    give(reused)
    again = take(4096), take(4096)
    assert address in {block.address for block in again}


@pytest.mark.simulator_only
def test_out_of_memory() -> None:
    drv.simulator.install(memory="64MiB")
    kept, cached = take(10 * MIB), take(20 * MIB)
    give(cached)
    with pytest.raises(cuda.OutOfMemoryError, match=r"Tried to allocate 100.00 MiB"):
        take(100 * MIB)
    stats = cuda.memory_stats()
    assert stats["num_ooms"] == stats["num_alloc_retries"] == 1
    assert cuda.memory_allocated() == 10 * MIB
    # What was cached was given back for the second attempt.
    assert cuda.memory_reserved() == 10 * MIB
    give(kept)
    give(take(30 * MIB))


@pytest.mark.simulator_only
def test_out_of_memory_keeps_nothing_of_the_caller() -> None:
    drv.simulator.install(memory="64MiB")

    def function() -> None:
        held = tensor.ones(1000, device="cuda")
        held + tensor.empty(64 * MIB, device="cuda")

    gc.collect()
    gc.disable()
    try:
        with pytest.raises(cuda.OutOfMemoryError):
            function()
        # No cycle of references through the traceback: what the function had is free to be used again.
        assert cuda.memory_allocated() == 0
    finally:
        gc.enable()


def test_the_memory_fraction(two_devices: tuple[drv.Device, drv.Device]) -> None:
    total = cuda.mem_get_info(1)[1]
    fraction = 64 * MIB / total
    cuda.set_per_process_memory_fraction(fraction, 1)
    assert cuda.get_per_process_memory_fraction("cuda:1") == fraction
    assert cuda.get_per_process_memory_fraction() == 1.0
    with pytest.raises(cuda.OutOfMemoryError):
        take(80 * MIB, 1)
    cuda.set_per_process_memory_fraction(1.0, 1)
    give(take(80 * MIB, 1), 1)
    with pytest.raises(TypeError, match="must be `float`, got int"):
        cuda.set_per_process_memory_fraction(1)
    for wrong in (-0.1, 1.5, float("nan")):
        with pytest.raises(ValueError, match="Allowed range: 0~1"):
            cuda.set_per_process_memory_fraction(wrong)
    assert cuda.get_per_process_memory_fraction() == 1.0


def test_raw_allocations(two_devices: tuple[drv.Device, drv.Device]) -> None:
    stream = cuda.Stream(1)
    with cuda.stream(stream):
        addresses = [cuda.caching_allocator_alloc(1000), cuda.caching_allocator_alloc(1000, 1, stream)]
    addresses += [cuda.caching_allocator_alloc(1000, 1, number) for number in (0, stream.cuda_stream)]
    assert len(set(addresses)) == 4
    assert cuda.memory_allocated(1) == 4 * 1024
    by_stream = sorted(
        (segment["stream"], block["requested_size"])
        for segment in cuda.memory_snapshot()
        for block in segment["blocks"]
        if block["state"] == "active_allocated" and segment["device"] == 1
    )
    default = cuda.default_stream(1).cuda_stream
    assert by_stream == sorted([(stream.cuda_stream, 1000)] * 3 + [(default, 1000)])
    for address in addresses:
        cuda.caching_allocator_delete(address)
    assert cuda.memory_allocated(1) == 0
    with pytest.raises(ValueError, match=f"invalid device pointer: {addresses[0]:#x}"):
        cuda.caching_allocator_delete(addresses[0])
    assert cuda.caching_allocator_alloc(0) == 0
    cuda.caching_allocator_delete(0)
    with pytest.raises(ValueError, match="the stream is of cuda:1"):
        cuda.caching_allocator_alloc(512, 0, stream)
    with pytest.raises(TypeError, match="Invalid type for stream argument"):
        cuda.caching_allocator_alloc(512, 0, "default")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="-5 bytes"):
        cuda.caching_allocator_alloc(-5)


@pytest.mark.simulator_only
def test_raw_allocations_go_with_the_runtime() -> None:
    drv.simulator.install()
    address = cuda.caching_allocator_alloc(512)
    drv.reset()
    with pytest.raises(ValueError, match="invalid device pointer"):
        cuda.caching_allocator_delete(address)
    drv.simulator.install()
    assert cuda.memory_allocated() == 0
    with pytest.raises(ValueError, match="invalid device pointer"):
        cuda.caching_allocator_delete(address)


def test_pinned_memory_is_counted(device: drv.Device) -> None:
    allocator = cuda_state().pinned_allocator()
    before = cuda.host_memory_stats()["allocated_bytes.current"]
    block = allocator.allocate(5000)
    assert cuda.host_memory_stats()["allocated_bytes.current"] - before == 8192
    assert cuda.host_memory_stats_as_nested_dict()["allocation"]["current"] >= 1
    allocator.free(block)


@pytest.mark.simulator_only
def test_without_caching_each_block_is_the_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHROOT_NO_CUDA_MEMORY_CACHING", "1")
    drv.simulator.install(devices=2)
    block = take(1000)
    assert cuda.memory_allocated() == cuda.memory_reserved() == 1024
    (segment,) = cuda.memory_snapshot()
    assert segment["total_size"] == 1000
    cuda.memory._record_memory_history()
    give(block)
    assert [entry["action"] for entry in cuda.memory._snapshot()["device_traces"][0]] == [
        "free_requested",
        "free_completed",
    ]
    assert cuda.memory_reserved() == 0
    cuda.empty_cache()


def test_threads_allocate_for_their_own_streams(device: drv.Device) -> None:
    base = cuda.memory_allocated()
    wrong = []

    def work() -> None:
        with cuda.stream(cuda.Stream()) as _:
            stream = cuda.current_stream()
            for _ in range(50):
                block = take(2048)
                if block.stream != stream.cuda_stream:
                    wrong.append(block)
                give(block)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert cuda.memory_allocated() == base

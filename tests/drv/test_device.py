"""Devices: what they say of themselves, current device, peers."""

from __future__ import annotations

import pickle
import threading

import pytest

import drv


def test_properties(device: drv.Device) -> None:
    result = device.properties
    assert result.name == device.name
    assert "\0" not in result.name
    assert (result.major, result.minor) == device.compute_capability
    assert result.total_memory == device.total_memory == device.memory_info().total
    assert result.warp_size == 32
    assert result.max_threads_per_block == device.attribute("MAX_THREADS_PER_BLOCK") == 1024
    assert result.max_block_dim == (1024, 1024, 64)
    assert result.max_grid_dim == (2**31 - 1, 65535, 65535)
    assert result.shared_memory_per_block == 48 << 10
    assert result.uuid == device.uuid
    assert result.uuid.int != 0
    assert isinstance(result.is_integrated, bool)
    assert device.properties is result


def test_attributes_by_name(device: drv.Device) -> None:
    assert device.attribute("warp_size") == device.attribute("CU_DEVICE_ATTRIBUTE_WARP_SIZE") == 32
    with pytest.raises(drv.NotFoundError, match="'speed'"):
        device.attribute("speed")


@pytest.mark.simulator_only
def test_attributes_follow_the_options() -> None:
    drv.simulator.install(devices=2, memory="1GiB/512MiB", capability="9.0/8.6", multiprocessors="7/9")
    first, second = (drv.Device(ordinal) for ordinal in range(2))
    assert (first.total_memory, second.total_memory) == (1 << 30, 1 << 29)
    assert (first.compute_capability, second.compute_capability) == ((9, 0), (8, 6))
    assert [d.properties.multi_processor_count for d in (first, second)] == [7, 9]
    assert first.uuid != second.uuid


def test_memory_info_follows_allocations(device: drv.Device) -> None:
    before = device.memory_info()
    with drv.DeviceMemory(16 << 20, device):
        assert device.memory_info().free <= before.free - (16 << 20)
    assert device.memory_info().total == before.total


def test_priorities(device: drv.Device) -> None:
    least, greatest = device.stream_priority_range()
    assert greatest <= 0 <= least or greatest < least


def test_each_thread_selects_its_own_device(two_devices: tuple[drv.Device, drv.Device]) -> None:
    first, second = two_devices
    assert drv.current_device() is first
    second.set_current()
    seen = []
    thread = threading.Thread(target=lambda: seen.append((drv.current_device(), drv.DeviceMemory(8).device)))
    thread.start()
    thread.join()
    assert seen == [(first, first)]
    assert drv.current_device() is second
    assert drv.DeviceMemory(8).device is second
    assert drv.Stream().device is second
    first.set_current()


def test_using_another_device_leaves_the_selection(two_devices: tuple[drv.Device, drv.Device]) -> None:
    first, second = two_devices
    first.set_current()
    drv.DeviceMemory(8, second)
    assert drv.current_device() is first


def test_a_context_changed_by_another_library_is_noticed(two_devices: tuple[drv.Device, drv.Device]) -> None:
    first, second = two_devices
    second.make_current()
    first.make_current()
    first.runtime.driver.cuCtxSetCurrent(second.context)
    free = first.memory_info().free
    with drv.DeviceMemory(8 << 20, first):
        first.runtime.driver.cuCtxSetCurrent(second.context)
        assert first.memory_info().free <= free - (8 << 20)


def test_peers(two_devices: tuple[drv.Device, drv.Device]) -> None:
    first, second = two_devices
    if not first.can_access_peer(second):
        pytest.skip("these devices are no peers")
    assert not first.peer_access_enabled(second)
    first.enable_peer_access(second)
    first.enable_peer_access(second)
    assert first.peer_access_enabled(second)
    assert not second.peer_access_enabled(first)
    first.disable_peer_access(second)
    assert not first.peer_access_enabled(second)
    with pytest.raises(drv.PeerAccessError, match="PEER_ACCESS_NOT_ENABLED"):
        first.disable_peer_access(second)


@pytest.mark.simulator_only
def test_devices_that_are_no_peers() -> None:
    drv.simulator.install(devices=2, peers="0-1")
    first, second = drv.Device(0), drv.Device(1)
    assert first.can_access_peer(second)
    assert not second.can_access_peer(first)
    assert not first.can_access_peer(first)
    with pytest.raises(drv.PeerAccessError, match="device 1 cannot access memory of device 0"):
        second.enable_peer_access(first)
    with pytest.raises(drv.PeerAccessError, match="not its own peer"):
        first.enable_peer_access(first)
    with pytest.raises(drv.PeerAccessError, match="no access to device 0"):
        second.disable_peer_access(first)


def test_devices_pickle_as_their_ordinal(device: drv.Device) -> None:
    assert pickle.loads(pickle.dumps(device)) is device

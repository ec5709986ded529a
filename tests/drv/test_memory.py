"""Raw memory, copies and memsets."""

from __future__ import annotations

import gc

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import drv

DATA = np.arange(256, dtype=np.uint8)
lenient = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None
)


def test_device_memory(device: drv.Device) -> None:
    with drv.DeviceMemory(1000, device) as memory:
        assert memory.address % 256 == 0
        assert memory.nbytes == 1000
        interface = memory.__cuda_array_interface__
        assert interface["data"] == (memory.address, False)
        assert interface["shape"] == (1000,)
        assert interface["typestr"] == "|u1"
    memory.free()
    assert "freed" in repr(memory)
    with pytest.raises(drv.InvalidHandleError, match="was freed"):
        drv.memset(memory, 0, 1)


@pytest.mark.parametrize("kind", [drv.DeviceMemory, drv.PinnedMemory])
@pytest.mark.parametrize("size", [0, -1])
def test_empty_allocations_are_refused(device: drv.Device, kind: type, size: int) -> None:
    with pytest.raises(drv.InvalidValueError, match=f"{size} were asked for"):
        kind(size, device)


def test_out_of_memory_leaves_everything_working(device: drv.Device) -> None:
    too_much = device.total_memory + 1
    before = device.memory_info().free
    with pytest.raises(drv.OutOfMemoryError, match=f"{too_much} bytes on device 0") as caught:
        drv.DeviceMemory(too_much, device)
    assert caught.value.status == "CUDA_ERROR_OUT_OF_MEMORY"
    assert not caught.value.sticky
    assert device.memory_info().free == before
    drv.DeviceMemory(1024, device).free()


@pytest.mark.simulator_only
def test_out_of_memory_on_demand(device: drv.Device) -> None:
    device.runtime.driver.inject.out_of_memory_after(3000)
    held = drv.DeviceMemory(2000, device)
    with pytest.raises(drv.OutOfMemoryError):
        drv.DeviceMemory(2000, device)
    with pytest.raises(drv.OutOfMemoryError):
        drv.PinnedMemory(2000, device)
    device.runtime.driver.inject.clear()
    drv.DeviceMemory(2000, device).free()
    held.free()


def test_pinned_memory_is_an_array(device: drv.Device) -> None:
    with drv.PinnedMemory(1003, device) as pinned:
        array = pinned.array(np.float32)
        assert array.shape == (250,)
        assert array.ctypes.data == pinned.address
        array[:] = 3
        assert (pinned.array(np.float32) == 3).all()
        assert pinned.array().shape == (1003,)


def test_arrays_keep_freed_pinned_memory(device: drv.Device) -> None:
    pinned = drv.PinnedMemory(1 << 20, device)
    row = pinned.array(np.int32)[5:9]
    pinned.free()
    pinned.free()
    gc.collect()
    row[:] = 4
    assert row.sum() == 16
    with pytest.raises(drv.InvalidHandleError, match="was freed"):
        pinned.array()


def test_registered_memory(device: drv.Device) -> None:
    array = np.zeros(5000, np.float32)
    memory, stream = drv.DeviceMemory(array.nbytes, device), drv.Stream(device)
    drv.memset(memory, 1, array.nbytes)
    with drv.RegisteredMemory(array, device) as registered:
        assert registered.address == array.ctypes.data
        with pytest.raises(drv.CudaError, match="HOST_MEMORY_ALREADY_REGISTERED"):
            drv.RegisteredMemory(array, device)
        drv.copy_to_host(registered, memory, stream=stream)
        stream.synchronize()
    assert (array.view(np.uint8) == 1).all()
    registered.unregister()
    drv.RegisteredMemory(array, device).unregister()
    drv.RegisteredMemory(array, device)
    drv.RegisteredMemory(array, device)
    for wrong in (array[::2], array[:0]):
        with pytest.raises(drv.InvalidValueError, match="C-contiguous array with elements"):
            drv.RegisteredMemory(wrong, device)


@pytest.mark.parametrize("queued", [False, True])
@pytest.mark.parametrize("pinned", [False, True])
def test_there_and_back(device: drv.Device, queued: bool, pinned: bool) -> None:
    stream = drv.Stream(device) if queued else None
    first, second = drv.DeviceMemory(256, device), drv.DeviceMemory(256, device)
    staging = drv.PinnedMemory(512, device)
    source, result = (
        (staging.array()[:256], staging.array()[256:]) if pinned else (DATA.copy(), np.zeros_like(DATA))
    )
    source[:] = DATA
    drv.copy_to_device(first, source, stream=stream)
    drv.copy_on_device(second, first, stream=stream)
    drv.copy_to_host(result, second, stream=stream)
    if stream is not None:
        stream.synchronize()
    assert (result == DATA).all()


@pytest.mark.simulator_only
@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_copies_without_a_stream_are_done_when_they_return(schedule: str) -> None:
    drv.simulator.install(schedule=schedule, check="race")
    device = drv.Device(0)
    stream = drv.Stream(device)
    first, second, result = drv.DeviceMemory(256, device), drv.DeviceMemory(256, device), np.zeros_like(DATA)
    drv.copy_to_device(first, DATA)
    drv.copy_on_device(second, first, stream=stream)
    stream.synchronize()
    drv.copy_on_device(first, second)
    drv.copy_to_host(result, first, stream=stream)
    stream.synchronize()
    assert (result == DATA).all()
    drv.memset(first, 5, 256)
    drv.copy_to_host(result, first, stream=stream)
    stream.synchronize()
    assert (result == 5).all()


@pytest.mark.parametrize("peers", [False, True])
@pytest.mark.parametrize("queued", [False, True])
def test_copies_between_devices(
    two_devices: tuple[drv.Device, drv.Device], peers: bool, queued: bool
) -> None:
    first, second = two_devices
    if peers:
        if not first.can_access_peer(second):
            pytest.skip("these devices are no peers")
        first.enable_peer_access(second)
    stream = drv.Stream(second) if queued else None
    here, there = drv.DeviceMemory(256, first), drv.DeviceMemory(256, second)
    result = np.zeros_like(DATA)
    drv.copy_to_device(here, DATA)
    drv.copy_peer(there, second, here, first, stream=stream)
    drv.copy_to_host(result, there, stream=stream)
    if stream is not None:
        stream.synchronize()
    assert (result == DATA).all()
    if peers:
        first.disable_peer_access(second)


def test_what_hosts_may_give(device: drv.Device) -> None:
    memory = drv.DeviceMemory(8, device)
    result = bytearray(8)
    for source in (
        b"12345678",
        bytearray(b"12345678"),
        memoryview(b"12345678"),
        np.frombuffer(b"12345678", ">i4"),
    ):
        drv.memset(memory, 0, 8)
        drv.copy_to_device(memory, source)
        drv.copy_to_host(result, memory)
        assert result == b"12345678"
    half = np.array([1, 2, 3, 4], ml_dtypes.bfloat16)
    drv.copy_to_device(memory, half)
    back = np.zeros(4, ml_dtypes.bfloat16)
    drv.copy_to_host(back, memory)
    assert (back == half).all()
    drv.copy_to_device(memory.address + 4, np.array([7], np.int32).ctypes.data, 4)
    drv.copy_to_host(result, memory.address + 4, 4)
    assert result[:4] == (7).to_bytes(4, "little")
    drv.copy_to_device(memory, b"", 0)


def test_what_hosts_may_not_give(device: drv.Device) -> None:
    memory = drv.DeviceMemory(64, device)
    wrong = [
        (lambda: drv.copy_to_device(memory, np.zeros((8, 16), np.uint8)[:, :8]), "C-contiguous"),
        (lambda: drv.copy_to_host(b"1234", memory, 4), "read-only"),
        (lambda: drv.copy_to_device(memory, [1, 2, 3]), "list was given"),
        (lambda: drv.copy_to_device(b"1234", b"1234"), "expected device memory.*bytes was given"),
        (lambda: drv.copy_to_device(memory, bytes(63)), "destination has 64 bytes and the source 63"),
        (lambda: drv.copy_to_device(memory, bytes(65), 65), "65 bytes do not fit: there are only 64"),
        (lambda: drv.copy_to_device(memory.address, 1), "pass nbytes"),
        (lambda: drv.copy_to_device(memory, bytes(64), -1), "not be negative"),
        (lambda: drv.copy_to_host(memoryview(bytearray(64))[::2], memory, 4), "C-contiguous"),
    ]
    for use, message in wrong:
        with pytest.raises(drv.InvalidValueError, match=message):
            use()


class Array:
    """Another library's array."""

    def __init__(
        self, memory: drv.DeviceMemory, shape: tuple[int, ...], strides: tuple[int, ...] | None
    ) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape,
            "strides": strides,
            "typestr": "<f4",
            "data": (memory.address, False),
            "version": 3,
        }


def test_other_libraries_arrays(device: drv.Device) -> None:
    memory = drv.DeviceMemory(4 * 24, device)
    numbers = np.arange(24, dtype=np.float32)
    result = np.zeros_like(numbers)
    for shape, strides in (((24,), None), ((4, 6), (24, 4)), ((4, 1, 6), (24, 99, 4)), ((24,), (4,))):
        drv.memset(memory, 0, 96)
        drv.copy_to_device(Array(memory, shape, strides), numbers)
        drv.copy_to_host(result, Array(memory, shape, strides))
        assert (result == numbers).all()
    with pytest.raises(drv.InvalidValueError, match=r"strides \(4, 16\)"):
        drv.copy_to_device(Array(memory, (4, 6), (4, 16)), numbers)


@lenient
@given(
    bits=st.sampled_from([8, 16, 32]),
    count=st.integers(0, 40),
    offset=st.integers(0, 10),
    data=st.data(),
)
def test_memset(device: drv.Device, bits: int, count: int, offset: int, data: st.DataObject) -> None:
    value = data.draw(st.integers(-(1 << (bits - 1)), (1 << bits) - 1))
    item = bits // 8
    expected = np.zeros(256, np.uint8)
    expected[offset * item : (offset + count) * item] = np.frombuffer(
        (value % (1 << bits)).to_bytes(item, "little") * count, np.uint8
    )
    memory, result = drv.DeviceMemory(256, device), np.zeros(256, np.uint8)
    drv.memset(memory, 0, 256)
    drv.memset(memory.address + offset * item, value, count, bits=bits)
    drv.copy_to_host(result, memory)
    assert (result == expected).all()
    memory.free()


def test_bad_memsets(device: drv.Device) -> None:
    memory = drv.DeviceMemory(64, device)
    wrong = [
        (lambda: drv.memset(memory, 256, 1), "256 does not fit into 8 bits"),
        (lambda: drv.memset(memory, -129, 1), "-129 does not fit into 8 bits"),
        (lambda: drv.memset(memory, 0, 1, bits=64), "8, 16 or 32"),
        (lambda: drv.memset(memory, 0, 17, bits=32), "68 bytes do not fit"),
        (lambda: drv.memset(memory.address + 2, 0, 1, bits=32), "no multiple of 4"),
        (lambda: drv.memset_2d(memory, 8, 0, 9, 2), "pitch of 8 bytes is shorter"),
        (lambda: drv.memset_2d(memory, 16, 0, 8, 5), "rows take 72 bytes, the destination has 64"),
    ]
    for use, message in wrong:
        with pytest.raises(drv.InvalidValueError, match=message):
            use()


@lenient
@given(
    width=st.integers(0, 9),
    height=st.integers(0, 5),
    pads=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    queued=st.booleans(),
    kinds=st.tuples(
        st.sampled_from(["pageable", "pinned", "device"]), st.sampled_from(["pageable", "pinned", "device"])
    ),
)
def test_copies_of_rows(
    device: drv.Device, width: int, height: int, pads: tuple[int, int], queued: bool, kinds: tuple[str, str]
) -> None:
    stream = drv.Stream(device) if queued else None
    pitches = width + pads[0], width + pads[1]
    source = np.random.default_rng(0).integers(0, 255, 128, dtype=np.uint8)
    expected = np.full(128, 99, np.uint8)
    for row in range(height):
        expected[row * pitches[1] :][:width] = source[row * pitches[0] :][:width]

    devices = []
    for kind, content in zip(kinds, (source, np.full(128, 99, np.uint8)), strict=True):
        if kind == "pageable":
            devices.append(content)
        elif kind == "pinned":
            pinned = drv.PinnedMemory(128, device)
            pinned.array()[:] = content
            devices.append(pinned)
        else:
            memory = drv.DeviceMemory(128, device)
            drv.copy_to_device(memory, content)
            devices.append(memory)
    drv.copy_2d(devices[1], pitches[1], devices[0], pitches[0], width, height, stream=stream)
    device.synchronize()
    result = np.zeros(128, np.uint8)
    if kinds[1] == "device":
        drv.copy_to_host(result, devices[1])
    else:
        result[:] = devices[1] if kinds[1] == "pageable" else devices[1].array()
    assert (result == expected).all()


def test_rows_by_address(device: drv.Device) -> None:
    memory = drv.DeviceMemory(256, device)
    drv.memset(memory, 1, 256)
    drv.memset_2d(memory.address + 2, 16, 0x0304, 3, 4, bits=16)
    result = np.zeros((4, 16), np.uint8)
    drv.copy_2d(result, 16, memory.address, 16, 10, 4)
    assert result.tolist() == [[1, 1, 4, 3, 4, 3, 4, 3, 1, 1] + [0] * 6] * 4
    with pytest.raises(drv.InvalidValueError, match="source's pitch of 4"):
        drv.copy_2d(result, 16, memory, 4, 8, 2)
    with pytest.raises(drv.InvalidValueError, match="the destination has 64"):
        drv.copy_2d(result, 16, memory, 16, 16, 5)


@pytest.mark.simulator_only
def test_reading_pinned_memory_too_early_is_found() -> None:
    drv.simulator.install(schedule="lazy", check="race")
    device = drv.Device(0)
    stream = drv.Stream(device)
    memory, pinned = drv.DeviceMemory(64, device), drv.PinnedMemory(64, device)
    drv.memset(memory, 7, 64)
    drv.copy_to_host(pinned, memory, stream=stream)
    assert pinned.array()[0] == 0, "under lazy, too early shows as wrong data"
    drv.host_access(pinned, writes=False)
    with pytest.raises(drv.DataRaceError, match="host"):
        stream.synchronize()
    drv.copy_to_host(pinned, memory, stream=stream)
    stream.synchronize()
    drv.host_access(pinned.address, 64, writes=False)
    assert pinned.array()[0] == 7
    device.synchronize()


@pytest.mark.simulator_only
def test_writing_pinned_memory_too_early_is_found() -> None:
    drv.simulator.install(schedule="lazy", check="race")
    device = drv.Device(0)
    stream = drv.Stream(device)
    memory, pinned = drv.DeviceMemory(64, device), drv.PinnedMemory(64, device)
    pinned.array()[:] = 1
    drv.copy_to_device(memory, pinned, stream=stream)
    pinned.array()[:] = 2
    with pytest.raises(drv.DataRaceError):
        stream.synchronize()


def test_telling_host_accesses_costs_nothing_elsewhere(device: drv.Device) -> None:
    pinned = drv.PinnedMemory(64, device)
    drv.host_access(pinned, writes=True)
    drv.host_access(pinned.array()[8:16], writes=False)
    device.synchronize()


@pytest.mark.simulator_only
def test_stray_copies_are_refused(device: drv.Device) -> None:
    memory = drv.DeviceMemory(64, device)
    with pytest.raises(
        drv.InvalidValueError, match="cuMemcpyHtoD.*0x1234.*64 bytes.*CUDA_ERROR_INVALID_VALUE"
    ):
        drv.copy_to_device(0x1234, bytes(64))
    with pytest.raises(drv.InvalidValueError):
        drv.copy_to_device(memory.address + 32, bytes(64))

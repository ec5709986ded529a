from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cuda.bindings import driver as cuda
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drv.simulator.machine import NON_BLOCKING, Machine

if TYPE_CHECKING:
    from collections.abc import Callable

    MachineMaker = Callable[..., Machine]

N = 1000
KINDS = cuda.CUmemorytype


def numbers(seed: int = 0, nbytes: int = N) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, nbytes, np.uint8)


def test_there_and_back(any_schedule: MachineMaker) -> None:
    machine = any_schedule(devices=2)
    data, back = numbers(), np.zeros(N, np.uint8)
    first = machine.device_memory(N)
    machine.use(1)
    second, third = machine.device_memory(N), machine.device_memory(N)
    machine.cuMemcpyHtoD(first, data, N)
    machine.use(0)
    machine.cuMemcpyPeer(second, machine.contexts[1], first, machine.contexts[0], N)
    machine.cuCtxSynchronize()
    machine.use(1)
    machine.cuMemcpyDtoD(third, second, N)
    machine.cuMemcpyDtoH(back, third, N)
    assert (back == data).all()


def test_offsets_and_neighbours(machine: Machine) -> None:
    memory = machine.device_memory(N)
    machine.cuMemcpyHtoD(memory + 100, b"\x05" * 50, 50)
    held = machine.peek(memory, N)
    assert (held[100:150] == 5).all()
    assert held.sum() == 250


def test_generic_copy_between_all_kinds(machine: Machine) -> None:
    data, back = numbers(), np.zeros(N, np.uint8)
    memory = machine.device_memory(N)
    host, array = machine.pinned(N)
    machine.cuMemcpy(memory, data.ctypes.data, N)
    machine.cuMemcpy(host, memory, N)
    assert (array == data).all()
    machine.cuMemcpy(back.ctypes.data, host, N)
    assert (back == data).all()


# What a call may assume of its source and target when it returns


def test_a_pageable_source_may_be_reused_at_once(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    stream, memory, source = machine.stream(), machine.device_memory(N), numbers()
    expected = source.copy()
    machine.cuMemcpyHtoDAsync(memory, source, N, stream)
    source[:] = 0
    machine.cuStreamSynchronize(stream)
    assert (machine.peek(memory, N) == expected).all()


def test_a_pinned_source_is_read_when_the_copy_runs(lazy: Machine) -> None:
    stream, memory = lazy.stream(), lazy.device_memory(N)
    host, array = lazy.pinned(N)
    array[:] = 1
    lazy.cuMemcpyHtoDAsync(memory, host, N, stream)
    array[:] = 2
    lazy.cuStreamSynchronize(stream)
    assert (lazy.peek(memory, N) == 2).all()


def test_a_pageable_target_is_complete_when_the_call_returns(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    stream, memory, back = machine.stream(), machine.device_memory(N), np.zeros(N, np.uint8)
    machine.cuMemsetD8Async(memory, 3, N, stream)
    machine.cuMemcpyDtoHAsync(back, memory, N, stream)
    assert (back == 3).all()


def test_a_pinned_target_is_not(lazy: Machine) -> None:
    stream, memory = lazy.stream(), lazy.device_memory(N)
    host, array = lazy.pinned(N)
    lazy.cuMemsetD8Async(memory, 3, N, stream)
    lazy.cuMemcpyDtoHAsync(host, memory, N, stream)
    assert not array.any()
    lazy.cuStreamSynchronize(stream)
    assert (array == 3).all()


def test_synchronous_copies_with_pinned_memory_block(lazy: Machine) -> None:
    memory = lazy.device_memory(N)
    host, array = lazy.pinned(N)
    array[:] = 4
    lazy.cuMemcpyHtoD(memory, host, N)
    assert (lazy.peek(memory, N) == 4).all()
    array[:] = 0
    lazy.cuMemcpyDtoH(host, memory, N)
    assert (array == 4).all()


def test_a_synchronous_copy_from_pageable_memory_returns_once_staged(lazy: Machine) -> None:
    """The driver documents that the transfer to the device may still be under way."""
    memory, data = lazy.device_memory(N), numbers()
    lazy.mark(0, "earlier")
    lazy.cuMemcpyHtoD(memory, data, N)
    assert lazy.log == ["earlier"]
    assert not lazy.peek(memory, N).any()
    lazy.cuStreamSynchronize(0)
    assert (lazy.peek(memory, N) == data).all()


def test_copies_within_and_between_devices_do_not_block(lazy: Machine) -> None:
    first, second = lazy.device_memory(N), lazy.device_memory(N)
    lazy.poke(first, numbers())
    lazy.cuMemcpyDtoD(second, first, N)
    lazy.cuMemsetD8(first, 9, N)
    assert not lazy.peek(second, N).any()
    lazy.cuStreamSynchronize(0)
    assert (lazy.peek(second, N) == numbers()).all()
    assert (lazy.peek(first, N) == 9).all()


def test_copies_between_host_ranges_are_complete(lazy: Machine) -> None:
    stream = lazy.stream()
    (source, source_array), (target, target_array) = lazy.pinned(N), lazy.pinned(N)
    source_array[:] = 6
    lazy.cuMemcpyAsync(target, source, N, stream)
    assert (target_array == 6).all()


def test_a_fill_of_host_memory_blocks_and_of_device_memory_does_not(lazy: Machine) -> None:
    host, array = lazy.pinned(N)
    lazy.cuMemsetD8(host, 5, N)
    assert (array == 5).all()
    stream = lazy.stream()
    lazy.cuMemsetD8Async(host, 6, N, stream)
    assert (array == 5).all()


def test_synchronous_copies_are_ordered_with_blocking_streams_only(lazy: Machine) -> None:
    blocking, side = lazy.stream(0), lazy.stream(NON_BLOCKING)
    first, second = lazy.device_memory(N), lazy.device_memory(N)
    back = np.zeros(N, np.uint8)
    lazy.cuMemsetD8Async(first, 1, N, blocking)
    lazy.cuMemsetD8Async(second, 1, N, side)
    lazy.cuMemcpyDtoH(back, first, N)
    assert (back == 1).all()
    lazy.cuMemcpyDtoH(back, second, N)
    assert not back.any()


def test_a_missing_wait_shows_as_wrong_data(lazy: Machine) -> None:
    stream, side, event = lazy.stream(), lazy.stream(), lazy.event()
    first, second = lazy.device_memory(N), lazy.device_memory(N)
    lazy.cuMemsetD8Async(first, 1, N, stream)
    lazy.cuEventRecord(event, stream)
    lazy.cuMemcpyDtoDAsync(second, first, N, side)
    lazy.cuStreamSynchronize(side)
    assert not lazy.peek(second, N).any()
    lazy.cuStreamWaitEvent(side, event, 0)
    lazy.cuMemcpyDtoDAsync(second, first, N, side)
    lazy.cuStreamSynchronize(side)
    assert (lazy.peek(second, N) == 1).all()


def test_launch_blocking_makes_everything_wait() -> None:
    machine = Machine(schedule="lazy", environment={"CUDA_LAUNCH_BLOCKING": "1"})
    stream = machine.stream()
    machine.mark(stream, "done")
    assert machine.log == ["done"]


INTERRUPTED = {
    "cuMemcpyDtoH": lambda m, back, memory, _: m.cuMemcpyDtoH(back, memory, N),
    "cuMemcpyDtoHAsync": lambda m, back, memory, stream: m.cuMemcpyDtoHAsync(back, memory, N, stream),
    "cuMemcpy": lambda m, back, memory, _: m.cuMemcpy(back.ctypes.data, memory, N),
    "cuMemcpyAsync": lambda m, back, memory, stream: m.cuMemcpyAsync(back.ctypes.data, memory, N, stream),
    "from pinned": lambda m, back, _, stream: m.cuMemcpyAsync(back.ctypes.data, m.pinned(N)[0], N, stream),
    "cuMemcpyHtoD": lambda m, back, memory, _: m.cuMemcpyHtoD(memory, back, N),
    "cuMemcpy2D": lambda m, back, memory, _: m.cuMemcpy2D(_rows_to_host(back, memory)),
    "cuMemcpy2DAsync": lambda m, back, memory, stream: m.cuMemcpy2DAsync(_rows_to_host(back, memory), stream),
}


def _rows_to_host(back: np.ndarray, memory: int) -> cuda.CUDA_MEMCPY2D:
    copy = cuda.CUDA_MEMCPY2D()
    copy.WidthInBytes, copy.Height, copy.srcPitch, copy.dstPitch = 10, N // 20, 20, 20
    copy.srcMemoryType, copy.srcDevice = KINDS.CU_MEMORYTYPE_DEVICE, memory
    copy.dstMemoryType, copy.dstHost = KINDS.CU_MEMORYTYPE_HOST, back.ctypes.data
    return copy


@pytest.mark.parametrize("schedule", ["lazy", "random"])
@pytest.mark.parametrize("earlier", range(4))
@pytest.mark.parametrize("form", INTERRUPTED)
def test_an_interrupted_wait_leaves_nothing_queued_that_knows_the_hosts_memory(
    form: str, earlier: int, schedule: str
) -> None:
    """Ctrl-C at any wait of a copy: the program frees its memory, and what is still queued runs later."""
    machine = Machine(schedule=schedule)
    stream = machine.stream(0)
    memory, back = machine.device_memory(N), np.zeros(N, np.uint8)
    machine.cuMemsetD8Async(memory, 1, N, stream)
    for number in range(earlier):
        machine.mark(stream, number)

    def interrupt(_: Any) -> None:
        raise KeyboardInterrupt

    machine.driver.library_call(stream, "interrupted", interrupt)
    machine.mark(stream, "last")
    with pytest.raises(KeyboardInterrupt):
        INTERRUPTED[form](machine, back, memory, stream)
    back[:] = 9
    machine.cuCtxSynchronize()
    assert machine.log == [*range(earlier), "last"]
    assert (back == 9).all(), "the host's memory was written after the call had ended"
    assert (machine.peek(memory, N) == 1).all()
    INTERRUPTED[form](machine, back, memory, stream)
    machine.cuCtxSynchronize()
    assert form == "cuMemcpyHtoD" or (back != 9).any()


# Fills


@pytest.mark.parametrize(("bits", "value"), [(8, 0xAB), (16, 0xABCD), (32, 0x01234567)])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_fills(machine: Machine, bits: int, value: int, asynchronous: bool) -> None:
    memory = machine.device_memory(256)
    if asynchronous:
        getattr(machine, f"cuMemsetD{bits}Async")(memory + 16, value, 10, 0)
    else:
        getattr(machine, f"cuMemsetD{bits}")(memory + 16, value, 10)
    held = machine.peek(memory, 256)
    assert (held[16 : 16 + 10 * bits // 8].view(f"u{bits // 8}") == value).all()
    assert not held[:16].any()
    assert not held[16 + 10 * bits // 8 :].any()


@pytest.mark.parametrize(("bits", "value"), [(8, 0xAB), (16, 0xABCD), (32, 0x01234567)])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_fills_of_rows(machine: Machine, bits: int, value: int, asynchronous: bool) -> None:
    memory = machine.device_memory(512)
    arguments = (memory, 64, value, 5, 3)
    if asynchronous:
        getattr(machine, f"cuMemsetD2D{bits}Async")(*arguments, 0)
    else:
        getattr(machine, f"cuMemsetD2D{bits}")(*arguments)
    rows = machine.peek(memory, 512).reshape(8, 64)
    width = 5 * bits // 8
    assert (rows[:3, :width].copy().view(f"u{bits // 8}") == value).all()
    assert not rows[:3, width:].any()
    assert not rows[3:].any()


def test_fill_errors(machine: Machine) -> None:
    memory = machine.device_memory(64)
    assert machine.status("cuMemsetD32", memory + 2, 0, 1) == "INVALID_VALUE"
    assert machine.status("cuMemsetD16", memory + 1, 0, 1) == "INVALID_VALUE"
    assert machine.status("cuMemsetD8", memory, 0, 65) == "INVALID_VALUE"
    assert machine.status("cuMemsetD2D8", memory, 4, 0, 5, 2) == "INVALID_VALUE"
    assert machine.status("cuMemsetD8", memory, 0, 0) == "SUCCESS"
    with pytest.raises(OverflowError):
        machine.driver.cuMemsetD8(memory, 256, 1)


# Rectangles and boxes


@settings(max_examples=60, deadline=None)
@given(
    width=st.integers(1, 12),
    height=st.integers(1, 6),
    source=st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 3)),
    target=st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 3)),
    kinds=st.tuples(*[st.sampled_from(["device", "pinned", "pageable"])] * 2),
    asynchronous=st.booleans(),
)
def test_rectangles(
    width: int,
    height: int,
    source: tuple[int, int, int],
    target: tuple[int, int, int],
    kinds: tuple[str, str],
    asynchronous: bool,
) -> None:
    machine = Machine(schedule="lazy")
    sides, arrays, pitches = [], [], []
    for (slack, x, y), kind in zip((source, target), kinds, strict=True):
        pitch = width + x + slack
        nbytes = pitch * (height + y)
        pitches.append(pitch)
        arrays.append(numbers(len(arrays), nbytes))
        if kind == "device":
            sides.append(machine.device_memory(nbytes))
            machine.poke(sides[-1], arrays[-1])
        elif kind == "pinned":
            address, view = machine.pinned(nbytes)
            view[:] = arrays[-1]
            sides.append(address)
        else:
            sides.append(arrays[-1].ctypes.data)
    expected = arrays[1].copy().reshape(height + target[2], pitches[1])
    block = arrays[0].reshape(height + source[2], pitches[0])
    expected[target[2] :, target[1] : target[1] + width] = block[source[2] :, source[1] : source[1] + width]
    copy = cuda.CUDA_MEMCPY2D()
    copy.WidthInBytes, copy.Height = width, height
    for name, address, kind, pitch, (_, x, y) in zip(
        ("src", "dst"), sides, kinds, pitches, (source, target), strict=True
    ):
        if kind == "device":
            setattr(copy, f"{name}MemoryType", KINDS.CU_MEMORYTYPE_DEVICE)
            setattr(copy, f"{name}Device", address)
        else:
            setattr(copy, f"{name}MemoryType", KINDS.CU_MEMORYTYPE_HOST)
            setattr(copy, f"{name}Host", address)
        setattr(copy, f"{name}Pitch", pitch)
        setattr(copy, f"{name}XInBytes", x)
        setattr(copy, f"{name}Y", y)
    if asynchronous:
        machine.cuMemcpy2DAsync(copy, machine.stream())
    else:
        machine.cuMemcpy2D(copy)
    machine.cuCtxSynchronize()
    held = arrays[1] if kinds[1] == "pageable" else machine.peek(sides[1], expected.size)
    assert (held.reshape(expected.shape) == expected).all()


def test_a_box(machine: Machine) -> None:
    shape = (3, 4, 16)
    data = numbers(0, 3 * 4 * 16).reshape(shape)
    memory = machine.device_memory(5 * 6 * 32)
    copy = cuda.CUDA_MEMCPY3D()
    copy.srcMemoryType, copy.srcHost, copy.srcPitch, copy.srcHeight = (
        KINDS.CU_MEMORYTYPE_HOST,
        data.ctypes.data,
        16,
        4,
    )
    copy.dstMemoryType, copy.dstDevice, copy.dstPitch, copy.dstHeight = (
        KINDS.CU_MEMORYTYPE_DEVICE,
        memory,
        32,
        6,
    )
    copy.dstXInBytes, copy.dstY, copy.dstZ = 8, 1, 2
    copy.WidthInBytes, copy.Height, copy.Depth = 16, 4, 3
    machine.cuMemcpy3D(copy)
    held = machine.peek(memory, 5 * 6 * 32).reshape(5, 6, 32)
    expected = np.zeros_like(held)
    expected[2:, 1:5, 8:24] = data
    assert (held == expected).all()


def test_rectangle_errors(machine: Machine) -> None:
    memory = machine.device_memory(100)
    copy = cuda.CUDA_MEMCPY2D()
    copy.WidthInBytes, copy.Height = 10, 2
    assert machine.status("cuMemcpy2D", copy) == "INVALID_VALUE"
    copy.srcMemoryType = copy.dstMemoryType = KINDS.CU_MEMORYTYPE_DEVICE
    copy.srcDevice = copy.dstDevice = memory
    copy.srcPitch = 9
    assert machine.status("cuMemcpy2D", copy) == "INVALID_VALUE"
    copy.srcPitch = 91
    assert machine.status("cuMemcpy2D", copy) == "INVALID_VALUE"
    copy.srcPitch = 90
    assert machine.status("cuMemcpy2D", copy) == "SUCCESS"
    copy.srcMemoryType = KINDS.CU_MEMORYTYPE_ARRAY
    assert machine.status("cuMemcpy2D", copy) == "INVALID_HANDLE"


# Errors


def test_ranges_are_checked_at_the_call(machine: Machine) -> None:
    memory, data = machine.device_memory(64), numbers()
    address = data.ctypes.data
    assert machine.status("cuMemcpyHtoD", memory, data, 65) == "INVALID_VALUE"
    assert machine.status("cuMemcpyHtoD", memory - 1, data, 4) == "INVALID_VALUE"
    assert machine.status("cuMemcpyHtoD", address, data, 4) == "INVALID_VALUE"
    assert machine.status("cuMemcpyHtoD", memory, 16, 4) == "INVALID_VALUE"
    assert machine.status("cuMemcpyHtoD", memory, memory, 4) == "INVALID_VALUE"
    assert machine.status("cuMemcpyDtoH", data, address, 4) == "INVALID_VALUE"
    assert machine.status("cuMemcpyDtoH", memory, memory, 4) == "INVALID_VALUE"
    assert machine.status("cuMemcpyDtoD", memory, address, 4) == "INVALID_VALUE"
    assert machine.status("cuMemcpyAsync", memory, 8, 4, 0) == "INVALID_VALUE"
    assert machine.status("cuMemcpyHtoD", memory, None, 4) == "INVALID_VALUE"
    assert machine.status("cuMemcpyHtoDAsync", memory, data, 4, 12345) == "INVALID_HANDLE"
    assert machine.status("cuMemcpyHtoD", memory, data, 0) == "SUCCESS"
    machine.cuMemFree(memory)
    assert machine.status("cuMemcpyDtoH", data, memory, 4) == "INVALID_VALUE"


def test_memory_that_is_freed_while_a_copy_is_pending_is_a_fault(lazy: Machine) -> None:
    stream, memory = lazy.stream(), lazy.device_memory(64)
    host, _ = lazy.pinned(64)
    lazy.cuMemcpyHtoDAsync(memory, host, 64, stream)
    lazy.cuMemFreeHost(host)
    assert lazy.status("cuStreamSynchronize", stream) == "ILLEGAL_ADDRESS"
    report = lazy.driver.fault_report()
    assert report is not None
    assert "which is freed" in report
    assert "test_copies.py" in report


def test_labels_say_where_a_copy_goes(lazy: Machine) -> None:
    stream, memory = lazy.stream(), lazy.device_memory(64)
    host, _ = lazy.pinned(64)
    lazy.cuMemcpyHtoDAsync(memory, host, 64, stream)
    operation = lazy.driver.streams[int(stream)].last
    assert operation is not None
    assert operation.label == "copy of 64 bytes from pinned host memory to device 0"
    assert operation.stream_name.startswith("stream ")
    assert operation.stream_name.endswith("of device 0")

"""Streams: the pool, what is current per thread and device, and waits."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
import threading
from collections.abc import Callable

import numpy as np
import pytest

import drv
import tensor
from tensor import cuda
from tensor.core.devices.state import cuda_state
from tensor.core.devices.stream import POOL_SIZE, Stream

SCHEDULES = [
    {"schedule": "eager"},
    {"schedule": "lazy"},
    *({"schedule": "random", "seed": seed} for seed in range(6)),
]


def test_a_new_stream_is_the_drivers_and_non_blocking(two_devices: tuple[drv.Device, drv.Device]) -> None:
    stream = cuda.Stream()
    assert stream.native.non_blocking
    assert stream.device_index == 0
    assert str(stream.device) == "cuda:0"
    assert stream.cuda_stream == int(stream.native.handle) == int(stream.handle)
    assert stream.stream_id == stream.cuda_stream
    assert stream.__cuda_stream__() == (0, stream.cuda_stream)
    assert isinstance(stream._as_parameter_, ctypes.c_void_p)
    assert stream._as_parameter_.value == stream.cuda_stream
    assert repr(stream) == f"<tensor.cuda.Stream device=cuda:0 cuda_stream={stream.cuda_stream:#x}>"
    assert drv.Stream.from_object(stream) == stream.native
    assert stream.query()
    stream.synchronize()


@pytest.mark.parametrize("given", [1, "cuda:1", np.int64(1)])
def test_of_a_device(two_devices: tuple[drv.Device, drv.Device], given: object) -> None:
    assert cuda.Stream(given).native.device is two_devices[1]
    assert cuda.Stream(device=given).device_index == 1


@pytest.mark.parametrize("given", [None, -1, "cuda"])
def test_of_the_current_device(two_devices: tuple[drv.Device, drv.Device], given: object) -> None:
    with cuda.device(1):
        assert cuda.Stream(given).device_index == 1
        assert cuda.current_stream(given).device_index == 1
        assert cuda.default_stream(given).device_index == 1


def test_bad_devices(two_devices: tuple[drv.Device, drv.Device]) -> None:
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        cuda.Stream("cpu")
    with pytest.raises(RuntimeError, match="no device 2"):
        cuda.Stream(2)
    with pytest.raises(RuntimeError, match="Invalid device string"):
        cuda.Stream("cuda:one")
    for argument in (1.0, True, object()):
        with pytest.raises(TypeError, match="expected a device"):
            cuda.Stream(argument)


def test_the_pool_hands_out_its_streams_in_turn(two_devices: tuple[drv.Device, drv.Device]) -> None:
    taken = [cuda.Stream() for _ in range(2 * POOL_SIZE)]
    assert len(set(taken)) == POOL_SIZE
    assert taken[:POOL_SIZE] == taken[POOL_SIZE:]
    assert cuda.Stream(1) not in taken
    greatest = Stream.priority_range()[1]
    assert cuda.Stream(priority=greatest) not in taken


def test_the_pool_is_threads_safe(device: drv.Device) -> None:
    taken: list[Stream] = []
    threads = [
        threading.Thread(target=lambda: taken.extend(cuda.Stream() for _ in range(POOL_SIZE)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(taken.count, set(taken))) == [4] * POOL_SIZE


def test_streams_of_the_pool_are_never_destroyed(device: drv.Device) -> None:
    values = {cuda.Stream().cuda_stream for _ in range(POOL_SIZE)}
    gc.collect()
    for value in values:
        drv.Stream.from_handle(device, value).synchronize()


def test_priorities_are_moved_into_the_range(device: drv.Device) -> None:
    least, greatest = Stream.priority_range()
    assert greatest <= least == 0
    assert cuda.Stream().priority == 0
    assert cuda.Stream(priority=greatest).priority == greatest
    assert cuda.Stream(priority=greatest - 100).priority == greatest
    assert cuda.Stream(0, 100).priority == least
    with pytest.raises(TypeError):
        cuda.Stream(priority=0.5)


def test_equality_and_hash_are_of_the_drivers_stream(two_devices: tuple[drv.Device, drv.Device]) -> None:
    stream = cuda.Stream()
    same = cuda.ExternalStream(stream.cuda_stream)
    assert stream == same
    assert hash(stream) == hash(same)
    assert stream != cuda.Stream()
    assert stream != stream.cuda_stream
    assert cuda.default_stream(0) != cuda.default_stream(1)
    assert {stream: 1}[same] == 1


def test_external_streams(two_devices: tuple[drv.Device, drv.Device]) -> None:
    theirs = drv.Stream(two_devices[1])
    stream = cuda.ExternalStream(int(theirs.handle), device=1)
    assert stream.native == theirs
    assert isinstance(stream, cuda.Stream)
    assert stream.stream_id == int(theirs.handle)
    assert cuda.get_stream_from_external(int(theirs.handle), "cuda:1") == stream
    with cuda.stream(stream):
        assert cuda.current_stream() == stream
        assert cuda.current_device() == 1
    assert cuda.ExternalStream(0) == cuda.default_stream()
    assert cuda.default_stream().stream_id == 0
    with pytest.raises(TypeError, match="value of a cudaStream_t"):
        cuda.ExternalStream(theirs)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="-1"):
        cuda.ExternalStream(-1)


def test_the_default_stream_is_current_at_first(two_devices: tuple[drv.Device, drv.Device]) -> None:
    for ordinal in (0, 1):
        assert cuda.current_stream(ordinal) == cuda.default_stream(ordinal)
        assert cuda.default_stream(ordinal).native == two_devices[ordinal].default_stream
    assert cuda.current_stream() == cuda.default_stream(0)


def test_a_stream_context_sets_stream_and_device(two_devices: tuple[drv.Device, drv.Device]) -> None:
    here, there, inner = cuda.Stream(0), cuda.Stream(1), cuda.Stream(1)
    with cuda.stream(here):
        with cuda.stream(there):
            assert cuda.current_device() == 1
            assert cuda.current_stream() == there
            assert cuda.current_stream(0) == here
            with cuda.stream(inner), cuda.stream(None):
                assert cuda.current_stream() == inner
                assert cuda_state(1).local.stream == inner
            assert cuda.current_stream() == there
        assert cuda.current_device() == 0
        assert cuda.current_stream() == here
        assert cuda.current_stream(1) == cuda.default_stream(1)
    assert cuda.current_stream() == cuda.default_stream()


def test_a_stream_context_restores_after_exceptions(two_devices: tuple[drv.Device, drv.Device]) -> None:
    cuda.set_stream(cuda.Stream(0))
    before = cuda.current_stream()
    with pytest.raises(ZeroDivisionError), cuda.stream(cuda.Stream(1)):
        cuda.set_stream(cuda.Stream(0))
        cuda.set_device(1)
        raise ZeroDivisionError
    assert cuda.current_stream(0) == before
    assert cuda.current_stream(1) == cuda.default_stream(1)
    assert cuda.current_device() == 0


def test_contexts_can_be_entered_again(two_devices: tuple[drv.Device, drv.Device]) -> None:
    stream, other = cuda.Stream(0), cuda.Stream(1)
    again = cuda.stream(stream)
    with again, cuda.stream(other), again:
        assert cuda.current_stream() == stream
    assert cuda.current_stream() == cuda.default_stream()
    with stream as entered, other, stream:
        assert entered is stream
        assert cuda.current_stream() == stream
    assert cuda.current_stream() == cuda.default_stream()
    assert cuda.current_device() == 0


def test_a_stream_is_a_context_manager_in_several_threads(device: drv.Device) -> None:
    stream = cuda.Stream()
    entered, leave = threading.Event(), threading.Event()
    seen = []

    def work() -> None:
        with stream:
            entered.set()
            leave.wait(30)
            seen.append(cuda.current_stream())
        seen.append(cuda.current_stream())

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait(30)
    with cuda.stream(cuda.Stream()), stream:
        leave.set()
        thread.join()
        assert cuda.current_stream() == stream
    assert seen == [stream, cuda.default_stream()]
    assert cuda.current_stream() == cuda.default_stream()


def test_none_does_nothing(two_devices: tuple[drv.Device, drv.Device]) -> None:
    stream = cuda.Stream(1)
    cuda.set_stream(stream)
    cuda.set_stream(None)
    with cuda.stream(None):
        assert cuda.current_stream() == stream
        assert cuda.current_device() == 1


def test_what_is_no_stream_is_refused(device: drv.Device) -> None:
    for use in (cuda.stream, cuda.set_stream, cuda.StreamContext):
        with pytest.raises(TypeError, match=r"expects a tensor.cuda.Stream or None, got int.*ExternalStream"):
            use(0)  # type: ignore[operator]
    with pytest.raises(TypeError, match="expects a tensor.cuda.Stream, got Stream"):
        cuda.Stream().wait_stream(drv.Stream())  # type: ignore[arg-type]


def test_current_is_per_thread(two_devices: tuple[drv.Device, drv.Device]) -> None:
    ready = threading.Barrier(5)
    wrong: list[object] = []

    def work(ordinal: int) -> None:
        if cuda.current_device() != 0 or cuda.current_stream(1) != cuda.default_stream(1):
            wrong.append("a new thread starts with what another selected")
        stream = cuda.Stream(ordinal)
        cuda.set_stream(stream)
        for _ in range(20):
            ready.wait(30)
            if cuda.current_device() != ordinal or cuda.current_stream() != stream:
                wrong.append((ordinal, cuda.current_device(), cuda.current_stream()))

    threads = [threading.Thread(target=work, args=(number % 2,)) for number in range(4)]
    cuda.set_stream(cuda.Stream(1))
    for thread in threads:
        thread.start()
    for _ in range(20):
        ready.wait(30)
    for thread in threads:
        thread.join()
    assert not wrong
    assert cuda.current_device() == 1


@pytest.mark.simulator_only
def test_entering_a_dropped_stream_is_an_error(two_devices: tuple[drv.Device, drv.Device]) -> None:
    streams = cuda.Stream(0), cuda.Stream(1)
    drv.reset()
    drv.simulator.install(devices=2)
    for stream in streams:
        with pytest.raises(drv.DroppedRuntimeError), cuda.stream(stream):
            pass
        with pytest.raises(drv.DroppedRuntimeError), stream:
            pass
        with pytest.raises(drv.DroppedRuntimeError):
            cuda.set_stream(stream)
        with pytest.raises(drv.DroppedRuntimeError):
            stream.synchronize()
        assert cuda.current_stream() == cuda.default_stream()
        assert cuda.Stream(stream.device_index) != stream


@pytest.mark.simulator_only
def test_leaving_a_context_after_a_reset(two_devices: tuple[drv.Device, drv.Device]) -> None:
    with cuda.stream(cuda.Stream(1)), cuda.device(0):
        drv.reset()
        drv.simulator.install(devices=2)
    assert cuda.current_device() == 0
    assert cuda.current_stream(1) == cuda.default_stream(1)


@pytest.mark.simulator_only
@pytest.mark.parametrize("options", SCHEDULES, ids=str)
@pytest.mark.parametrize("ordinals", [(0, 0), (0, 1)], ids=str)
def test_waits_order_streams(options: dict[str, object], ordinals: tuple[int, int]) -> None:
    drv.simulator.install(devices=2, check="race", **options)
    first, second = (cuda.Stream(ordinal) for ordinal in ordinals)
    memory = [drv.DeviceMemory(4096, drv.Device(ordinal)) for ordinal in ordinals]
    host = drv.PinnedMemory(4096)
    for turn in range(1, 6):
        # A wait covers what was queued before it, each time.
        drv.memset(memory[0], turn, 4096, stream=first.native)
        second.wait_stream(first)
        drv.copy_peer(
            memory[1], second.native.device, memory[0], first.native.device, 4096, stream=second.native
        ) if ordinals[0] != ordinals[1] else drv.copy_on_device(memory[1], memory[0], stream=second.native)
        drv.copy_to_host(host, memory[1], stream=second.native)
        first.wait_event(second.record_event())
        second.synchronize()
        drv.host_access(host.address, 4096, writes=False)
        assert (host.array() == turn).all()


@pytest.mark.simulator_only
def test_a_missing_wait_is_found() -> None:
    drv.simulator.install(schedule="lazy", check="race")
    first, second = cuda.Stream(), cuda.Stream()
    memory, host = drv.DeviceMemory(64), drv.PinnedMemory(64)
    drv.memset(memory, 1, 64, stream=first.native)
    # Orders the wrong way round.
    first.wait_stream(second)
    drv.copy_to_host(host, memory, stream=second.native)
    with pytest.raises(drv.DataRaceError):
        cuda.synchronize()


def test_waiting_for_itself_does_nothing(device: drv.Device) -> None:
    stream = cuda.Stream()
    stream.wait_stream(stream)
    stream.synchronize()


@pytest.mark.parametrize("copies", [copy.copy, copy.deepcopy, pickle.dumps])
def test_streams_and_events_stay_in_their_process(
    device: drv.Device, copies: Callable[[object], object]
) -> None:
    for argument in (cuda.Stream(), cuda.Event()):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            copies(argument)


@pytest.mark.simulator_only
def test_a_lost_device_hides_no_error_and_leaves_the_others() -> None:
    drv.simulator.install(devices=2)
    with pytest.raises(ZeroDivisionError), cuda.stream(cuda.Stream(0)), cuda.stream(cuda.Stream(1)):
        drv.simulator.inject().lose_device(0)
        drv.simulator.inject().lose_device(1)
        with pytest.raises(drv.DeviceLostError):
            cuda.synchronize()
        raise ZeroDivisionError
    assert cuda.current_device() == 0
    assert cuda.current_stream() == cuda.default_stream()


def test_the_default_stream_is_number_0(two_devices: tuple[drv.Device, drv.Device]) -> None:
    default = cuda.default_stream(1)
    assert default.cuda_stream == default.stream_id == 0
    assert default._as_parameter_.value in (None, 0)
    assert default == cuda.ExternalStream(0, 1) == cuda.ExternalStream(1, 1)
    # Other libraries are told the number that can only mean this one.
    assert default.__cuda_stream__() == (0, drv.Stream.LEGACY)
    assert drv.Stream.from_object(default, two_devices[1]) == two_devices[1].default_stream
    with cuda.device(1):
        x = tensor.ones(3, device="cuda")
        assert x.__cuda_array_interface__["stream"] == drv.Stream.LEGACY
        tensor.from_dlpack(x).add_(1)
    assert x.tolist() == [2, 2, 2]

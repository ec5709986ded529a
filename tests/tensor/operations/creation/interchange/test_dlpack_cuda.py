"""DLPack of CUDA and pinned memory: sharing, devices, and the hand-over between streams."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drv
import tensor
from nvrtc_kernels import dtypes
from tensor import cuda, from_dlpack
from tensor.operations.creation.interchange.dlpack import DLDeviceType

from .test_dlpack import ALL, Old, numbers, views


@ALL
def test_cuda_memory_is_shared(device: drv.Device, kind: dtypes.dtype) -> None:
    for argument in views(numbers(kind, 4, 6).cuda()):
        assert argument.__dlpack_device__() == (DLDeviceType.kDLCUDA, 0)
        for version in (None, (1, 0)):
            result = from_dlpack(argument.__dlpack__(max_version=version))
            assert result.dtype is kind
            assert result.device == argument.device
            assert result.shape == argument.shape
            assert result.tolist() == argument.tolist()
            assert result.data_ptr() == argument.data_ptr()
    whole = numbers(kind, 3).cuda()
    from_dlpack(whole[1:]).fill_(0)
    assert whole.tolist() == [0, 0, 0]


def test_devices_by_index(two_devices: tuple[drv.Device, drv.Device]) -> None:
    argument = tensor.arange(3, device="cuda:1")
    assert argument.__dlpack_device__() == (2, 1)
    result = from_dlpack(argument)
    assert result.device == tensor.device("cuda:1")
    assert result.tolist() == [0, 1, 2]
    moved = from_dlpack(argument, device="cuda:0")
    assert moved.device == tensor.device("cuda:0")
    assert moved.tolist() == [0, 1, 2]
    with pytest.raises(
        ValueError, match="cannot move DLPack tensor from device cuda:1 to cpu without copying"
    ):
        from_dlpack(argument, device="cpu", copy=False)
    with pytest.raises(ValueError, match=r"cannot move \(i.e. copy=False\) tensor from cuda:1 to cpu"):
        argument.__dlpack__(dl_device=(1, 0), copy=False)
    assert from_dlpack(argument.__dlpack__(dl_device=(2, 0))).device == tensor.device("cuda:0")
    with pytest.raises(RuntimeError, match="no device 7"):
        argument.__dlpack__(dl_device=(2, 7))


def test_numpy_and_cuda_tensors(device: drv.Device) -> None:
    argument = tensor.arange(3, device="cuda")
    with pytest.raises((RuntimeError, BufferError), match="Unsupported device"):
        np.from_dlpack(argument)
    assert np.from_dlpack(argument, device="cpu").tolist() == [0, 1, 2]
    assert argument.tolist() == [0, 1, 2]


@pytest.mark.parity
def test_pinned_memory(device: drv.Device) -> None:
    argument = tensor.arange(4.0).pin_memory()
    assert argument.__dlpack_device__() == (DLDeviceType.kDLCUDAHost, 0)
    result = np.from_dlpack(argument)
    assert result.ctypes.data == argument.data_ptr()
    assert from_dlpack(argument).data_ptr() == argument.data_ptr()
    assert from_dlpack(argument.__dlpack__(dl_device=(3, 0))).data_ptr() == argument.data_ptr()
    assert from_dlpack(argument.__dlpack__(dl_device=(1, 0))).data_ptr() == argument.data_ptr()
    del argument
    assert result.tolist() == [0, 1, 2, 3]
    pageable = tensor.arange(3)
    assert from_dlpack(pageable.__dlpack__(dl_device=(3, 0))).tolist() == [0, 1, 2]
    torch = pytest.importorskip("torch")
    assert torch.from_dlpack(tensor.arange(4.0).pin_memory()).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("stream", [0, -2])
def test_numbers_that_are_no_stream(device: drv.Device, stream: int) -> None:
    with pytest.raises(ValueError, match=f"{stream} is no stream: pass 1 for the legacy default stream"):
        tensor.ones(1, device="cuda").__dlpack__(stream=stream)


def test_from_dlpack_names_its_stream(device: drv.Device) -> None:
    old = Old(tensor.ones(3, device="cuda"))
    from_dlpack(old)
    with cuda.stream(cuda.Stream()) as _:
        from_dlpack(old)
        side = cuda.current_stream().cuda_stream
    assert old.streams == [1, side]


RACES = pytest.mark.simulator_only
N = 4096


def hand_over(consumer: cuda.Stream, stream: int | None, version: Any = None) -> bool:
    """Write on the current stream, hand the memory to ``stream``, and read and write it on ``consumer``."""
    argument = tensor.zeros(N, device="cuda")
    argument.fill_(3)
    capsule = argument.__dlpack__(stream=stream, max_version=version)
    with cuda.stream(consumer):
        result = from_dlpack(capsule)
        doubled = result + result
        result.fill_(0)
    cuda.synchronize()
    return doubled.tolist() == [6.0] * N


@RACES
@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_hand_over_is_ordered(version: Any) -> None:
    drv.simulator.install(schedule="lazy", check="race")
    consumer = cuda.Stream()
    assert hand_over(consumer, consumer.cuda_stream, version)
    with cuda.stream(cuda.Stream()):
        assert hand_over(cuda.default_stream(), None, version)
        assert hand_over(cuda.default_stream(), 1, version)
        assert hand_over(cuda.ExternalStream(2), 2, version)
        assert hand_over(consumer, consumer.cuda_stream, version)
        assert hand_over(cuda.current_stream(), cuda.current_stream().cuda_stream, version)
        assert hand_over(cuda.current_stream(), -1, version)


@RACES
@pytest.mark.parametrize("stream", [-1, None])
def test_a_hand_over_without_a_wait_is_found(stream: int | None) -> None:
    drv.simulator.install(schedule="lazy", check="race")
    with cuda.stream(cuda.Stream()), pytest.raises(drv.DataRaceError):
        # The wait is missing, or it is another stream's.
        hand_over(cuda.Stream(), stream)


@RACES
def test_taking_an_array_waits_for_its_producer() -> None:
    drv.simulator.install(schedule="lazy", check="race")
    with cuda.stream(cuda.Stream()):
        argument = tensor.zeros(N, device="cuda")
        argument.fill_(5)

        class Producer(Old):
            def __dlpack__(self, stream: Any = None) -> Any:
                with cuda.stream(cuda.ExternalStream(side)):
                    return self.array.__dlpack__(stream=stream)

        side = cuda.current_stream().cuda_stream
    with cuda.stream(cuda.Stream()):
        result = from_dlpack(Producer(argument))
        assert (result + 1).tolist() == [6.0] * N


@RACES
def test_memory_is_not_used_again_before_its_consumer_is_done() -> None:
    drv.simulator.install(schedule="lazy", check="race")
    argument = tensor.full((N,), 1.0, device="cuda")
    address = argument.data_ptr()
    with cuda.stream(cuda.Stream()):
        result = from_dlpack(argument)
        cuda.current_stream().wait_stream(cuda.default_stream())
        doubled = result + result
        del argument, result
    other = tensor.full((N,), 7.0, device="cuda")
    assert other.data_ptr() != address
    cuda.synchronize()
    assert doubled.tolist() == [2.0] * N
    with cuda.stream(cuda.Stream()):
        argument = tensor.full((N,), 1.0, device="cuda")
        side, address = cuda.current_stream(), argument.data_ptr()
        capsule = argument.__dlpack__(stream=1)
    result = from_dlpack(capsule)
    doubled = result + result
    del argument, result, capsule
    with cuda.stream(side):
        other = tensor.full((N,), 7.0, device="cuda")
        assert other.data_ptr() != address
    cuda.synchronize()
    assert doubled.tolist() == [2.0] * N


def test_misaligned_memory_is_refused(device: drv.Device) -> None:
    from tensor.operations.creation.interchange.dlpack import capsule_of

    memory = drv.DeviceMemory(64)
    capsule = capsule_of(memory, memory.address + 2, (3,), (1,), tensor.float32, (2, 0))
    with pytest.raises(BufferError, match="not aligned to their 4 bytes"):
        from_dlpack(capsule)
    assert '"dltensor_versioned"' in repr(capsule)
    result = from_dlpack(capsule_of(memory, memory.address + 2, (3,), (1,), tensor.int16, (2, 0)))
    assert result.data_ptr() == memory.address + 2


@RACES
def test_a_hand_over_on_a_device_that_is_not_current() -> None:
    drv.simulator.install(devices=2, schedule="lazy", check="race")
    with cuda.stream(cuda.Stream(1)):
        producer, consumer = cuda.current_stream(), cuda.Stream(1)
        argument = tensor.zeros(N, device="cuda:1").fill_(3)
        with cuda.device(0):
            assert cuda.current_stream(1) == producer
            capsule = argument.__dlpack__(stream=consumer.cuda_stream)
            with cuda.stream(consumer):
                assert (from_dlpack(capsule) + 1).tolist() == [4.0] * N
            assert cuda.current_device() == 0
    cuda.synchronize(1)

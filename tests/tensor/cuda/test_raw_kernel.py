"""Kernels that users write, on tensors."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import drv
import tensor
from tensor import Tensor, cuda

SCALE = cuda.RawKernel(
    """
    __global__ void scale(float* out, const float* in, float factor, int n)
    {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) out[i] = in[i] * factor;
    }
    """,
    "scale",
)
FILL = cuda.RawKernel(
    "template <typename T> __global__ void fill(T* out, T value) { out[threadIdx.x] = value; }",
    "fill<float>",
)
N = 32


def make(where: str, *, pin_memory: bool = False) -> Tensor:
    return tensor.empty(N, device=where, pin_memory=pin_memory)


def scale(out: Any, source: Any, factor: float, stream: Any = None) -> None:
    SCALE(1, N, (out, source, np.float32(factor), np.int32(N)), stream=stream)


def values(source: Any, stream: cuda.Stream | None = None) -> list[float]:
    """The elements, copied on ``stream`` behind what it holds."""
    stream = stream or cuda.current_stream(source.device)
    result = np.empty(N, np.float32)
    drv.copy_to_host(result, source.data_ptr(), result.nbytes, stream=stream.native)
    stream.synchronize()
    return sorted(set(result.tolist()))


def test_tensors_and_scalars(two_devices: tuple[drv.Device, drv.Device]) -> None:
    a, b = make("cuda"), make("cuda")
    FILL(1, N, (a, np.float32(3)))
    scale(b, a, 2)
    assert values(b) == [6.0]


def test_a_view_passes_its_first_element(device: drv.Device) -> None:
    a = make("cuda")
    FILL(1, N, (a, np.float32(1)))
    FILL(1, N - 8, (a[8:], np.float32(2)))
    assert values(a) == [1.0, 2.0]
    FILL(1, 8, (a, np.float32(2)))
    assert values(a) == [2.0]


@pytest.mark.parametrize(
    "options", [{"schedule": "lazy"}, *({"schedule": "random", "seed": s} for s in range(4))]
)
@pytest.mark.simulator_only
def test_the_current_stream_is_the_default(options: dict[str, Any]) -> None:
    drv.simulator.install(devices=2, check="race", **options)
    side = cuda.Stream(1)
    with cuda.stream(side):
        a, b = make("cuda"), make("cuda")
        FILL(1, N, (a, np.float32(3)))
        scale(b, a, 2)
        # The memory's blocks belong to the stream that was current.
        assert a._storage.block.stream == side.cuda_stream
    assert values(b, side) == [6.0]
    cuda.synchronize(1)


@pytest.mark.simulator_only
def test_a_kernel_on_another_stream_races() -> None:
    drv.simulator.install(schedule="lazy", check="race")
    a, b = make("cuda"), make("cuda")
    FILL(1, N, (a, np.float32(3)))
    side = cuda.Stream()
    scale(b, a, 2, stream=side)
    with pytest.raises(drv.DataRaceError):
        cuda.synchronize()


def test_a_given_stream_also_sets_the_device(two_devices: tuple[drv.Device, drv.Device]) -> None:
    a = make("cuda:1")
    native = drv.Stream(two_devices[1])

    class Foreign:
        def __cuda_stream__(self) -> tuple[int, int]:
            return native.__cuda_stream__()

    for number, stream in enumerate((cuda.Stream(1), native, Foreign(), cuda.default_stream(1))):
        FILL(1, N, (a, np.float32(number)), stream=stream)
        cuda.synchronize(1)
        assert values(a) == [number]
    assert cuda.current_device() == 0
    with pytest.raises(ValueError, match="no __cuda_stream__"):
        FILL(1, N, (a, np.float32(1)), stream="side")


def test_a_tensor_on_another_device_is_an_error(two_devices: tuple[drv.Device, drv.Device]) -> None:
    here, there = make("cuda:0"), make("cuda:1")
    with pytest.raises(
        RuntimeError,
        match=r"argument 1 of kernel 'scale'.*cuda:1.*runs on cuda:0.*enable_peer_access\(1, 0\)",
    ):
        scale(here, there, 1)
    with cuda.device(1), pytest.raises(RuntimeError, match=r"argument 0 .*cuda:0.*runs on cuda:1"):
        scale(here, there, 1)


def test_with_peer_access_it_is_not(two_devices: tuple[drv.Device, drv.Device]) -> None:
    if not cuda.can_device_access_peer(0, 1):
        pytest.skip("needs peer access")
    here, there = make("cuda:0"), make("cuda:1")
    with cuda.device(1):
        FILL(1, N, (there, np.float32(5)))
    cuda.enable_peer_access(1)
    cuda.current_stream().wait_stream(cuda.current_stream(1))
    scale(here, there, 2)
    assert values(here) == [10.0]
    with cuda.device(1), pytest.raises(RuntimeError, match="cuda:1"):
        scale(here, there, 1)
    cuda.disable_peer_access(1)
    with pytest.raises(RuntimeError, match="cuda:1"):
        scale(here, there, 1)


@pytest.mark.simulator_only
def test_peer_access_covers_expandable_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHROOT_CUDA_ALLOC_CONF", "expandable_segments:True")
    drv.simulator.install(devices=2, check="race")
    early = make("cuda:1")
    cuda.enable_peer_access(1)
    late = tensor.empty(8 << 20, device="cuda:1")
    cuda.current_stream().wait_stream(cuda.current_stream(1))
    for there in (early, late):
        FILL(1, N, (there, np.float32(5)))
    cuda.synchronize()


def test_pageable_memory_is_an_error(device: drv.Device) -> None:
    with pytest.raises(
        RuntimeError, match=r"argument 1 of kernel 'scale' is a tensor on cpu.*pin_memory\(\)"
    ):
        scale(make("cuda"), make("cpu"), 1)


def test_pinned_memory_is_not(device: drv.Device) -> None:
    pinned, out = make("cpu", pin_memory=True), make("cuda")
    pinned.fill_(4)
    scale(out, pinned, 2)
    assert values(out) == [8.0]


@pytest.mark.simulator_only
def test_pinned_memory_is_not_reused_before_the_kernel_is_done() -> None:
    drv.simulator.install(schedule="lazy", check="race")
    with cuda.stream(cuda.Stream()):
        pinned, out = make("cpu", pin_memory=True), make("cuda")
        pinned.fill_(4)
        address = pinned.data_ptr()
        scale(out, pinned, 2)
        del pinned
        other = make("cpu", pin_memory=True)
        assert other.data_ptr() != address
        assert values(out) == [8.0]
        assert make("cpu", pin_memory=True).data_ptr() == address


def test_arguments_that_do_not_fit(device: drv.Device) -> None:
    a = make("cuda")
    with pytest.raises(ValueError, match=r"argument 2 of kernel .* takes 4 bytes"):
        SCALE(1, N, (a, a, 2.0, np.int32(N)))
    with pytest.raises(ValueError, match=r"argument 2 of kernel .* an address"):
        SCALE(1, N, (a, a, a, np.int32(N)))
    with pytest.raises(ValueError, match="takes 4 arguments"):
        SCALE(1, N, (a, a))
    with pytest.raises(ValueError, match="on the host"):
        SCALE(1, N, (a, np.ones(N, np.float32), np.float32(1), np.int32(N)))
    cuda.synchronize()


def test_the_function_of_a_device(two_devices: tuple[drv.Device, drv.Device]) -> None:
    assert SCALE.function().device is two_devices[0]
    for argument in (1, "cuda:1", tensor.device("cuda:1"), two_devices[1]):
        assert SCALE.function(argument).device is two_devices[1]
    with cuda.device(1):
        assert SCALE.function().device is two_devices[1]


def test_threads_launch_on_their_own_streams(two_devices: tuple[drv.Device, drv.Device]) -> None:
    result: dict[int, list[float]] = {}

    def work(number: int) -> None:
        with cuda.stream(cuda.Stream(number % 2)):
            a, b = make("cuda"), make("cuda")
            for _ in range(5):
                FILL(1, N, (a, np.float32(number)))
                scale(b, a, 2)
            result[number] = values(b)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert result == {number: [2.0 * number] for number in range(4)}


@pytest.mark.simulator_only
def test_a_tensor_of_a_dropped_runtime() -> None:
    drv.simulator.install()
    old = make("cuda")
    drv.reset()
    drv.simulator.install()
    with pytest.raises(drv.DroppedRuntimeError, match="argument 0 of kernel"):
        FILL(1, N, (old, np.float32(1)))
    FILL(1, N, (make("cuda"), np.float32(1)))
    cuda.synchronize()

"""Kernels that users write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import drv
from nvrtc_kernels import RawKernel

if TYPE_CHECKING:
    from pathlib import Path

ADD = """
template <class T> __global__ void add(const T* a, const T* b, T* c, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) c[i] = a[i] + b[i];
}
"""


def on_device(array: np.ndarray, device: drv.Device) -> drv.DeviceMemory:
    memory = drv.DeviceMemory(array.nbytes, device)
    drv.copy_to_device(memory, array)
    return memory


def read(memory: drv.DeviceMemory, dtype: str) -> np.ndarray:
    result = np.zeros(memory.nbytes // np.dtype(dtype).itemsize, dtype)
    drv.copy_to_host(result, memory)
    return result


@pytest.mark.parametrize("dtype", ["float", "double", "int"])
def test_templates(device: drv.Device, dtype: str) -> None:
    element_dtype = {"float": "f4", "double": "f8", "int": "i4"}[dtype]
    numbers = np.arange(1000).astype(element_dtype)
    a, b, c = (
        on_device(numbers, device),
        on_device(3 * numbers, device),
        drv.DeviceMemory(numbers.nbytes, device),
    )
    RawKernel(ADD, f"add<{dtype}>")((2,), (128,), (a, b, c, np.int32(1000)))
    assert (read(c, element_dtype) == 4 * numbers).all()


@pytest.mark.parametrize("prefix", ['extern "C" ', ""])
def test_plain_functions_and_c_functions(device: drv.Device, prefix: str) -> None:
    kernel = RawKernel(
        prefix + "__global__ void set(long long* x, double y, bool z) { *x = z ? y : -1; }", "set"
    )
    memory = drv.DeviceMemory(8, device)
    kernel(1, 1, (memory, 5.0, True))
    assert read(memory, "i8")[0] == 5
    kernel(1, 1, (memory.address, 6.0, np.bool_(True)))
    assert read(memory, "i8")[0] == 6


@pytest.mark.parametrize("name", ["all", "any", "isnan", "signbit", "ballot", "clock"])
def test_c_functions_may_have_the_names_of_cudas_own(device: drv.Device, name: str) -> None:
    memory = drv.DeviceMemory(4, device)
    RawKernel(f'extern "C" __global__ void __launch_bounds__(32) {name}(int* x) {{ *x = 7; }}', name)(
        1, 1, (memory,)
    )
    assert read(memory, "i4")[0] == 7


@pytest.mark.parametrize("name", ["all", "clock", "after"])
def test_c_functions_in_a_block_may_too(device: drv.Device, name: str) -> None:
    code = """
        extern "C" {
        __device__ int seven() { if (true) { return 7; } return 0; }
        __global__ void all(int* x) { *x = seven(); }
        __global__ void clock(int* x) { *x = seven(); }
        }
        __global__ void after(int* x) { *x = seven(); }
    """
    memory = drv.DeviceMemory(4, device)
    RawKernel(code, name)(1, 1, (memory,))
    assert read(memory, "i4")[0] == 7


def test_cpp_kernels_beside_c_functions(device: drv.Device) -> None:
    code = 'extern "C" __device__ int seven(); __device__ int seven() { return 7; } __global__ void call(int* x) { *x = seven(); }'
    memory = drv.DeviceMemory(4, device)
    RawKernel(code, "call")(1, 1, (memory,))
    assert read(memory, "i4")[0] == 7


def test_options_headers_and_directories(device: drv.Device, tmp_path: Path) -> None:
    (tmp_path / "b.h").write_text("#define B 20\n", encoding="utf-8")
    source = '#include "a.h"\n#include "b.h"\n__global__ void set(int* x) { *x = A + B + C; }'
    kernel = RawKernel(
        source, "set", ("-DC=3",), headers={"a.h": "#define A 100\n"}, include_dirs=[str(tmp_path)]
    )
    memory = drv.DeviceMemory(4, device)
    kernel(1, 1, (memory,))
    assert read(memory, "i4")[0] == 123


def test_streams_choose_the_device(two_devices: tuple[drv.Device, drv.Device]) -> None:
    class Foreign:
        def __init__(self, stream: drv.Stream) -> None:
            self.stream = stream

        def __cuda_stream__(self) -> tuple[int, int]:
            return self.stream.__cuda_stream__()

    kernel = RawKernel("__global__ void set(int* x, int v) { *x = v; }", "set")
    for device in two_devices:
        memory, stream = drv.DeviceMemory(4, device), drv.Stream(device)
        kernel(1, 1, (memory, np.int32(7)), stream=stream)
        stream.synchronize()
        assert read(memory, "i4")[0] == 7
        kernel(1, 1, (memory, np.int32(8)), 0, Foreign(stream))
        stream.synchronize()
        assert read(memory, "i4")[0] == 8
        assert kernel.function(device).device is device
    two_devices[1].set_current()
    memory = drv.DeviceMemory(4)
    kernel(1, 1, (memory, np.int32(9)))
    assert read(memory, "i4")[0] == 9
    two_devices[0].set_current()


def test_more_shared_memory_than_usual(device: drv.Device) -> None:
    kernel = RawKernel(
        "__global__ void last(int* x) { extern __shared__ int s[]; s[20000] = 5; __syncthreads(); *x = s[20000]; }",
        "last",
    )
    memory = drv.DeviceMemory(4, device)
    kernel(1, 1, (memory,), shared_mem=80_004)
    assert read(memory, "i4")[0] == 5
    with pytest.raises(drv.InvalidValueError, match="MAX_DYNAMIC_SHARED"):
        kernel(1, 1, (memory,), shared_mem=1 << 30)


def test_wrong_arguments_are_named(device: drv.Device) -> None:
    kernel = RawKernel(ADD, "add<float>")
    memory = drv.DeviceMemory(4, device)
    with pytest.raises(
        drv.InvalidValueError, match=r"argument 3 .* a Python int is 64 bits wide, pass numpy\.int32"
    ):
        kernel(1, 1, (memory, memory, memory, 1))
    with pytest.raises(drv.InvalidValueError, match="takes 4 arguments, 3 were given"):
        kernel(1, 1, (memory, memory, memory))
    with pytest.raises(drv.InvalidValueError, match=r"argument 0 .* ndarray of shape \(4,\) on the host"):
        kernel(1, 1, (np.zeros(4, np.float32), memory, memory, np.int32(1)))


def test_making_one_compiles_nothing() -> None:
    kernel = RawKernel("this is no CUDA", "nothing<int>")
    assert repr(kernel) == "RawKernel('nothing<int>')"
    assert not drv.is_initialized() or not drv.runtime().simulated


def test_compile_errors_quote_the_source(device: drv.Device) -> None:
    with pytest.raises(drv.CompileError, match=r"broken\.cu:1: __global__ void broken\(\) \{ oops; \}"):
        RawKernel("__global__ void broken() { oops; }", "broken")(1, 1, ())


@pytest.mark.simulator_only
def test_a_kernel_outlives_the_runtime() -> None:
    kernel = RawKernel("__global__ void set(int* x) { *x = 3; }", "set")
    for schedule in ("eager", "lazy"):
        with drv.simulator.installed(schedule=schedule):
            memory = drv.DeviceMemory(4)
            kernel(1, 1, (memory,))
            assert read(memory, "i4")[0] == 3


@pytest.mark.simulator_only
def test_reports_quote_the_line_of_the_source(device: drv.Device) -> None:
    kernel = RawKernel("__global__ void far(int* x)\n{\n    x[1 << 20] = 3;\n}", "far")
    kernel(1, 1, (drv.DeviceMemory(4, device),))
    with pytest.raises(drv.IllegalAddressError, match=r"far\.cu:3"):
        device.synchronize()

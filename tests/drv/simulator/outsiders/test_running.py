"""One kernel on NumPy arrays: ``drv.simulator.run``."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import drv
from drv.simulator import run

SCALE = "__global__ void scale(float* x, float a, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= a; }"
#: Every thread reads its neighbour's element with no barrier after the writes.
SHIFT = """
__global__ void shift(int* x) {
    __shared__ int tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = tile[(threadIdx.x + 1) % 64];
}
"""


def test_results_are_written_back_into_the_arrays() -> None:
    x = np.arange(1000, dtype=np.float32)
    assert run(SCALE, "scale", 4, 256, [x, 2, 1000]) == ()
    assert np.array_equal(x, np.arange(1000) * 2)


def test_ptx_runs_as_well_as_cuda() -> None:
    program = drv.compile_program(f'extern "C" {SCALE}', "compute_90")
    for image in (program.image, program.image.decode()):
        x = np.ones(8, np.float32)
        run(image, "scale", 1, 8, (x, 0.5, 8))
        assert x.tolist() == [0.5] * 8


def test_templates_namespaces_and_compile_options() -> None:
    source = "namespace a { template <class T> __global__ void fill(T* x) { x[threadIdx.x] = VALUE; } }"
    x = np.zeros(4, np.int16)
    run(source, "a::fill<short>", 1, 4, [x], compile_options=["-DVALUE=7"])
    assert x.tolist() == [7] * 4


def test_views_are_copied_there_and_back() -> None:
    x = np.zeros((4, 6), np.float32)
    x[:, ::2] = 1
    run(SCALE, "scale", 1, 32, [x[:, ::2], 3, 12])
    assert np.array_equal(x, [[3, 0, 3, 0, 3, 0]] * 4)


def test_one_array_twice_is_the_same_memory() -> None:
    x = np.arange(8, dtype=np.int32)
    source = "__global__ void add(const int* a, int* b) { b[threadIdx.x] += a[threadIdx.x]; }"
    run(source, "add", 1, 8, [x, x])
    assert np.array_equal(x, np.arange(8) * 2)


def test_what_is_read_only_stays_as_it_is() -> None:
    x = np.ones(4, np.float32)
    x.flags.writeable = False
    run(SCALE, "scale", 1, 4, [x, 2, 4])
    assert x.tolist() == [1] * 4


def test_values_of_every_type() -> None:
    class Pair(ctypes.Structure):
        _fields_ = (("first", ctypes.c_int), ("second", ctypes.c_double))

    source = """
    struct pair { int first; double second; };
    extern "C" __global__ void all(double* out, bool yes, signed char small, unsigned long long big, double real,
                                   pair two, float* none, float single, short half, unsigned int word) {
        double values[] = {double(yes), double(small), double(big), real, double(two.first), two.second,
                           double(none == 0), double(single), double(half), double(word)};
        for (int i = 0; i < 10; i++) out[i] = values[i];
    }
    """
    out = np.zeros(10)
    two = Pair(3, 4.5)
    run(source, "all", 1, 1, [out, True, -3, 2**63, 1, two, None, 1, np.int16(-9), 2**32 - 1])
    assert out.tolist() == [1, -3, 2.0**63, 1, 3, 4.5, 1, 1, -9, 2.0**32 - 1]
    record = np.array((5, 0, 6.5), [("first", "i4"), ("gap", "i4"), ("second", "f8")])[()]
    run(source, "all", 1, 1, [out, False, 0, 0, 0.5, record, None, 0.25, 1, ctypes.c_uint(7)])
    assert out.tolist() == [0, 0, 0, 0.5, 5, 6.5, 1, 0.25, 1, 7]


def test_a_race_is_raised_and_nothing_is_written() -> None:
    x = np.arange(64, dtype=np.int32)
    with pytest.raises(drv.DataRaceError, match=r"kernel\.cu:5"):
        run(SHIFT, "shift", 1, 64, [x])
    assert np.array_equal(x, np.arange(64))


def test_findings_are_collected_on_demand() -> None:
    x = np.arange(64, dtype=np.int32)
    findings = run(SHIFT, "shift", 1, 64, [x], collect=True)
    assert [str(each.kind) for each in findings] == ["shared race"]
    assert run(SHIFT, "shift", 1, 64, [x], check="race") == ()


def test_an_address_outside_the_array_stops_the_kernel() -> None:
    x = np.ones(8, np.float32)
    with pytest.raises(drv.IllegalAddressError, match=r"scale.*outside any allocation"):
        run(SCALE, "scale", 1, 32, [x, 2, 9])
    assert x.tolist() == [1] * 8
    with pytest.raises(drv.IllegalAddressError):
        run(SCALE, "scale", 1, 1, [np.ones(0, np.float32), 2, 1])


def test_dynamic_shared_memory_beyond_the_usual() -> None:
    source = """
    extern "C" __global__ void last(int* x, int n) {
        extern __shared__ int tile[];
        tile[n - 1] = 5;
        *x = tile[n - 1];
    }
    """
    x = np.zeros(1, np.int32)
    run(source, "last", 1, 1, [x, 20_000], shared=80_000)
    assert x[0] == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([1.5], "has 3 parameters, 1 arguments were given"),
        ([np.ones(4, np.float32), np.float64(2), 4], r"argument 1 .* is float64 of 8 bytes.*4 bytes, \.f32"),
        ([np.ones(4, np.float32), "2", 4], "argument 1 .* is of class str"),
        ([np.ones(4, np.float32), 2, 2**32], "argument 2 .* does not fit into 4 bytes"),
        ([np.ones(4, np.float32), 2, 1.5], r"argument 2 .* is 1\.5: the kernel expects 4 bytes"),
        ([np.ones(4, np.float32), 1e39, 4], "argument 1 .* does not fit into 4 bytes of floating point"),
        (
            [np.ones(4, np.float32), np.ones(1), 4],
            "argument 1 .* is an array, and the parameter is no pointer",
        ),
        ([np.ones(4, ">f4"), 2, 4], "argument 0 .* dtype >f4"),
        ([np.array([None]), 2, 4], "argument 0 .* dtype object"),
    ],
)
def test_arguments_that_do_not_fit(arguments: list[Any], message: str) -> None:
    with pytest.raises(drv.InvalidValueError, match=message):
        run(SCALE, "scale", 1, 4, arguments)


def test_arrays_that_overlap() -> None:
    x = np.arange(8, dtype=np.int32)
    source = "__global__ void add(const int* a, int* b) { b[threadIdx.x] += a[threadIdx.x]; }"
    with pytest.raises(drv.InvalidValueError, match="argument 1 .* shares memory with argument 0"):
        run(source, "add", 1, 4, [x[:4], x[2:]])


def test_options_names_and_sources_that_are_wrong() -> None:
    x = np.ones(4, np.float32)
    with pytest.raises(drv.InvalidValueError, match="chek"):
        run(SCALE, "scale", 1, 4, [x, 2, 4], chek="full")
    with pytest.raises(drv.CompileError):
        run(SCALE, "other", 1, 4, [x, 2, 4])
    with pytest.raises(drv.NotFoundError):
        run(drv.compile_program(SCALE, "compute_90").image, "other", 1, 4, [x, 2, 4])
    with pytest.raises(drv.InvalidValueError):
        run(SCALE, "scale", 1, 4096, [x, 2, 4])


def test_a_driver_in_use_is_not_touched() -> None:
    with drv.simulator.installed() as runtime:
        memory = drv.DeviceMemory(16)
        x = np.ones(4, np.float32)
        run(SCALE, "scale", 1, 4, [x, 2, 4])
        assert drv.runtime() is runtime
        drv.memset(memory, 1, 16)
        result = np.zeros(4, np.int32)
        drv.copy_to_host(result, memory)
        assert result.tolist() == [0x01010101] * 4


def test_no_driver_is_chosen() -> None:
    assert not drv.is_initialized()
    run(SCALE, "scale", 1, 1, [np.ones(1, np.float32), 2, 1])
    assert not drv.is_initialized()

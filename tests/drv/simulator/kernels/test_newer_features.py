"""Features of newer devices and toolkits: those that run, and those that stop with a report."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import drv
from tests.drv.simulator.kernels.conftest import Launch

SOURCE = r"""
#include <cuComplex.h>
#include <cuda_fp8.h>
#include <cuda_pipeline.h>

extern "C" __global__ void pipeline(const float4* in, float4* out) {
    __shared__ float4 stages[2][32];
    for (int stage = 0; stage < 2; ++stage) {
        __pipeline_memcpy_async(&stages[stage][threadIdx.x], in + stage * 32 + threadIdx.x, sizeof(float4));
        __pipeline_commit();
    }
    __pipeline_wait_prior(1);
    __syncthreads();
    out[threadIdx.x] = stages[0][31 - threadIdx.x];
    __pipeline_wait_prior(0);
    __syncthreads();
    out[32 + threadIdx.x] = stages[1][31 - threadIdx.x];
}

extern "C" __global__ void eighths(const float* in, __nv_fp8_e4m3* fine, __nv_fp8_e5m2* coarse, float* back, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    fine[i] = __nv_fp8_e4m3(in[i]);
    coarse[i] = __nv_fp8_e5m2(in[i]);
    back[i] = (float)fine[i];
    back[n + i] = (float)coarse[i];
}

extern "C" __global__ void complex_numbers(cuDoubleComplex* z, cuFloatComplex* w) {
    int i = threadIdx.x;
    z[i] = cuCdiv(cuCmul(z[i], z[i]), make_cuDoubleComplex(1, 2));
    w[i] = cuCaddf(cuConjf(w[i]), make_cuFloatComplex(cuCabsf(w[i]), 0));
}

struct Table { int values[40]; };
__device__ __noinline__ int look_up(const int* p, int i) { return p[i]; }
extern "C" __global__ void grid_constant(const __grid_constant__ Table table, int* out) {
    out[threadIdx.x] = look_up(table.values, 39 - threadIdx.x);
}

extern "C" __global__ void static_variable(int* out) {
    static __device__ int calls = 3;
    out[threadIdx.x] = atomicAdd(&calls, 2);
}

__managed__ int shared_with_the_host = 5;
extern "C" __global__ void managed(int* out) { *out = shared_with_the_host++; }

extern "C" __global__ void warp_extras(int* out) {
    unsigned elected;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
    out[2 * threadIdx.x] = elected;
    out[2 * threadIdx.x + 1] = __fns(0x0000f0f0, threadIdx.x % 16, 2);
    asm volatile("griddepcontrol.wait;");
    asm volatile("griddepcontrol.launch_dependents;");
}
"""

# One instruction each that a simulated device does not have.
UNKNOWN = {
    "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32": r"""
extern "C" __global__ void outlandish(float* out) {
    float d0, d1, d2, d3;
    if (threadIdx.x < 64) asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %4}, {%4, %4}, {%5, %5, %5, %5}, %4, 0x0;"
        : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3) : "r"(0), "f"(0.0f));
    out[threadIdx.x] = d0 + d1 + d2 + d3;
}""",
    "tex.2dms.v4.f32.s32": r"""
extern "C" __global__ void outlandish(float* out) {
    float x, y, z, w;
    asm volatile("tex.2dms.v4.f32.s32 {%0, %1, %2, %3}, [%4, {%5, %5, %5, %5}];"
        : "=f"(x), "=f"(y), "=f"(z), "=f"(w) : "l"(out), "r"(threadIdx.x));
    out[threadIdx.x] = x + y + z + w;
}""",
}


def test_asynchronous_pipeline(launch: Launch) -> None:
    values = np.random.default_rng(0).standard_normal((2, 32, 4)).astype(np.float32)
    out = np.zeros_like(values)
    launch(SOURCE, 1, 32, values, out, name="pipeline")
    np.testing.assert_array_equal(out, values[:, ::-1])


def test_numbers_of_8_bits(launch: Launch) -> None:
    random = np.random.default_rng(0)
    values = np.ldexp(random.uniform(-2, 2, 2000), random.integers(-18, 18, 2000)).astype(np.float32)
    values[:6] = [0, -0.0, 448, -464, 57344, 61440]
    n = len(values)
    fine, coarse = np.zeros(n, ml_dtypes.float8_e4m3fn), np.zeros(n, ml_dtypes.float8_e5m2)
    back = np.zeros((2, n), np.float32)
    launch(SOURCE, 16, 128, values, fine, coarse, back, np.int32(n), name="eighths")
    for row, (got, largest) in enumerate(((fine, 448), (coarse, 57344))):
        # Conversions saturate.
        expected = np.clip(values, -largest, largest).astype(got.dtype)
        np.testing.assert_array_equal(got.view(np.uint8), expected.view(np.uint8))
        np.testing.assert_array_equal(back[row], expected.astype(np.float32))


def test_complex_numbers(launch: Launch) -> None:
    random = np.random.default_rng(0)
    z = random.standard_normal(50) + 1j * random.standard_normal(50)
    w = z.astype(np.complex64)
    expected = z * z / (1 + 2j), w.conj() + np.abs(w)
    launch(SOURCE, 1, 50, z, w, name="complex_numbers")
    np.testing.assert_allclose(z, expected[0], rtol=1e-14)
    np.testing.assert_allclose(w, expected[1], rtol=1e-5, atol=1e-6)


def test_grid_constant(launch: Launch) -> None:
    values = np.arange(40, dtype=np.int32) ** 2
    out = np.zeros(40, np.int32)
    launch(SOURCE, 1, 40, values.tobytes(), out, name="grid_constant")
    np.testing.assert_array_equal(out, values[::-1])


def test_static_variable_in_a_kernel(launch: Launch) -> None:
    out = np.zeros(8, np.int32)
    launch(SOURCE, 1, 8, out, name="static_variable")
    first = out.min()
    np.testing.assert_array_equal(np.sort(out), np.arange(first, first + 16, 2))


@pytest.mark.simulator_only
def test_managed_variable(launch: Launch) -> None:
    launch.upload(SOURCE, "shared_with_the_host", np.int32([5]))
    out = np.zeros(1, np.int32)
    for expected in (5, 6):
        launch(SOURCE, 1, 1, out, name="managed")
        assert out[0] == expected


def test_election_and_nth_set_bit(launch: Launch) -> None:
    out = np.zeros((64, 2), np.int32)
    launch(SOURCE, 1, 64, out, name="warp_extras")
    assert (out[:, 0].reshape(2, 32).sum(1) == 1).all()
    bits = [bit for bit in range(32) if 0xF0F0 >> bit & 1]
    expected = [[bit for bit in bits if bit >= base][1] for base in range(14)]
    assert out[:14, 1].tolist() == expected


@pytest.mark.simulator_only
@pytest.mark.parametrize("instruction", UNKNOWN)
def test_instructions_that_no_simulated_device_has(launch: Launch, instruction: str) -> None:
    out = np.zeros(64, np.float32)
    with pytest.raises(drv.IllegalInstructionError) as raised:
        launch(UNKNOWN[instruction], 1, 64, out)
    message = str(raised.value)
    assert "outlandish" in message
    assert instruction in message
    assert "PTX line" in message
    if instruction.startswith("tex"):
        assert "forms that are known: of textures .1d" in message
    if instruction.startswith("mma"):
        assert "shapes of mma that are known, by the type of the factors: f16: m8n8k4" in message

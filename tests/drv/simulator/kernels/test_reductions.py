"""Reductions: in shared memory, by warp shuffles, over a whole grid."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drv.simulator.kernels.conftest import Launch, few_examples

SOURCE = r"""
#include <math_constants.h>
extern "C" __global__ void tree_sum(const int* in, int* out, int n) {
    __shared__ int part[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? in[i] : 0;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half >>= 1) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}

extern "C" __global__ void interleaved_max(const double* in, double* out, int n) {
    extern __shared__ double values[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    values[threadIdx.x] = i < n ? in[i] : -CUDART_INF;
    __syncthreads();
    for (unsigned step = 1; step < blockDim.x; step *= 2) {
        if (threadIdx.x % (2 * step) == 0 && threadIdx.x + step < blockDim.x)
            values[threadIdx.x] = fmax(values[threadIdx.x], values[threadIdx.x + step]);
        __syncthreads();
    }
    if (!threadIdx.x) out[blockIdx.x] = values[0];
}

__inline__ __device__ float warp_sum(float value) {
    for (int offset = warpSize / 2; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffff, value, offset);
    return value;
}

__inline__ __device__ float block_sum(float value) {
    static __shared__ float sums[32];
    int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
    value = warp_sum(value);
    if (lane == 0) sums[warp] = value;
    __syncthreads();
    value = threadIdx.x < blockDim.x / warpSize ? sums[lane] : 0.0f;
    if (warp == 0) value = warp_sum(value);
    return value;
}

extern "C" __global__ void shuffle_sum(const float* in, float* out, int n) {
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) sum += in[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}

extern "C" __global__ void butterfly_min(const long long* in, long long* out, int n) {
    long long least = 0x7fffffffffffffffll;
    for (int i = threadIdx.x; i < n; i += 32) least = min(least, in[i]);
    for (int mask = 16; mask > 0; mask >>= 1) least = min(least, __shfl_xor_sync(~0u, least, mask));
    out[threadIdx.x] = least;
}

__device__ unsigned finished = 0;

// The threadFenceReduction sample: whoever counts the last block adds up the blocks' sums.
extern "C" __global__ void last_block_sum(const float* in, volatile float* partial, float* out, int n) {
    __shared__ bool last;
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) sum += in[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        unsigned ticket = atomicInc(&finished, gridDim.x);
        last = ticket == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    sum = 0.0f;
    for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += partial[i];
    __syncthreads();
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        *out = sum;
        finished = 0;
    }
}

struct Best { float value; int index; };

extern "C" __global__ void argmax(const float* in, Best* out, int columns) {
    __shared__ Best best[128];
    const float* row = in + (size_t)blockIdx.x * columns;
    Best mine = {-CUDART_INF_F, -1};
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        if (row[i] > mine.value) mine = {row[i], i};
    best[threadIdx.x] = mine;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            Best other = best[threadIdx.x + half];
            Best& here = best[threadIdx.x];
            if (other.value > here.value || (other.value == here.value && other.index < here.index)) here = other;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = best[0];
}

struct Moments { double count, mean, m2; };

__device__ Moments combine(const Moments& a, const Moments& b) {
    double n = a.count + b.count;
    if (n == 0) return a;
    double delta = b.mean - a.mean;
    return {n, a.mean + delta * b.count / n, a.m2 + b.m2 + delta * delta * a.count * b.count / n};
}

extern "C" __global__ void welford(const float* in, Moments* out, int n) {
    Moments m = {0, 0, 0};
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        m.count += 1;
        double delta = in[i] - m.mean;
        m.mean += delta / m.count;
        m.m2 += delta * (in[i] - m.mean);
    }
    for (int offset = 16; offset; offset >>= 1) {
        Moments other;
        other.count = __shfl_down_sync(~0u, m.count, offset);
        other.mean = __shfl_down_sync(~0u, m.mean, offset);
        other.m2 = __shfl_down_sync(~0u, m.m2, offset);
        m = combine(m, other);
    }
    __shared__ Moments warps[32];
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = m;
    __syncthreads();
    if (threadIdx.x) return;
    for (int w = 1; w < blockDim.x / 32; ++w) m = combine(m, warps[w]);
    *out = m;
}

extern "C" __global__ void row_sums(const int* in, int* out, int columns) {
    extern __shared__ int cells[];
    int* mine = cells + threadIdx.y * blockDim.x;
    int row = blockIdx.x * blockDim.y + threadIdx.y, sum = 0;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += in[row * columns + c];
    mine[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half; half /= 2) {
        if (threadIdx.x < half) mine[threadIdx.x] += mine[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[row] = mine[0];
}

extern "C" __global__ void barrier_counts(const int* in, int* out) {
    int value = in[blockIdx.x * blockDim.x + threadIdx.x];
    int count = __syncthreads_count(value > 0);
    int all = __syncthreads_and(value > -5);
    int any = __syncthreads_or(value == 7);
    if (threadIdx.x == blockDim.x - 1) {
        out[3 * blockIdx.x] = count;
        out[3 * blockIdx.x + 1] = all != 0;
        out[3 * blockIdx.x + 2] = any != 0;
    }
}
"""


@pytest.mark.parametrize("threads", [1, 2, 32, 64, 256])
@pytest.mark.parametrize("n", [1, 255, 1000])
def test_tree_in_shared_memory(launch: Launch, threads: int, n: int) -> None:
    values = np.random.default_rng(n).integers(-(2**30), 2**30, n).astype(np.int32)
    blocks = -(-n // threads)
    out = np.zeros(blocks, np.int32)
    launch(SOURCE, blocks, threads, values, out, np.int32(n), name="tree_sum")
    padded = np.pad(values, (0, blocks * threads - n)).reshape(blocks, threads)
    np.testing.assert_array_equal(out, padded.sum(1, dtype=np.int32))


@few_examples
@given(threads=st.integers(1, 400), n=st.integers(1, 2000))
def test_interleaved_tree_with_dynamic_shared_memory(launch: Launch, threads: int, n: int) -> None:
    values = np.random.default_rng(n).standard_normal(n)
    blocks = -(-n // threads)
    out = np.zeros(blocks)
    launch(SOURCE, blocks, threads, values, out, np.int32(n), name="interleaved_max", shared=8 * threads)
    padded = np.pad(values, (0, blocks * threads - n), constant_values=-np.inf).reshape(blocks, threads)
    np.testing.assert_array_equal(out, padded.max(1))


@few_examples
@given(n=st.integers(1, 6000), blocks=st.integers(1, 9), warps=st.integers(1, 32))
def test_shuffles_then_atomics(launch: Launch, n: int, blocks: int, warps: int) -> None:
    values = np.random.default_rng(n).integers(-100, 100, n).astype(np.float32)
    out = np.zeros(1, np.float32)
    launch(SOURCE, blocks, 32 * warps, values, out, np.int32(n), name="shuffle_sum")
    assert out[0] == values.sum()


def test_butterfly_of_64_bit_values(launch: Launch) -> None:
    values = np.random.default_rng(3).integers(-(2**62), 2**62, 500)
    out = np.zeros(32, np.int64)
    launch(SOURCE, 1, 32, values, out, np.int32(500), name="butterfly_min")
    assert (out == values.min()).all()


@pytest.mark.parametrize("blocks", [1, 2, 33, 130])
def test_last_block_adds_up(launch: Launch, blocks: int) -> None:
    values = np.arange(9000, dtype=np.float32) % 100
    partial, out = np.zeros(blocks, np.float32), np.zeros(1, np.float32)
    for _ in range(2):
        out[0] = -1
        launch(SOURCE, blocks, 64, values, partial, out, np.int32(9000), name="last_block_sum")
        assert out[0] == values.sum()


def test_argmax_takes_the_first_of_equals(launch: Launch) -> None:
    values = np.random.default_rng(5).integers(0, 40, (20, 333)).astype(np.float32)
    values[4] = -np.inf
    out = np.zeros(20, [("value", "f4"), ("index", "i4")])
    launch(SOURCE, 20, 128, values, out, np.int32(333), name="argmax")
    expected = values.argmax(1)
    expected[4] = -1
    np.testing.assert_array_equal(out["index"][np.arange(20) != 4], expected[np.arange(20) != 4])
    np.testing.assert_array_equal(out["value"], values.max(1))


@pytest.mark.parametrize("n", [1, 2, 31, 4000])
def test_welford(launch: Launch, n: int) -> None:
    values = (np.random.default_rng(n).standard_normal(n) * 3 + 1e4).astype(np.float32)
    out = np.zeros(3)
    launch(SOURCE, 1, 128, values, out, np.int32(n), name="welford")
    assert out[0] == n
    assert out[1] == pytest.approx(values.mean(dtype=np.float64), rel=1e-12)
    assert out[2] / n == pytest.approx(values.astype(np.float64).var(), rel=1e-9, abs=1e-18)


@pytest.mark.parametrize("block", [(1, 1), (32, 4), (64, 16), (16, 3)])
def test_rows_of_a_two_dimensional_block(launch: Launch, block: tuple[int, int]) -> None:
    rows, columns = block[1] * 5, 77
    values = np.random.default_rng(1).integers(-1000, 1000, (rows, columns)).astype(np.int32)
    out = np.zeros(rows, np.int32)
    launch(SOURCE, 5, block, values, out, np.int32(columns), name="row_sums", shared=4 * block[0] * block[1])
    np.testing.assert_array_equal(out, values.sum(1))


@pytest.mark.parametrize("threads", [1, 31, 32, 100, 1024])
def test_barriers_that_count(launch: Launch, threads: int) -> None:
    values = np.random.default_rng(threads).integers(-6, 9, (6, threads)).astype(np.int32)
    values[0] = 3
    out = np.zeros((6, 3), np.int32)
    launch(SOURCE, 6, threads, values, out, name="barrier_counts")
    expected = np.stack([(values > 0).sum(1), (values > -5).all(1), (values == 7).any(1)], axis=1)
    np.testing.assert_array_equal(out, expected)

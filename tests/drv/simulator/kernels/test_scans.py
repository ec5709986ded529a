"""Prefix sums in a block and over a grid, and what is built on them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drv.simulator.kernels.conftest import Launch, few_examples

SOURCE = r"""
// Hillis and Steele: log n passes over two buffers.
extern "C" __global__ void hillis_steele(int* data, int n) {
    extern __shared__ int buffer[];
    int in = 0, out = 1, t = threadIdx.x;
    buffer[t] = t < n ? data[t] : 0;
    __syncthreads();
    for (int offset = 1; offset < n; offset <<= 1) {
        int value = buffer[in * blockDim.x + t];
        if (t >= offset) value += buffer[in * blockDim.x + t - offset];
        buffer[out * blockDim.x + t] = value;
        __syncthreads();
        in = 1 - in;
        out = 1 - out;
    }
    if (t < n) data[t] = buffer[in * blockDim.x + t];
}

// Blelloch: up-sweep and down-sweep over a power of two, exclusive, padded against bank conflicts.
#define PAD(i) ((i) + ((i) >> 5))
extern "C" __global__ void blelloch(unsigned long long* data, int n) {
    extern __shared__ unsigned long long tree[];
    int t = threadIdx.x, offset = 1;
    for (int i = t; i < n; i += blockDim.x) tree[PAD(i)] = data[i];
    for (int d = n >> 1; d > 0; d >>= 1, offset *= 2) {
        __syncthreads();
        if (t < d) {
            int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1;
            tree[PAD(b)] += tree[PAD(a)];
        }
    }
    if (t == 0) tree[PAD(n - 1)] = 0;
    for (int d = 1; d < n; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1;
            unsigned long long left = tree[PAD(a)];
            tree[PAD(a)] = tree[PAD(b)];
            tree[PAD(b)] += left;
        }
    }
    __syncthreads();
    for (int i = t; i < n; i += blockDim.x) data[i] = tree[PAD(i)];
}

__device__ int warp_scan(int value) {
    for (int offset = 1; offset < 32; offset *= 2) {
        int below = __shfl_up_sync(~0u, value, offset);
        if ((threadIdx.x & 31) >= offset) value += below;
    }
    return value;
}

__device__ int block_scan(int value, int* total) {
    __shared__ int warps[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int sum = warp_scan(value);
    if (lane == 31) warps[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        int mine = lane < blockDim.x / 32 ? warps[lane] : 0;
        warps[lane] = warp_scan(mine);
    }
    __syncthreads();
    if (warp) sum += warps[warp - 1];
    *total = warps[blockDim.x / 32 - 1];
    return sum;
}

extern "C" __global__ void scan_blocks(const int* in, int* out, int* totals, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, total;
    int sum = block_scan(i < n ? in[i] : 0, &total);
    if (i < n) out[i] = sum;
    if (threadIdx.x == 0 && totals) totals[blockIdx.x] = total;
}
extern "C" __global__ void add_offsets(int* out, const int* totals, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (blockIdx.x && i < n) out[i] += totals[blockIdx.x - 1];
}

// Decoupled look-back (Merrill and Garland): a block waits for its predecessors' published sums.
__device__ unsigned next_tile = 0;

extern "C" __global__ void look_back_scan(const int* in, int* out, unsigned long long* status, int n) {
    __shared__ unsigned tile;
    __shared__ int before;
    if (threadIdx.x == 0) tile = atomicAdd(&next_tile, 1u);
    __syncthreads();
    int i = tile * blockDim.x + threadIdx.x, total;
    int sum = block_scan(i < n ? in[i] : 0, &total);
    if (threadIdx.x == 0) {
        auto publish = [&](int flag, int value) {
            atomicExch(status + tile, (unsigned long long)flag << 32 | (unsigned)value);
        };
        int exclusive = 0;
        if (tile == 0) {
            publish(2, total);
        } else {
            publish(1, total);
            for (int at = (int)tile - 1;;) {
                unsigned long long word = *(volatile unsigned long long*)(status + at);
                int flag = (int)(word >> 32);
                if (flag == 0) continue;
                exclusive += (int)word;
                if (flag == 2) break;
                --at;
            }
            publish(2, exclusive + total);
        }
        before = exclusive;
    }
    __syncthreads();
    if (i < n) out[i] = sum + before;
}

// Chained scan: each block spins until the block before it has left its sum.
extern "C" __global__ void chained_scan(const int* in, int* out, volatile int* sums, volatile int* ready, int n) {
    __shared__ int base;
    int i = blockIdx.x * blockDim.x + threadIdx.x, total;
    int sum = block_scan(i < n ? in[i] : 0, &total);
    if (threadIdx.x == 0) {
        int previous = 0;
        if (blockIdx.x) {
            while (!ready[blockIdx.x - 1]) {}
            __threadfence();
            previous = sums[blockIdx.x - 1];
        }
        sums[blockIdx.x] = previous + total;
        __threadfence();
        ready[blockIdx.x] = 1;
        base = previous;
    }
    __syncthreads();
    if (i < n) out[i] = sum + base;
}

// Segments start where flags are set.
extern "C" __global__ void segmented_scan(const float* in, const unsigned char* starts, float* out) {
    float value = in[threadIdx.x];
    bool start = starts[threadIdx.x];
    __shared__ float values[512];
    __shared__ bool flags[512];
    for (int offset = 1; offset < blockDim.x; offset <<= 1) {
        values[threadIdx.x] = value;
        flags[threadIdx.x] = start;
        __syncthreads();
        if (threadIdx.x >= offset) {
            if (!start) value += values[threadIdx.x - offset];
            start |= flags[threadIdx.x - offset];
        }
        __syncthreads();
    }
    out[threadIdx.x] = value;
}

extern "C" __global__ void compact(const int* in, int* out, int* count, int n) {
    __shared__ int base;
    int i = blockIdx.x * blockDim.x + threadIdx.x, total;
    int keep = i < n && in[i] % 3 == 0;
    int place = block_scan(keep, &total) - keep;
    if (threadIdx.x == 0) base = atomicAdd(count, total);
    __syncthreads();
    if (keep) out[base + place] = in[i];
}
"""


def integers(n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(-1000, 1000, n).astype(np.int32)


@few_examples
@given(threads=st.integers(1, 500), data=st.data())
def test_hillis_and_steele(launch: Launch, threads: int, data: st.DataObject) -> None:
    n = data.draw(st.integers(1, threads))
    values = integers(n)
    expected = np.cumsum(values)
    launch(SOURCE, 1, threads, values, np.int32(n), name="hillis_steele", shared=8 * threads)
    np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("n", [2, 8, 64, 1024, 2048])
def test_blelloch(launch: Launch, n: int) -> None:
    values = np.random.default_rng(n).integers(0, 2**40, n).astype(np.uint64)
    expected = np.cumsum(values) - values
    launch(SOURCE, 1, n // 2, values, np.int32(n), name="blelloch", shared=8 * (n + n // 32))
    np.testing.assert_array_equal(values, expected)


@few_examples
@given(n=st.integers(1, 5000), warps=st.integers(1, 8))
def test_scan_of_blocks_in_three_launches(launch: Launch, n: int, warps: int) -> None:
    values = integers(n)
    threads = 32 * warps
    blocks = -(-n // threads)
    out, totals = np.zeros_like(values), np.zeros(blocks, np.int32)
    launch(SOURCE, blocks, threads, values, out, totals, np.int32(n), name="scan_blocks")
    if blocks <= 1024:
        launch(SOURCE, 1, 1024, totals, totals, np.uint64(0), np.int32(blocks), name="scan_blocks")
        launch(SOURCE, blocks, threads, out, totals, np.int32(n), name="add_offsets")
        np.testing.assert_array_equal(out, np.cumsum(values))


@pytest.mark.parametrize(("n", "threads"), [(1, 32), (4096, 64), (5000, 128), (3000, 1024)])
def test_decoupled_look_back(launch: Launch, n: int, threads: int) -> None:
    values = integers(n)
    out = np.zeros_like(values)
    blocks = -(-n // threads)
    launch.upload(SOURCE, "next_tile", np.zeros(1, np.uint32))
    status = np.zeros(blocks, np.uint64)
    launch(SOURCE, blocks, threads, values, out, status, np.int32(n), name="look_back_scan")
    np.testing.assert_array_equal(out, np.cumsum(values))
    assert (status >> np.uint64(32) == 2).all()


@pytest.mark.parametrize(("n", "threads"), [(4096, 32), (20_000, 256)])
def test_blocks_that_wait_for_the_one_before(launch: Launch, n: int, threads: int) -> None:
    values = integers(n)
    out = np.zeros_like(values)
    sums, ready = np.zeros((2, -(-n // threads)), np.int32)
    launch(SOURCE, len(sums), threads, values, out, sums, ready, np.int32(n), name="chained_scan")
    np.testing.assert_array_equal(out, np.cumsum(values))


@pytest.mark.parametrize("n", [1, 37, 512])
def test_segmented_scan(launch: Launch, n: int) -> None:
    values = integers(n).astype(np.float32)
    starts = (np.random.default_rng(n).random(n) < 0.1).astype(np.uint8)
    out = np.zeros_like(values)
    launch(SOURCE, 1, n, values, starts, out, name="segmented_scan")
    segments = np.split(values, np.flatnonzero(starts))
    np.testing.assert_array_equal(out, np.concatenate([np.cumsum(segment) for segment in segments]))


@few_examples
@given(n=st.integers(1, 4000), warps=st.integers(1, 8))
def test_compaction(launch: Launch, n: int, warps: int) -> None:
    values = integers(n)
    out, count = np.full(n, -1, np.int32), np.zeros(1, np.int32)
    threads = 32 * warps
    launch(SOURCE, -(-n // threads), threads, values, out, count, np.int32(n), name="compact")
    # C's % keeps the sign, and is 0 for the same numbers as Python's.
    selected = values[values % 3 == 0]
    assert count[0] == len(selected)
    np.testing.assert_array_equal(np.sort(out[: len(selected)]), np.sort(selected))
    assert (out[len(selected) :] == -1).all()

"""Grids, blocks and the loops that walk over data with them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drv.simulator.kernels.conftest import Launch, few_examples

SOURCE = r"""
extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = a * x[i] + y[i];
}

extern "C" __global__ void square_64(const long long* x, long long* y, size_t n) {
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) y[i] = x[i] * x[i];
}

extern "C" __global__ void table(int* out, int rows, int columns) {
    for (int r = blockIdx.y * blockDim.y + threadIdx.y; r < rows; r += gridDim.y * blockDim.y)
        for (int c = blockIdx.x * blockDim.x + threadIdx.x; c < columns; c += gridDim.x * blockDim.x)
            out[r * columns + c] = (r + 1) * (c + 1);
}

struct Where { unsigned thread[3], block[3], threads[3], blocks[3], warp_size; };

extern "C" __global__ void where(Where* out) {
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    Where& w = out[block * (blockDim.x * blockDim.y * blockDim.z) + thread];
    w.thread[0] = threadIdx.x; w.thread[1] = threadIdx.y; w.thread[2] = threadIdx.z;
    w.block[0] = blockIdx.x; w.block[1] = blockIdx.y; w.block[2] = blockIdx.z;
    w.threads[0] = blockDim.x; w.threads[1] = blockDim.y; w.threads[2] = blockDim.z;
    w.blocks[0] = gridDim.x; w.blocks[1] = gridDim.y; w.blocks[2] = gridDim.z;
    w.warp_size = warpSize;
}

extern "C" __global__ void polynomial(const float* x, float* y, int n) {
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 < n) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            float sum = 0.0f;
#pragma unroll
            for (int k = 1; k <= 6; ++k) sum = sum * x[i + j] + (float)k;
            y[i + j] = sum;
        }
    } else {
        for (; i < n; ++i) {
            float sum = 0.0f;
            for (int k = 1; k <= 6; ++k) sum = sum * x[i] + (float)k;
            y[i] = sum;
        }
    }
}

extern "C" __global__ void collect(const int* __restrict__ index, const double* __restrict__ x, double* y, int n) {
    int threads = gridDim.x * blockDim.x;
    for (int i = n - 1 - (int)(blockIdx.x * blockDim.x + threadIdx.x); i >= 0; i -= threads) {
        int j = __ldg(index + i);
        y[i] = j < 0 ? -1.0 : __ldg(&x[j]);
    }
}

extern "C" __global__ void __launch_bounds__(128, 2) nothing() {}
"""

sizes = st.integers(1, 5000)


@few_examples
@given(n=sizes, blocks=st.integers(1, 20), threads=st.integers(1, 1024), seed=st.integers(0, 99))
def test_saxpy(launch: Launch, n: int, blocks: int, threads: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    x, y = random.integers(-1000, 1000, (2, n)).astype(np.float32)
    expected = np.float32(2.5) * x + y
    launch(SOURCE, blocks, threads, np.float32(2.5), x, y, np.int32(n), name="saxpy")
    np.testing.assert_array_equal(y, expected)


@few_examples
@given(n=sizes, blocks=st.integers(1, 9), threads=st.integers(1, 300))
def test_64_bit_indices(launch: Launch, n: int, blocks: int, threads: int) -> None:
    x = np.arange(n, dtype=np.int64) * 3_000_000_019 - 7
    y = np.zeros_like(x)
    launch(SOURCE, blocks, threads, x, y, np.uint64(n), name="square_64")
    np.testing.assert_array_equal(y, x * x)


@few_examples
@given(
    shape=st.tuples(st.integers(1, 70), st.integers(1, 70)),
    grid=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    block=st.tuples(st.integers(1, 32), st.integers(1, 32)),
)
def test_two_dimensions(
    launch: Launch, shape: tuple[int, int], grid: tuple[int, int], block: tuple[int, int]
) -> None:
    out = np.zeros(shape, np.int32)
    launch(SOURCE, grid, block, out, np.int32(shape[0]), np.int32(shape[1]), name="table")
    np.testing.assert_array_equal(out, np.outer(np.arange(1, shape[0] + 1), np.arange(1, shape[1] + 1)))


@pytest.mark.parametrize(
    ("grid", "block"),
    [
        ((1, 1, 1), (1, 1, 1)),
        ((3, 1, 1), (33, 1, 1)),
        ((2, 3, 4), (5, 6, 7)),
        ((1, 1, 9), (1, 1, 64)),
        ((7, 5, 1), (1, 1024, 1)),
        ((5, 1, 3), (1024, 1, 1)),
        ((300, 2, 1), (3, 2, 1)),
    ],
)
def test_built_in_variables(launch: Launch, grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
    dtype = np.dtype(
        [("thread", "u4", 3), ("block", "u4", 3), ("threads", "u4", 3), ("blocks", "u4", 3), ("warp", "u4")]
    )
    out = np.zeros(int(np.prod(grid)) * int(np.prod(block)), dtype)
    launch(SOURCE, grid, block, out, name="where")
    blocks = np.stack(np.meshgrid(*(range(count) for count in reversed(grid)), indexing="ij"), -1).reshape(
        -1, 3
    )
    threads = np.stack(np.meshgrid(*(range(count) for count in reversed(block)), indexing="ij"), -1).reshape(
        -1, 3
    )
    np.testing.assert_array_equal(out["block"], np.repeat(blocks[:, ::-1], len(threads), axis=0))
    np.testing.assert_array_equal(out["thread"], np.tile(threads[:, ::-1], (len(blocks), 1)))
    assert (out["threads"] == block).all()
    assert (out["blocks"] == grid).all()
    assert (out["warp"] == 32).all()


@few_examples
@given(n=st.integers(1, 3000), threads=st.integers(1, 256))
def test_unrolled_with_a_remainder(launch: Launch, n: int, threads: int) -> None:
    x = (np.arange(n) % 13 - 6).astype(np.float32)
    y = np.zeros_like(x)
    launch(SOURCE, -(-n // (4 * threads)), threads, x, y, np.int32(n), name="polynomial")
    np.testing.assert_array_equal(y, np.polyval([1, 2, 3, 4, 5, 6], x))


@few_examples
@given(n=sizes, blocks=st.integers(1, 9), threads=st.integers(1, 600), seed=st.integers(0, 99))
def test_indirect_and_backward(launch: Launch, n: int, blocks: int, threads: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    index = random.integers(-3, 100, n).astype(np.int32)
    x = random.standard_normal(100)
    y = np.zeros(n)
    launch(SOURCE, blocks, threads, index, x, y, np.int32(n), name="collect")
    np.testing.assert_array_equal(y, np.where(index < 0, -1, x[index]))


def test_a_kernel_without_parameters(launch: Launch) -> None:
    launch(SOURCE, (3, 2, 2), 128, name="nothing")


def test_many_small_blocks(launch: Launch) -> None:
    out = np.zeros((50, 70), np.int32)
    launch(SOURCE, (70, 50), (1, 1), out, np.int32(50), np.int32(70), name="table")
    np.testing.assert_array_equal(out, np.outer(np.arange(1, 51), np.arange(1, 71)))

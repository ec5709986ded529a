"""Tiles in shared memory: transpose, matrix product, stencils, convolution."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage
from hypothesis import given
from hypothesis import strategies as st

from tests.drv.simulator.kernels.conftest import Launch, few_examples

SOURCE = r"""
#define TILE 32
#define ROWS 8

extern "C" __global__ void transpose(float* out, const float* in, int height, int width) {
    __shared__ float tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x;
    int y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        if (x < height && y + j < width) out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

template <typename T, int N>
__device__ void multiply_tiles(T* c, const T* a, const T* b, int m, int n, int k) {
    __shared__ T left[N][N], right[N][N];
    int row = blockIdx.y * N + threadIdx.y, column = blockIdx.x * N + threadIdx.x;
    T sum = 0;
    for (int t = 0; t < (k + N - 1) / N; ++t) {
        int ka = t * N + threadIdx.x, kb = t * N + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < m && ka < k ? a[row * k + ka] : T(0);
        right[threadIdx.y][threadIdx.x] = kb < k && column < n ? b[kb * n + column] : T(0);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < N; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}

extern "C" __global__ void matmul_float(float* c, const float* a, const float* b, int m, int n, int k) {
    multiply_tiles<float, 16>(c, a, b, m, n, k);
}
extern "C" __global__ void matmul_double(double* c, const double* a, const double* b, int m, int n, int k) {
    multiply_tiles<double, 8>(c, a, b, m, n, k);
}
extern "C" __global__ void matmul_int(int* c, const int* a, const int* b, int m, int n, int k) {
    multiply_tiles<int, 16>(c, a, b, m, n, k);
}

// Each thread holds a 4x4 piece of the product in registers and moves float4s.
extern "C" __global__ void matmul_registers(float* c, const float* a, const float* b, int m, int n, int k) {
    __shared__ __align__(16) float left[8][64];
    __shared__ __align__(16) float right[8][64];
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    float sum[4][4] = {};
    for (int k0 = 0; k0 < k; k0 += 8) {
        for (int i = threadIdx.x; i < 512; i += 256) {
            left[i % 8][i / 8] = a[(blockIdx.y * 64 + i / 8) * k + k0 + i % 8];
            right[i / 64][i % 64] = b[(k0 + i / 64) * n + blockIdx.x * 64 + i % 64];
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < 8; ++kk) {
            float4 l = *reinterpret_cast<float4*>(&left[kk][ty * 4]);
            float4 r = *reinterpret_cast<float4*>(&right[kk][tx * 4]);
            float ls[4] = {l.x, l.y, l.z, l.w}, rs[4] = {r.x, r.y, r.z, r.w};
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) sum[i][j] = fmaf(ls[i], rs[j], sum[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        *reinterpret_cast<float4*>(c + (blockIdx.y * 64 + ty * 4 + i) * n + blockIdx.x * 64 + tx * 4) =
            make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
}

extern "C" __global__ void stencil_3d(float* out, const float* in, int nx, int ny, int nz) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= nx || y >= ny || z >= nz) return;
    long at = ((long)z * ny + y) * nx + x;
    if (x == 0 || y == 0 || z == 0 || x == nx - 1 || y == ny - 1 || z == nz - 1) {
        out[at] = in[at];
        return;
    }
    out[at] = in[at - 1] + in[at + 1] + in[at - nx] + in[at + nx] + in[at - (long)nx * ny] + in[at + (long)nx * ny]
              - 6.0f * in[at];
}

// A stencil with a halo: the edge threads load what lies beyond the block.
template <int RADIUS>
__device__ void blur(float* out, const float* in, const float* weights, int n) {
    extern __shared__ float line[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    auto at = [&](int j) { return in[min(max(j, 0), n - 1)]; };
    line[threadIdx.x + RADIUS] = at(i);
    if (threadIdx.x < RADIUS) {
        line[threadIdx.x] = at(i - RADIUS);
        line[blockDim.x + RADIUS + threadIdx.x] = at(i + (int)blockDim.x);
    }
    __syncthreads();
    if (i >= n) return;
    float sum = 0;
    for (int r = -RADIUS; r <= RADIUS; ++r) sum += weights[r + RADIUS] * line[threadIdx.x + RADIUS + r];
    out[i] = sum;
}
extern "C" __global__ void blur_5(float* out, const float* in, const float* w, int n) { blur<5>(out, in, w, n); }

__constant__ float mask[5][5];

extern "C" __global__ void convolve_2d(float* out, const float* in, int height, int width) {
    __shared__ float tile[12 + 4][12 + 4];
    int top = blockIdx.y * 12 - 2, left = blockIdx.x * 12 - 2;
    int y = top + (int)threadIdx.y, x = left + (int)threadIdx.x;
    tile[threadIdx.y][threadIdx.x] = y >= 0 && y < height && x >= 0 && x < width ? in[y * width + x] : 0.0f;
    __syncthreads();
    if (threadIdx.y >= 12 || threadIdx.x >= 12) return;
    y += 2;
    x += 2;
    if (y >= height || x >= width) return;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 5; ++i)
        for (int j = 0; j < 5; ++j) sum += mask[i][j] * tile[threadIdx.y + i][threadIdx.x + j];
    out[y * width + x] = sum;
}
"""


@few_examples
@given(height=st.integers(1, 130), width=st.integers(1, 130))
def test_transpose(launch: Launch, height: int, width: int) -> None:
    matrix = np.arange(height * width, dtype=np.float32).reshape(height, width)
    out = np.zeros((width, height), np.float32)
    grid = (-(-width // 32), -(-height // 32))
    launch(SOURCE, grid, (32, 8), out, matrix, np.int32(height), np.int32(width), name="transpose")
    np.testing.assert_array_equal(out, matrix.T)


@pytest.mark.parametrize(("dtype", "tile"), [("float", 16), ("double", 8), ("int", 16)])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (16, 32, 16), (37, 21, 50)])
def test_tiled_matrix_product(launch: Launch, dtype: str, tile: int, m: int, n: int, k: int) -> None:
    random = np.random.default_rng(m)
    numpy_type = {"float": np.float32, "double": np.float64, "int": np.int32}[dtype]
    a = random.integers(-20, 20, (m, k)).astype(numpy_type)
    b = random.integers(-20, 20, (k, n)).astype(numpy_type)
    c = np.zeros((m, n), numpy_type)
    sizes = [np.int32(size) for size in (m, n, k)]
    launch(SOURCE, (-(-n // tile), -(-m // tile)), (tile, tile), c, a, b, *sizes, name=f"matmul_{dtype}")
    np.testing.assert_array_equal(c, a @ b)


def test_register_blocked_matrix_product(launch: Launch) -> None:
    random = np.random.default_rng(0)
    a = random.standard_normal((64, 40)).astype(np.float32)
    b = random.standard_normal((40, 128)).astype(np.float32)
    c = np.zeros((64, 128), np.float32)
    sizes = [np.int32(size) for size in (64, 128, 40)]
    launch(SOURCE, (2, 1), 256, c, a, b, *sizes, name="matmul_registers")
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-5)


@few_examples
@given(
    shape=st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(1, 20)),
    block=st.tuples(st.integers(1, 10), st.integers(1, 10), st.integers(1, 10)),
)
def test_stencil_in_three_dimensions(
    launch: Launch, shape: tuple[int, int, int], block: tuple[int, int, int]
) -> None:
    volume = np.random.default_rng(1).integers(0, 100, shape).astype(np.float32)
    out = np.zeros_like(volume)
    nz, ny, nx = shape
    grid = tuple(-(-size // threads) for size, threads in zip((nx, ny, nz), block, strict=True))
    launch(SOURCE, grid, block, out, volume, np.int32(nx), np.int32(ny), np.int32(nz), name="stencil_3d")
    expected = volume.copy()
    if min(shape) > 2:
        inner = (slice(1, -1),) * 3
        expected[inner] = scipy.ndimage.laplace(volume)[inner]
    np.testing.assert_array_equal(out, expected)


@few_examples
@given(n=st.integers(1, 1000), threads=st.integers(5, 200))
def test_stencil_with_a_halo(launch: Launch, n: int, threads: int) -> None:
    line = np.random.default_rng(n).integers(0, 50, n).astype(np.float32)
    weights = np.arange(1, 12, dtype=np.float32)
    out = np.zeros_like(line)
    launch(
        SOURCE,
        -(-n // threads),
        threads,
        out,
        line,
        weights,
        np.int32(n),
        name="blur_5",
        shared=4 * (threads + 10),
    )
    padded = np.pad(line, 5, mode="edge")
    np.testing.assert_array_equal(out, np.correlate(padded, weights, "valid"))


@pytest.mark.parametrize(("height", "width"), [(1, 1), (12, 12), (31, 50)])
def test_convolution_with_a_constant_mask(launch: Launch, height: int, width: int) -> None:
    random = np.random.default_rng(7)
    image = random.integers(0, 20, (height, width)).astype(np.float32)
    mask = random.integers(-5, 5, (5, 5)).astype(np.float32)
    launch.upload(SOURCE, "mask", mask)
    out = np.zeros_like(image)
    grid = (-(-width // 12), -(-height // 12))
    launch(SOURCE, grid, (16, 16), out, image, np.int32(height), np.int32(width), name="convolve_2d")
    np.testing.assert_array_equal(out, scipy.ndimage.correlate(image, mask, mode="constant"))

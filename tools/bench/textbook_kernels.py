"""CUDA C++ of the textbook series: kernels that differ in one thing, written for the validation of the model of time."""

from __future__ import annotations

#: Access to global memory: strides, offsets, widths, layouts.
ACCESS = r"""
extern "C" __global__ void strided(const float *x, float *y, int stride)
{
    long i = (long)(blockIdx.x * blockDim.x + threadIdx.x) * stride;
    y[i] = x[i];
}

extern "C" __global__ void offset(const float *x, float *y, int shift)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x + shift;
    y[i] = x[i];
}

template <class T> __device__ void copied(const T *x, T *y, int n)
{
    int step = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        y[i] = x[i];
}

extern "C" __global__ void copy_4(const float *x, float *y, int n) { copied(x, y, n); }
extern "C" __global__ void copy_8(const float2 *x, float2 *y, int n) { copied(x, y, n / 2); }
extern "C" __global__ void copy_16(const float4 *x, float4 *y, int n) { copied(x, y, n / 4); }

struct Particle { float x, y, z, w, a, b, c, d; };

extern "C" __global__ void fields_together(const Particle *p, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = p[i].x;
}

extern "C" __global__ void fields_apart(const float *x, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = x[i];
}

// A chain of loads, each of which needs the one before; memory holds zeros.
extern "C" __global__ void chase(const unsigned *x, unsigned *out, unsigned mask, unsigned stride, int hops)
{
    unsigned at = 0;
    for (int k = 0; k < hops; k++)
        at = (at + stride + x[at]) & mask;
    out[threadIdx.x] = at;
}
"""

#: Transposes of an n by n matrix, blocks of 32 by 8 threads, tiles of 32 by 32.
TRANSPOSES = r"""
#define TILE 32
#define ROWS 8

extern "C" __global__ void copied(float *out, const float *in, int n)
{
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        out[(y + j) * n + x] = in[(y + j) * n + x];
}

extern "C" __global__ void naive(float *out, const float *in, int n)
{
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        out[x * n + y + j] = in[(y + j) * n + x];
}

template <int Width> __device__ void tiled(float *out, const float *in, int n)
{
    __shared__ float tile[TILE][Width];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" __global__ void coalesced(float *out, const float *in, int n) { tiled<TILE>(out, in, n); }
extern "C" __global__ void padded(float *out, const float *in, int n) { tiled<TILE + 1>(out, in, n); }
"""

#: The seven steps of the classic talk, each a sum of blocks' parts; 128 threads.
REDUCTIONS = r"""
#define THREADS 128

extern "C" __global__ void reduce_1(const float *in, float *out)
{
    __shared__ float s[THREADS];
    unsigned t = threadIdx.x;
    s[t] = in[blockIdx.x * THREADS + t];
    __syncthreads();
    for (unsigned d = 1; d < blockDim.x; d *= 2) {
        if (t % (2 * d) == 0)
            s[t] += s[t + d];
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = s[0];
}

extern "C" __global__ void reduce_2(const float *in, float *out)
{
    __shared__ float s[THREADS];
    unsigned t = threadIdx.x;
    s[t] = in[blockIdx.x * THREADS + t];
    __syncthreads();
    for (unsigned d = 1; d < blockDim.x; d *= 2) {
        unsigned i = 2 * d * t;
        if (i < blockDim.x)
            s[i] += s[i + d];
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = s[0];
}

extern "C" __global__ void reduce_3(const float *in, float *out)
{
    __shared__ float s[THREADS];
    unsigned t = threadIdx.x;
    s[t] = in[blockIdx.x * THREADS + t];
    __syncthreads();
    for (unsigned d = blockDim.x / 2; d > 0; d >>= 1) {
        if (t < d)
            s[t] += s[t + d];
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = s[0];
}

extern "C" __global__ void reduce_4(const float *in, float *out)
{
    __shared__ float s[THREADS];
    unsigned t = threadIdx.x, i = blockIdx.x * THREADS * 2 + t;
    s[t] = in[i] + in[i + THREADS];
    __syncthreads();
    for (unsigned d = blockDim.x / 2; d > 0; d >>= 1) {
        if (t < d)
            s[t] += s[t + d];
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = s[0];
}

__device__ float last_warp(float *s, unsigned t)
{
    float sum = s[t] + s[t + 32];
    for (int d = 16; d > 0; d >>= 1)
        sum += __shfl_down_sync(0xffffffff, sum, d);
    return sum;
}

extern "C" __global__ void reduce_5(const float *in, float *out)
{
    __shared__ float s[THREADS];
    unsigned t = threadIdx.x, i = blockIdx.x * THREADS * 2 + t;
    s[t] = in[i] + in[i + THREADS];
    __syncthreads();
    for (unsigned d = blockDim.x / 2; d > 32; d >>= 1) {
        if (t < d)
            s[t] += s[t + d];
        __syncthreads();
    }
    if (t < 32) {
        float sum = last_warp(s, t);
        if (t == 0)
            out[blockIdx.x] = sum;
    }
}

template <int Size> __device__ float unrolled(float *s, unsigned t)
{
    if (Size >= 128) {
        if (t < 64)
            s[t] += s[t + 64];
        __syncthreads();
    }
    return t < 32 ? last_warp(s, t) : 0.f;
}

extern "C" __global__ void reduce_6(const float *in, float *out)
{
    __shared__ float s[THREADS];
    unsigned t = threadIdx.x, i = blockIdx.x * THREADS * 2 + t;
    s[t] = in[i] + in[i + THREADS];
    __syncthreads();
    float sum = unrolled<THREADS>(s, t);
    if (t == 0)
        out[blockIdx.x] = sum;
}

extern "C" __global__ void reduce_7(const float *in, float *out, int n)
{
    __shared__ float s[THREADS];
    unsigned t = threadIdx.x;
    float mine = 0;
    for (int i = blockIdx.x * THREADS * 2 + t; i < n; i += gridDim.x * THREADS * 2)
        mine += in[i] + in[i + THREADS];
    s[t] = mine;
    __syncthreads();
    float sum = unrolled<THREADS>(s, t);
    if (t == 0)
        out[blockIdx.x] = sum;
}
"""

#: Products of n by n matrices, from one element a thread to tiles in registers.
PRODUCTS = r"""
extern "C" __global__ void naive(const float *a, const float *b, float *c, int n)
{
    int row = blockIdx.x * 32 + threadIdx.x, column = blockIdx.y * 32 + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; k++)
        sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

extern "C" __global__ void coalesced(const float *a, const float *b, float *c, int n)
{
    int row = blockIdx.y * 32 + threadIdx.y, column = blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k++)
        sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

extern "C" __global__ void in_shared(const float *a, const float *b, float *c, int n)
{
    __shared__ float as[32][32], bs[32][32];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 32 + ty, column = blockIdx.x * 32 + tx;
    float sum = 0;
    for (int k = 0; k < n; k += 32) {
        as[ty][tx] = a[row * n + k + tx];
        bs[ty][tx] = b[(k + ty) * n + column];
        __syncthreads();
        for (int q = 0; q < 32; q++)
            sum += as[ty][q] * bs[q][tx];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

// 64 by 64 tiles, 8 along k, 8 elements of a column a thread: 512 threads.
extern "C" __global__ void columns_in_registers(const float *a, const float *b, float *c, int n)
{
    __shared__ float as[64 * 8], bs[8 * 64];
    int t = threadIdx.x, tx = t % 64, ty = t / 64;
    a += blockIdx.y * 64 * n;
    b += blockIdx.x * 64;
    c += blockIdx.y * 64 * n + blockIdx.x * 64;
    float sums[8] = {0};
    for (int k = 0; k < n; k += 8) {
        as[t] = a[(t / 8) * n + k + t % 8];
        bs[t] = b[(k + ty) * n + tx];
        __syncthreads();
        for (int q = 0; q < 8; q++) {
            float one = bs[q * 64 + tx];
            for (int i = 0; i < 8; i++)
                sums[i] += as[(ty * 8 + i) * 8 + q] * one;
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; i++)
        c[(ty * 8 + i) * n + tx] = sums[i];
}

// 128 by 128 tiles, 8 along k, 8 by 8 elements a thread: 256 threads.
extern "C" __global__ void tiles_in_registers(const float *a, const float *b, float *c, int n)
{
    __shared__ float as[128 * 8], bs[8 * 128];
    int t = threadIdx.x, tx = t % 16, ty = t / 16;
    a += blockIdx.y * 128 * n;
    b += blockIdx.x * 128;
    c += blockIdx.y * 128 * n + blockIdx.x * 128;
    float sums[8][8] = {{0}}, left[8], right[8];
    for (int k = 0; k < n; k += 8) {
        for (int j = 0; j < 4; j++) {
            as[(t / 8 + 32 * j) * 8 + t % 8] = a[(t / 8 + 32 * j) * n + k + t % 8];
            bs[(t / 128 + 2 * j) * 128 + t % 128] = b[(k + t / 128 + 2 * j) * n + t % 128];
        }
        __syncthreads();
        for (int q = 0; q < 8; q++) {
            for (int i = 0; i < 8; i++) {
                left[i] = as[(ty * 8 + i) * 8 + q];
                right[i] = bs[q * 128 + tx * 8 + i];
            }
            for (int i = 0; i < 8; i++)
                for (int j = 0; j < 8; j++)
                    sums[i][j] += left[i] * right[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            c[(ty * 8 + i) * n + tx * 8 + j] = sums[i][j];
}

// The same with 16-byte accesses, and the left tile transposed on its way to shared memory.
extern "C" __global__ void vectorised(const float *a, const float *b, float *c, int n)
{
    __shared__ __align__(16) float as[8 * 128], bs[8 * 128];
    int t = threadIdx.x, tx = t % 16, ty = t / 16;
    a += blockIdx.y * 128 * n;
    b += blockIdx.x * 128;
    c += blockIdx.y * 128 * n + blockIdx.x * 128;
    float sums[8][8] = {{0}}, left[8], right[8];
    for (int k = 0; k < n; k += 8) {
        float4 one = *(const float4 *)&a[(t / 2) * n + k + t % 2 * 4];
        as[(t % 2 * 4 + 0) * 128 + t / 2] = one.x;
        as[(t % 2 * 4 + 1) * 128 + t / 2] = one.y;
        as[(t % 2 * 4 + 2) * 128 + t / 2] = one.z;
        as[(t % 2 * 4 + 3) * 128 + t / 2] = one.w;
        *(float4 *)&bs[(t / 32) * 128 + t % 32 * 4] = *(const float4 *)&b[(k + t / 32) * n + t % 32 * 4];
        __syncthreads();
        for (int q = 0; q < 8; q++) {
            for (int i = 0; i < 8; i += 4) {
                *(float4 *)&left[i] = *(const float4 *)&as[q * 128 + ty * 8 + i];
                *(float4 *)&right[i] = *(const float4 *)&bs[q * 128 + tx * 8 + i];
            }
            for (int i = 0; i < 8; i++)
                for (int j = 0; j < 8; j++)
                    sums[i][j] += left[i] * right[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            *(float4 *)&c[(ty * 8 + i) * n + tx * 8 + j] = make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
}
"""

#: Atomics, private copies, scans, stencils.
SHARING = r"""
extern "C" __global__ void histogram_global(const unsigned char *x, int *bins, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[x[i]], 1);
}

extern "C" __global__ void histogram_shared(const unsigned char *x, int *bins, int n)
{
    __shared__ int mine[256];
    mine[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&mine[x[i]], 1);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}

extern "C" __global__ void count_one(int *sum) { atomicAdd(sum, 1); }
extern "C" __global__ void count_spread(int *sums) { atomicAdd(&sums[blockIdx.x * blockDim.x + threadIdx.x], 1); }

extern "C" __global__ void count_by_warp(int *sum)
{
    int ones = 1;
    for (int d = 16; d > 0; d >>= 1)
        ones += __shfl_xor_sync(0xffffffff, ones, d);
    if (threadIdx.x % 32 == 0)
        atomicAdd(sum, ones);
}

// A scan of 512 elements a block by 256 threads, up and down a tree.
__device__ __forceinline__ int at(int i, bool pad) { return pad ? i + (i >> 5) : i; }

template <bool Pad> __device__ void scanned(const float *in, float *out)
{
    __shared__ float s[512 + 16];
    int t = threadIdx.x, offset = 1;
    in += blockIdx.x * 512;
    out += blockIdx.x * 512;
    s[at(t, Pad)] = in[t];
    s[at(t + 256, Pad)] = in[t + 256];
    for (int d = 256; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d)
            s[at(offset * (2 * t + 2) - 1, Pad)] += s[at(offset * (2 * t + 1) - 1, Pad)];
        offset *= 2;
    }
    if (t == 0)
        s[at(511, Pad)] = 0;
    for (int d = 1; d < 512; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            int i = at(offset * (2 * t + 1) - 1, Pad), j = at(offset * (2 * t + 2) - 1, Pad);
            float left = s[i];
            s[i] = s[j];
            s[j] += left;
        }
    }
    __syncthreads();
    out[t] = s[at(t, Pad)];
    out[t + 256] = s[at(t + 256, Pad)];
}

extern "C" __global__ void scan_tree(const float *in, float *out) { scanned<false>(in, out); }
extern "C" __global__ void scan_padded(const float *in, float *out) { scanned<true>(in, out); }

#define REACH 8

extern "C" __global__ void stencil_global(const float *in, float *out)
{
    int i = blockIdx.x * 256 + threadIdx.x + REACH;
    float sum = 0;
    for (int k = -REACH; k <= REACH; k++)
        sum += in[i + k];
    out[i] = sum;
}

extern "C" __global__ void stencil_shared(const float *in, float *out)
{
    __shared__ float s[256 + 2 * REACH];
    int i = blockIdx.x * 256 + threadIdx.x + REACH, t = threadIdx.x + REACH;
    s[t] = in[i];
    if (threadIdx.x < REACH) {
        s[threadIdx.x] = in[i - REACH];
        s[t + 256] = in[i + 256];
    }
    __syncthreads();
    float sum = 0;
    for (int k = -REACH; k <= REACH; k++)
        sum += s[t + k];
    out[i] = sum;
}

extern "C" __global__ void banks(float *out, int stride, int rounds)
{
    __shared__ volatile float s[32 * 33];
    int at = threadIdx.x % 32 * stride % (32 * 32);
    float sum = 0;
    for (int k = 0; k < rounds; k++)
        sum += s[at];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""

#: Arithmetic: pipes, latency, divergence.
ARITHMETIC = r"""
template <int Chains> __device__ void chained(float *out, int rounds)
{
    float v[Chains];
    for (int c = 0; c < Chains; c++)
        v[c] = threadIdx.x + c;
    for (int k = 0; k < rounds; k++)
        #pragma unroll
        for (int r = 0; r < 16; r++)
            #pragma unroll
            for (int c = 0; c < Chains; c++)
                v[c] = v[c] * 1.0001f + 0.5f;
    float sum = 0;
    for (int c = 0; c < Chains; c++)
        sum += v[c];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

extern "C" __global__ void chains_1(float *out, int rounds) { chained<1>(out, rounds); }
extern "C" __global__ void chains_2(float *out, int rounds) { chained<2>(out, rounds); }
extern "C" __global__ void chains_4(float *out, int rounds) { chained<4>(out, rounds); }

extern "C" __global__ void doubles(double *out, int rounds)
{
    double a = threadIdx.x, b = a + 1, c = a + 2, d = a + 3;
    for (int k = 0; k < rounds; k++) {
        #pragma unroll
        for (int r = 0; r < 16; r++) {
            a = a * 1.0001 + 0.5;
            b = b * 1.0001 + 0.5;
            c = c * 1.0001 + 0.5;
            d = d * 1.0001 + 0.5;
        }
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = a + b + c + d;
}

extern "C" __global__ void exponentials(float *out, int rounds)
{
    float a = threadIdx.x, b = a + 1, c = a + 2, d = a + 3;
    for (int k = 0; k < rounds; k++) {
        #pragma unroll
        for (int r = 0; r < 16; r++) {
            asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(a));
            asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(b));
            asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(c));
            asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(d));
        }
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = a + b + c + d;
}

__device__ __forceinline__ float busy(float v, int rounds)
{
    for (int k = 0; k < rounds; k++)
        v = v * v + 0.25f;
    return v;
}

extern "C" __global__ void together(float *out, int rounds)
{
    float v = threadIdx.x;
    if (threadIdx.x / 32 % 2 == 0)
        v = busy(v, rounds);
    else
        v = busy(v + 1, rounds);
    out[blockIdx.x * blockDim.x + threadIdx.x] = v;
}

extern "C" __global__ void apart(float *out, int rounds)
{
    float v = threadIdx.x;
    if (threadIdx.x % 2 == 0)
        v = busy(v, rounds);
    else
        v = busy(v + 1, rounds);
    out[blockIdx.x * blockDim.x + threadIdx.x] = v;
}

extern "C" __global__ void divides(int *out, const int *in, int by)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
    for (int k = 1; k <= 64; k++)
        sum += (i + k) / by;
    out[i] = sum;
}

extern "C" __global__ void shifts(int *out, const int *in, int by)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
    for (int k = 1; k <= 64; k++)
        sum += (i + k) >> by;
    out[i] = sum;
}

extern "C" __global__ void waits(float *out, int rounds) { out[threadIdx.x] = busy(threadIdx.x, rounds); }
extern "C" __global__ void nothing() {}
"""

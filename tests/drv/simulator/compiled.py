"""Kernels for tests, compiled once a run."""

from __future__ import annotations

import functools

from cuda.bindings import nvrtc


@functools.cache
def ptx(source: str, *options: str, architecture: str = "compute_75") -> bytes:
    """PTX of CUDA source, ending with a zero byte."""
    result, program = nvrtc.nvrtcCreateProgram(source.encode(), b"test.cu", 0, [], [])
    assert int(result) == 0
    flags = [f"--gpu-architecture={architecture}".encode(), *(o.encode() for o in options)]
    (result,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
    if int(result):
        size = nvrtc.nvrtcGetProgramLogSize(program)[1]
        log = b" " * size
        nvrtc.nvrtcGetProgramLog(program, log)
        raise AssertionError(log.decode())
    size = nvrtc.nvrtcGetPTXSize(program)[1]
    text = b" " * size
    nvrtc.nvrtcGetPTX(program, text)
    return text


KERNELS = r"""
__device__ int counter = 41;
__constant__ float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};
__device__ int *pointer_to_counter = &counter;

extern "C" __global__ void axpy(float *out, const float *x, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] += a * x[i];
}

extern "C" __global__ void count(int *out)
{
    *out = atomicAdd(&counter, 1) + *pointer_to_counter * 1000;
}

extern "C" __global__ void scale_by_table(float *out)
{
    out[threadIdx.x] *= table[threadIdx.x & 3];
}

struct Pair { char a; double b; };

extern "C" __global__ void mixed(char c, double *out, short s, Pair pair, bool flag)
{
    *out = c + s + pair.a + pair.b + (flag ? 0.5 : 0.25);
}

extern "C" __global__ void __launch_bounds__(128) bounded(int *out)
{
    if (threadIdx.x == 0)
        *out = blockDim.x;
}

extern "C" __global__ void reversed(int *data)
{
    extern __shared__ int held[];
    held[threadIdx.x] = data[threadIdx.x];
    __syncthreads();
    data[threadIdx.x] = held[blockDim.x - 1 - threadIdx.x];
}

extern "C" __global__ void statically_shared(int *data)
{
    __shared__ int held[1024];
    held[threadIdx.x] = data[threadIdx.x];
    __syncthreads();
    data[threadIdx.x] = held[blockDim.x - 1 - threadIdx.x];
}

__device__ int *kept;

extern "C" __global__ void allocates()
{
    kept = new int[4];
    kept[0] = 7;
}

extern "C" __global__ void reads_kept(int *out)
{
    *out = kept[0];
}

__shared__ double module_scope[100];

__device__ __noinline__ double shared_sum(int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += module_scope[i];
    return sum;
}

extern "C" __global__ void shares_at_module_scope(double *out, int n)
{
    module_scope[threadIdx.x] = threadIdx.x;
    __syncthreads();
    *out = shared_sum(n);
}

extern "C" __global__ void wild(int *data)
{
    data[threadIdx.x] = 1;
}

extern "C" __global__ void nothing()
{
}
"""

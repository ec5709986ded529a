"""Kernels that several tests of the driver layer launch."""

from __future__ import annotations

import pytest

import drv
from drv.compiler import architecture_of

SOURCE = """
extern "C" {
__device__ int counter = 7;
__constant__ float table[4];

__global__ void fill(float* out, float value, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = value;
}
__global__ void scale(float* out, const float* in, double factor, long long n)
{
    for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = in[i] * factor;
}
__global__ void nothing() {}
__global__ void stray(int* out) { out[1 << 24] = 1; }

struct Pair { char a; double b; };
__global__ void every_type(bool p, signed char a, unsigned char b, short c, unsigned short d, int e,
                           unsigned f, long long g, unsigned long long h, float i, double j, Pair k,
                           double* out)
{
    double all[13] = {(double)p, (double)a, (double)b, (double)c, (double)d, (double)e, (double)f,
                      (double)g, (double)h, (double)i, j, (double)k.a, k.b};
    for (int n = 0; n < 13; ++n) out[n] = all[n];
}
__global__ void reversed(int* out)
{
    extern __shared__ int line[];
    line[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = line[blockDim.x - 1 - threadIdx.x];
}
}
"""


def load(device: drv.Device) -> drv.Module:
    """The kernels above, on ``device``."""
    program = drv.compile_program(SOURCE, architecture_of(device), name="kernels.cu", line_info=True)
    return drv.Module(program.image, device)


@pytest.fixture
def module(device: drv.Device) -> drv.Module:
    return load(device)

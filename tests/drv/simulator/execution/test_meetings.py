"""Lanes of a warp that meet, also where their ways are different ones."""

from __future__ import annotations

import numpy as np
import pytest

from .kernels import Kernels, ints

KERNELS = Kernels(
    r"""
extern "C" {
__global__ void two_branches(int* out)
{
    __shared__ int line[32];
    int t = threadIdx.x;
    if (t & 1) { line[t] = t; __syncwarp(); out[t] = line[t - 1]; }
    else { line[t] = 100 + t; __syncwarp(); out[t] = line[t + 1]; }
}

__device__ __noinline__ int low(int* line, int t) { line[t] = t; __syncwarp(); return line[t ^ 31]; }
__device__ __noinline__ int high(int* line, int t) { line[t] = t + 100; __syncwarp(); return line[t ^ 31]; }
__global__ void two_functions(int* out)
{
    __shared__ int line[32];
    int t = threadIdx.x;
    out[t] = t < 16 ? low(line, t) : high(line, t);
}

// The halves of warp 0 meet in two calls of one function, while warp 1 polls for what follows.
__device__ __noinline__ void meet(unsigned mask) { __syncwarp(mask); }
__global__ void meet_while_others_poll(int* out)
{
    __shared__ volatile int flag;
    int t = threadIdx.x;
    if (t == 0) flag = 0;
    __syncthreads();
    if (t >= 32) while (flag == 0);
    else if (t % 2) meet(0xFFFFFFFF);
    else { for (volatile int i = 0; i < 5; ++i); meet(0xFFFFFFFF); if (t == 0) flag = 1; }
    out[t] = 1;
}

__device__ __noinline__ int third(int t) { return __shfl_sync(0xFFFFFFFF, t, 3); }
// The other half of the warp ends while the first one waits for it inside the function.
__global__ void others_end_later(int* out)
{
    int t = threadIdx.x;
    if (t < 16) out[t] = third(t);
    else for (volatile int i = 0; i < t; ++i);
}

__global__ void halves_apart(int* out)
{
    int t = threadIdx.x;
    if (t < 16) out[t] = __shfl_xor_sync(0x0000FFFF, t, 1);
    else out[t] = __shfl_xor_sync(0xFFFF0000, t, 2);
}

__global__ void together_after_loops(int* out)
{
    for (volatile int i = 0; i < (int)threadIdx.x * 10; ++i);
    if (threadIdx.x < 7) return;
    out[threadIdx.x] = __popc(__activemask());
}

__global__ void barrier_in_both_branches(int* out)
{
    __shared__ int line[64];
    int t = threadIdx.x;
    line[t] = t;
    if (t < 40) { __syncthreads(); out[t] = line[63 - t]; }
    else { __syncthreads(); out[t] = -line[63 - t]; }
}

__global__ void reductions_at_barriers(int* out)
{
    int t = threadIdx.x;
    int count = __syncthreads_count(t % 3 == 0), any = __syncthreads_or(t == 70), all = __syncthreads_and(t < 90);
    out[blockIdx.x * blockDim.x + t] = count * 100 + any * 10 + all;
}

__global__ void a_block_of_45(int* out)
{
    int t = threadIdx.x;
    out[t] = __shfl_up_sync(0xFFFFFFFF, t, 1) + 1000 * __popc(__ballot_sync(0xFFFFFFFF, t & 1));
}
}
"""
)


@pytest.mark.parametrize("check", ["on", "full"])
def test_warp_barriers_in_two_branches(check: str) -> None:
    out = ints(count=32)
    KERNELS.run("two_branches", 1, 32, out, check=check)
    t = np.arange(32)
    assert (out == np.where(t & 1, 100 + t - 1, t + 1)).all()


def test_warp_barriers_in_two_functions() -> None:
    out = ints(count=32)
    KERNELS.run("two_functions", 1, 32, out)
    t = np.arange(32)
    assert (out == np.where(t < 16, (t ^ 31) + 100, t ^ 31)).all()


def test_warp_barriers_while_other_warps_poll() -> None:
    out = ints(count=64)
    KERNELS.run("meet_while_others_poll", 1, 64, out)
    assert out.all()


def test_nobody_waits_for_threads_that_have_ended() -> None:
    out = ints(count=32)
    KERNELS.run("others_end_later", 1, 32, out)
    assert (out[:16] == 3).all()


def test_halves_of_a_warp_meet_apart() -> None:
    out = ints(count=32)
    KERNELS.run("halves_apart", 1, 32, out)
    t = np.arange(32)
    assert (out == np.where(t < 16, t ^ 1, t ^ 2)).all()


def test_lanes_meet_again_after_loops_of_different_lengths() -> None:
    out = ints(count=32)
    KERNELS.run("together_after_loops", 1, 32, out)
    assert (out[7:] == 25).all()


def test_one_barrier_at_two_places() -> None:
    out = ints(count=64)
    KERNELS.run("barrier_in_both_branches", 1, 64, out)
    t = np.arange(64)
    assert (out == np.where(t < 40, 63 - t, t - 63)).all()


@pytest.mark.parametrize(("block", "expected"), [(96, 3210), (64, 2201), (71, 2411)])
def test_reductions_at_barriers(block: int, expected: int) -> None:
    out = ints(count=2 * block)
    KERNELS.run("reductions_at_barriers", 2, block, out)
    assert (out == expected).all()


def test_a_warp_that_is_not_full() -> None:
    out = ints(count=45)
    KERNELS.run("a_block_of_45", 1, 45, out)
    t = np.arange(45)
    from_lane = np.where(t % 32 == 0, t, t - 1)
    assert (out == from_lane + 1000 * np.where(t < 32, 16, 6)).all()

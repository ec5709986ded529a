"""Threads that wait for each other: all get their turns, and a kernel that cannot end is stopped."""

from __future__ import annotations

import re

import numpy as np
import pytest

import drv

from .kernels import Kernels, ints

KERNELS = Kernels(
    r"""
extern "C" {
__device__ __noinline__ void take(int* lock) { while (atomicCAS(lock, 0, 1) != 0); __threadfence(); }
__device__ __noinline__ void give(int* lock) { __threadfence(); atomicExch(lock, 0); }

// Lanes of a warp hold the lock one after the other, which they take inside a function.
__global__ void count_under_lock(int* lock, volatile int* total)
{
    take(lock);
    *total = *total + 1;
    give(lock);
}

__device__ __noinline__ void wait_for(volatile int* flag) { while (*flag == 0); }
__device__ __noinline__ void set(volatile int* flag) { *flag = 1; }

__global__ void call_each_other(int* flag, int* out)
{
    if (threadIdx.x % 2) wait_for(flag); else set(flag);
    out[threadIdx.x] = 1;
}

__global__ void poll_plainly(int* flag, int* out)
{
    int seen;
    if (threadIdx.x == 5) *flag = 1;
    else do { asm volatile("ld.global.b32 %0, [%1];" : "=r"(seen) : "l"(flag)); } while (seen == 0);
    out[threadIdx.x] = 1;
}

// Warps 0 and 2 meet at a barrier of their own while warp 1 polls what warp 0 writes afterwards.
__global__ void poll_behind_barrier(int* out)
{
    __shared__ volatile int flag;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    int warp = threadIdx.x / 32;
    if (warp != 1) asm volatile("bar.sync 1, 64;");
    if (threadIdx.x == 0) flag = 7;
    if (warp == 1) while (flag == 0);
    __syncthreads();
    out[threadIdx.x] = flag;
}

__global__ void first_waits_for_last(volatile int* flag, int* out)
{
    if (threadIdx.x == 0) {
        if (blockIdx.x == 0) while (*flag == 0);
        if (blockIdx.x == gridDim.x - 1) *flag = 1;
    }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

__global__ void back_off(volatile int* flag, int* out)
{
    if (threadIdx.x == 0) for (unsigned ns = 8; *flag == 0; ns = min(ns * 2, 256)) __nanosleep(ns);
    if (threadIdx.x == 64) *flag = 1;
    __syncthreads();
    out[threadIdx.x] = 1;
}

// Some lanes poll for long while others work for longer than that.
__global__ void long_work(volatile int* flag, volatile int* scratch, int* out)
{
    if (threadIdx.x == 0) { for (int i = 0; i < 3000; ++i) *scratch += i; *flag = 1; }
    else while (*flag == 0);
    out[threadIdx.x] = 1;
}

__global__ void poll_forever(volatile int* flag) { while (*flag != 77); }
__global__ void lock_twice(int* lock) { take(lock); take(lock); }
__global__ void spin_forever(int* out) { for (;;) asm volatile(""); }
__global__ void spin_while_others_wait(int* out)
{
    if (threadIdx.x < 16) __syncthreads();
    else for (;;) asm volatile("");
}
__global__ void barrier_of_absent_threads(int* out) { asm volatile("bar.sync 1, 64;"); }
__global__ void lanes_of_absent_lanes(int* out)
{
    if (threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFF, threadIdx.x, 1);
    else asm volatile("bar.sync 1, 32;");
}
}
"""
)


@pytest.mark.parametrize(("grid", "block"), [(1, 1), (1, 33), (3, 40), (60, 4)])
def test_lock_in_a_function(grid: int, block: int) -> None:
    total = ints(count=1)
    KERNELS.run("count_under_lock", grid, block, ints(count=1), total)
    assert total[0] == grid * block


@pytest.mark.parametrize("name", ["call_each_other", "poll_plainly", "back_off"])
@pytest.mark.parametrize("check", ["off", "on", "race"])
def test_polling_lanes_give_way(name: str, check: str) -> None:
    out = ints(count=96)
    KERNELS.run(name, 1, 96, ints(count=1), out, check=check)
    assert out.all()


def test_polling_behind_a_barrier() -> None:
    out = ints(count=96)
    KERNELS.run("poll_behind_barrier", 1, 96, out)
    assert (out == 7).all()


@pytest.mark.parametrize("grid", [2, 40, 100])
def test_a_block_that_waits_for_a_later_one(grid: int) -> None:
    out = ints(count=grid * 256)
    KERNELS.run("first_waits_for_last", grid, 256, ints(count=1), out)
    assert out.all()


def test_waiting_for_long_work() -> None:
    out, scratch = ints(count=64), ints(count=1)
    KERNELS.run("long_work", 1, 64, ints(count=1), scratch, out)
    assert scratch[0] == 3000 * 2999 // 2
    assert out.all()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("poll_forever", "does not end.*32 threads.*ld.volatile"),
        ("lock_twice", "does not end"),
        ("spin_forever", "does not end.*32 threads"),
        ("spin_while_others_wait", "does not end.*16 threads.*wait at a barrier.*16 threads"),
        ("barrier_of_absent_threads", "hangs.*32 threads.*wait at a barrier.*bar.sync 1, 64"),
        ("lanes_of_absent_lanes", "hangs.*16 threads.*wait"),
    ],
)
def test_kernels_that_cannot_end(name: str, words: str) -> None:
    with pytest.raises(drv.CudaError, match="LAUNCH_TIMEOUT") as caught:
        KERNELS.run(name, 1, 32, ints(count=64))
    message = " ".join(str(caught.value).split())
    assert re.search(words, message), message


GRID = Kernels(
    r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void reversed(int* out, int* valid)
{
    cg::grid_group grid = cg::this_grid();
    int i = grid.thread_rank(), n = grid.size();
    if (i == 0) valid[0] = grid.is_valid();
    for (int round = 0; round < 3; ++round) {
        out[i] = i;
        grid.sync();
        int value = out[n - 1 - i];
        grid.sync();
        out[i] = value;
    }
}
""",
    "--std=c++17",
)


@pytest.mark.parametrize("capability", ["7.5", "9.0", "10.0"])
@pytest.mark.parametrize("check", ["on", "full"])
def test_barrier_of_a_cooperative_launch(capability: str, check: str) -> None:
    out, valid = ints(count=40 * 192), ints(count=1)
    GRID.run("reversed", 40, 192, out, valid, cooperative=True, capability=capability, check=check)
    assert valid[0] == 1
    assert (out == np.arange(out.size)[::-1]).all()


def test_no_grid_barrier_without_a_cooperative_launch() -> None:
    valid = ints(1)
    with pytest.raises(drv.CudaError):
        GRID.run("reversed", 2, 32, ints(count=64), valid)

"""Threads that coordinate through memory: histograms, locks, tickets, queues, flags, fences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drv.simulator.kernels.conftest import Launch, few_examples

SOURCE = r"""
extern "C" __global__ void histogram(const unsigned char* in, unsigned* out, int n) {
    __shared__ unsigned bins[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x) bins[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[in[i]], 1u);
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x)
        if (bins[b]) atomicAdd(&out[b], bins[b]);
}

class Mutex {
  public:
    __device__ void lock() {
        while (atomicCAS(&state_, 0, 1) != 0) {}
        __threadfence();
    }
    __device__ void unlock() {
        __threadfence();
        atomicExch(&state_, 0);
    }

  private:
    int state_;
};

__device__ Mutex mutex;

// One thread of each block holds the lock.
extern "C" __global__ void lock_per_block(volatile int* total, volatile double* log) {
    if (threadIdx.x == 0) {
        mutex.lock();
        int at = *total;
        log[at] = sqrt((double)at);
        *total = at + 1;
        mutex.unlock();
    }
}

// All lanes of a warp compete: this ends only where divergent lanes make progress on their own.
extern "C" __global__ void lock_per_thread(int* locks, volatile int* balance, const int* account, const int* amount) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int mine = account[i];
    bool done = false;
    while (!done) {
        if (atomicExch(&locks[mine], 1) == 0) {
            balance[mine] = balance[mine] * 3 + amount[i];
            __threadfence();
            atomicExch(&locks[mine], 0);
            done = true;
        }
    }
}
extern "C" __global__ void lock_in_a_straight_line(int* lock, volatile long long* sum) {
    while (atomicCAS(lock, 0, 1)) {}
    __threadfence();
    *sum = *sum + threadIdx.x;
    __threadfence();
    atomicExch(lock, 0);
}

// First come, first served.
extern "C" __global__ void ticket_lock(unsigned* tickets, volatile unsigned* serving, int* order) {
    unsigned mine = atomicAdd(tickets, 1u);
    while (*serving != mine) {}
    order[mine] = blockIdx.x * blockDim.x + threadIdx.x;
    __threadfence();
    *serving = mine + 1;
}

extern "C" __global__ void append(const int* in, int* out, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && in[i] % 7 == 3) out[atomicAdd(count, 1)] = i;
}

// Threads take work from one queue until it is empty.
extern "C" __global__ void persistent(int* next, const int* work, int* result, int n) {
    for (;;) {
        int i = atomicAdd(next, 1);
        if (i >= n) return;
        int steps = 0;
        for (int w = work[i]; w > 0; w /= 3) ++steps;
        result[i] = steps;
    }
}

// A barrier of the whole grid, as programs make it without cooperative launches.
__device__ void grid_barrier(volatile int* arrived, int goal) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd((int*)arrived, 1);
        while (*arrived < goal) {}
        __threadfence();
    }
    __syncthreads();
}
extern "C" __global__ void jacobi(float* a, float* b, int n, int steps, int* arrived) {
    float *from = a, *to = b;
    for (int step = 1; step <= steps; ++step) {
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
            to[i] = 0.5f * (__ldcg(from + max(i - 1, 0)) + __ldcg(from + min(i + 1, n - 1)));
        float* t = from; from = to; to = t;
        grid_barrier(arrived, step * gridDim.x);
    }
}

// One warp produces, another consumes, through a ring in shared memory.
extern "C" __global__ void producer_consumer(const int* in, int* out, int n) {
    __shared__ volatile int ring[4][32];
    __shared__ volatile int produced, consumed;
    if (threadIdx.x == 0) produced = consumed = 0;
    __syncthreads();
    int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int step = 0; step < n; ++step) {
            while (step - consumed >= 4) {}
            ring[step % 4][lane] = in[step * 32 + lane] * 2;
            __threadfence_block();
            __syncwarp();
            if (lane == 0) produced = step + 1;
        }
    } else {
        for (int step = 0; step < n; ++step) {
            while (produced <= step) {}
            out[step * 32 + lane] = ring[step % 4][lane] + 1;
            __threadfence_block();
            __syncwarp();
            if (lane == 0) consumed = step + 1;
        }
    }
}

// Named barriers: half of the block goes its own way and meets itself.
extern "C" __global__ void named_barriers(int* out) {
    __shared__ int cells[128];
    int half = threadIdx.x / 64, at = threadIdx.x % 64;
    cells[threadIdx.x] = 10 * threadIdx.x;
    if (half == 0) {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        out[threadIdx.x] = cells[63 - at];
    } else {
        asm volatile("bar.sync 2, 64;" ::: "memory");
        int value = cells[64 + (at + 1) % 64];
        asm volatile("bar.sync 2, 64;" ::: "memory");
        cells[threadIdx.x] = value + 1;
        asm volatile("barrier.sync 2, 64;" ::: "memory");
        out[threadIdx.x] = cells[64 + (at + 1) % 64];
    }
}

// Producers arrive and go on; consumers wait for them.
extern "C" __global__ void arrive_and_wait(int* out) {
    __shared__ int cells[32];
    if (threadIdx.x < 32) {
        cells[threadIdx.x] = threadIdx.x * threadIdx.x;
        __threadfence_block();
        asm volatile("bar.arrive 3, 64;" ::: "memory");
        out[threadIdx.x] = -1;
    } else {
        asm volatile("bar.sync 3, 64;" ::: "memory");
        out[threadIdx.x] = cells[63 - threadIdx.x];
    }
}

// Some threads have left before the others meet.
extern "C" __global__ void barrier_after_exit(int* out) {
    __shared__ int sum;
    if (threadIdx.x >= 50) return;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, 1);
    __syncthreads();
    out[threadIdx.x] = sum;
}

// A barrier in a loop in a branch that whole blocks take or do not take.
extern "C" __global__ void barrier_in_a_branch(int* out) {
    __shared__ int cells[64];
    cells[threadIdx.x] = threadIdx.x;
    if (blockIdx.x % 2) {
        for (int round = 0; round < (int)blockIdx.x; ++round) {
            __syncthreads();
            int next = cells[(threadIdx.x + 1) % blockDim.x];
            __syncthreads();
            cells[threadIdx.x] = next;
        }
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = cells[threadIdx.x];
}
"""


@few_examples
@given(n=st.integers(1, 9000), blocks=st.integers(1, 6), threads=st.integers(1, 400))
def test_histogram(launch: Launch, n: int, blocks: int, threads: int) -> None:
    values = (np.random.default_rng(n).standard_normal(n) * 40 + 128).clip(0, 255).astype(np.uint8)
    bins = np.zeros(256, np.uint32)
    launch(SOURCE, blocks, threads, values, bins, np.int32(n), name="histogram")
    np.testing.assert_array_equal(bins, np.bincount(values, minlength=256))


@pytest.mark.parametrize("blocks", [1, 2, 64])
def test_lock_of_blocks(launch: Launch, blocks: int) -> None:
    total, log = np.zeros(1, np.int32), np.zeros(blocks)
    launch(SOURCE, blocks, 33, total, log, name="lock_per_block")
    assert total[0] == blocks
    np.testing.assert_array_equal(log, np.sqrt(np.arange(blocks)))


def test_lock_of_threads(launch: Launch) -> None:
    account = np.random.default_rng(0).integers(0, 12, 2 * 64).astype(np.int32)
    amount = np.ones(len(account), np.int32)
    locks, balance = np.zeros((2, 12), np.int32)
    launch(SOURCE, 2, 64, locks, balance, account, amount, name="lock_per_thread")
    expected = np.zeros(12, np.int32)
    for cell in account:
        expected[cell : cell + 1] = expected[cell : cell + 1] * 3 + 1
    np.testing.assert_array_equal(balance, expected)
    assert not locks.any()


def test_lock_in_a_straight_line(launch: Launch) -> None:
    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int64)
    launch(SOURCE, 1, 64, lock, total, name="lock_in_a_straight_line")
    assert total[0] == 64 * 63 // 2


def test_ticket_lock(launch: Launch) -> None:
    tickets, serving = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    order = np.full(96, -1, np.int32)
    launch(SOURCE, 3, 32, tickets, serving, order, name="ticket_lock")
    assert tickets[0] == serving[0] == 96
    np.testing.assert_array_equal(np.sort(order), np.arange(96))


@few_examples
@given(n=st.integers(1, 3000), threads=st.integers(1, 512))
def test_append(launch: Launch, n: int, threads: int) -> None:
    values = np.random.default_rng(n).integers(0, 100, n).astype(np.int32)
    out, count = np.full(n, -1, np.int32), np.zeros(1, np.int32)
    launch(SOURCE, -(-n // threads), threads, values, out, count, np.int32(n), name="append")
    expected = np.flatnonzero(values % 7 == 3)
    assert count[0] == len(expected)
    np.testing.assert_array_equal(np.sort(out[: len(expected)]), expected)


@pytest.mark.parametrize(("blocks", "threads"), [(1, 1), (2, 32), (4, 100)])
def test_persistent_threads(launch: Launch, blocks: int, threads: int) -> None:
    work = np.random.default_rng(0).integers(0, 2**31, 60).astype(np.int32)
    work[5] = 0
    following, result = np.zeros(1, np.int32), np.full(60, -1, np.int32)
    launch(SOURCE, blocks, threads, following, work, result, np.int32(60), name="persistent")
    np.testing.assert_array_equal(result, [0 if w == 0 else len(np.base_repr(w, 3)) for w in work])
    assert following[0] == 60 + blocks * threads


@pytest.mark.parametrize("blocks", [1, 5, 60])
def test_barrier_of_the_grid(launch: Launch, blocks: int) -> None:
    a = np.random.default_rng(0).integers(0, 64, 700).astype(np.float32)
    expected = a.astype(np.float64)
    for _ in range(6):
        padded = np.pad(expected, 1, mode="edge")
        expected = (padded[:-2] + padded[2:]) / 2
    b, arrived = np.zeros_like(a), np.zeros(1, np.int32)
    launch(SOURCE, blocks, 128, a, b, np.int32(700), np.int32(6), arrived, name="jacobi")
    np.testing.assert_array_equal(a, expected)


def test_warps_that_feed_each_other(launch: Launch) -> None:
    values = np.arange(20 * 32, dtype=np.int32)
    out = np.zeros_like(values)
    launch(SOURCE, 1, 64, values, out, np.int32(20), name="producer_consumer")
    np.testing.assert_array_equal(out, values * 2 + 1)


def test_named_barriers(launch: Launch) -> None:
    out = np.zeros(128, np.int32)
    launch(SOURCE, 1, 128, out, name="named_barriers")
    at = np.arange(64)
    expected = [10 * (63 - at), 10 * (64 + (at + 2) % 64) + 1]
    np.testing.assert_array_equal(out, np.concatenate(expected))


def test_arrival_without_waiting(launch: Launch) -> None:
    out = np.zeros(64, np.int32)
    launch(SOURCE, 1, 64, out, name="arrive_and_wait")
    assert (out[:32] == -1).all()
    np.testing.assert_array_equal(out[32:], np.arange(31, -1, -1) ** 2)


def test_barrier_after_some_threads_left(launch: Launch) -> None:
    out = np.zeros(50, np.int32)
    launch(SOURCE, 1, 96, out, name="barrier_after_exit")
    assert (out == 50).all()


def test_barrier_in_a_branch(launch: Launch) -> None:
    out = np.zeros((8, 64), np.int32)
    launch(SOURCE, 8, 64, out, name="barrier_in_a_branch")
    block = np.arange(8)[:, None]
    np.testing.assert_array_equal(out, (np.arange(64) + np.where(block % 2, block, 0)) % 64)

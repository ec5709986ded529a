"""Shuffles, votes, ballots, matches and warp reductions, and what programs build from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drv.simulator.kernels.conftest import Launch, few_examples

if TYPE_CHECKING:
    from collections.abc import Callable

SHUFFLES = r"""
template <typename T> __device__ void all_shuffles(const T* in, T* out, const int* amount, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    T value = in[i];
    int by = amount[i];
    out[i] = __shfl_sync(0xffffffffu, value, by, width);
    out[n + i] = __shfl_up_sync(0xffffffffu, value, amount[0] & 31, width);
    out[2 * n + i] = __shfl_down_sync(0xffffffffu, value, amount[0] & 31, width);
    out[3 * n + i] = __shfl_xor_sync(0xffffffffu, value, amount[0] & 31, width);
}
#define SHUFFLES(T, NAME) \
    extern "C" __global__ void NAME(const T* in, T* out, const int* amount, int width) { \
        all_shuffles(in, out, amount, width); \
    }
SHUFFLES(int, shuffle_int)
SHUFFLES(unsigned, shuffle_unsigned)
SHUFFLES(long long, shuffle_long)
SHUFFLES(float, shuffle_float)
SHUFFLES(double, shuffle_double)
"""

VOTES = r"""
extern "C" __global__ void votes(const int* in, unsigned* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = in[i];
    unsigned* row = out + 6 * i;
    row[0] = __ballot_sync(~0u, value & 1);
    row[1] = __all_sync(~0u, value > 0);
    row[2] = __any_sync(~0u, value == 3);
    row[3] = __match_any_sync(~0u, value);
    int same;
    row[4] = __match_all_sync(~0u, value / 16, &same);
    row[5] = same;
}

extern "C" __global__ void match_long(const unsigned long long* in, unsigned* out) {
    out[threadIdx.x] = __match_any_sync(~0u, in[threadIdx.x]);
}

// Votes of the lanes that took one side of a branch.
extern "C" __global__ void active(const int* in, unsigned* out) {
    int value = in[threadIdx.x];
    if (value % 2) {
        unsigned mask = __activemask();
        out[threadIdx.x] = __ballot_sync(mask, value > 10);
    } else {
        unsigned mask = __activemask();
        out[threadIdx.x] = __reduce_add_sync(mask, (unsigned)value);
    }
}

extern "C" __global__ void redux(const int* in, int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int v = in[i];
    int* row = out + 8 * i;
    row[0] = __reduce_add_sync(~0u, v);
    row[1] = __reduce_min_sync(~0u, v);
    row[2] = __reduce_max_sync(~0u, v);
    row[3] = __reduce_and_sync(~0u, (unsigned)v);
    row[4] = __reduce_or_sync(~0u, (unsigned)v);
    row[5] = __reduce_xor_sync(~0u, (unsigned)v);
    row[6] = __reduce_min_sync(~0u, (unsigned)v);
    row[7] = __reduce_max_sync(~0u, (unsigned)v);
}

// Only half of the warp takes part; the mask says which.
extern "C" __global__ void halves(const int* in, int* out) {
    int lane = threadIdx.x & 31;
    unsigned mask = lane < 16 ? 0x0000ffffu : 0xffff0000u;
    int v = in[threadIdx.x];
    if (lane < 16) {
        for (int offset = 8; offset; offset >>= 1) v += __shfl_xor_sync(mask, v, offset);
    } else {
        for (int offset = 8; offset; offset >>= 1) v = max(v, __shfl_xor_sync(mask, v, offset));
    }
    out[threadIdx.x] = v;
}

extern "C" __global__ void lanes(unsigned* out) {
    unsigned lane, eq, lt, le, gt, ge;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm volatile("mov.u32 %0, %%lanemask_eq;" : "=r"(eq));
    asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(lt));
    asm volatile("mov.u32 %0, %%lanemask_le;" : "=r"(le));
    asm volatile("mov.u32 %0, %%lanemask_gt;" : "=r"(gt));
    asm volatile("mov.u32 %0, %%lanemask_ge;" : "=r"(ge));
    unsigned t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    unsigned* row = out + 6 * t;
    row[0] = lane; row[1] = eq; row[2] = lt; row[3] = le; row[4] = gt; row[5] = ge;
}
"""

PROGRAMS = r"""
__device__ int counter;

// Each warp appends its positives with one atomic.
extern "C" __global__ void filter(const int* in, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = i < n ? in[i] : -1;
    bool keep = value > 0;
    unsigned ballot = __ballot_sync(~0u, keep);
    int lane = threadIdx.x % 32, base = 0;
    if (lane == 0) base = atomicAdd(&counter, __popc(ballot));
    base = __shfl_sync(~0u, base, 0);
    if (keep) out[base + __popc(ballot & ((1u << lane) - 1))] = value;
}

// Warp-aggregated increments, elected among whoever is there.
__device__ int aggregated_increment(int* target) {
    unsigned mask = __activemask();
    int leader = __ffs(mask) - 1, lane = threadIdx.x & 31, old = 0;
    if (lane == leader) old = atomicAdd(target, __popc(mask));
    old = __shfl_sync(mask, old, leader);
    return old + __popc(mask & ((1u << lane) - 1));
}
extern "C" __global__ void append_odd(const int* in, int* out, int* count, int n) {
    for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += blockDim.x * gridDim.x)
        if (in[i] & 1) out[aggregated_increment(count)] = in[i];
}

// A histogram in which lanes with the same key elect one of them.
extern "C" __global__ void match_histogram(const unsigned char* in, int* bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned present = __ballot_sync(~0u, i < n);
    if (i >= n) return;
    unsigned peers = __match_any_sync(present, (unsigned)in[i]);
    if ((threadIdx.x & 31) == __ffs(peers) - 1) atomicAdd(&bins[in[i]], __popc(peers));
}

// A bitonic sort of 32 values without shared memory.
extern "C" __global__ void warp_sort(float* data) {
    float v = data[blockIdx.x * 32 + threadIdx.x];
    for (int size = 2; size <= 32; size *= 2)
        for (int stride = size / 2; stride; stride /= 2) {
            float other = __shfl_xor_sync(~0u, v, stride);
            bool up = (threadIdx.x & size) == 0, low = (threadIdx.x & stride) == 0;
            v = (low == up) ? fminf(v, other) : fmaxf(v, other);
        }
    data[blockIdx.x * 32 + threadIdx.x] = v;
}

// Lanes hand work round until all of them are done.
extern "C" __global__ void until_all_done(const int* in, int* rounds) {
    int left = in[threadIdx.x], count = 0;
    while (__any_sync(~0u, left > 0)) {
        --left;
        ++count;
    }
    rounds[threadIdx.x] = count;
}
"""

TYPES = {"int": np.int32, "unsigned": np.uint32, "long": np.int64, "float": np.float32, "double": np.float64}


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("width", [32, 16, 8, 4, 2, 1])
def test_shuffles(launch: Launch, name: str, width: int) -> None:
    random = np.random.default_rng(width)
    n = 3 * 64
    values = random.integers(0, 2**31, n).astype(TYPES[name])
    amount = random.integers(0, 64, n).astype(np.int32)
    by = int(amount[0]) & 31
    out = np.zeros((4, n), TYPES[name])
    launch(SHUFFLES, 3, 64, values, out, amount, np.int32(width), name=f"shuffle_{name}")
    i = np.arange(n)
    lane, start = i % width, i - i % width
    np.testing.assert_array_equal(out[0], values[start + amount % width])
    np.testing.assert_array_equal(out[1], values[np.where(lane - by >= 0, i - by, i)])
    np.testing.assert_array_equal(out[2], values[np.where(lane + by < width, np.minimum(i + by, n - 1), i)])
    # The exclusive or may reach segments before its own, not those behind.
    partner = (i % 32) ^ by
    partner = np.where(partner < i % 32 - lane + width, partner, i % 32)
    np.testing.assert_array_equal(out[3], values[i - i % 32 + partner])


def bits(flags: np.ndarray) -> np.ndarray:
    """Ballots (warps,) of flags (warps, 32)."""
    return (flags.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(1).astype(np.uint32)


def test_votes(launch: Launch) -> None:
    random = np.random.default_rng(0)
    values = random.integers(-2, 30, (8, 32)).astype(np.int32)
    values[1], values[2], values[3] = 5, random.integers(1, 16, 32), 3
    out = np.zeros((8, 32, 6), np.uint32)
    launch(VOTES, 2, 128, values, out, name="votes")
    sixteenth = np.trunc(values / 16)
    same = (sixteenth == sixteenth[:, :1]).all(1)
    expected = [
        bits(values & 1)[:, None],
        (values > 0).all(1)[:, None],
        (values == 3).any(1)[:, None],
        np.stack([bits(values == values[:, [lane]]) for lane in range(32)], axis=1),
        np.where(same, np.uint32(0xFFFFFFFF), 0)[:, None],
        same[:, None],
    ]
    for column, reference in enumerate(expected):
        np.testing.assert_array_equal(out[..., column], np.broadcast_to(reference, (8, 32)), str(column))


def test_match_of_64_bit_values(launch: Launch) -> None:
    values = np.random.default_rng(1).integers(0, 3, 32).astype(np.uint64) << np.uint64(33)
    out = np.zeros(32, np.uint32)
    launch(VOTES, 1, 32, values, out, name="match_long")
    np.testing.assert_array_equal(out, [bits((values == value)[None])[0] for value in values])


def test_votes_inside_a_branch(launch: Launch) -> None:
    values = np.random.default_rng(2).integers(0, 20, 64).astype(np.int32)
    out = np.zeros(64, np.uint32)
    launch(VOTES, 1, 64, values, out, name="active")
    warps = values.reshape(2, 32)
    odd = warps % 2 == 1
    ballots = bits(odd & (warps > 10))[:, None]
    sums = np.where(odd, 0, warps).sum(1)[:, None]
    np.testing.assert_array_equal(out.reshape(2, 32), np.where(odd, ballots, sums))


def test_warp_reductions(launch: Launch) -> None:
    values = np.random.default_rng(3).integers(-(2**31), 2**31, (4, 32)).astype(np.int32)
    out = np.zeros((4, 32, 8), np.int32)
    launch(VOTES, 2, 64, values, out, name="redux")
    unsigned = values.view(np.uint32)
    reductions: list[Callable[[], np.ndarray]] = [
        lambda: values.sum(1, dtype=np.int32),
        lambda: values.min(1),
        lambda: values.max(1),
        lambda: np.bitwise_and.reduce(values, 1),
        lambda: np.bitwise_or.reduce(values, 1),
        lambda: np.bitwise_xor.reduce(values, 1),
        lambda: unsigned.min(1).view(np.int32),
        lambda: unsigned.max(1).view(np.int32),
    ]
    for column, reference in enumerate(reductions):
        np.testing.assert_array_equal(out[..., column], np.repeat(reference()[:, None], 32, 1), str(column))


def test_shuffles_among_half_a_warp(launch: Launch) -> None:
    values = np.random.default_rng(4).integers(-100, 100, 96).astype(np.int32)
    out = np.zeros(96, np.int32)
    launch(VOTES, 1, 96, values, out, name="halves")
    groups = values.reshape(3, 2, 16)
    expected = np.stack([groups[:, 0].sum(1), groups[:, 1].max(1)], axis=1)
    np.testing.assert_array_equal(out, np.repeat(expected.ravel(), 16))


@pytest.mark.parametrize("block", [(70, 1, 1), (8, 4, 4), (5, 3, 6)])
def test_lanes_count_along_x_first(launch: Launch, block: tuple[int, int, int]) -> None:
    threads = int(np.prod(block))
    out = np.zeros((threads, 6), np.uint32)
    launch(VOTES, 1, block, out, name="lanes")
    lane = np.arange(threads, dtype=np.uint64) % 32
    eq = np.uint64(1) << lane
    lt, full = eq - 1, np.uint64(2**32 - 1)
    expected = np.stack([lane, eq, lt, lt | eq, full & ~(lt | eq), full & ~lt], axis=1)
    np.testing.assert_array_equal(out, expected)


@few_examples
@given(n=st.integers(1, 4000), warps=st.integers(1, 8))
def test_compaction_by_ballot(launch: Launch, n: int, warps: int) -> None:
    values = np.random.default_rng(n).integers(-50, 50, n).astype(np.int32)
    out = np.zeros(n, np.int32)
    launch.upload(PROGRAMS, "counter", np.zeros(1, np.int32))
    launch(PROGRAMS, -(-n // (32 * warps)), 32 * warps, values, out, np.int32(n), name="filter")
    selected = values[values > 0]
    count = launch.download(PROGRAMS, "counter", np.zeros(1, np.int32))
    assert count[0] == len(selected)
    np.testing.assert_array_equal(np.sort(out[: len(selected)]), np.sort(selected))


@few_examples
@given(n=st.integers(1, 3000), blocks=st.integers(1, 5), threads=st.integers(1, 300))
def test_warp_aggregated_atomics(launch: Launch, n: int, blocks: int, threads: int) -> None:
    values = np.random.default_rng(n).integers(0, 1000, n).astype(np.int32)
    out, count = np.zeros(n, np.int32), np.zeros(1, np.int32)
    launch(PROGRAMS, blocks, threads, values, out, count, np.int32(n), name="append_odd")
    odd = values[values % 2 == 1]
    assert count[0] == len(odd)
    np.testing.assert_array_equal(np.sort(out[: len(odd)]), np.sort(odd))


@pytest.mark.parametrize("n", [5, 64, 1000])
def test_histogram_by_match(launch: Launch, n: int) -> None:
    values = (np.random.default_rng(n).random(n) ** 3 * 20).astype(np.uint8)
    bins = np.zeros(20, np.int32)
    launch(PROGRAMS, -(-n // 128), 128, values, bins, np.int32(n), name="match_histogram")
    np.testing.assert_array_equal(bins, np.bincount(values, minlength=20))


def test_sort_within_a_warp(launch: Launch) -> None:
    values = np.random.default_rng(0).standard_normal((40, 32)).astype(np.float32)
    expected = np.sort(values, axis=1)
    launch(PROGRAMS, 40, 32, values, name="warp_sort")
    np.testing.assert_array_equal(values, expected)


def test_loop_until_every_lane_is_done(launch: Launch) -> None:
    values = np.random.default_rng(0).integers(-3, 40, 96).astype(np.int32)
    rounds = np.zeros(96, np.int32)
    launch(PROGRAMS, 1, 96, values, rounds, name="until_all_done")
    np.testing.assert_array_equal(
        rounds.reshape(3, 32), np.repeat(values.reshape(3, 32).max(1), 32).reshape(3, 32)
    )

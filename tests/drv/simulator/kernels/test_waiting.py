"""Threads that poll: for each other, for the clock, politely or not; and those that poll for ever."""

from __future__ import annotations

import numpy as np
import pytest

import drv
from tests.drv.simulator.kernels.conftest import Launch

SOURCE = r"""
extern "C" __global__ void ping_pong(volatile int* turn, int rounds) {
    for (int r = 0; r < rounds; ++r) {
        int mine = 2 * r + blockIdx.x;
        while (*turn != mine) {}
        *turn = mine + 1;
    }
}

extern "C" __global__ void by_the_clock(int* out) {
    long long start = clock64();
    while (clock64() - start < 100000) {}
    unsigned long long before, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(before));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - before < 100000);
    out[threadIdx.x] = 1;
}

extern "C" __global__ void naps(volatile int* flag, int* out) {
    if (threadIdx.x == 0) {
        for (int k = 0; k < 200; ++k) __nanosleep(100);
        *flag = 1;
    } else {
        while (!*flag) __nanosleep(50);
    }
    out[threadIdx.x] = 1;
}

extern "C" __global__ void lock_with_backoff(int* lock, volatile int* count) {
    unsigned pause = 8;
    while (atomicCAS(lock, 0, 1)) {
        __nanosleep(pause);
        if (pause < 256) pause *= 2;
    }
    *count = *count + 1;
    __threadfence();
    atomicExch(lock, 0);
}

// Nothing changes in memory for a long time, and yet it ends.
extern "C" __global__ void long_work(volatile int* flag, unsigned* out) {
    if (blockIdx.x == 1) {
        unsigned x = 1;
        for (int k = 0; k < 100000; ++k) x = x * 1664525u + 1013904223u;
        out[1] = x;
        __threadfence();
        *flag = 1;
    } else {
        while (!*flag) {}
        out[0] = out[1];
    }
}
extern "C" __global__ void gives_up(volatile int* flag, int patience, int* polls) {
    int k = 0;
    while (k < patience && !*flag) ++k;
    polls[threadIdx.x] = k;
}

extern "C" __global__ void for_ever(volatile int* flag) {
    while (!*flag) {}  // for_ever
}
extern "C" __global__ void empty_loop(int* out) {
    volatile int n = 1;
    while (n) {}  // empty_loop
    *out = 1;
}
extern "C" __global__ void each_waits_for_the_other(volatile int* flags) {
    while (!flags[1 - blockIdx.x]) {}  // each_waits_for_the_other
    flags[blockIdx.x] = 1;
}
"""


def test_ping_pong(launch: Launch) -> None:
    turn = np.zeros(1, np.int32)
    launch(SOURCE, 2, 1, turn, np.int32(100), name="ping_pong")
    assert turn[0] == 200


def test_clocks_go_on(launch: Launch) -> None:
    out = np.zeros(64, np.int32)
    launch(SOURCE, 1, 64, out, name="by_the_clock")
    assert out.all()


def test_naps(launch: Launch) -> None:
    out = np.zeros(64, np.int32)
    launch(SOURCE, 1, 64, np.zeros(1, np.int32), out, name="naps")
    assert out.all()


def test_lock_with_backoff(launch: Launch) -> None:
    lock, count = np.zeros(1, np.int32), np.zeros(1, np.int32)
    launch(SOURCE, 3, 33, lock, count, name="lock_with_backoff")
    assert count[0] == 99
    assert lock[0] == 0


def test_waiting_for_long_work(launch: Launch) -> None:
    out = np.zeros(2, np.uint32)
    launch(SOURCE, 2, 1, np.zeros(1, np.int32), out, name="long_work")
    x = 1
    for _ in range(100000):
        x = (x * 1664525 + 1013904223) % 2**32
    assert out.tolist() == [x, x]


def test_a_poll_that_gives_up(launch: Launch) -> None:
    polls = np.zeros(32, np.int32)
    launch(SOURCE, 1, 32, np.zeros(1, np.int32), np.int32(30000), polls, name="gives_up")
    assert (polls == 30000).all()


@pytest.mark.simulator_only
@pytest.mark.parametrize(
    ("name", "grid", "words"), [("for_ever", 1, 1), ("empty_loop", 1, 1), ("each_waits_for_the_other", 2, 2)]
)
def test_a_kernel_that_cannot_end_is_stopped(launch: Launch, name: str, grid: int, words: int) -> None:
    with pytest.raises(drv.LaunchError) as raised:
        launch(SOURCE, grid, 32 if grid == 1 else 1, np.zeros(words, np.int32), name=name)
    lines = [number for number, text in enumerate(SOURCE.splitlines(), 1) if text.endswith(f"// {name}")]
    assert name in str(raised.value)
    assert f"outsider.cu:{lines[0]}" in str(raised.value)

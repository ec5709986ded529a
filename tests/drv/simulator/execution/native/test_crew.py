"""Blocks of one grid on several cores: the same results, the same faults, and only where no block hears of another."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
from drv.host import machine_code
from drv.simulator.execution.native import crew
from drv.simulator.execution.native import kernel as native_kernel
from drv.simulator.execution.native.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(not machine_code.available(), reason="llvmlite is not installed")

SOURCE = r"""
extern "C" __global__ void rows(const float* x, float* sums, int n) {
    // Loops of different lengths, a tile, a barrier, exchanges in warps and atomic operations on shared memory.
    __shared__ float tile[128];
    __shared__ int odd;
    int row = blockIdx.x;
    if (threadIdx.x == 0) odd = 0;
    float sum = 0;
    for (int i = threadIdx.x; i < n - row % 7; i += 128) sum += x[row * n + i];
    tile[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x % 3 == 1) atomicAdd(&odd, 1);
    for (int half = 64; half > 16; half /= 2) {
        if (threadIdx.x < half) tile[threadIdx.x] += tile[threadIdx.x + half];
        __syncthreads();
    }
    float rest = tile[threadIdx.x % 32];
    for (int lane = 16; lane; lane /= 2) rest += __shfl_xor_sync(0xffffffffu, rest, lane);
    if (threadIdx.x == 0) sums[row] = rest + odd;
}
extern "C" __global__ void outside(int* x, int size) {
    // From block 70 on every block writes where nothing is.
    for (int k = 0; k < 3; ++k) x[(blockIdx.x < 70 ? 0 : size) + blockIdx.x * blockDim.x + threadIdx.x] = k;
}
extern "C" __global__ void tickets(int* next, int* order) {
    if (threadIdx.x == 0) order[blockIdx.x] = atomicAdd(next, 1);
}
extern "C" __global__ void fenced(int* x) {
    x[blockIdx.x] = 1;
    __threadfence();
    x[gridDim.x + blockIdx.x] = 2;
}
extern "C" __global__ void looks(volatile int* x, int* y) { y[blockIdx.x * blockDim.x + threadIdx.x] = x[0]; }
"""


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the threads that ran batches, however short these are; one entry for each batch."""
    names: list[str] = []
    original = Machine.run

    def run(self: Any, batch: Any) -> bool:
        names.append(threading.current_thread().name)
        return original(self, batch)

    monkeypatch.setattr(Machine, "run", run)
    monkeypatch.setattr(native_kernel, "LEAST_STEPS", 0)
    return names


def crews(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of each crew that is formed from now on."""
    sizes: list[int] = []
    original = crew.Crew.run

    def run(self: Any) -> Any:
        sizes.append(len(self._machines))
        return original(self)

    monkeypatch.setattr(crew.Crew, "run", run)
    return sizes


@pytest.mark.parametrize("cores", [2, 5])
def test_results_are_those_of_one_core(
    threads: list[str], monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    sizes = crews(monkeypatch)
    x = np.random.default_rng(0).standard_normal((700, 300), np.float32)
    alone, together = (np.zeros(700, np.float32) for _ in range(2))
    arguments = x, alone, np.int32(300)
    drv.simulator.run(SOURCE, "rows", 700, 128, [*arguments], check="on", native="on")
    assert sizes == []
    count = len(threads)
    arguments = x, together, np.int32(300)
    drv.simulator.run(SOURCE, "rows", 700, 128, [*arguments], check="on", native="on", cores=cores)
    np.testing.assert_array_equal(alone, together)
    np.testing.assert_allclose(alone[0], x[0].astype(np.float64).sum() + 43, rtol=1e-4)
    assert sizes == [cores]
    # Each batch has run once, the first of a launch alone.
    assert len(threads) == 2 * count


def test_a_short_kernel_has_no_help(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = crews(monkeypatch)
    x, y = np.ones(1, np.int32), np.zeros(40_000, np.int32)
    source = 'extern "C" __global__ void copy(const int* x, int* y) { y[blockIdx.x * blockDim.x + threadIdx.x] = x[0]; }'
    drv.simulator.run(source, "copy", 625, 64, [x, y], check="on", native="on", cores=4)
    assert y.all()
    assert sizes == []


def test_the_fault_is_that_of_one_core(threads: list[str]) -> None:
    """Whichever batch fails first, the report is that of the first block that fails."""
    reports = []
    for cores in (1, 4, 4):
        x = np.zeros(70 * 128, np.int32)
        with pytest.raises(drv.IllegalAddressError) as caught:
            drv.simulator.run(
                SOURCE, "outside", 700, 128, [x, np.int32(1 << 20)], check="on", native="on", cores=cores
            )
        reports.append(str(caught.value).split("address 0x")[0])
        assert "block (70, 0, 0)" in str(caught.value)
    assert len(set(reports)) == 1
    assert threads


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("tickets", lambda: [np.zeros(1, np.int32), np.zeros(500, np.int32)]),
        ("fenced", lambda: [np.zeros(1000, np.int32)]),
        ("looks", lambda: [np.ones(1, np.int32), np.zeros(500 * 64, np.int32)]),
    ],
)
def test_blocks_that_may_hear_of_each_other_run_one_after_the_other(
    threads: list[str], monkeypatch: pytest.MonkeyPatch, name: str, arguments: Callable[[], list[Any]]
) -> None:
    sizes = crews(monkeypatch)
    values = arguments()
    drv.simulator.run(SOURCE, name, 500, 64, values, check="on", native="on", cores=4)
    assert threads
    assert sizes == []
    if name == "tickets":
        np.testing.assert_array_equal(values[1], np.arange(500))


def test_checks_that_look_at_every_access_have_no_crew(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = crews(monkeypatch)
    x = np.ones((100, 300), np.float32)
    drv.simulator.run(SOURCE, "rows", 100, 128, [x, np.zeros(100, np.float32), np.int32(300)], cores=4)
    assert sizes == []


@pytest.mark.usefixtures("threads")
def test_an_interrupt_leaves_nothing_running(monkeypatch: pytest.MonkeyPatch) -> None:
    """The main thread is interrupted while the others are in kernels that would run for minutes."""
    source = r"""
    extern "C" __global__ void spin(const long long* turns, int* x) {
        unsigned value = threadIdx.x;
        for (long long k = 0; k < turns[blockIdx.x < 64]; ++k) value = value * 1664525u + 1013904223u;
        x[blockIdx.x * blockDim.x + threadIdx.x] = value;
    }
    """
    main = threading.current_thread()
    original = Machine.begin
    batches: list[int] = []
    spinning = threading.Semaphore(0)

    def begin(self: Any, batch: Any) -> None:
        batches.append(int(batch.blocks[0]))
        if threading.current_thread() is not main:
            spinning.release()
        elif batch.blocks[0] >= 64:
            # The main thread interrupts itself in place of its first batch of those that spin, when both others are in theirs.
            assert all(spinning.acquire(timeout=60) for _ in range(2))
            raise KeyboardInterrupt
        original(self, batch)

    monkeypatch.setattr(Machine, "begin", begin)
    turns, x = np.array([1 << 40, 0]), np.zeros(64 * 640, np.int32)
    with pytest.raises(KeyboardInterrupt):
        drv.simulator.run(source, "spin", 640, 64, [turns, x], check="on", native="on", cores=3)
    # The launch has ten; the first one ran alone.
    assert len(batches) <= 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.usefixtures("threads")
def test_a_forked_process_has_threads_of_its_own() -> None:
    def launch() -> bool:
        x, sums = np.ones((700, 300), np.float32), np.zeros(700, np.float32)
        drv.simulator.run(
            SOURCE, "rows", 700, 128, [x, sums, np.int32(300)], check="on", native="on", cores=2
        )
        return bool(sums[0] == 343)

    assert launch()
    child = os.fork()
    if child == 0:
        os._exit(0 if launch() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_the_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    from drv.simulator.options import OptionError, parse_options

    assert parse_options("").cores == 1
    assert parse_options("cores=6").cores == 6
    assert parse_options(cores="all").cores == len(os.sched_getaffinity(0))
    for value in (0, "many", -1, True):
        with pytest.raises(OptionError, match="cores"):
            parse_options(cores=value)

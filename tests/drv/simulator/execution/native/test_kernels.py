"""Kernels do the same by native code as by NumPy: results to the last bit, faults to the last word."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drv
from drv.host import machine_code
from drv.simulator.execution.native import NativeKernel
from drv.simulator.execution.native import kernel as native_kernel

pytestmark = pytest.mark.skipif(not machine_code.available(), reason="llvmlite is not installed")

SOURCE = r"""
extern "C" __global__ void tail(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = x[i] * 2.0f + threadIdx.y;
}
extern "C" __global__ void collatz(const int* x, int* steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned v = x[i];
    int count = 0;
    while (v != 1) {
        if (v & 1) { v = 3 * v + 1; if (count % 7 == 3) count += 2; }
        else v /= 2;
        if (++count > 300) break;
    }
    steps[i] = count;
}
extern "C" __global__ void shift(float* x) {
    // Lanes run together: all have read before any of them writes.
    x[threadIdx.x] = x[threadIdx.x + 1];
}
extern "C" __global__ void tree(const float* x, float* sums, int n) {
    __shared__ float part[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0.0f;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}
extern "C" __global__ void early(int* x) {
    // Some threads have ended when others come to the barrier, from two places.
    __shared__ int cells[64];
    if (threadIdx.x % 5 == 0) return;
    cells[threadIdx.x] = threadIdx.x;
    if (threadIdx.x % 2) cells[threadIdx.x] *= 3;
    __syncthreads();
    x[blockIdx.x * 64 + threadIdx.x] = cells[threadIdx.x % 5 == 1 ? threadIdx.x : threadIdx.x - 1];
}
extern "C" __global__ void warps(const int* x, int* y, unsigned* masks) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i];
    for (int by = 16; by; by /= 2) v += __shfl_down_sync(~0u, v, by);
    v = __shfl_sync(~0u, v, 3, 8) + __shfl_up_sync(~0u, v, 2) + __shfl_xor_sync(~0u, v, 5, 16);
    unsigned odd = __ballot_sync(~0u, x[i] & 1);
    masks[4 * i] = odd;
    masks[4 * i + 1] = __any_sync(~0u, x[i] > 90) + 2 * __all_sync(~0u, x[i] > 1);
    if (threadIdx.x % 3 == 0) masks[4 * i + 2] = __activemask();
    if (threadIdx.x % 2) v += __shfl_xor_sync(0xAAAAAAAAu, v, 2);
    masks[4 * i + 3] = __reduce_add_sync(~0u, v);
    y[i] = v;
}
extern "C" __global__ void atomics(float* sums, unsigned* counts, const float* x, unsigned* places) {
    __shared__ float part[4];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < 4) part[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&part[threadIdx.x % 3], x[i]);
    atomicAdd(&sums[i % 2], x[i]);
    places[i] = atomicAdd(&counts[0], 2u) + atomicInc(&counts[1], 50u) + atomicMax(&counts[2], (unsigned)i * 7 % 61);
    atomicCAS(&counts[3], i, i + 1);
    atomicXor(&counts[4], i);
    places[i] += atomicExch(&counts[5], i);
    __syncthreads();
    if (threadIdx.x < 3) atomicAdd(&sums[2 + threadIdx.x], part[threadIdx.x]);
}
extern "C" __global__ void doubles(const double* x, double* y, const int* which) {
    int i = threadIdx.x;
    double v = x[i];
    switch (which[i]) {
        case 0: v = sqrt(v); break;
        case 1: v = fma(v, v, 1e-30); break;
        case 2: v = floor(v) + (long long)v % 7; break;
        case 3: v = exp(v * 1e-3); break;
        case 4: v = __double2int_rn(v) ^ 5; break;
        case 5: v = (float)v / 3.0f; break;
        default: v = -v;
    }
    y[i] = v;
}
extern "C" __global__ void local(const int* x, int* y) {
    int cells[16];
    for (int k = 0; k < 16; ++k) cells[k] = x[k] * threadIdx.x;
    y[threadIdx.x] = cells[x[threadIdx.x % 16] & 15];
}
__device__ int which_memory(const int* p) { return *p * 2; }
extern "C" __global__ void generic(const int* x, int* y, int mixed) {
    __shared__ int cells[32];
    cells[threadIdx.x] = threadIdx.x * 10;
    __syncwarp();
    const int* p = mixed == 0 ? x : mixed == 1 ? cells : threadIdx.x % 3 ? cells : x;
    y[threadIdx.x] = which_memory(p + threadIdx.x);
}
extern "C" __global__ void two_allocations(const int* a, const int* b, int* y) {
    const int* p = threadIdx.x % 2 ? a : b;
    y[threadIdx.x] = p[threadIdx.x];
}
__constant__ int table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
__device__ int total = 5;
extern "C" __global__ void variables(int* y) {
    y[threadIdx.x] = table[threadIdx.x % 8] + total;
    if (threadIdx.x == 9) total = 6;
}
struct Many { const float* from[4]; float scale[4]; };
extern "C" __global__ void by_value(Many many, float* y) {
    int k = threadIdx.x % 4;
    y[threadIdx.x] = many.from[k][threadIdx.x] * many.scale[k];
}
extern "C" __global__ void spin(int* lock, int* count) {
    for (bool done = false; !done;) {
        if (atomicCAS(lock, 0, 1) == 0) {
            *(volatile int*)count = *(volatile int*)count + 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}
extern "C" __global__ void in_turn(volatile int* turn, int* order) {
    // Each block waits for the one before it; those of the last batches have not begun.
    if (threadIdx.x == 0) {
        int mine = gridDim.x - 1 - blockIdx.x;
        while (*turn != mine) {}
        order[mine] = blockIdx.x;
        __threadfence();
        *turn = mine + 1;
    }
}
extern "C" __global__ void forever(int* x) { while (*(volatile int*)x == 0) {} }
extern "C" __global__ void long_loop(unsigned* x, int n) {
    unsigned v = x[threadIdx.x];
    for (int k = 0; k < n; ++k) v = (v ^ k) * 1664525u + (v & 1 ? 3 : 5);
    x[threadIdx.x] = v;
}
extern "C" __global__ void talks(int* x) {
    x[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 3) printf("thread %d has %d\n", threadIdx.x, x[2]);
    x[threadIdx.x] += 1;
}
extern "C" __global__ void asserts(int* x) { x[threadIdx.x] = 1; assert(threadIdx.x != 7); x[threadIdx.x] = 2; }
extern "C" __global__ void traps(int* x) { if (x[0] == 0 && threadIdx.x == 5) __trap(); }
extern "C" __global__ void far(int* x, long long at) {
    if (threadIdx.x >= 2) x[threadIdx.x == 5 ? at : threadIdx.x] += 1;
}
extern "C" __global__ void crooked(char* x) { *(int*)(x + (threadIdx.x == 3 ? 2 : 4 * threadIdx.x)) = 1; }
extern "C" __global__ void out_of_shared(int* x, int at) {
    __shared__ int cells[8];
    cells[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = cells[threadIdx.x == 6 ? at : 7 - threadIdx.x];
}
extern "C" __global__ void changes_constant() { *(volatile int*)&table[threadIdx.x] = 3; }
extern "C" __global__ void exponential(const float* x, float* y) { y[threadIdx.x] = expf(x[threadIdx.x]) + tanhf(x[threadIdx.x]); }
extern "C" __global__ void carries(const unsigned long long* a, unsigned long long* b) {
    unsigned long long v = a[threadIdx.x], low = v * v, high = __umul64hi(v, v);
    asm("add.cc.u64 %0, %0, 7; addc.u64 %1, %1, 1;" : "+l"(low), "+l"(high));
    b[threadIdx.x] = high + low / 3;
}
"""


@dataclass
class Case:
    """A launch: arguments are made by ``make`` from a random generator."""

    kernel: str
    grid: Any
    block: Any
    make: Any
    options: dict[str, Any]


def case(kernel: str, grid: Any, block: Any, make: Any, label: str = "", **options: Any) -> Any:
    return pytest.param(Case(kernel, grid, block, make, options), id=label or kernel)


def _floats(count: int) -> Any:
    return lambda r: r.standard_normal(count).astype(np.float32)


def _ints(count: int, high: int = 100) -> Any:
    return lambda r: r.integers(1, high, count).astype(np.int32)


def _zeros(count: int, dtype: Any = np.int32) -> Any:
    return lambda r: np.zeros(count, dtype)


def _all(*makers: Any) -> Any:
    return lambda r: [each(r) if callable(each) else each for each in makers]


CASES = [
    case("tail", (60,), (64, 2), _all(_floats(4000), _zeros(4000, np.float32), 3777)),
    case("collatz", 40, 128, _all(_ints(5120, 5000), _zeros(5120), 5000)),
    case("shift", 1, 96, _all(_floats(97))),
    case("tree", 50, 128, _all(_floats(6400), _zeros(50, np.float32), 6300)),
    case("early", 5, 64, _all(_zeros(320))),
    case("warps", 2, 64, _all(_ints(128), _zeros(128), _zeros(512, np.uint32))),
    case("atomics", 40, 128, _all(_zeros(8, np.float32), _zeros(8, np.uint32), _floats(5120), _zeros(5120, np.uint32))),
    case("doubles", 1, 96, _all(lambda r: r.uniform(0, 1000, 96), _zeros(96, np.float64), lambda r: r.integers(0, 8, 96).astype(np.int32))),
    case("local", 1, 48, _all(_ints(16), _zeros(48))),
    *(
        case("generic", 1, 32, _all(_ints(32), _zeros(32), mixed), label=f"generic-{mixed}")
        for mixed in range(3)
    ),
    case("two_allocations", 1, 32, _all(_ints(32), _ints(32), _zeros(32))),
    case("variables", 1, 32, _all(_zeros(32))),
    case("spin", 2, 64, _all(_zeros(1), _zeros(1))),
    case("in_turn", 150, 64, _all(_zeros(1), _zeros(150))),
    case("long_loop", 1, 32, _all(_zeros(32, np.uint32), 20000)),
    case("talks", 2, 32, _all(_zeros(32))),
    case("exponential", 1, 128, _all(_floats(128), _zeros(128, np.float32))),
    case("carries", 1, 32, _all(lambda r: r.integers(0, 2**63, 32).astype(np.uint64), _zeros(32, np.uint64))),
    case("asserts", 1, 32, _all(_zeros(32))),
    case("traps", 1, 32, _all(_zeros(1))),
    case("far", 1, 32, _all(_ints(32), 1 << 40)),
    case("far", 1, 32, _all(_ints(32), 32), label="far-edge"),
    case("far", 1, 32, _all(_ints(32), 1 << 40), label="far-unchecked", check="off"),
    case("crooked", 1, 32, _all(_zeros(256, np.int8))),
    case("crooked", 1, 32, _all(_zeros(256, np.int8)), label="crooked-unchecked", check="off"),
    case("out_of_shared", 1, 8, _all(_ints(8), 8)),
    case("out_of_shared", 1, 8, _all(_ints(8), -3), label="out_of_shared-before"),
    case("out_of_shared", 1, 8, _all(_ints(8), 9), label="out_of_shared-unchecked", check="off"),
    case("changes_constant", 1, 4, _all()),
    case("forever", 1, 32, _all(_zeros(1))),
]  # fmt: skip


def outcome(each: Case, native: str, capsys: pytest.CaptureFixture[str]) -> tuple[Any, ...]:
    """Arrays after a launch, what was raised and what was printed."""
    arguments = each.make(np.random.default_rng(1))
    error = ""
    try:
        drv.simulator.run(
            SOURCE,
            each.kernel,
            each.grid,
            each.block,
            arguments,
            **{"check": "on", "native": native, **each.options},
        )
    except drv.DeviceFaultError as raised:
        # Python's own lines apart, which say where this test has called it.
        error = re.sub(r"  File .*\n(    .*\n)?", "", f"{type(raised).__name__}: {raised}")
    arrays = [each.view(np.uint8) for each in arguments if isinstance(each, np.ndarray)]
    return arrays, error, capsys.readouterr().out


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each batch that native code ran, whether it ran it to its end."""
    result: list[bool] = []
    run = NativeKernel.run

    def noted(self: NativeKernel, batch: Any) -> bool:
        finished = run(self, batch)
        result.append(finished)
        return finished

    monkeypatch.setattr(NativeKernel, "run", noted)
    return result


@pytest.mark.parametrize("each", CASES)
def test_the_same_as_numpy(each: Case, ran: list[bool], capsys: pytest.CaptureFixture[str]) -> None:
    by_numpy = outcome(each, "off", capsys)
    assert not ran
    by_native_code = outcome(each, "on", capsys)
    assert ran or by_native_code[1], "nothing of it was native"
    for first, second in zip(by_numpy[0], by_native_code[0], strict=True):
        np.testing.assert_array_equal(first, second)
    assert by_native_code[1:] == by_numpy[1:]


def test_arguments_of_structures(ran: list[bool]) -> None:
    """Addresses within the parameters, and four allocations in one instruction."""
    arrays = [np.arange(32, dtype=np.float32) + 100 * k for k in range(4)]
    source = SOURCE.replace(
        "Many many", "const float* a, const float* b, const float* c, const float* d"
    ).replace(
        "int k = threadIdx.x % 4;", "Many many = {{a, b, c, d}, {1, 2, 3, 4}}; int k = threadIdx.x % 4;"
    )
    y = np.zeros(32, np.float32)
    drv.simulator.run(source, "by_value", 1, 32, [*arrays, y], check="on", native="on")
    assert ran == [True]
    lanes = np.arange(32)
    np.testing.assert_array_equal(y, (lanes + 100 * (lanes % 4)) * (lanes % 4 + 1))


@pytest.mark.parametrize("native", ["on", "off"])
def test_memory_that_was_freed_is_found(native: str) -> None:
    """An instruction does not go on with memory that it knew."""
    from nvrtc_kernels import RawKernel

    with drv.simulator.installed(native=native):
        kernel = RawKernel('extern "C" __global__ void put(int* x) { x[threadIdx.x] = 1; }', "put")
        first, second = drv.DeviceMemory(128), drv.DeviceMemory(128)
        for memory in (first, second, first):
            kernel(1, 32, (memory,))
        drv.Device(0).synchronize()
        address = first.address
        first.free()
        with pytest.raises(drv.IllegalAddressError, match="freed"):
            kernel(1, 32, (np.uint64(address),))
            drv.Device(0).synchronize()


@pytest.mark.parametrize("native", ["on", "off"])
def test_memory_of_others(native: str) -> None:
    """Pinned memory of the host, and another device's before and after peer access is enabled."""
    from nvrtc_kernels import RawKernel

    with drv.simulator.installed(devices=2, native=native):
        kernel = RawKernel('extern "C" __global__ void put(int* x) { x[threadIdx.x] = threadIdx.x; }', "put")
        pinned = drv.PinnedMemory(128)
        kernel(1, 32, (pinned,))
        drv.Device(0).synchronize()
        assert pinned.array(np.int32)[:32].tolist() == list(range(32))
        other = drv.DeviceMemory(128, device=drv.Device(1))
        with pytest.raises(drv.IllegalAddressError, match="peer access"):
            kernel(1, 32, (np.uint64(other.address),))
            drv.Device(0).synchronize()


def test_native_code_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: list[bool]) -> None:
    """A process that runs a known kernel compiles nothing; damaged entries are made again."""
    monkeypatch.setenv("GRAPHROOT_CACHE_DIR", str(tmp_path))
    built: list[str] = []
    build = native_kernel.build

    def counted(plan: Any) -> Any:
        built.append(plan.function.name)
        return build(plan)

    monkeypatch.setattr(native_kernel, "build", counted)

    def launched() -> None:
        # What earlier launches of this process have parsed is not found under this text.
        native_kernel._scheduler.cache_clear()
        y = np.zeros(64, np.int32)
        _forget_parsed()
        drv.simulator.run(SOURCE, "early", 1, 64, [y], check="on", native="on")
        assert y[1] == 3

    launched()
    assert built == ["early"]
    launched()
    assert built == ["early"]
    # Where there is native code, it runs unless that is switched off.
    _forget_parsed()
    drv.simulator.run(SOURCE, "early", 1, 64, [np.zeros(64, np.int32)], check="on")
    assert ran == [True] * 3
    _forget_parsed()
    drv.simulator.run(SOURCE, "early", 1, 64, [np.zeros(64, np.int32)], check="on", native="off")
    drv.simulator.run(SOURCE, "early", 1, 64, [np.zeros(64, np.int32)], check="race", native="on")
    assert ran == [True] * 3
    for file in (tmp_path / "simulator").iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    launched()
    assert built == ["early"] * 2


def _forget_parsed() -> None:
    from drv.simulator.api.modules import module_image

    module_image._idle.clear()


@pytest.fixture
def _compiling_is_quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Compiling is taken for something that is soon worth it, and nothing is compiled yet."""
    monkeypatch.setenv("GRAPHROOT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(native_kernel, "COMPILING", 20 * native_kernel.RUNNING)
    _forget_parsed()


@pytest.mark.usefixtures("_compiling_is_quick")
def test_a_kernel_is_compiled_when_it_has_run_enough(ran: list[bool]) -> None:
    from nvrtc_kernels import RawKernel

    with drv.simulator.installed():
        kernel = RawKernel(
            'extern "C" __global__ void grow(int* x) { for (int k = x[0]; k > 0; --k) atomicAdd(x, 1); }',
            "grow",
        )
        memory = drv.DeviceMemory(128)
        drv.memset(memory, 1, 32, bits=32)
        for _ in range(12):
            kernel(1, 1, (memory,))
        drv.Device(0).synchronize()
        counts = np.empty(32, np.int32)
        drv.copy_to_host(counts, memory)
    assert counts[0] == 2**12
    assert 4 <= len(ran) <= 8
    assert all(ran)


@pytest.mark.usefixtures("_compiling_is_quick")
def test_a_long_launch_goes_on_as_native_code(ran: list[bool]) -> None:
    """Its first batches are run by NumPy, the others need not wait for the next launch."""
    x = np.ones(40_000, np.float32)
    y = np.zeros_like(x)
    drv.simulator.run(SOURCE, "tail", 157, 256, [x, y, np.int32(x.size)], check="on")
    np.testing.assert_array_equal(y, 2.0)
    assert 0 < len(ran) < 9
    assert all(ran)

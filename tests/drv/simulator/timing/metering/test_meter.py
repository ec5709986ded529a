"""Metering changes nothing that a kernel computes, and is not there when it is off."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import drv
from drv.simulator.timing.recorder import recording

SOURCE = r"""
extern "C" __global__ void mixed(const float *x, float *y, int *count, int n)
{
    __shared__ float held[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    held[threadIdx.x] = i < n ? x[i] : 0.f;
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < (threadIdx.x & 7); k++)
        sum += held[(threadIdx.x + k * 37) & 255];
    if (i < n && (i & 3) == 0) {
        atomicAdd(count + (i & 15), 1);
        sum += __shfl_sync(__activemask(), sum, 0);
    }
    if (i < n)
        y[i] = sum;
}

extern "C" __global__ void diverges(float *x)
{
    if (threadIdx.x & 1)
        x[threadIdx.x] = x[threadIdx.x] * 3 + 1;
    else if (threadIdx.x & 2)
        x[threadIdx.x] = sqrtf(x[threadIdx.x]);
}
"""


def run(runtime: Any, n: int, timing: bool) -> tuple[Any, Any]:
    module = drv.Module(drv.compile_program(SOURCE, "compute_90", line_info=True).image)
    x, y, count = drv.DeviceMemory(4 * n), drv.DeviceMemory(4 * n), drv.DeviceMemory(64)
    drv.copy_to_device(x, np.random.default_rng(1).standard_normal(n).astype(np.float32))
    drv.memset(count, 0, 64)

    def launch() -> None:
        module.function("mixed").launch(-(-n // 256), 256, (x, y, count, np.int32(n)))

    if timing:
        with recording(runtime.driver):
            launch()
    else:
        launch()
    result, counted = np.zeros(n, np.float32), np.zeros(16, np.int32)
    drv.copy_to_host(result, y)
    drv.copy_to_host(counted, count)
    return result, counted


@pytest.mark.parametrize("options", [{"check": "on"}, {"check": "full"}, {"schedule": "lazy"}])
@pytest.mark.parametrize("n", [100, 5000, 300_000])
@pytest.mark.sampled(4)
def test_results_are_the_same_whether_or_not_a_launch_is_metered(options: Any, n: int) -> None:
    with drv.simulator.installed(**options) as runtime:
        plain, metered = run(runtime, n, False), run(runtime, n, True)
    assert np.array_equal(plain[0], metered[0])
    assert np.array_equal(plain[1], metered[1])


def functions_of(launch: Any) -> set[tuple[str, str]]:
    """Names of the functions of the simulator that run."""
    ran: set[tuple[str, str]] = set()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and "simulator" in frame.f_code.co_filename:
            ran.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        launch()
    finally:
        sys.setprofile(None)
    return ran


def test_a_launch_that_is_not_metered_runs_what_it_ran_before_there_was_a_meter() -> None:
    with drv.simulator.installed(check="on") as runtime:
        module = drv.Module(drv.compile_program(SOURCE, "compute_90").image)
        memory = drv.DeviceMemory(4096)
        drv.memset(memory, 0, 4096)

        def launch() -> None:
            module.function("diverges").launch(2, 256, (memory,))
            drv.Device(0).synchronize()

        launch()
        before = functions_of(launch)
        with recording(runtime.driver) as recorder:
            metered = functions_of(launch)
        after = functions_of(launch)
    assert len(recorder.operations) == 1
    assert before == after
    assert not [file for file, _ in before if "drv/simulator/timing/" in file and "tests" not in file]
    assert any("drv/simulator/timing/metering/meter.py" in file for file, _ in metered)


def counts(runtime: Any, source: str, name: str, grid: Any, block: Any, arguments: Any) -> Any:
    module = drv.Module(drv.compile_program(source, "compute_90", line_info=True).image)
    with recording(runtime.driver) as recorder:
        module.function(name).launch(grid, block, arguments)
        drv.Device(0).synchronize()
    return recorder.operations[0]


def test_what_is_counted_of_a_small_launch_is_exact() -> None:
    source = r"""
    extern "C" __global__ void step(const float *x, float *y, int *hot)
    {
        int i = blockIdx.x * 64 + threadIdx.x;
        y[i] = x[2 * i];
        __syncthreads();
        if (threadIdx.x < 16)
            atomicAdd(hot, 1);
    }
    """
    with drv.simulator.installed(model="h200") as runtime:
        x, y, hot = drv.DeviceMemory(8 * 640), drv.DeviceMemory(4 * 640), drv.DeviceMemory(256)
        drv.memset(hot, 0, 256)
        operation = counts(runtime, source, "step", 10, 64, (x, y, hot))
    totals = operation.kernel.counts
    metrics = operation.metrics
    assert metrics["load_sectors_per_request"] == 8
    assert metrics["store_sectors_per_request"] == 4
    assert totals.distinct_read == 4 * 640
    assert totals.distinct_written == 4 * 640 + 4
    assert (totals.read_sectors, totals.written_sectors, totals.atomic_sectors) == (160, 80, 10)
    assert totals.read_misses == 160
    assert totals.hottest == 160
    assert totals.barriers == 20
    assert metrics["sampled"] == 1
    assert metrics["sample_error"] == 0
    assert 16 < metrics["active_lanes"] < 32


def test_asynchronous_copies_with_zeros_are_one_request_of_a_warp() -> None:
    source = r"""
    extern "C" __global__ void copies(const float4 *x, float4 *y)
    {
        __shared__ float4 held[32];
        unsigned to = __cvta_generic_to_shared(held + threadIdx.x);
        int bytes = threadIdx.x % 8 ? 16 : 0;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(x + threadIdx.x), "r"(bytes) : "memory");
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncthreads();
        y[threadIdx.x] = held[31 - threadIdx.x];
    }
    """
    with drv.simulator.installed(model="h200") as runtime:
        x, y = drv.DeviceMemory(512), drv.DeviceMemory(512)
        operation = counts(runtime, source, "copies", 1, 32, (x, y))
    sites = [each for each in operation.kernel.counts.sites if each.site.text.startswith("cp.async.cg")]
    (read,) = [each for each in sites if each.space == "global"]
    (written,) = [each for each in sites if each.space == "shared"]
    assert (read.requests, read.lanes, read.sectors, read.lines) == (1, 28, 16, 4)
    assert (written.requests, written.wavefronts) == (1, 4)


def test_factors_in_shared_memory_are_read_once_for_a_warpgroup() -> None:
    source = r"""
    extern "C" __global__ void multiplies(float *y)
    {
        extern __shared__ __align__(1024) unsigned cells[];
        for (int i = threadIdx.x; i < 64 * 64; i += 128) cells[i] = 0;
        asm volatile("fence.proxy.async;" ::: "memory");
        __syncthreads();
        float r[4] = {0, 0, 0, 0};
        // Rows of 128 bytes, eight of which are 1024 bytes, with their swizzle.
        unsigned long long at = __cvta_generic_to_shared(cells) >> 4 | 64ull << 32 | 1ull << 62;
        asm volatile("wgmma.fence.sync.aligned;\n{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;\n}\n"
            "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
            : "+f"(r[0]), "+f"(r[1]), "+f"(r[2]), "+f"(r[3]) : "l"(at), "l"(at + 512) : "memory");
        y[threadIdx.x] = r[0];
    }
    """
    with drv.simulator.installed(model="h200") as runtime:
        module = drv.Module(drv.compile_program(source, "compute_90a", line_info=True).image)
        y = drv.DeviceMemory(512)
        with recording(runtime.driver) as recorder:
            module.function("multiplies").launch(1, 128, (y,), shared=16384)
            drv.Device(0).synchronize()
    sites = recorder.operations[0].kernel.counts.sites
    # 64 and 8 rows of 32 bytes, 128 bytes a clock.
    (read,) = [each for each in sites if each.site.text.startswith("wgmma")]
    assert read.wavefronts == 72 * 32 / 128


def test_lanes_that_wait_for_one_barrier_share_what_they_read() -> None:
    source = r"""
    extern "C" __global__ void waits(int *x)
    {
        __shared__ unsigned long long barrier;
        const unsigned int at = __cvta_generic_to_shared(&barrier);
        if (threadIdx.x == 0)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" :: "r"(at) : "memory");
        __syncthreads();
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at) : "memory");
        asm volatile("{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra again;\n}" :: "r"(at) : "memory");
        x[threadIdx.x] = 1;
    }
    """
    with drv.simulator.installed(model="h200") as runtime:
        sites = counts(runtime, source, "waits", 1, 128, (drv.DeviceMemory(512),)).kernel.counts.sites
    waits, arrivals = (
        next(each for each in sites if each.site.text.startswith(f"mbarrier.{name}"))
        for name in ("try_wait", "arrive")
    )
    assert waits.requests == waits.wavefronts == 4
    assert arrivals.wavefronts == 128


def test_lanes_that_are_off_are_counted() -> None:
    source = r"""
    extern "C" __global__ void half(float *x)
    {
        float v = x[threadIdx.x];
        if (threadIdx.x % 32 < 8)
            for (int k = 0; k < 100; k++)
                v = v * 1.5f + 2.f;
        x[threadIdx.x] = v;
    }
    """
    with drv.simulator.installed(model="h200") as runtime:
        operation = counts(runtime, source, "half", 4, 128, (drv.DeviceMemory(512),))
    assert 8 <= operation.metrics["active_lanes"] < 12
    assert any("of 32 lanes are on" in each for each in operation.advice)


def test_a_sample_of_a_large_grid_tells_what_all_of_it_does() -> None:
    with drv.simulator.installed(model="h200", check="off") as runtime:
        module = drv.Module(drv.compile_program(SOURCE, "compute_90", line_info=True).image)
        n = 1 << 20
        x, y, count = drv.DeviceMemory(4 * n), drv.DeviceMemory(4 * n), drv.DeviceMemory(64)
        drv.memset(count, 0, 64)
        results = {}
        for name, most in (("all", 1 << 30), ("sample", None)):
            with pytest.MonkeyPatch.context() as patch, recording(runtime.driver) as recorder:
                if most:
                    patch.setattr("drv.simulator.timing.metering.meter.MOST_BATCHES", most)
                module.function("mixed").launch(n // 256, 256, (x, y, count, np.int32(n)))
                drv.Device(0).synchronize()
            results[name] = recorder.operations[0]
    whole, sample = results["all"].metrics, results["sample"].metrics
    assert whole["sampled"] == 1
    assert sample["sampled"] < 0.1
    assert sample["sample_error"] < 0.01
    assert sample["regular"] == 1
    for name in ("instructions", "dram_bytes", "l2_bytes", "distinct_bytes_read", "distinct_bytes_written"):
        assert sample[name] == pytest.approx(whole[name], rel=0.03), name
    assert results["sample"].kernel.counts.hottest == pytest.approx(results["all"].kernel.counts.hottest)
    assert sample["modelled_us"] == pytest.approx(whole["modelled_us"], rel=0.03)


def test_without_results_only_a_sample_of_the_grid_runs() -> None:
    with drv.simulator.installed(model="h200", check="off") as runtime:
        module = drv.Module(drv.compile_program(SOURCE, "compute_90").image)
        n = 1 << 20
        x, y, count = drv.DeviceMemory(4 * n), drv.DeviceMemory(4 * n), drv.DeviceMemory(64)
        drv.memset(count, 0, 64)
        with recording(runtime.driver, results=False) as recorder:
            module.function("mixed").launch(n // 256, 256, (x, y, count, np.int32(n)))
        counted = np.zeros(16, np.int32)
        drv.copy_to_host(counted, count)
    assert 0 < counted.sum() < n // 4 // 10
    assert recorder.operations[0].metrics["sampled"] < 0.1

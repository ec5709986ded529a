"""Iterations that are counted and do not run: the counts are those of a launch all of which ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
from drv.simulator.timing.recorder import recording

if TYPE_CHECKING:
    from drv.simulator.timing.records import TimedOperation
    from tests.drv.simulator.timing.conftest import Bench

SOURCE = r"""
extern "C" __global__ void column_sums(const float *x, float *sums, int rows, int columns)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
#pragma unroll 1
    for (int row = 0; row < rows; row++)
        sum += x[(long long)row * columns + column];
    sums[column] = sum;
}

// Tiles come to one buffer while the other one is read: what a turn does with shared memory is what the one before the last did.
extern "C" __global__ void tiles(const float *x, float *sums, int rows, int columns)
{
    __shared__ float tile[2][8][64];
    float sum = 0;
    int buffer = 0;
    auto fetch = [&](int row, int into) {
        const float *from = x + (long long)(row + threadIdx.x / 16) * columns + blockIdx.x * 64 + threadIdx.x % 16 * 4;
        float *to = &tile[into][threadIdx.x / 16][threadIdx.x % 16 * 4];
        int bytes = row + threadIdx.x / 16 < rows ? 16 : 0;
        unsigned int address = (unsigned int)__cvta_generic_to_shared(to);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(address), "l"(bytes ? from : x), "r"(bytes) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    fetch(0, 0);
#pragma unroll 1
    for (int row = 0; row < rows; row += 8, buffer ^= 1) {
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        if (row + 8 < rows)
            fetch(row + 8, buffer ^ 1);
#pragma unroll 1
        for (int half = 0; half < 2; half++)
            for (int i = 0; i < 4; i++)
                sum += tile[buffer][half * 4 + i][threadIdx.x % 64];
    }
    sums[blockIdx.x * 128 + threadIdx.x] = sum;
}

// Blocks see more the later they come.
extern "C" __global__ void triangle(const float *x, float *sums, int rows, int columns)
{
    float sum = 0;
#pragma unroll 1
    for (int row = 0; row < (int)(blockIdx.x + 1) * rows / (int)gridDim.x; row++)
        sum += x[(long long)row * columns + threadIdx.x];
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

extern "C" __global__ void one_is_different(const float *x, float *sums, int rows, int columns)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
#pragma unroll 1
    for (int row = 0; row < rows; row++) {
        sum += x[(long long)row * columns + column];
        if (row == rows / 2)
            sum += x[column * 32 % columns];
    }
    sums[column] = sum;
}

extern "C" __global__ void bank_changes(const float *x, float *sums, int rows, int columns)
{
    __shared__ float held[1024];
    held[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    float sum = 0;
#pragma unroll 1
    for (int row = 0; row < rows; row++)
        sum += held[threadIdx.x * (row / 20 + 1) & 1023];
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

extern "C" __global__ void by_loaded_numbers(const int *x, float *sums, int rows, int columns)
{
    int at = threadIdx.x, steps = 0;
#pragma unroll 1
    for (; steps < rows; steps++)
        at = (x[at] + threadIdx.x) & 127;
    sums[blockIdx.x * blockDim.x + threadIdx.x] = at;
}

extern "C" __global__ void until_a_number(const float *x, float *sums, int rows, int columns)
{
    float sum = 0;
    int row = 0;
#pragma unroll 1
    while (row < rows && x[(long long)row * columns] < 1)
        row++;
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum + row;
}

extern "C" __global__ void adds_to_one_place(const float *x, float *sums, int rows, int columns)
{
#pragma unroll 1
    for (int row = 0; row < rows; row++)
        atomicAdd(sums + row % 4, x[(long long)row * columns + threadIdx.x]);
}
"""
#: Factors come to two buffers in turn, from where a warpgroup multiplies them.
PRODUCTS = r"""
extern "C" __global__ void products(const uint4 *x, float *sums, int steps)
{
    __shared__ alignas(128) uint4 left[2][128], right[2][16];
    float sum[4] = {};
#pragma unroll 1
    for (int step = 0, buffer = 0; step < steps; step++, buffer ^= 1) {
        left[buffer][threadIdx.x] = x[step * 128 + threadIdx.x];
        if (threadIdx.x < 16)
            right[buffer][threadIdx.x] = x[step * 16 + threadIdx.x];
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        auto descriptor = [](const uint4 *at) {
            unsigned long long address = (unsigned long long)__cvta_generic_to_shared(at);
            return (address >> 4 & 0x3fff) | 8ull << 16 | 16ull << 32;
        };
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0; }"
                     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                     : "l"(descriptor(left[buffer])), "l"(descriptor(right[buffer])));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]) :: "memory");
    }
    sums[blockIdx.x * 128 + threadIdx.x] = sum[0] + sum[1] + sum[2] + sum[3];
}
"""
#: Boxes of 8 rows of a tensor come to two stages in turn, each when all threads have read what was there before.
BOXES = r"""
struct alignas(64) TensorMap { unsigned long long opaque[16]; };
__device__ unsigned int at(const void *p) { return (unsigned int)__cvta_generic_to_shared(p); }
__device__ void await(unsigned long long *barrier, int parity) {
    asm volatile("{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra again;\n}"
                 :: "r"(at(barrier)), "r"(parity) : "memory");
}
extern "C" __global__ void boxes(const __grid_constant__ TensorMap map, float *sums, int first, int rows)
{
    __shared__ alignas(128) float tile[2][8][64];
    __shared__ unsigned long long full[2], empty[2];
    auto fetch = [&](int number) {
        const unsigned int barrier = at(&full[number % 2]);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 2048;" :: "r"(barrier) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     :: "r"(at(tile[number % 2])), "l"(&map), "r"(blockIdx.x * 64), "r"(first + number * 8), "r"(barrier) : "memory");
    };
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at(&full[i])) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 4;" :: "r"(at(&empty[i])) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        fetch(0);
    }
    __syncthreads();
    float sum = 0;
#pragma unroll 1
    for (int number = 0; number * 8 < rows; number++) {
        if (threadIdx.x == 0 && (number + 1) * 8 < rows) {
            if (number)
                await(&empty[(number + 1) % 2], (number - 1) / 2 % 2);
            fetch(number + 1);
        }
        await(&full[number % 2], number / 2 % 2);
        for (int i = 0; i < 8; i++)
            sum += tile[number % 2][i][threadIdx.x % 64];
        if (threadIdx.x % 32 == 0)
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(&empty[number % 2])) : "memory");
    }
    sums[blockIdx.x * 128 + threadIdx.x] = sum;
}
"""
ROWS, COLUMNS = 203, 1024


def timed(
    h200: Bench, name: str, rows: int = ROWS, *, run_all: bool = False, results: bool = False
) -> TimedOperation:
    x, sums = drv.DeviceMemory(4 * (ROWS + 8) * COLUMNS), drv.DeviceMemory(4 * 128 * 16)
    values = np.zeros((ROWS + 8, COLUMNS), np.float32)
    values[150] = 1
    drv.copy_to_device(x, values)
    with pytest.MonkeyPatch.context() as patch:
        if run_all:
            patch.setattr("drv.simulator.timing.metering.iterations._WORTH", 1 << 30)
        arguments = (x, sums, np.int32(rows), np.int32(COLUMNS))
        operation = h200.time(SOURCE, name, 8, 128, arguments, results=results)
    operation.metrics["wavefronts"] = sum(each.wavefronts for each in counts_of(operation))
    operation.metrics["requests"] = sum(each.requests for each in counts_of(operation))
    return operation


def counts_of(operation: TimedOperation) -> list[Any]:
    assert operation.kernel is not None
    return operation.kernel.counts.sites


def same_but_for_what_ran(one: TimedOperation, other: TimedOperation) -> bool:
    return {**one.metrics, "repeated": 0} == {**other.metrics, "repeated": 0}


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("column_sums", 0.9),
        ("tiles", 0.3),
        ("triangle", 0.1),
        ("one_is_different", 0.85),
        ("bank_changes", 0.3),
    ],
)
@pytest.mark.parametrize("rows", [ROWS, 160])
def test_what_is_left_out_is_counted_as_if_it_had_run(
    h200: Bench, name: str, least: float, rows: int
) -> None:
    quick, whole = timed(h200, name, rows), timed(h200, name, rows, run_all=True)
    assert whole.metrics["repeated"] == 0
    assert least <= quick.metrics["repeated"] < 1
    assert same_but_for_what_ran(quick, whole)


def test_products_of_warpgroups_repeat(h200: Bench) -> None:
    kernel = drv.Module(drv.compile_program(PRODUCTS, "compute_90a", line_info=True).image).function(
        "products"
    )
    x, sums = drv.DeviceMemory(16 * 128 * ROWS), drv.DeviceMemory(4 * 128 * 8)
    operations = []
    for worth in (2, 1 << 30):
        with pytest.MonkeyPatch.context() as patch, recording(h200.runtime.driver, results=False) as recorder:
            patch.setattr("drv.simulator.timing.metering.iterations._WORTH", worth)
            kernel.launch(8, 128, (x, sums, np.int32(ROWS)))
            drv.Device(0).synchronize()
        operations.append(recorder.operations[0])
    quick, whole = operations
    assert whole.metrics["repeated"] == 0
    assert quick.metrics["repeated"] > 0.9
    factors = [each.lanes for each in counts_of(quick) if each.site.text.startswith("wgmma.mma")]
    # Of each block and step, 64 and 8 lines of 16 numbers, in units of 16 bytes.
    assert factors == [8 * ROWS * (64 + 8) * 2]
    assert same_but_for_what_ran(quick, whole)


@pytest.mark.parametrize(
    ("first", "size", "least"),
    [
        (0, 800, 0.65),
        # The end of the tensor comes in the middle, and beyond it there is nothing to read.
        (0, 400, 0.2),
        # The last box has only a part in it.
        (0, 797, 0.65),
        # The first boxes are in front of it.
        (-300, 800, 0.3),
    ],
)
def test_boxes_of_tensors_repeat(h200: Bench, first: int, size: int, least: float) -> None:
    kernel = drv.Module(drv.compile_program(BOXES, "compute_90a", line_info=True).image).function("boxes")
    # Memory goes on behind the tensor.
    x, sums = drv.DeviceMemory(4 * 2 * 800 * COLUMNS), drv.DeviceMemory(4 * 128 * 8)
    tensor_map = drv.TensorMap("float32", (size, COLUMNS), (4 * COLUMNS,), (8, 64))
    operations = []
    for worth in (2, 1 << 30):
        with pytest.MonkeyPatch.context() as patch, recording(h200.runtime.driver, results=False) as recorder:
            patch.setattr("drv.simulator.timing.metering.iterations._WORTH", worth)
            kernel.launch(8, 128, (tensor_map.at(x), sums, np.int32(first), np.int32(800)))
            drv.Device(0).synchronize()
        operations.append(recorder.operations[0])
    quick, whole = operations
    assert whole.metrics["repeated"] == 0
    assert quick.metrics["repeated"] > least
    assert same_but_for_what_ran(quick, whole)
    for one, other in zip(counts_of(quick), counts_of(whole), strict=True):
        assert (one.lanes, one.requests, one.sectors, one.wavefronts, one.missed) == (
            other.lanes, other.requests, other.sectors, other.wavefronts, other.missed
        )  # fmt: skip
    read = sum(
        each.sectors
        for each in counts_of(quick)
        if "cp.async.bulk" in each.site.text and each.space == "global"
    )
    inside = max(0, min(first + 800, size) - max(first, 0))
    assert read == 8 * inside * 64 * 4 // 32


@pytest.mark.parametrize("name", ["by_loaded_numbers", "until_a_number", "adds_to_one_place"])
def test_what_loaded_numbers_decide_runs(h200: Bench, name: str) -> None:
    quick, whole = timed(h200, name), timed(h200, name, run_all=True)
    assert quick.metrics["repeated"] == 0
    assert same_but_for_what_ran(quick, whole)


def test_short_loops_run(h200: Bench) -> None:
    assert timed(h200, "column_sums", 5).metrics["repeated"] == 0
    assert timed(h200, "column_sums", 7).metrics["repeated"] > 0


def test_all_runs_where_results_are_needed(h200: Bench) -> None:
    assert timed(h200, "column_sums", results=True).metrics["repeated"] == 0
    x, sums = drv.DeviceMemory(4 * ROWS * COLUMNS), drv.DeviceMemory(4 * COLUMNS)
    values = np.random.default_rng(0).integers(0, 8, (ROWS, COLUMNS)).astype(np.float32)
    drv.copy_to_device(x, values)
    h200.time(SOURCE, "column_sums", 8, 128, (x, sums, np.int32(ROWS), np.int32(COLUMNS)), results=True)
    output = np.zeros(COLUMNS, np.float32)
    drv.copy_to_host(output, sums)
    assert np.array_equal(output, values.sum(0))


def test_a_sample_is_as_large_as_what_runs_of_it_allows(h200: Bench) -> None:
    x, sums = drv.DeviceMemory(4 * 2048 * 128), drv.DeviceMemory(4 * 2048 * 128)
    # All rows are one.
    arguments = (x, sums, np.int32(200), np.int32(0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("drv.simulator.timing.metering.meter.ENOUGH_LANES", 2_000_000)
        quick = h200.time(SOURCE, "column_sums", 2048, 128, arguments)
        patch.setattr("drv.simulator.timing.metering.iterations._WORTH", 1 << 30)
        whole = h200.time(SOURCE, "column_sums", 2048, 128, arguments)
    assert quick.metrics["sampled"] > 4 * whole.metrics["sampled"]
    assert quick.metrics["modelled_us"] == pytest.approx(whole.metrics["modelled_us"], rel=0.01)

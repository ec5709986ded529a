"""Compiled kernels, correct and with one synchronisation left out, on the simulated driver."""

from __future__ import annotations

import numpy as np
import pytest

from .machine import SCHEDULES, Machine

SOURCE = r"""
extern "C" __global__ void fill(float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = i;
}
extern "C" __global__ void add_one(float* out, const float* in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] + 1;
}
extern "C" __global__ void count(int* counter) { atomicAdd(counter, 1); }

template <bool barrier> __device__ void reverse(int* out)
{
    __shared__ int line[64];
    line[threadIdx.x] = threadIdx.x;
    if (barrier) __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = line[63 - threadIdx.x];
}
extern "C" __global__ void reversed(int* out) { reverse<true>(out); }
extern "C" __global__ void reversed_too_early(int* out) { reverse<false>(out); }

template <bool barrier> __device__ void tree(float* out, const float* in)
{
    __shared__ float part[128];
    int t = threadIdx.x;
    part[t] = in[blockIdx.x * 128 + t];
    for (int stride = 64; stride > 0; stride /= 2) {
        if (barrier || stride > 32) __syncthreads();
        if (t < stride) part[t] += part[t + stride];
    }
    if (t == 0) out[blockIdx.x] = part[0];
}
extern "C" __global__ void sum(float* out, const float* in) { tree<true>(out, in); }
extern "C" __global__ void sum_too_early(float* out, const float* in) { tree<false>(out, in); }

template <bool sync> __device__ void warp_sum(float* out, const float* in)
{
    __shared__ float part[32];
    int t = threadIdx.x;
    part[t] = in[t];
    for (int stride = 16; stride > 0; stride /= 2) {
        if (sync) __syncwarp();
        float other = part[(t + stride) % 32];
        if (sync) __syncwarp();
        part[t] += other;
    }
    out[t] = part[t];
}
extern "C" __global__ void warp_synced(float* out, const float* in) { warp_sum<true>(out, in); }
extern "C" __global__ void warp_in_step(float* out, const float* in) { warp_sum<false>(out, in); }

template <bool fence> __device__ void last_block(float* out, float* parts, unsigned* arrived)
{
    __shared__ bool last;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = blockIdx.x + 1;
        if (fence) __threadfence();
        last = atomicInc(arrived, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        if (threadIdx.x == 0) {
            float total = 0;
            for (int i = 0; i < gridDim.x; ++i) total += parts[i];
            *out = total;
            *arrived = 0;
        }
    }
}
extern "C" __global__ void last_adds_up(float* out, float* parts, unsigned* arrived) { last_block<true>(out, parts, arrived); }
extern "C" __global__ void last_adds_up_unfenced(float* out, float* parts, unsigned* arrived) { last_block<false>(out, parts, arrived); }

extern "C" __global__ void neighbours(int* out) { out[blockIdx.x * blockDim.x + threadIdx.x] = 1; }
extern "C" __global__ void on_same_device(int* out) { out[threadIdx.x] = blockIdx.x; }
extern "C" __global__ void all_one(int* out) { *out = 1; }

extern "C" __global__ void histogram(int* bins, const int* in, int n)
{
    __shared__ int mine[16];
    if (threadIdx.x < 16) mine[threadIdx.x] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&mine[in[i] & 15], 1);
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}
extern "C" __global__ void histogram_uncleared(int* bins, const int* in, int n)
{
    __shared__ int mine[16];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&mine[in[i] & 15], 1);
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}

__device__ void take(int* lock) { while (atomicCAS(lock, 0, 1) != 0); __threadfence(); }
__device__ void release(int* lock) { __threadfence(); atomicExch(lock, 0); }
extern "C" __global__ void locked(int* lock, int* total)
{
    if (threadIdx.x == 0) { take(lock); *total += blockIdx.x; release(lock); }
}
extern "C" __global__ void unlocked(int* lock, int* total)
{
    if (threadIdx.x == 0) *total += blockIdx.x;
}

template <bool fence> __device__ void look_back(int* sums, volatile int* flags)
{
    if (threadIdx.x == 0) {
        int before = 0;
        if (blockIdx.x > 0) {
            while (flags[blockIdx.x - 1] == 0);
            if (fence) __threadfence();
            before = sums[blockIdx.x - 1];
        }
        sums[blockIdx.x] = before + blockIdx.x;
        if (fence) __threadfence();
        flags[blockIdx.x] = 1;
    }
}
extern "C" __global__ void scanned(int* sums, int* flags) { look_back<true>(sums, flags); }
extern "C" __global__ void scanned_unfenced(int* sums, int* flags) { look_back<false>(sums, flags); }
"""

LEGACY = 0
CORRECT = pytest.mark.parametrize("correct", [True, False], ids=["correct", "incorrect"])


def line_of(text: str) -> int:
    return SOURCE[: SOURCE.index(text)].count("\n") + 1


@pytest.fixture(params=SCHEDULES[:6], ids=lambda one: f"{one[0]}-{one[1]}")
def machine(request):
    return Machine(*request.param)


@CORRECT
def test_kernel_after_kernel(machine, correct):
    kernels = machine.kernels(SOURCE)
    one, two = machine.stream(), machine.stream()
    memory, out = machine.alloc(4000), machine.alloc(4000)
    machine.launch(kernels["fill"], 4, 256, one, memory, np.int32(1000))
    if correct:
        machine.follow(two, one)
    machine.launch(kernels["add_one"], 4, 256, two, out, memory, np.int32(1000))
    machine.finish()
    if correct:
        assert machine.finding_kinds == []
        assert (machine.bytes(out, 4000).view(np.float32) == np.arange(1, 1001)).all()
        return
    (finding,) = machine.driver.findings
    assert finding.ranges == ((0, 4000),)
    text = str(finding)
    assert "kernel 'fill' on stream" in text
    assert f"kernels.cu:{line_of('out[i] = i;')}" in text
    assert f"kernels.cu:{line_of('out[i] = in[i] + 1;')}" in text
    assert "test_races_of_kernels_on_driver.py" in text


@CORRECT
def test_copy_after_kernel(machine, correct):
    kernels = machine.kernels(SOURCE)
    one, two, memory = machine.stream(), machine.stream(), machine.alloc(4000)
    target, out = machine.pinned(4000)
    machine.launch(kernels["fill"], 4, 256, one, memory, np.int32(1000))
    if correct:
        machine.follow(two, one)
    machine.copy(target, memory, two, 4000)
    machine.sync(two)
    machine.driver.host_access(target, 4000, writes=False)
    machine.finish()
    assert machine.finding_kinds == ([] if correct else ["race"])
    if correct:
        assert (out.view(np.float32) == np.arange(1000)).all()


def test_kernels_on_different_parts_and_reads_by_two(machine):
    kernels = machine.kernels(SOURCE)
    one, two, shared = machine.stream(), machine.stream(), machine.alloc(4000)
    halves = machine.alloc(8000)
    machine.launch(kernels["fill"], 4, 256, LEGACY, shared, np.int32(1000))
    machine.finish()
    for index, stream in enumerate((one, two)):
        machine.launch(kernels["add_one"], 4, 256, stream, halves + 4000 * index, shared, np.int32(1000))
    machine.finish()
    assert machine.finding_kinds == []


@CORRECT
def test_kernels_that_count_together(machine, correct):
    kernels = machine.kernels(SOURCE)
    one, two, counter = machine.stream(), machine.stream(), machine.alloc(4)
    machine.fill(counter, 0, one, 4)
    machine.follow(two, one)
    for stream in (one, two):
        machine.launch(kernels["count"], 4, 64, stream, counter)
    if correct:
        machine.follow(two, one)
    machine.fill(counter, 0, two, 4)
    machine.finish()
    assert machine.finding_kinds == ([] if correct else ["race"])


@CORRECT
def test_a_kernel_and_pinned_memory(machine, correct):
    kernels = machine.kernels(SOURCE)
    stream = machine.stream()
    target, out = machine.pinned(4000)
    machine.launch(kernels["fill"], 4, 256, stream, target, np.int32(1000))
    if correct:
        machine.sync(stream)
    machine.driver.host_access(target, 4000, writes=False)
    if correct:
        assert out.view(np.float32)[999] == 999
    machine.finish()
    assert machine.finding_kinds == ([] if correct else ["race"])


WITHIN = [
    ("reversed", "reversed_too_early", "shared race"),
    ("sum", "sum_too_early", "shared race"),
    ("warp_synced", "warp_in_step", "shared race"),
    ("last_adds_up", "last_adds_up_unfenced", "kernel race"),
    ("neighbours", "on_same_device", "kernel race"),
    ("neighbours", "all_one", "same value"),
    ("histogram", "histogram_uncleared", "uninitialized"),
    ("locked", "unlocked", "kernel race"),
    ("scanned", "scanned_unfenced", "kernel race"),
]


@pytest.mark.parametrize(("correct", "incorrect", "kind"), WITHIN, ids=[row[1] for row in WITHIN])
def test_races_within_a_kernel(correct, incorrect, kind):
    for name in (correct, incorrect):
        machine = Machine(check="full", devices=1, same_values="report")
        kernel = machine.kernels(SOURCE)[name]
        first, second, third = (machine.alloc(4096) for _ in range(3))
        for memory in (first, second, third):
            machine.fill(memory, 0, LEGACY, 4096)
        block = 32 if "warp" in name else 128 if "sum" in name else 64
        grid = 1 if "warp" in name else 6
        arguments = {
            "histogram": (first, second, np.int32(300)),
            "last_adds_up": (first, second, third),
            "reversed": (first,),
            "neighbours": (first,),
            "on_same_device": (first,),
            "all_one": (first,),
        }
        chosen = next((row for start, row in arguments.items() if name.startswith(start)), (first, second))
        machine.launch(kernel, grid, block, LEGACY, *chosen)
        machine.finish()
        if name == correct:
            assert machine.finding_kinds == [], str(machine.driver.findings)
        else:
            assert set(machine.finding_kinds) == {kind}
            finding = machine.driver.findings[0]
            assert "kernels.cu:" in str(finding)
            assert "thread (" in str(finding)


def test_a_kernel_that_reads_what_nothing_wrote():
    machine = Machine(check="full", devices=1)
    kernels = machine.kernels(SOURCE)
    memory, out = machine.alloc(4000), machine.alloc(4000)
    machine.launch(kernels["fill"], 4, 256, LEGACY, memory, np.int32(990))
    machine.launch(kernels["add_one"], 4, 256, LEGACY, out, memory, np.int32(1000))
    machine.finish()
    (finding,) = machine.driver.findings
    assert finding.kind == "uninitialized"
    assert finding.ranges == ((3960, 4000),)
    assert "block (3, 0, 0), thread (222, 0, 0)" in str(finding)

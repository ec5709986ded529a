"""``mbarrier`` objects: arrivals, bytes, phases, states; what they hand on, and what reports say of them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import drv
from tests.thinning import thinned

from .programs import HAS_LIBCUDACXX, SCHEDULES, counted, line_of, raced_lines, run

pytestmark = pytest.mark.simulator_only

#: Each instruction as a function of C++.
PRELUDE = r"""
typedef unsigned long long u64;
__device__ unsigned shared(const void* p) { return __cvta_generic_to_shared(p); }
__device__ void init(u64* b, unsigned n) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared(b)), "r"(n) : "memory"); }
__device__ void inval(u64* b) { asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"(shared(b)) : "memory"); }
__device__ u64 arrive(u64* b) { u64 state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(shared(b)) : "memory"); return state; }
__device__ u64 arrive_n(u64* b, unsigned n) { u64 state;
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 %0, [%1], %2;" : "=l"(state) : "r"(shared(b)), "r"(n) : "memory");
    return state; }
__device__ u64 arrive_early(u64* b) { u64 state;
    asm volatile("mbarrier.arrive.noComplete.shared.b64 %0, [%1], 1;" : "=l"(state) : "r"(shared(b)) : "memory");
    return state; }
__device__ u64 drop(u64* b) { u64 state;
    asm volatile("mbarrier.arrive_drop.shared.b64 %0, [%1];" : "=l"(state) : "r"(shared(b)) : "memory"); return state; }
__device__ u64 arrive_expect(u64* b, unsigned bytes) { u64 state;
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 %0, [%1], %2;" : "=l"(state) : "r"(shared(b)), "r"(bytes) : "memory");
    return state; }
__device__ void expect(u64* b, unsigned bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" :: "r"(shared(b)), "r"(bytes) : "memory"); }
__device__ void complete(u64* b, unsigned bytes) {
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;" :: "r"(shared(b)), "r"(bytes) : "memory"); }
__device__ unsigned pending(u64 state) { unsigned n;
    asm("mbarrier.pending_count.b64 %0, %1;" : "=r"(n) : "l"(state)); return n; }
__device__ int test(u64* b, u64 state) { int done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }"
        : "=r"(done) : "r"(shared(b)), "l"(state) : "memory"); return done; }
__device__ int test_parity(u64* b, unsigned parity) { int done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }"
        : "=r"(done) : "r"(shared(b)), "r"(parity) : "memory"); return done; }
__device__ int try_parity(u64* b, unsigned parity) { int done;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2, 1000; selp.s32 %0, 1, 0, p; }"
        : "=r"(done) : "r"(shared(b)), "r"(parity) : "memory"); return done; }
__device__ int try_state(u64* b, u64 state) { int done;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }"
        : "=r"(done) : "r"(shared(b)), "l"(state) : "memory"); return done; }
__device__ void wait(u64* b, unsigned parity) { while (!try_parity(b, parity)) {} }
"""

ALONE = (
    PRELUDE
    + r"""
extern "C" __global__ void alone(int* out) {
    __shared__ u64 b;
    init(&b, 3);
    *out++ = test_parity(&b, 0); *out++ = test_parity(&b, 1);
    u64 first = arrive_early(&b);
    *out++ = pending(first);
    *out++ = pending(arrive(&b)); *out++ = test(&b, first);
    u64 third = arrive(&b);
    *out++ = pending(third); *out++ = test(&b, first); *out++ = test(&b, third);
    *out++ = test_parity(&b, 0); *out++ = test_parity(&b, 1);
    // Bytes, counted in any order.
    complete(&b, 5);
    arrive_n(&b, 2);
    expect(&b, 5); expect(&b, 100);
    u64 state = arrive_expect(&b, 30);
    *out++ = try_state(&b, state);
    complete(&b, 100);
    *out++ = test(&b, state);
    complete(&b, 30);
    *out++ = test(&b, state); *out++ = test_parity(&b, 0); *out++ = test_parity(&b, 1);
    // A thread less from now on.
    drop(&b);
    arrive_n(&b, 2);
    *out++ = test_parity(&b, 0);
    u64 last = arrive(&b);
    *out++ = pending(last);
    arrive(&b);
    *out++ = test(&b, last);
    inval(&b);
    *(volatile u64*)&b = 7;
    *out++ = b;
}
"""
)


def test_phases_of_an_object() -> None:
    out = np.zeros(32, np.int32)
    for generic in (False, True):
        source = ALONE
        if generic:
            # The same by generic addresses.
            source = (
                source.replace(".shared::cta", "")
                .replace(".shared", "")
                .replace(
                    "unsigned shared(const void* p) { return __cvta_generic_to_shared(p); }",
                    "u64 shared(const void* p) { return (u64)p; }",
                )
                .replace('"r"(shared', '"l"(shared')
            )
        assert run(source, "alone", 1, 1, [out]) == ()
        first = [0, 1, 3, 2, 0, 1, 1, 1, 1, 0]
        bytes_counted = [0, 0, 1, 0, 1]
        dropped = [1, 2, 1, 7]
        assert out.tolist()[:19] == first + bytes_counted + dropped


TURNS = (
    PRELUDE
    + r"""
extern "C" __global__ void turns(const float* in, float* out, int steps) {
    __shared__ float cells[2][64];
    __shared__ u64 full[2], empty[2];
    if (threadIdx.x == 0) for (int i = 0; i < 2; ++i) { init(full + i, 64); init(empty + i, 64); }
    __syncthreads();
    int i = threadIdx.x % 64;
    if (threadIdx.x < 64) {
        for (int step = 0; step < steps; ++step) {
            int stage = step % 2, phase = step / 2 % 2;
            ACQUIRE;
            cells[stage][i] = in[64 * step + i];
            PUBLISH;
        }
    } else {
        for (int step = 0; step < steps; ++step) {
            int stage = step % 2, phase = step / 2 % 2;
            AWAIT;
            out[64 * step + i] = cells[stage][63 - i];
            RELEASE;
        }
    }
}
"""
)
RIGHT = {
    "ACQUIRE": "wait(empty + stage, phase ^ 1)",
    "PUBLISH": "arrive(full + stage)",
    "AWAIT": "wait(full + stage, phase)",
    "RELEASE": "arrive(empty + stage)",
}


def turns(**changes: str) -> str:
    source = TURNS
    for word, text in (RIGHT | changes).items():
        source = source.replace(word, text)
    return source


WRITE_LINE, READ_LINE = line_of(turns(), "= in["), line_of(turns(), "= cells[")


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.parametrize("waiting", ["try_parity", "test_parity"])
@pytest.mark.sampled(4)
def test_a_producer_and_a_consumer(schedule: str, seed: int, waiting: str) -> None:
    source = turns().replace("while (!try_parity", f"while (!{waiting}")
    values = counted((6, 64))
    out = np.zeros((3, 6, 64), np.float32)
    blocks = source.replace("int i = thr", "out += 384 * blockIdx.x; int i = thr")
    assert run(blocks, "turns", 3, 128, [values, out, 6], schedule=schedule, seed=seed) == ()
    assert (out == values[:, ::-1]).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"AWAIT": ""},
        {"RELEASE": "", "AWAIT": "wait(full + stage, phase); arrive(empty + stage)"},
        {"AWAIT": "if (i == 0) wait(full + stage, phase)"},
        {
            "PUBLISH": 'asm volatile("mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%0];" :: "r"(shared(full + stage)) : "memory")'
        },
    ],
    ids=["reads at once", "releases before it reads", "one thread waits", "a relaxed arrival"],
)
def test_a_wait_that_is_missing(changes: dict[str, str]) -> None:
    # Those that do not wait at all would soon be a phase ahead, and never end.
    steps = 6 if "RELEASE" in changes else 2
    values = counted((steps, 64))
    source = turns(**changes)
    for schedule, seed in SCHEDULES[:3]:
        out = np.zeros_like(values)
        findings = run(source, "turns", 1, 128, [values, out, steps], schedule=schedule, seed=seed)
        assert (WRITE_LINE, READ_LINE) in raced_lines(findings)


def test_one_thread_of_a_warp_waits_and_tells_the_others() -> None:
    source = turns(AWAIT="if (i % 32 == 0) wait(full + stage, phase); __syncwarp()")
    values = counted((6, 64))
    out = np.zeros_like(values)
    assert run(source, "turns", 1, 128, [values, out, 6]) == ()
    assert (out == values[:, ::-1]).all()


def test_one_thread_of_a_warp_arrives_for_the_others() -> None:
    source = turns(
        PUBLISH="__syncwarp(); if (i % 32 == 0) arrive(full + stage)",
        RELEASE="__syncwarp(); if (i % 32 == 0) arrive(empty + stage)",
    ).replace("init(full + i, 64); init(empty + i, 64)", "init(full + i, 2); init(empty + i, 2)")
    values = counted((6, 64))
    out = np.zeros_like(values)
    assert run(source, "turns", 1, 128, [values, out, 6]) == ()
    assert (out == values[:, ::-1]).all()
    findings = run(
        source.replace("__syncwarp(); if (i % 32 == 0) arrive(full", "if (i % 32 == 0) arrive(full"),
        "turns",
        1,
        128,
        [values, out, 6],
    )
    assert (WRITE_LINE, READ_LINE) in raced_lines(findings)


def test_barriers_of_some_warps_hand_on_what_these_did() -> None:
    source = r"""
extern "C" __global__ void some(const float* in, float* out) {
    __shared__ float cells[64];
    if (threadIdx.x < 64) {
        cells[threadIdx.x] = in[threadIdx.x];
        asm volatile("bar.sync 1, 64;" ::: "memory");
        out[threadIdx.x] = cells[63 - threadIdx.x];
        asm volatile("bar.arrive 2, 128;" ::: "memory");
    } else {
        WAIT;
        out[threadIdx.x] = cells[127 - threadIdx.x] + 1;
    }
}"""
    values = counted((64,))
    out = np.zeros(128, np.float32)
    right = source.replace("WAIT", 'asm volatile("bar.sync 2, 128;" ::: "memory")')
    assert run(right, "some", 1, 128, [values, out]) == ()
    assert (out == np.concatenate([values[::-1], values[::-1] + 1])).all()
    # The other warps meet as well, and learn nothing by that.
    wrong = source.replace("WAIT", 'asm volatile("bar.sync 3, 64;" ::: "memory")')
    wrong = wrong.replace('asm volatile("bar.arrive 2, 128;" ::: "memory");', "")
    assert raced_lines(run(wrong, "some", 1, 128, [values, out])) == {
        (line_of(wrong, "= in["), line_of(wrong, "+ 1;"))
    }


def test_initialising_without_a_barrier() -> None:
    source = turns().replace("__syncthreads();", "")
    findings = run(source, "turns", 1, 128, [counted((6, 64)), np.zeros((6, 64), np.float32), 6])
    assert any("mbarrier.init" in finding.first.site.text for finding in findings if finding.first)


# What cannot be


def broken(body: str, threads: int = 1) -> str:
    source = PRELUDE + f'extern "C" __global__ void broken(int* out) {{ __shared__ u64 b[2]; {body} }}'
    with pytest.raises(drv.CudaError) as raised:
        run(source, "broken", 1, threads, [np.zeros(4, np.int32)])
    return str(raised.value)


def test_objects_that_are_none() -> None:
    assert "uses byte 8 of shared memory as an mbarrier, which is none" in broken("b[1] = 5; arrive(b + 1);")
    assert "as an mbarrier, which is none" in broken("init(b, 1); inval(b); arrive(b);")
    assert "expects 0 arrivals: 1 to 1048575 can be" in broken("init(b, 0);")
    assert "no multiple of 8" in broken("init((u64*)((char*)b + 4), 1);")


def test_too_many_arrivals() -> None:
    text = broken("init(b, 2); expect(b, 16); arrive_n(b, 2); arrive(b);")
    assert "arrives at an mbarrier more often than it expects" in text
    assert "in phase 0 0 of 2 arrivals and 16 bytes are missing" in text
    assert "more often than it expects" in broken("init(b, 3); arrive_n(b, 4);")


def test_a_phase_that_is_never_complete() -> None:
    text = broken(
        "if (threadIdx.x == 0) { init(b, 65); expect(b, 4096); } __syncthreads(); arrive(b); wait(b, 0);", 64
    )
    assert "hangs: threads wait and none can go on" in text
    assert "64 threads, the first block (0, 0, 0), thread (0, 0, 0), wait for phase 0 of an mbarrier" in text
    assert "where in phase 0 1 of 65 arrivals and 4096 bytes are missing (byte 0 of shared memory)" in text
    assert "mbarrier.try_wait" in text


def test_a_wait_that_gives_up() -> None:
    body = "init(b, 1); int tries = 0; while (!try_parity(b, 0) && ++tries < 50) {} out[0] = tries;"
    out = np.zeros(4, np.int32)
    source = PRELUDE + f'extern "C" __global__ void tries(int* out) {{ __shared__ u64 b[2]; {body} }}'
    assert run(source, "tries", 1, 1, [out]) == ()
    assert out[0] == 50


def test_another_block_lets_a_waiting_thread_go_on() -> None:
    source = (
        PRELUDE
        + r"""
extern "C" __global__ void __launch_bounds__(1024) helps(int* flag, int* out) {
    __shared__ u64 b;
    if (blockIdx.x == 8) { if (threadIdx.x == 0) { __threadfence(); atomicExch(flag, 1); } return; }
    if (threadIdx.x == 0) init(&b, 1);
    __syncthreads();
    if (threadIdx.x == 32) { while (!atomicAdd(flag, 0)) {} arrive(&b); }
    if (threadIdx.x < 32) { wait(&b, 0); out[32 * blockIdx.x + threadIdx.x] = 1; }
}"""
    )
    out = np.zeros(8 * 32, np.int32)
    assert run(source, "helps", 9, 1024, [np.zeros(1, np.int32), out]) == ()
    assert out.all()


# Copies that objects count


COUNTED = (
    PRELUDE
    + r"""
extern "C" __global__ void counted(const float4* in, float* out) {
    __shared__ float4 cells[64];
    __shared__ u64 b;
    if (threadIdx.x == 0) init(&b, EXPECTED);
    __syncthreads();
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(shared(cells + threadIdx.x)), "l"(in + threadIdx.x) : "memory");
    ARRIVE;
    WAIT;
    out[threadIdx.x] = cells[63 - threadIdx.x].x;
}
"""
)
ARRIVE = 'asm volatile("cp.async.mbarrier.arrive{}.shared.b64 [%0];" :: "r"(shared(&b)) : "memory")'


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.parametrize("counts", [True, False])
def test_arriving_when_copies_are_done(schedule: str, seed: int, counts: bool) -> None:
    arrive = ARRIVE.format(".noinc" if counts else "") + ("" if counts else "; arrive(&b)")
    source = COUNTED.replace("EXPECTED", "64").replace("ARRIVE", arrive).replace("WAIT", "wait(&b, 0)")
    values = counted((64, 4))
    out = np.zeros(64, np.float32)
    assert run(source, "counted", 1, 64, [values, out], schedule=schedule, seed=seed) == ()
    assert (out == values[::-1, 0]).all()


@pytest.mark.parametrize(
    ("arrive", "wait"),
    [
        (ARRIVE.format(".noinc"), ""),
        ("arrive(&b)", "wait(&b, 0)"),
        (ARRIVE.format("") + "; arrive(&b)", "if (threadIdx.x < 32) wait(&b, 0)"),
    ],
    ids=["nobody waits", "arriving before", "some wait"],
)
def test_reading_before_the_phase_is_complete(arrive: str, wait: str) -> None:
    source = COUNTED.replace("EXPECTED", "64").replace("ARRIVE", arrive).replace("WAIT", wait)
    lines = line_of(source, "cp.async.cg"), line_of(source, "= cells[")
    for schedule, seed in SCHEDULES:
        out = np.zeros(64, np.float32)
        findings = run(source, "counted", 1, 64, [counted((64, 4)), out], schedule=schedule, seed=seed)
        assert lines in raced_lines(findings)


# The same through libcu++ and cooperative groups

LIBRARY = r"""
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;
typedef cuda::barrier<cuda::thread_scope_block> barrier;

extern "C" __global__ void barriers(const float* in, float* out) {
    __shared__ float tile[256];
    __shared__ barrier bar;
    auto block = cg::this_thread_block();
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    block.sync();
    for (int i = 0; i < 3; ++i) {
        cuda::memcpy_async(block, tile, in + 256 * i, SIZE, bar);
        WAIT;
        out[256 * i + threadIdx.x] = tile[255 - threadIdx.x];
        bar.arrive_and_wait();
    }
}

extern "C" __global__ void pipelines(const float* in, float* out) {
    __shared__ float tile[2][256];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    for (int filled = 0, i = 0; i < 3; ++i) {
        for (; filled < 3 && filled < i + 2; ++filled) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, tile[filled % 2], in + 256 * filled, SIZE, pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        out[256 * i + threadIdx.x] = tile[i % 2][255 - threadIdx.x];
        pipe.consumer_release();
    }
}

extern "C" __global__ void groups(const float* in, float* out) {
    __shared__ float tile[256];
    auto block = cg::this_thread_block();
    for (int i = 0; i < 3; ++i) {
        cg::memcpy_async(block, tile, in + 256 * i, 1024);
        cg::wait(block);
        out[256 * i + threadIdx.x] = tile[255 - threadIdx.x];
        block.sync();
    }
}
"""
SIZES = ("1024", "cuda::aligned_size_t<16>(1024)")


@pytest.mark.skipif(not HAS_LIBCUDACXX, reason="NVRTC finds no libcu++")
@pytest.mark.parametrize(
    ("architecture", "size"),
    thinned(
        product(("compute_75", "compute_80", "compute_90a"), SIZES),
        lambda architecture, size: (architecture == "compute_90a") and size == SIZES[0],
        lambda architecture, size: f"{architecture} {'aligned' if size == SIZES[1] else 'any alignment'}",
    ),
)
def test_barriers_and_pipelines_of_the_library(architecture: str, size: str) -> None:
    options = (f"-DSIZE={size}", "-DWAIT=bar.arrive_and_wait()")
    for kernel in ("barriers", "pipelines", "groups"):
        for schedule, seed in SCHEDULES[:3]:
            values = counted((3, 256))
            out = np.zeros_like(values)
            findings = run(
                LIBRARY,
                kernel,
                1,
                256,
                [values, out],
                architecture=architecture,
                options=options,
                schedule=schedule,
                seed=seed,
            )
            assert findings == ()
            assert (out == values[:, ::-1]).all()


@pytest.mark.skipif(not HAS_LIBCUDACXX, reason="NVRTC finds no libcu++")
@pytest.mark.parametrize(
    "architecture", thinned(["compute_80", "compute_90a"], lambda each: each == "compute_80")
)
def test_a_barrier_of_the_library_that_nobody_waits_for(architecture: str) -> None:
    wait = (
        "auto token=bar.arrive();early=tile[255-threadIdx.x];bar.wait(static_cast<decltype(token)&&>(token))"
    )
    source = LIBRARY.replace("WAIT;", "float early; WAIT;").replace(
        "= tile[255 - threadIdx.x];\n        bar", "= early;\n        bar"
    )
    values = counted((3, 256))
    out = np.zeros_like(values)
    findings = run(
        source,
        "barriers",
        1,
        256,
        [values, out],
        architecture=architecture,
        options=(f"-DSIZE={SIZES[1]}", f"-DWAIT={wait}"),
        schedule="lazy",
    )
    assert any("writes asynchronously" in str(finding) for finding in findings)
    assert (out != values[:, ::-1]).any()

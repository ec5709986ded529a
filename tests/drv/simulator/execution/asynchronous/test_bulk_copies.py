"""``cp.async.bulk``, ``cp.reduce.async.bulk``, ``st.async`` and ``red.async``; proxy fences and waits that are missing."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import drv

from .programs import MBARRIERS, SCHEDULES, counted, line_of, raced_lines, run

pytestmark = pytest.mark.simulator_only

ROUND_TRIP = (
    MBARRIERS
    + r"""
extern "C" __global__ void round_trip(const float* in, float* out, int n) {
    __shared__ alignas(16) float cells[2][256];
    __shared__ u64 full;
    if (threadIdx.x == 0) init(&full, 1);
    __syncthreads();
    for (int i = 0; i < n; ++i) {
        if (threadIdx.x == 0) {
            expect(&full, 1024);
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                :: "r"(shared(cells[0])), "l"(in + 256 * i), "r"(1024), "r"(shared(&full)) : "memory");
        }
        LOADED;
        cells[1][threadIdx.x] = 2 * cells[0][255 - threadIdx.x];
        FENCE;
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;"
                :: "l"(out + 256 * i), "r"(shared(cells[1])) : "memory");
            commit();
            STORED;
        }
        __syncthreads();
    }
    LAST;
}
"""
)
RIGHT = {"LOADED": "wait(&full, i & 1)", "FENCE": "fence_async()", "STORED": "wait_read()", "LAST": ""}


def round_trip(**changes: str) -> str:
    source = ROUND_TRIP
    for word, text in (RIGHT | changes).items():
        source = source.replace(f"{word};", f"{text};")
    return source


LOAD_LINE = line_of(ROUND_TRIP, '"l"(in + 256') - 1
STORE_LINE = line_of(ROUND_TRIP, '"l"(out + 256') - 1
WRITE_LINE = line_of(ROUND_TRIP, "= 2 * cells")


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_to_shared_memory_and_back(schedule: str, seed: int) -> None:
    values = counted((4, 256))
    out = np.zeros_like(values)
    assert run(round_trip(), "round_trip", 1, 256, [values, out, 4], schedule=schedule, seed=seed) == ()
    np.testing.assert_array_equal(out, 2 * values[:, ::-1])


EACH_ITS_OWN = (
    MBARRIERS
    + r"""
extern "C" __global__ void each_its_own(const float* in, float* out) {
    __shared__ alignas(16) float cells[128];
    __shared__ u64 full;
    if (threadIdx.x == 0) init(&full, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, 512);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];"
            :: "r"(shared(cells)), "l"(in + 128 * blockIdx.x), "r"(shared(&full)) : "memory");
    }
    wait(&full, 0);
    for (int i = threadIdx.x; i < 128; i += blockDim.x) out[128 * blockIdx.x + i] = cells[i];
}
"""
)


@pytest.mark.parametrize(("blocks", "threads"), [(4, 8), (1, 32), (2, 16), (8, 4)])
def test_as_many_pieces_as_threads_run_together(blocks: int, threads: int) -> None:
    # 512 bytes are 32 pieces of 16 bytes, all of one thread's, and there are 32 threads.
    values = counted((blocks, 128))
    out = np.zeros_like(values)
    assert run(EACH_ITS_OWN, "each_its_own", blocks, threads, [values, out]) == ()
    np.testing.assert_array_equal(out, values)


@pytest.mark.parametrize(
    ("changes", "lines", "advice"),
    [
        ({"LOADED": ""}, (LOAD_LINE, WRITE_LINE), "mbarrier phase"),
        ({"LOADED": "if (threadIdx.x == 0) wait(&full, i & 1)"}, (LOAD_LINE, WRITE_LINE), ""),
        ({"FENCE": ""}, (STORE_LINE, WRITE_LINE), "put fence.proxy.async behind the writes"),
        ({"FENCE": "if (threadIdx.x < 128) fence_async()"}, (STORE_LINE, WRITE_LINE), "fence.proxy.async"),
        ({"STORED": ""}, (STORE_LINE, WRITE_LINE), "wait for its group"),
    ],
    ids=["reads at once", "one thread waits", "no fence", "some fence", "overwrites what is being stored"],
)
def test_what_is_missing(changes: dict[str, str], lines: tuple[int, int], advice: str) -> None:
    # Threads that do not wait would soon be a phase ahead.
    steps = 1 if "LOADED" in changes else 4
    for schedule, seed in SCHEDULES[:3]:
        values = counted((steps, 256))
        out = np.zeros_like(values)
        findings = run(
            round_trip(**changes), "round_trip", 1, 256, [values, out, steps], schedule=schedule, seed=seed
        )
        assert tuple(sorted(lines)) in raced_lines(findings)
        assert any(advice in str(finding) for finding in findings)


def test_missing_waits_show_as_wrong_data() -> None:
    for changes, steps in (({"LOADED": ""}, 1), ({"STORED": ""}, 4)):
        values = counted((steps, 256))
        out = np.zeros_like(values)
        run(round_trip(**changes), "round_trip", 1, 256, [values, out, steps], schedule="lazy")
        assert (out != 2 * values[:, ::-1]).any()


def test_the_fence_may_stand_behind_the_barrier() -> None:
    source = round_trip(FENCE="").replace(
        'asm volatile("cp.async.bulk.global', 'fence_async(); asm volatile("cp.async.bulk.global'
    )
    values = counted((4, 256))
    assert run(source, "round_trip", 1, 256, [values, np.zeros_like(values), 4]) == ()


def test_waiting_for_reads_is_not_waiting_for_writes() -> None:
    body = "if (threadIdx.x == 0) { WAIT; out[0] = out[255] + 1; }"
    for wait, right in (("wait_all()", True), ("wait_read()", False)):
        source = round_trip(LAST=body.replace("WAIT", wait))
        values = counted((1, 256))
        out = np.zeros_like(values)
        findings = run(source, "round_trip", 1, 256, [values, out, 1], schedule="lazy")
        assert (findings == ()) is right
        assert bool(out[0, 0] == 3) is right
        if not right:
            assert {finding.kind for finding in findings} >= {"kernel race"}


def test_a_second_load_over_what_others_still_read() -> None:
    barrier = (
        '__syncthreads();\n        if (threadIdx.x == 0) {\n            asm volatile("cp.async.bulk.global'
    )
    source = round_trip()
    assert barrier in source
    # The stores are another thread's, so that nothing makes the loads wait.
    source = (
        source.replace(barrier, barrier.replace("threadIdx.x == 0", "threadIdx.x == 255"))
        .replace("        __syncthreads();\n    }\n", "    }\n")
        .replace(
            "fence_async();\n        __syncthreads();", 'fence_async(); asm volatile("bar.sync 1, 128;");'
        )
    )
    values = counted((4, 256))
    source = source.replace("bar.sync 1, 128;", "bar.sync %0, 128;").replace(
        'bar.sync %0, 128;");', 'bar.sync %0, 128;" :: "r"(1 + threadIdx.x / 128) : "memory");'
    )
    findings = run(source, "round_trip", 1, 256, [values, np.zeros_like(values), 2])
    assert (LOAD_LINE, WRITE_LINE) in raced_lines(findings)


REDUCE = (
    MBARRIERS
    + r"""
extern "C" __global__ void reduce(const TYPE* in, TYPE* out) {
    __shared__ alignas(16) TYPE cells[64];
    cells[threadIdx.x] = in[64 * blockIdx.x + threadIdx.x];
    fence_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.OPERATION [%0], [%1], %2;"
            :: "l"(out), "r"(shared(cells)), "r"((unsigned)sizeof(cells)) : "memory");
        commit();
        wait_read();
    }
}
"""
)


@pytest.mark.parametrize(
    ("operation", "ctype", "dtype"),
    [
        ("add.u32", "unsigned", np.uint32),
        ("add.u64", "u64", np.uint64),
        ("min.s32", "int", np.int32),
        ("max.s64", "long long", np.int64),
        ("and.b32", "unsigned", np.uint32),
        ("xor.b64", "u64", np.uint64),
        ("inc.u32", "unsigned", np.uint32),
        ("add.f32", "float", np.float32),
        ("add.f64", "double", np.float64),
        ("add.noftz.f16", "unsigned short", np.float16),
        ("add.noftz.bf16", "unsigned short", ml_dtypes.bfloat16),
        ("max.f16", "unsigned short", np.float16),
    ],
)
@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_reductions_in_global_memory(operation: str, ctype: str, dtype: type, schedule: str) -> None:
    random = np.random.default_rng(0)
    values = random.integers(1, 9, (5, 64)).astype(dtype)
    out = random.integers(1, 9, 64).astype(dtype)
    before = out.copy()
    source = REDUCE.replace("OPERATION", operation).replace("TYPE", ctype)
    assert run(source, "reduce", 5, 64, [values.view(np.uint8), out.view(np.uint8)], schedule=schedule) == ()
    name = operation.partition(".")[0]
    rows = np.concatenate([before[None], values])
    if name == "inc":
        for row in values:
            before = np.where(before >= row, 0, before + 1).astype(dtype)
        # The blocks may come in any order; the result is the same for equal limits only.
        assert out.shape == before.shape
        return
    combine = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "xor": np.bitwise_xor,
    }[name]
    wide = rows.astype(np.float64) if rows.dtype.kind not in "iu" else rows
    assert (out == combine.reduce(wide, axis=0).astype(dtype)).all()


CLUSTER = (
    MBARRIERS
    + r"""
__device__ unsigned mapped(const void* p, unsigned rank) { unsigned result;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(result) : "r"(shared(p)), "r"(rank)); return result; }
__device__ void meet() { asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory"); }
extern "C" __global__ void __cluster_dims__(4) cluster(const unsigned* in, unsigned* out) {
    __shared__ alignas(16) unsigned own[64], theirs[64];
    __shared__ u64 full;
    unsigned rank = blockIdx.x % 4;
    own[threadIdx.x] = in[64 * blockIdx.x + threadIdx.x];
    theirs[threadIdx.x] = 1000;
    fence_async();
    if (threadIdx.x == 0) { init(&full, 1); fence_init(); EXPECT; }
    MEET;
    SEND;
    WAIT;
    out[64 * blockIdx.x + threadIdx.x] = theirs[63 - threadIdx.x];
    END;
}
"""
)
SEND = {
    "copy": """if (threadIdx.x == 0) asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
        :: "r"(mapped(theirs, (rank + 1) % 4)), "r"(shared(own)), "r"(mapped(&full, (rank + 1) % 4)) : "memory")""",
    "reduce": """if (threadIdx.x == 0) asm volatile("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%0], [%1], 256, [%2];"
        :: "r"(mapped(theirs, (rank + 1) % 4)), "r"(shared(own)), "r"(mapped(&full, (rank + 1) % 4)) : "memory")""",
    "store": """asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];"
        :: "r"(mapped(theirs + threadIdx.x, (rank + 1) % 4)), "r"(own[threadIdx.x]), "r"(mapped(&full, (rank + 1) % 4)) : "memory")""",
    "vectors": """if (threadIdx.x % 4 == 0) asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];"
        :: "r"(mapped(theirs + threadIdx.x, (rank + 1) % 4)), "r"(own[threadIdx.x]), "r"(own[threadIdx.x + 1]), "r"(own[threadIdx.x + 2]), "r"(own[threadIdx.x + 3]), "r"(mapped(&full, (rank + 1) % 4)) : "memory")""",
    "update": """asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];"
        :: "r"(mapped(theirs + threadIdx.x, (rank + 1) % 4)), "r"(own[threadIdx.x]), "r"(mapped(&full, (rank + 1) % 4)) : "memory")""",
}
CLUSTER_RIGHT = {"EXPECT": "expect(&full, 256)", "MEET": "meet()", "WAIT": "wait(&full, 0)", "END": "meet()"}


def cluster(form: str, **changes: str) -> str:
    source = CLUSTER.replace("SEND;", SEND[form].replace("\n", " ") + ";")
    for word, text in (CLUSTER_RIGHT | changes).items():
        source = source.replace(f"{word};", f"{text};")
    # Threads read what others have written where they store more than their own.
    return source.replace("meet(); if", "meet(); __syncthreads(); if") if form == "vectors" else source


@pytest.mark.parametrize("form", SEND)
@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.sampled(4)
def test_between_blocks_of_a_cluster(form: str, schedule: str, seed: int) -> None:
    values = counted((8, 64), np.uint32)
    out = np.zeros_like(values)
    assert run(cluster(form), "cluster", 8, 64, [values, out], schedule=schedule, seed=seed) == ()
    expected = np.roll(values.reshape(2, 4, 64), 1, axis=1).reshape(8, 64)[:, ::-1]
    assert (out == expected + (1000 if form in ("reduce", "update") else 0)).all()


@pytest.mark.parametrize("form", SEND)
def test_mistakes_between_blocks_of_a_cluster(form: str) -> None:
    values = counted((4, 64), np.uint32)
    for changes, text in (
        ({"WAIT": ""}, "not known to be complete"),
        ({"MEET": "__syncthreads()"}, "which is not known to have started"),
    ):
        findings = run(cluster(form, **changes), "cluster", 4, 64, [values, np.zeros_like(values)])
        assert any(text in str(finding) for finding in findings)


MULTICAST = (
    MBARRIERS
    + r"""
__device__ void meet() { asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory"); }
extern "C" __global__ void __cluster_dims__(4) multicast(const float* in, float* out) {
    __shared__ alignas(16) float cells[64];
    __shared__ u64 full;
    unsigned rank = blockIdx.x % 4;
    cells[threadIdx.x] = -1;
    if (threadIdx.x == 0) { init(&full, 1); fence_init(); if (0xb >> rank & 1) expect(&full, 256); }
    meet();
    if (rank == 2 && threadIdx.x == 5)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 256, [%2], %3;"
            :: "r"(shared(cells)), "l"(in + 64 * blockIdx.x), "r"(shared(&full)), "h"((unsigned short)0xb) : "memory");
    if (0xb >> rank & 1) wait(&full, 0);
    out[64 * blockIdx.x + threadIdx.x] = cells[63 - threadIdx.x];
    meet();
}
"""
)


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_a_copy_to_several_blocks_of_a_cluster(schedule: str, seed: int) -> None:
    values = counted((8, 64))
    out = np.zeros_like(values)
    assert run(MULTICAST, "multicast", 8, 64, [values, out], schedule=schedule, seed=seed) == ()
    expected = np.repeat(values[2::4, ::-1], 4, axis=0)
    expected[2::4] = -1
    assert (out == expected).all()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"r"(1024), "r"(shared(&full))',
            '"r"(1020), "r"(shared(&full))',
            "bulk copy of 1020 bytes, which is no multiple of 16",
        ),
        ('"r"(shared(cells[0])), "l"', '"r"(shared(cells[0]) + 8), "l"', "no multiple of 16"),
        ('"l"(in + 256 * i)', '"l"(in + 256 * i + 1)', "no multiple of 16"),
        ('"l"(in + 256 * i)', '"l"(in + 256 * i + 4)', "read 16 bytes outside any allocation"),
        ("bulk_group [%0], [%1], 1024", "bulk_group [%0], [%1], 4096", "outside the block's shared memory"),
    ],
)
def test_ranges_that_cannot_be(old: str, new: str, message: str) -> None:
    source = round_trip()
    assert old in source
    values = counted((1, 256))
    with pytest.raises(drv.CudaError, match=message):
        run(source.replace(old, new), "round_trip", 1, 256, [values, np.zeros_like(values), 1])


def test_hints_do_nothing() -> None:
    source = r"""
extern "C" __global__ void hints(const float* in, float* out) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], 256;" :: "l"(in));
    asm volatile("prefetch.global.L2 [%0];" :: "l"(in));
    out[threadIdx.x] = in[threadIdx.x];
}"""
    out = np.zeros(64, np.float32)
    assert run(source, "hints", 1, 64, [counted((64,)), out]) == ()
    assert out[63] == 64


def test_ending_while_a_store_still_reads() -> None:
    for stored, right in (("wait_read()", True), ("", False)):
        source = round_trip(STORED=stored)
        values = counted((1, 256))
        out = np.zeros_like(values)
        findings = run(source, "round_trip", 1, 256, [values, out, 1])
        assert (findings == ()) is right
        assert (out == 2 * values[:, ::-1]).all()
        if not right:
            assert "ends while an asynchronous operation may still read its shared memory" in str(findings[0])
            assert findings[0].second.site.source[1] == STORE_LINE

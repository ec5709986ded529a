"""``cp.async``: sizes, zero fill, groups, and races with what is in flight."""

from __future__ import annotations

import numpy as np
import pytest

import drv

from .programs import SCHEDULES, compiled, counted, line_of, raced_lines, run

pytestmark = pytest.mark.simulator_only

FORMS = r"""
#define COPY(form, size, tail, ...) asm volatile("cp.async." form " [%0], [%1], " #size tail ";" \
    :: "r"(into + threadIdx.x * 16), "l"(in + threadIdx.x * 16), ##__VA_ARGS__ : "memory")
extern "C" __global__ void forms(const unsigned char* in, unsigned char* out, int kept) {
    __shared__ __align__(16) unsigned char cells[32 * 16];
    unsigned into = __cvta_generic_to_shared(cells);
    for (int i = 0; i < 16; ++i) cells[threadIdx.x * 16 + i] = 255;
    __syncthreads();
    FORM;
    asm volatile("cp.async.wait_all;" ::: "memory");
    for (int i = 0; i < 16; ++i) out[threadIdx.x * 16 + i] = cells[threadIdx.x * 16 + i];
}
"""


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.parametrize(
    ("form", "size", "copied"),
    [
        ('COPY("ca.shared.global", 4, "")', 4, 4),
        ('COPY("ca.shared::cta.global.L2::128B", 8, "")', 8, 8),
        ('COPY("ca.shared.global", 16, "")', 16, 16),
        ('COPY("cg.shared.global", 16, "")', 16, 16),
        ('COPY("cg.shared.global", 16, ", %2", "r"(kept))', 16, 5),
        ('COPY("ca.shared.global", 8, ", 0")', 8, 0),
        ('COPY("ca.shared.global", 4, ", 3")', 4, 3),
    ],
)
def test_forms_of_copies(form: str, size: int, copied: int, schedule: str, seed: int) -> None:
    values = np.random.default_rng(0).integers(1, 255, (32, 16)).astype(np.uint8)
    out = np.zeros_like(values)
    source = FORMS.replace("FORM;", form + ";")
    findings = run(source, "forms", 1, 32, [values, out, copied], schedule=schedule, seed=seed)
    assert findings == ()
    expected = np.full_like(values, 255)
    expected[:, :size] = 0
    expected[:, :copied] = values[:, :copied]
    assert (out == expected).all()


DIFFERENT = (
    FORMS.replace("FORM;", 'COPY("cg.shared.global", 16, ", %2", "r"(threadIdx.x % 17));')
    .replace('"l"(in + ', '"l"(threadIdx.x % 17 ? in + ')
    .replace("* 16), ##", "* 16 : (const unsigned char*)16), ##")
)


def test_every_thread_copies_a_number_of_bytes_of_its_own_and_reads_no_others() -> None:
    values = np.random.default_rng(1).integers(1, 255, (32, 16)).astype(np.uint8)
    out = np.zeros_like(values)
    assert run(DIFFERENT, "forms", 1, 32, [values, out, 0]) == ()
    copied = np.arange(16) < (np.arange(32) % 17)[:, None]
    assert (out == np.where(copied, values, 0)).all()
    # The last row is not all there.
    run(DIFFERENT, "forms", 1, 32, [values.ravel()[: 31 * 16 + 14].copy(), out, 0])
    with pytest.raises(drv.IllegalAddressError, match="read 1 bytes"):
        run(DIFFERENT, "forms", 1, 32, [values.ravel()[: 31 * 16 + 13].copy(), out, 0])


def test_a_predicate_that_ignores_the_source() -> None:
    source = FORMS.replace(
        "FORM;",
        'asm volatile("{.reg .pred p; setp.ge.s32 p, %2, %3; cp.async.cg.shared.global [%0], [%1], 16, p;}" :: '
        '"r"(into + threadIdx.x * 16), "l"(in + threadIdx.x * 16), "r"(threadIdx.x), "r"(kept) : "memory");',
    )
    values = counted((32, 16), np.uint8)
    out = np.zeros_like(values)
    assert run(source, "forms", 1, 32, [values, out, 20]) == ()
    assert (out == np.where(np.arange(32)[:, None] < 20, values, 0)).all()


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ('COPY("ca.shared.global", 12, "")', "cp.async.ca.shared.global"),
        ('COPY("cg.shared.global", 8, "")', "cp.async.cg.shared.global"),
        ('COPY("cx.shared.global", 16, "")', "cp.async.cx.shared.global"),
    ],
)
def test_forms_that_do_not_exist(form: str, message: str) -> None:
    values = counted((32, 16), np.uint8)
    with pytest.raises(drv.IllegalInstructionError, match=message):
        run(FORMS.replace("FORM;", form + ";"), "forms", 1, 32, [values, values.copy(), 0])


@pytest.mark.parametrize("bad", ['"l"(in + 4 + ', '"r"(into + 4 + '])
def test_misaligned_addresses(bad: str) -> None:
    source = FORMS.replace(bad.replace(" + 4", ""), bad).replace("FORM;", 'COPY("cg.shared.global", 16, "");')
    values = counted((40, 16), np.uint8)
    with pytest.raises(drv.MisalignedAddressError):
        run(source, "forms", 1, 32, [values, values.copy(), 0])


PIPELINE = r"""
#define STAGES 3
extern "C" __global__ void pipeline(const float4* in, float4* out, int steps) {
    __shared__ float4 cells[STAGES][64];
    int i = threadIdx.x;
    auto fetch = [&](int step) {
        if (step < steps) {
            unsigned into = __cvta_generic_to_shared(&cells[step % STAGES][i]);
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(into), "l"(in + 64 * step + i) : "memory");
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int step = 0; step < STAGES - 1; ++step) fetch(step);
    for (int step = 0; step < steps; ++step) {
        WAIT;
        ARRIVED;
        fetch(step + STAGES - 1);
        out[64 * step + i] = cells[step % STAGES][63 - i];
    }
}
"""
RIGHT = {
    "WAIT;": 'asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");',
    "ARRIVED;": "__syncthreads();",
}


def pipeline(**changes: str) -> str:
    source = PIPELINE
    for word, text in (RIGHT | {f"{name};": text for name, text in changes.items()}).items():
        source = source.replace(word, text)
    return source


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_stages_of_a_pipeline(schedule: str, seed: int) -> None:
    values = counted((7, 64, 4))
    out = np.zeros_like(values)
    assert run(pipeline(), "pipeline", 1, 64, [values, out, 7], schedule=schedule, seed=seed) == ()
    np.testing.assert_array_equal(out, values[:, ::-1])


COPY_LINE, READ_LINE = line_of(pipeline(), "cp.async.cg"), line_of(pipeline(), "= cells[step")


def test_waiting_for_too_few_groups() -> None:
    source = pipeline(WAIT='asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 1) : "memory");')
    for schedule, seed in SCHEDULES:
        values = counted((7, 64, 4))
        out = np.zeros_like(values)
        findings = run(source, "pipeline", 1, 64, [values, out, 7], schedule=schedule, seed=seed)
        assert raced_lines(findings) == {(COPY_LINE, READ_LINE)}
        assert any("wait for its group" in str(finding) for finding in findings)
        if schedule == "lazy":
            assert (out != values[:, ::-1]).any()


def test_no_barrier_after_the_wait() -> None:
    values = counted((7, 64, 4))
    findings = run(pipeline(ARRIVED=""), "pipeline", 1, 64, [values, np.zeros_like(values), 7])
    assert raced_lines(findings) == {(COPY_LINE, READ_LINE)}
    assert "__syncthreads()" in str(findings[0])


def test_a_stage_that_is_filled_while_it_is_read() -> None:
    source = (
        pipeline()
        .replace("step + STAGES - 1);", "step + STAGES);")
        .replace("step < STAGES - 1;", "step < STAGES;")
    )
    values = counted((7, 64, 4))
    findings = run(source, "pipeline", 1, 64, [values, np.zeros_like(values), 7])
    assert (COPY_LINE, READ_LINE) in raced_lines(findings)
    assert "writes asynchronously" in {findings[0].first.action, findings[0].second.action}


SOURCE_CHANGES = r"""
extern "C" __global__ void changes(float* in, float* out) {
    __shared__ float cell[32];
    unsigned into = __cvta_generic_to_shared(cell + threadIdx.x);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(into), "l"(in + threadIdx.x) : "memory");
    in[threadIdx.x] = -1;
    asm volatile("cp.async.wait_all;" ::: "memory");
    out[threadIdx.x] = cell[threadIdx.x];
}
"""


def test_overwriting_a_source_that_may_not_have_been_read() -> None:
    for schedule, result in (("eager", 1), ("lazy", -1)):
        values = counted((32,))
        out = np.zeros_like(values)
        findings = run(SOURCE_CHANGES, "changes", 1, 32, [values, out], schedule=schedule)
        lines = line_of(SOURCE_CHANGES, "cp.async.ca"), line_of(SOURCE_CHANGES, "= -1")
        assert raced_lines(findings) == {lines}
        assert findings[0].kind == "kernel race"
        assert findings[0].first.action == "reads asynchronously"
        assert out[0] == result


def test_overwriting_what_is_in_flight() -> None:
    source = SOURCE_CHANGES.replace("in[threadIdx.x] = -1", "cell[threadIdx.x] = -1")
    findings = run(source, "changes", 1, 32, [counted((32,)), np.zeros(32, np.float32)])
    assert raced_lines(findings) == {(line_of(source, "cp.async.ca"), line_of(source, "= -1"))}


def test_two_copies_to_one_place() -> None:
    source = SOURCE_CHANGES.replace(
        "    in[threadIdx.x] = -1;",
        (
            'asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(into), "l"(in + 31 - threadIdx.x) : "memory");'
        ),
    )
    findings = run(source, "changes", 1, 32, [counted((32,)), np.zeros(32, np.float32)])
    assert raced_lines(findings) == {(5, 6)}


def test_threads_of_one_warp_wait_apart() -> None:
    source = r"""
extern "C" __global__ void apart(const float* in, float* out) {
    __shared__ float cell[64];
    unsigned into = __cvta_generic_to_shared(cell + threadIdx.x);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(into), "l"(in + threadIdx.x) : "memory");
    if (threadIdx.x % 3 == 0) {
        asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
        out[threadIdx.x] = cell[threadIdx.x];
    } else {
        asm volatile("cp.async.wait_all;" ::: "memory");
        out[threadIdx.x] = 2 * cell[threadIdx.x];
    }
}"""
    for schedule, seed in SCHEDULES:
        values = counted((64,))
        out = np.zeros_like(values)
        assert run(source, "apart", 1, 64, [values, out], schedule=schedule, seed=seed) == ()
        assert (out == np.where(np.arange(64) % 3 == 0, values, 2 * values)).all()


def test_a_copy_that_nobody_waits_for_hurts_nobody_else() -> None:
    source = (
        SOURCE_CHANGES.replace("in[threadIdx.x] = -1;", "")
        .replace("cp.async.wait_all;", "")
        .replace("= cell[threadIdx.x]", "= 1")
    )
    for schedule, seed in SCHEDULES:
        out = np.zeros(32, np.float32)
        assert run(source, "changes", 3, 32, [counted((32,)), out], schedule=schedule, seed=seed) == ()
        assert (out == 1).all()
    assert compiled(source)

"""PTX written by hand: what NVRTC makes seldom, run without a driver around it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from cuda.bindings.driver import CUresult

from drv.simulator.execution import Launch, run
from drv.simulator.faults import DeviceFault
from drv.simulator.memory.address_space import DEVICE_BASE, AddressSpace, Allocation, MemoryKind
from drv.simulator.ptx import parse

HEAD = ".version 9.0\n.target sm_100\n.address_size 64\n"
REGISTERS = """
.reg .pred %p<9>;
.reg .b16 %rs<9>;
.reg .b32 %r<19>;
.reg .b64 %rd<19>;
.reg .f32 %f<9>;
"""


def launch(
    body: str,
    *,
    threads: int = 32,
    words: int = 64,
    before: str = "",
    checked: bool = True,
    dynamic_shared: int = 0,
) -> np.ndarray:
    """Run a kernel whose ``%rd1`` is the address of ``words`` zeros and ``%r1`` the thread; return the words."""
    module = parse(
        f"{HEAD}{before}\n.visible .entry k(.param .u64 out)\n{{{REGISTERS}\n"
        f"ld.param.u64 %rd1, [out];\nmov.u32 %r1, %tid.x;\n{body}\nret;\n}}\n"
    )
    data = np.zeros(words * 4, np.uint8)
    memory = AddressSpace()
    memory.insert(Allocation(DEVICE_BASE, data.size, MemoryKind.DEVICE, data, 0))
    run(
        Launch(
            kernel=module.entries["k"],
            module=module,
            symbols={},
            grid=(1, 1, 1),
            block=(threads, 1, 1),
            dynamic_shared=dynamic_shared,
            params=DEVICE_BASE.to_bytes(8, "little"),
            device=0,
            properties=SimpleNamespace(warp_size=32, multiprocessors=4, capability=(10, 0)),
            checked=checked,
            observer=None,
            printf=print,
        ),
        memory,
    )
    return data.view(np.uint32)


#: Stores ``%r2`` at the thread's word.
STORE = "mul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd2, %rd1, %rd2;\nst.global.b32 [%rd2], %r2;\n"
T = np.arange(32)


def words(body: str, **options: object) -> np.ndarray:
    return launch(body + STORE, **options)[:32]


def test_guards() -> None:
    result = words(
        "mov.b32 %r2, 5;\nsetp.lt.u32 %p1, %r1, 10;\n@%p1 mov.b32 %r2, 7;\n@!%p1 add.s32 %r2, %r2, %r1;\n"
        "setp.eq.u32 %p2, %r1, 3;\n@%p2 ret;\n"
    )
    expected = np.where(T < 10, 7, 5 + T)
    expected[3] = 0
    assert (result == expected).all()


def test_a_branch_by_index() -> None:
    result = words(
        "T: .branchtargets A, B, C, A;\nand.b32 %r3, %r1, 3;\nbrx.idx %r3, T;\n"
        "A: mov.b32 %r2, 10;\nbra.uni E;\nB: mov.b32 %r2, 20;\nC: add.s32 %r2, %r1, 30;\nE:\n"
    )
    assert (result == np.where((T & 3) % 3 == 0, 10, T + 30)).all()


def test_packing_and_unpacking() -> None:
    result = words(
        "cvt.u16.u32 %rs1, %r1;\nmov.b16 %rs2, 7;\nmov.b32 %r3, {%rs1, %rs2};\nmov.b64 %rd3, {%r3, %r1};\n"
        "mov.b64 {%r4, _}, %rd3;\nmov.b32 {_, %rs3}, %r4;\nshr.u64 %rd4, %rd3, 32;\ncvt.u32.u64 %r5, %rd4;\n"
        "cvt.u32.u16 %r6, %rs3;\nmad.lo.u32 %r2, %r5, 100, %r6;\n"
    )
    assert (result == T * 100 + 7).all()


def test_vectors_of_eight_words() -> None:
    result = launch(
        "mul.wide.u32 %rd2, %r1, 32;\nadd.s64 %rd2, %rd1, %rd2;\n"
        "st.global.v8.b32 [%rd2], {%r1, 1, 2, 3, 4, 5, 6, 7};\n"
        "ld.global.v8.b32 {%r2, %r3, _, _, %r4, _, _, %r5}, [%rd2];\n"
        "st.global.v2.b32 [%rd2+8], {%r5, %r4};\n",
        threads=4,
    )
    assert result[:32].reshape(4, 8).tolist() == [[t, 1, 7, 4, 4, 5, 6, 7] for t in range(4)]


def test_calls_with_a_result_and_through_a_pointer() -> None:
    functions = """
.func (.param .b32 r) twice(.param .b32 a)
{ .reg .b32 %r<3>; ld.param.b32 %r1, [a]; add.s32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret; }
.func (.param .b32 r) next(.param .b32 a)
{ .reg .b32 %r<3>; ld.param.b32 %r1, [a]; add.s32 %r2, %r1, 1; st.param.b32 [r], %r2; ret; }
"""
    result = words(
        "mov.u64 %rd3, twice;\nmov.u64 %rd4, next;\nand.b32 %r3, %r1, 1;\nsetp.eq.u32 %p1, %r3, 0;\n"
        "selp.b64 %rd5, %rd3, %rd4, %p1;\n"
        "{ .param .b32 a; .param .b32 q; st.param.b32 [a], %r1;\n"
        "P: .callprototype (.param .b32 _) _ (.param .b32 _);\ncall (q), %rd5, (a), P;\nld.param.b32 %r2, [q]; }\n"
        "{ .param .b32 a; .param .b32 q; st.param.b32 [a], %r2; call.uni (q), next, (a); ld.param.b32 %r2, [q]; }\n",
        before=functions,
    )
    assert (result == np.where(T & 1, T + 2, 2 * T + 1)).all()


def test_barriers_that_count_and_reduce() -> None:
    result = words(
        "setp.lt.u32 %p1, %r1, 50;\nbarrier.sync.aligned 3, 64;\nbarrier.red.popc.aligned.u32 %r2, 5, %p1;\n",
        threads=64,
    )
    assert (result == 50).all()


def test_matches_and_reductions_of_a_warp() -> None:
    result = words(
        "and.b32 %r3, %r1, 7;\nmatch.any.sync.b32 %r4, %r3, -1;\nredux.sync.max.s32 %r5, %r1, -1;\n"
        "match.all.sync.b32 %r6|%p1, %r3, -1;\nselp.b32 %r7, 1000, 0, %p1;\npopc.b32 %r8, %r4;\n"
        "elect.sync %r9|%p2, -1;\nselp.b32 %r10, 100, 0, %p2;\nadd.s32 %r2, %r8, %r5;\nadd.s32 %r2, %r2, %r7;\n"
        "add.s32 %r2, %r2, %r10;\n"
    )
    assert (result == np.where(T == 0, 135, 35)).all()


def test_asynchronous_copies_to_shared_memory() -> None:
    result = words(
        "mul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd3, %rd1, %rd2;\nst.global.b32 [%rd3], %r1;\nmov.u32 %r3, s;\n"
        "shl.b32 %r4, %r1, 2;\nadd.s32 %r3, %r3, %r4;\ncp.async.ca.shared.global [%r3], [%rd3], 4;\n"
        "cp.async.commit_group;\ncp.async.wait_group 0;\nbar.sync 0;\nmov.u32 %r5, s;\nsub.s32 %r6, 31, %r1;\n"
        "shl.b32 %r6, %r6, 2;\nadd.s32 %r5, %r5, %r6;\nld.shared.b32 %r2, [%r5];\n",
        before=".shared .align 4 .b8 s[128];",
    )
    assert (result == 31 - T).all()


@pytest.mark.parametrize(
    "instruction",
    [
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1,%f1,%f1,%f1},{%r1,%r1,%r1,%r1},{%r1,%r1},{%f1,%f1,%f1,%f1};",
        "tex.2dms.v4.f32.s32 {%f1,%f2,%f3,%f4}, [%rd1, {%r1,%r2,%r2,%r2}];",
        "frobnicate.s32 %r2, %r1;",
        "mov.u32 %r2, %pm0;",
    ],
)
def test_unknown_instructions_matter_when_they_are_reached(instruction: str) -> None:
    skipped = "setp.gt.u32 %p1, %r1, 99;\n@%p1 bra L;\nbra M;\nL:\n" + instruction + "\nM: mov.b32 %r2, 4;\n"
    assert (words(skipped) == 4).all()
    with pytest.raises(DeviceFault) as caught:
        words(skipped.replace("99", "9"))
    assert caught.value.status == CUresult.CUDA_ERROR_ILLEGAL_INSTRUCTION
    assert instruction.rstrip(";") in caught.value.report
    assert "thread (10, 0, 0)" in caught.value.report


@pytest.mark.parametrize(
    ("instruction", "status"),
    [
        ("st.global.b32 [%rd1+256], %r1;", CUresult.CUDA_ERROR_ILLEGAL_ADDRESS),
        ("ld.global.b32 %r2, [%rd1+2];", CUresult.CUDA_ERROR_MISALIGNED_ADDRESS),
        ("ld.global.v2.b32 {%r2, %r3}, [%rd1+4];", CUresult.CUDA_ERROR_MISALIGNED_ADDRESS),
        ("atom.global.add.u32 %r2, [%rd1+-4], 1;", CUresult.CUDA_ERROR_ILLEGAL_ADDRESS),
        ("ld.b32 %r2, [0];", CUresult.CUDA_ERROR_ILLEGAL_ADDRESS),
        ("st.b32 [-4], %r1;", CUresult.CUDA_ERROR_ILLEGAL_ADDRESS),
        ("ld.shared.b32 %r2, [s+128];", CUresult.CUDA_ERROR_ILLEGAL_ADDRESS),
        ("st.shared.b32 [s+2], %r2;", CUresult.CUDA_ERROR_MISALIGNED_ADDRESS),
        ("mov.u64 %rd3, l;\nld.local.b32 %r2, [%rd3+4000];", CUresult.CUDA_ERROR_ILLEGAL_ADDRESS),
        ("trap;", CUresult.CUDA_ERROR_LAUNCH_FAILED),
    ],
)
def test_faults_and_the_same_without_checks(instruction: str, status: CUresult) -> None:
    before = ".shared .align 4 .b8 s[128];"
    body = ".local .align 4 .b8 l[64];\nsetp.ne.u32 %p1, %r1, 5;\n@%p1 bra L;\n" + instruction + "\nL:\n"
    with pytest.raises(DeviceFault) as caught:
        launch(body, before=before)
    assert caught.value.status == status
    assert "thread (5, 0, 0)" in caught.value.report
    assert "PTX line" in caught.value.report
    if instruction != "trap;":
        launch(body, before=before, checked=False)


def test_every_lane_of_a_uniform_instruction_is_checked() -> None:
    with pytest.raises(DeviceFault) as caught:
        words(
            "mov.b32 %r2, 1;\nmul.wide.u32 %rd3, %r1, 9;\nadd.s64 %rd3, %rd3, %rd1;\nst.global.b8 [%rd3], %r2;\n"
        )
    assert "thread (29, 0, 0)" in caught.value.report


def test_dynamic_shared_memory_begins_where_its_alignment_wants() -> None:
    before = ".shared .align 4 .b8 s[20];\n.extern .shared .align 128 .b8 d[];\n"
    body = (
        "mov.u32 %r3, d;\nand.b32 %r4, %r3, 127;\nshl.b32 %r5, %r1, 2;\nadd.s32 %r6, %r3, %r5;\nst.shared.b32 [s+16], %r1;\n"
        "st.shared.b32 [%r6], %r1;\nld.shared.b32 %r2, [%r6];\nmad.lo.u32 %r2, %r4, 1000, %r2;\n"
    )
    assert (words(body, before=before, dynamic_shared=128) == T).all()


def test_shared_variables_of_functions_that_tables_lead_to() -> None:
    before = (
        ".func f() { .shared .align 4 .b8 inner[40]; .reg .b32 %r<2>; ld.shared.b32 %r1, [inner+36]; ret; }\n"
        ".global .align 8 .u64 table[1] = {f};\n"
    )
    module = parse(f"{HEAD}{before}.visible .entry k() {{ .reg .b64 %rd<2>; mov.u64 %rd1, table; ret; }}")
    assert module.entries["k"].static_shared_bytes == 40

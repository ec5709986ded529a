"""PTX that is malformed, unknown or damaged at random: only CUDA's own errors come out, with the line that is wrong."""

from __future__ import annotations

import ctypes
import random
import re

import pytest
from cuda.bindings.driver import CUresult

from tests.drv.simulator.machine import Machine

HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"
REGISTERS = """
.reg .pred %p<5>;
.reg .b16 %rs<5>;
.reg .b32 %r<9>;
.reg .b64 %rd<9>;
.reg .f32 %f<5>;
.reg .f64 %fd<5>;
"""


def kernel(body: str, *, before: str = "", variables: str = "") -> str:
    """A kernel whose ``%rd1`` is the address of 4096 zero bytes and ``%r1`` the thread."""
    return (
        f"{HEAD}{before}.visible .entry k(\n.param .u64 out\n)\n{{{REGISTERS}{variables}"
        f"ld.param.u64 %rd1, [out];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd3, %r1, 4;\n"
        f"add.s64 %rd4, %rd1, %rd3;\n{body}\nret;\n}}\n"
    )


SOUND = [
    kernel(
        """shfl.sync.bfly.b32 %r2|%p1, %r1, 1, 31, -1;
vote.sync.ballot.b32 %r3, %p1, -1;
match.any.sync.b32 %r4, %r1, -1;
redux.sync.add.u32 %r5, %r1, -1;
elect.sync %r6|%p2, -1;
st.global.u32 [%rd4], %r2;"""
    ),
    kernel(
        """st.shared.u32 [buf+4], %r1;
bar.sync 0;
ld.shared.u32 %r2, [buf];
atom.shared.add.u32 %r3, [buf], 1;
red.global.add.u32 [%rd1], %r2;
atom.global.cas.b32 %r4, [%rd4], 0, 1;
bar.red.popc.u32 %r5, 0, %p1;
cp.async.ca.shared.global [buf], [%rd1], 4;
cp.async.wait_all;
barrier.cluster.arrive;
barrier.cluster.wait;
st.global.v2.u32 [%rd1+64], {%r3, %r4};""",
        variables=".shared .align 16 .b8 buf[256];\n",
    ),
    kernel(
        """setp.lt.u32 %p1, %r1, 16;
@%p1 bra A;
mov.u32 %r2, 7;
bra.uni B;
A:
mov.u32 %r2, 9;
B:
mov.b64 {%r3, %r4}, %rd1;
mov.b64 %rd5, {%r3, %r2};
cvt.rn.f32.u32 %f1, %r2;
fma.rn.f32 %f2, %f1, 0f40000000, %f1;
setp.lt.and.f32 %p2|%p3, %f1, %f2, !%p1;
selp.b32 %r5, 1, 0, %p2;
lop3.b32 %r4, %r1, %r3, 5, 0x96;
add.cc.u32 %r5, %r1, %r2;
addc.u32 %r6, %r1, 0;
div.rn.f64 %fd1, 0d3FF0000000000000, 0d4000000000000000;
st.global.f32 [%rd4], %f2;"""
    ),
    kernel(
        """{
.param .b32 a;
.param .b32 r;
st.param.b32 [a], %r1;
call.uni (r), twice, (a);
ld.param.b32 %r2, [r];
}
mov.u64 %rd6, twice;
{
.param .b32 a;
.param .b32 r;
st.param.b32 [a], %r1;
call (r), %rd6, (a), proto;
ld.param.b32 %r2, [r];
}
brx.idx %r0, table;
L0:
st.local.u32 [stack], %r2;
L1:
ld.local.u32 %r3, [stack];
cvta.local.u64 %rd7, %rd6;
isspacep.local %p1, %rd7;""",
        before=(
            ".func (.param .b32 r) twice(.param .b32 a)\n{\n.reg .b32 %r<3>;\nld.param.b32 %r1, [a];\n"
            "add.s32 %r2, %r1, %r1;\nst.param.b32 [r], %r2;\nret;\n}\n"
            '.global .align 4 .u32 g[4] = {1, 2, -3, 0x4};\n.const .f32 c = 0f3F800000;\n.file 1 "a.cu"\n'
        ),
        variables=(
            ".local .align 8 .b8 stack[16];\ntable: .branchtargets L0, L1;\n"
            "proto: .callprototype (.param .b32 _) _ (.param .b32 _);\n.loc 1 3 1\n"
        ),
    ),
]
_WORDS = re.compile(r"\s+|[\w$%.]+|.", re.DOTALL)
_ODD_WORDS = [
    *"{}()[];,@!|+:_0",
    *(
        "-1",
        "99999999999999999999",
        "4294967296",
        "0x",
        "1.5",
        "0f3F800000",
        "%r1",
        "%rd1",
        "%p1",
        "%f1",
        "%tid.x",
        "foo",
    ),
    *(
        ".u128",
        ".v4",
        ".pred",
        '"',
        "//",
        "/*",
        ".reg",
        ".param",
        ".shared",
        ".entry",
        "é",
        "bra",
        "ret",
        "call",
        "bar",
    ),
    *("vote.sync", "wgmma.fence.sync.aligned", "%laneid"),
]
_ODD_PARTS = [
    *(
        "u8",
        "u16",
        "s32",
        "b64",
        "f32",
        "f64",
        "pred",
        "b128",
        "f16x2",
        "sync",
        "v2",
        "shared",
        "global",
        "param",
    ),
    *("local", "const", "add", "cas", "foo", "wide", "lo", "hi", "cc", "sat", "rn", "approx", "ftz", "async"),
    *("cluster", "red", "popc", "arrive", "warp"),
]


def damaged(text: str, draw: random.Random) -> str:
    """``text`` with a few words lost, doubled, exchanged or replaced."""
    words = _WORDS.findall(text)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        at = draw.randrange(len(words))
        way = draw.randrange(7)
        if way == 0:
            del words[at]
        elif way == 1:
            words.insert(at, words[at])
        elif way == 2:
            words[at] = draw.choice(words)
        elif way == 3:
            words[at] = draw.choice(_ODD_WORDS)
        elif way == 4:
            parts = words[at].split(".")
            parts[draw.randrange(len(parts))] = draw.choice(_ODD_PARTS)
            words[at] = ".".join(parts)
        elif way == 5:
            other = draw.randrange(len(words))
            words[at], words[other] = words[other], words[at]
        else:
            lines = "".join(words).split("\n")
            del lines[draw.randrange(len(lines))]
            words = _WORDS.findall("\n".join(lines))
    return "".join(words)


def outcome(text: str) -> tuple[str, str]:
    """Status of loading and running ``text``, and the report on its kernel."""
    machine = Machine()
    status, module = machine.driver.cuModuleLoadData(text.encode() + b"\0")
    if status != CUresult.CUDA_SUCCESS:
        return status.name, ""
    report = ""
    for name, entry in machine.driver.module(module).parsed.entries.items():
        function = machine.cuModuleGetFunction(module, name.encode())
        memory = machine.device_memory(4096)
        machine.poke(memory, [0] * 4096)
        slots = [(ctypes.c_uint64 * (size // 8 + 1))(memory) for _, _, size, _ in entry.parameters]
        table = (ctypes.c_void_p * (len(slots) + 1))(*map(ctypes.addressof, slots))
        machine.driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, 0, ctypes.addressof(table), 0)
        status = machine.driver.cuCtxSynchronize()[0]
        for fault in machine.driver.faults:
            report = fault.report
    return status.name, report


@pytest.mark.parametrize("text", SOUND)
def test_the_texts_are_sound_before_they_are_damaged(text: str) -> None:
    assert outcome(text) == ("CUDA_SUCCESS", "")


def check_damaged(seeds: range) -> None:
    statuses = set()
    for seed in seeds:
        draw = random.Random(seed)
        status, report = outcome(damaged(draw.choice(SOUND), draw))
        statuses.add(status)
        assert not report or "PTX line" in report, (seed, report)
    assert statuses >= {"CUDA_ERROR_INVALID_PTX", "CUDA_ERROR_ILLEGAL_INSTRUCTION", "CUDA_SUCCESS"}


def test_damaged_texts() -> None:
    check_damaged(range(300))


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_many_damaged_texts() -> None:
    check_damaged(range(300, 10_000))


@pytest.mark.parametrize(
    "instruction",
    [
        "wgmma.odd.sync.aligned;", "wgmma.wait_group.sync.aligned;", "wgmma.wait_group.sync.aligned %r1;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd1, %rd1, %p1, 2, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3}, %rd1, %rd1, %p1, 1, 1, 0, 0;",
        "mbarrier.init.shared.b64 [%r1];", "mbarrier.odd.shared.b64 [%r1];", "mbarrier.init.shared.b32 [%r1], 1;",
        "mbarrier.try_wait.shared.b64 [%r1], %rd1;", "mbarrier.try_wait.parity.shared.b64 %p1;",
        "mbarrier.try_wait.odd.shared.b64 %p1, [%r1], 0;", "mbarrier.test_wait.shared.b64 %p1, %r1, %rd1;",
        "cp.async.bulk;", "cp.async.bulk.shared::cluster.global [%r1], [%rd1], 16;", "cp.async.wait_group %r1;",
        "cp.async.bulk.global.shared::cta.mbarrier::complete_tx::bytes [%rd1], [%r1], 16, [%r2];",
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r1}], [%r2];",
        "cp.async.bulk.tensor.6d.global.shared::cta.bulk_group [%rd1, {%r1}], [%r2];",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.sub.u32 [%rd1], [%r1], 16;",
        "st.async.shared::cluster.b32 [%r1], %r2, [%r3];", "mapa.u32 %r1, %r2;", "mapa.shared.u32 %r1, %r2, %r3;",
        "getctarank.u32 %r1;", "barrier.cluster.odd;", "barrier.cluster.wait.release;", "barrier.cluster.arrive.acquire;",
        "tensormap.replace.tile.odd.global.b1024.b32 [%rd1], 1;", "foo;", "bar;", "bar.sync;", "bar.red.popc.u32 %r1, 0;", "bar.red.xor.u32 %r1, 0, %p1;",
        "bar.red.popc.u32 %tid.x, 0, %p1;", "vote.sync;", "vote.sync.any.pred %p1, %p2;", "vote.sync.odd.b32 %r1, %p1, -1;",
        "vote.sync.ballot.b32 %r1, %p1, nothing;", "shfl.sync;", "shfl.sync.idx.b32 %r1, %r2;",
        "shfl.sync.odd.b32 %r1, %r2, %r3, %r4, -1;", "match.odd.sync.b32 %r1, %r2, -1;", "redux.sync.add.u32 %r1;",
        "elect.sync;", "ld.global.u32;", "ld.odd %r1, [%rd1];", "ld.global.v4.u32 {%r1, %r2}, [%rd1];", "st.param.b32;",
        "st.global.u32 [%rd1];", "atom.add;", "atom.global.add.u32 %r1, [%rd1];", "red.global.cas.u32 [%rd1];", "cp.async;",
        "cp.async.ca.shared.global [%r1], [%rd1], %r2;", "call;", "call (%r1);", "cvta;", "cvta.u64 %rd1;", "isspacep;",
        "isspacep.odd %p1, %rd1;", "add.s32;", "add.s32 %r1, %r2;", "add.s32 %r1, %r2, %r3, %r4;", "add.s32 %r1, %r2, nothing;",
        "setp.eq.s32 %p1;", "mov.u32 %r1;", "mov.u32 %r1, %r2, %r3;", "mov.b64 {%r1, %r2, %r3}, %rd1;", "mov.b64 %rd1, {};",
        "mov.u32 %tid.x, %r1;", "activemask.b32;", "mad.lo.s32 %r1, {%r2, %r3}, %r4, %r5;", "fma.rn.f32 %f1, %f2;",
    ],
)  # fmt: skip
def test_an_unknown_instruction_stops_the_launch_with_its_line(instruction: str) -> None:
    text = kernel(instruction)
    line = text[: text.index(instruction)].count("\n") + 1
    status, report = outcome(text)
    assert status == "CUDA_ERROR_ILLEGAL_INSTRUCTION", report
    assert f"PTX line {line}: {instruction}" in report


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (kernel("bra;"), "a branch without a label"),
        (kernel("bra nowhere;"), "unknown label 'nowhere'"),
        (kernel("brx.idx %r1;"), "without its list of labels"),
        (kernel("", variables="table: .branchtargets L0;\n") .replace("ret;", "brx.idx %r1, table;\nret;"), "unknown label 'L0'"),
        (kernel("", variables=".reg .b32 %x<99999999999999999999>;\n"), "number of registers"),
        (kernel("", variables=".reg .b32 %x<0f3F800000>;\n"), "expected a whole number"),
        (kernel("", variables=".shared .align 3 .b8 x[4];\n"), "3 is no alignment"),
        (kernel("", variables=".shared .align 4 .b8 x[-4];\n"), "number of elements"),
        (kernel("st.shared.u32 [x], 0;", variables=".shared .align 4 .b8 x[50000];\n"), "too much shared data"),
        (kernel("", before=".global .align 4 .u32 x[2] = {1, 2, 3};\n"), "has 8 bytes, and its initial value has 12"),
        (kernel("", before=".global .align 4 .u32 x = y;\n"), "does not fit into 4 bytes"),
        (kernel("{" * 5000), "nested too deeply"),
        (kernel("add.s32 %r1, " + "(" * 5000), "nested too deeply"),
    ],
)  # fmt: skip
def test_what_does_not_load(text: str, words: str) -> None:
    from drv.simulator.ptx import PTXSyntaxError, parse

    assert outcome(text)[0] == "CUDA_ERROR_INVALID_PTX"
    with pytest.raises(PTXSyntaxError, match="line [0-9]+: ") as caught:
        parse(text)
    assert words in str(caught.value)


def test_an_instruction_that_fails_while_it_runs_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from drv.simulator.execution.lanes import Lanes

    def fail(lanes: Lanes) -> None:
        raise ValueError("no such mask")

    monkeypatch.setattr(Lanes, "active_mask", fail)
    instruction = "activemask.b32 %r2;"
    text = kernel(f"mov.u32 %r3, 1;\n{instruction}\nst.global.u32 [%rd4], %r2;")
    line = text[: text.index(instruction)].count("\n") + 1
    status, report = outcome(text)
    assert status == "CUDA_ERROR_ILLEGAL_INSTRUCTION"
    assert (
        f"cannot run\n  at PTX line {line}: {instruction}\n  ValueError: no such mask (test_damaged_texts.py:"
        in report
    )

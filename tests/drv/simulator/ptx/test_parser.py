"""Reading PTX: declarations, scopes, operands, and texts that are wrong."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drv.compiler import compile_program
from drv.simulator.ptx import Module, PTXSyntaxError, parse
from drv.simulator.ptx.program import Address, Group, Immediate, Negated, Pair, Register, Symbol, Vector

HEAD = ".version 8.4\n.target sm_90\n.address_size 64\n"


def module(text: str) -> Module:
    return parse(HEAD + text)


def body(text: str, declarations: str = "") -> list:
    source = (
        ".visible .entry k()\n{\n.reg .pred %p<4>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .f32 %f<9>;\n"
    )
    return module(f"{declarations}\n{source}{text}\nret;\n}}\n").functions["k"].instructions


def test_head() -> None:
    parsed = module("")
    assert (parsed.version, parsed.target, parsed.address_size) == ((8, 4), "sm_90", 64)


def test_parameters_are_laid_out_with_their_alignment() -> None:
    kernel = module(
        ".visible .entry k(.param .u8 a, .param .u64 .ptr .align 1 b, .param .u16 c,"
        " .param .align 16 .b8 d[20], .param .f32 e)\n.maxntid 64, 2, 1\n.minnctapersm 1\n{ ret; }"
    ).entries["k"]
    assert [(offset, size) for _, offset, size, _ in kernel.parameters] == [
        (0, 1),
        (8, 8),
        (16, 2),
        (32, 20),
        (52, 4),
    ]
    assert kernel.parameter_bytes == 56
    assert kernel.max_threads == 128


@pytest.mark.parametrize(
    ("declaration", "size", "initial"),
    [
        (".global .align 4 .u32 v = 5;", 4, struct.pack("<I", 5)),
        (".const .align 4 .b8 v[64];", 64, b""),
        (".global .s16 v[3] = {-1, 0x10, 07};", 6, struct.pack("<3h", -1, 16, 7)),
        (".global .f32 v[2] = {0f3F800000, -2.5};", 8, struct.pack("<2f", 1, -2.5)),
        (".global .f64 v = 0d3FE0000000000000;", 8, struct.pack("<d", 0.5)),
        (".global .b8 v[] = {1, 2, 3};", 3, b"\1\2\3"),
        (".visible .global .s32 v[2][2] = {{1, 2}, {3, 4}};", 16, struct.pack("<4i", 1, 2, 3, 4)),
        (".global .v4 .f32 v;", 16, b""),
        (".global .u64 v = 18446744073709551615;", 8, b"\xff" * 8),
    ],
)
def test_variables(declaration: str, size: int, initial: bytes) -> None:
    variable = module(declaration).variables["v"]
    assert (variable.size, variable.initial) == (size, initial)


def test_addresses_in_initial_values() -> None:
    text = ".global .u32 x[4];\n.global .u64 v[4] = {generic(x), x+4, 0, generic(x)+8};"
    assert module(text).variables["v"].relocations == ((0, "x", 0), (8, "x", 4), (24, "x", 8))


def test_operands() -> None:
    instructions = body(
        "ld.global.v2.b32 {%r1, _}, [%rd1+-8];\n"
        "st.global.f32 [%rd2], 0f40000000;\n"
        "mov.f32 %f1, -1.5;\n"
        "setp.lt.and.s32 %p1|%p2, %r1, -3, !%p3;\n"
        "mov.u64 %rd3, x;\n"
        "ld.global.b32 %r2, [x+12];\n"
        "@!%p1 add.s32 %r3, %r2, %r1;\n",
        ".global .b32 x[4];",
    )
    load, store, move, compare, address, element, add, _ = instructions
    assert load.operands == (Vector((Register("%r1"), None)), Address(Register("%rd1"), -8))
    assert store.operands[1] == Immediate(0x40000000, "f32")
    assert move.operands[1] == Immediate(0xBFF8000000000000, "f64")
    assert compare.operands == (
        Pair(Register("%p1"), Register("%p2")),
        Register("%r1"),
        Immediate(-3),
        Negated(Register("%p3")),
    )
    assert address.operands[1] == Symbol("x")
    assert element.operands[1] == Address(Symbol("x"), 12)
    assert add.guard == (Register("%p1"), True)


def test_calls() -> None:
    declarations = ".func (.param .b32 r) f(.param .b64 a, .param .b32 b);"
    *_, call, _ = body(
        "{\n.param .b64 p0;\n.param .b32 p1;\n.param .b32 q;\ncall.uni (q), f, (p0, p1);\n}", declarations
    )
    assert [type(operand) for operand in call.operands] == [Group, Symbol, Group]
    assert len(call.operands[2].items) == 2


def test_names_belong_to_their_scope() -> None:
    first, second, third, _ = body(
        "{ .reg .b32 t; mov.b32 t, 1; }\n{ .reg .b32 t; mov.b32 t, 2; }\nmov.b32 %r1, 3;"
    )
    assert len({first.operands[0], second.operands[0], third.operands[0]}) == 3


def test_labels_belong_to_their_scope() -> None:
    loop = "{ L: add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, 9; @%p1 bra L; @%p2 bra M; M: }\n"
    instructions = body(loop + loop)
    targets = [i.operands[0].name for i in instructions if i.base == "bra"]
    assert len(set(targets)) == 4


def test_lines_of_the_source() -> None:
    text = (
        HEAD
        + '.file 1 "/tmp/a.cu"\n.visible .entry k()\n{\n.reg .b32 %r<3>;\n.loc 1 7 3\nmov.b32 %r1, 1;\n'
        + ".loc 1 9 0, function_name $L__info0, inlined_at 1 4 2\nmov.b32\n\t%r2,\n\t%r1;\n.loc 1 0 0\nret;\n}\n"
    )
    one, two, end = parse(text).functions["k"].instructions
    assert (one.source, one.ptx_line) == (("/tmp/a.cu", 7), 9)
    assert (two.source, two.ptx_line) == (("/tmp/a.cu", 9), 11)
    assert end.source is None
    assert one.text == "mov.b32 %r1, 1;"


def test_what_is_skipped() -> None:
    parsed = module(
        '// a comment ; {\n/* another\n { */\n.pragma "nounroll";\n.section .debug_str\n{\n$L: .b8 1,2\n.b8 3\n}\n'
        '.visible .entry k()\n{\n.pragma "nounroll";\nret;\n}\n.file 1 "x.cu", 1, 2\n'
    )
    assert list(parsed.entries) == ["k"]
    assert len(parsed.functions["k"].instructions) == 1


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("add.s32 %r1, %r2, %r3", 12, "expected"),
        ("add.s32 %r1, %q2, %r3;", 11, "%q2"),
        ("mov.b32 %r1, 1;\nbra NOWHERE;", 12, "NOWHERE"),
        ("L:\nL:", 12, "'L'"),
        ("mov.b32 %r1, 089;", 11, "089"),
        ("mov.b32 %r1, #;", 11, "#"),
        ("@ %r1;", 11, "instruction"),
    ],
)
def test_errors_name_the_line(text: str, line: int, words: str) -> None:
    with pytest.raises(PTXSyntaxError, match=words) as caught:
        body(text)
    assert caught.value.line == line


@pytest.mark.parametrize(
    "text",
    [".visible .entry k()\n{\nret;\n", ".visible .entry k(", ".global .u32 v = ", ".section .x {", "rubbish"],
)
def test_incomplete_texts(text: str) -> None:
    with pytest.raises(PTXSyntaxError):
        module(text)


SOURCE = r"""
__device__ __noinline__ int chosen(int a, float* b) { return a > 3 ? (int)*b : a; }
extern "C" __global__ void k(int* o, const float* x, int n) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    switch (n) { case 0: o[1] = 2; break; case 1: o[2] = 7; break; case 2: o[3] = 1; break; case 3: o[0] = 9; }
    o[threadIdx.x] = chosen(n, s + threadIdx.x) + sinf(s[3]) + n / 7;
}
"""


@pytest.fixture(scope="module", params=["compute_75", "compute_90", "compute_100"])
def compiled(request: pytest.FixtureRequest) -> str:
    image = compile_program(SOURCE, request.param, name="k.cu", line_info=True).image
    return image.decode().rstrip("\0")


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damaged_texts_are_read_or_refused(compiled: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(compiled) - 1))
    change = data.draw(st.sampled_from(["cut", "drop", "insert"]))
    if change == "cut":
        text = compiled[:at]
    elif change == "drop":
        text = compiled[:at] + compiled[at + data.draw(st.integers(1, 40)) :]
    else:
        text = (
            compiled[:at] + data.draw(st.text('{}()[];,@!:|<>+-=*%$. 09xfZ\n"', max_size=4)) + compiled[at:]
        )
    try:
        parse(text)
    except PTXSyntaxError as error:
        assert 1 <= error.line <= text.count("\n") + 1

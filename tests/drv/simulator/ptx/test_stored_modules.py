"""Parsed modules as bytes are the same when they are read."""

from __future__ import annotations

import pytest

from drv.simulator.ptx import parse, stored_modules
from tests.drv.simulator.compiled import KERNELS, ptx

HEAD = ".version 8.4\n.target sm_90\n.address_size 64\n"
BY_HAND = """
.visible .global .align 8 .u64 pointer = generic(values);
.global .align 4 .b32 values[3] = {1, -2, 0x10};
.shared .align 16 .b8 cells[64];
.extern .func (.param .b32 result) called (.param .b64 text);
.func (.param .b32 out) twice (.param .b32 x) { .reg .b32 %r<3>; ld.param.b32 %r1, [x];
 add.s32 %r2, %r1, %r1; st.param.b32 [out], %r2; ret; }
.visible .entry k(.param .u64 p, .param .align 16 .b8 q[20]) .maxntid 64, 2, 1 .reqnctapercluster 2, 1, 1
{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .f64 %d<9>;
.local .align 4 .b8 frame[12];
table: .branchtargets first, second;
ld.param.u64 %rd1, [p];
ld.param.v2.u32 {%r1, _}, [q+8];
@!%p1 bra first;
brx.idx %r1, table;
first:
mov.f32 %f1, 0f3F800000;
mov.f64 %d1, 0dBFF0000000000000;
mov.u64 %rd3, cells+16;
shfl.sync.down.b32 %r2|%p2, %r1, 1, 31, -1;
setp.lt.and.s32 %p1|%p3, %r1, %r2, !%p2;
{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), twice, (a); ld.param.b32 %r3, [b]; }
tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, %rd2, {%r1, %r2}];
second:
st.global.v4.b32 [%rd1+-16], {%r1, %r2, 7, %r3};
ret;
}
"""


@pytest.mark.parametrize(
    "text", [ptx(KERNELS, "--generate-line-info").rstrip(b"\0").decode(), HEAD + BY_HAND, HEAD]
)
def test_a_module_is_read_as_it_was(text: str) -> None:
    module = parse(text)
    result = stored_modules.unpacked(stored_modules.packed(module))
    # Records show all that they have.
    assert repr(result) == repr(module)

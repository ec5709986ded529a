"""Translated kernels as bytes do the same when they are read: they compute the same, and report the same."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from drv.simulator.execution import Launch, run
from drv.simulator.execution.translation import plan, stored_plans
from drv.simulator.execution.translation.plan import KernelPlan
from drv.simulator.faults import DeviceFault
from drv.simulator.memory.address_space import DEVICE_BASE, AddressSpace, Allocation, MemoryKind
from drv.simulator.ptx import Module, parse, stored_modules

THREADS, WORDS = 64, 128
TEXT = """.version 9.0
.target sm_100
.address_size 64
.global .align 4 .b32 factor = 3;
.shared .align 4 .b8 cells[256];
.func (.param .b32 out) tripled (.param .b32 x) {
.reg .b32 %r<4>; .reg .b64 %rd<2>;
ld.param.b32 %r1, [x];
mov.u64 %rd1, factor;
ld.global.b32 %r2, [%rd1];
mul.lo.s32 %r3, %r1, %r2;
st.param.b32 [out], %r3;
ret;
}
.visible .entry k(.param .u64 out, .param .u32 far) {
.reg .pred %p<9>; .reg .b32 %r<19>; .reg .b64 %rd<9>;
places: .branchtargets even, odd;
ld.param.u64 %rd1, [out];
ld.param.u32 %r1, [far];
mov.u32 %r2, %tid.x;
and.b32 %r3, %r2, 1;
mul.wide.u32 %rd2, %r2, 4;
add.u64 %rd3, %rd1, %rd2;
brx.idx %r3, places;
even: mov.b32 %r4, 7; bra joined;
odd: mov.b32 %r4, 9;
joined:
{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r4; call (b), tripled, (a); ld.param.b32 %r5, [b]; }
shfl.sync.bfly.b32 %r6|%p1, %r5, 1, 31, 0xFFFFFFFF;
mul.wide.u32 %rd4, %r2, 4;
cvt.u32.u64 %r10, %rd4;
mov.u32 %r11, cells;
add.u32 %r8, %r10, %r11;
st.shared.b32 [%r8], %r6;
setp.lt.u32 %p2, %r2, 40;
barrier.sync.aligned 0;
bar.red.popc.u32 %r7, 0, %p2;
ld.shared.b32 %r9, [%r8];
@%p2 add.u32 %r9, %r9, 1000;
add.u32 %r9, %r9, %r7;
st.global.b32 [%rd3], %r9;
setp.ge.u32 %p3, %r1, 1;
cvt.u64.u32 %rd5, %r1;
add.u64 %rd6, %rd3, %rd5;
@%p3 st.global.b32 [%rd6], %r9;
ret;
}
"""

PRODUCTS = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k() {
.reg .f32 %f<4>; .reg .b64 %rd<2>;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd0, %rd1, 1, 1, 1, 0, 0;
bra next;
next:
wgmma.wait_group.sync.aligned 0;
ret;
}
"""


def _launch(module: Module, far: int) -> np.ndarray:
    data = np.zeros(WORDS * 4, np.uint8)
    memory = AddressSpace()
    memory.insert(Allocation(DEVICE_BASE, data.size, MemoryKind.DEVICE, data, 0))
    factor = np.array([3], np.uint32).view(np.uint8)
    memory.insert(Allocation(DEVICE_BASE + 4096, 4, MemoryKind.VARIABLE, factor, 0, "factor"))
    run(
        Launch(
            kernel=module.entries["k"],
            module=module,
            symbols={"factor": DEVICE_BASE + 4096},
            grid=(1, 1, 1),
            block=(THREADS, 1, 1),
            dynamic_shared=0,
            params=DEVICE_BASE.to_bytes(8, "little") + far.to_bytes(4, "little"),
            device=0,
            properties=SimpleNamespace(warp_size=32, multiprocessors=4, capability=(10, 0)),
            checked=True,
            observer=None,
            printf=print,
            native="off",
        ),
        memory,
    )
    return data.view(np.uint32)


def _stored(module: Module) -> Module:
    """The module with the plan of its kernel, both of which have been written and read."""
    result = stored_modules.unpacked(stored_modules.packed(module))
    entry = result.entries["k"]
    entry.plan = stored_plans.unpacked(stored_plans.packed(module.entries["k"].plan), result, entry)
    return result


def _fault(module: Module, far: int) -> str:
    with pytest.raises(DeviceFault) as fault:
        _launch(module, far)
    return str(fault.value)


def _refuse(*arguments: object) -> None:
    raise AssertionError("something is translated")


EXPECTED = np.zeros(WORDS, np.uint32)
EXPECTED[:THREADS] = (
    np.where(np.arange(THREADS) % 2, 7, 9) * 3 + 40 + np.where(np.arange(THREADS) < 40, 1000, 0)
)


def test_a_kernel_computes_the_same_and_is_not_translated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    module = parse(TEXT)
    np.testing.assert_array_equal(_launch(module, 0), EXPECTED)
    module = _stored(module)
    monkeypatch.setattr(plan, "translate", _refuse)
    np.testing.assert_array_equal(_launch(module, 0), EXPECTED)


@pytest.mark.parametrize("far", [2, 1 << 20])
def test_a_bad_access_is_reported_the_same(far: int, monkeypatch: pytest.MonkeyPatch) -> None:
    module = parse(TEXT)
    report = _fault(module, far)
    assert "st.global.b32 [%rd6], %r9" in report
    module = _stored(module)
    monkeypatch.setattr(plan, "translate", _refuse)
    assert _fault(module, far) == report


def test_blocks_that_nothing_had_reached_are_translated_when_something_does() -> None:
    report = _fault(parse(TEXT), 2)
    module = parse(TEXT)
    _launch(module, 0)
    module = _stored(module)
    kernel = module.entries["k"].plan
    kernel.is_news = False
    np.testing.assert_array_equal(_launch(module, 0), EXPECTED)
    assert not kernel.is_news
    assert _fault(module, 2) == report
    assert kernel.is_news


def test_an_instruction_that_is_not_understood_is_reported_the_same() -> None:
    module = parse(TEXT.replace("add.u32 %r9, %r9, %r7;", "add.u32 %r9, %r9, %r7;\nfrobnicate.u32 %r9, %r7;"))
    report = _fault(module, 0)
    assert "frobnicate" in report
    assert _fault(_stored(module), 0) == report


def test_products_are_followed_in_a_function_that_was_read() -> None:
    module = parse(PRODUCTS)
    entry = module.entries["k"]
    entry.plan = KernelPlan(module, entry)
    entry.plan.function("k")
    function = _stored(module).entries["k"].plan.function("k")
    function.code(len(function.blocks) - 1)
    assert all(block.products is not None for block in function.blocks)
    assert function.blocks[-1].products.written == {"%f0", "%f1", "%f2", "%f3"}

"""Kernels of rows with what is before and after them, as a GPU gets them."""

from __future__ import annotations

import pytest

import drv
from drv.simulator.timing.machine_code.assembling import assemble, available
from nvrtc_kernels.dtypes import bfloat16, float32
from nvrtc_kernels.fused_rows import Chain, Input, source
from nvrtc_kernels.normalization import Rows, row_kernel
from nvrtc_kernels.program import INCLUDE
from nvrtc_kernels.rows import team

_BEFORE = Chain(
    (
        "const float value0 = random_word(seed, call, number) < below ? to_compute(input0) : 0.0f;",
        "const float value1 = separate(value0 + to_compute(input1)) + to_compute(input2);",
    ),
    (Input(bfloat16), Input(float32), Input(float32, 384)),
    (("value1", float32),),
    (("seed", "Q"), ("call", "Q"), ("below", "Q")),
    "value1",
    draws=True,
)
_AFTER = Chain(("const float value0 = row * 2.0f;",), (), (("value0", bfloat16),))


@pytest.mark.parametrize("aligned", [True, False])
def test_loads_and_stores_are_packs(aligned: bool) -> None:
    """Four elements at once, a row in registers: a warp has three packs of each of its 384 elements."""
    kernel = row_kernel(Rows(512, 384), float32, float32, has_weight=True, has_bias=True)
    shape = team(384, 4)
    assert shape is not None
    text, codes = source("rows", kernel, _BEFORE, _AFTER, shape.template, shape.threads, aligned)
    assert codes == ["q", "i", *"P" * 9, "Q", "Q", "Q", "d"]
    program = drv.compile_program(
        text, "compute_90", name="rows.cu", options=("-default-device",), include_dirs=(INCLUDE,)
    )
    ptx = bytes(program.image).decode()
    # Weight and bias are loaded in packs always, results are stored so.
    assert ptx.count("ld.global.v4.f32") + ptx.count("ld.global.v4.b32") >= (12 if aligned else 6)
    assert ptx.count("st.global.v4.f32") + ptx.count("st.global.v4.b32") == 3
    # One block of random words for a pack.
    assert ptx.count("mul.hi.u32") + ptx.count("mul.wide.u32") <= 3 * 20 + 40
    assert not available() or "rows" in assemble(program.image, (9, 0))

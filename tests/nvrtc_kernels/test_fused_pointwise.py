"""Kernels of several pointwise operations, as a GPU gets them."""

from __future__ import annotations

import pytest

import drv
from drv.simulator.timing.machine_code.assembling import assemble, available
from nvrtc_kernels.dtypes import bfloat16, float32
from nvrtc_kernels.fused_pointwise import Chain, source
from nvrtc_kernels.pointwise_work import operands_of, packs_for
from nvrtc_kernels.program import INCLUDE

_CHAIN = Chain(
    "chain",
    (
        "const float value0 = separate(to_compute(input0) * to_compute(input1));",
        "const float value1 = random_word(seed, call, number) < below ? value0 + to_compute(input0) : 0.0f;",
    ),
    ("value1", "value0"),
    (("seed", "Q"), ("call", "Q"), ("below", "Q")),
    draws=True,
)


@pytest.mark.parametrize("strided", [False, True])
def test_packs_draw_a_block_of_words_once_and_round_twice(strided: bool) -> None:
    """Of 16 elements of a thread: four blocks of words, of ten rounds with two products each."""
    types = bfloat16, float32, float32, float32
    work, call = None, "fused_flat<4, 4>"
    if strided:
        operands = operands_of((512, 512), [(512, 1), (512, 1), (0, 1)], [4, 4, 4])
        work = packs_for(operands, wide=True)
        call = work.call.replace("pointwise_", "fused_")
    text = source(_CHAIN, types, "chain", call, work)
    program = drv.compile_program(
        text, "compute_90", name="chain.cu", options=("-default-device",), include_dirs=(INCLUDE,)
    )
    ptx = bytes(program.image).decode()
    # What is left over is done element by element, in further code.
    assert ptx.count("mul.hi.u32") + ptx.count("mul.wide.u32") <= 7 * 20 + 40
    assert "mul.rn.f32" in ptx
    assert not available() or "chain" in assemble(program.image, (9, 0))

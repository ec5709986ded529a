"""Kernels whose blocks are large take no more registers than a multiprocessor has.

What NVRTC makes for a GPU says how many a thread takes; the simulator, which runs PTX, has no limit.
"""

from __future__ import annotations

import re
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from drv.compiler import compile_program
from drv.simulator.timing.machine_code.cubin import read_cubin
from nvrtc_kernels import (
    attention,
    fused_attention,
    fused_products,
    fused_rows,
    implicit_convolution,
    losses,
    normalization,
    outer_sums,
    recurrent_sequences,
    softmax,
    warpgroup_convolution,
    warpgroup_strided_convolution,
    warpgroup_weight_gradient,
)
from nvrtc_kernels.convolution import Geometry, Windows
from nvrtc_kernels.dtypes import bfloat16, bool_, dtype, float32, float64
from nvrtc_kernels.program import INCLUDE
from tests.thinning import thinned

_REGISTERS = 1 << 16


#: In ``.nv.info``: a value of 8 bytes, which are the kernel's symbol and the registers of a thread.
_REGISTER_COUNT = bytes((0x04, 0x2F, 8, 0))


def registers(image: bytes) -> int:
    """Registers of a thread of the only kernel of a cubin."""
    (start,) = struct.unpack_from("<Q", image, 40)
    size, count, names = struct.unpack_from("<3H", image, 58)
    sections = [struct.unpack_from("<2I4Q", image, start + i * size) for i in range(count)]
    texts = sections[names][4]
    for name, _, _, _, offset, length in sections:
        begin = texts + name
        if image[begin : image.index(b"\0", begin)] == b".nv.info":
            result = image.index(_REGISTER_COUNT, offset, offset + length)
            return int(struct.unpack_from("<2I", image, result + 4)[1])
    raise AssertionError("a cubin without .nv.info")


def _compiled(source: str, architecture: str = "sm_90") -> Any:
    """A cubin, and what the compiler says, by the options that matter to registers."""
    return compile_program(
        source,
        architecture,
        name="a.cu",
        options=("-default-device", "-minimal"),
        include_dirs=(INCLUDE,),
        line_info=False,
    )


def _softmax(kind: dtype) -> None:
    for n in (16384, 16383, 8192, 99999):
        softmax.plan(None, (2, n, 1), kind, kind, log=True)
        softmax.plan_backward(None, (2, n, 1), kind, kind, kind, log=False)


def _normalization(kind: dtype) -> None:
    for n in (16384, 16383, 8191):
        rows = normalization.Rows(2, 1, n, 1, True)
        normalization.plan(None, rows, kind, kind)
        normalization.plan_backward(None, rows, kind, kind, kind)


def _cross_entropy(kind: dtype) -> None:
    sizes = losses.Classes(4, 100000, 1, -100)
    losses.plan_cross_entropy(None, sizes, kind, kind, smooth=True)


def _attention(kind: dtype) -> None:
    mask = attention.MaskRows((2, 3), (0, 5), 1, bool_)
    for seen, dropping in ((None, False), (mask, True)):
        run = attention.plan_weights(None, kind, seen, dropping=dropping)
        for keys in {4096, 8192, 16384, attention.most_keys(kind)}:
            if keys <= attention.most_keys(kind):
                block = attention.Block(1, 1, 0, 1, 1, 0, keys, False)
                run(None, block, 1.0, b"", b"", *(0 for _ in range(6)))


@pytest.mark.parametrize("kind", [float32, float64, bfloat16], ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    ("module", "plan"),
    [(softmax, _softmax), (normalization, _normalization), (losses, _cross_entropy), (attention, _attention)],
    ids=["softmax", "normalization", "cross entropy", "attention"],
)
@pytest.mark.sampled(4)
def test_large_blocks_fit(module: Any, plan: Any, kind: dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    sources: set[tuple[str, str]] = set()

    def noted(_: Any, __: str, source: str, name: str, *___: Any) -> Any:
        sources.add((source, name))
        return lambda *_: None

    monkeypatch.setattr(module, "bound" if hasattr(module, "bound") else "launcher", noted)
    plan(kind)
    assert sources
    for source, name in sources:
        threads = int(re.findall(r"__launch_bounds__\((\d+)\)", source)[0])
        result = _compiled(source)
        taken = registers(result.image)
        assert 8 <= taken <= 255
        assert taken * threads <= _REGISTERS, f"{name} takes {taken} registers for each of {threads} threads"


@pytest.mark.parametrize(
    ("width", "capability", "masked"),
    thinned(
        [
            (width, capability, masked)
            for width, capability in (
                *((width, (8, 0)) for width in (32, 64, 128, 256)),
                (64, (9, 0)),
                (128, (9, 0)),
            )
            for masked in (True, False)
        ],
        lambda width, capability, masked: masked and (width == 64 or capability == (9, 0)),
    ),
)
def test_fused_attention_has_its_registers(
    width: int, capability: tuple[int, int], masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries and results are in registers, of which a thread has 255 at most: those of two blocks of warps, or of one of warpgroups."""
    sources: set[tuple[str, str]] = set()

    def noted(_: Any, __: str, source: str, name: str, *___: Any, **____: Any) -> Any:
        sources.add((source, name))
        return lambda *_: None

    monkeypatch.setattr(fused_attention, "launcher", noted)
    device: Any = SimpleNamespace(compute_capability=capability)
    sizes = fused_attention.Sizes((2,), 1, 80, 80, width, width, True)
    strides = [(width * 80, width, 1)] * 8
    # With a mask and dropout they have more to remember.
    mask = attention.MaskRows((2, 3), (0, 5), 1, bool_) if masked else None
    for aligned in (False, True):
        fused_attention.plan(
            device, bfloat16, sizes, strides[:4], 8, mask, dropping=masked, tf32=False, aligned=aligned
        )
    for at_once, aligned in ((False, False), (False, True), (True, False))[: 3 - (width > 128)]:
        fused_attention.plan_backward(
            device,
            bfloat16,
            sizes,
            strides,
            8,
            mask,
            dropping=masked,
            of_key=True,
            of_value=True,
            tf32=False,
            at_once=at_once,
            aligned=aligned,
        )
    # With bulk copies, too.
    assert len(sources) == 4 + 3 * (capability == (9, 0))
    of_warpgroups = 0
    for source, _ in sources:
        by_warpgroups = "Warpgroups" in source
        of_warpgroups += by_warpgroups
        result = _compiled(source, "sm_90a" if by_warpgroups else "sm_90")
        assert "serialized" not in result.log
        threads, blocks = (256, 1) if by_warpgroups else (128, 2)
        assert registers(result.image) * threads * blocks <= _REGISTERS
    assert of_warpgroups == (6 if capability == (9, 0) else 0)


@pytest.mark.parametrize(
    ("kind", "strides"),
    [
        pytest.param(kind, strides, marks=() if always else pytest.mark.nightly, id=f"{kind.name}, {name}")
        for kind, name, strides, always in (
            (bfloat16, "contiguous", (8192, 64, 0, 8, 1), True),
            (bfloat16, "channels last", (8192, 1, 0, 1024, 128), False),
            (float32, "contiguous", (8192, 64, 0, 8, 1), False),
            (float32, "channels last", (8192, 1, 0, 1024, 128), False),
        )
    ],
)
def test_implicit_convolution_leaves_room_for_two_blocks(
    kind: dtype, strides: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sums are in registers, and nothing is in local memory."""
    sources: set[tuple[str, str]] = set()

    def noted(_: Any, __: str, source: str, name: str, *___: Any) -> Any:
        sources.add((source, name))
        return lambda *_: None

    monkeypatch.setattr(implicit_convolution, "launcher", noted)
    monkeypatch.setattr(implicit_convolution.pointwise, "plan_copy", lambda *_: None)
    windows = Windows((1, 8, 8), (1, 3, 3), (1, 1, 1), (0, 1, 1), (1, 1, 1))
    geometry = Geometry(windows, 2, 128, 128, 1)
    weight = 9 * 128, 9, 0, 3, 1
    device: Any = SimpleNamespace(
        compute_capability=(8, 0), properties=SimpleNamespace(multi_processor_count=108)
    )
    implicit_convolution.plan(device, kind, "forward", geometry, strides, weight, strides, 1)
    implicit_convolution.plan_weight(device, kind, geometry, strides, weight, strides)
    sources = {each for each in sources if each[1].startswith("convolution_")}
    assert len(sources) == 2
    for source, name in sources:
        result = _compiled(source)
        assert registers(result.image) * 128 * 2 <= _REGISTERS, name
        assert read_cubin(result.image)[name].spills == 0, name


#: What runs always; the others do with --nightly.
_ALWAYS = {
    (bfloat16, 132 * 3, "last"),
    (bfloat16, 132 * 3, "rows"),
    (float32, 132 * 4, "last"),
    (float32, 132 * 4, "pairs"),
}


@pytest.mark.parametrize(
    ("element_dtype", "items", "form"),
    # Blocks of 256, 192 and 128 windows.
    thinned(
        [
            (each, items, form)
            for each in (bfloat16, float32)
            for items in (132 * 4, 132 * 3, 2)
            for form in ("last", "pairs", "rows")
            if form != "rows" or each is bfloat16
        ],
        lambda *each: each in _ALWAYS,
        lambda each, items, form: f"{each.name}, {items}, {form}",
    ),
)
def test_convolutions_by_warpgroups_have_their_sums_in_registers(
    element_dtype: dtype, items: int, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources: set[tuple[str, str]] = set()

    def noted(_: Any, __: str, source: str, name: str, *___: Any, one_architecture: bool) -> Any:
        assert one_architecture
        sources.add((source, name))
        return lambda *_: None

    monkeypatch.setattr(warpgroup_convolution, "launcher", noted)
    monkeypatch.setattr(warpgroup_weight_gradient, "launcher", noted)
    monkeypatch.setattr(warpgroup_strided_convolution, "launcher", noted)
    monkeypatch.setattr(implicit_convolution.pointwise, "plan_copy", lambda *_: None)
    monkeypatch.setattr(implicit_convolution, "launcher", lambda *_: None)
    windows = Windows((1, 8, 8), (1, 3, 3), (1, 1, 1), (0, 1, 1), (1, 1, 1))
    image = result = (8192, 1, 0, 1024, 128)
    shared = 0
    if form != "last":
        windows = Windows((1, 16, 16), (1, 3, 3), (1, 2, 2), (0, 1, 1), (1, 1, 1))
        image, result = (128 * 256, 256, 0, 16, 1), (128 * 64, 64, 0, 8, 1)
        shared = 227 << 10 if form == "rows" else 0
    geometry = Geometry(windows, items, 128, 128, 1)
    weight = 9 * 128, 9, 0, 3, 1
    device: Any = SimpleNamespace(
        compute_capability=(9, 0),
        properties=SimpleNamespace(multi_processor_count=132, shared_memory_per_block_optin=shared),
    )
    implicit_convolution.plan(device, element_dtype, "forward", geometry, image, weight, result, 1)
    if form == "last":
        implicit_convolution.plan_weight(device, element_dtype, geometry, image, weight, result)
    assert (
        sorted(", 2>" in source for source, _ in sources)
        == {
            "last": [False] * 2,
            "pairs": [True],
            "rows": [False, True],
        }[form]
    )
    for source, name in sources:
        result = _compiled(source, "sm_90a")
        # So it says of products that it does not let go on beside the others.
        assert "serialized" not in result.log, name
        (threads,) = re.findall(r"__launch_bounds__\((\d+), 1\)", source)
        assert registers(result.image) * int(threads) <= _REGISTERS, name
        assert read_cubin(result.image)[name].spills == 0, name


@pytest.mark.parametrize("result", [bfloat16, float32])
def test_outer_sums_leave_room_for_two_blocks(result: dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    sources: list[tuple[str, str]] = []

    def noted(_: Any, __: str, source: str, name: str, *___: Any) -> Any:
        sources.append((source, name))
        return lambda *_: None

    monkeypatch.setattr(outer_sums, "launcher", noted)
    device: Any = None
    outer_sums.plan(device, bfloat16, result, [outer_sums.OuterSum(64, 64, 64, True)])(0, 0, 0, 0, 0)
    ((source, name),) = sources
    compiled = _compiled(source)
    assert registers(compiled.image) * 128 * 2 <= _REGISTERS
    assert read_cubin(compiled.image)[name].spills == 0


@pytest.mark.parametrize("transposed", [False, True])
def test_fused_products_leave_room_for_two_blocks(transposed: bool) -> None:
    kernel = fused_products.ProductKernel(bfloat16, 512, 512, 512, transposed, has_bias=True)
    chain = fused_rows.Chain(
        ("const auto value0 = input0;",), (fused_rows.Input(bfloat16),), (("value0", bfloat16),)
    )
    text, _ = fused_products.source("product", kernel, chain, packed=True, aligned=True)
    compiled = _compiled(text)
    assert registers(compiled.image) * 128 * 2 <= _REGISTERS
    assert read_cubin(compiled.image)["product"].spills == 0


@pytest.mark.parametrize(
    ("cell", "kind", "hidden", "batch"),
    thinned(
        [
            (cell, kind, hidden, batch)
            for cell in ("lstm", "gru", "rnn_tanh")
            for kind in (float32, bfloat16, float64)
            # One group of units and one row of a lane; two groups, and four rows.
            for hidden, batch in ((64, 8), (640, 32))
        ],
        lambda cell, kind, *_: (cell, kind) in {("lstm", float64), ("gru", bfloat16)},
    ),
)
def test_sequences_of_recurrent_steps_fit(
    cell: str, kind: dtype, hidden: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources: dict[str, str] = {}

    def noted(_: Any, __: str, source: str, name: str, *___: Any, cooperative: bool) -> Any:
        assert cooperative
        sources[name] = source

    properties = SimpleNamespace(multi_processor_count=132, shared_memory_per_block_optin=227 << 10)
    driver = SimpleNamespace(cuMemsetD32Async=None)
    device: Any = SimpleNamespace(
        properties=properties, attribute=lambda _: 1, runtime=SimpleNamespace(driver=driver)
    )
    monkeypatch.setattr(recurrent_sequences, "launcher", noted)
    monkeypatch.setattr(recurrent_sequences, "_MOST_WORK", 1 << 40)
    recurrent_sequences.plan(device, cell, kind, hidden, batch, keep=True)
    recurrent_sequences.plan_backward(device, cell, kind, hidden, batch)
    assert sources
    for name, source in sources.items():
        result = _compiled(source)
        assert registers(result.image) * 256 <= _REGISTERS
        assert read_cubin(result.image)[name].spills == 0, name

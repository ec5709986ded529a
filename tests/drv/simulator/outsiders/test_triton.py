"""Triton's kernels, in the style of its tutorials, through the PTX that it compiles them to.

Triton needs no GPU for that. It is not installed with the tests; where it is, these run.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import drv

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")

pytestmark = pytest.mark.simulator_only
CAPABILITIES = (80, 90)


@triton.jit
def add(x, y, out, n, size: tl.constexpr):
    at = tl.program_id(0) * size + tl.arange(0, size)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


@triton.jit
def softmax(out, x, stride, rows, columns, size: tl.constexpr, stages: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=stages):
        at = tl.arange(0, size)
        mask = at < columns
        value = tl.load(x + row * stride + at, mask=mask, other=-float("inf"))
        numerator = tl.exp(value - tl.max(value, axis=0))
        tl.store(out + row * stride + at, numerator / tl.sum(numerator, axis=0), mask=mask)


@triton.jit
def matmul(a, b, c, m, n, k, rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr):
    row = (tl.program_id(0) * rows + tl.arange(0, rows)) % m
    column = (tl.program_id(1) * columns + tl.arange(0, columns)) % n
    at = tl.arange(0, depth)
    left, right = a + row[:, None] * k + at[None, :], b + at[:, None] * n + column[None, :]
    total = tl.zeros((rows, columns), dtype=tl.float32)
    for step in range(tl.cdiv(k, depth)):
        x = tl.load(left, mask=at[None, :] < k - step * depth, other=0.0)
        y = tl.load(right, mask=at[:, None] < k - step * depth, other=0.0)
        total = tl.dot(x, y, total)
        left += depth
        right += depth * n
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    column = tl.program_id(1) * columns + tl.arange(0, columns)
    inside = (row[:, None] < m) & (column[None, :] < n)
    tl.store(c + row[:, None] * n + column[None, :], total.to(tl.float16), mask=inside)


@triton.jit
def matmul_of_descriptors(a, b, c, m, n, k, rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [m, k], [k, 1], [rows, depth])
    right = tl.make_tensor_descriptor(b, [n, k], [k, 1], [columns, depth])
    out = tl.make_tensor_descriptor(c, [m, n], [n, 1], [rows, columns])
    row, column = tl.program_id(0) * rows, tl.program_id(1) * columns
    total = tl.zeros((rows, columns), dtype=tl.float32)
    for step in range(tl.cdiv(k, depth)):
        total = tl.dot(left.load([row, step * depth]), right.load([column, step * depth]).T, total)
    out.store([row, column], total.to(tl.float16))


@triton.jit
def attention(
    q, k, v, out, scale, n, width: tl.constexpr, rows: tl.constexpr, keys: tl.constexpr, causal: tl.constexpr
):
    base = tl.program_id(1) * n * width
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    key, lane = tl.arange(0, keys), tl.arange(0, width)
    queries = tl.load(q + base + row[:, None] * width + lane[None, :])
    largest = tl.full((rows,), -float("inf"), tl.float32)
    weights = tl.zeros((rows,), tl.float32)
    total = tl.zeros((rows, width), tl.float32)
    stop = (tl.program_id(0) + 1) * rows if causal else n
    for start in range(0, stop, keys):
        at = base + (start + key)[:, None] * width + lane[None, :]
        scores = tl.dot(queries, tl.trans(tl.load(k + at))) * scale
        if causal:
            scores = tl.where(row[:, None] >= (start + key)[None, :], scores, -float("inf"))
        larger = tl.maximum(largest, tl.max(scores, 1))
        p = tl.exp(scores - larger[:, None])
        correction = tl.exp(largest - larger)
        weights = weights * correction + tl.sum(p, 1)
        total = tl.dot(p.to(tl.float16), tl.load(v + at), total * correction[:, None])
        largest = larger
    tl.store(out + base + row[:, None] * width + lane[None, :], (total / weights[:, None]).to(tl.float16))


TYPES = {"float32": "fp32", "float16": "fp16", "int32": "i32"}


def launch(
    kernel: Any, grid: tuple[int, int, int], *arguments: Any, capability: int, constants: dict[str, Any]
) -> None:
    """Compile a kernel for the arguments, and run its PTX with all checks; findings are raised."""
    names = [name for name in kernel.arg_names if name not in constants]
    signature: dict[str, str] = dict.fromkeys(constants, "constexpr")
    alignment: dict[tuple[int], list[list[Any]]] = {}
    for name, argument in zip(names, arguments, strict=True):
        array = isinstance(argument, np.ndarray)
        signature[name] = f"{'*' if array else ''}{TYPES[argument.dtype.name]}"
        if array or (argument.dtype == np.int32 and argument % 16 == 0):
            alignment[kernel.arg_names.index(name),] = [["tt.divisibility", 16]]
    signature = {name: signature[name] for name in kernel.arg_names}
    source = triton.compiler.compiler.ASTSource(
        fn=kernel, signature=signature, constexprs=constants, attrs=alignment
    )
    target = triton.backends.compiler.GPUTarget("cuda", capability, 32)
    compiled = triton.compile(source, target=target, options={"num_stages": 3})
    ptx = compiled.asm["ptx"]
    head = re.search(r"\.entry[^)]*\)", ptx)
    assert head is not None
    # Behind the arguments stand the memory that descriptors are made in, and the profiler's.
    scratch = [np.zeros(1 << 14, np.uint8)] * (head.group().count(".param") - len(arguments))
    drv.simulator.run(
        ptx,
        compiled.metadata.name,
        grid=grid,
        block=32 * compiled.metadata.num_warps,
        arguments=[*arguments, *scratch],
        shared=compiled.metadata.shared,
        capability=f"{capability // 10}.{capability % 10}",
    )


def values(*shape: int, dtype: str = "float16", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_vector_add(capability: int) -> None:
    x, y = values(3000, dtype="float32"), values(3000, dtype="float32", seed=1)
    out = np.zeros_like(x)
    launch(add, (3, 1, 1), x, y, out, np.int32(3000), capability=capability, constants={"size": 1024})
    np.testing.assert_array_equal(out, x + y)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_softmax(capability: int) -> None:
    x = values(10, 200, dtype="float32")
    out = np.zeros_like(x)
    numbers = np.int32(200), np.int32(10), np.int32(200)
    constants = {"size": 256, "stages": 4}
    launch(softmax, (4, 1, 1), out, x, *numbers, capability=capability, constants=constants)
    numerator = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, numerator / numerator.sum(1, keepdims=True), rtol=2e-6)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_matmul(capability: int) -> None:
    a, b = values(128, 160), values(160, 96, seed=1)
    c = np.zeros((128, 96), np.float16)
    sizes = np.int32(128), np.int32(96), np.int32(160)
    constants = {"rows": 64, "columns": 64, "depth": 32}
    launch(matmul, (2, 2, 1), a, b, c, *sizes, capability=capability, constants=constants)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=2e-3, atol=2e-3)


def test_matmul_by_tensor_descriptors() -> None:
    a, b = values(128, 192), values(120, 192, seed=1)
    c = np.zeros((128, 120), np.float16)
    sizes = np.int32(128), np.int32(120), np.int32(192)
    constants = {"rows": 64, "columns": 64, "depth": 64}
    launch(matmul_of_descriptors, (2, 2, 1), a, b, c, *sizes, capability=90, constants=constants)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32).T, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_flash_attention(capability: int, causal: bool) -> None:
    q, k, v = (values(2, 128, 64, seed=seed) for seed in range(3))
    out = np.zeros_like(q)
    constants = {"width": 64, "rows": 64, "keys": 64, "causal": causal}
    numbers = np.float32(0.125), np.int32(128)
    launch(attention, (2, 2, 1), q, k, v, out, *numbers, capability=capability, constants=constants)
    scores = q.astype(np.float32) @ k.astype(np.float32).transpose(0, 2, 1) * 0.125
    if causal:
        scores = np.where(np.tril(np.ones((128, 128), np.bool_)), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    expected = p / p.sum(-1, keepdims=True) @ v.astype(np.float32)
    np.testing.assert_allclose(out, expected, atol=2e-3)

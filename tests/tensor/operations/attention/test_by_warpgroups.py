"""Attention by products of warpgroups, which capability 9.0 alone has: against float64, and against products of warps.

Rows come to shared memory by bulk copies where tensor maps describe them.
"""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

import drv
import tensor
from nn.attention.varlen import varlen_attn
from nvrtc_kernels import fused_attention
from tensor.operations.attention.attention import scaled_dot_product_attention
from tests.thinning import thinned

#: Relative to the largest element, of results and of gradients.
ERRORS = {"float16": (1e-3, 1.5e-3), "bfloat16": (8e-3, 1.2e-2)}
#: Shapes of queries and of keys and values, how many elements of rows lie between what is read, and options.
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], int, dict[str, Any]]] = {
    "plain": ((1, 2, 130, 64), (1, 2, 70, 64), 0, {}),
    "causal": ((2, 200, 128), (2, 200, 128), 0, {"is_causal": True}),
    "more keys, causal": ((1, 100, 64), (1, 300, 64), 0, {"is_causal": True}),
    "groups": ((1, 4, 70, 64), (1, 2, 140, 64), 0, {"enable_gqa": True}),
    "masked": ((2, 2, 90, 100), (2, 2, 80, 100), 0, {"attn_mask": "bool"}),
    "biased": ((2, 2, 90, 64), (2, 2, 80, 64), 0, {"attn_mask": "float", "scale": 0.3}),
    "dropout": ((1, 2, 90, 64), (1, 2, 130, 64), 0, {"dropout_p": 0.3, "is_causal": True}),
    "rows of odd lengths": ((2, 80, 67), (2, 80, 67), 0, {}),
    "rows with gaps": ((2, 80, 96), (2, 100, 96), 8, {}),
}  # fmt: skip
#: Those whose rows lie a multiple of 16 bytes apart.
MAPPED = {*CASES} - {"masked", "rows of odd lengths"}


@pytest.fixture(
    params=["random", *(pytest.param(each, marks=pytest.mark.nightly) for each in ("eager", "lazy"))],
    autouse=True,
)
def schedule(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Gradients in two launches: one has products of warps."""
    monkeypatch.setattr(fused_attention, "_BLOCKS_AT_ONCE", 0)
    drv.simulator.install(check="full", schedule=request.param, capability=(9, 0))
    yield request.param
    assert not drv.simulator.findings()


def _operands(name: str, dtype: str) -> tuple[list[Any], Any, dict[str, Any]]:
    queries, keys, gap, options = CASES[name]
    generator = tensor.Generator().manual_seed(len(name))
    operands = []
    for shape in (queries, keys, keys):
        rows = tensor.randn(*shape[:-1], shape[-1] + gap, generator=generator).to(getattr(tensor, dtype))
        operands.append(rows[..., : shape[-1]])
    grad = tensor.randn(queries, generator=generator).to(getattr(tensor, dtype))
    options = dict(options)
    kind = options.get("attn_mask")
    if kind:
        mask = tensor.rand(queries[-2], keys[-2], generator=generator)
        options["attn_mask"] = mask < 0.6 if kind == "bool" else mask.to(getattr(tensor, dtype))
    return operands, grad, options


def _run(operands: Any, grad: Any, options: dict[str, Any]) -> list[Any]:
    """The result, and the gradients of queries, keys and values."""
    tensor.manual_seed(5)
    leaves = [x.detach().clone(memory_format=tensor.preserve_format).requires_grad_() for x in operands]
    result = scaled_dot_product_attention(*leaves, **options)
    result.backward(grad)
    return [result.detach(), *(leaf.grad for leaf in leaves)]


def _on_device(operands: Any, grad: Any, options: dict[str, Any]) -> list[Any]:
    """The same of a device."""
    # As they lie: a copy would have no gaps.
    moved = [
        tensor.empty(x.shape[:-1] + (x.stride(-2),), dtype=x.dtype, device="cuda")[..., : x.shape[-1]]
        for x in operands
    ]
    for to, x in zip(moved, operands, strict=True):
        to.copy_(x)
    there = {k: v.cuda() if isinstance(v, tensor.Tensor) else v for k, v in options.items()}
    tensor.manual_seed(5)
    leaves = [x.requires_grad_() for x in moved]
    result = scaled_dot_product_attention(*leaves, **there)
    result.backward(grad.cuda())
    return [x.cpu() for x in (result.detach(), *(leaf.grad for leaf in leaves))]


def _assert_close(results: list[Any], expected: list[Any], errors: tuple[float, float]) -> None:
    for number, (result, exact) in enumerate(zip(results, expected, strict=True)):
        array = exact.double().cpu().numpy()
        error = errors[number > 0] * np.abs(array).max()
        np.testing.assert_allclose(result.double().cpu().numpy(), array, rtol=0, atol=error)


def _teams(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Sources of the kernels that are planned from now on."""
    sources: list[str] = []
    usual = fused_attention.launcher

    def noted(device: Any, file: str, source: str, *rest: Any, **more: Any) -> Any:
        sources.append(source)
        return usual(device, file, source, *rest, **more)

    monkeypatch.setattr(fused_attention, "launcher", noted)
    return sources


def _is_bulk(source: str) -> bool:
    return "BulkWarpgroups<2>" in source


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(2)
def test_like_float64(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operands, grad, options = _operands(name, dtype)
    sources = _teams(monkeypatch)
    results = _on_device(operands, grad, options)
    assert len(sources) == 3
    assert all("Warpgroups<2>" in each for each in sources)
    assert [_is_bulk(each) for each in sources] == [name in MAPPED] * 3
    mask = options.get("attn_mask")
    exact_options = (
        {**options, "attn_mask": mask.double()} if mask is not None and mask.is_floating_point() else options
    )
    exact = _run([x.double() for x in operands], grad.double(), exact_options)
    _assert_close(results, exact, ERRORS[dtype])


@pytest.mark.parametrize(
    ("name", "dtype"),
    thinned(product(CASES, ERRORS), lambda name, dtype: (name, dtype) == ("dropout", "float16")),
)
def test_like_products_of_warps(name: str, dtype: str) -> None:
    """With the same words of dropout, too."""
    operands, grad, options = _operands(name, dtype)
    results = _on_device(operands, grad, options)
    _assert_close(results, _by_warps(operands, grad, options), tuple(2 * each for each in ERRORS[dtype]))


def _by_warps(operands: Any, grad: Any, options: dict[str, Any]) -> list[Any]:
    """What a device of capability 8.0 computes."""
    assert not drv.simulator.findings()
    drv.reset()
    drv.simulator.install(check="full", capability=(8, 0))
    return _on_device(operands, grad, options)


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (40, 3)])
@pytest.mark.sampled(2)
def test_sequences_of_several_lengths(window: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = [130, 1, 70]
    begins = np.cumsum([0, *lengths])
    generator = tensor.Generator().manual_seed(1)
    rows = [tensor.randn(sum(lengths), 2, 64, generator=generator).to(tensor.bfloat16) for _ in range(4)]
    sources = _teams(monkeypatch)
    leaves = [x.cuda().requires_grad_() for x in rows[:3]]
    offsets = tensor.tensor(begins, dtype=tensor.int32, device="cuda")
    result = varlen_attn(*leaves, offsets, offsets, max(lengths), max(lengths), window_size=window)
    result.backward(rows[3].cuda())
    assert sources and all("Warpgroups<2>" in each for each in sources)
    # Behind a sequence's rows lie those of the next one, which no tensor map leaves out.
    assert not any(map(_is_bulk, sources))
    exact = [x.double().requires_grad_() for x in rows[:3]]
    parts = []
    for begin, end in pairwise(begins):
        positions = tensor.arange(int(end - begin))
        apart = positions[None] - positions[:, None]
        seen = tensor.ones_like(apart, dtype=tensor.bool)
        if window[0] >= 0:
            seen = seen & (apart >= -window[0])
        if window[1] >= 0:
            seen = seen & (apart <= window[1])
        heads = [x[int(begin) : int(end)].transpose(0, 1) for x in exact]
        parts.append(scaled_dot_product_attention(*heads, attn_mask=seen).transpose(0, 1))
    expected = tensor.cat(parts)
    expected.backward(rows[3].double())
    _assert_close(
        [result.detach(), *(x.grad for x in leaves)],
        [expected.detach(), *(x.grad for x in exact)],
        ERRORS["bfloat16"],
    )


@pytest.mark.parametrize(
    "name", thinned(sorted(MAPPED), lambda name: name in ("dropout", "more keys, causal"))
)
def test_bulk_copies_change_no_bit(name: str, schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # With kernels that the test against float64 has, too.
    operands, grad, options = _operands(name, "float16")
    sources = _teams(monkeypatch)
    results = _on_device(operands, grad, options)
    assert any(map(_is_bulk, sources))
    assert not drv.simulator.findings()
    drv.reset()
    sources.clear()
    monkeypatch.setattr(fused_attention, "_by_bulk_copies", lambda *_, **__: False)
    drv.simulator.install(check="full", schedule=schedule, capability=(9, 0))
    for result, other in zip(results, _on_device(operands, grad, options), strict=True):
        assert tensor.equal(result, other)
    assert sources and not any(map(_is_bulk, sources))


def _pair(q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    """What attention on the device computes, and in float64 on the CPU."""
    result = scaled_dot_product_attention(q, k, v)
    exact = scaled_dot_product_attention(*(x.cpu().double() for x in (q, k, v)))
    return result, exact


#: Queries, keys and values of 100 positions and 64 elements as views of random numbers, and whether tensor maps describe them.
VIEWS: dict[str, tuple[Any, bool]] = {
    "heads of a row": (
        lambda x: [each.transpose(1, 2) for each in x(2, 100, 3, 3, 64).unbind(2)],
        True,
    ),
    "one sequence of keys": (lambda x: (x(2, 3, 100, 64), *(x(100, 64) for _ in range(2))), True),
    "keys of all heads": (lambda x: (x(2, 3, 100, 64), *(x(2, 1, 100, 64) for _ in range(2))), True),
    "keys of all batches": (lambda x: (x(2, 3, 100, 64), *(x(1, 3, 100, 64) for _ in range(2))), True),
    "one matrix": (lambda x: [x(100, 64) for _ in range(3)], True),
    "every second row": (lambda x: [x(2, 200, 64)[:, ::2] for _ in range(3)], True),
    "three dimensions that stay": (
        lambda x: [x(2, 2, 3, 2, 100, 64)[:, 1, :2, :1] for _ in range(3)],
        True,
    ),
    "four dimensions that stay": (
        lambda x: [x(3, 2, 3, 2, 3, 2, 100, 64)[:2, 0, :2, 0, :2, 0].expand(2, 2, 2, 100, 64) for _ in range(2)]
        + [x(2, 2, 2, 2, 2, 100, 64)[:, 0, :, 0]],
        True,
    ),
    "rows of 66": (lambda x: [x(2, 100, 66)[..., :64] for _ in range(3)], False),
    "addresses of 2 bytes": (lambda x: [x(2 * 100 * 64 + 1)[1:].view(2, 100, 64) for _ in range(3)], False),
    "one key": (lambda x: (x(2, 100, 64), *(x(2, 1, 64).expand(2, 100, 64) for _ in range(2))), False),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.sampled(3)
def test_views(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    view, mapped = VIEWS[name]
    generator = tensor.Generator().manual_seed(len(name))
    numbers = [
        x.to(tensor.bfloat16)
        for x in view(lambda *shape: tensor.randn(*shape, generator=generator).cuda().to(tensor.bfloat16))
    ]
    sources = _teams(monkeypatch)
    result, exact = _pair(*numbers)
    assert [_is_bulk(each) for each in sources] == [mapped]
    _assert_close([result], [exact], ERRORS["bfloat16"])


def test_a_graph_is_replayed_with_other_numbers() -> None:
    generator = tensor.Generator().manual_seed(2)
    q, k, v = (tensor.randn(2, 130, 64, generator=generator).cuda().to(tensor.bfloat16) for _ in range(3))
    scaled_dot_product_attention(q, k, v)
    tensor.cuda.synchronize()
    graph = tensor.cuda.CUDAGraph()
    with tensor.cuda.graph(graph):
        result = scaled_dot_product_attention(q, k, v)
    for _ in range(2):
        for x in (q, k, v):
            x.copy_(tensor.randn(2, 130, 64, generator=generator))
        graph.replay()
        exact = scaled_dot_product_attention(*(x.cpu().double() for x in (q, k, v)))
        _assert_close([result], [exact], ERRORS["bfloat16"])


def test_the_same_bits_every_time() -> None:
    operands, grad, options = _operands("groups", "float16")
    first, second = (_on_device(operands, grad, options) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        assert tensor.equal(a, b)


def test_short_sequences_are_for_warps(monkeypatch: pytest.MonkeyPatch) -> None:
    drv.reset()
    drv.simulator.install(execute=False, capability=(9, 0))
    sources = _teams(monkeypatch)
    for positions, keys, width in ((64, 200, 64), (200, 64, 64), (200, 200, 32), (200, 200, 256)):
        q, k = (tensor.randn(1, n, width, device="cuda", dtype=tensor.float16) for n in (positions, keys))
        scaled_dot_product_attention(q, k, k)
    assert len(sources) == 4
    assert all("attend<Warps," in each for each in sources)

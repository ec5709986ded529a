"""Attention beside its definition and PyTorch, in one block and in many, and what it holds in memory."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import drv
import tensor
from drv.host import machine_code
from nvrtc_kernels import fused_attention, host_loops
from tensor.operations.attention import attention
from tensor.operations.attention import blocks as attention_blocks
from tensor.operations.attention.attention import scaled_dot_product_attention
from tests.nn.conftest import full_precision
from tests.tensor.operations.neural_comparison import assert_like_torch, on

__all__ = ["full_precision"]

_INFINITY = float("inf")
#: Operands' shapes, and arguments; a mask is a shape and whether it is added.
CASES: dict[str, tuple[tuple[Any, Any, Any], dict[str, Any]]] = {
    "heads": (((2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 7)), {}),
    "one matrix": (((7, 4), (9, 4), (9, 4)), {"scale": -0.3}),
    "causal": (((2, 14, 4), (2, 14, 4), (2, 14, 4)), {"is_causal": True}),
    "causal, more keys": (((3, 9, 4), (3, 20, 4), (3, 20, 4)), {"is_causal": True}),
    "causal, more queries": (((20, 4), (9, 4), (9, 4)), {"is_causal": True}),
    "broadcast": (((2, 1, 5, 4), (3, 6, 4), (2, 3, 6, 2)), {}),
    "shared keys": (((2, 3, 5, 4), (2, 1, 6, 4), (6, 2)), {"mask": ((3, 1, 6), True)}),
    "keys masked": (((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 4)), {"mask": ((2, 1, 1, 6), False)}),
    "all masked apart": (((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 4)), {"mask": ((2, 3, 5, 6), False)}),
    "added": (((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 4)), {"mask": ((5, 6), True)}),
    "added to all": (((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 4)), {"mask": ((2, 3, 5, 6), True)}),
    "added to queries": (((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 4)), {"mask": ((2, 1, 5, 1), True)}),
    "groups": (((2, 6, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4)), {"enable_gqa": True, "is_causal": True}),
    "groups, masked": (
        ((2, 4, 5, 4), (2, 2, 7, 4), (2, 2, 7, 4)),
        {"enable_gqa": True, "mask": ((4, 5, 7), True)},
    ),
    "groups of different sizes": (((1, 6, 3, 4), (1, 3, 5, 4), (1, 2, 5, 4)), {"enable_gqa": True}),
    "no width": (((2, 3, 0), (2, 4, 0), (2, 4, 5)), {}),
    "no keys": (((2, 3, 4), (2, 0, 4), (2, 0, 5)), {}),
    "no queries": (((2, 0, 4), (2, 3, 4), (2, 3, 5)), {}),
    "no values": (((2, 3, 4), (2, 3, 4), (2, 3, 0)), {}),
}


def _arrays(name: str, kind: str = "float32", seed: int = 0) -> tuple[list[Any], dict[str, Any]]:
    shapes, options = CASES[name]
    rng = np.random.default_rng(seed)
    options = dict(options)
    arrays = [rng.standard_normal(shape).astype(kind) for shape in shapes]
    mask = options.pop("mask", None)
    if mask is not None:
        shape, added = mask
        arrays.append(rng.standard_normal(shape).astype(kind) if added else rng.random(shape) < 0.4)
    return arrays, options


def _calls(options: dict[str, Any]) -> Any:
    return lambda *operands: scaled_dot_product_attention(*operands, **options)


@pytest.mark.parity
@pytest.mark.usefixtures("full_precision")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(3)
def test_like_pytorch(name: str, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    arrays, options = _arrays(name)

    def reference(*operands: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(*operands, **options)

    assert_like_torch(device_name, _calls(options), reference, arrays)


@pytest.fixture
def in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores come in blocks, as they do where there are no kernels without."""
    monkeypatch.setattr(fused_attention, "takes", lambda *_: False)


@pytest.mark.usefixtures("full_precision", "in_blocks")
@pytest.mark.parametrize(
    "name",
    ["heads", "causal, more keys", "all masked apart", "shared keys", "added to queries", "groups, masked"],
)
@pytest.mark.sampled(4)
def test_in_many_blocks(name: str, checked_device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays, options = _arrays(name)
    results = []
    for size in (attention.WORKSPACE, 900):
        monkeypatch.setattr(attention, "WORKSPACE", size)
        operands = [on(checked_device, array, grad=True) for array in arrays]
        tensor.manual_seed(1)
        result = scaled_dot_product_attention(*operands, dropout_p=0.25, **options)
        (result * result).sum().backward()
        results.append([result, *(each.grad for each in operands if each.grad is not None)])
    assert len(results[0]) >= 4
    for actual, expected in zip(results[1], results[0], strict=True):
        np.testing.assert_allclose(
            actual.detach().cpu().numpy(), expected.detach().cpu().numpy(), rtol=1e-4, atol=2e-5
        )


def _reference(q: Any, k: Any, v: Any, mask: Any = None, *, causal: bool = False) -> Any:
    """The definition, in double precision."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask.astype(np.float64)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


@pytest.mark.usefixtures("full_precision")
@pytest.mark.parametrize("workspace", [48 << 20, 2000])
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.sampled(4)
def test_types(kind: str, workspace: int, checked_device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "WORKSPACE", workspace)
    rng = np.random.default_rng(3)
    q, k, v = (
        on(checked_device, rng.standard_normal((2, 13, 8))).to(getattr(tensor, kind)) for _ in range(3)
    )
    mask = (
        on(checked_device, rng.standard_normal((13, 13)).astype(np.float32)) if kind.endswith("16") else None
    )
    operands = [x.requires_grad_() for x in (q, k, v)]
    result = scaled_dot_product_attention(*operands, attn_mask=mask)
    assert result.dtype is q.dtype
    wide = [x.detach().cpu().double().numpy() for x in (q, k, v)]
    expected = _reference(*wide, None if mask is None else mask.cpu().numpy())
    tolerance = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "float64": 1e-13}[kind]
    np.testing.assert_allclose(
        result.detach().cpu().double().numpy(), expected, rtol=tolerance, atol=tolerance
    )
    # Gradients are those of the same tensors in double precision.
    grad = on(checked_device, rng.standard_normal(result.shape))
    result.backward(grad.to(q.dtype))
    exact = [on("cpu", array, grad=True) for array in wide]
    scaled_dot_product_attention(*exact, attn_mask=None if mask is None else mask.cpu().double()).backward(
        grad.cpu()
    )
    for x, y in zip(operands, exact, strict=True):
        assert x.grad.dtype is x.dtype
        np.testing.assert_allclose(
            x.grad.cpu().double().numpy(), y.grad.numpy(), rtol=tolerance * 4, atol=tolerance * 4
        )


@pytest.mark.usefixtures("full_precision", "in_blocks")
@pytest.mark.parametrize("length", [40, 100, 200, 300, 600, 1030, 4100])
@pytest.mark.sampled(4)
def test_teams_of_every_size(length: int, checked_device: str) -> None:
    """Rows of keys from one pack of a few threads up to several of a large block."""
    rng = np.random.default_rng(length)
    q, k, v = (rng.standard_normal((1, n, 4)).astype(np.float32) for n in (3, length, length))
    operands = [on(checked_device, x, grad=True) for x in (q, k, v)]
    result = scaled_dot_product_attention(*operands)
    np.testing.assert_allclose(result.detach().cpu().numpy(), _reference(q, k, v), rtol=2e-5, atol=2e-6)
    exact = [on("cpu", x.astype(np.float64), grad=True) for x in (q, k, v)]
    result.sum().backward()
    scaled_dot_product_attention(*exact).sum().backward()
    for x, y in zip(operands, exact, strict=True):
        np.testing.assert_allclose(x.grad.cpu().numpy(), y.grad.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("full_precision")
def test_strided_operands(device_name: str) -> None:
    """Heads beside each other, as layers have them, a transposed matrix, and columns that lie apart."""
    rng = np.random.default_rng(5)
    packed = rng.standard_normal((3, 6, 2, 3, 4)).astype(np.float32)
    q, k, v = (on(device_name, packed)[i].permute(1, 2, 0, 3) for i in range(3))
    arrays = [packed[i].transpose(1, 2, 0, 3) for i in range(3)]
    result = scaled_dot_product_attention(q, k, v).cpu().numpy()
    np.testing.assert_allclose(result, _reference(*arrays), rtol=2e-5, atol=2e-6)
    turned = on(device_name, np.ascontiguousarray(arrays[0].swapaxes(-1, -2))).transpose(-1, -2)
    apart = on(device_name, np.repeat(arrays[1], 2, -1))[..., ::2]
    mask = on(device_name, np.tri(6, dtype=bool).T.copy()).t()
    result = scaled_dot_product_attention(turned, apart, v, mask).cpu().numpy()
    np.testing.assert_allclose(result, _reference(*arrays, causal=True), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("workspace", "added"), [(48 << 20, False), (1000, True)])
def test_rows_without_keys(
    added: bool, workspace: int, checked_device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "WORKSPACE", workspace)
    rng = np.random.default_rng(0)
    operands = [on(checked_device, rng.standard_normal((2, 10, 4)), grad=True) for _ in range(3)]
    seen = rng.random((10, 10)) < 0.8
    seen[3] = False
    seen[5, :9], seen[5, 9] = False, True
    mask = on(checked_device, np.where(seen, 0.0, -np.inf) if added else seen)
    result = scaled_dot_product_attention(*operands, attn_mask=mask)
    array = result.detach().cpu().numpy()
    np.testing.assert_array_equal(array[:, 3], np.zeros((2, 4)))
    assert (array[:, 5] != 0).all()
    result.sum().backward()
    for x in operands:
        assert np.isfinite(x.grad.cpu().numpy()).all()
    np.testing.assert_array_equal(operands[0].grad.cpu().numpy()[:, 3], np.zeros((2, 4)))


def test_numbers_that_are_none(device_name: str) -> None:
    q, k, v = (tensor.randn(1, 3, 4, device=device_name) for _ in range(3))
    q[0, 1] = float("nan")
    result = scaled_dot_product_attention(q, k, v).cpu().numpy()
    assert np.isnan(result[0, 1]).all()
    assert np.isfinite(result[0, [0, 2]]).all()


@pytest.mark.parametrize(
    "name", ["one matrix", "causal, more queries", "shared keys", "groups, masked", "keys masked"]
)
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_derivatives(name: str, dropout: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "WORKSPACE", 900)
    arrays, options = _arrays(name, "float64")
    operands = tuple(on("cpu", array, grad=True) for array in arrays)

    def function(*operands: Any) -> Any:
        tensor.manual_seed(6)
        return scaled_dot_product_attention(*operands, dropout_p=dropout, **options)

    assert tensor.autograd.gradcheck(function, operands, fast_mode=True)
    assert tensor.autograd.gradgradcheck(function, operands, fast_mode=True)


def test_derivatives_on_a_device(device: drv.Device) -> None:
    arrays, options = _arrays("groups, masked", "float64")
    operands = tuple(on("cuda", array, grad=True) for array in arrays)

    def function(*operands: Any) -> Any:
        tensor.manual_seed(6)
        return scaled_dot_product_attention(*operands, dropout_p=0.3, **options)

    assert tensor.autograd.gradcheck(function, operands, fast_mode=True)
    assert tensor.autograd.gradgradcheck(function, operands, fast_mode=True)


@pytest.mark.parametrize("keys", [50, 52])
def test_dropout(keys: int, device_name: str) -> None:
    """Values that are the identity show the weights."""
    tensor.manual_seed(2)
    q, k = (tensor.zeros(2, n, 4, device=device_name) for n in (60, keys))
    v = tensor.eye(keys, device=device_name).expand(2, keys, keys).clone().requires_grad_()
    result = scaled_dot_product_attention(q, k, v, dropout_p=0.25)
    weights = result.detach().cpu().double().numpy()
    kept = weights != 0
    np.testing.assert_allclose(weights[kept], 1 / keys / 0.75, rtol=1e-3)
    deviation = (0.25 * 0.75) ** 0.5
    assert abs(kept.mean() - 0.75) < 4 * deviation / kept.size**0.5
    assert np.abs(kept.mean((0, 1)) - 0.75).max() < 5 * deviation / 120**0.5
    assert np.abs(kept.mean(2) - 0.75).max() < 5 * deviation / keys**0.5
    # What the gradient takes is what was kept.
    result.backward(tensor.ones_like(result))
    np.testing.assert_allclose(v.grad.cpu().numpy()[..., 0], weights.sum(1), rtol=1e-3)
    other = scaled_dot_product_attention(q, k, v, dropout_p=0.25).detach().cpu().numpy()
    assert ((other != 0) != kept).any()


def test_devices_drop_what_the_host_drops(device: drv.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "WORKSPACE", 400)
    rng = np.random.default_rng(9)
    arrays = [rng.standard_normal((2, 2, 9, 4)).astype(np.float32) for _ in range(3)]
    result = []
    for device_name in ("cpu", "cuda"):
        tensor.manual_seed(4)
        result.append(
            scaled_dot_product_attention(*(on(device_name, x) for x in arrays), dropout_p=0.5).cpu().numpy()
        )
    np.testing.assert_allclose(*result, rtol=5e-3, atol=5e-3)


def test_all_dropped(device_name: str) -> None:
    x = tensor.randn(2, 3, 4, device=device_name, requires_grad=True)
    result = scaled_dot_product_attention(x, x, x, dropout_p=1.0)
    np.testing.assert_array_equal(result.detach().cpu().numpy(), np.zeros((2, 3, 4)))
    result.sum().backward()
    np.testing.assert_array_equal(x.grad.cpu().numpy(), np.zeros((2, 3, 4)))


@pytest.mark.simulator_only
@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_any_schedule_on_a_side_stream(schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "WORKSPACE", 4000)

    def step(place: str) -> list[Any]:
        tensor.manual_seed(0)
        rng = np.random.default_rng(2)
        shapes = (2, 4, 11, 4), (2, 2, 13, 4), (2, 2, 13, 4), (11, 13)
        operands = [on(place, rng.standard_normal(shape).astype(np.float32), grad=True) for shape in shapes]
        q, k, v, mask = operands
        first = scaled_dot_product_attention(q, k, v, mask, dropout_p=0.2, enable_gqa=True)
        result = scaled_dot_product_attention(first, first, q, is_causal=True)
        (result * result).sum().backward()
        return [result.detach(), *(x.grad for x in operands)]

    expected = [each.numpy() for each in step("cpu")]
    drv.simulator.install(check="full", schedule=schedule)
    tensor.backends.cuda.matmul.allow_tf32 = False
    try:
        side = tensor.cuda.Stream()
        with tensor.cuda.stream(side):
            actual = [each.cpu().numpy() for each in step("cuda")]
    finally:
        tensor.backends.cuda.matmul.allow_tf32 = True
    for left, right in zip(actual, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-4, atol=2e-5)
    assert not drv.simulator.findings()


@pytest.mark.simulator_only
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("causal", [False, True])
def test_scores_are_never_all_in_memory(kind: str, causal: bool) -> None:
    drv.simulator.install(execute=False)
    length, heads, width = 32768, 2, 16
    shape = (1, heads, length, width)
    q, k, v = (
        tensor.empty(shape, device="cuda", dtype=getattr(tensor, kind)).requires_grad_() for _ in range(3)
    )
    warm = tensor.empty(1, 8, 8, device="cuda", dtype=q.dtype)
    tensor.bmm(warm, warm)
    before = tensor.cuda.memory_allocated()
    scores = heads * length * length * q.element_size()
    tensor.cuda.reset_peak_memory_stats()
    result = scaled_dot_product_attention(q, k, v, is_causal=causal)
    operand = result.numel() * result.element_size()
    # One number for each row, beside the result.
    assert tensor.cuda.memory_allocated() - before <= operand + heads * length * 4 + 1024
    result.backward(tensor.empty_like(result))
    peak = tensor.cuda.max_memory_allocated() - before
    # Result, its gradient, three gradients, sums in single precision; and the blocks.
    assert peak <= attention.WORKSPACE * 1.05 + 12 * operand
    assert peak < scores / 20


@pytest.mark.parametrize("capacity", [1, 100, 30000, 1 << 20])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("batch", "groups", "positions", "keys"),
    [
        ((2, 3), (), 5, 7),
        ((), (), 1200, 1100),
        ((3,), (2, 2), 33, 20),
        ((4, 2), (3,), 1, 2000),
        ((2, 5, 3), (), 9, 9),
    ],
)
def test_blocks(batch: Any, groups: Any, positions: int, keys: int, causal: bool, capacity: int) -> None:
    """Every score that is seen stands in one block, blocks are small, and none is all hidden."""
    capacity = max(capacity, positions * keys // 200)
    problem = attention_blocks.Problem(batch, groups, positions, keys, 4, 4, causal)
    counts = np.zeros((*batch, *groups, positions, keys), np.int8)
    rows = np.arange(counts[..., 0].size).reshape(counts.shape[:-1])
    reached: dict[int, int] = {}
    largest = 0
    for tile in attention_blocks.tiles(problem, capacity, 1024):
        most = max(block.first_key + block.keys for block in tile.blocks)
        if tile.first:
            reached = dict.fromkeys(range(tile.matrix, tile.matrix + tile.matrices), most)
        assert most <= reached[tile.matrix]
        for block in tile.blocks:
            region = tile.region(block)
            counts[region] += 1
            largest = max(largest, block.matrices * block.rows * -(-block.keys // 8) * 8)
            assert block.first_key % 4 == 0
            numbers = [
                np.arange(block.rows) + block.first + matrix * block.step for matrix in range(block.matrices)
            ]
            np.testing.assert_array_equal(rows[region[:-1]].ravel(), np.concatenate(numbers))
            if causal:
                assert (tile.row + tile.rows - 1) % positions >= block.first_key or block.rows >= positions
    assert largest <= max(capacity, 64)
    hidden = ~np.tri(positions, keys, dtype=bool) if causal else np.zeros((positions, keys), bool)
    assert (counts[..., ~hidden] == 1).all()
    assert (counts <= 1).all()
    if causal and positions >= 1024:
        assert counts.mean() < 0.9 or prod(counts.shape) == 0


def test_one_node() -> None:
    x = tensor.randn(2, 3, 4, requires_grad=True)
    result = scaled_dot_product_attention(x, x, x)
    assert result.grad_fn.name() == "ScaledDotProductAttentionBackward0"
    leaves = [each for each, _ in result.grad_fn.next_functions if each is not None]
    assert leaves == [leaves[0]] * 3
    assert leaves[0].variable is x
    result.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        result.sum().backward()
    result = scaled_dot_product_attention(x * 1, x, x)
    result.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


_ERRORS: dict[str, tuple[str, Any]] = {
    "a vector": ("at least 2 dim", lambda q, k, v: scaled_dot_product_attention(q[0, 0], k, v)),
    "dtypes": ("same dtype", lambda q, k, v: scaled_dot_product_attention(q, k.double(), v)),
    "integers": ("floating point", lambda q, k, v: scaled_dot_product_attention(q.int(), k.int(), v.int())),
    "width": (
        r"query of shape \(..., L, E\)",
        lambda q, k, v: scaled_dot_product_attention(q[..., 1:], k, v),
    ),
    "lengths": (r"\(..., S, Ev\)", lambda q, k, v: scaled_dot_product_attention(q, k[:, 1:], v)),
    "batches": ("must match", lambda q, k, v: scaled_dot_product_attention(q, k[:2], v[:2])),
    "mask and causal": (
        "should not be set",
        lambda q, k, v: scaled_dot_product_attention(q, k, v, tensor.zeros(4, 5), is_causal=True),
    ),
    "mask of integers": (
        "attn_mask dtype",
        lambda q, k, v: scaled_dot_product_attention(q, k, v, tensor.zeros(4, 5, dtype=tensor.int64)),
    ),
    "mask's type": (
        "attn_mask dtype",
        lambda q, k, v: scaled_dot_product_attention(q, k, v, tensor.zeros(4, 5).half()),
    ),
    "mask's shape": (
        r"attn_mask of shape \[4, 4\] cannot be broadcast to the scores' shape \[3, 4, 5\]",
        lambda q, k, v: scaled_dot_product_attention(q, k, v, tensor.zeros(4, 4)),
    ),
    "mask of more": (
        "cannot be broadcast",
        lambda q, k, v: scaled_dot_product_attention(q, k, v, tensor.zeros(2, 3, 4, 5)),
    ),
    "probability": (
        "between 0 and 1",
        lambda q, k, v: scaled_dot_product_attention(q, k, v, dropout_p=1.5),
    ),
    "heads": (
        "must divide",
        lambda q, k, v: scaled_dot_product_attention(q, k[:2], v[:2], enable_gqa=True),
    ),
    "no heads": (
        "enable_gqa",
        lambda q, k, v: scaled_dot_product_attention(q[0], k[0], v[0], enable_gqa=True),
    ),
    "heads of the mask": (
        "2 heads",
        lambda q, k, v: scaled_dot_product_attention(q, k[:1], v[:1], tensor.zeros(2, 4, 5), enable_gqa=True),
    ),
}


@pytest.mark.parametrize("name", _ERRORS)
def test_wrong_arguments(name: str) -> None:
    message, call = _ERRORS[name]
    q, k, v = tensor.zeros(3, 4, 6), tensor.zeros(3, 5, 6), tensor.zeros(3, 5, 2)
    with pytest.raises(RuntimeError, match=message):
        call(q, k, v)


def test_operands_that_are_no_tensors() -> None:
    x = tensor.zeros(2, 3)
    with pytest.raises(TypeError, match="'value'"):
        scaled_dot_product_attention(x, x, [1])
    with pytest.raises(TypeError, match="'attn_mask'"):
        scaled_dot_product_attention(x, x, x, 1)


def test_operands_on_two_devices(device: drv.Device) -> None:
    x = tensor.zeros(2, 3)
    with pytest.raises(RuntimeError, match="same device"):
        scaled_dot_product_attention(x, x.cuda(), x)
    with pytest.raises(RuntimeError, match="same device"):
        scaled_dot_product_attention(x, x, x, tensor.zeros(2, 2, device="cuda"))


def test_autocast(device_name: str) -> None:
    q, k, v = (tensor.randn(2, 5, 8, device=device_name, requires_grad=True) for _ in range(3))
    added = tensor.randn(5, 5, device=device_name, requires_grad=True)
    seen = tensor.ones(5, 5, device=device_name, dtype=tensor.bool).tril()
    expected = scaled_dot_product_attention(q, k, v, added).detach().cpu().numpy()
    with tensor.autocast(device_name, dtype=tensor.bfloat16):
        result = scaled_dot_product_attention(q, k, v, added)
        assert scaled_dot_product_attention(q, k, v, seen).dtype is tensor.bfloat16
    assert result.dtype is tensor.bfloat16
    np.testing.assert_allclose(result.detach().cpu().float().numpy(), expected, rtol=5e-2, atol=5e-2)
    result.sum().backward()
    assert {x.grad.dtype for x in (q, k, v, added)} == {tensor.float32}


def test_saved_elsewhere(device: drv.Device) -> None:
    """What hooks give back may be laid out otherwise than what was saved."""
    x = tensor.randn(2, 5, 3, 4, device="cuda").transpose(1, 2).requires_grad_()
    result = []
    for pinned in (None, True):
        x.grad = None
        if pinned is None:
            loss = scaled_dot_product_attention(x, x, x, is_causal=True).square().sum()
        else:
            with tensor.autograd.graph.save_on_cpu(pin_memory=pinned):
                loss = scaled_dot_product_attention(x, x, x, is_causal=True).square().sum()
        loss.backward()
        result.append(x.grad.cpu().numpy())
    np.testing.assert_array_equal(*result)


def _random_call(random: np.random.Generator) -> tuple[list[tuple[Any, list[int]]], dict[str, Any]]:
    """Arrays with an order of their dimensions each, query, key, value and maybe a mask, and arguments."""
    batch = random.integers(1, 4, random.integers(0, 4)).tolist()
    length, keys, width, values = random.integers(1, 9, 4).tolist()

    def some(sizes: list[int], most: int) -> list[int]:
        start = random.integers(0, most + 1)
        return [1 if random.random() < 0.25 else size for size in sizes][start:]

    def ordered(shape: list[int]) -> tuple[Any, list[int]]:
        order = random.permutation(len(shape))
        return random.standard_normal([shape[dim] for dim in order]), np.argsort(order).tolist()

    shapes = [some(batch, len(batch)) for _ in range(3)]
    options: dict[str, Any] = {}
    if random.random() < 0.3:
        options["enable_gqa"] = True
        heads, groups = random.integers(1, 4, 2).tolist()
        shapes = [[*shape, heads * groups if number == 0 else heads] for number, shape in enumerate(shapes)]
    operands = [
        ordered([*shape, *last])
        for shape, last in zip(shapes, ((length, width), (keys, width), (keys, values)), strict=True)
    ]
    kind = random.integers(0, 4)
    if kind == 0:
        options["is_causal"] = True
    elif kind > 1:
        shapes[1:] = [[*shape[:-1], 1] if options else shape for shape in shapes[1:]]
        whole = [*np.broadcast_shapes(*map(tuple, shapes[:2])), length, keys]
        mask, order = ordered(some(whole, len(whole) - 2))
        operands.append((mask if kind == 2 else mask > -0.8, order))
    return operands, options


@pytest.mark.parity
@pytest.mark.parametrize("seed", range(4))
def test_random_calls_like_pytorch(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(seed)
    for number in range(40):
        monkeypatch.setattr(attention, "WORKSPACE", (48 << 20, 5000, 900)[number % 3])
        operands, options = _random_call(random)
        results = []
        for library, function in (
            (torch, torch.nn.functional.scaled_dot_product_attention),
            (tensor, scaled_dot_product_attention),
        ):
            leaves = [library.from_numpy(array.copy()) for array, _ in operands]
            for leaf in leaves:
                leaf.requires_grad_(leaf.is_floating_point())
            argument = [leaf.permute(*order) for leaf, (_, order) in zip(leaves, operands, strict=True)]
            result = function(*argument, **options)
            # Every other time by operations that have derivatives themselves.
            needed = [leaf for leaf in leaves if leaf.requires_grad]
            grads = library.autograd.grad(result.square().sum(), needed, create_graph=number % 2 == 0)
            results.append([result.detach().numpy(), *(each.detach().numpy() for each in grads)])
        for expected, actual in zip(*results, strict=True):
            assert actual.shape == expected.shape
            known = ~np.isnan(expected)
            np.testing.assert_allclose(actual[known], expected[known], rtol=1e-8, atol=1e-10)


#: Shape of queries, whether causal, dtype of the mask, and probability of dropout.
_ON_THE_CPU: dict[str, tuple[tuple[int, ...], bool, Any, float]] = {
    "all keys": ((2, 3, 7, 8), False, None, 0.0),
    "causal": ((3, 37, 8), True, None, 0.0),
    "a sum": ((2, 21, 4), False, np.float32, 0.0),
    "a mask": ((2, 21, 4), False, np.bool_, 0.0),
    "dropout": ((2, 20, 4), True, None, 0.3),
    "several tiles": ((1, 1100, 4), True, None, 0.0),
}


@pytest.mark.skipif(not machine_code.available(), reason="llvmlite is not installed")
@pytest.mark.parametrize("name", _ON_THE_CPU)
def test_native_loops_on_the_cpu(name: str) -> None:
    """Weights and gradients by loops are those of NumPy; rows without keys have weights of 0."""
    shape, causal, of_mask, p = _ON_THE_CPU[name]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for _ in range(4)]
    mask = None
    if of_mask is not None:
        drawn = rng.standard_normal((shape[-2], shape[-2]))
        drawn[1] = -np.inf
        mask = tensor.from_numpy(drawn > -1 if of_mask is np.bool_ else drawn.astype(np.float32))
    outcomes, former = [], host_loops.mode()
    try:
        for mode in ("off", "on"):
            host_loops.set_mode(mode)
            tensor.manual_seed(0)
            leaves = [tensor.from_numpy(each.copy()).requires_grad_() for each in arrays[:3]]
            result = scaled_dot_product_attention(*leaves, attn_mask=mask, is_causal=causal, dropout_p=p)
            result.backward(tensor.from_numpy(arrays[3]))
            outcomes.append([result.detach(), *(x.grad for x in leaves)])
    finally:
        host_loops.set_mode(former)
    for one, other in zip(*outcomes, strict=True):
        np.testing.assert_allclose(other.numpy(), one.numpy(), rtol=1e-5, atol=2e-6)

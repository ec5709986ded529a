"""Attention on a device is one kernel, backward two: the same results, no copies, no scores in memory."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import drv
import tensor
from tensor.core.modes.precision import settings
from tensor.operations.attention.attention import scaled_dot_product_attention
from tests.tensor.driver_calls import counted
from tests.tensor.launched_kernels import launched
from tests.thinning import thinned

HALVES = {"float16": 2e-3, "bfloat16": 1.5e-2}
#: The same of float32, whose factors are rounded to TF32, or taken as they are.
TOLERANCES = {**HALVES, "tf32": 2e-3, "float32": 3e-6}
#: Shapes of query, key and value, arguments, and the mask: its shape, and whether it is added.
CASES: dict[str, tuple[tuple[Any, Any, Any], dict[str, Any]]] = {
    "one tile": (((2, 64, 32), (2, 64, 32), (2, 64, 32)), {}),
    "odd lengths": (((2, 3, 70, 16), (2, 3, 130, 16), (2, 3, 130, 16)), {}),
    "one query": (((2, 1, 8), (2, 200, 8), (2, 200, 8)), {}),
    "one key": (((65, 8), (1, 8), (1, 8)), {}),
    "width 64": (((1, 2, 65, 64), (1, 2, 63, 64), (1, 2, 63, 64)), {"scale": -0.2}),
    "width 80": (((1, 2, 40, 80), (1, 2, 66, 80), (1, 2, 66, 80)), {}),
    "width 128": (((1, 1, 66, 128), (1, 1, 70, 128), (1, 1, 70, 128)), {}),
    "width 12": (((2, 40, 12), (2, 66, 12), (2, 66, 12)), {}),
    "width 7": (((2, 40, 7), (2, 66, 7), (2, 66, 5)), {"is_causal": True}),
    "width 200": (((1, 70, 200), (1, 66, 200), (1, 66, 200)), {"is_causal": True}),
    "width 100": (((1, 70, 100), (1, 76, 100), (1, 76, 100)), {"mask": ((70, 76), True)}),
    "width 256": (((1, 66, 256), (1, 34, 256), (1, 34, 256)), {}),
    "wider values": (((2, 40, 16), (2, 66, 16), (2, 66, 40)), {"mask": ((40, 66), True)}),
    "causal": (((2, 2, 150, 32), (2, 2, 150, 32), (2, 2, 150, 32)), {"is_causal": True}),
    "causal, more keys": (((3, 70, 16), (3, 140, 16), (3, 140, 16)), {"is_causal": True}),
    "causal, more queries": (((140, 16), (70, 16), (70, 16)), {"is_causal": True}),
    "broadcast": (((2, 1, 5, 8), (3, 6, 8), (2, 3, 6, 8)), {}),
    "shared keys": (((2, 3, 5, 8), (2, 1, 6, 8), (6, 8)), {"mask": ((3, 1, 6), True)}),
    "keys masked": (((2, 3, 5, 8), (2, 3, 66, 8), (2, 3, 66, 8)), {"mask": ((2, 1, 1, 66), False)}),
    "masked": (((2, 3, 66, 8), (2, 3, 66, 8), (2, 3, 66, 8)), {"mask": ((2, 3, 66, 66), False)}),
    "added": (((2, 3, 66, 8), (2, 3, 70, 8), (2, 3, 70, 8)), {"mask": ((66, 70), True)}),
    "groups": (((2, 6, 70, 16), (2, 3, 70, 16), (2, 3, 70, 16)), {"enable_gqa": True, "is_causal": True}),
    "groups, masked": (
        ((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 8)),
        {"enable_gqa": True, "mask": ((4, 5, 7), True)},
    ),
}

#: Cases that always run, which have every kind of mask, width and layout, and the type in which they do.
ALWAYS = {
    "odd lengths": "bfloat16",
    "one query": "float16",
    "one key": "bfloat16",
    "width 7": "bfloat16",
    "keys masked": "bfloat16",
    "groups, masked": "float16",
    "width 100": "float32",
    "causal, more keys": "float32",
    "groups": "tf32",
    "width 128": "bfloat16",
}


@pytest.fixture(params=["eager", pytest.param("random", marks=pytest.mark.nightly)])
def schedule(request: pytest.FixtureRequest) -> Any:
    drv.simulator.install(check="full", schedule=request.param)
    yield request.param
    assert not drv.simulator.findings()


def _operands(name: str, half: str) -> tuple[list[Any], Any, dict[str, Any]]:
    """Tensors of numbers that the dtype has, the mask, and the other arguments."""
    shapes, options = CASES[name]
    generator = tensor.Generator().manual_seed(len(name))
    options = dict(options)
    operands = [tensor.randn(shape, generator=generator).to(_dtype(half)) for shape in shapes]
    mask = options.pop("mask", None)
    if mask is not None:
        shape, is_added = mask
        numbers = tensor.randn(shape, generator=generator)
        mask = numbers.to(operands[0].dtype) if is_added else numbers > 0.3
    return operands, mask, options


def _dtype(name: str) -> Any:
    return tensor.float32 if name == "tf32" else getattr(tensor, name)


def _run(operands: Any, mask: Any, options: Any, **more: Any) -> Any:
    return scaled_dot_product_attention(*operands, mask, **options, **more)


def _kernels(function: Any) -> tuple[Any, list[str]]:
    with launched() as names:
        result = function()
    return result, [each for each in names if each.startswith(("attention_", "copy", "cublas"))]


@pytest.mark.parametrize(
    ("name", "half"),
    thinned(
        product(CASES, TOLERANCES),
        lambda name, half: ALWAYS.get(name) == half,
        lambda name, half: f"{name} {half}",
    ),
)
def test_results_and_gradients(name: str, half: str, schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "matmul_tf32", half == "tf32")
    operands, mask, options = _operands(name, half)
    expected_operands = [x.double().requires_grad_() for x in operands]
    wide_mask = mask if mask is None or mask.dtype is tensor.bool else mask.double()
    expected = _run(expected_operands, wide_mask, options)
    on_device = [x.cuda().requires_grad_() for x in operands]
    there = None if mask is None else mask.cuda()
    result, names = _kernels(lambda: _run(on_device, there, options))
    assert len(names) == 1 and names[0].startswith("attention_of_")
    assert result.dtype is operands[0].dtype and result.shape == expected.shape
    tolerance = TOLERANCES[half]
    np.testing.assert_allclose(
        result.detach().cpu().double().numpy(), expected.detach().numpy(), rtol=tolerance, atol=tolerance
    )
    grad = tensor.randn(result.shape, generator=tensor.Generator().manual_seed(9)).to(result.dtype)
    expected.backward(grad.double())
    on_device_grad = grad.cuda()
    _, names = _kernels(lambda: result.backward(on_device_grad))
    launched = [each.split("_backward")[-1] for each in names if each.startswith("attention_")]
    # Few rows are one launch, unless they are so wide that registers hold no sums of all.
    width = max(operands[0].shape[-1], operands[2].shape[-1])
    assert launched == (["_queries", "_keys", "_values"] if width > 128 else [""])
    # Gradients of stretched operands are sums, which leaves take as copies.
    assert len(names) == len(launched) or name in ("broadcast", "shared keys")
    for x, y in zip(on_device, expected_operands, strict=True):
        largest = float(y.grad.abs().max())
        np.testing.assert_allclose(
            x.grad.cpu().double().numpy(),
            y.grad.numpy(),
            rtol=4 * tolerance,
            atol=4 * tolerance * (largest + 1),
        )


@pytest.mark.parametrize("half", HALVES)
def test_operands_are_read_where_they_lie(half: str, schedule: str) -> None:
    """Heads of one projection, which are slices of its rows: one launch, and two allocations."""
    dtype = getattr(tensor, half)
    packed = tensor.randn(2, 70, 3 * 4 * 16, device="cuda", dtype=dtype)
    heads = [x.view(2, 70, 4, 16).transpose(1, 2) for x in packed.split(64, -1)]
    result, names = _kernels(lambda: scaled_dot_product_attention(*heads, is_causal=True))
    assert names == ["attention_of_32"]
    expected = scaled_dot_product_attention(*[x.float() for x in heads], is_causal=True)
    np.testing.assert_allclose(
        result.float().cpu().numpy(), expected.cpu().numpy(), rtol=HALVES[half], atol=HALVES[half]
    )
    with counted() as calls:
        tensor.cuda.synchronize()
        before = tensor.cuda.memory_allocated()
        scaled_dot_product_attention(*heads, is_causal=True)
    assert tensor.cuda.memory_allocated() == before
    assert not {each for each in calls if each.startswith("cuMemcpy")}


def test_dropout_drops_what_the_other_kernels_drop(schedule: str) -> None:
    operands = [tensor.randn(2, 2, 70, 16, device="cuda", dtype=tensor.float16) for _ in range(3)]
    tensor.manual_seed(5)
    result = scaled_dot_product_attention(*operands, dropout_p=0.4)
    tensor.manual_seed(5)
    expected = scaled_dot_product_attention(*[x.double() for x in operands], dropout_p=0.4)
    np.testing.assert_allclose(result.float().cpu().numpy(), expected.cpu().numpy(), rtol=5e-3, atol=5e-3)
    tensor.manual_seed(5)
    assert tensor.equal(scaled_dot_product_attention(*operands, dropout_p=0.4), result)
    assert (scaled_dot_product_attention(*operands, dropout_p=1.0) == 0).all()


@pytest.mark.parametrize(
    "form", ["address", "odd address", "stride", "odd stride", "apart", "float32", "float64"]
)
def test_addresses_and_strides(form: str, schedule: str) -> None:
    """Fewer elements are read at a time where less is aligned; rows of elements apart, and float64, go another way."""
    half = tensor.float16
    query, key, value = {
        "address": lambda: tensor.randn(3, 2, 20, 32, device="cuda", dtype=half)[..., 4:20],
        "odd address": lambda: tensor.randn(3, 2, 20, 32, device="cuda", dtype=half)[..., 1:17],
        "stride": lambda: tensor.randn(3, 2, 20, 20, device="cuda", dtype=half)[..., :16],
        "odd stride": lambda: tensor.randn(3, 2, 20, 17, device="cuda", dtype=half)[..., :16],
        "apart": lambda: tensor.randn(3, 2, 16, 20, device="cuda", dtype=half).transpose(-2, -1),
        "float32": lambda: tensor.randn(3, 2, 20, 33, device="cuda")[..., 1:17],
        "float64": lambda: tensor.randn(3, 2, 20, 16, device="cuda", dtype=tensor.float64),
    }[form]()
    result, names = _kernels(lambda: scaled_dot_product_attention(query, key, value))
    if form in ("apart", "float64"):
        assert "attention_weights_32" in names
    else:
        assert names == ["attention_of_32"]
    expected = scaled_dot_product_attention(query.double(), key.double(), value.double())
    np.testing.assert_allclose(result.double().cpu().numpy(), expected.cpu().numpy(), rtol=4e-3, atol=4e-3)


def test_rows_without_keys_infinities_and_nan(schedule: str) -> None:
    query, key, value = tensor.randn(3, 2, 70, 16, device="cuda", dtype=tensor.float16)
    mask = tensor.ones(70, 70, dtype=tensor.bool, device="cuda")
    mask[3] = False
    mask[5, 64:] = False
    mask[6, :64] = False
    result = scaled_dot_product_attention(query, key, value, mask)
    assert (result[:, 3] == 0).all() and result.isfinite().all()
    for row, part in ((5, slice(0, 64)), (6, slice(64, None))):
        alone = scaled_dot_product_attention(
            query[:, row : row + 1].float(), key[:, part].float(), value[:, part].float()
        )
        np.testing.assert_allclose(result[:, row].float().cpu().numpy(), alone[:, 0].cpu().numpy(), atol=2e-3)
    added = tensor.zeros(70, 70, device="cuda")
    added[:, 1:] = -float("inf")
    only = scaled_dot_product_attention(query, key, value, added)
    np.testing.assert_allclose(
        only.float().cpu().numpy(), value[:, :1].expand(2, 70, 16).float().cpu().numpy()
    )
    query = query.clone()
    query[0, 1, 2] = float("nan")
    result = scaled_dot_product_attention(query, key, value)
    assert result[0, 1].isnan().all() and result[0, 2:].isfinite().all() and result[1].isfinite().all()


def test_older_devices_do_without() -> None:
    drv.simulator.install(check="race", capability=(7, 5))
    x = tensor.randn(2, 20, 16, device="cuda", dtype=tensor.float16)
    _, names = _kernels(lambda: scaled_dot_product_attention(x, x, x))
    assert not any(each.startswith("attention_of_") for each in names)

"""Gradients of attention on a device: one launch or two, the same numbers every time, no copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drv
import tensor
from nvrtc_kernels import fused_attention
from tensor.core.modes.precision import settings
from tensor.operations.attention.attention import scaled_dot_product_attention
from tests.tensor.launched_kernels import launched
from tests.thinning import thinned


@pytest.fixture(autouse=True, params=[True, pytest.param(False, id="two_launches")])
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether blocks of queries and of keys are one launch, as they are where there are few."""
    if not request.param:
        monkeypatch.setattr(fused_attention, "_BLOCKS_AT_ONCE", 0)
    return bool(request.param)


@pytest.fixture(
    params=["random", *(pytest.param(each, marks=pytest.mark.nightly) for each in ("eager", "lazy"))]
)
def schedule(request: pytest.FixtureRequest) -> Any:
    drv.simulator.install(check="full", schedule=request.param)
    yield request.param
    assert not drv.simulator.findings()


def _launched(function: Any) -> list[str]:
    """Names of the kernels that a function launches."""
    with launched() as names:
        function()
    return [each for each in names if each.split("_")[0] in ("attention", "copy", "cublas", "fill")]


def _random(*shape: int, dtype: Any = tensor.float16, seed: int = 3) -> Any:
    return tensor.randn(shape, generator=tensor.Generator().manual_seed(seed)).to(dtype).cuda()


def _gradients(operands: Any, grad: Any, mask: Any = None, **options: Any) -> list[Any]:
    leaves = [x.detach().requires_grad_() for x in operands]
    scaled_dot_product_attention(*leaves, mask, **options).backward(grad)
    return [x.grad for x in leaves]


def _exact_gradients(operands: Any, grad: Any, mask: Any = None, **options: Any) -> list[Any]:
    """The same in double precision, and on the CPU: there are no kernels of it to compile."""
    operands, grad = [x.cpu().double() for x in operands], grad.cpu().double()
    return _gradients(operands, grad, None if mask is None else mask.cpu(), **options)


def _assert_close(result: Any, expected: Any, tolerance: float = 6e-3) -> None:
    expected = expected.cpu().double().numpy()
    np.testing.assert_allclose(
        result.cpu().double().numpy(), expected, rtol=tolerance, atol=tolerance * (1 + np.abs(expected).max())
    )


@pytest.mark.parametrize("form", ["strided", "contiguous", "expanded"])
@pytest.mark.sampled(3)
def test_gradients_of_heads_of_one_projection(form: str, schedule: str, at_once: bool) -> None:
    """Queries, keys and values are slices of rows; nothing is copied on the way back, whatever the gradient is."""
    packed = _random(2, 70, 3, 4, 16)
    heads = [x.detach().requires_grad_() for x in packed.permute(2, 0, 3, 1, 4).unbind(0)]
    result = scaled_dot_product_attention(*heads, is_causal=True)
    joined = result.transpose(1, 2).reshape(2, 70, 64)
    assert joined.data_ptr() == result.data_ptr()
    grad = _random(2, 70, 64, seed=4).view(2, 70, 4, 16).transpose(1, 2)
    if form == "contiguous":
        grad = grad.contiguous()
    elif form == "expanded":
        grad = grad[:1].expand(2, 4, 70, 16)
    names = _launched(lambda: result.backward(grad))
    assert names == [
        f"attention_of_32_backward{each}" for each in ([""] if at_once else ["_queries", "_keys_values"])
    ]
    exact = _exact_gradients(heads, grad, is_causal=True)
    for x, expected in zip(heads, exact, strict=True):
        assert x.grad.transpose(1, 2).is_contiguous()
        _assert_close(x.grad, expected)


@pytest.mark.parametrize("width", [64, 100, 128, 200])
@pytest.mark.parametrize("extras", ["causal", "masked", "dropout", "groups"])
@pytest.mark.parametrize("form", ["bfloat16", "float32", "tf32"])
@pytest.mark.sampled(30)
def test_gradients_of_wide_heads(
    form: str, extras: str, width: int, schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lengths that are no multiples of tiles, more than one block of each."""
    monkeypatch.setattr(settings, "matmul_tf32", form == "tf32")
    dtype = tensor.bfloat16 if form == "bfloat16" else tensor.float32
    heads = 2 if extras == "groups" else 1
    shapes = ((heads, 150, width), (1, 138, width), (1, 138, width))
    operands = [_random(*shape, dtype=dtype, seed=seed) for seed, shape in enumerate(shapes)]
    grad = _random(heads, 150, width, dtype=dtype, seed=9)
    options: dict[str, Any] = {"is_causal": extras == "causal", "enable_gqa": extras == "groups"}
    if extras == "dropout":
        options["dropout_p"] = 0.3
    mask = tensor.rand(150, 138, device="cuda") < 0.6 if extras == "masked" else None
    tensor.manual_seed(5)
    results = _gradients(operands, grad, mask, **options)
    tensor.manual_seed(5)
    exact = _exact_gradients(operands, grad, mask, **options)
    tolerance = {"bfloat16": 2e-2, "tf32": 3e-3, "float32": 4e-6}[form]
    for result, expected in zip(results, exact, strict=True):
        _assert_close(result, expected, tolerance)


@pytest.mark.parametrize("expected", [(True, False, False), (False, True, False), (False, False, True)])
@pytest.mark.sampled(3)
def test_only_what_is_required(expected: tuple[bool, ...], schedule: str) -> None:
    operands = [_random(2, 40, 32, seed=seed) for seed in range(3)]
    grad = _random(2, 40, 32, seed=9)
    leaves = [x.detach().requires_grad_(some) for x, some in zip(operands, expected, strict=True)]
    result = scaled_dot_product_attention(*leaves)
    names = _launched(lambda: result.backward(grad))
    others = "".join(name for name, some in zip(("_keys", "_values"), expected[1:], strict=True) if some)
    # The first kernel also makes what the second needs.
    assert names == [f"attention_of_32_backward{each}" for each in ("_queries", others) if each]
    every = _gradients(operands, grad)
    for x, some, whole in zip(leaves, expected, every, strict=True):
        assert (x.grad is not None) is some
        if some:
            # Means of rows are added up in another order where all is one launch.
            _assert_close(x.grad, whole, 1e-3)


@pytest.mark.parametrize("masked", thinned((False, True), lambda masked: masked))
def test_dropout_is_that_of_forward(masked: bool, schedule: str) -> None:
    """No mask of it is stored: queries in the blocks of one kernel, keys in those of the other, draw the same numbers."""
    operands = [_random(2, 2, length, 16, seed=length) for length in (70, 45, 45)]
    grad = _random(2, 2, 70, 16, seed=9)
    mask = tensor.rand(2, 1, 70, 45, device="cuda") < 0.7 if masked else None
    tensor.manual_seed(5)
    results = _gradients(operands, grad, mask, dropout_p=0.4)
    tensor.manual_seed(5)
    exact = _exact_gradients(operands, grad, mask, dropout_p=0.4)
    for result, expected in zip(results, exact, strict=True):
        _assert_close(result, expected)


def test_the_same_numbers_every_time(schedule: str) -> None:
    operands = [_random(1, 2, 130, 32, seed=seed, dtype=tensor.bfloat16) for seed in range(3)]
    grad = _random(1, 2, 130, 32, seed=9, dtype=tensor.bfloat16)
    first, second = (_gradients(operands, grad, is_causal=True) for _ in range(2))
    assert all(tensor.equal(x, y) for x, y in zip(first, second, strict=True))


def test_rows_without_keys_and_large_scores(schedule: str) -> None:
    operands = [_random(1, 70, 16, seed=seed) for seed in range(3)]
    grad = _random(1, 70, 16, seed=9)
    mask = tensor.ones(70, 70, dtype=tensor.bool, device="cuda")
    mask[3] = False
    results = _gradients(operands, grad, mask)
    assert all(x.isfinite().all() for x in results) and (results[0][:, 3] == 0).all()
    for result, expected in zip(results, _exact_gradients(operands, grad, mask), strict=True):
        _assert_close(result, expected)
    # All scores so low that 0, where keys end, is out of reach of their exponentials.
    low = [operands[0].abs() * 50, -operands[1].abs() * 50, operands[2]]
    for result, expected in zip(_gradients(low, grad), _exact_gradients(low, grad), strict=True):
        assert result.isfinite().all()
        _assert_close(result, expected, 3e-2)


@pytest.mark.parametrize(("name", "width"), [("float16", 32), ("bfloat16", 128), ("float32", 64)])
@pytest.mark.sampled(6)
def test_what_is_added_to_all_scores_changes_nothing(name: str, width: int, schedule: str) -> None:
    """Exponentials of it have no number in the dtype, and the last tiles have rows behind the last query and key."""
    dtype = getattr(tensor, name)
    operands = [_random(2, length, width, dtype=dtype, seed=seed) for seed, length in enumerate((40, 66, 66))]
    grad = _random(2, 40, width, dtype=dtype, seed=9)
    mask = tensor.full((40, 66), 100.0, device="cuda", dtype=dtype)
    exact = _exact_gradients(operands, grad)
    for result, expected in zip(_gradients(operands, grad, mask), exact, strict=True):
        assert result.isfinite().all()
        _assert_close(result, expected, 3e-2)


def test_the_gradient_of_a_mask_goes_over_blocks_of_scores(schedule: str) -> None:
    operands = [_random(2, 20, 16, seed=seed) for seed in range(3)]
    grad = _random(2, 20, 16, seed=9)
    mask = _random(20, 20, dtype=tensor.float32, seed=8).requires_grad_()
    names = _launched(lambda: _gradients(operands, grad, mask))
    assert not any("_backward_" in each for each in names)
    exact = mask.detach().cpu().double().requires_grad_()
    _exact_gradients(operands, grad, exact)
    _assert_close(mask.grad, exact.grad)


def test_addresses_and_strides_of_gradients(schedule: str, at_once: bool) -> None:
    """Of a gradient at an odd address, or in rows of odd strides, less is read at a time; elements apart are copied."""
    operands = [_random(1, 20, 16, seed=seed) for seed in range(3)]
    grad = _random(1, 20, 16, seed=9)
    expected = _gradients(operands, grad)
    others = {
        "odd address": tensor.empty(321, dtype=grad.dtype, device="cuda")[1:].view(1, 20, 16),
        "odd stride": tensor.empty(1, 20, 17, dtype=grad.dtype, device="cuda")[..., :16],
        "apart": tensor.empty(1, 16, 20, dtype=grad.dtype, device="cuda").transpose(1, 2),
    }
    for form, other in others.items():
        leaves = [x.detach().requires_grad_() for x in operands]
        result = scaled_dot_product_attention(*leaves)
        other.copy_(grad)
        names = _launched(lambda result=result, other=other: result.backward(other))
        assert len(names) == 2 - at_once + (form == "apart")
        for x, y in zip(leaves, expected, strict=True):
            _assert_close(x.grad, y, 1e-3)


def test_operands_saved_elsewhere(schedule: str) -> None:
    """Hooks bring back a result in another layout than it was saved in."""
    operands = [_random(2, 20, 3, 16, seed=seed).transpose(1, 2) for seed in range(3)]
    grad = _random(2, 3, 20, 16, seed=9)
    expected = _gradients(operands, grad)
    hooks = tensor.autograd.graph.saved_tensors_hooks(lambda x: x.cpu(), lambda x: x.contiguous().cuda())
    with hooks:
        results = _gradients(operands, grad)
    assert all(tensor.equal(x, y) for x, y in zip(results, expected, strict=True))


def test_no_memory_but_gradients_and_two_numbers_of_a_row() -> None:
    drv.simulator.install(check="off")
    operands = [_random(1, 2, 256, 64, seed=seed).requires_grad_() for seed in range(3)]
    result = scaled_dot_product_attention(*operands)
    grad = tensor.ones_like(result)
    tensor.cuda.reset_peak_memory_stats()
    before = tensor.cuda.memory_allocated()
    result.backward(grad)
    rows, each = 2 * 256, operands[0].nbytes
    assert tensor.cuda.max_memory_allocated() - before <= 3 * each + rows * 8


@pytest.mark.parity
@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_pytorch(half: str, causal: bool) -> None:
    import torch

    drv.simulator.install(check="off")
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal((2, 3, 70, 64)).astype(np.float32) for _ in range(4)]
    leaves = [torch.from_numpy(x).to(getattr(torch, half)).requires_grad_() for x in arrays[:3]]
    grad = torch.from_numpy(arrays[3]).to(getattr(torch, half))
    torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal).backward(grad)
    dtype = getattr(tensor, half)
    operands = [tensor.from_numpy(x).to(dtype).cuda() for x in arrays]
    results = _gradients(operands[:3], operands[3], is_causal=causal)
    for result, leaf in zip(results, leaves, strict=True):
        expected = leaf.grad.double().numpy()
        tolerance = 1e-2 if half == "float16" else 6e-2
        np.testing.assert_allclose(result.double().cpu().numpy(), expected, rtol=tolerance, atol=tolerance)

"""``flex_attention``: scores and masks that functions give, and blocks that are left out."""

from __future__ import annotations

import importlib
import math
import warnings
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from tests.pytorch import torch

flex = nn.attention.flex_attention

BATCH, HEADS, LENGTH, SIZE = 2, 3, 150, 8
#: Block sizes that divide the length or do not.
BLOCKS = 32
DOCUMENTS = [position // 60 for position in range(LENGTH)]


def _causal(m: Any) -> Any:
    return lambda b, h, q, k: q >= k


def _window(m: Any) -> Any:
    return lambda b, h, q, k: (q >= k) & (q - k < 40)


def _documents(m: Any) -> Any:
    numbers = m.tensor(DOCUMENTS)
    return lambda b, h, q, k: numbers[q] == numbers[k]


def _per_head(m: Any) -> Any:
    return lambda b, h, q, k: (q - k).abs() <= 20 * (h + b)


def _none_for_some(m: Any) -> Any:
    return lambda b, h, q, k: (q < 70) & (k > 35)


def _combined(m: Any) -> Any:
    module = flex if m is tensor else importlib.import_module("torch.nn.attention.flex_attention")
    return module.or_masks(module.and_masks(_causal(m), _documents(m)), lambda b, h, q, k: k < 3)


MASKS: dict[str, Any] = {
    "none": None,
    "causal": _causal,
    "window": _window,
    "documents": _documents,
    "per head": _per_head,
    "none for some": _none_for_some,
    "combined": _combined,
}


def _distance(m: Any) -> Any:
    return lambda score, b, h, q, k: score - 0.05 * (q - k).abs()


def _slopes(m: Any) -> Any:
    slopes = m.tensor([0.5, 0.25, 0.125])
    return lambda score, b, h, q, k: score + slopes[h] * (k - q)


def _capped(m: Any) -> Any:
    return lambda score, b, h, q, k: m.tanh(score / 5) * 5


def _where(m: Any) -> Any:
    return lambda score, b, h, q, k: m.where(q >= k, score, -float("inf"))


SCORES: dict[str, Any] = {
    "none": None,
    "distance": _distance,
    "slopes": _slopes,
    "capped": _capped,
    "where": _where,
}


def _mask(m: Any, name: str, device: str = "cpu", **options: Any) -> Any:
    if MASKS[name] is None:
        return None
    module = flex if m is tensor else importlib.import_module("torch.nn.attention.flex_attention")
    mod = MASKS[name](m)
    return module.create_block_mask(
        mod, BATCH, HEADS, LENGTH, LENGTH, device=device, BLOCK_SIZE=BLOCKS, **options
    )


def _operands(dtype: str = "float32") -> list[np.ndarray[Any, Any]]:
    random = np.random.default_rng(0)
    return [random.standard_normal((BATCH, HEADS, LENGTH, SIZE)).astype(dtype) for _ in range(3)]


def _plainly(operands: list[Any], mask: str, score: str, dtype: str = "float64") -> tuple[Any, Any]:
    """The formula on arrays, with every score in memory."""
    query, key, value = (x.astype(dtype) for x in operands)
    scores = query @ key.swapaxes(-1, -2) / math.sqrt(SIZE)
    b, h, q, k = np.indices(scores.shape, sparse=True)
    numbers = [tensor.from_numpy(x) for x in (b, h, q, k)]
    if SCORES[score] is not None:
        scores = SCORES[score](tensor)(tensor.from_numpy(scores), *numbers).numpy()
    if MASKS[mask] is not None:
        seen = MASKS[mask](tensor)(*numbers).numpy()
        scores = np.where(seen, scores, -np.inf)
    largest = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isinf(largest), 0, largest))
    total = weights.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = np.log(total)[..., 0] + np.where(np.isinf(largest), 0, largest)[..., 0]
    return weights / np.where(total == 0, 1, total) @ value, lse


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.sampled(4)
def test_results_are_those_of_the_formula(mask: str, score: str) -> None:
    operands = _operands()
    expected, lse = _plainly(operands, mask, score)
    score_mod = SCORES[score] and SCORES[score](tensor)
    tensors = [tensor.from_numpy(x) for x in operands]
    block_mask = _mask(tensor, mask)
    with warnings.catch_warnings():
        # vmap warns where it calls a function for each sample.
        warnings.simplefilter("error")
        result = flex.flex_attention(*tensors, score_mod=score_mod, block_mask=block_mask)
        again, aux = flex.flex_attention(
            *tensors, score_mod, block_mask, return_aux=flex.AuxRequest(lse=True, max_scores=True)
        )
    for each in (result, again):
        # Scores of some dozens, in float32.
        assert each.numpy() == pytest.approx(expected, abs=2e-5)
    assert aux.lse.numpy() == pytest.approx(lse, rel=1e-5, abs=1e-5)
    assert (aux.max_scores <= aux.lse).all()


@pytest.mark.parametrize(("mask", "score"), [("causal", "slopes"), ("documents", "none"), ("none", "capped")])
def test_devices_agree(mask: str, score: str, device: object) -> None:
    operands = [x[:1, :, :70] for x in _operands()]
    results = []
    for where in ("cpu", "cuda"):
        tensor.set_default_device(where)
        try:
            mod = SCORES[score] and SCORES[score](tensor)
            block_mask = None
            if MASKS[mask] is not None:
                block_mask = flex.create_block_mask(
                    MASKS[mask](tensor), None, None, 70, 70, device=where, BLOCK_SIZE=BLOCKS
                )
        finally:
            tensor.set_default_device("cpu")
        query, key, value = (tensor.from_numpy(x).to(where).requires_grad_() for x in operands)
        result = flex.flex_attention(query, key, value, mod, block_mask)
        result.square().sum().backward()
        results.append([x.cpu().detach().numpy() for x in (result, query.grad, key.grad, value.grad)])
    for on_cpu, on_gpu in zip(*results, strict=True):
        # Products are in TF32 on a GPU.
        assert on_gpu == pytest.approx(on_cpu, rel=5e-3, abs=1e-2)


@pytest.mark.parametrize("mask", ["causal", "none for some", "per head"])
def test_gradients_reach_operands_and_what_the_function_uses(mask: str) -> None:
    query, key, value = (tensor.from_numpy(x[:, :, :4, :2].copy()) for x in _operands("float64"))
    table = tensor.zeros(HEADS, dtype=tensor.float64)
    mod = MASKS[mask](tensor)
    block_mask = flex.create_block_mask(mod, BATCH, HEADS, 4, 4, device="cpu", BLOCK_SIZE=2)

    def attend(query: Any, key: Any, value: Any, table: Any) -> Any:
        return flex.flex_attention(
            query, key, value, lambda score, b, h, q, k: score * (1 + table[h]), block_mask
        )

    operands = [x.requires_grad_() for x in (query, key, value, table)]
    # In fast mode along two directions instead of each: every evaluation runs the function under vmap.
    assert tensor.autograd.gradcheck(attend, operands, fast_mode=mask != "causal")


def test_shared_heads() -> None:
    query, key, value = (tensor.from_numpy(x) for x in _operands())
    query = query.repeat(1, 2, 1, 1)
    mod = _slopes(tensor)
    result = flex.flex_attention(
        query, key, value, lambda s, b, h, q, k: mod(s, b, h % 3, q, k), enable_gqa=True
    )
    wide = [x.repeat_interleave(2, 1) for x in (key, value)]
    expected = flex.flex_attention(query, *wide, lambda s, b, h, q, k: mod(s, b, h % 3, q, k))
    assert tensor.equal(result, expected)


def test_one_batch_of_keys_serves_all_with_a_mask() -> None:
    query, key, value = (tensor.from_numpy(x) for x in _operands())
    mask = _mask(tensor, "causal")
    result = flex.flex_attention(query, key[:1], value[:1], block_mask=mask)
    expected = flex.flex_attention(query, key[:1].expand_as(key), value[:1].expand_as(value), block_mask=mask)
    assert tensor.equal(result, expected)


@pytest.mark.parametrize("dtype", [tensor.float16, tensor.bfloat16, tensor.float64])
def test_dtypes(dtype: Any) -> None:
    operands = [tensor.from_numpy(x).to(dtype) for x in _operands()]
    result, lse = flex.flex_attention(*operands, _distance(tensor), return_lse=True)
    assert result.dtype is dtype
    assert lse.dtype is (tensor.float64 if dtype is tensor.float64 else tensor.float32)
    expected, _ = _plainly([x.double().numpy() for x in operands], "none", "distance")
    assert result.double().numpy() == pytest.approx(expected, abs={tensor.float64: 1e-12}.get(dtype, 1e-2))


def test_blocks_that_are_not_listed_are_not_seen() -> None:
    counts = tensor.tensor([[[1, 2]]], dtype=tensor.int32)
    columns = tensor.tensor([[[[1, 0], [0, 1]]]], dtype=tensor.int32)
    mask = flex.BlockMask.from_kv_blocks(counts, columns, BLOCK_SIZE=2)
    assert mask.shape == (1, 1, 4, 4)
    value = tensor.arange(4.0).reshape(1, 1, 4, 1)
    zeros = tensor.zeros(1, 1, 4, 1)
    assert flex.flex_attention(zeros, zeros, value, block_mask=mask).flatten().tolist() == [
        2.5,
        2.5,
        1.5,
        1.5,
    ]


def test_masks_are_asked_for_some_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _mask(tensor, "per head")
    monkeypatch.setattr("nn.attention.block_mask._PIECE", 1)
    assert [
        tensor.equal(a, b)
        for a, b in zip(whole._tensors(), _mask(tensor, "per head")._tensors(), strict=True)
    ]


def test_slices_and_adjusted_masks() -> None:
    mask = _mask(tensor, "causal")
    assert mask[0].shape == (1, HEADS, LENGTH, LENGTH)
    assert mask[0, -1].kv_indices.shape == (1, 1, 5, 5)
    assert mask[:, 0:2, tensor.tensor([1])].kv_num_blocks.shape == (BATCH, 2, 1)
    x = tensor.zeros(1, HEADS, LENGTH, 2)
    with pytest.raises(RuntimeError, match="from a sliced BlockMask"):
        flex.flex_attention(x, x, x, block_mask=mask[0])
    smaller = mask._adjust(70, 40)
    assert smaller.shape == (BATCH, HEADS, 70, 40)
    assert smaller.to_dense()[0, 0].tolist() == [[1, 0], [1, 1], [1, 1]]
    moved = mask.to("cpu")
    assert moved.as_tuple(flatten=False)[0] == mask.seq_lengths


def test_what_is_refused() -> None:
    x = tensor.zeros(1, 2, 4, 3)
    mask = flex.create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 4, 4, device="cpu")
    cases: list[tuple[type[Exception], str, tuple[Any, ...], dict[str, Any]]] = [
        (NotImplementedError, "must be 4D tensors", (x[0], x[0], x[0]), {}),
        (TypeError, "must be a BlockMask, got int", (x, x, x), {"block_mask": 3}),
        (ValueError, "same embedding dimension but got E=3 and E=2", (x, x[..., :2], x), {}),
        (ValueError, "key and value to have the same", (x, x, x[:, :, :3]), {}),
        (ValueError, "Bq=2, and Bkv=1", (x.expand(2, 2, 4, 3), x, x), {}),
        (ValueError, "Try setting enable_gqa=True", (x, x[:, :1], x[:, :1]), {}),
        (ValueError, "multiple of kv heads", (x.repeat(1, 2, 1, 1)[:, :3], x, x), {"enable_gqa": True}),
        (ValueError, "for a larger length", (x[:, :, :2], x, x), {"block_mask": mask}),
        (ValueError, "for a smaller length", (x.repeat(1, 1, 2, 1), x, x), {"block_mask": mask}),
        (ValueError, "both return_lse and return_aux", (x, x, x), {"return_lse": True, "return_aux": flex.AuxRequest()}),
    ]  # fmt: skip
    for error, words, operands, options in cases:
        with pytest.raises(error, match=words):
            flex.flex_attention(*operands, **options)
    three = flex.create_block_mask(lambda b, h, q, k: q >= k, 3, None, 4, 4, device="cpu")
    with pytest.raises(ValueError, match="created for B=3 but got B=1"):
        flex.flex_attention(x, x, x, block_mask=three)
    with pytest.raises(RuntimeError, match="should be callable mask_mods"):
        flex.and_masks(3)
    with pytest.raises(ValueError, match="a function of 2 arguments"):
        flex.create_mask(lambda q, k: q, 1, 1, 2, 2, device="cpu")
    with pytest.raises(ValueError, match="requires a mask_mod function"):
        flex.create_block_mask(lambda s, b, h, q, k: s, 1, 1, 2, 2, device="cpu")
    with pytest.raises(ValueError, match="BLOCK_SIZE must be positive"):
        flex.create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 2, 2, device="cpu", BLOCK_SIZE=0)
    for make in (
        flex.BlockMask.from_kv_blocks,
        lambda a, b, c=None: flex.BlockMask((2, 2), a, b, c, *[None] * 5),
    ):
        with pytest.raises(ValueError, match="both provided or omitted"):
            make(mask.kv_num_blocks, mask.kv_indices, mask.kv_num_blocks)
        with pytest.raises(ValueError, match="at least 2 dimensions"):
            make(mask.kv_num_blocks, mask.kv_indices[0, 0, 0])


# PyTorch's


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = importlib.import_module("torch.nn.attention.flex_attention")
    # Its formula as Python, without the compiler.
    monkeypatch.setattr(module, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    return module


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.sampled(3)
def test_results_are_pytorchs(mask: str, score: str, theirs: Any) -> None:
    operands = _operands()
    outcomes = []
    for m, module in ((tensor, flex), (torch, theirs)):
        mod = SCORES[score] and SCORES[score](m)
        tensors = [m.from_numpy(x) for x in operands]
        outcomes.append(module.flex_attention(*tensors, mod, _mask(m, mask), scale=0.3, return_lse=True))
    for ours, expected in zip(*outcomes, strict=True):
        assert ours.numpy() == pytest.approx(expected.numpy(), rel=1e-5, abs=2e-6)


@pytest.mark.parity
@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("mask", [name for name in MASKS if name != "none"])
def test_masks_are_pytorchs(mask: str, apart: bool, theirs: Any) -> None:
    ours, expected = (_mask(m, mask, separate_full_blocks=apart) for m in (tensor, torch))
    for name in ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks", "q_indices",
                 "full_q_num_blocks", "full_q_indices"):  # fmt: skip
        a, b = getattr(ours, name), getattr(expected, name)
        assert (a is None and b is None) or a.tolist() == b.tolist(), name
        assert a is None or str(a.dtype).split(".")[1] == str(b.dtype).split(".")[1]
    assert (ours.shape, ours.numel(), ours.sparsity()) == (
        expected.shape,
        expected.numel(),
        pytest.approx(expected.sparsity()),
    )
    assert ours.to_dense().tolist() == expected.to_dense().tolist()
    assert str(ours) == str(expected)
    assert repr(ours) == repr(expected).replace("torch.Size", "tensor.Size")
    assert ours[0, 1].to_string(grid_size=(3, 2)) == expected[0, 1].to_string(grid_size=(3, 2))
    assert len(ours.as_tuple()) == len(expected.as_tuple())
    mine, other = (
        module.create_mask(MASKS[mask](m), BATCH, HEADS, 9, 11, device="cpu")
        for m, module in ((tensor, flex), (torch, theirs))
    )
    assert mine.tolist() == other.tolist()


@pytest.mark.parity
def test_masks_of_scores_are_pytorchs(theirs: Any) -> None:
    mine, other = (
        module.create_mask(_where(m), None, None, 4, 5, device="cpu")
        for m, module in ((tensor, flex), (torch, theirs))
    )
    assert mine.tolist() == other.tolist()
    assert mine.dtype is tensor.bool
    for call in (
        lambda m: m.zeros(1, 2, 4, 3)[0],
        lambda m: m.zeros(1, 2, 4, 2),
    ):
        for m, module in ((tensor, flex), (torch, theirs)):
            x = m.zeros(1, 2, 4, 3)
            with pytest.raises((NotImplementedError, ValueError), match="4D tensors|same embedding"):
                module.flex_attention(x, call(m), x)

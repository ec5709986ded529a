"""Attention of sequences of several lengths: each sequence alone gives the same, in one launch for all on a device."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import drv
import tensor
from nn.attention.varlen import AuxRequest, varlen_attn, varlen_attn_out
from tensor.core.modes.precision import settings
from tests.tensor.launched_kernels import launched

TOLERANCES = {"float16": 4e-3, "bfloat16": 2e-2, "tf32": 3e-3, "float32": 4e-6, "float64": 1e-12}
#: Where sequences of queries and of keys end.
LENGTHS = {
    "alike": ([0, 70, 71, 150], [0, 70, 71, 150]),
    "more keys": ([0, 3, 3, 140], [0, 100, 133, 300]),
    "fewer keys": ([0, 80, 150], [0, 20, 33]),
    "rows of none": ([5, 30, 60], [2, 40, 50]),
}


@pytest.fixture
def checked() -> Any:
    drv.simulator.install(check="full", schedule="random")
    yield
    assert not drv.simulator.findings()


def _operands(form: str, lengths: str, width: int, heads: tuple[int, int]) -> list[Any]:
    dtype = tensor.float32 if form == "tf32" else getattr(tensor, form)
    generator = tensor.Generator().manual_seed(width)
    ends, key_ends = LENGTHS[lengths]
    rows, keys = ends[-1] + 4, key_ends[-1] + 4
    shapes = (
        (rows, heads[0], width),
        (keys, heads[1], width),
        (keys, heads[1], width),
        (rows, heads[0], width),
    )
    return [tensor.randn(shape, generator=generator).to(dtype) for shape in shapes]


def _expected(operands: list[Any], lengths: str, window: tuple[int, int]) -> list[Any]:
    """The definition, in float64: result, logarithms and gradients."""
    query, key, value, grad = (x.double() for x in operands)
    leaves = [x.clone().requires_grad_() for x in (query, key, value)]
    query, key, value = leaves
    groups = query.shape[1] // key.shape[1]
    result = tensor.zeros(*query.shape[:2], value.shape[-1], dtype=tensor.float64)
    logarithms = tensor.zeros(query.shape[1], query.shape[0], dtype=tensor.float64)
    for (first, last), (first_key, last_key) in zip(
        *(pairwise(each) for each in LENGTHS[lengths]), strict=True
    ):
        q = query[first:last].transpose(0, 1)
        k, v = (x[first_key:last_key].transpose(0, 1).repeat_interleave(groups, 0) for x in (key, value))
        distance = np.arange(last_key - first_key) - np.arange(last - first)[:, None]
        distance = distance - (last_key - first_key) + (last - first)
        hidden = np.zeros(distance.shape, bool)
        if window[0] >= 0:
            hidden |= distance < -window[0]
        if window[1] >= 0:
            hidden |= distance > window[1]
        mask = tensor.from_numpy(np.where(hidden, -np.inf, 0.0))
        scores = q @ k.transpose(1, 2) / query.shape[-1] ** 0.5 + mask
        dead = (scores == -float("inf")).all(-1, keepdim=True)
        weights = scores.masked_fill(dead, 0.0).softmax(-1).masked_fill(dead, 0.0)
        result[first:last] = (weights @ v).transpose(0, 1)
        logarithms[:, first:last] = scores.detach().logsumexp(-1)
    result.backward(grad)
    return [result.detach(), logarithms, *(x.grad for x in leaves)]


def _results(operands: list[Any], lengths: str, window: tuple[int, int], device: str) -> list[Any]:
    leaves = [x.to(device).clone().requires_grad_() for x in operands[:3]]
    ends, key_ends = (tensor.tensor(each, dtype=tensor.int32, device=device) for each in LENGTHS[lengths])
    longest = [max(y - x for x, y in pairwise(each)) for each in LENGTHS[lengths]]
    grad = operands[3].to(device)
    result, logarithms = varlen_attn(
        *leaves, ends, key_ends, *longest, return_aux=AuxRequest(lse=True), window_size=window,
        enable_gqa=leaves[0].shape[1] != leaves[1].shape[1],
    )  # fmt: skip
    result.backward(grad)
    return [result.detach(), logarithms, *(x.grad for x in leaves)]


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (40, 0), (9, 30)])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize(("form", "width", "heads"), [
    ("bfloat16", 64, (2, 2)), ("float16", 20, (4, 2)), ("bfloat16", 128, (2, 1)), ("float32", 64, (2, 1)),
    ("tf32", 32, (2, 2)), ("bfloat16", 200, (1, 1)),
])  # fmt: skip
@pytest.mark.sampled(20)
def test_each_sequence_alone(
    form: str, width: int, heads: tuple[int, int], lengths: str, window: tuple[int, int], checked: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(settings, "matmul_tf32", form == "tf32")
    operands = _operands(form, lengths, width, heads)
    with launched() as names:
        results = _results(operands, lengths, window, "cuda")
    assert sum(each.startswith("attention_") for each in names) == (4 if width > 128 else 3)
    for result, expected in zip(results, _expected(operands, lengths, window), strict=True):
        exact = expected.numpy()
        largest = np.abs(exact[np.isfinite(exact)]).max()
        np.testing.assert_allclose(
            result.cpu().double().numpy(), exact, rtol=TOLERANCES[form], atol=TOLERANCES[form] * (1 + largest)
        )


@pytest.mark.parametrize("window", [(-1, -1), (9, 3)])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.sampled(4)
def test_other_dtypes_go_from_sequence_to_sequence(
    device_name: str, lengths: str, window: tuple[int, int]
) -> None:
    operands = _operands("float64", lengths, 6, (4, 2))
    results = _results(operands, lengths, window, device_name)
    for result, expected in zip(results, _expected(operands, lengths, window), strict=True):
        np.testing.assert_allclose(result.cpu().numpy(), expected.numpy(), rtol=1e-10, atol=1e-12)


def test_a_sequence_does_not_depend_on_others(checked: None) -> None:
    query, key, value, _ = (x.cuda() for x in _operands("bfloat16", "alike", 64, (2, 2)))
    every = tensor.tensor([0, 70, 71, 150], dtype=tensor.int32, device="cuda")
    alone = tensor.tensor([0, 79], dtype=tensor.int32, device="cuda")
    whole = varlen_attn(query, key, value, every, every, 79, 79, window_size=(-1, 0))
    last = [x[71:150] for x in (query, key, value)]
    assert tensor.equal(whole[71:150], varlen_attn(*last, alone, alone, 79, 79, window_size=(-1, 0)))
    out = tensor.empty_like(whole)
    assert varlen_attn_out(out, query, key, value, every, every, 79, 79, window_size=(-1, 0)) is out
    assert tensor.equal(out, whole)


def test_heads_of_one_projection_are_read_where_they_lie(checked: None) -> None:
    packed = tensor.randn(70, 3, 2, 32, device="cuda", dtype=tensor.float16)
    ends = tensor.tensor([0, 30, 70], dtype=tensor.int32, device="cuda")
    with launched() as names:
        result = varlen_attn(*packed.unbind(1), ends, ends, 40, 40)
    assert [each for each in names if each.startswith(("attention", "copy"))] == ["attention_of_32"]
    copies = [x.contiguous() for x in packed.unbind(1)]
    assert tensor.equal(result, varlen_attn(*copies, ends, ends, 40, 40))


def test_gradients_of_gradients() -> None:
    query, key, value, _ = (x[:8].requires_grad_() for x in _operands("float64", "alike", 3, (2, 1)))
    ends = tensor.tensor([0, 3, 8], dtype=tensor.int32)

    def function(*operands: Any) -> Any:
        return varlen_attn(*operands, ends, ends, 5, 5, enable_gqa=True, window_size=(-1, 0))

    assert tensor.autograd.gradcheck(function, (query, key, value), fast_mode=True)
    assert tensor.autograd.gradgradcheck(function, (query, key, value), fast_mode=True)


def test_autocast_leaves_operands_as_they_are(device_name: str) -> None:
    query, key, value, _ = (x.to(device_name) for x in _operands("float32", "alike", 16, (2, 2)))
    ends = tensor.tensor(LENGTHS["alike"][0], dtype=tensor.int32, device=device_name)
    arguments = query, key, value, ends, ends, 79, 79
    expected = varlen_attn(*arguments, return_aux=AuxRequest(lse=True))
    with tensor.autocast(device_name, dtype=tensor.bfloat16):
        results = varlen_attn(*arguments, return_aux=AuxRequest(lse=True))
    for result, x in zip(results, expected, strict=True):
        assert result.dtype is tensor.float32
        assert tensor.equal(result, x)


def test_rows_without_elements_weigh_alike(device_name: str) -> None:
    x = tensor.zeros(3, 1, 0, device=device_name)
    values = tensor.tensor([5.0, 1.0, 3.0], device=device_name).view(3, 1, 1)
    ends = tensor.tensor([0, 1, 3], dtype=tensor.int32, device=device_name)
    assert varlen_attn(x, x, values, ends, ends, 2, 2).flatten().tolist() == [5.0, 2.0, 2.0]


@pytest.mark.parametrize("ends", [[0, 3, 2], [0, 2, 5], [-1, 2, 4]])
def test_ends_that_are_not_in_the_rows(ends: list[int]) -> None:
    x = tensor.zeros(4, 2, 3)
    right, wrong = (tensor.tensor(each, dtype=tensor.int32) for each in ([0, 1, 4], ends))
    with pytest.raises(ValueError, match="cu_seq_q has to ascend"):
        varlen_attn(x, x, x, wrong, right, 4, 4)
    with pytest.raises(ValueError, match="cu_seq_k has to ascend"):
        varlen_attn(x, x, x, right, wrong, 4, 4)


def test_wrong_arguments() -> None:
    x = tensor.zeros(4, 2, 3)
    ends = tensor.tensor([0, 4], dtype=tensor.int32)
    with pytest.raises(ValueError, match="enable_gqa=True"):
        varlen_attn(x, x[:, :1], x[:, :1], ends, ends, 4, 4)
    with pytest.raises(ValueError, match="multiple of kv heads"):
        varlen_attn(x[:, :1], x, x, ends, ends, 4, 4, enable_gqa=True)
    with pytest.raises(ValueError, match="multiple of kv heads"):
        varlen_attn(x[:, :0], x[:, :0], x[:, :0], ends, ends, 4, 4)
    with pytest.raises(TypeError, match="int32"):
        varlen_attn(x, x, x, ends.long(), ends, 4, 4)
    with pytest.raises(ValueError, match="one shape"):
        varlen_attn(x, x, x, ends, tensor.tensor([0, 1, 4], dtype=tensor.int32), 4, 4)
    with pytest.raises(ValueError, match="length 2"):
        varlen_attn(x, x, x, ends, ends, 4, 4, window_size=(1,))
    with pytest.raises(RuntimeError, match="dtype"):
        varlen_attn(x, x.double(), x, ends, ends, 4, 4)
    with pytest.raises(NotImplementedError, match="seqused_k"):
        varlen_attn(x, x, x, ends, ends, 4, 4, seqused_k=ends[1:])

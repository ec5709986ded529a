"""Causal masks that attention knows by their kind."""

from __future__ import annotations

import importlib
import pickle

import pytest

import nn
import tensor
from tests.pytorch import torch

bias = nn.attention.bias
attention = nn.functional.scaled_dot_product_attention


@pytest.mark.parametrize("name", ["causal_upper_left", "causal_lower_right"])
@pytest.mark.parametrize("sizes", [(3, 5), (4, 4), (5, 3)])
@pytest.mark.filterwarnings("ignore:Lower right causal bias")
def test_attention_takes_them_as_masks(name: str, sizes: tuple[int, int], device_name: str) -> None:
    queries, keys = sizes
    mask = getattr(bias, name)(*sizes)
    query = tensor.randn(2, 1, queries, 4, device=device_name)
    key, value = (tensor.randn(2, 1, keys, 4, device=device_name) for _ in range(2))
    plain = tensor.tensor(mask.tolist(), device=device_name)
    tensor.testing.assert_close(
        attention(query, key, value, attn_mask=mask), attention(query, key, value, attn_mask=plain)
    )


def test_they_are_tensors() -> None:
    mask = bias.causal_lower_right(2, 3)
    assert isinstance(mask, tensor.Tensor)
    assert (mask.variant, mask.seq_len_q, mask.seq_len_kv) == (bias.CausalVariant.LOWER_RIGHT, 2, 3)
    assert mask.tolist() == [[True, True, False], [True, True, True]]
    again = pickle.loads(pickle.dumps(mask))
    assert (again.variant, again.tolist()) == (mask.variant, mask.tolist())


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="only supports 2D tensors"):
        bias.causal_upper_left(2, 3, 4)
    with pytest.raises(TypeError, match="variant must be a CausalVariant, got int"):
        bias.CausalBias(3, 2, 3)  # type: ignore[arg-type]
    x = tensor.ones(1, 2, 4)
    with pytest.raises(ValueError, match="should not be used with causal=True"):
        attention(x, x, x, attn_mask=bias.causal_upper_left(2, 2), is_causal=True)
    with pytest.warns(UserWarning, match="Lower right causal bias"):
        bias.causal_lower_right(5, 3)


@pytest.mark.parity
@pytest.mark.parametrize("name", ["causal_upper_left", "causal_lower_right"])
@pytest.mark.parametrize("sizes", [(3, 5), (4, 4), (5, 3)])
@pytest.mark.filterwarnings("ignore:Lower right causal bias")
def test_results_are_pytorchs(name: str, sizes: tuple[int, int]) -> None:
    theirs = importlib.import_module("torch.nn.attention.bias")
    operands = [tensor.randn(1, 2, sizes[number], 8) for number in (0, 1, 1)]
    ours = attention(*operands, attn_mask=getattr(bias, name)(*sizes))
    expected = torch.nn.functional.scaled_dot_product_attention(
        *[torch.from_numpy(x.numpy()) for x in operands], attn_mask=getattr(theirs, name)(*sizes)
    )
    assert ours.numpy() == pytest.approx(expected.numpy(), abs=1e-6)
    assert getattr(bias, name)(*sizes).tolist() == getattr(theirs, name)(*sizes)._materialize().tolist()

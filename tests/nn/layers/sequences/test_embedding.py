"""Embedding layers and dropout layers against PyTorch's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from tests.nn.parity import assert_like_pytorch, copy_weights
from tests.pytorch import torch
from tests.tensor.comparison import array_of

_INDICES = np.array([[0, 3, 1], [1, 2, 5]])
#: Class, options, operands.
TABLES: list[tuple[str, dict[str, Any], tuple[Any, ...]]] = [
    ("Embedding", {}, (_INDICES,)),
    ("Embedding", {"padding_idx": -3, "scale_grad_by_freq": True}, (_INDICES,)),
    ("Embedding", {"max_norm": 1.0, "norm_type": 1.0}, (_INDICES,)),
    ("EmbeddingBag", {}, (_INDICES,)),
    ("EmbeddingBag", {"mode": "max", "padding_idx": 1}, (_INDICES.reshape(-1), np.array([0, 4]))),
    (
        "EmbeddingBag",
        {"mode": "sum", "include_last_offset": True},
        (_INDICES.reshape(-1), np.array([0, 4, 6])),
    ),
]


@pytest.mark.parity
@pytest.mark.parametrize("number", range(len(TABLES)))
@pytest.mark.sampled(3)
def test_tables_like_pytorch(number: int, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    name, options, operands = TABLES[number]
    theirs, mine = getattr(torch.nn, name)(6, 4, **options), getattr(nn, name)(6, 4, **options)
    assert repr(mine) == repr(theirs)
    copy_weights(mine, theirs)
    mine.to(device_name)
    result = mine(*[tensor.from_numpy(each).to(device_name) for each in operands])
    expected = theirs(*[torch.from_numpy(each) for each in operands])
    np.testing.assert_allclose(array_of(result), array_of(expected), rtol=1e-5, atol=1e-6)
    result.square().sum().backward()
    expected.square().sum().backward()
    np.testing.assert_allclose(array_of(mine.weight.grad), array_of(theirs.weight.grad), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(array_of(mine.weight), array_of(theirs.weight), rtol=1e-5)


def test_rows_of_padding_are_zero_at_first() -> None:
    layer = nn.Embedding(5, 3, padding_idx=2)
    assert not layer.weight[2].detach().numpy().any()
    assert layer.weight[1].detach().numpy().any()


@pytest.mark.parity
def test_tables_that_are_given() -> None:
    def program(library: Any, layers: Any) -> Any:
        table = library.tensor([[1.0, 2.0], [3.0, 4.0]])
        layer = layers.Embedding.from_pretrained(table)
        bags = layers.EmbeddingBag.from_pretrained(table, freeze=False, mode="sum")
        indices = library.tensor([[1, 0]])
        return [layer(indices), layer.weight.requires_grad, bags(indices), bags.weight.requires_grad]

    assert_like_pytorch(program)


@pytest.mark.parity
def test_what_tables_refuse() -> None:
    def program(library: Any, layers: Any) -> Any:
        results = []
        for call in (
            lambda: layers.Embedding(3, 2, padding_idx=3),
            lambda: layers.Embedding(3, 2)(library.tensor([3])),
            lambda: layers.Embedding(3, 2, _weight=library.zeros(2, 2)),
            lambda: layers.EmbeddingBag(3, 2)(library.tensor([1])),
            lambda: layers.EmbeddingBag(3, 2)(library.tensor([[1]]), library.tensor([0])),
            lambda: layers.EmbeddingBag(3, 2, mode="median")(library.tensor([[1]])),
        ):
            try:
                call()
                results.append("none")
            except Exception as error:
                results.append(type(error).__name__)
        return results

    assert_like_pytorch(program)


@pytest.mark.parity
def test_sparse_gradients(device_name: str) -> None:
    """Element for element, in the order of the indices, as PyTorch has them before they are coalesced."""
    table = np.random.default_rng(0).standard_normal((5, 2)).astype(np.float32)
    for layer, options, indices in (
        ("Embedding", {}, [[1, 3], [1, 4]]),
        ("Embedding", {"padding_idx": 3}, [[1, 3], [1, 4]]),
        ("EmbeddingBag", {"mode": "sum"}, [[1, 3], [1, 4]]),
        ("EmbeddingBag", {"mode": "mean", "padding_idx": 1}, [[1, 3], [1, 4]]),
    ):
        gradients = []
        for library, layers in ((tensor, nn), (torch, torch.nn)):
            on = {"device": device_name} if library is tensor else {}
            weight = library.tensor(table, **on)
            module = getattr(layers, layer)(5, 2, sparse=True, _weight=weight, **options)
            result = module(library.tensor(indices, **on))
            (result * result).sum().backward()
            gradients.append(module.weight.grad)
        mine, theirs = gradients
        assert mine.is_sparse
        assert mine.is_coalesced() == theirs.is_coalesced()
        assert (mine.sparse_dim(), mine.dense_dim()) == (1, 1)
        assert mine._indices().tolist() == theirs._indices().tolist()
        np.testing.assert_allclose(mine._values().cpu().numpy(), theirs._values().numpy(), rtol=1e-6)


def test_a_sparse_gradient_has_the_rows_that_were_looked_up(device_name: str) -> None:
    indices = tensor.tensor([[1, 3], [1, 4]], device=device_name)
    for layer in (nn.Embedding, nn.EmbeddingBag):
        gradients = []
        for sparse in (True, False):
            tensor.manual_seed(0)
            module = layer(6, 3, sparse=sparse, device=device_name)
            for part in (indices, indices[:1]):
                module(part).pow(2).sum().backward()
            gradients.append(module.weight.grad)
        assert gradients[0].is_sparse
        assert not gradients[1].is_sparse
        assert gradients[0].coalesce().indices().tolist() == [[1, 3, 4]]
        assert tensor.allclose(gradients[0].to_dense(), gradients[1])


def test_a_sparse_gradient_beside_a_dense_one_is_added_to_it(device_name: str) -> None:
    weight = tensor.ones(3, 2, device=device_name, requires_grad=True)
    indices = tensor.tensor([1, 1], device=device_name)
    for first in (True, False):
        weight.grad = None
        losses = [nn.functional.embedding(indices, weight, sparse=True).sum(), (3 * weight).sum()]
        (losses[0] + losses[1]).backward()
        assert weight.grad.tolist() == [[3, 3], [5, 5], [3, 3]]
        weight.grad = None
        for loss in losses if first else losses[::-1]:
            loss = (
                nn.functional.embedding(indices, weight, sparse=True).sum()
                if loss is losses[0]
                else (3 * weight).sum()
            )
            loss.backward()
        assert weight.grad.tolist() == [[3, 3], [5, 5], [3, 3]]


def test_sparse_gradients_are_refused_where_pytorch_has_none() -> None:
    weight, indices = tensor.ones(3, 2, requires_grad=True), tensor.tensor([[1, 1]])
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse gradients"):
        nn.functional.embedding(indices, weight, scale_grad_by_freq=True, sparse=True).sum().backward()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.Embedding(3, 2, sparse=True, _weight=weight.detach(), _freeze=True)(indices)
    assert repr(nn.Embedding(3, 2, sparse=True)) == "Embedding(3, 2, sparse=True)"
    for options, message in (({"sparse": True}, "sparse weights"), ({"scale_grad_by_freq": True}, "scaling")):
        with pytest.raises(ValueError, match=f"max mode does not support {message}"):
            nn.functional.embedding_bag(indices, weight, mode="max", **options)


_DROPOUTS = {
    "Dropout": (4, 5), "Dropout1d": (4, 5, 3), "Dropout2d": (4, 5, 3, 2), "Dropout3d": (4, 5, 2, 2, 2),
    "AlphaDropout": (4, 5), "FeatureAlphaDropout": (4, 5, 3),
}  # fmt: skip


@pytest.mark.parity
@pytest.mark.parametrize("name", sorted(_DROPOUTS))
def test_dropout_layers(name: str, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    layer = getattr(nn, name)(0.4, inplace=True)
    assert repr(layer) == repr(getattr(torch.nn, name)(0.4, inplace=True))
    x = tensor.ones(_DROPOUTS[name], device=device_name)
    kept = x.clone()
    assert layer.eval()(x) is x
    assert (x == kept).all()
    layer.train()
    assert layer(x) is x
    changed = (x.cpu().numpy() != kept.cpu().numpy()).reshape(20, -1)
    if name not in ("Dropout", "AlphaDropout"):
        values = x.cpu().numpy().reshape(20, -1)
        assert (values == values[:, :1]).all()
    assert changed.any()
    with pytest.raises(ValueError, match="between 0 and 1"):
        getattr(nn, name)(1.5)


@pytest.mark.parity
def test_dropout_of_channels_without_batches() -> None:
    def program(library: Any, layers: Any) -> Any:
        functional = layers.functional
        x = library.ones(4, 3)
        result = [functional.dropout1d(x, 1.0).tolist(), functional.dropout1d(x, 0.0).tolist()]
        for rank, function in (
            (1, functional.dropout1d),
            (3, functional.dropout2d),
            (6, functional.dropout3d),
        ):
            try:
                result.append(list(function(library.ones([2] * rank), 0.5).shape))
            except Exception as error:
                result.append(type(error).__name__)
        return result

    assert_like_pytorch(program)
    tensor.manual_seed(0)
    y = nn.functional.dropout3d(tensor.ones(30, 2, 2, 2), 0.5).numpy().reshape(30, 8)
    assert (y == y[:, :1]).all()

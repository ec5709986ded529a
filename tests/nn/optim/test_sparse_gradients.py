"""Optimizers on sparse gradients: those of PyTorch that take them give what it gives, and the others refuse."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from tests.pytorch import torch

_BATCHES = [[[1, 2, 1], [4, 1, 0]], [[3, 3, 3], [1, 0, 2]], [[2, 5, 1], [4, 4, 0]]]
_TABLE = np.random.default_rng(0).standard_normal((7, 3)).astype(np.float32)
_TAKING: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.5, "dampening": 0.3}),
    ("Adagrad", {"lr": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.2, "initial_accumulator_value": 0.5, "eps": 0.1, "maximize": True}),
    ("SparseAdam", {"lr": 0.1}),
    ("SparseAdam", {"lr": 0.1, "betas": (0.5, 0.7), "eps": 0.01, "maximize": True}),
]
_REFUSING = ("Adam", "AdamW", "RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop", "Adafactor")


def _trained(library: Any, layers: Any, optim: Any, device: str, name: str, options: dict[str, Any]) -> Any:
    table = layers.Embedding(7, 3, sparse=True, padding_idx=5, _weight=library.tensor(_TABLE, device=device))
    optimizer = getattr(optim, name)(table.parameters(), **options)
    for batch in _BATCHES:
        optimizer.zero_grad()
        out = table(library.tensor(batch, device=device))
        (out * out).sum().backward()
        optimizer.step()
    return table.weight, optimizer.state[table.weight]


def _elements(x: Any) -> Any:
    if not hasattr(x, "detach"):
        return x
    x = x.detach()
    return (x.to_dense() if x.is_sparse else x).cpu().numpy()


@pytest.mark.parity
@pytest.mark.parametrize(("name", "options"), _TAKING, ids=str)
@pytest.mark.sampled(3)
def test_steps_like_pytorchs(name: str, options: dict[str, Any], device_name: str) -> None:
    weight, state = _trained(tensor, nn, nn.optim, device_name, name, options)
    expected, expected_state = _trained(torch, torch.nn, torch.optim, "cpu", name, options)
    np.testing.assert_allclose(_elements(weight), _elements(expected), rtol=1e-5, atol=1e-6)
    assert list(state) == list(expected_state)
    for key, value in expected_state.items():
        np.testing.assert_allclose(_elements(state[key]), _elements(value), rtol=1e-5, atol=1e-6)


@pytest.mark.parity
@pytest.mark.parametrize("maximize", [False, True])
def test_the_function_form_is_pytorchs(maximize: bool, device_name: str) -> None:
    results = []
    for library, function, device in (
        (tensor, nn.optim.sparse_adam.sparse_adam, device_name),
        (torch, importlib.import_module("torch.optim._functional").sparse_adam, "cpu"),
    ):
        indices, values = [[1, 4, 1]], _TABLE[:3]
        grad = library.sparse_coo_tensor(indices, library.tensor(values), (7, 3), device=device)
        states = [library.tensor(_TABLE, device=device)]
        states += [library.full((7, 3), each, device=device) for each in (0.1, 0.2)]
        parameter, first, second = states
        empty = library.zeros(7, 3, device=device).to_sparse()
        options = {"eps": 1e-3, "beta1": 0.8, "beta2": 0.9, "lr": 0.1, "maximize": maximize}
        for each in (grad, empty):
            function([parameter], [each], [first], [second], [3], **options)
        results.append([_elements(each) for each in states])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "options"), [each for each in _TAKING if each[0] != "SparseAdam"], ids=str)
@pytest.mark.sampled(4)
def test_steps_like_those_of_dense_gradients(name: str, options: dict[str, Any], device_name: str) -> None:
    weight, _ = _trained(tensor, nn, nn.optim, device_name, name, options)
    dense = nn.Embedding(7, 3, padding_idx=5, _weight=tensor.tensor(_TABLE, device=device_name))
    optimizer = getattr(nn.optim, name)(dense.parameters(), **options)
    for batch in _BATCHES:
        optimizer.zero_grad()
        dense(tensor.tensor(batch, device=device_name)).pow(2).sum().backward()
        optimizer.step()
    np.testing.assert_allclose(_elements(weight), _elements(dense.weight), rtol=1e-5, atol=1e-6)


def test_sparse_adam_moves_the_rows_of_the_gradient_alone(device_name: str) -> None:
    table = nn.Embedding(5, 2, sparse=True, device=device_name)
    before = table.weight.detach().cpu().numpy().copy()
    optimizer = nn.optim.SparseAdam(table.parameters(), lr=0.1, eps=1e-3)
    indices = tensor.tensor([1, 3, 1], device=device_name)
    factors = tensor.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], device=device_name)
    (table(indices) * factors).sum().backward()
    optimizer.step()
    gradient = np.zeros((5, 2), np.float32)
    np.add.at(gradient, [1, 3, 1], factors.cpu().numpy())
    # Of the first step the moments are (1 - beta) * g and (1 - beta) * g ** 2, before they are corrected.
    first, second = 0.1 * gradient, 0.001 * gradient**2
    step = 0.1 * np.sqrt(0.001) / 0.1 * first / (np.sqrt(second) + 1e-3)
    np.testing.assert_allclose(table.weight.detach().cpu().numpy(), before - step, rtol=1e-5)
    state = optimizer.state[table.weight]
    assert state["step"] == 1
    np.testing.assert_allclose(state["exp_avg"].cpu().numpy(), first, rtol=1e-5)
    assert (state["exp_avg"][[0, 2, 4]] == 0).all().item()
    copied = nn.optim.SparseAdam(table.parameters())
    copied.load_state_dict(optimizer.state_dict())
    assert copied.state[table.weight]["step"] == 1


@pytest.mark.parametrize("name", _REFUSING)
def test_others_refuse_before_anything_is_changed(name: str) -> None:
    table, dense = nn.Embedding(5, 2, sparse=True), nn.Linear(2, 1)
    dense(table(tensor.tensor([1, 2]))).sum().backward()
    parameters = [*dense.parameters(), *table.parameters()]
    before = [each.detach().clone() for each in parameters]
    optimizer = getattr(nn.optim, name)(parameters)
    with pytest.raises(RuntimeError, match="does not support sparse gradients"):
        optimizer.step()
    assert all(tensor.equal(a, b) for a, b in zip(before, parameters, strict=True))
    assert not any("step" in state and float(state["step"]) for state in optimizer.state.values())


def test_weight_decay_and_dense_gradients_are_refused() -> None:
    table = nn.Embedding(5, 2, sparse=True)
    table(tensor.tensor([1, 2])).sum().backward()
    for optimizer in (nn.optim.SGD, nn.optim.Adagrad):
        with pytest.raises(RuntimeError, match="not compatible with sparse gradients"):
            optimizer(table.parameters(), weight_decay=0.1).step()
    dense = nn.Linear(2, 1)
    dense(tensor.ones(1, 2)).sum().backward()
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients"):
        nn.optim.SparseAdam(dense.parameters()).step()
    with pytest.raises(ValueError, match=r"Sparse params at indices \[\[0, 1\]\]"):
        nn.optim.SparseAdam([tensor.ones(2), tensor.eye(2).to_sparse().requires_grad_()])
    for options in ({"lr": 0.0}, {"eps": 0.0}, {"betas": (1.0, 0.9)}):
        with pytest.raises(ValueError, match="Invalid"):
            nn.optim.SparseAdam(table.parameters(), **options)


def test_lbfgs_takes_them_as_dense_ones() -> None:
    results = []
    for sparse in (True, False):
        table = nn.Embedding(5, 2, sparse=sparse, _weight=tensor.ones(5, 2))
        optimizer = nn.optim.LBFGS(table.parameters(), lr=0.1)

        def closure(table: Any = table, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = table(tensor.tensor([1, 2])).pow(2).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        results.append(table.weight.detach())
    assert tensor.equal(*results)


def test_gradients_are_reset_and_clipping_refuses(device_name: str) -> None:
    table = nn.Embedding(5, 2, sparse=True, device=device_name)
    optimizer = nn.optim.SGD(table.parameters(), lr=0.1)
    table(tensor.tensor([1, 1], device=device_name)).sum().backward()
    for clip in (nn.utils.clip_grad_norm_, nn.utils.clip_grad_value_):
        with pytest.raises(NotImplementedError, match="not implemented for sparse gradients"):
            clip(table.parameters(), 0.1)
    assert table.weight.grad.to_dense().sum().item() == 4
    optimizer.zero_grad(set_to_none=False)
    assert table.weight.grad._nnz() == 0
    assert table.weight.grad.shape == (5, 2)


def test_a_scaler_divides_them(device_name: str) -> None:
    table = nn.Embedding(5, 2, sparse=True, device=device_name)
    optimizer = nn.optim.SGD(table.parameters(), lr=1.0)
    before = table.weight.detach().clone()
    scaler = tensor.amp.GradScaler(device_name, init_scale=8.0)
    scaler.scale(table(tensor.tensor([1, 1], device=device_name)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert (before - table.weight.detach()).round().tolist() == [[0, 0], [2, 2], [0, 0], [0, 0], [0, 0]]

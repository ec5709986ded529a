"""Random numbers in recorded code: their inputs get zeros as gradients."""

from __future__ import annotations

import pytest

import drv
import tensor
from tensor import no_grad

FILLS = [
    ("uniform_", (), "UniformBackward0"),
    ("normal_", (), "NormalBackward0"),
    ("log_normal_", (), "LogNormalBackward0"),
    ("exponential_", (), "ExponentialBackward0"),
    ("cauchy_", (), "CauchyBackward0"),
    ("geometric_", (0.5,), "GeometricBackward0"),
    ("random_", (), "RandomBackward2"),
    ("random_", (3,), "RandomBackward1"),
    ("random_", (3, 9), "RandomBackward0"),
    ("bernoulli_", (), "BernoulliBackward2"),
    ("bernoulli_", (tensor.ones(3),), "BernoulliBackward1"),
]


@pytest.mark.parametrize(("name", "arguments", "node"), FILLS, ids=lambda value: str(value)[:20])
def test_fills(name: str, arguments: tuple, node: str) -> None:
    leaf = tensor.ones(3, requires_grad=True)
    for target in (leaf, leaf[:2]):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            getattr(target, name)(*arguments)
    assert leaf.tolist() == [1, 1, 1]
    with no_grad():
        getattr(leaf, name)(*arguments)
    assert leaf.is_leaf
    written = leaf.clone()
    getattr(written, name)(*arguments)
    assert written.grad_fn.name() == node
    written.backward(tensor.ones(3))
    assert leaf.grad.tolist() == [0, 0, 0]


@pytest.mark.parity
@pytest.mark.parametrize(("name", "arguments", "node"), FILLS, ids=lambda value: str(value)[:20])
def test_names_are_pytorchs(name: str, arguments: tuple, node: str) -> None:
    torch = pytest.importorskip("torch")
    argument = [torch.ones(3) if isinstance(each, tensor.Tensor) else each for each in arguments]
    x = torch.ones(3, requires_grad=True).clone()
    assert getattr(x, name)(*argument).grad_fn.name() == node


def test_a_part_of_a_tensor() -> None:
    leaf = tensor.ones(4, requires_grad=True)
    whole = leaf.clone()
    whole[1:3].normal_()
    whole.backward(tensor.ones(4))
    assert leaf.grad.tolist() == [1, 0, 0, 1]


def test_complex_tensors() -> None:
    leaf = tensor.ones(3, dtype=tensor.complex64, requires_grad=True)
    written = leaf.clone()
    assert written.normal_().grad_fn.name() == "NormalBackward0"
    written.backward(tensor.ones(3, dtype=tensor.complex64))
    assert leaf.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_parameters(device: drv.Device, where: str) -> None:
    mean = tensor.ones(3, device=where, requires_grad=True)
    std = tensor.ones(2, 3, device=where, requires_grad=True)
    drawn = [
        (tensor.normal(mean, 1.0), "NormalBackward1", (mean,)),
        (tensor.normal(1.0, std), "NormalBackward2", (std,)),
        (tensor.normal(mean, std), "NormalBackward3", (mean, std)),
        (tensor.bernoulli(mean), "BernoulliBackward0", (mean,)),
        (tensor.zeros(2, 3, device=where).bernoulli_(std), "BernoulliBackward1", (std,)),
    ]
    for result, node, inputs in drawn:
        assert result.requires_grad
        assert result.grad_fn.name() == node
        result.backward(tensor.ones(result.shape, device=where))
        for each in inputs:
            assert each.grad.shape == each.shape
            assert not each.grad.cpu().numpy().any()
            each.grad = None
    with no_grad():
        assert not tensor.normal(mean, std).requires_grad
    assert not tensor.rand_like(mean).requires_grad
    assert not tensor.multinomial(mean, 1).requires_grad

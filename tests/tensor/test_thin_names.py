"""Names at the top that are others' names, and small functions of old programs."""

from __future__ import annotations

import pytest

import tensor
from tests.pytorch import torch


def test_aliases_are_the_same_objects() -> None:
    assert tensor.OutOfMemoryError is tensor.cuda.OutOfMemoryError
    assert tensor.Stream is tensor.cuda.Stream
    assert tensor.Event is tensor.cuda.Event
    assert tensor.GradScaler is tensor.amp.GradScaler


def test_default_generator_is_the_one_that_manual_seed_seeds() -> None:
    assert tensor.manual_seed(3) is tensor.default_generator
    x = tensor.rand(3)
    tensor.default_generator.manual_seed(3)
    assert tensor.equal(tensor.rand(3), x)


def test_anomaly_mode_is_seen_at_the_top() -> None:
    assert not tensor.is_anomaly_enabled()
    with tensor.autograd.detect_anomaly(check_nan=False):
        assert tensor.is_anomaly_enabled()
        assert not tensor.is_anomaly_check_nan_enabled()


def test_assert() -> None:
    tensor._assert(True, "no")
    tensor._assert(tensor.tensor(1), "no")
    with pytest.raises(AssertionError, match="the message"):
        tensor._assert(tensor.tensor(False), "the message")
    with pytest.raises(RuntimeError, match="more than one value"):
        tensor._assert(tensor.zeros(2), "no")


def test_variable_shares_memory_and_starts_a_graph(device_name: str) -> None:
    x = tensor.ones(2, requires_grad=True, device=device_name) * 2
    v = tensor.autograd.Variable(x, requires_grad=True)
    assert v.is_leaf
    assert v.data_ptr() == x.data_ptr()
    (v * 3).sum().backward()
    assert v.grad.tolist() == [3, 3]
    assert not tensor.autograd.Variable(x).requires_grad


def test_variable_is_the_type_of_tensors() -> None:
    assert isinstance(tensor.ones(1), tensor.autograd.Variable)
    assert not isinstance([1], tensor.autograd.Variable)
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got list"):
        tensor.autograd.Variable([1, 2])
    with pytest.raises(RuntimeError, match="can require gradients"):
        tensor.autograd.Variable(tensor.ones(2, dtype=tensor.int64), requires_grad=True)


@pytest.mark.parity
def test_variable_refuses_as_pytorch_does() -> None:
    for library in (tensor, torch):
        with pytest.raises(TypeError, match="Variable data has to be a tensor, but got list"):
            library.autograd.Variable([1, 2])
        with pytest.raises(RuntimeError, match="can require gradients"):
            library.autograd.Variable(library.ones(2, dtype=library.int64), requires_grad=True)
        y = library.ones(2, requires_grad=True) * 2
        v = library.autograd.Variable(y)
        assert (v.requires_grad, v.grad_fn, v.data_ptr() == y.data_ptr()) == (False, None, True)

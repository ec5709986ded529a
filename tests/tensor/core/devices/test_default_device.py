"""Where new tensors go that say nothing of their device, and the typed classes of old scripts."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

import drv
import tensor
from tests.tensor.expressions import assert_expression, value


@pytest.fixture(autouse=True)
def two_simulated_devices() -> Iterator[None]:
    drv.simulator.install(devices=2, check="race")
    yield
    tensor.set_default_device(None)
    tensor.set_default_dtype(tensor.float32)


FOLLOWING = [
    "m.zeros(2)",
    "m.ones(2)",
    "m.empty(2)",
    "m.full((2,), 1)",
    "m.eye(2)",
    "m.arange(3)",
    "m.linspace(0, 1, 3)",
    "m.linspace(0, 1j, 3)",
    "m.logspace(0, 1, 3)",
    "m.empty_strided((2,), (1,))",
    "m.tril_indices(2, 2)",
    "m.tensor([1, 2])",
    "m.tensor(1.5)",
    "m.as_tensor([1, 2])",
    "m.as_tensor(np.arange(3))",
    "m.asarray([1])",
    "m.scalar_tensor(3)",
    "m.rand(2)",
    "m.randn(2)",
    "m.randint(3, (2,))",
    "m.randperm(3)",
    "m.normal(0.0, 1.0, (2,))",
]
STAYING = [
    "m.zeros_like(x)",
    "x.new_zeros(2)",
    "x.new_tensor([1])",
    "m.from_numpy(np.arange(3))",
    "m.zeros(2, device='cpu')",
    "m.tensor([1], device='cpu')",
    "x + 1",
    "x.clone()",
    "x.to(m.float64)",
    "m.cat([x, x])",
]


@pytest.mark.parametrize("text", FOLLOWING)
def test_new_tensors_go_to_the_default_device(text: str) -> None:
    assert value(text, tensor).device.type == "cpu"
    tensor.set_default_device("cuda:1")
    assert value(text, tensor).get_device() == 1
    with tensor.device("cpu"):
        assert value(text, tensor).device.type == "cpu"
        with tensor.device("cuda"):
            assert value(text, tensor).get_device() == 0
            with tensor.cuda.device(1):
                assert value(text, tensor).get_device() == 1
        assert value(text, tensor).device.type == "cpu"
    assert value(text, tensor).get_device() == 1
    tensor.set_default_device(None)
    assert value(text, tensor).device.type == "cpu"


@pytest.mark.parametrize("text", STAYING)
def test_what_has_a_device_stays_there(text: str) -> None:
    x = tensor.ones(3)
    with tensor.device("cuda:1"):
        assert value(text, tensor, x=x).device.type == "cpu"


def test_the_default_device_can_be_asked_for() -> None:
    assert tensor.get_default_device() is tensor.device("cpu")
    tensor.set_default_device(1)
    assert tensor.get_default_device() is tensor.device("cuda:1")
    tensor.set_default_device("cuda")
    assert tensor.get_default_device() is tensor.device("cuda:0")
    tensor.set_default_device(tensor.device("cpu"))
    assert tensor.get_default_device() is tensor.device("cpu")
    with pytest.raises(RuntimeError, match="gpu"):
        tensor.set_default_device("gpu")


def test_exceptions_restore_the_default_device() -> None:
    with pytest.raises(ValueError, match="mine"), tensor.device("cuda") as entered:
        assert entered is tensor.device("cuda")
        raise ValueError("mine")
    assert tensor.zeros(1).device.type == "cpu"


def test_threads_have_default_devices_of_their_own() -> None:
    result: list[str] = []
    with tensor.device("cuda"):
        thread = threading.Thread(target=lambda: result.append(tensor.zeros(1).device.type))
        thread.start()
        thread.join()
    assert result == ["cpu"]


# Typed classes

TYPED = [
    "m.FloatTensor([1, 2])",
    "m.FloatTensor(0, 3)",
    "m.LongTensor([1, 2])",
    "m.DoubleTensor([[1.5]])",
    "m.ByteTensor([1, 255])",
    "m.BoolTensor([True, False])",
    "m.HalfTensor([1.5])",
    "m.BFloat16Tensor([1.5])",
    "m.IntTensor([1])",
    "m.ShortTensor(np.arange(3, dtype=np.int16))",
    "m.CharTensor()",
    "m.LongTensor([1.5])",
    "m.FloatTensor(m.ones(2))",
    "m.FloatTensor(m.arange(2))",
    "m.FloatTensor('a')",
    "m.FloatTensor(2.5)",
    "isinstance(m.ones(2), m.FloatTensor)",
    "isinstance(m.ones(2), m.LongTensor)",
    "isinstance(m.arange(2), m.LongTensor)",
    "isinstance(3, m.LongTensor)",
    "isinstance(m.ones(2), (m.DoubleTensor, m.FloatTensor))",
    "m.ones(2).type(m.LongTensor)",
]


@pytest.mark.parity
@pytest.mark.parametrize("text", TYPED)
def test_typed_classes(text: str) -> None:
    assert_expression(text)


def test_typed_classes_of_devices() -> None:
    result = tensor.cuda.FloatTensor([1, 2])
    assert (result.device, result.dtype) == (tensor.device("cuda:0"), tensor.float32)
    with tensor.cuda.device(1):
        assert tensor.cuda.LongTensor(3).get_device() == 1
    assert isinstance(result, tensor.cuda.FloatTensor)
    assert not isinstance(result, tensor.FloatTensor)
    assert not isinstance(tensor.ones(2), tensor.cuda.FloatTensor)
    assert repr(tensor.cuda.FloatTensor) == "<class 'tensor.cuda.FloatTensor'>"
    assert tensor.ones(2).type(tensor.cuda.HalfTensor).type() == "tensor.cuda.HalfTensor"


def test_default_tensor_types() -> None:
    tensor.set_default_tensor_type("tensor.cuda.DoubleTensor")
    assert tensor.zeros(2).type() == "tensor.cuda.DoubleTensor"
    tensor.set_default_tensor_type(tensor.FloatTensor)
    assert tensor.zeros(2).type() == "tensor.FloatTensor"
    tensor.set_default_tensor_type(tensor.HalfTensor)
    assert tensor.tensor(1.5).type() == "tensor.HalfTensor"
    for wrong in ("tensor.FooTensor", "tensor.LongTensor", tensor.LongTensor, tensor.float32, 3):
        with pytest.raises(TypeError, match="invalid type|only floating-point"):
            tensor.set_default_tensor_type(wrong)
    assert tensor.zeros(2).type() == "tensor.HalfTensor"
    assert tensor.from_numpy(np.arange(2)).device.type == "cpu"

"""The ``device`` object."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import tensor
from tensor.core.devices.device import device


def test_ways_to_name_the_same_device() -> None:
    one = device("cuda:1")
    assert one is device("cuda", 1) is device(1) is device(one)
    assert (one.type, one.index) == ("cuda", 1)
    assert repr(one) == "device(type='cuda', index=1)"
    assert str(one) == "cuda:1"


def test_devices_without_an_index() -> None:
    assert repr(device("cpu")) == "device(type='cpu')"
    assert device("cuda").index is None
    assert device("cuda") != device("cuda:0")
    assert len({device("cpu"), device("cpu"), device(0)}) == 2


def test_copies_and_pickles_are_the_same_object() -> None:
    for each in (device("cpu"), device("cuda"), device(3)):
        assert copy.copy(each) is copy.deepcopy(each) is pickle.loads(pickle.dumps(each)) is each


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("gpu",), RuntimeError, "Expected one of cpu, cuda device type at start of device string: gpu"),
        (("cuda:x",), RuntimeError, "Invalid device string: 'cuda:x'"),
        (("cuda:01",), RuntimeError, "Invalid device string"),
        (("",), RuntimeError, "Invalid device string"),
        (("cuda:1", 1), RuntimeError, "must not include an index"),
        (("cuda", -1), RuntimeError, "must not be negative, got -1"),
        (("cpu", 2), RuntimeError, "CPU device index"),
        ((-1,), RuntimeError, "got -1"),
        ((1, 2), TypeError, "two indices, 1 and 2"),
        ((1.5,), TypeError, "got 1.5"),
        (("cuda", "1"), TypeError, "must be an int"),
        ((True,), TypeError, "got True"),
        ((device("cpu"), 0), TypeError, "got an index"),
    ],
)
def test_errors(arguments: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        device(*arguments)


@pytest.mark.parametrize("name", ["meta", "mps", "xpu"])
def test_devices_that_can_only_be_named(name: str) -> None:
    assert device(name).type == str(device(name)) == name
    assert tensor.ones(1).device != device(name)
    for argument in (name, device(name)):
        with pytest.raises(
            RuntimeError, match=f"no tensors on device '{name}' here: use device='cpu' or 'cuda'"
        ):
            tensor.ones(1, device=argument)
        with pytest.raises(RuntimeError, match="no tensors on device"):
            tensor.ones(1).to(argument)


def test_attributes_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="cannot be changed"):
        device("cpu").index = 3

"""Nested batches in pinned memory."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import pytest

import drv
import tensor
from tensor.utils.data import pin_memory


class Point(NamedTuple):
    x: Any
    y: Any


@pytest.fixture(autouse=True)
def _device(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--gpu"):
        drv.simulator.install(check="race")


class Own:
    def __init__(self, x: Any) -> None:
        self.x = x

    def pin_memory(self) -> Own:
        return Own(self.x.pin_memory())


def test_nested() -> None:
    x = tensor.arange(3)
    argument = {"a": [x, "text", b"bytes", 1], "b": (x, None), "c": Point(x, OrderedDict(d=x)), "own": Own(x)}
    pinned = pin_memory(argument)
    assert not x.is_pinned()
    result = [pinned["a"][0], pinned["b"][0], pinned["c"].x, pinned["c"].y["d"], pinned["own"].x]
    assert all(each.is_pinned() and each.tolist() == [0, 1, 2] for each in result)
    assert pinned["a"][1:] == ["text", b"bytes", 1]
    assert isinstance(pinned["b"], tuple)
    assert pinned["b"][1] is None
    assert isinstance(pinned["c"], Point)
    assert isinstance(pinned["c"].y, OrderedDict)
    assert argument["a"][0] is x


def test_pinned_already() -> None:
    x = tensor.arange(3).pin_memory()
    assert pin_memory([x])[0] is x


def test_cuda_tensors_are_refused() -> None:
    with pytest.raises(RuntimeError, match="only dense CPU tensors"):
        pin_memory([tensor.arange(3, device="cuda")])

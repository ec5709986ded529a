"""Parameters that show other memory."""

from __future__ import annotations

from typing import Any

import pytest

import nn
import tensor

from .parity import assert_like_pytorch


@pytest.mark.parity
def test_other_data_while_a_graph_lives() -> None:
    def program(lib: Any, nn: Any) -> Any:
        parameter = nn.Parameter(lib.ones(3))
        former = (parameter * 2).sum()
        parameter.data = parameter.data.double()
        (parameter * 3).sum().backward()
        return former, str(parameter.grad.dtype), parameter.grad

    assert_like_pytorch(program)


def test_other_device_while_a_graph_lives(device_name: str) -> None:
    parameter = nn.Parameter(tensor.ones(3))
    former = (parameter * 2).sum()
    parameter.data = parameter.data.to(device_name)
    (parameter * 3).sum().backward()
    assert former.item() == 6.0
    assert parameter.grad is not None
    assert parameter.grad.device.type == device_name
    assert parameter.grad.tolist() == [3.0] * 3


@pytest.mark.parity
def test_integers_have_no_gradients() -> None:
    parameter = nn.Parameter(tensor.ones(3))
    with pytest.raises(RuntimeError, match="must be floating point or complex"):
        parameter.data = tensor.ones(3, dtype=tensor.int64)
    assert parameter.dtype is tensor.float32
    assert_like_pytorch(lambda lib, nn: setattr(nn.Parameter(lib.ones(1)), "data", lib.zeros(1).long()))

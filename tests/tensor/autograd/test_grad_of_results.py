"""``.grad`` of a tensor that gets none: a warning at the line that reads it."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import nn
import nn.optim
import tensor


def _read(x: Any) -> tuple[Any, list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        return x.grad, caught


def test_reading_warns_where_it_is_read(device_name: str) -> None:
    y = tensor.ones(2, device=device_name, requires_grad=True) * 2
    with pytest.warns(UserWarning, match="not a leaf Tensor is being accessed.*retain_grad") as caught:
        assert y.grad is None
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "case", ["leaf", "no grad required", "detached", "retained", "assigned", "after backward", "set to None"]
)
def test_no_warning_where_a_gradient_may_come(case: str, device_name: str) -> None:
    x = tensor.ones(2, device=device_name, requires_grad=True)
    y = x * 2
    if case == "leaf":
        y = x
    elif case == "no grad required":
        y = tensor.ones(2, device=device_name) * 2
    elif case == "detached":
        y = y.detach()
    elif case == "assigned":
        y.grad = tensor.ones(2, device=device_name)
    elif case != "set to None":
        y.retain_grad()
    else:
        x.grad = None
        y = x
    if case == "after backward":
        y.sum().backward()
    _, caught = _read(y)
    assert not caught


@pytest.mark.parity
def test_pytorch_warns_as_often() -> None:
    import torch

    for library in (tensor, torch):
        x = library.ones(2, requires_grad=True)
        y = x * 2
        view = y[:1]
        kept = x * 3
        kept.retain_grad()
        for each, expected in ((x, 0), (y, 1), (view, 1), (kept, 0), (y.detach(), 0), (x.view(-1), 1)):
            assert len(_read(each)[1]) == expected


def test_passes_and_steps_read_no_such_gradient() -> None:
    x = tensor.ones(3, 3, requires_grad=True)
    optimizer = nn.optim.SGD([x], lr=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (x @ x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        tensor.autograd.grad((x * x).sum(), x)

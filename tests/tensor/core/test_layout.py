"""Layouts are shared however many there are: what compares them by identity is right in a program of any length."""

from __future__ import annotations

import pytest

import tensor
from tensor.core import layout as layouts
from tensor.core.devices.state import cpu


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Layouts from which on some are forgotten."""
    most = len(layouts.strided) + 50
    monkeypatch.setattr(layouts, "_LIMIT", most)
    monkeypatch.setattr(layouts.strided, "limit", most)
    return most


def test_a_layout_that_a_tensor_has_stays_the_only_one(few: int) -> None:
    held = [tensor.empty(7, size) for size in range(40_000, 40_020)]
    turned = [x.t() for x in held]
    for size in range(50_000, 50_000 + 2 * few):
        tensor.empty(3, size).t()
    for x, y in zip(held, turned, strict=True):
        again = x._layout
        assert layouts.strided[again.shape, again.strides, again.dtype, again.device_state] is again
        assert layouts.contiguous[again.shape, again.dtype, again.device_state] is again
        assert tensor.empty_like(x)._layout is again
        assert x.t()._layout is y._layout and y.t()._layout is again


def test_those_that_nobody_has_are_forgotten(few: int) -> None:
    for size in range(60_000, 60_000 + 3 * few):
        layouts.strided[(1, size), (size, 1), tensor.float32, cpu]
    assert len(layouts.strided) <= 2 * few


def test_the_limit_grows_with_those_that_are_there(few: int) -> None:
    held = [
        layouts.strided[(2, size), (size, 1), tensor.float32, cpu] for size in range(70_000, 70_000 + 2 * few)
    ]
    assert layouts.strided.limit > few
    assert all(
        layouts.strided[each.shape, each.strides, each.dtype, each.device_state] is each for each in held
    )

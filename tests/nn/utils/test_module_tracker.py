"""``tensor.utils.module_tracker``: which modules run."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import tensor
from tests.pytorch import torch


def _seen(library: Any, tracker_class: Any, *, grad: bool = True) -> list[list[str]]:
    """What runs in each forward and backward of the layers of a small network, and after these."""
    layers = library.nn
    seen: list[list[str]] = []
    net = layers.Sequential(layers.Linear(2, 3), layers.Sequential(layers.ReLU(), layers.Linear(3, 1)))
    tracker = tracker_class()

    def look(*_: Any) -> None:
        seen.append([*sorted(tracker.parents), str(tracker.is_bw)])

    for each in net.modules():
        each.register_forward_pre_hook(look)
    with tracker:
        x = library.ones(4, 2, requires_grad=grad)
        y = net(x)
        y.register_hook(look)
        look()
        y.sum().backward()
        look()
    net(x)
    seen.append(sorted(tracker.parents))
    return seen


def test_paths_of_running_modules() -> None:

    seen = _seen(tensor, tensor.utils.module_tracker.ModuleTracker)
    assert seen[0] == ["Global", "Sequential", "False"]
    assert seen[3] == ["Global", "Sequential", "Sequential.1", "Sequential.1.0", "False"]
    assert seen[6] == ["Global", "Sequential", "Sequential.1", "Sequential.1.1", "True"]
    assert seen[-1] == ["Global"]
    assert tensor.utils.module_tracker is importlib.import_module("nn.utils.module_tracker")


@pytest.mark.parity
@pytest.mark.parametrize("grad", [True, False])
def test_paths_are_pytorchs(grad: bool) -> None:
    theirs = importlib.import_module("torch.utils.module_tracker").ModuleTracker
    ours = tensor.utils.module_tracker.ModuleTracker
    assert _seen(tensor, ours, grad=grad) == _seen(torch, theirs, grad=grad)

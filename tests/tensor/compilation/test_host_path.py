"""What a compiled call costs the host, in calls of Python functions: fewer than the operations that it stands for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

import drv
import nn
import tensor
from nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def unexecuted() -> None:
    """A device that launches and computes nothing: what is counted is the path to it."""
    drv.simulator.install(memory="1GiB", execute=False, check="off")


def _calls(function: Callable[[], Any]) -> int:
    """How many Python functions a call runs, once everything is planned."""
    for _ in range(3):
        function()
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.usefixtures("unexecuted")
def test_a_chain() -> None:
    def chain(x: Any, y: Any) -> Any:
        return (x * y + 1.5).relu() * x.sigmoid()

    x, y = tensor.randn(5, 7, device="cuda"), tensor.randn(7, device="cuda")
    compiled = tensor.compile(chain, fullgraph=True)
    eager, fused = _calls(lambda: chain(x, y)), _calls(lambda: compiled(x, y))
    assert fused <= 32 < eager, (eager, fused)
    # What it reads besides is compared without a call for each.
    scales = [1.0 + number for number in range(50)]
    sums = tensor.compile(lambda x: x * scales[0] + scales[-1], fullgraph=True)
    assert _calls(lambda: sums(x)) <= fused
    assert sums.programs == compiled.programs == 1


@pytest.mark.usefixtures("unexecuted")
@pytest.mark.parametrize("width", [1, 4])
def test_a_step(width: int) -> None:
    """Forward and backward of a small model, whose layers cost calls for their kernels and their gradients alone."""
    layers = [nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.1)) for _ in range(width)]
    model = nn.Sequential(*layers, nn.Linear(8, 3)).to("cuda")
    x, y = tensor.randn(4, 8, device="cuda"), tensor.randint(0, 3, (4,), device="cuda")

    def loss(x: Any, y: Any) -> Any:
        return functional.cross_entropy(model(x), y)

    def step(function: Any) -> None:
        model.zero_grad()
        function(x, y).backward()

    compiled = tensor.compile(loss, fullgraph=True)
    eager, fused = _calls(lambda: step(loss)), _calls(lambda: step(compiled))
    assert fused < 0.85 * eager, (eager, fused)
    assert compiled.programs == 1

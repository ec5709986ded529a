"""Tensors on the CPU in compiled functions: their values are no part of a program, so a function that asks for them is not compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor

pytestmark = pytest.mark.usefixtures("device")

_outside = tensor.zeros(2)


def _writes(x: Any, y: Any) -> Any:
    y.mul_(2)
    return x * 2


FUNCTIONS: dict[str, Any] = {
    "item": lambda x, y: x * y[0].item(),
    "a branch": lambda x, y: x * 2 if y[0] > 1 else x * 3,
    "tolist": lambda x, y: x * y.tolist()[0],
    "numpy": lambda x, y: x * float(y.numpy()[0]),
    "asarray": lambda x, y: x * float(np.asarray(y).sum()),
    "a shape": lambda x, y: x.repeat(y[0].int() + 1),
    "an index": lambda x, y: x * [1.0, 2.0, 3.0, 4.0][y[0].int()],
    "text": lambda x, y: x * len(f"{y * 1000}"),
    "equal": lambda x, y: x * (2 if tensor.equal(y, tensor.ones(2)) else 3),
    "a mask": lambda x, y: x * y[y > 0].numel(),
    "a copy": lambda x, y: x * y.clone()[0].item(),
    "a closure": lambda x, y: x * _outside.sum().item(),
    "a write": _writes,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("pinned", [False, True], ids=["pageable", "pinned"])
def test_values_are_asked_for(name: str, pinned: bool) -> None:
    function, x = FUNCTIONS[name], tensor.ones(4, device="cuda")
    compiled = tensor.compile(function)
    for number in range(3):
        _outside.fill_(number)
        y, other = (tensor.full((2,), float(number), pin_memory=pinned) for _ in range(2))
        # NumPy's arrays have been shown before, as in a program.
        assert y.sum().item() == 2 * number
        if number:
            result = compiled(x, y)
        else:
            with pytest.warns(
                UserWarning, match="the host asks for a value of a tensor on the CPU from outside"
            ):
                result = compiled(x, y)
        assert tensor.equal(result, function(x, other))
        assert tensor.equal(y, other)
        assert y.is_pinned() is pinned
    assert compiled.programs == 0


def test_what_is_known_without_values() -> None:
    x, y = tensor.ones(4, device="cuda"), tensor.arange(6.0).view(2, 3)
    compiled = tensor.compile(lambda x, y: x * y.shape[0] + y.t()[1:].numel(), fullgraph=True)
    for _ in range(2):
        assert compiled(x, y).tolist() == [6.0] * 4
    # And what was watched is as it was.
    assert y.add_(1).sum().item() == 21.0
    assert type(y._storage) is type(tensor.ones(1)._storage)
    assert y._storage.plain

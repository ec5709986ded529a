"""Functions that checkpoints are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensor

if TYPE_CHECKING:
    from collections.abc import Callable


def leaf(*values: float, device: str = "cpu") -> Any:
    return tensor.tensor(values, dtype=tensor.float32, device=device, requires_grad=True)


class Counted:
    """A function that knows how often it was called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.calls = 0
        self.finished = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        result = self.function(*args, **kwargs)
        self.finished += 1
        return result


def wave(x: Any, w: Any) -> Any:
    return ((x * w).sin().exp() * x).cos()


def plainly(function: Any, *args: Any) -> Any:
    return function(*args)

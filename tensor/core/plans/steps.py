"""Functions that are one step of what is recorded, though they run several plans or keep some of their own."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_F = TypeVar("_F", bound="Callable[..., Any]")

#: What records, in any thread, the innermost last: ``recorder.step(function, arguments)`` runs the function.
recorders: list[Any] = []


def one_step(function: _F) -> _F:
    """Mark a function of tensors and plain values, called by position: where it is recorded, it is so as a whole.

    It reads and writes nothing but its arguments, and gives new tensors. Where nothing records, it costs one question.
    """

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        if recorders:
            return recorders[-1].step(function, arguments)
        return function(*arguments)

    return call  # type: ignore[return-value]

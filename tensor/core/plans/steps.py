"""Functions that are one step of what is recorded: those of several plans, and those that keep books on the host."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_F = TypeVar("_F", bound="Callable[..., Any]")

#: What records, in any thread, the innermost last: ``recorder.step(function, arguments)`` runs the function, and
#: ``recorder.looked_up(key, make)`` gives what ``make()`` does, whose making is not recorded.
recorders: list[Any] = []


def innermost() -> Any | None:
    """What records, in whichever thread, if anything does; asked where ``recorders`` has something.

    Another thread may end its recording between two looks at ``recorders``.
    """
    last = recorders[-1:]
    return last[0] if last else None


def recording() -> Any | None:
    """The same, if it records what the calling thread does now."""
    recorder = innermost()
    return recorder if recorder is not None and recorder.follows() else None


def one_step(function: _F) -> _F:
    """Mark a function of tensors and plain values, called by position: where it is recorded, it is so as a whole.

    It reads and writes nothing but its arguments, and gives new tensors. Where nothing records, it costs one question.
    """

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        if recorders and (recorder := recording()) is not None:
            return recorder.step(function, arguments)
        return function(*arguments)

    return call  # type: ignore[return-value]


def host_step(function: _F) -> _F:
    """Mark such a function of which the host does a part: it may wait for the device, and is no part of a CUDA graph."""
    function.is_on_host = True  # type: ignore[attr-defined]
    return one_step(function)


def repeated(function: _F) -> _F:
    """Mark a function that keeps books on the host, such as an optimizer's step, which counts.

    Where it is recorded, it is not looked into: each run of what was recorded calls it at its place. It finds gradients at
    their leaves, and what it writes are tensors from outside.
    """

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        if recorders and (recorder := recording()) is not None:
            return recorder.repeated(functools.partial(function, *arguments, **options))
        return function(*arguments, **options)

    return call  # type: ignore[return-value]

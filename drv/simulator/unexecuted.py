"""Calls on a driver that runs nothing, which is there to measure the host's side.

A call that queues work and was accepted is accepted again, without looking at each argument once more, until
something that it could name changes: a function, a stream, a context, memory. What is measured then is the caller's
work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .driver_call import OK

if TYPE_CHECKING:
    from collections.abc import Callable

    from .driver_state import Context, DriverState

#: Calls of one name to remember.
_LIMIT = 4096
#: The calls whose acceptance is remembered.
UNEXECUTED = (
    "cuGraphLaunch",
    "cuLaunchKernel",
    "cuMemcpyDtoDAsync",
    "cuMemcpyDtoHAsync",
    "cuMemcpyHtoDAsync",
    "cuMemsetD8Async",
    "cuMemsetD16Async",
    "cuMemsetD32Async",
)


class Accepted:
    """The calls that were accepted, with the context that was current, by name and arguments."""

    def __init__(self) -> None:
        self._by_name: dict[str, dict[tuple[Any, ...], Context]] = {}

    def of(self, name: str) -> dict[tuple[Any, ...], Context]:
        """The calls of ``name``."""
        return self._by_name.setdefault(name, {})

    def clear(self) -> None:
        """Forget all calls: something that they name has changed."""
        for calls in self._by_name.values():
            calls.clear()


def unexecuted(driver: DriverState, name: str) -> Callable[..., tuple[Any, ...]]:
    """The call ``name`` of ``driver``, whose ``execute`` is off."""
    checked = getattr(driver, name)
    accepted, thread, faults = driver.accepted.of(name), driver.thread, driver.inject.asked

    def call(*arguments: Any) -> tuple[Any, ...]:
        context = accepted.get(arguments)
        if context is not None and not faults:
            contexts = thread.contexts
            if contexts and contexts[-1] is context:
                return OK
        answer: tuple[Any, ...] = checked(*arguments)
        if answer is OK and not driver.captures:
            remember(driver, accepted, arguments)
        return answer

    return call


def remember(driver: DriverState, accepted: dict[tuple[Any, ...], Context], key: tuple[Any, ...]) -> None:
    """Note that a call was accepted in this thread's current context."""
    if len(accepted) >= _LIMIT:
        accepted.clear()
    accepted[key] = driver.thread.contexts[-1]

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

    from .driver_state import DriverState

#: Calls to remember.
_LIMIT = 4096
#: The calls, and how many of their arguments decide; what follows these is not looked at.
UNEXECUTED = {
    "cuLaunchKernel": 9,
    "cuMemcpyDtoDAsync": 4,
    "cuMemcpyHtoDAsync": 4,
    "cuMemsetD8Async": 4,
    "cuMemsetD16Async": 4,
    "cuMemsetD32Async": 4,
}


def unexecuted(driver: DriverState, name: str) -> Callable[..., tuple[Any, ...]]:
    """The call ``name`` of ``driver``, whose ``execute`` is off."""
    checked = getattr(driver, name)
    accepted, thread, inject = driver.accepted, driver.thread, driver.inject
    arity = UNEXECUTED[name]

    def call(*arguments: Any) -> tuple[Any, ...]:
        key = name, *arguments[:arity]
        context = accepted.get(key)
        if context is not None and thread.contexts[-1:] == [context] and not inject.launches_may_fail:
            return OK
        answer: tuple[Any, ...] = checked(*arguments)
        if answer is OK:
            remember(driver, key)
        return answer

    return call


def remember(driver: DriverState, key: tuple[Any, ...]) -> None:
    """Note that a call was accepted in this thread's current context."""
    if len(driver.accepted) >= _LIMIT:
        driver.accepted.clear()
    driver.accepted[key] = driver.thread.contexts[-1]

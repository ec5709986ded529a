"""Launches on a driver that runs nothing, which is there to measure the host's side.

A launch that was accepted is accepted again, without looking at each argument once more, until a function, a
stream or a context that it could name changes. What is measured then is the caller's work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .driver_call import OK

if TYPE_CHECKING:
    from collections.abc import Callable

    from .api_launch import LaunchCalls

#: Launches to remember.
_LIMIT = 4096


def unexecuted_launch(driver: LaunchCalls) -> Callable[..., tuple[Any, ...]]:
    """``cuLaunchKernel`` of ``driver``, whose ``execute`` is off."""
    checked = driver.cuLaunchKernel
    accepted, thread, inject = driver.accepted, driver.thread, driver.inject

    def cuLaunchKernel(
        f: Any,
        gridDimX: int,
        gridDimY: int,
        gridDimZ: int,
        blockDimX: int,
        blockDimY: int,
        blockDimZ: int,
        sharedMemBytes: int,
        hStream: Any,
        kernelParams: Any,
        extra: Any,
    ) -> tuple[Any, ...]:
        launch = (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream)
        context = accepted.get(launch)
        if context is not None and thread.contexts[-1:] == [context] and not inject.launches_may_fail:
            return OK
        answer = checked(*launch, kernelParams, extra)
        if answer is OK:
            if len(accepted) >= _LIMIT:
                accepted.clear()
            accepted[launch] = thread.contexts[-1]
        return answer

    return cuLaunchKernel

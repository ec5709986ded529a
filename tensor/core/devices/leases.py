"""Handles of libraries: each thread has one of its own for each device; that of a thread that has ended goes to the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.core.devices.state import CudaState


class _Lease:
    """A thread's hold on a handle: when the thread ends, the handle is free for another."""

    __slots__ = ("free", "handle")

    def __init__(self, handle: Any, free: list[Any]) -> None:
        self.handle = handle
        self.free = free

    def __del__(self) -> None:
        self.free.append(self.handle)


def leased(device_state: CudaState, library: str, make: Callable[[CudaState], Any]) -> Any:
    """A handle of ``library`` for this thread until it ends: a free one, or what ``make(device_state)`` returns."""
    free = device_state.runtime.cache((f"free {library} handles", device_state.ordinal), list[Any])
    try:
        handle = free.pop()
    except IndexError:
        handle = make(device_state)
    device_state.local.leases.append(_Lease(handle, free))
    return handle

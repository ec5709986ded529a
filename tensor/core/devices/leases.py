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


def handle_for(device_state: CudaState, library: str, make: Callable[[CudaState], Any]) -> Any:
    """The calling thread's handle of ``library``, set to its current stream on the device by ``use(stream)``.

    At first it is a free one, or what ``make(device_state)`` returns; ``device_state.local`` has it under the library's name.
    """
    local = device_state.local
    handle = getattr(local, library)
    if handle is None:
        free = device_state.runtime.cache((f"free handles of {library}", device_state.ordinal), list[Any])
        try:
            handle = free.pop()
        except IndexError:
            handle = make(device_state)
        local.leases.append(_Lease(handle, free))
        setattr(local, library, handle)
    handle.use(local.stream)
    return handle

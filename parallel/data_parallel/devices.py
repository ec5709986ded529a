"""CUDA devices: those that arguments name, and their access to each other's memory."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import drv
from tensor import cuda
from tensor.core.devices.current import index_of
from tensor.core.devices.state import cpu, cuda_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tensor.core.devices.state import CudaState, DeviceState


def ordinal_of(device: Any) -> int:
    """Index of the CUDA device that an argument means; the current one where it names none.

    Raises
    ------
    ValueError
        For the CPU.
    """
    index = index_of(device)
    return cuda.current_device() if index is None else index


def device_state(device: Any) -> CudaState:
    """Memory of the CUDA device that an argument means."""
    return cuda_state(ordinal_of(device))


def device_states(devices: Iterable[Any], function: str) -> list[CudaState]:
    """Memory of each of several CUDA devices.

    Raises
    ------
    ValueError
        If there are none.
    """
    states = [device_state(each) for each in devices]
    if not states:
        raise ValueError(f"{function}() expects at least one device, got an empty list")
    return states


def destination_state(device: Any) -> DeviceState:
    """Memory of a CUDA device, the current one for ``None``; the host's for -1 and ``"cpu"``."""
    if device == -1 or str(device) == "cpu":
        return cpu
    return device_state(device)


def connect(states: Iterable[CudaState]) -> None:
    """Let each device access the next one's memory, and the reverse, where the hardware can.

    Copies between them are correct without; with it they do not go through the host.
    """
    before: CudaState | None = None
    for state in states:
        if before is not None and before is not state:
            key = ("connected", *sorted((before.ordinal, state.ordinal)))
            state.runtime.cache(key, _Connection(before.ordinal, state.ordinal))
        before = state


@contextlib.contextmanager
def drained_on_failure() -> Iterator[list[drv.Stream]]:
    """Lets the host wait, if the block fails, for the streams that were put into the list.

    Copies between devices are queued first, and the owners of their memory wait for them then. Where it does not come
    to that, the memory must not be freed or written while a copy may still be under way.
    """
    streams: list[drv.Stream] = []
    try:
        yield streams
    except BaseException:
        for stream in streams:
            stream.drain()
        raise


class _Connection:
    """Makes two devices peers when it is called."""

    __slots__ = ("devices",)

    def __init__(self, *devices: int) -> None:
        self.devices = devices

    def __call__(self) -> bool:
        here, there = self.devices
        for user, owner in ((here, there), (there, here)):
            # A device has a limited number of peers; without access, copies go through the host.
            with contextlib.suppress(drv.PeerAccessError):
                if cuda.can_device_access_peer(user, owner):
                    cuda.enable_peer_access(owner, user)
        return True

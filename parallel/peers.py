"""Access of devices to each other's memory."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import drv
from tensor import cuda

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensor.core.devices.state import CudaPlace


def connect(places: Iterable[CudaPlace]) -> None:
    """Let each device access the next one's memory, and the reverse, where the hardware can.

    Copies between them are correct without; with it they do not go through the host.
    """
    before: CudaPlace | None = None
    for place in places:
        if before is not None and before is not place:
            key = ("connected", *sorted((before.ordinal, place.ordinal)))
            place.runtime.cache(key, _Connection(before.ordinal, place.ordinal))
        before = place


class _Connection:
    """Makes two devices peers when it is called."""

    __slots__ = ("devices",)

    def __init__(self, *devices: int) -> None:
        self.devices = devices

    def __call__(self) -> bool:
        here, there = self.devices
        for user, owner in ((here, there), (there, here)):
            # A device has a limited number of peers.
            with contextlib.suppress(drv.CudaError):
                if cuda.can_device_access_peer(user, owner):
                    cuda.enable_peer_access(owner, user)
        return True

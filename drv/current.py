"""The runtime in use, and the device that a thread has selected in it.

Below the classes of a runtime, which ask here for what is current; :mod:`drv.selection`, which makes a runtime of these
classes, says how one is chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .device import Device
    from .runtime import Runtime


class _InUse:
    """The runtime in use, and what chooses one at the first use."""

    __slots__ = ("choose", "runtime")

    choose: Callable[[], Runtime]

    def __init__(self) -> None:
        self.runtime: Runtime | None = None


in_use = _InUse()


def runtime() -> Runtime:
    """The runtime in use. The first call chooses the driver, as ``GRAPHROOT_DRIVER`` says.

    Raises
    ------
    NoDriverError
        If no driver can be had. The simulated driver is never chosen silently.
    NoDeviceError
        If NVIDIA's driver has no visible device.
    ForkError
        If the parent of this forked process had used CUDA.
    """
    current = in_use.runtime
    return current if current is not None else in_use.choose()


def current_device() -> Device:
    """The device that this thread selected with :meth:`Device.set_current`, device 0 at first.

    Raises
    ------
    NoDriverError, NoDeviceError, ForkError
        As :func:`runtime`, which the first call chooses.
    """
    active = runtime()
    return active.current.selected or active.devices[0]

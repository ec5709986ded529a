"""Which CUDA device an argument means, and which one is current in this thread."""

from __future__ import annotations

import operator
from typing import Any

import drv

from . import device as devices

#: What a ``device=`` argument of a CUDA function may be.
DeviceArgument = devices.device | int | str | None


def index_of(argument: Any) -> int | None:
    """Index that a ``device=`` argument names; ``None`` where it means the current device.

    Raises
    ------
    ValueError
        For the CPU.
    TypeError
        For what is neither a device, a text nor a number.
    RuntimeError
        For a malformed text.
    """
    if argument is None or type(argument) is int:
        return argument
    if isinstance(argument, str):
        argument = devices.device(argument)
    if isinstance(argument, devices.device):
        if argument.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {argument}")
        return argument.index
    try:
        if isinstance(argument, bool):
            raise TypeError
        return operator.index(argument)
    except TypeError:
        raise TypeError(
            f"expected a device, its index, a text such as 'cuda:0', or None for the current device; got "
            f"{type(argument).__name__}"
        ) from None


def index_or_current(argument: Any) -> int | None:
    """As :func:`index_of`; a negative number means the current device too."""
    index = index_of(argument)
    return None if index is not None and index < 0 else index


def select(device: drv.Device) -> drv.Device | None:
    """Make ``device`` current in this thread, and return what :func:`restore` takes back.

    Raises
    ------
    DroppedRuntimeError
        If the device's runtime was dropped.
    """
    runtime = device.runtime
    if not runtime.alive:
        raise drv.DroppedRuntimeError(
            f"device {device.ordinal} belongs to a runtime that drv.reset() dropped; make new streams and tensors"
        )
    before = runtime.current.selected
    if (before or runtime.devices[0]) is not device:
        device.set_current()
    return before


def restore(runtime: drv.Runtime, before: drv.Device | None) -> None:
    """Make the device current that was before :func:`select`; does nothing once ``runtime`` was dropped."""
    current = runtime.current
    if not runtime.alive or current.selected is before:
        return
    current.selected = before
    # Device 0 is current where nothing was selected. It needs no context for that, but where it has one
    # other libraries of this thread should find it again.
    device = before or runtime.devices[0]
    if device.context is not None:
        device.make_current()

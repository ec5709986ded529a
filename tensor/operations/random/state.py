"""States of the default generators as tensors: saved, restored, and put back after a block.

A state is a uint8 tensor of 16 bytes on the CPU: seed and number of calls served. It is the same for all kinds
of devices, so that one device can go on as another did.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import drv
from tensor.core.devices.current import index_or_current

from .generator import default_generator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tensor.core.devices.current import DeviceArgument
    from tensor.methods.tensor import Tensor

    from .generator import Generator


def get_rng_state() -> Tensor:
    """State of the CPU's default generator: a uint8 tensor of shape ``(16,)`` on the CPU.

    >>> state = tensor.get_rng_state()
    >>> x = tensor.rand(3)
    >>> tensor.set_rng_state(state)
    >>> tensor.equal(tensor.rand(3), x)
    True
    """
    return default_generator().get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Have the CPU's default generator go on from ``new_state``, which :func:`get_rng_state` returned.

    Raises
    ------
    TypeError
        If ``new_state`` is not a uint8 tensor on the CPU.
    RuntimeError
        If it does not have 16 elements.
    """
    default_generator().set_state(new_state)


def cuda_get_rng_state(device: DeviceArgument = "cuda") -> Tensor:
    """State of the default generator of ``device``, by default the current one: uint8, ``(16,)``, on the CPU.

    Raises
    ------
    ValueError
        For the CPU, or a device that does not exist.
    RuntimeError
        If there is no driver or no device.
    """
    return _of_device(device).get_state()


def cuda_get_rng_state_all() -> list[Tensor]:
    """States of all CUDA devices' default generators, one uint8 tensor of shape ``(16,)`` on the CPU for each device.

    Empty without devices. :func:`tensor.cuda.set_rng_state_all` takes the list.
    """
    return [default_generator(ordinal).get_state() for ordinal in range(drv.device_count())]


def cuda_set_rng_state(new_state: Tensor, device: DeviceArgument = "cuda") -> None:
    """Have the default generator of ``device``, by default the current one, go on from ``new_state``.

    Raises
    ------
    TypeError
        If ``new_state`` is not a uint8 tensor on the CPU.
    ValueError
        For the CPU, or a device that does not exist.
    RuntimeError
        If the state does not have 16 elements, or there is no driver or no device.
    """
    _of_device(device).set_state(new_state)


def cuda_set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Have the default generators of CUDA devices 0, 1, ... go on from ``new_states``, one of each.

    Raises
    ------
    TypeError, RuntimeError
        As :func:`tensor.cuda.set_rng_state`; generators of the devices before are set by then.
    ValueError
        If there are more states than devices.
    """
    for ordinal, state in enumerate(new_states):
        default_generator(ordinal).set_state(state)


def _of_device(device: Any) -> Generator:
    index = index_or_current(device)
    return default_generator(drv.current_device().ordinal if index is None else index)


@contextlib.contextmanager
def fork_rng(
    devices: Iterable[DeviceArgument] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str | None = None,
) -> Iterator[None]:
    """Put the states of the default generators back at the end of a block.

    Parameters
    ----------
    devices : iterable, optional
        CUDA devices whose generators are put back; by default all. The CPU's always is.
    enabled : bool
        Whether to do anything.
    device_type : str, optional
        ``"cuda"``, the only type of ``devices``; for ``"cpu"`` there are none.

    Raises
    ------
    RuntimeError
        For another type of device.
    """
    if not enabled:
        yield
        return
    if device_type not in (None, "cuda", "cpu"):
        raise RuntimeError(f"{_caller}() knows the device types 'cuda' and 'cpu', got {device_type!r}")
    if device_type == "cpu":
        devices = ()
    elif devices is None:
        devices = range(drv.device_count())
    generators = [default_generator(), *map(_of_device, devices)]
    before = [generator.state_bytes() for generator in generators]
    try:
        yield
    finally:
        for generator, state in zip(generators, before, strict=True):
            generator.set_state_bytes(state)

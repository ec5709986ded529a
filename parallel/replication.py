"""Modules on several devices whose parameters and buffers are copies of one's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.modes.grad_mode import modes

from .broadcasting import broadcasted
from .coalescing import BUFFER_SIZE
from .device_arguments import places_named

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nn import Module
    from tensor import Tensor

__all__ = ["replicate"]


def modules_of(network: Module) -> list[Any]:
    """All modules of a tree, each once, the first one first."""
    found = {id(network): network}
    waiting = [network]
    while waiting:
        for child in waiting.pop()._modules.values():
            if child is not None and id(child) not in found:
                found[id(child)] = child
                waiting.append(child)
    return list(found.values())


def tensors_of(modules: Iterable[Any]) -> dict[int, Tensor]:
    """Parameters and buffers of modules by their identity, each once."""
    found: dict[int, Tensor] = {}
    for module in modules:
        for table in (module._parameters, module._buffers):
            for each in table.values():
                if each is not None:
                    found[id(each)] = each
    return found


def replicate(network: Module, devices: Iterable[Any], detach: bool = False) -> list[Any]:
    """Copies of a module, one on each device.

    Parameters and buffers travel together in few copies, which are recorded: gradients of the replicas' parameters,
    which are no leaves, are summed into those of ``network``. On the first device they share memory with the
    originals, so that what is written there in place stays. Everything else that a module has is shared when the
    replicas are made; what they assign to attributes goes with them.

    Parameters
    ----------
    network
        The module, whose parameters and buffers are on the first of ``devices``.
    devices
        CUDA devices.
    detach
        Whether nothing is recorded.

    Returns
    -------
    list of Module
        One for each device.

    Raises
    ------
    RuntimeError
        If a parameter or buffer is on another device, or a lazy module has no parameters yet.
    """
    places = places_named(devices, "replicate")
    modules = modules_of(network)
    replicas: list[list[Any]] = [[each._replicate_for_data_parallel() for each in modules] for _ in places]
    known = tensors_of(modules)
    tensors = list(known.values())
    for each in tensors:
        if each._layout.place is not places[0]:
            raise RuntimeError(
                f"replicate() expects the module's parameters and buffers on {places[0].device}, the first of the "
                f"devices, but found one on {each.device}"
            )
    recording = modes.recording
    modes.recording = recording and not detach
    try:
        columns = broadcasted(tensors, places, BUFFER_SIZE, sum_all=True)
    finally:
        modes.recording = recording
    position = {key: number for number, key in enumerate(known)}
    place_of = {id(module): number for number, module in enumerate(modules)}
    for made, column in zip(replicas, columns, strict=True):
        for module, replica in zip(modules, made, strict=True):
            own = replica.__dict__
            children, parameters, buffers = own["_modules"], own["_parameters"], own["_buffers"]
            own["_former_parameters"] = former = {}
            for name, child in module._modules.items():
                if child is not None:
                    children[name] = made[place_of[id(child)]]
            for name, each in module._parameters.items():
                if each is None:
                    parameters[name] = None
                else:
                    # No leaf, and so no parameter: an attribute.
                    own[name] = former[name] = column[position[id(each)]]
            for name, each in module._buffers.items():
                if each is not None:
                    buffers[name] = column[position[id(each)]]
    return [made[0] for made in replicas]

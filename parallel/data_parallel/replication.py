"""Modules on several devices whose parameters and buffers are copies of one's."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from tensor.core.modes.grad_mode import unrecorded

from .broadcasting import broadcasted
from .coalescing import BUFFER_SIZE
from .devices import device_states

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nn import Module
    from tensor import Tensor

__all__ = ["replicate"]


def modules_of(network: Module) -> list[Any]:
    """All modules of a tree, each once, the first one first."""
    modules = {id(network): network}
    waiting = [network]
    while waiting:
        for child in waiting.pop()._modules.values():
            if child is not None and id(child) not in modules:
                modules[id(child)] = child
                waiting.append(child)
    return list(modules.values())


def tensors_of(modules: Iterable[Any]) -> dict[int, Tensor]:
    """Parameters and buffers of modules by their identity, each once."""
    tensors: dict[int, Tensor] = {}
    for module in modules:
        for table in (module._parameters, module._buffers):
            for each in table.values():
                if each is not None:
                    tensors[id(each)] = each
    return tensors


def replicate(network: Module, devices: Iterable[Any], detach: bool = False) -> list[Any]:
    """Copies of a module, one on each device.

    Parameters and buffers travel together in few copies, which are recorded: gradients of the replicas' parameters,
    which are not leaves, are summed into those of ``network``. On the first device they share memory with the
    originals, so that in-place writes there remain. Everything else that a module has is shared when the replicas are
    made; what they assign to attributes goes with them.

    >>> replicas = parallel.replicate(nn.Linear(64, 10).cuda(), [0, 1])
    >>> x0, x1 = tensor.randn(16, 64, device="cuda:0"), tensor.randn(16, 64, device="cuda:1")
    >>> [output.device for output in parallel.parallel_apply(replicas, [x0, x1])]
    [device(type='cuda', index=0), device(type='cuda', index=1)]

    Parameters
    ----------
    network : Module
        The module, whose parameters and buffers are on the first of ``devices``.
    devices : iterable of device, str or int
        CUDA devices.
    detach : bool
        Whether nothing is recorded.

    Returns
    -------
    list of Module
        One for each device.

    Raises
    ------
    RuntimeError
        If a parameter or buffer is on another device, or a lazy module has no parameters yet.
    ValueError
        If ``devices`` is empty, or has one that is not a CUDA device.
    """
    states = device_states(devices, "replicate")
    modules = modules_of(network)
    replicas: list[list[Any]] = [[each._replicate_for_data_parallel() for each in modules] for _ in states]
    known = tensors_of(modules)
    tensors = list(known.values())
    for each in tensors:
        if each._layout.device_state is not states[0]:
            raise RuntimeError(
                f"replicate() expects the module's parameters and buffers on {states[0].device}, the first of the "
                f"devices, but found one on {each.device}"
            )
    with unrecorded() if detach else nullcontext():
        columns = broadcasted(tensors, states, BUFFER_SIZE, sum_all=True)
    position = {key: number for number, key in enumerate(known)}
    number_of = {id(module): number for number, module in enumerate(modules)}
    for modules_there, column in zip(replicas, columns, strict=True):
        for module, replica in zip(modules, modules_there, strict=True):
            own = replica.__dict__
            children, parameters, buffers = own["_modules"], own["_parameters"], own["_buffers"]
            own["_former_parameters"] = former = {}
            for name, child in module._modules.items():
                if child is not None:
                    children[name] = modules_there[number_of[id(child)]]
            for name, each in module._parameters.items():
                if each is None:
                    parameters[name] = None
                else:
                    # No leaf, and so no parameter: an attribute.
                    own[name] = former[name] = column[position[id(each)]]
            for name, each in module._buffers.items():
                if each is not None:
                    buffers[name] = column[position[id(each)]]
    return [modules_there[0] for modules_there in replicas]

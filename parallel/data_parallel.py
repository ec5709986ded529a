"""``DataParallel``: one module on several devices of a process, each with a part of the batch."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import drv
from nn import Module
from tensor import cuda, device

from .device_arguments import destination_named, ordinal_of
from .parallel_apply import parallel_apply
from .replication import modules_of, replicate, tensors_of
from .scatter_gather import gather, scatter_kwargs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["DataParallel", "data_parallel"]

#: A device that has less than this part of what another one has makes that one wait.
_BALANCE = 0.75


class DataParallel(Module):
    """Runs a module on several devices at once, each with a part of the batch.

    Every forward pass scatters the arguments along ``dim``, copies the module to all devices, calls the replicas in
    threads and joins their outputs. The backward pass sums the replicas' gradients into the module's parameters.
    Without CUDA, and with one device, it calls the module itself.

    The parameters and buffers must be on the first device. What replicas write to them in place on that device
    stays; what they assign to attributes is lost. Hooks run once in each replica. A recurrent network that packs its
    input needs ``pad_packed_sequence(..., total_length=...)``, so that all outputs have one length.

    Parameters
    ----------
    module
        What is run.
    device_ids
        CUDA devices, by default all.
    output_device
        Where outputs are joined, by default on the first device; -1 is the CPU.
    dim
        Dimension of the batch in arguments and outputs.

    Raises
    ------
    RuntimeError
        If there are no devices; in a forward pass, if a parameter or buffer is not on the first one.

    Warns
    -----
    UserWarning
        If a device has less than 75 % of the memory or of the multiprocessors of another.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.module = module
        self.device_ids: list[int] = []
        if not cuda.is_available():
            return
        self.device_ids = _device_list(device_ids)
        self.output_device = _output_device(output_device, self.device_ids)
        _warn_of_imbalance(self.device_ids)
        if len(self.device_ids) == 1:
            module.to(f"cuda:{self.device_ids[0]}")

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module computes, of the parts of the arguments on all devices."""
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        _check_placement(self.module, self.device_ids[0])
        args, named = self.scatter(inputs, kwargs, self.device_ids)
        if not args and not named:
            args, named = ((),), ({},)
        if len(self.device_ids) == 1:
            return self.module(*args[0], **named[0])
        devices = self.device_ids[: len(args)]
        replicas = self.replicate(self.module, devices)
        outputs = self.parallel_apply(replicas, args, named)
        return self.gather(outputs, self.output_device)

    def replicate(self, module: Module, device_ids: Sequence[Any]) -> list[Any]:
        """See :func:`parallel.replicate`."""
        return replicate(module, device_ids)

    def scatter(
        self, inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, device_ids: Sequence[Any]
    ) -> Any:
        """See :func:`parallel.scatter_gather.scatter_kwargs`."""
        return scatter_kwargs(inputs, kwargs, device_ids, self.dim)

    def parallel_apply(self, replicas: Sequence[Any], inputs: Sequence[Any], kwargs: Any) -> list[Any]:
        """See :func:`parallel.parallel_apply`."""
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[: len(replicas)])

    def gather(self, outputs: Sequence[Any], output_device: Any) -> Any:
        """See :func:`parallel.scatter_gather.gather`."""
        return gather(outputs, output_device, self.dim)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Run a module on several devices at once, as :class:`DataParallel` does.

    Parameters
    ----------
    module
        Its parameters and buffers are on the first device.
    inputs
        The tuple of its arguments, or its one argument; ``None`` for none.
    device_ids, output_device, dim
        See :class:`DataParallel`.
    module_kwargs
        Its keyword arguments.
    """
    args = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    named = module_kwargs or {}
    if not cuda.is_available():
        return module(*args, **named)
    devices = _device_list(device_ids)
    output = _output_device(output_device, devices)
    _check_placement(module, devices[0])
    parts, named_parts = scatter_kwargs(args, named, devices, dim)
    if not parts and not named_parts:
        parts, named_parts = ((),), ({},)
    if len(devices) == 1:
        return module(*parts[0], **named_parts[0])
    used = devices[: len(parts)]
    return gather(parallel_apply(replicate(module, used), parts, named_parts, used), output, dim)


def _device_list(device_ids: Sequence[Any] | None) -> list[int]:
    found = (
        list(range(cuda.device_count())) if device_ids is None else [ordinal_of(each) for each in device_ids]
    )
    if not found:
        raise RuntimeError("no available devices were found: device_ids is empty")
    if len(set(found)) < len(found):
        raise RuntimeError(f"device_ids must name different devices, got {found}")
    return found


def _output_device(output_device: Any, device_ids: Sequence[int]) -> int:
    """Index of the device on which outputs are joined, -1 for the CPU."""
    if output_device is None:
        return device_ids[0]
    found: Any = destination_named(output_device)
    return found.ordinal if found.is_cuda else -1


def _check_placement(module: Module, first: int) -> None:
    expected = device("cuda", first)
    for each in tensors_of(modules_of(module)).values():
        if each.device is not expected:
            raise RuntimeError(
                f"module must have its parameters and buffers on device {expected} (device_ids[0]) but found one of them "
                f"on device: {each.device}. Move it with module.to('{expected}')"
            )


def _warn_of_imbalance(device_ids: Sequence[int]) -> None:
    properties = [drv.Device(each).properties for each in device_ids]
    sizes: tuple[tuple[str, Callable[[Any], int]], ...] = (
        ("memory", lambda each: each.total_memory),
        ("multiprocessors", lambda each: each.multi_processor_count),
    )
    for what, size in sizes:
        values = [size(each) for each in properties]
        low, high = values.index(min(values)), values.index(max(values))
        if values[low] < _BALANCE * values[high]:
            warnings.warn(
                f"There is an imbalance between your GPUs: device {device_ids[low]} has less than {_BALANCE:.0%} of the "
                f"{what} of device {device_ids[high]} and will keep it waiting. Leave it out with the device_ids argument "
                "of DataParallel, or with the environment variable CUDA_VISIBLE_DEVICES.",
                stacklevel=3,
            )
            return

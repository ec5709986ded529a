"""``DataParallel``: one module on several devices of a process, each with a slice of the batch."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import drv
from nn import Module
from tensor import cuda, device

from .devices import destination_state, ordinal_of
from .parallel_apply import parallel_apply
from .replication import modules_of, replicate, tensors_of
from .scatter_gather import gather, scatter_kwargs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["DataParallel", "data_parallel"]

#: A device with less than this fraction of another's resources makes the other one wait.
_BALANCE = 0.75


class DataParallel(Module):
    """Runs a module on several devices of this process at once, each with a slice of the batch.

    Every forward pass scatters the arguments along ``dim``, copies the module to all devices, calls the replicas in
    threads and joins their outputs. The backward pass sums the replicas' gradients into the module's parameters.
    Without CUDA, and with one device, it calls the module itself.

    >>> model = parallel.DataParallel(nn.Linear(64, 10).cuda())  # on all devices
    >>> model(tensor.randn(32, 64)).shape  # 16 rows on each of two devices
    tensor.Size([32, 10])

    The parameters and buffers must be on the first device. What replicas write to them in place on that device
    stays; what they assign to attributes is lost. Hooks run once in each replica. A recurrent network that packs its
    input needs ``pad_packed_sequence(..., total_length=...)``, so that all outputs have one length. With a process for
    each device, :class:`parallel.DistributedDataParallel` copies no parameters and has no interpreter lock to share.

    Parameters
    ----------
    module : Module
        The module to run, on the first device.
    device_ids : list of int or device, optional
        CUDA devices; all by default.
    output_device : int or device, optional
        Where outputs are joined; the first device by default, -1 for the CPU.
    dim : int
        Dimension of the batch in arguments and outputs.

    Raises
    ------
    RuntimeError
        If ``device_ids`` is empty or names a device twice; in a forward pass, if a parameter or buffer is not on the
        first device.
    TypeError
        In a forward pass, if an argument is a PackedSequence, or an output is not made of tensors, None, tuples, lists
        and dicts.
    Exception
        In a forward pass, what a replica raises, with its traceback in the message.

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
        """The outputs of the module on all devices, joined along ``dim`` on ``output_device``.

        Raises
        ------
        RuntimeError
            If a parameter or buffer is not on the first device.
        TypeError, Exception
            See :class:`parallel.DataParallel`.
        """
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
        """Copies of ``module`` on ``device_ids``; see :func:`parallel.replicate`.

        Called in each forward pass with more than one device. Subclasses may override it.
        """
        return replicate(module, device_ids)

    def scatter(
        self, inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, device_ids: Sequence[Any]
    ) -> Any:
        """Divide ``inputs`` and ``kwargs`` along ``dim`` between ``device_ids``; subclasses may override it.

        Returns
        -------
        tuple
            The tuples of arguments, and the dicts of keyword arguments, one of each for each device that gets any.

        Raises
        ------
        TypeError
            If an argument is a PackedSequence.
        """
        return scatter_kwargs(inputs, kwargs, device_ids, self.dim)

    def parallel_apply(self, replicas: Sequence[Any], inputs: Sequence[Any], kwargs: Any) -> list[Any]:
        """Outputs of ``replicas[i]`` for ``inputs[i]`` and ``kwargs[i]``: see :func:`parallel.parallel_apply`.

        It raises what a replica raises. Subclasses may override it.
        """
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[: len(replicas)])

    def gather(self, outputs: Sequence[Any], output_device: Any) -> Any:
        """Join ``outputs``, one of each device, along ``dim`` on ``output_device``; subclasses may override it.

        Raises
        ------
        TypeError
            If an output is not made of tensors, None, tuples, lists and dicts.
        ValueError
            If outputs differ in structure.
        """
        return gather(outputs, output_device, self.dim)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Run a module on several devices at once, as :class:`parallel.DataParallel` does, without a wrapper.

    >>> model = nn.Linear(64, 10).cuda()
    >>> parallel.data_parallel(model, tensor.randn(32, 64), device_ids=[0, 1]).shape
    tensor.Size([32, 10])

    Parameters
    ----------
    module : Module
        The module to run; its parameters and buffers are on the first device.
    inputs
        The tuple of its arguments, or its one argument; None for none.
    device_ids, output_device, dim
        See :class:`parallel.DataParallel`.
    module_kwargs : dict, optional
        Its keyword arguments.

    Returns
    -------
    object
        The joined outputs.

    Raises
    ------
    RuntimeError, TypeError, Exception
        See :class:`parallel.DataParallel`.
    """
    args = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    named = module_kwargs or {}
    if not cuda.is_available():
        return module(*args, **named)
    devices = _device_list(device_ids)
    output = _output_device(output_device, devices)
    _check_placement(module, devices[0])
    arguments, keywords = scatter_kwargs(args, named, devices, dim)
    if not arguments and not keywords:
        arguments, keywords = ((),), ({},)
    if len(devices) == 1:
        return module(*arguments[0], **keywords[0])
    used = devices[: len(arguments)]
    return gather(parallel_apply(replicate(module, used), arguments, keywords, used), output, dim)


def _device_list(device_ids: Sequence[Any] | None) -> list[int]:
    ordinals = (
        list(range(cuda.device_count())) if device_ids is None else [ordinal_of(each) for each in device_ids]
    )
    if not ordinals:
        raise RuntimeError("no available devices were found: device_ids is empty")
    if len(set(ordinals)) < len(ordinals):
        raise RuntimeError(f"device_ids must name different devices, got {ordinals}")
    return ordinals


def _output_device(output_device: Any, device_ids: Sequence[int]) -> int:
    """Index of the device on which outputs are joined, -1 for the CPU."""
    if output_device is None:
        return device_ids[0]
    state: Any = destination_state(output_device)
    return state.ordinal if state.is_cuda else -1


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

"""Dtypes and places of sharded parameters: arguments of :func:`parallel.fully_shard`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensor

__all__ = ["CPUOffloadPolicy", "MixedPrecisionPolicy", "OffloadPolicy"]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Dtypes in which a sharded module computes. Shards, their gradients and optimizers keep those of the parameters.

    >>> policy = parallel.fsdp.MixedPrecisionPolicy(param_dtype=tensor.bfloat16, reduce_dtype=tensor.float32)

    Parameters
    ----------
    param_dtype : dtype, optional
        In which parameters are gathered, and the module computes; their own by default.
    reduce_dtype : dtype, optional
        In which gradients are reduced; that of the computation by default.
    output_dtype : dtype, optional
        To which floating point outputs of the module are converted.
    cast_forward_inputs : bool
        Whether floating point inputs of the module are converted to ``param_dtype``.
    """

    param_dtype: tensor.dtype | None = None
    reduce_dtype: tensor.dtype | None = None
    output_dtype: tensor.dtype | None = None
    cast_forward_inputs: bool = True


@dataclass(frozen=True)
class OffloadPolicy:
    """Shards stay on the device: the default.

    It has no parameters, and is the base class of :class:`CPUOffloadPolicy`.
    """


@dataclass(frozen=True)
class CPUOffloadPolicy(OffloadPolicy):
    """Shards on the CPU: parameters are copied to the device when they are gathered, and gradients back when they are reduced.

    So states and steps of optimizers are on the CPU, too. What works over ranks on shards themselves, such as clipping and state
    dicts, needs a backend for the CPU beside that of GPUs, as ``init_process_group()`` has by default. Where modules compute
    on the CPU it changes nothing.

    Parameters
    ----------
    pin_memory : bool
        Whether shards and gradients are in pinned memory, so that copies run beside kernels.
    """

    pin_memory: bool = True

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
    """Shards on the CPU, which :func:`parallel.fully_shard` does not support yet: it raises NotImplementedError.

    Parameters
    ----------
    pin_memory : bool
        Whether they are in pinned memory.
    """

    pin_memory: bool = True

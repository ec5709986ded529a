"""Layers divided among ranks by a plan: the names of ``torch.distributed.tensor.parallel``.

>>> parallel.tensor.parallel.SequenceParallel(sequence_dim=0)
SequenceParallel(sequence_dim=0, use_local_output=False)
"""

from typing import TYPE_CHECKING

from parallel.tensor_parallel.plan import parallelize_module
from parallel.tensor_parallel.styles import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)
from tensor.core.names.absent import hints as _hints

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
    "parallelize_module",
]

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)

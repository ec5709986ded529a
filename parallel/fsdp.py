"""Parameters, gradients and states of optimizers divided among ranks: the names of ``torch.distributed.fsdp``.

>>> module = parallel.fsdp.fully_shard(nn.Linear(4, 2), mesh=parallel.init_device_mesh("cpu", (1,)))
>>> isinstance(module, parallel.fsdp.FSDPModule)
True
"""

from typing import TYPE_CHECKING

from tensor.core.names.absent import hints as _hints

from .sharding.fully_shard import FSDPModule, UnshardHandle, fully_shard
from .sharding.policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy

__all__ = [
    "CPUOffloadPolicy",
    "FSDPModule",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "UnshardHandle",
    "fully_shard",
]

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)

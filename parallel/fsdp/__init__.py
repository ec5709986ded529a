"""Parameters, gradients and states of optimizers divided among ranks: the names of ``torch.distributed.fsdp``.

>>> module = parallel.fsdp.fully_shard(nn.Linear(4, 2), mesh=parallel.init_device_mesh("cpu", (1,)))
>>> isinstance(module, parallel.fsdp.FSDPModule)
True
"""

from typing import TYPE_CHECKING

from parallel.sharding.fully_shard import FSDPModule, UnshardHandle, fully_shard
from parallel.sharding.fully_sharded_data_parallel import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    FullyShardedDataParallel,
    MixedPrecision,
    OptimStateDictConfig,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from parallel.sharding.policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from tensor.core.names.absent import hints as _hints

from . import wrap

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "CPUOffloadPolicy",
    "FSDPModule",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "FullyShardedDataParallel",
    "MixedPrecision",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "OptimStateDictConfig",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
    "UnshardHandle",
    "fully_shard",
    "wrap",
]

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)

"""Tensors that are divided among the ranks of a mesh: names of ``torch.distributed.tensor``.

>>> mesh = parallel.init_device_mesh("cpu", (1,))
>>> parallel.tensor.distribute_tensor(tensor.ones(2, 3), mesh, [parallel.tensor.Shard(0)]).to_local().shape
tensor.Size([2, 3])
"""

from typing import TYPE_CHECKING

from tensor.core.names.absent import hints as _hints

from .sharding.dtensor import DTensor, Placement, Replicate, Shard, distribute_tensor

__all__ = ["DTensor", "Placement", "Replicate", "Shard", "distribute_tensor"]

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)

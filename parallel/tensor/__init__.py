"""Tensors that are divided among the ranks of a mesh: names of ``torch.distributed.tensor``.

:mod:`parallel.tensor.parallel` divides the layers of modules.

>>> mesh = parallel.init_device_mesh("cpu", (1,))
>>> parallel.tensor.distribute_tensor(tensor.ones(2, 3), mesh, [parallel.tensor.Shard(0)]).to_local().shape
tensor.Size([2, 3])
"""

from typing import TYPE_CHECKING

from parallel.sharding.dtensor import DTensor, distribute_tensor
from parallel.sharding.placements import Partial, Placement, Replicate, Shard
from tensor.core.names.absent import hints as _hints

from . import parallel

__all__ = ["DTensor", "Partial", "Placement", "Replicate", "Shard", "distribute_tensor", "parallel"]

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)

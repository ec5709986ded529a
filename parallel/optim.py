"""Optimizers whose work or state is divided among ranks: the names of ``torch.distributed.optim``.

>>> optimizer = parallel.optim.ZeroRedundancyOptimizer(nn.Linear(3, 1).parameters(), nn.optim.SGD, lr=0.1)
"""

from typing import TYPE_CHECKING

from tensor.core.names.absent import hints as _hints

from .sharding.zero_redundancy import ZeroRedundancyOptimizer

__all__ = ["ZeroRedundancyOptimizer"]

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)

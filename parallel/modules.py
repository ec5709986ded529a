"""Modules on several devices, and what they are made of: the names of ``torch.nn.parallel``.

``nn.parallel`` is this module. Its ``scatter`` and ``gather`` divide the arguments of a module among devices and join
the results; those of :mod:`parallel` itself are collectives of processes.
"""

from typing import TYPE_CHECKING

from tensor.core.names.absent import hints as _hints

from .data_parallel.data_parallel import DataParallel, data_parallel
from .data_parallel.parallel_apply import parallel_apply
from .data_parallel.replication import replicate
from .data_parallel.scatter_gather import gather, scatter
from .ddp.distributed_data_parallel import DistributedDataParallel

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)

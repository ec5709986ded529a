"""Data parallelism over threads and processes."""

from . import comm
from .data_parallel import DataParallel, data_parallel
from .parallel_apply import parallel_apply
from .replication import replicate
from .spawning import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    spawn,
    start_processes,
)

__all__ = [
    "DataParallel",
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "comm",
    "data_parallel",
    "parallel_apply",
    "replicate",
    "spawn",
    "start_processes",
]

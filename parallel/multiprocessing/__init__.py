"""Python's ``multiprocessing`` with :func:`spawn`: the names of ``torch.multiprocessing``.

Processes, queues and locks are Python's own. What a queue, a pipe or a pool carries is pickled, but for the memory of
CPU tensors: it is shared, so that both processes see what either writes, and views of one storage stay views of one. A
tensor on a CUDA device cannot be sent; send ``x.cpu()``. A process that uses CUDA devices starts others by ``spawn``,
since CUDA does not survive a fork.
"""

import multiprocessing as _multiprocessing
from multiprocessing import *  # noqa: F403 - all of its names, whichever the version of Python has

from parallel.launch.spawning import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    spawn,
    start_processes,
)
from tensor.utils.shared_tensors import (
    get_all_sharing_strategies,
    get_sharing_strategy,
    set_sharing_strategy,
)

from .reductions import init_reductions as _init_reductions

__all__ = [
    *_multiprocessing.__all__,
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]

_init_reductions()

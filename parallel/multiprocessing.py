"""Python's ``multiprocessing`` with :func:`spawn`: the names of ``torch.multiprocessing``.

Processes, queues and locks are Python's own. What a queue, a pipe or a pool carries is pickled, but for the memory of
CPU tensors: it is shared, so that both processes see what either writes, and views of one storage stay views of one. A
tensor on a CUDA device cannot be sent; send ``x.cpu()``. A process that uses CUDA devices starts others by ``spawn``,
since CUDA does not survive a fork.
"""

import multiprocessing as _multiprocessing
from multiprocessing import *  # noqa: F403 - all of its names, whichever the version of Python has
from multiprocessing import reduction as _reduction

from nn.parameter import Buffer as _Buffer
from nn.parameter import Parameter as _Parameter
from tensor.utils.shared_tensors import (
    get_all_sharing_strategies,
    get_sharing_strategy,
    set_sharing_strategy,
)
from tensor.utils.shared_tensors import reduce_tensor as _reduce_tensor

from .launch.spawning import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    spawn,
    start_processes,
)

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

for _cls in (_Parameter, _Buffer):
    _reduction.ForkingPickler.register(_cls, _reduce_tensor)

"""Python's ``multiprocessing`` with :func:`spawn`: the names of ``torch.multiprocessing``.

Processes, queues and locks are Python's own. What a queue or a pipe carries is pickled: a tensor arrives as a copy, on
the device that it left. A process that uses CUDA devices starts others by ``spawn``, since CUDA does not survive a fork.
"""

import multiprocessing as _multiprocessing
from multiprocessing import *  # noqa: F403 - all of its names, whichever the version of Python has

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
    "spawn",
    "start_processes",
]

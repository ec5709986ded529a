"""MPI itself: found, checked, and called by one thread at a time."""

from __future__ import annotations

import threading
from typing import Any

#: Held for each call of MPI: not every library is made for several threads at once, and groups have some.
calls = threading.RLock()


def library() -> Any:
    """The module ``mpi4py.MPI``; the first use starts MPI in this process.

    Raises
    ------
    ImportError
        If mpi4py, or an MPI library for it, is missing.
    RuntimeError
        If MPI allows calls from the main thread alone.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise ImportError(
            f"the backend 'mpi' needs mpi4py and an MPI library, such as the cluster's own, or the package mpich "
            f"({error}): pip install 'graphroot[mpi]', or use the backend 'gloo'"
        ) from error
    if MPI.Is_finalized():
        raise RuntimeError("MPI was finalized in this process, and cannot be started again")
    if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
        raise RuntimeError(
            "MPI was started for the main thread alone, and process groups call it from threads: have mpi4py start it "
            "with mpi4py.rc.thread_level = 'multiple', its default"
        )
    return MPI

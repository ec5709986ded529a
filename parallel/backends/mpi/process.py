"""MPI in this process: how the library is loaded, called by one thread at a time, joined and left.

Processes leave in order where that can be, and else by ending the job, so that no rank waits for ever.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import sys
import threading
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import drv
from parallel.groups.errors import DistBackendError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from types import TracebackType

    from numpy.typing import NDArray

    from parallel.backends.backend import Array

#: Seconds that operations given up have at exit to end after all.
_GRACE = 1.0
#: Seconds that the launcher has to show what was written before the end.
_FORWARDING = 0.3
_PAUSE = 0.001
_READY, _GO, _CREATE, _ROLL_CALL = 1, 2, 3, 4
#: Tags of roll calls, from the last one of these on: each group has its own.
_ROLL_CALLS = 1000
#: Seconds in which ranks whose operation was not over in time wait for the others to say the same.
_ANSWER = 2.0

#: Held for each call of MPI: not every library is made for several threads at once, and groups have some.
calls = threading.RLock()


class _Process:
    """What this process has to do with MPI."""

    def __init__(self) -> None:
        #: The communicator of all ranks, once it was asked for.
        self.world: Any = None
        self.watched = False
        self.failed = False
        #: Requests that were given up, with the memory that MPI may still write to.
        self.abandoned: list[tuple[Any, Sequence[Array | None]]] = []


_process = _Process()


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


def reaches_devices() -> bool:
    """Whether the MPI library takes addresses of GPUs' memory, and GPUs are not simulated."""
    return _knows_cuda() and not drv.runtime().simulated


@functools.cache
def _knows_cuda() -> bool:
    library()
    # mpi4py has loaded it, from wherever it is.
    mapped = (line.split(maxsplit=5)[-1] for line in Path("/proc/self/maps").read_text().splitlines())
    for path in dict.fromkeys(path for path in mapped if Path(path).name.startswith("libmpi")):
        query = getattr(ctypes.CDLL(path), "MPIX_Query_cuda_support", None)
        if query is not None and query():
            return True
    return False


def world(timeout: timedelta) -> Any:
    """The communicator of all ranks of the job, for :func:`subgroup` alone. All ranks call this.

    From then on an exception that ends one rank ends all.

    Raises
    ------
    ImportError, RuntimeError
        If there is no MPI that groups can use.
    DistBackendError
        If the other ranks do not call it in time.
    """
    mpi = library()
    if _process.world is None:
        if mpi.COMM_WORLD.Get_size() > 1:
            _end_with_the_job()
        with calls:
            # Of our own: the user's program may use MPI's.
            duplicate, request = mpi.COMM_WORLD.Idup()
        _wait(request, timeout, "init_process_group", f"the other ranks of {mpi.COMM_WORLD.Get_size()}")
        with calls:
            duplicate.Set_errhandler(mpi.ERRORS_RETURN)
        _process.world = duplicate
    return _process.world


def subgroup(communicator: Any, ranks: Sequence[int], timeout: timedelta) -> Any:
    """A communicator of some ranks of ``communicator``, in their order; those ranks call this.

    Raises
    ------
    DistBackendError
        If one of them does not call it in time.
    """
    # MPI's own function waits without a limit, so the members meet first.
    lead, *others = ranks
    # Of one length for all groups, so that those who ask for different ones can say so.
    asked = np.full(communicator.Get_size(), -1)
    asked[: len(ranks)] = ranks
    whom = f"rank {{}} of the group {list(ranks)}"

    def send(rank: int, tag: int) -> None:
        with calls:
            request = communicator.Isend([asked, library().INT64_T], rank, tag)
        _wait(request, timeout, "new_group", whom.format(rank))

    def receive(rank: int, tag: int) -> NDArray[np.int64]:
        received = np.zeros_like(asked)
        with calls:
            request = communicator.Irecv([received, library().INT64_T], rank, tag)
        _wait(request, timeout, "new_group", whom.format(rank), receives=True)
        return received

    if communicator.Get_rank() == lead:
        for other in others:
            received = receive(other, _READY)
            if not np.array_equal(received, asked):
                raise DistBackendError(
                    f"new_group: ranks ask for different groups: rank {lead} for {list(ranks)}, rank {other} for "
                    f"{received[received >= 0].tolist()}"
                )
        for other in others:
            send(other, _GO)
    else:
        send(lead, _READY)
        receive(lead, _GO)
    with calls:
        members = communicator.Get_group().Incl(list(ranks))
        created = communicator.Create_group(members, _CREATE)
        members.Free()
    return created


def silent_ranks(communicator: Any) -> list[int]:
    """Ranks of ``communicator`` that say nothing while the others, whose operation was not over in time, all call this."""
    if _process.world is None:
        return []
    mpi = library()
    with calls:
        group, everybody = communicator.Get_group(), _process.world.Get_group()
        rank, size = communicator.Get_rank(), communicator.Get_size()
        ranks = group.Translate_ranks(list(range(size)), everybody)
        group.Free()
        everybody.Free()
        tag = _ROLL_CALL + zlib.crc32(str(list(ranks)).encode()) % _ROLL_CALLS
        word = np.zeros(1, np.int8)
        heard = {other: np.zeros(1, np.int8) for other in range(size) if other != rank}
        sending = [_process.world.Isend([word, mpi.INT8_T], ranks[other], tag) for other in heard]
        receiving = {
            other: _process.world.Irecv([buffer, mpi.INT8_T], ranks[other], tag)
            for other, buffer in heard.items()
        }
    deadline = time.monotonic() + _ANSWER
    silent = list(heard)
    while silent and time.monotonic() < deadline:
        silent = [other for other in silent if not _done(receiving[other])]
        time.sleep(_PAUSE)
    for other in silent:
        give_up(receiving[other], (heard[other],), receives=True)
    for request in sending:
        give_up(request, (word,), receives=False)
    return silent


def _wait(request: Any, timeout: timedelta, operation: str, whom: str, *, receives: bool = False) -> None:
    mpi = library()
    deadline = time.monotonic() + timeout.total_seconds()
    try:
        while not _done(request):
            if time.monotonic() >= deadline:
                give_up(request, (), receives=receives)
                raise DistBackendError(
                    f"{operation}: Operation timed out! Over MPI, rank {mpi.COMM_WORLD.Get_rank()} waited {timeout} for "
                    f"{whom}"
                )
            time.sleep(_PAUSE)
    except mpi.Exception as error:
        raise DistBackendError(f"{operation}: over MPI, with {whom}: {error}") from error


def _done(request: Any) -> bool:
    with calls:
        return bool(request.Test())


def give_up(request: Any, buffers: Sequence[Array | None], *, receives: bool) -> None:
    """Wait for ``request`` no more. ``buffers`` that MPI may still use stay alive.

    What receives a message can be taken back; nothing else can.
    """
    with calls:
        if receives:
            request.Cancel()
        if not request.Test():
            _process.abandoned.append((request, buffers))


def _end_with_the_job() -> None:
    """From now on, an exception that ends this process ends the other ranks too.

    Otherwise it would wait at its exit for the other ranks, which wait for it.
    """
    if _process.watched:
        return
    _process.watched = True
    before = sys.excepthook

    def note(error_type: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        _process.failed = True
        before(error_type, error, traceback)

    sys.excepthook = note
    # Before mpi4py finalizes MPI, which it does when the interpreter is gone.
    atexit.register(_leave)


def _leave() -> None:
    from mpi4py import MPI

    if MPI.Is_finalized():
        return
    deadline = time.monotonic() + _GRACE
    while _process.abandoned and not _process.failed and time.monotonic() < deadline:
        with calls:
            _process.abandoned = [each for each in _process.abandoned if not each[0].Test()]
        time.sleep(0.01)
    if _process.failed or _process.abandoned:
        why = "an exception" if _process.failed else "operations that were given up and cannot be taken back"
        print(
            f"rank {MPI.COMM_WORLD.Get_rank()} leaves MPI after {why}: all ranks of the job end",
            file=sys.stderr,
            flush=True,
        )
        sys.stdout.flush()
        # The launcher, told to end everything, may drop what it has not forwarded yet.
        time.sleep(_FORWARDING)
        MPI.COMM_WORLD.Abort(1)

"""Runs a function in several processes, so that the failure of one ends all and is raised in the caller."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

from parallel.groups.job_secret import VARIABLE, secret_for_children
from parallel.groups.waiting import LONGEST_WAIT, seconds_until

from .exit_codes import describe_exit, signal_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

# How long processes may take to end after SIGTERM, in seconds, where the caller names no grace period.
GRACE_PERIOD = 5.0

# A traceback that is longer loses its middle: it has to fit a pipe that nobody may be reading yet.
_LONGEST_TRACEBACK = 30_000


class ProcessException(Exception):  # noqa: N818 - PyTorch's name
    """A process of :func:`parallel.spawn` failed. Base class of the two exceptions that are raised.

    Attributes
    ----------
    msg : str
        The message.
    error_index : int
        Index of the process that failed first.
    error_pid : int
        Its process id.
    """

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = error_pid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """The function raised in a process; the message holds the traceback from there.

    Attributes are those of :class:`ProcessException`.
    """


class ProcessExitedException(ProcessException):
    """A process ended with an exit code other than 0, or by a signal.

    Attributes
    ----------
    msg, error_index, error_pid
        See :class:`ProcessException`.
    exit_code : int
        The exit code; minus the signal's number if one ended it.
    signal_name : str or None
        The signal's name, such as ``"SIGSEGV"``.
    """

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


@dataclass(slots=True)
class _Progress:
    """What a process has told: that it called the function, and when (``time.monotonic``) and how that failed."""

    called: bool = False
    failed_at: float = 0.0
    traceback: str = ""


class ProcessContext:
    """The processes that :func:`parallel.spawn` with ``join=False`` has started, which constructs it.

    >>> context = parallel.spawn(work, nprocs=2, join=False)  # doctest: +SKIP
    >>> while not context.join(timeout=5):  # doctest: +SKIP
    ...     print("still running")

    Attributes
    ----------
    processes : list
        One ``multiprocessing`` process per index.
    sentinels : dict of int to int
        The index of each process that still runs, by the handle that ``multiprocessing.connection.wait`` takes.

    Parameters
    ----------
    processes : sequence of multiprocessing.Process
        The processes, by index.
    reports : sequence of multiprocessing.connection.Connection
        For each, the end of a pipe on which it tells how it failed.
    """

    def __init__(self, processes: Sequence[BaseProcess], reports: Sequence[Connection]) -> None:
        self.processes = list(processes)
        self.sentinels = {process.sentinel: index for index, process in enumerate(self.processes)}
        self._reports = dict(enumerate(reports))
        self._progress = [_Progress() for _ in self.processes]
        self._failure: ProcessException | None = None

    def pids(self) -> list[int]:
        """Process ids, by index; 0 for one that was not started.

        Ids of processes that have ended stay in the list.
        """
        return [process.pid or 0 for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until a process ends; True when all have ended well, False while some still run.

        When a process fails, the others get SIGTERM and, if they take too long, SIGKILL; so they do when anything
        interrupts the wait, as Ctrl-C does.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.
        grace_period : float, optional
            After a failure, the seconds that the others have to end by themselves before SIGTERM, and again before
            SIGKILL. By default they get SIGTERM at once, and SIGKILL after five seconds.

        Raises
        ------
        ProcessRaisedException
            If the function raised in a process; of several, the first.
        ProcessExitedException
            If a process ended otherwise than by returning from the function.
        """
        if self._failure is not None:
            raise self._failure
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            while self.sentinels:
                left = None if deadline is None else seconds_until(deadline)
                waited_for: list[Any] = [*self.sentinels, *self._reports.values()]
                ready = multiprocessing.connection.wait(waited_for, left)
                noticed = time.monotonic()
                self._read_reports()
                ended = [self.sentinels.pop(each) for each in ready if isinstance(each, int)]
                failed = self._first_failure(ended, noticed)
                if failed is not None:
                    self._end(grace_period)
                    self._failure = self._describe(failed)
                    raise self._failure
                if ended or (not ready and left != LONGEST_WAIT):
                    break
        except ProcessException:
            raise
        except BaseException:
            self._end(None)
            raise
        if not self.sentinels:
            self._close()
        return not self.sentinels

    def _read_reports(self) -> None:
        for index, report in list(self._reports.items()):
            progress = self._progress[index]
            try:
                while report.poll(0):
                    message = report.recv()
                    progress.called = True
                    if message is not None:
                        progress.failed_at, progress.traceback = message
            except (EOFError, OSError):
                report.close()
                del self._reports[index]

    def _first_failure(self, ended: Sequence[int], noticed: float) -> int | None:
        """Index of the process that failed before all others, if any has failed."""
        times = {index: each.failed_at for index, each in enumerate(self._progress) if each.traceback}
        for index in ended:
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                times.setdefault(index, noticed)
        return min(times, key=times.__getitem__) if times else None

    def _end(self, grace_period: float | None) -> None:
        """End every process: wait, SIGTERM, wait, SIGKILL."""
        if grace_period is not None:
            self._wait(grace_period)
        for index, process in enumerate(self.processes):
            # One that has raised is about to end and may be tidying up.
            if process.is_alive() and not self._progress[index].traceback:
                process.terminate()
        self._wait(GRACE_PERIOD if grace_period is None else grace_period)
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()
        self._read_reports()
        self._close()

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for process in self.processes:
            process.join(seconds_until(deadline))

    def _close(self) -> None:
        self.sentinels.clear()
        for report in self._reports.values():
            report.close()
        self._reports.clear()

    def _describe(self, index: int) -> ProcessException:
        process, progress = self.processes[index], self._progress[index]
        pid, code = process.pid or 0, process.exitcode or 0
        also = [
            f"\nProcess {other} failed after it: {each.traceback.rstrip().splitlines()[-1]}"
            for other, each in enumerate(self._progress)
            if each.traceback and other != index
        ]
        if progress.traceback:
            message = f"\n\n-- Process {index} terminated with the following error:\n{progress.traceback}"
            return ProcessRaisedException(message + "".join(also), index, pid)
        message = f"process {index} terminated with {describe_exit(code)}"
        if not progress.called:
            message += (
                ", before the function was called: what it printed says why. A spawned process imports the main "
                "module and finds the function there by its name: define it at the top of a module, and start "
                "processes under `if __name__ == '__main__':`"
            )
        return ProcessExitedException(
            message + "".join(also), index, pid, code, signal_name(-code) if code < 0 else None
        )


#: PyTorch's older name.
SpawnContext = ProcessContext


@overload
def start_processes(
    fn: Callable[..., object],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: Literal[True] = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> None: ...


@overload
def start_processes(
    fn: Callable[..., object],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    *,
    join: Literal[False],
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext: ...


def start_processes(
    fn: Callable[..., object],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Call ``fn(i, *args)`` in ``nprocs`` processes, i = 0, 1, ..., started by any method; see :func:`parallel.spawn`.

    Parameters
    ----------
    fn, args, nprocs, join, daemon
        See :func:`parallel.spawn`.
    start_method : str
        ``"spawn"`` (fresh interpreters), ``"forkserver"``, or ``"fork"``, which CUDA does not survive once it is in
        use.

    Returns
    -------
    ProcessContext or None
        See :func:`parallel.spawn`.

    Raises
    ------
    TypeError, ValueError
        If ``fn`` is not callable, ``args`` not a tuple or list, ``nprocs`` not positive, or ``start_method`` unknown.
    ProcessRaisedException, ProcessExitedException
        See :func:`parallel.spawn`.
    """
    if not callable(fn):
        raise TypeError(f"spawn: fn must be a function, not {type(fn).__name__}")
    if not isinstance(args, (tuple, list)):
        raise TypeError(
            f"spawn: args must be the tuple of fn's further arguments, not {type(args).__name__}; "
            "for a single one write args=(value,)"
        )
    if isinstance(nprocs, bool) or not isinstance(nprocs, int) or nprocs < 1:
        raise ValueError(f"spawn: nprocs must be an integer of at least 1, not {nprocs!r}")
    if start_method not in multiprocessing.get_all_start_methods():
        methods = ", ".join(multiprocessing.get_all_start_methods())
        raise ValueError(f"spawn: start_method must be one of {methods}, not {start_method!r}")
    context = _start(fn, tuple(args), nprocs, daemon, start_method)
    if not join:
        return context
    while not context.join():
        pass
    return None


def _start(
    fn: Callable[..., object], args: tuple[Any, ...], nprocs: int, daemon: bool, start_method: str
) -> ProcessContext:
    factory: Any = multiprocessing.get_context(start_method)
    processes: list[BaseProcess] = []
    reports: list[Connection] = []
    secret = secret_for_children()
    try:
        for index in range(nprocs):
            receiver, sender = factory.Pipe(duplex=False)
            reports.append(receiver)
            with sender:
                process = factory.Process(target=_call, args=(fn, index, args, sender, secret), daemon=daemon)
                process.start()
            processes.append(process)
    except BaseException:
        ProcessContext(processes, reports)._end(None)
        raise
    return ProcessContext(processes, reports)


@overload
def spawn(
    fn: Callable[..., object],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: Literal[True] = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> None: ...


@overload
def spawn(
    fn: Callable[..., object],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    *,
    join: Literal[False],
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext: ...


def spawn(
    fn: Callable[..., object],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Call ``fn(i, *args)`` in ``nprocs`` fresh processes, i = 0, 1, ..., and wait for them.

    When one fails, the others are ended and its error is raised here. No process outlives this one. The processes get a
    secret in the environment variable GRAPHROOT_JOB_SECRET, this process's own or a new one, and meet nobody who does
    not know it (docs/distributed.md).

    >>> def work(rank, size):  # at the top of a module  # doctest: +SKIP
    ...     parallel.init_process_group("gloo", "tcp://localhost:29500", rank=rank, world_size=size)
    >>> if __name__ == "__main__":  # doctest: +SKIP
    ...     parallel.spawn(work, args=(2,), nprocs=2)

    Parameters
    ----------
    fn : function
        A function at the top of a module, which the processes can import.
    args : tuple
        Its further arguments, which are pickled.
    nprocs : int
        Number of processes.
    join : bool
        Whether to wait; else a :class:`parallel.ProcessContext` is returned, whose ``join`` does.
    daemon : bool
        Whether the processes are daemons in the sense of ``multiprocessing``.
    start_method : str
        Always ``"spawn"``; :func:`parallel.start_processes` knows others.

    Returns
    -------
    ProcessContext or None
        The running processes with ``join=False``, else None.

    Raises
    ------
    TypeError, ValueError
        If ``fn`` is not callable, ``args`` not a tuple or list, or ``nprocs`` not positive.
    ProcessRaisedException
        If ``fn`` raised in a process; the message holds its traceback.
    ProcessExitedException
        If a process ended with an exit code other than 0, or by a signal.
    """
    if start_method != "spawn":
        warnings.warn(
            f"spawn always uses the start method 'spawn' and not {start_method!r}; for another one use "
            "parallel.start_processes",
            FutureWarning,
            stacklevel=2,
        )
    if not join:
        return start_processes(fn, args, nprocs, join=False, daemon=daemon)
    return start_processes(fn, args, nprocs, daemon=daemon)


def _call(
    fn: Callable[..., object], index: int, args: tuple[Any, ...], report: Connection, secret: str
) -> None:
    """What a process runs."""
    os.environ[VARIABLE] = secret
    _end_with_parent()
    # Without a reader the parent is gone, and the watch ends this process.
    with contextlib.suppress(OSError):
        report.send(None)
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        # Ctrl-C reaches the parent too, which raises it; an interrupt of this process alone is a failure.
        sys.stdout.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except Exception:
        text = traceback.format_exc()
        if len(text) > _LONGEST_TRACEBACK:
            half = _LONGEST_TRACEBACK // 2
            text = f"{text[:half]}\n... ({len(text) - 2 * half:,} characters left out) ...\n{text[-half:]}"
        with contextlib.suppress(OSError):
            report.send((time.monotonic(), text))
        sys.exit(1)


def _end_with_parent() -> None:
    """Let this process end soon after the one that started it is gone, however that ended."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def watch() -> None:
        multiprocessing.connection.wait([sentinel])
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_PERIOD)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="parallel-parent-watch", daemon=True).start()

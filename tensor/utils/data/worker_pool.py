"""The processes that read a loader's batches, seen from the process that uses them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import weakref
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, NoReturn

from tensor.core.host.shared_memory import new_name

from .transport import remove, unpack
from .workers import Epoch, Task, work

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import BaseContext
    from multiprocessing.process import BaseProcess

    from .workers import Reply, WorkerSetup
#: Seconds between looks at whether the workers live; their pipes mostly tell at once.
LIFE_CHECK = 1.0
#: Seconds that a worker gets to end by itself, and after a signal.
_PATIENCE = 5.0
_PATIENCE_AFTER_SIGNAL = 2.0


class _Processes:
    """The processes, their pipes, and the names of blocks of shared memory that may be under way."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.processes: list[BaseProcess] = []
        self.pipes: list[Connection] = []
        self.names: set[str] = set()
        self.closed = False

    def start(self, setup: WorkerSetup, context: BaseContext) -> None:
        # One tracker for all: it unlinks what is left should this process be killed.
        resource_tracker.ensure_running()
        forks = context.get_start_method() == "fork"
        for worker in range(setup.count):
            mine, theirs = context.Pipe()
            self.pipes.append(mine)
            inherited = tuple(self.pipes) if forks else ()
            process = context.Process(  # type: ignore[attr-defined]
                target=work,
                args=(theirs, setup, worker, inherited),
                daemon=True,
                name=f"DataLoader worker {worker}",
            )
            try:
                process.start()
            finally:
                theirs.close()
            self.processes.append(process)

    def unpacked(self, reply: Reply) -> Any:
        """The batch of a reply. Raises what reading it raised."""
        if reply.failure is not None:
            reply.failure.reraise()
        try:
            return unpack(reply.packed)
        finally:
            self.names.discard(reply.packed[0])

    def close(self) -> None:
        """End the processes, by force where need be, and remove what they left."""
        if self.closed or os.getpid() != self.owner:
            return
        self.closed = True
        for pipe in self.pipes:
            with contextlib.suppress(OSError, ValueError):
                pipe.send(None)
            pipe.close()
        self._join(_PATIENCE)
        for end in ("terminate", "kill"):
            for process in self.processes:
                if process.is_alive():
                    getattr(process, end)()
            self._join(_PATIENCE_AFTER_SIGNAL)
        for name in self.names:
            remove(name)
        self.names.clear()

    def _join(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))


class WorkerPool:
    """Worker processes. They end with :meth:`close`, with the object, or with the interpreter.

    Starting them raises what starting a process raises, such as an error of pickling the dataset.
    """

    def __init__(self, setup: WorkerSetup, context: BaseContext, prefetch: int) -> None:
        self.count = setup.count
        self.iterable = setup.iterable
        self.prefetch = prefetch
        self.epoch_number = 0
        self.token = new_name()
        self.workers = _Processes()
        self.close = weakref.finalize(self, self.workers.close)
        try:
            self.workers.start(setup, context)
        except BaseException:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        """Whether all workers can take tasks."""
        return not self.workers.closed and all(each.is_alive() for each in self.workers.processes)

    def begin(self) -> int:
        """Begin an iteration, and return its number; what an earlier one has left will be dropped."""
        self.epoch_number += 1
        for worker in range(self.count):
            self.send(worker, Epoch(self.epoch_number))
        return self.epoch_number

    def block_name(self, epoch: int, index: int) -> str:
        """Name of the shared memory of one batch."""
        return f"{self.token}-{epoch}-{index}"

    def ask(self, worker: int, index: int, keys: Any) -> None:
        """Give a worker a task of this iteration."""
        name = self.block_name(self.epoch_number, index)
        self.workers.names.add(name)
        self.send(worker, Task(index, keys, name))

    def send(self, worker: int, message: Task | Epoch) -> None:
        """Send a message. Raises ``RuntimeError`` if the worker is gone."""
        try:
            self.workers.pipes[worker].send(message)
        except OSError:
            self.report_dead(worker)

    def receive(self, seconds: float) -> list[Reply]:
        """Replies that are there, or come within ``seconds``. Raises ``RuntimeError`` if a worker is gone."""
        pipes = self.workers.pipes
        result = []
        ready: list[Any] = wait(pipes, seconds)
        for pipe in ready:
            try:
                reply: Reply = pipe.recv()
            except (EOFError, OSError):
                self.report_dead(pipes.index(pipe))
            if reply.packed is None or reply.packed[0] is None:
                self.workers.names.discard(self.block_name(reply.epoch, reply.index))
            if reply.epoch == self.epoch_number:
                result.append(reply)
            elif reply.packed is not None and reply.packed[0] is not None:
                remove(reply.packed[0])
                self.workers.names.discard(reply.packed[0])
        if not result:
            for worker, process in enumerate(self.workers.processes):
                # It may have answered just before it ended.
                if process.exitcode is not None and not pipes[worker].poll():
                    self.report_dead(worker)
        return result

    def report_dead(self, worker: int) -> NoReturn:
        """Raise an error that tells how a worker ended."""
        process = self.workers.processes[worker]
        process.join(LIFE_CHECK)
        code = process.exitcode
        if code is None:
            how = "it closed its pipe"
        elif code >= 0:
            how = (
                f"with exit code {code}. Its standard error may say why. A script that starts workers by spawn must "
                "do so under: if __name__ == '__main__'"
            )
        else:
            how = f"killed by signal {_signal_name(-code)}"
            if -code == signal.SIGKILL:
                how += ", maybe because memory ran out"
        raise RuntimeError(f"DataLoader worker (pid(s) {process.pid}) exited unexpectedly: {how}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)

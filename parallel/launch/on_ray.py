"""Launchers as actors of Ray: it finds machines for them, with as many processors and GPUs as there are ranks, and others for
those that are lost.

The command serves the rendezvous and starts an actor for each machine of the job, which runs the launcher there as a
user would; so rounds, restarts and machines that come and go are those of every job (:mod:`.coordinator`). What the
launchers write comes back and is shown here.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from parallel.groups.job_secret import VARIABLE, new_secret

from .exit_codes import signal_name
from .local_ranks import ENDING_SIGNALS, say
from .serving import Served

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .coordinator import Rules

#: Variables of this process that ranks have too; all others are those of their machine.
_PASSED_ON = ("GRAPHROOT_", "NCCL_", "OMP_", "OPENBLAS_", "MKL_", "PYTHON")
_PR_SET_PDEATHSIG = 1
_PIECE = 1 << 16
#: Seconds after which signals and the end of the job are noticed.
_PAUSE = 0.2
#: Seconds for launchers to end their ranks; these may save what they have for 30 seconds.
_GRACE = 40.0
_ENDED = b""


class _Launcher:
    """The launcher of one machine, in a process of its own. Methods run in several threads at once."""

    def __init__(self, command: Sequence[str], variables: dict[str, str], folder: str | None) -> None:
        library, actor = ctypes.CDLL(None), os.getpid()

        def end_with_actor() -> None:
            library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != actor:
                os._exit(1)

        # Ray starts actors with one thread for each of their processors; ranks have their own rules.
        environment = {name: text for name, text in os.environ.items() if name != "OMP_NUM_THREADS"}
        self._process = subprocess.Popen(
            [sys.executable, *command],
            env=environment | variables,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=end_with_actor,
        )
        self._output: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
        for stream, number in ((self._process.stdout, 1), (self._process.stderr, 2)):
            assert stream is not None
            threading.Thread(target=self._pass_on, args=(stream, number), daemon=True).start()
        self._open = 2

    def _pass_on(self, stream: IO[bytes], number: int) -> None:
        while data := os.read(stream.fileno(), _PIECE):
            self._output.put((number, data))
        self._output.put((number, _ENDED))

    def arrived(self) -> None:
        """Return at once: there is a machine for this."""

    def read(self) -> list[tuple[int, bytes]] | None:
        """What was written since the last call, by the number of the stream; waits for something. None at the end."""
        if not self._open:
            return None
        pieces = [self._output.get()]
        with contextlib.suppress(queue.Empty):
            while True:
                pieces.append(self._output.get_nowait())
        self._open -= sum(data == _ENDED for _, data in pieces)
        return pieces

    def signal(self, number: int) -> None:
        """Send a signal to the launcher, unless it has ended."""
        if self._process.poll() is None:
            self._process.send_signal(number)

    def status(self) -> int:
        """The launcher's exit status, once it has ended."""
        return self._process.wait()


@functools.cache
def _ray() -> Any:
    """Ray, which takes longer to import than all of our packages: programs that load all modules of these go without."""
    import ray

    return ray


def run_on_ray(
    address: str | None,
    working_directory: str | None,
    job_id: str,
    rules: Rules,
    ranks: int | None,
    options: Sequence[str],
) -> int:
    """Run a job on the machines of a Ray cluster; the exit status.

    Parameters
    ----------
    address
        Of the cluster; by default that of RAY_ADDRESS, of the one that runs on this machine, or one of this machine alone.
    working_directory
        A folder that is copied to the machines, where the launchers run then; by default they run in the folder with the
        path of this process's.
    job_id, rules
        The job's name, how many machines there may be, and how long they are waited for.
    ranks
        Ranks of each machine; by default one for each of a machine's GPUs, or processors.
    options
        The launcher's further options, the script and its arguments.
    """
    former = os.environ.get(VARIABLE)
    os.environ.setdefault(VARIABLE, new_secret())
    try:
        environment = {"working_dir": working_directory} if working_directory is not None else {}
        _ray().init(address=address, runtime_env=environment, log_to_driver=False, logging_level="warning")
        with (
            Served(_ray().util.get_node_ip_address(), job_id, rules) as served,
            _received_signals() as received,
        ):
            return _Job(served, rules, ranks, options, working_directory is not None).run(received)
    finally:
        _ray().shutdown()
        if former is None:
            del os.environ[VARIABLE]


class _Job:
    """The launchers of a job, and those that come for others that were lost."""

    def __init__(
        self, served: Served, rules: Rules, ranks: int | None, options: Sequence[str], copied: bool
    ) -> None:
        self._served, self._rules = served, rules
        count, gpus = _resources(ranks)
        self._folder = None if copied else str(Path.cwd())
        self._command = [
            *("-m", "parallel.launch", "--rdzv-backend", "c10d", "--rdzv-id", served.job_id),
            *("--rdzv-endpoint", f"{served.address}:{served.port}", "--rdzv-conf", _conf(rules)),
            *("--nnodes", f"{rules.least}:{rules.most}", "--nproc-per-node", str(count), *options),
        ]
        self._variables = {name: text for name, text in os.environ.items() if name.startswith(_PASSED_ON)}
        self._actor = (
            _ray()
            .remote(_Launcher)
            .options(
                num_cpus=0 if gpus else count, num_gpus=gpus, scheduling_strategy="SPREAD", max_concurrency=4
            )
        )
        #: Who writes what a pending call will return.
        self._reading: dict[Any, Any] = {}
        #: Calls that return when an actor is on a machine.
        self._arriving: dict[Any, Any] = {}
        self._left = rules.max_restarts
        self._received: list[int] = []
        self._status = 1

    def run(self, received: list[int]) -> int:
        """Show what launchers write until all have ended, and pass the signals on to them that are received meanwhile."""
        self._received = received
        for _ in range(self._rules.most):
            self._start()
        passed_on = 0
        while self._reading:
            ready, _ = _ray().wait(list(self._reading), timeout=_PAUSE)
            for call in ready:
                self._take(call)
            for number in received[passed_on:]:
                for actor in set(self._reading.values()):
                    actor.signal.remote(number)
                passed_on += 1
            # After a signal launchers end by themselves, but for those that wait for a machine.
            if self._served.over or (received and not self._running()):
                self._leave_pending()
        if received:
            say(f"received {signal_name(received[0])}; every rank has been ended")
            return 128 + received[0]
        return self._served.status if self._served.over else self._status

    def _start(self) -> None:
        actor = self._actor.remote(self._command, self._variables, self._folder)
        self._arriving[actor] = actor.arrived.remote()
        self._reading[actor.read.remote()] = actor

    def _take(self, call: Any) -> None:
        actor = self._reading.pop(call)
        try:
            pieces = _ray().get(call)
            if pieces is not None:
                for number, data in pieces:
                    stream = sys.stdout if number == 1 else sys.stderr
                    stream.buffer.write(data)
                    stream.flush()
                self._reading[actor.read.remote()] = actor
                return
            status = _ray().get(actor.status.remote())
            if status == 0 or self._served.over or self._received:
                return
            self._status = status
            lost = f"a launcher has ended with status {status}"
        except _ray().exceptions.RayActorError as error:
            if self._served.over or self._received:
                return
            lost = f"Ray has lost a launcher ({str(error).splitlines()[0]})"
        if self._left:
            self._left -= 1
            say(f"{lost}; another one is started")
            self._start()
        else:
            say(lost)

    def _leave_pending(self) -> None:
        """Wait no longer for launchers that have not found a machine, nor for those that do not end in time."""
        deadline = _GRACE
        while self._reading and deadline > 0:
            ready, _ = _ray().wait(list(self._reading), timeout=1.0)
            for call in ready:
                self._take(call)
            if not ready:
                deadline -= 1.0
                if not self._running():
                    break
        for actor in self._reading.values():
            _ray().kill(actor)
        self._reading.clear()

    def _running(self) -> bool:
        """Whether a launcher that has not ended has found a machine."""
        return any(_ray().wait([self._arriving[actor]], timeout=0)[0] for actor in self._reading.values())


def _resources(ranks: int | None) -> tuple[int, int]:
    """How many ranks a machine has, and how many GPUs are asked for it."""
    machines = [each["Resources"] for each in _ray().nodes() if each["Alive"]]
    gpus = max(int(each.get("GPU", 0)) for each in machines)
    if ranks is None:
        ranks = gpus or max(int(each.get("CPU", 0)) for each in machines)
    return ranks, ranks if ranks <= gpus else 0


def _conf(rules: Rules) -> str:
    return f"is_host=false,keep_alive_interval={rules.keep_alive_interval},join_timeout={rules.join_timeout}"


@contextlib.contextmanager
def _received_signals() -> Iterator[list[int]]:
    """The numbers of the signals that end a launcher, as they come."""
    numbers: list[int] = []
    former = {
        number: signal.signal(number, lambda received, _: numbers.append(received))
        for number in ENDING_SIGNALS
    }
    try:
        yield numbers
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)

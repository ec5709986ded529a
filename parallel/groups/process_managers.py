"""What programs that start processes tell them: ``mpiexec`` of Open MPI, MPICH and Intel MPI, and Slurm's ``srun``.

Each process finds in its environment which of how many it is, and how many there are on its machine. Where rank 0 is
reached stands there for Slurm alone. On one machine no address is needed; between machines MPI tells it. Ports follow
from what names the job, so that its processes have the same without asking each other.
"""

from __future__ import annotations

import os
import re
import socket
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import job_secret

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

#: Ports of which a job has one: above those of services, and below those that systems give to connections.
_PORTS = range(15000, 32000)
_MACHINES = re.compile(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)*")
_REPEATED = re.compile(r"(\d+)(?:\(x(\d+)\))?")


@dataclass(frozen=True, slots=True)
class ProcessManager:
    """A program that starts processes, by the variables that it sets for them.

    Attributes
    ----------
    name
        What messages call it.
    rank, size, local_rank, local_size
        The variables: number of the process, number of processes, and both on its machine. Slurm has no variable for the
        last one.
    """

    name: str
    rank: str
    size: str
    local_rank: str
    local_size: str = ""


_SLURM = ProcessManager("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID")
#: In this order: mpiexec starts processes by srun, or srun by the variables of mpiexec, and then both are there. The
#: variables of a step of Slurm are not those of a batch script, which is one process, however many the job has.
MANAGERS = (
    ProcessManager(
        "mpiexec (Open MPI)",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    ProcessManager("mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    _SLURM,
)


@dataclass(frozen=True, slots=True)
class Started:
    """A process that a manager has started.

    Attributes
    ----------
    manager
        What has started it.
    rank, size
        Its number, and how many there are.
    local_rank, local_size
        The same on its machine; None where the manager does not say.
    """

    manager: ProcessManager
    rank: int
    size: int
    local_rank: int | None
    local_size: int | None

    def address(self, timeout: timedelta) -> tuple[str, int]:
        """Host and port at which rank 0 can serve a store; all processes call this, and get the same.

        Between machines that MPI connects the job's secret comes along, if the environment has none.

        Parameters
        ----------
        timeout
            How long MPI may take to start.

        Raises
        ------
        ValueError
            If processes are on several machines, and nothing says where rank 0 is.
        ImportError, RuntimeError, DistBackendError
            If MPI has to say it, and cannot.
        """
        if self.local_size == self.size:
            return "127.0.0.1", self._port()
        if self.manager is _SLURM:
            nodes = os.environ.get("SLURM_STEP_NODELIST") or os.environ.get("SLURM_JOB_NODELIST", "")
            if nodes:
                return next(machines(nodes)), self._port()
        return self._told_by_mpi(timeout)

    def _port(self) -> int:
        """A port that all processes of this job on this machine, or of this step of Slurm, take."""
        return _PORTS[zlib.crc32(self._job().encode()) % len(_PORTS)]

    def _job(self) -> str:
        """What no other job of this time has."""
        if self.manager is _SLURM:
            return ".".join(os.environ.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID"))
        # The program that has started all processes of this machine is the nearest that has no rank itself.
        process = os.getppid()
        while process > 1 and _has_variable(process, self.manager.rank):
            process = _parent(process)
        return f"{process} {_started_at(process)}"

    def _told_by_mpi(self, timeout: timedelta) -> tuple[str, int]:
        # mpi4py, which it needs, is an optional package.
        from parallel.backends.mpi.process import world

        try:
            communicator = world(timeout)
        except ImportError as error:
            raise ValueError(
                f"{self.manager.name} has started {self.size} processes on several machines, and does not say where rank 0 "
                "is: set MASTER_ADDR to its name or address and MASTER_PORT to a free port of it, or install what MPI needs "
                f"to tell them ({error})"
            ) from error
        told = None
        if communicator.Get_rank() == 0:
            with socket.create_server(("", 0)) as free:
                port = free.getsockname()[1]
            host = os.environ.get("PMI_HOSTNAME") or os.environ.get("PMIX_HOSTNAME") or socket.gethostname()
            told = host, port, job_secret.secret_for_children()
        host, port, secret = communicator.bcast(told)
        job_secret.adopt(secret)
        return host, port


def started() -> Started | None:
    """What the manager says that has started this process; None where there is none.

    Raises
    ------
    ValueError
        If one of its variables is not a number.
    """
    for manager in MANAGERS:
        if manager.rank in os.environ and manager.size in os.environ:
            local_size = _tasks_of_this_node() if manager is _SLURM else _number(manager.local_size, manager)
            rank, size = _number(manager.rank, manager), _number(manager.size, manager)
            assert rank is not None
            assert size is not None
            return Started(manager, rank, size, _number(manager.local_rank, manager), local_size)
    return None


def machines(nodes: str) -> Iterator[str]:
    """The names that a list of Slurm has: ``"node[01-03,7],other"`` for node01, node02, node03, node7, other."""
    for item in _MACHINES.findall(nodes):
        yield from _expanded(item)


def _expanded(item: str) -> Iterator[str]:
    before, bracket, rest = item.partition("[")
    if not bracket:
        yield item
        return
    numbers, _, after = rest.partition("]")
    for part in numbers.split(","):
        first, dash, last = part.partition("-")
        # As many digits as are written, with zeros before them.
        for number in range(int(first), int(last if dash else first) + 1):
            for end in _expanded(after):
                yield f"{before}{number:0{len(first)}}{end}"


def _tasks_of_this_node() -> int | None:
    """Slurm's list of numbers of tasks, ``"4(x2),3"`` for 4, 4, 3, has one for each node."""
    text, node = os.environ.get("SLURM_STEP_TASKS_PER_NODE"), os.environ.get("SLURM_NODEID")
    if text is None or node is None:
        return None
    counts = [int(count) for count, times in _REPEATED.findall(text) for _ in range(int(times or 1))]
    return counts[int(node)] if int(node) < len(counts) else None


def _number(variable: str, manager: ProcessManager) -> int | None:
    text = os.environ.get(variable)
    if text is None:
        return None
    if not text.isdecimal():
        raise ValueError(
            f"the environment variable {variable}, which {manager.name} sets, is a number from 0 on, not {text!r}"
        )
    return int(text)


def _has_variable(process: int, name: str) -> bool:
    """Whether a process was started with a variable; not if it is another user's."""
    try:
        variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(each.startswith(name.encode() + b"=") for each in variables)


def _fields(process: int) -> list[str]:
    """What the system says of a process, from its state on: the name before it may have blanks."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()


def _parent(process: int) -> int:
    return int(_fields(process)[1])


def _started_at(process: int) -> str:
    try:
        return _fields(process)[19]
    except OSError:
        return ""

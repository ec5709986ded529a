"""The rounds of a job: the ranks run, and where a failure allows another round, they are started once more."""

from __future__ import annotations

import contextlib
import secrets
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from .local_ranks import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from .local_ranks import LocalRanks, Outcome


@dataclass(slots=True, frozen=True)
class Round:
    """What the launcher of one node has to know to start its ranks.

    Attributes
    ----------
    number
        0 for the first.
    restarts
        How many rounds before it have failed; a round that ended because a node came is none of them.
    node, nodes
        The number of this node, and how many there are.
    first_rank, world_size
        The rank of this node's first process, and how many there are on all nodes.
    address, port
        Where the store is in which the ranks meet.
    served
        Whether it is served already; else rank 0 does.
    """

    number: int
    restarts: int
    node: int
    nodes: int
    first_rank: int
    world_size: int
    address: str
    port: int
    served: bool = False


class Rendezvous(Protocol):
    """Where the nodes of a job agree on what runs next.

    Attributes
    ----------
    job_id
        The job's name, the same in all rounds and on all nodes.
    alone
        Whether no other node can take part.
    restarting
        Whether there may be more than one round.
    stop
        Readable when the ranks that run have to end; None where nothing asks for that.
    status
        The exit status of the launcher, once there is no further round.
    """

    job_id: str
    alone: bool
    restarting: bool
    status: int

    @property
    def stop(self) -> socket.socket | None: ...

    def __enter__(self) -> object:
        """Meet the other nodes."""

    def __exit__(self, *_: object) -> None:
        """Leave them."""

    def next_round(self) -> Round | None:
        """What this node runs next; None when the job is over."""

    def conclude(self, finished: Round, outcome: Outcome) -> None:
        """Tell how this node's ranks have ended."""


def run_rounds(rendezvous: Rendezvous, ranks_of: Callable[[Round], LocalRanks]) -> int:
    """Run rounds until there is no further one; the exit status for the launcher.

    Parameters
    ----------
    rendezvous
        Says what is run, and is told how it ended.
    ranks_of
        The ranks of this node in a round.
    """
    with rendezvous:
        while (current := rendezvous.next_round()) is not None:
            rendezvous.conclude(current, ranks_of(current).run(rendezvous.stop))
    return rendezvous.status


class FixedNodes:
    """A rendezvous of nodes that never change, and need not speak with each other: all is in the command line.

    Only a node that is alone can start its ranks once more, as several would have to do it together.

    Parameters
    ----------
    address, port
        Where rank 0 serves the store; without ``port`` each round has a free one of this machine.
    node, nodes, processes
        The number of this node, how many there are, and how many ranks each has.
    max_restarts
        How often the ranks are started once more after one has failed.
    job_id
        The job's name; by default the address, or one that no other job has.
    """

    stop: socket.socket | None = None

    def __init__(
        self,
        address: str,
        port: int | None,
        node: int,
        nodes: int,
        processes: int,
        max_restarts: int,
        job_id: str | None = None,
    ) -> None:
        self._address, self._port = address, port
        self._node, self._nodes, self._processes = node, nodes, processes
        self._max_restarts = max_restarts
        self._restarts = 0
        self._over = False
        self._reserved = contextlib.ExitStack()
        self.alone = nodes == 1
        self.restarting = max_restarts > 0
        self.job_id = job_id or (f"{address}:{port}" if port is not None else secrets.token_hex(8))
        self.status = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reserved.close()

    def next_round(self) -> Round | None:
        """What this node runs next; None when the job is over."""
        self._reserved.close()
        if self._over:
            return None
        return Round(
            number=self._restarts,
            restarts=self._restarts,
            node=self._node,
            nodes=self._nodes,
            first_rank=self._node * self._processes,
            world_size=self._nodes * self._processes,
            address=self._address,
            port=self._port if self._port is not None else reserve_port(self._reserved),
        )

    def conclude(self, finished: Round, outcome: Outcome) -> None:
        """Decide by how this node's ranks have ended whether there is another round."""
        self.status = outcome.status
        if not outcome.failure or outcome.signal is not None:
            self._over = True
        elif self._restarts == self._max_restarts:
            self._over = True
            if self.restarting:
                say(f"{used_up(outcome.failure, self._max_restarts)}; the job has failed")
        else:
            self._restarts += 1
            say(f"{outcome.failure}; restart {self._restarts} of {self._max_restarts}")


def reserve_port(until: contextlib.ExitStack) -> int:
    """A free port of this machine, which the system gives to nobody else until ``until`` is closed."""
    # Bound and not listening: rank 0 can listen there.
    reservation = until.enter_context(socket.socket())
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reservation.bind(("", 0))
    port: int = reservation.getsockname()[1]
    return port


def used_up(failure: str, max_restarts: int) -> str:
    """Why a failure is the last one."""
    times = "once" if max_restarts == 1 else f"{max_restarts} times"
    if not max_restarts:
        return f"{failure}, and --max-restarts is 0"
    return f"{failure}, and the ranks have been restarted {times} already, as often as --max-restarts allows"

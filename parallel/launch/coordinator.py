"""What the launcher that serves a rendezvous decides: who takes part in a round, when it ends, and what follows.

It is one state machine without threads, clocks or connections: messages of nodes and times go in, orders to nodes come
out. :mod:`.node_rendezvous` carries both.
"""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from .rounds import Round, used_up

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True, frozen=True)
class Rules:
    """How many nodes there may be, and how long they are waited for.

    Attributes
    ----------
    least, most
        How many nodes take part in a round.
    max_restarts
        How many rounds may fail and be followed by another one, on all nodes together.
    join_timeout
        Seconds until ``least`` nodes have to be there.
    last_call_timeout
        Seconds in which more than ``least`` may come before the first round.
    close_timeout
        Seconds that nodes have to leave at the end.
    keep_alive_interval, keep_alive_max_attempt
        After so many times so many seconds without a word a node is lost.
    """

    least: int
    most: int
    max_restarts: int = 0
    join_timeout: float = 600.0
    last_call_timeout: float = 30.0
    close_timeout: float = 30.0
    keep_alive_interval: float = 5.0
    keep_alive_max_attempt: int = 3

    @property
    def patience(self) -> float:
        """Seconds without a word after which a node is lost."""
        return self.keep_alive_interval * self.keep_alive_max_attempt


class State(enum.Enum):
    """What a node does."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"


@dataclass(slots=True)
class Node:
    """A node that has joined.

    Attributes
    ----------
    name
        What messages call it.
    processes
        How many ranks it starts.
    rank
        Nodes are numbered in the order of this.
    heard
        When it has said something last.
    """

    name: str
    processes: int
    rank: int
    heard: float
    state: State = State.WAITING


@dataclass(slots=True)
class Coordinator:
    """Decides for all nodes. Messages come to :meth:`take`, time passes in :meth:`pass_time`, orders wait in ``orders``.

    Messages are dictionaries with "node" (its key) and "event": "join" (with "name", "processes" and "rank", None where
    nodes are numbered as they come), "alive", "failed" (with "reason" and "status"), "stopped", "succeeded", and "leave"
    (with "reason"); "end" (with "status" and "reason") comes from the process that serves the rendezvous. Orders are "start" (with "round", a :class:`Round`'s fields, and "reason"), "stop" (the ranks; an
    outcome is awaited), and "end" (with "status" and "reason"; a "leave" is awaited).

    Attributes
    ----------
    reserve_port
        A port of this machine for the store of a round's ranks.
    say
        Takes what users should read while nodes are waited for.
    host
        The key of the node that serves the rendezvous, without which there is none; empty where a process serves it that is no
        node.
    serves_ranks
        Whether who serves the rendezvous serves the ranks' store, too, at the port that is reserved; else rank 0 does.
    status
        The exit status of the job, once it is ``over``.
    """

    rules: Rules
    address: str
    host: str
    reserve_port: Callable[[], int]
    say: Callable[[str], None]
    now: float
    serves_ranks: bool = False
    status: int = 0
    orders: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    nodes: dict[str, Node] = field(default_factory=dict)
    members: set[str] = field(default_factory=set)
    rounds: int = 0
    restarts: int = 0
    stopping: bool = False
    over: bool = False
    _arrivals: int = 0
    # Why there is another round.
    _reason: str = ""
    # Since when nodes are waited for, and until when more may come than are needed.
    _forming: float = 0.0
    _last_call: float | None = None

    def __post_init__(self) -> None:
        self._forming = self.now

    def take(self, message: dict[str, Any], now: float) -> None:
        """Act on what a node says."""
        self.now = now
        key, event = message["node"], message["event"]
        node = self.nodes.get(key)
        if event == "end":
            self.end(message["status"], message["reason"])
        elif event == "join":
            self._join(key, message)
        elif node is None:
            if event != "leave":
                reason = (
                    f"nothing was heard of this node for {self.rules.patience:g} s, and the others went on"
                )
                self._end_one(key, 1, reason)
        else:
            node.heard = now
            match event:
                case "failed":
                    node.state = State.WAITING
                    self._fail(f"{message['reason']} on {node.name}", message["status"])
                case "stopped":
                    node.state = State.WAITING
                case "succeeded":
                    node.state = State.DONE
                case "leave":
                    self._remove(key, f"{node.name} {message['reason']}")
                case _:
                    pass
        self._advance()

    def pass_time(self, now: float) -> None:
        """Act on what has not been heard until ``now``."""
        self.now = now
        for key, node in list(self.nodes.items()):
            if node.heard + self.rules.patience <= now:
                self._remove(key, f"nothing has been heard of {node.name} for {self.rules.patience:g} s")
        self._advance()

    def due(self) -> float:
        """When :meth:`pass_time` has something to do, if nothing is heard until then."""
        times = [node.heard + self.rules.patience for node in self.nodes.values()]
        if not self.members and not self.over:
            times.append(self._forming + self.rules.join_timeout)
            if self._last_call is not None:
                times.append(self._last_call)
        return min(times, default=self.now + self.rules.keep_alive_interval)

    def end(self, status: int, reason: str) -> None:
        """Send all nodes home; ``reason`` is empty where all has gone well."""
        if self.over:
            return
        self.over, self.status = True, status
        for key in self.nodes:
            self._end_one(key, status, reason)

    def _join(self, key: str, message: dict[str, Any]) -> None:
        if self.over:
            self._end_one(key, 1, "the job is over")
            return
        rank = message["rank"]
        for other, node in list(self.nodes.items()):
            if rank is not None and node.rank == rank:
                reason = f"another launcher has come with --node-rank {rank}"
                self._end_one(other, 1, reason)
                self._remove(other, f"{node.name} has ended: {reason}")
        self.nodes[key] = Node(
            message["name"], message["processes"], self._arrivals if rank is None else rank, self.now
        )
        self._arrivals += 1

    def _end_one(self, key: str, status: int, reason: str) -> None:
        self.orders.append((key, {"order": "end", "status": status, "reason": reason}))

    def _remove(self, key: str, reason: str) -> None:
        del self.nodes[key]
        if self.over:
            return
        if key == self.host:
            self.end(1, f"the node that serves the rendezvous is gone: {reason}")
        elif key in self.members:
            self.members.discard(key)
            self._fail(reason, 1)

    def _fail(self, reason: str, status: int) -> None:
        # What fails while ranks are being ended has failed because of it.
        if self.stopping or self.over:
            return
        if self.restarts == self.rules.max_restarts:
            self.end(status, used_up(reason, self.rules.max_restarts))
            return
        self.restarts += 1
        self._stop(f"{reason}; restart {self.restarts} of {self.rules.max_restarts}")

    def _stop(self, reason: str) -> None:
        self._reason, self.stopping = reason, True
        for key in self.members:
            if self.nodes[key].state is State.RUNNING:
                self.orders.append((key, {"order": "stop"}))

    def _advance(self) -> None:
        if self.over:
            return
        members = [self.nodes[key] for key in self.members]
        if members and not self.stopping:
            if all(node.state is State.DONE for node in members):
                self.end(0, "")
            elif (newcomer := self._newcomer()) is not None:
                self._stop(f"{newcomer.name} has come; all ranks are restarted with it")
            return
        if any(node.state is State.RUNNING for node in members):
            return
        if self.stopping:
            self.stopping, self.members, self._forming = False, set(), self.now
            if len(self.nodes) < self.rules.least:
                self.say(
                    f"{self._reason}; waiting for nodes: {len(self.nodes)} of at least {self.rules.least} are there"
                )
        self._form()

    def _newcomer(self) -> Node | None:
        """A node that makes the running group larger."""
        # A job of which a part has ended is about to end.
        if len(self.members) >= self.rules.most or any(
            self.nodes[key].state is State.DONE for key in self.members
        ):
            return None
        return next((node for key, node in self.nodes.items() if key not in self.members), None)

    def _form(self) -> None:
        """Start a round, if enough nodes are there."""
        rules, count = self.rules, len(self.nodes)
        if count < rules.least:
            self._last_call = None
            if self.now >= self._forming + rules.join_timeout:
                self.end(
                    1, f"{count} of at least {rules.least} nodes have come within {rules.join_timeout:g} s"
                )
            return
        if self._last_call is None:
            self._last_call = self.now + rules.last_call_timeout
        # Later, who has survived goes on at once, and who comes makes the group larger when it comes.
        if count >= rules.most or self.rounds or self.now >= self._last_call:
            self._start()

    def _start(self) -> None:
        def number(key: str) -> tuple[bool, int]:
            # Rank 0 serves the ranks' store at the address of the rendezvous.
            return key != self.host, self.nodes[key].rank

        chosen = sorted(self.nodes, key=number)[: self.rules.most]
        world_size = sum(self.nodes[key].processes for key in chosen)
        port, first_rank = self.reserve_port(), 0
        for index, key in enumerate(chosen):
            node = self.nodes[key]
            start = Round(
                self.rounds,
                self.restarts,
                index,
                len(chosen),
                first_rank,
                world_size,
                self.address,
                port,
                self.serves_ranks,
            )
            self.orders.append((key, {"order": "start", "round": asdict(start), "reason": self._reason}))
            node.state = State.RUNNING
            first_rank += node.processes
        for node in self.nodes.values():
            if node.state is State.DONE:
                node.state = State.WAITING
        self.members = set(chosen)
        self.rounds += 1
        self._last_call = None

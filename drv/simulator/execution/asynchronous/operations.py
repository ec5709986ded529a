"""Asynchronous operations of a batch: issued by threads, carried out when the schedule says, waited for in groups.

``eager`` carries an operation out when it is issued. ``lazy`` does so when a thread waits for it, or no thread can go on
otherwise, so that a missing wait shows as wrong data. ``random`` draws when. Whether a thread has waited for an operation
matters to the checks only, and does not depend on the schedule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from drv.simulator.execution.batch import Batch
    from drv.simulator.execution.lanes import Lanes
    from drv.simulator.execution.translation.code import Site

    Array = NDArray[Any]

#: How likely it is under ``random`` that an operation is carried out at one of many opportunities.
_PROBABILITY = 0.25
_NO_GROUPS = np.zeros(0, np.int64)


class Operation:
    """What ``lanes`` have issued with one instruction. It may be carried out for one after the other.

    Attributes
    ----------
    slots
        The lanes, as their indices among all threads of the batch.
    left
        Which of them it has not been carried out for.
    open
        Which of them nobody has waited for.
    group
        Number of the group of each lane that it is in.
    token
        What the observer calls it.
    """

    __slots__ = ("group", "lanes", "left", "open", "site", "slots", "token")

    def __init__(self, lanes: Lanes, site: Site, token: Any) -> None:
        self.lanes = lanes
        self.site = site
        self.slots = lanes.slots
        self.left = np.ones(lanes.n, np.bool_)
        self.open = np.ones(lanes.n, np.bool_)
        self.group = _NO_GROUPS
        self.token = token

    def carry_out(self, which: Array) -> None:
        """Do it for the lanes ``which`` (indices)."""
        raise NotImplementedError

    def read_in(self, which: Array) -> None:
        """Read what is to be read for the lanes ``which``, so that it may change before the rest is done."""
        raise NotImplementedError

    def signals(self) -> Array | None:
        """Positions of the ``mbarrier`` objects that are told when it is done; ``None`` where none is."""
        return None


class Groups:
    """Operations of one kind that threads gather in groups, and wait for by these."""

    def __init__(self, operations: Operations, threads: int) -> None:
        self._operations = operations
        #: How many groups each thread has closed.
        self._closed = np.zeros(threads, np.int64)
        self._members: list[Operation] = []

    def add(self, operation: Operation) -> None:
        """An operation belongs to the groups that its threads have open."""
        operation.group = self._closed[operation.slots]
        self._members.append(operation)

    def close(self, slots: Array) -> None:
        """Threads close their groups."""
        self._closed[slots] += 1

    def wait(self, lanes: Lanes, allowed: int, *, reads_only: bool = False) -> list[tuple[Operation, Array]]:
        """``lanes`` wait until at most ``allowed`` of their closed groups are left.

        With ``reads_only`` until these have only read what they read. Returns what they have waited for: operations, and
        the lanes (indices) that had issued them.
        """
        if not self._members:
            return []
        waiting = np.zeros(len(self._closed), np.bool_)
        waiting[lanes.slots] = True
        observer = lanes.launch.observer
        ended = []
        pending = []
        for member in self._members:
            due = member.open & waiting[member.slots]
            due &= member.group < self._closed[member.slots] - allowed
            if due.any():
                which = np.flatnonzero(due)
                if reads_only:
                    self._operations.read(member, which)
                else:
                    self._operations.complete(member, which)
                ended.append((member, which))
                if member.token is not None and observer is not None:
                    observer.asynchronous_ends(member.token, which, reads_only=reads_only)
                if not reads_only:
                    member.open[which] = False
            if member.open.any():
                pending.append(member)
        self._members = pending
        return ended

    def of(self, slots: Array) -> list[tuple[Operation, Array]]:
        """Operations of the threads ``slots`` that nobody has waited for, with the lanes (indices) that are theirs."""
        chosen = np.zeros(len(self._closed), np.bool_)
        chosen[slots] = True
        result = []
        for member in self._members:
            which = np.flatnonzero(member.open & chosen[member.slots])
            if which.size:
                result.append((member, which))
        return result


class Operations:
    """All asynchronous operations of a batch."""

    def __init__(self, batch: Batch) -> None:
        self._schedule = batch.launch.schedule
        self._launch = batch.launch
        #: Those that are not carried out yet for all of their lanes, in the order in which they were issued.
        self._pending: list[Operation] = []
        self.copies = Groups(self, batch.n)
        self.bulk_copies = Groups(self, batch.n)

    @property
    def idle(self) -> bool:
        """Whether all of them are carried out."""
        return not self._pending

    def issue(self, operation: Operation) -> None:
        """Carry an operation out, or remember it."""
        if self._schedule == "eager":
            self.complete(operation, np.arange(len(operation.slots)))
            return
        self._pending.append(operation)
        if self._schedule == "random":
            self.draw()

    def complete(self, operation: Operation, which: Array) -> None:
        """Carry an operation out for the lanes ``which`` (indices), where it is not yet."""
        which = which[operation.left[which]]
        if not which.size:
            return
        operation.left[which] = False
        operation.carry_out(which)
        if not operation.left.any() and self._schedule != "eager":
            self._pending.remove(operation)

    @staticmethod
    def read(operation: Operation, which: Array) -> None:
        """Let an operation have read what it reads for the lanes ``which`` (indices)."""
        which = which[operation.left[which]]
        if which.size:
            operation.read_in(which)

    def draw(self) -> None:
        """Under ``random``: carry some operations out."""
        if self._schedule != "random" or not self._pending:
            return
        chosen = [each for each in self._pending if self._launch.random.random() < _PROBABILITY]
        self._launch.random.shuffle(chosen)
        for operation in chosen:
            self.complete(operation, np.flatnonzero(operation.left))

    def advance(self, awaited: Array, went_on: Callable[[], bool]) -> bool:
        """Carry operations out until a thread can go on, since none can; whether there were any.

        Rather those that tell ``mbarrier`` objects at the positions ``awaited``, until ``went_on`` says that it did; of
        others one.
        """
        if not self._pending:
            return False
        positions = set(awaited.tolist())
        signalling = [
            each
            for each in self._pending
            if (signals := each.signals()) is not None and not positions.isdisjoint(signals.tolist())
        ]
        candidates = signalling or self._pending[:]
        if self._schedule == "random":
            self._launch.random.shuffle(candidates)
        for operation in candidates if signalling else candidates[:1]:
            self.complete(operation, np.flatnonzero(operation.left))
            if went_on():
                break
        return True

    def finish(self) -> None:
        """Carry everything out: the threads have ended."""
        for operation in list(self._pending):
            self.complete(operation, np.flatnonzero(operation.left))

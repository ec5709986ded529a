"""``mbarrier`` objects: barriers in shared memory that count arrivals of threads and bytes of asynchronous copies.

An object is 64 bits, laid out here as: arrivals that the next phases expect, arrivals that are pending in this phase,
bytes that are still to come (a signed number), the parity of the phase, and a mark that tells an object from other bytes.
A phase is complete when no arrivals and no bytes are pending. What ``arrive`` returns is the object before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.checks.observation import Access
from drv.simulator.memory.address_space import SHARED_WINDOW

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from numpy.typing import NDArray

    from drv.simulator.execution.activation import Activation
    from drv.simulator.execution.batch import Batch
    from drv.simulator.execution.lanes import Lanes
    from drv.simulator.execution.launch_state import LaunchState
    from drv.simulator.execution.translation.code import Code, Site

    Array = NDArray[Any]

_COUNT_BITS, _BYTES_BITS = 20, 21
_PENDING, _BYTES, _PARITY, _MARK = 20, 40, 61, 62
#: Most arrivals of a phase.
MOST_ARRIVALS = (1 << _COUNT_BITS) - 1
_SIZE = 8


@dataclass(slots=True)
class State:
    """An object's fields."""

    expected: int
    pending: int
    bytes: int
    parity: int

    @classmethod
    def of(cls, value: int) -> State | None:
        """Fields of an object; ``None`` where the bytes are none."""
        if value >> _MARK != 1:
            return None
        count = (1 << _COUNT_BITS) - 1
        missing = value >> _BYTES & ((1 << _BYTES_BITS) - 1)
        missing -= missing >> (_BYTES_BITS - 1) << _BYTES_BITS
        return cls(value & count, value >> _PENDING & count, missing, value >> _PARITY & 1)

    @property
    def value(self) -> int:
        """The object."""
        missing = self.bytes & ((1 << _BYTES_BITS) - 1)
        return (
            self.expected | self.pending << _PENDING | missing << _BYTES | self.parity << _PARITY | 1 << _MARK
        )

    def describe(self) -> str:
        """What is missing, for reports."""
        return f"in phase {self.parity} {self.pending} of {self.expected} arrivals and {self.bytes} bytes are missing"


@dataclass(slots=True, eq=False)
class PhaseWait:
    """Lanes of an activation that wait for the phases of objects; ``index`` are their indices in it."""

    activation: Activation
    index: Array
    code: Code
    #: Positions of the objects in the shared memory of the batch, and parities of the phases.
    positions: Array
    parities: Array


class Mbarriers:
    """The objects in the shared memory of a batch."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._waits: list[PhaseWait] = []
        self._gave_up: tuple[int, int] | None = None
        #: How many phases have been complete so far, of all objects.
        self.completed = 0
        #: Where objects were made.
        self._positions: set[int] = set()

    def make(self, position: int, arrivals: int) -> None:
        """An object that expects so many arrivals in each phase."""
        self._positions.add(position)
        self._batch.shared(np.uint64)[position // _SIZE] = State(arrivals, arrivals, 0, 0).value

    def states(self) -> tuple[tuple[int, ...], bytes]:
        """Where objects are, and what they hold."""
        positions = sorted(self._positions)
        return tuple(positions), self._batch.shared(np.uint64)[
            np.array(positions, np.int64) // _SIZE
        ].tobytes()

    def key(self, position: int) -> Hashable:
        """What the observer calls the object at a position in the shared memory of the batch."""
        block, offset = divmod(position, self._batch.shared_stride)
        return "mbarrier", int(self._batch.blocks[block]), offset

    def read(self, position: int) -> State | None:
        """The object at a position; ``None`` where there is none."""
        return State.of(int(self._batch.shared(np.uint64)[position // _SIZE]))

    def write(self, position: int, state: State) -> None:
        """Change an object, and let its phase be complete if it is."""
        if state.pending == 0 and state.bytes == 0:
            state.pending = state.expected
            state.parity ^= 1
            self.completed += 1
            observer = self._batch.launch.observer
            if observer is not None:
                block = int(self._batch.blocks[position // self._batch.shared_stride])
                observer.complete(self.key(position), block)
        self._batch.shared(np.uint64)[position // _SIZE] = state.value
        self._batch.launch.writes += 1

    def come(self, position: int, count: int) -> None:
        """``count`` bytes have been copied, which the object at a position counts."""
        state = self.read(position)
        if state is not None:
            state.bytes -= count
            self.write(position, state)

    def passed(self, lanes: Lanes, positions: Array, parities: Array, acquires: bool) -> Array:
        """Which lanes find the phase of a parity complete; those learn what happened before, if they ask for it."""
        values = self._batch.shared(np.uint64)[positions // _SIZE]
        result: NDArray[np.bool_] = (values >> np.uint64(_PARITY) & np.uint64(1)) != parities
        observer = lanes.launch.observer
        if acquires and observer is not None and result.any():
            for position in np.unique(positions[result]).tolist():
                mine = np.flatnonzero(result & (positions == position))
                observer.acquire(self.key(position), lanes.subset(mine))
        return result

    # Threads that wait

    def wait(
        self, activation: Activation, code: Code, positions: Array, parities: Array, index: Array
    ) -> None:
        """Lanes wait for the phases of objects, or go on if these are complete."""
        wait = PhaseWait(activation, index, code, positions, parities)
        activation.held += len(index)
        if self._release(wait):
            self._waits.append(wait)

    def _release(self, wait: PhaseWait) -> bool:
        """Let the lanes go on whose phases are complete; whether any are left."""
        lanes = wait.activation.lanes.subset(wait.index)
        passes = self.passed(lanes, wait.positions, wait.parities, wait.code.acquires)
        if not passes.any():
            return True
        self._go_on(wait, passes, True)
        return len(wait.index) > 0

    @staticmethod
    def _go_on(wait: PhaseWait, passes: Array, result: bool) -> None:
        index = wait.index[passes]
        if wait.code.result is not None:
            wait.activation.merge(wait.code.result, index, np.array([result]))
        wait.activation.resume(wait.code.block.targets[0], index)
        waiting = ~passes
        wait.index, wait.positions, wait.parities = (
            wait.index[waiting],
            wait.positions[waiting],
            wait.parities[waiting],
        )

    def wake(self) -> bool:
        """Let all lanes go on whose phases are complete; whether there were any."""
        before = sum(len(wait.index) for wait in self._waits)
        self._waits = [wait for wait in self._waits if self._release(wait)]
        return sum(len(wait.index) for wait in self._waits) < before

    def give_up(self) -> bool:
        """Let all lanes that wait go on without success; whether there were any, and that may be of any use.

        It is not when everything is as it was the last time.
        """
        if not self._waits:
            return False
        waits = tuple((id(wait.code), wait.index.tobytes()) for wait in self._waits)
        state = hash((self._batch.state(), waits)), self._batch.launch.writes
        if state == self._gave_up:
            return False
        self._gave_up = state
        for wait in self._waits:
            self._go_on(wait, np.ones(len(wait.index), np.bool_), False)
        self._waits = []
        return True

    @property
    def awaited(self) -> Array:
        """Positions of the objects that lanes wait for."""
        return np.concatenate([np.zeros(0, np.int64), *(wait.positions for wait in self._waits)])

    def standing(self) -> Iterator[tuple[Lanes, Site, str]]:
        """Where lanes wait: lanes, instruction, and what they wait for."""
        for wait in self._waits:
            for position in np.unique(wait.positions).tolist():
                mine = wait.index[wait.positions == position]
                state = self.read(position)
                what = "no mbarrier" if state is None else f"an mbarrier, where {state.describe()}"
                offset = position % self._batch.shared_stride
                parity = int(wait.parities[wait.positions == position][0])
                text = f"wait for phase {parity} of {what} (byte {offset} of shared memory)"
                yield wait.activation.lanes.subset(mine), wait.code.site, text


class MbarrierAccess:
    """The ``mbarrier`` instructions of :class:`~drv.simulator.execution.lanes.Lanes`."""

    __slots__ = ()

    if TYPE_CHECKING:
        batch: Batch
        launch: LaunchState
        slots: Array
        n: int

        def broadcast(self, value: Array) -> Array: ...
        def subset(self, index: Array) -> Any: ...
        def _shared(
            self,
            site: Site,
            address: Array,
            offset: int,
            width: int,
            kind: Access,
            values: Sequence[Array] = (),
            *,
            tell: bool = True,
        ) -> Array: ...

    def mbarriers(
        self, site: Site, space: str, address: Array, offset: int, kind: Access = Access.ATOMIC
    ) -> Array:
        """Positions ``(lanes,)`` of objects in the shared memory of the batch."""
        if space == "generic":
            address = address - np.uint64(SHARED_WINDOW)
        return self.broadcast(self._shared(site, address, offset, _SIZE, kind))

    def init_mbarrier(self, site: Site, space: str, address: Array, offset: int, count: Array) -> None:
        """``mbarrier.init``."""
        positions = self.mbarriers(site, space, address, offset, Access.WRITE)
        counts = self.broadcast(count)
        wrong = np.flatnonzero((counts == 0) | (counts > MOST_ARRIVALS))
        if wrong.size:
            what = f"makes an mbarrier that expects {int(counts[wrong[0]])} arrivals: 1 to {MOST_ARRIVALS} can be"
            raise self.launch.reports.bad_operand(self, site, int(wrong[0]), what)
        for position, number in zip(positions.tolist(), counts.tolist(), strict=True):
            self.batch.mbarriers.make(position, number)

    def invalidate_mbarrier(self, site: Site, space: str, address: Array, offset: int) -> None:
        """``mbarrier.inval``: the bytes may be used otherwise."""
        positions = self.mbarriers(site, space, address, offset, Access.WRITE)
        self._objects(site, positions)
        self.batch.shared(np.uint64)[positions // _SIZE] = 0

    def _objects(self, site: Site, positions: Array) -> list[tuple[int, Array, State]]:
        """The distinct objects that lanes name: position, lanes (indices), fields."""
        result = []
        mbarriers = self.batch.mbarriers
        for position in np.unique(positions).tolist():
            mine = np.flatnonzero(positions == position)
            state = mbarriers.read(position)
            if state is None:
                what = f"uses byte {position % self.batch.shared_stride} of shared memory as an mbarrier, which is none"
                raise self.launch.reports.bad_operand(self, site, int(mine[0]), what)
            result.append((position, mine, state))
        return result

    def change_bytes(
        self, site: Site, space: str, address: Array, offset: int, count: Array, sign: int
    ) -> None:
        """``mbarrier.expect_tx`` and ``mbarrier.complete_tx``: more, or fewer, bytes are to come."""
        positions = self.mbarriers(site, space, address, offset)
        counts = self.broadcast(count).astype(np.int64) * sign
        for position, mine, state in self._objects(site, positions):
            state.bytes += int(counts[mine].sum())
            # Expecting more bytes completes nothing.
            if sign < 0:
                self.batch.mbarriers.write(position, state)
            else:
                self.batch.shared(np.uint64)[position // _SIZE] = state.value

    def arrive(
        self,
        site: Site,
        space: str,
        address: Array,
        offset: int,
        count: Array | None,
        expected: Array | None,
        drops: bool,
        releases: bool,
    ) -> Array:
        """``mbarrier.arrive`` and ``mbarrier.arrive_drop``, with a number of bytes ``expected`` before. Returns states."""
        positions = self.mbarriers(site, space, address, offset)
        counts = np.ones(self.n, np.int64) if count is None else self.broadcast(count).astype(np.int64)
        coming = None if expected is None else self.broadcast(expected).astype(np.int64)
        states = np.zeros(self.n, np.uint64)
        for position, mine, state in self._objects(site, positions):
            self._arrive_at(site, position, mine, state, counts, coming, states, drops, releases)
        return states

    def _arrive_at(
        self,
        site: Site,
        position: int,
        mine: Array,
        state: State,
        counts: Array,
        coming: Array | None,
        states: Array,
        drops: bool,
        releases: bool,
    ) -> None:
        """The lanes ``mine`` arrive at one object, one after the other."""
        mbarriers, observer = self.batch.mbarriers, self.launch.observer
        while mine.size:
            upto = np.cumsum(counts[mine])
            fitting = int(np.searchsorted(upto, state.pending, side="right"))
            if not fitting:
                what = f"arrives at an mbarrier more often than it expects: {state.describe()}"
                raise self.launch.reports.bad_operand(self, site, int(mine[0]), what)
            arriving, mine = mine[:fitting], mine[fitting:]
            before = state.pending - np.concatenate([[0], upto[: fitting - 1]])
            base = State(state.expected, 0, state.bytes, state.parity).value
            states[arriving] = np.uint64(base) | before.astype(np.uint64) << np.uint64(_PENDING)
            state.pending -= int(upto[fitting - 1])
            if coming is not None:
                state.bytes += int(coming[arriving].sum())
            if drops:
                state.expected -= int(upto[fitting - 1])
            if observer is not None and releases:
                observer.release(mbarriers.key(position), self.subset(arriving))
            mbarriers.write(position, state)

    def phase(
        self, site: Site, space: str, address: Array, offset: int, operand: Array, by_parity: bool
    ) -> tuple[Array, Array]:
        """Positions of objects and parities of their phases, as ``mbarrier.test_wait`` and ``try_wait`` name them."""
        positions = self.mbarriers(site, space, address, offset)
        self._objects(site, positions)
        if by_parity:
            return positions, self.broadcast(operand) & np.uint32(1)
        return positions, (self.broadcast(operand) >> np.uint64(_PARITY) & np.uint64(1)).astype(np.uint32)

    def test_phase(
        self,
        site: Site,
        space: str,
        address: Array,
        offset: int,
        operand: Array,
        by_parity: bool,
        acquires: bool,
    ) -> Array:
        """``mbarrier.test_wait``: whether a phase is complete."""
        positions, parities = self.phase(site, space, address, offset, operand, by_parity)
        return self.batch.mbarriers.passed(self, positions, parities, acquires)  # type: ignore[arg-type]

    @staticmethod
    def pending_count(state: Array) -> Array:
        """``mbarrier.pending_count``: arrivals that were pending in a state."""
        pending: Array = state >> np.uint64(_PENDING) & np.uint64((1 << _COUNT_BITS) - 1)
        return pending.astype(np.uint32)

"""The state of every byte: who wrote it last, who read it since, and who updated it atomically since.

States are numbered, and the shadow of an allocation holds the number for each of its bytes. Whole
ranges share one, so an access costs a few passes of NumPy over the shadow that it touches, and a few
clock comparisons in Python. An operation works out once what follows each state it meets.

The rules are those of FastTrack (Flanagan and Freund, PLDI 2009) with sets of readers: an access is
compared with the last write and the reads since, so for every byte the first race is found exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .clocks import Moment, ordered
from .findings import ACTIONS, AccessReport
from .observation import Access

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from numpy.typing import NDArray

    from .clocks import Vector
    from .kernel_races import KernelRaces
    from .observation import Site
    from .shadow import CopiedDefinition, Shadow

#: State numbers are 32-bit. Beyond this one, which leaves an operation enough, the past is forgotten.
LAST_STATE = (1 << 31) - (1 << 26)
#: Up to this many runs of equal states in a range are handled one by one; more are sorted first.
FEW_RUNS = 16

#: Byte ranges that were in each of some states.
Ranges = dict[int, list[tuple[int, int]]]


@dataclass(slots=True, eq=False)
class Touch:
    """One operation's accesses of one kind by one instruction, to any bytes."""

    moment: Moment
    kind: Access
    site: Site | None = None
    #: What reports say instead of "reads" or "writes".
    action: str = ""
    #: State of bytes before the access -> state after it.
    after: dict[int, int] = field(default_factory=dict)
    #: State of bytes before the access -> accesses in it that race with this one.
    conflicts: dict[int, list[Touch]] = field(default_factory=dict)

    def report(self, thread: str = "") -> AccessReport:
        """One side of a finding."""
        moment = self.moment
        action = self.action or ACTIONS[self.kind]
        return AccessReport(
            moment.label, action, moment.stream, moment.stack, self.site, thread, moment.launch
        )


@dataclass(slots=True, eq=False)
class State:
    """Accesses that a later one may race with. Left out: what something later of its kind comes after."""

    writer: Touch | None = None
    readers: tuple[Touch, ...] = ()
    atomics: tuple[Touch, ...] = ()


NOBODY = State()


@dataclass(slots=True, eq=False)
class Running:
    """An operation that is being run, or an access by the host."""

    moment: Moment
    touches: dict[tuple[int, Access], Touch] = field(default_factory=dict)
    #: States that this operation has made.
    states: dict[Hashable, int] = field(default_factory=dict)
    launch: Any = None
    kernel: KernelRaces | None = None
    #: Of a copy, what its source's bytes are; where that is asked for.
    carried: CopiedDefinition | None = None

    def touch(self, kind: Access, site: Site | None) -> Touch:
        """The record of accesses of ``kind`` by the instruction ``site``."""
        key = (id(site), kind)
        touch = self.touches.get(key)
        if touch is None:
            touch = self.touches[key] = Touch(self.moment, kind, site)
        return touch

    def forget_states(self) -> None:
        """State numbers may mean something else from now on."""
        self.touches.clear()
        self.states.clear()


class AccessStates:
    """The table of states, and the accesses that lead from one to the next."""

    def __init__(self) -> None:
        #: Numbers that are missing stand for :data:`NOBODY`, as 0 does.
        self._states: dict[int, State] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._states)

    def writers(self, shadow: Shadow, start: int, stop: int) -> list[Moment]:
        """Who wrote or updated bytes ``[start, stop)`` last."""
        result = []
        for number in set(shadow.states[shadow.cover(start, stop)].tolist()):
            state = self._states.get(number or shadow.initial, NOBODY)
            touches = state.atomics if state.writer is None else (state.writer, *state.atomics)
            result += [touch.moment for touch in touches]
        return result

    def touch_range(
        self, running: Running, touch: Touch, shadow: Shadow, start: int, stop: int
    ) -> Ranges | None:
        """Bytes ``[start, stop)``, at least one, are touched. Returns those that are raced for."""
        granules = shadow.cover(start, stop)
        view = shadow.states[granules]
        first = int(view[0])
        if (view == first).all():
            new = self._next(running, touch, shadow, first)
            if new != first:
                view.fill(new)
            return {first: [(start, stop)]} if first in touch.conflicts else None
        edges = np.flatnonzero(view[1:] != view[:-1]) + 1
        starts = np.concatenate(([0], edges))
        ends = np.append(edges, view.size)
        values = view[starts]
        if starts.size <= FEW_RUNS:
            states = values.tolist()
            for value, run, end in zip(states, starts.tolist(), ends.tolist(), strict=True):
                view[run:end] = self._next(running, touch, shadow, value)
        else:
            distinct, which = np.unique(values, return_inverse=True)
            states = distinct.tolist()
            new_states = [self._next(running, touch, shadow, value) for value in states]
            view[:] = np.repeat(np.array(new_states, np.int32)[which], ends - starts)
        raced: Ranges = {}
        for value in touch.conflicts.keys() & set(states):
            at = np.flatnonzero(values == value)
            runs = zip(starts[at].tolist(), ends[at].tolist(), strict=True)
            base = granules.start
            raced[value] = [shadow.bytes_of(base + run, base + end) for run, end in runs]
        return raced

    def races_with_last(self, running: Running, touch: Touch, shadow: Shadow) -> bool:
        """Whether any byte is raced for by ``touch``, after which nobody looks at ``shadow`` again.

        Their states stay as they are: most of the memory that is freed was never touched, nor were the pages of its shadow.
        """
        for number in shadow.distinct_states():
            self._next(running, touch, shadow, number)
        return bool(touch.conflicts)

    def touch_granules(
        self, running: Running, touch: Touch, shadow: Shadow, index: NDArray[np.int64]
    ) -> dict[int, NDArray[np.bool_]] | None:
        """Granules ``index``, any shape, are touched. Returns where in it they are raced for, by state."""
        current = shadow.states.take(index)
        first = int(current.item(0))
        if (current == first).all():
            new = self._next(running, touch, shadow, first)
            if new != first:
                shadow.states[index] = new
            states = [first]
        else:
            flat = current.ravel()
            runs = flat[np.flatnonzero(flat[1:] != flat[:-1])]
            distinct = np.unique(np.append(runs, flat[-1]))
            states = distinct.tolist()
            new_states = [self._next(running, touch, shadow, value) for value in states]
            if len(set(new_states)) == 1:
                shadow.states[index] = new_states[0]
            elif new_states != states:
                shadow.states[index] = np.array(new_states, np.int32)[np.searchsorted(distinct, current)]
        if not touch.conflicts:
            return None
        return {value: current == value for value in touch.conflicts.keys() & set(states)}

    def number(self, running: Running, state: State) -> int:
        """Number of a state that ``running`` has made."""
        key = (state.writer, state.readers, state.atomics)
        number = running.states.get(key)
        if number is None:
            self._last = number = self._last + 1
            running.states[key] = number
            self._states[number] = state
        return number

    def forget_before(self, horizon: Vector) -> None:
        """Leave out what happens before everything still to come (:meth:`~.clocks.Clocks.horizon`)."""

        def due(touch: Touch) -> bool:
            moment = touch.moment
            return not moment.actor.retired and moment.count > horizon.get(moment.actor, 0)

        for number, state in list(self._states.items()):
            writer = state.writer if state.writer is not None and due(state.writer) else None
            readers = tuple(filter(due, state.readers))
            atomics = tuple(filter(due, state.atomics))
            if writer is None and not readers and not atomics:
                del self._states[number]
            else:
                state.writer, state.readers, state.atomics = writer, readers, atomics

    def keep(self, shadows: Iterable[Shadow]) -> None:
        """Drop the states that no byte of ``shadows`` is in."""
        used: set[int] = set()
        for shadow in shadows:
            used.add(shadow.initial)
            used.update(shadow.distinct_states())
        for number in self._states.keys() - used:
            del self._states[number]

    def forget_all_if_full(self, shadows: Iterable[Shadow]) -> bool:
        """Start numbering again when the numbers run out, with no past at all. Returns whether."""
        if self._last < LAST_STATE:
            return False
        self._states.clear()
        self._last = 0
        for shadow in shadows:
            shadow.forget()
        return True

    def _next(self, running: Running, touch: Touch, shadow: Shadow, number: int) -> int:
        """State of bytes in state ``number`` after ``touch``; it is the same where nothing changes."""
        if number == 0 and shadow.initial:
            new = self._next(running, touch, shadow, shadow.initial)
            if shadow.initial in touch.conflicts:
                touch.conflicts[0] = touch.conflicts[shadow.initial]
            return 0 if new == shadow.initial else new
        known = touch.after.get(number)
        if known is None:
            known = touch.after[number] = self._advance(running, touch, number)
        return known

    def _advance(self, running: Running, touch: Touch, number: int) -> int:
        state = self._states.get(number, NOBODY)
        moment, kind = touch.moment, touch.kind
        against = [] if state.writer is None else [state.writer]
        if kind is not Access.READ:
            against += state.readers
        if kind is not Access.ATOMIC:
            against += state.atomics
        conflicts = [other for other in against if not ordered(other.moment, moment)]
        if conflicts:
            touch.conflicts[number] = conflicts
        if kind is Access.WRITE:
            own = state.writer is not None and state.writer.moment is moment
            if own and not state.readers and not state.atomics:
                return number
            return self.number(running, State(touch))
        alike = state.readers if kind is Access.READ else state.atomics
        if any(other.moment is moment for other in alike):
            return number
        alike = (*(other for other in alike if not ordered(other.moment, moment)), touch)
        if kind is Access.READ:
            return self.number(running, State(state.writer, alike, state.atomics))
        return self.number(running, State(state.writer, state.readers, alike))

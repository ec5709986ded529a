"""Happens-before between queued operations and the host, kept with vector clocks.

Every stream is an actor, and so is the host. An operation's :class:`Moment` holds its own count on
its stream and, for every other actor, the count up to which that actor's work is done before it
starts. ``a`` happens before ``b`` when ``b`` is on the same stream and later, or when ``b``'s vector
has reached ``a``'s count: one dictionary look-up.

The host is one actor, not one for each thread. Threads hand work to each other through locks, queues
and joins that a driver cannot see; were they separate actors, a correct program of two threads would
be reported. What a thread has waited for is therefore known to whatever any thread queues later.
Queueing alone orders nothing: work of two threads on two streams is unordered, whichever came first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from drv.python_stack import Frame


@dataclass(slots=True, eq=False)
class Actor:
    """A stream or the host. Identity is what counts: a stream that is idle long enough gets a new one."""

    #: Number of the latest operation queued, and of the latest one finished.
    queued: int = 0
    finished: int = 0
    #: What the next operation inherits from the stream.
    vector: Vector = field(default_factory=dict)
    #: At least this is known to every operation that has not finished.
    pending_vector: Vector = field(default_factory=dict)
    #: The host's vector when the latest operation was queued.
    host: Vector = field(default_factory=dict)
    #: Everything this actor did happens before everything still to come.
    retired: bool = False


#: For each actor, the count up to which its work is done. Shared between moments, never changed.
Vector = dict[Actor, int]


@dataclass(slots=True, eq=False)
class Moment:
    """When an operation, or an access by the host, happens; and what reports say about it."""

    actor: Actor
    count: int
    vector: Vector
    #: Position among everything queued, the same under every schedule.
    sequence: int
    label: str
    stack: tuple[Frame, ...]
    stream: str | None
    #: The launch of a graph that it belongs to.
    launch: Any = None
    #: What runs inside it, for an operation that has others within.
    inside: Inside | None = None


@dataclass(slots=True)
class Inside:
    """The operations within another: what comes before all of them, their actors by name, and the latest of each."""

    before: Vector
    actors: dict[Hashable, Actor]
    latest: dict[Actor, Moment] = field(default_factory=dict)


#: Counts of an actor that an operation takes for what runs inside it, which is known only when it runs.
ROOM = 1 << 40


def joined(first: Vector, second: Vector) -> Vector:
    """The later of both for every actor."""
    if first is second or not second:
        return first
    if not first:
        return second
    result = first.copy()
    for actor, count in second.items():
        if count > result.get(actor, 0):
            result[actor] = count
    return result


class Clocks:
    """The clocks of all streams and of the host."""

    def __init__(self) -> None:
        self.host = Actor()
        #: What the host has waited for, and its own count.
        self._known: Vector = {self.host: 0}
        self._streams: dict[Hashable, Actor] = {}
        #: How many operations were queued and accesses of the host made.
        self.sequence = 0
        #: Whether an operation carries the host's current count, so that its next access needs another.
        self._carried = False

    def submit(
        self,
        stream_key: Hashable,
        after: Iterable[Any],
        label: str,
        stack: tuple[Frame, ...],
        stream: str | None,
        inside: Iterable[Hashable] = (),
    ) -> Moment:
        """Moment of an operation that the host queues now, after the moments ``after``.

        ``inside`` names actors whose operations run within it: see :meth:`submit_inside`.
        """
        actor = self._streams.get(stream_key)
        if actor is None:
            actor = self._streams[stream_key] = Actor()
        known = self._known
        if actor.host is not known:
            actor.vector = joined(actor.vector, known)
            actor.host = known
        vector = actor.vector
        for earlier in after:
            other = earlier.actor
            if other is not actor and not other.retired and vector.get(other, 0) < earlier.count:
                vector = joined(vector, earlier.vector)
                if vector is actor.vector or vector is earlier.vector:
                    vector = vector.copy()
                vector[other] = earlier.count
        actor.vector = vector
        if actor.finished == actor.queued:
            actor.pending_vector = vector
        actor.queued += 1
        self._carried = True
        self.sequence += 1
        moment = Moment(actor, actor.queued, vector, self.sequence, label, stack, stream)
        if inside:
            self._make_room(moment, inside)
        return moment

    def _make_room(self, moment: Moment, names: Iterable[Hashable]) -> None:
        """Let whatever comes after ``moment`` come after all that the actors ``names`` will do within it."""
        before = {**moment.vector, moment.actor: moment.count}
        moment.inside = Inside(before, {})
        vector = moment.vector.copy()
        for name in names:
            actor = self._streams.get(name)
            if actor is None:
                actor = self._streams[name] = Actor()
            if actor.finished == actor.queued:
                actor.pending_vector = before
            actor.queued += ROOM
            vector[actor] = actor.queued
            moment.inside.actors[name] = actor
        moment.vector = moment.actor.vector = vector

    def submit_inside(
        self, name: Hashable, outer: Moment, after: Iterable[Moment], label: str, stack: tuple[Frame, ...]
    ) -> Moment:
        """Moment of an operation of the actor ``name`` within ``outer``, after the moments ``after``."""
        inside = outer.inside
        assert inside is not None
        actor = inside.actors[name]
        previous = inside.latest.get(actor)
        count = outer.vector[actor] - ROOM if previous is None else previous.count
        vector = inside.before if previous is None else previous.vector
        for earlier in after:
            if earlier.actor is not actor and vector.get(earlier.actor, 0) < earlier.count:
                vector = {**joined(vector, earlier.vector), earlier.actor: earlier.count}
        self.sequence += 1
        moment = Moment(actor, count + 1, vector, self.sequence, label, stack, outer.stream)
        inside.latest[actor] = moment
        return moment

    def learn(self, moment: Moment, earlier: Iterable[Moment]) -> bool:
        """Let ``moment``, which has not ended, come after ``earlier`` as well; whether that is anything new."""
        vector = moment.vector
        for other in earlier:
            vector = joined(vector, other.vector)
            if other.actor is not moment.actor and vector.get(other.actor, 0) < other.count:
                vector = {**vector, other.actor: other.count}
        if vector == moment.vector:
            return False
        moment.vector = vector
        moment.actor.vector = joined(moment.actor.vector, vector)
        return True

    @staticmethod
    def finish(moment: Moment) -> None:
        """The operation has run."""
        if moment.inside is not None:
            for each in moment.inside.actors.values():
                each.finished = moment.vector[each]
                each.pending_vector = moment.vector
        actor = moment.actor
        actor.finished = moment.count
        actor.pending_vector = moment.vector

    def host_waits(self, moment: Moment) -> None:
        """The host has waited for the operation: it happens before everything the host does from now on."""
        if self.host_knows(moment):
            return
        known = joined(moment.vector, self._known).copy()
        known[moment.actor] = moment.count
        self._known = known

    def host_knows(self, moment: Moment) -> bool:
        """Whether the host has waited for the operation, or for something after it."""
        return moment.actor.retired or self._known.get(moment.actor, 0) >= moment.count

    def host_moment(self, label: str, stack: tuple[Frame, ...]) -> Moment:
        """Moment of something that the host does now."""
        if self._carried:
            self._carried = False
            self._known = {**self._known, self.host: self._known[self.host] + 1}
        self.sequence += 1
        return Moment(self.host, self._known[self.host], self._known, self.sequence, label, stack, None)

    def horizon(self) -> Vector:
        """Counts such that everything up to them happens before everything that has not yet run.

        Work that is still to be queued knows what the host knows; work that is queued knows what the
        operation before it in its stream knew.
        """
        result = self._known.copy()
        for stream in self._streams.values():
            if stream.finished < stream.queued:
                vector = stream.pending_vector
                result = {actor: min(count, vector.get(actor, 0)) for actor, count in result.items()}
        return result

    def forget_idle(self, horizon: Vector) -> None:
        """Drop the streams whose last operation is behind ``horizon``, so that vectors stay short.

        Whoever keeps moments must first drop those behind ``horizon``.
        """
        for key, actor in list(self._streams.items()):
            if actor.finished == actor.queued <= horizon.get(actor, 0):
                actor.retired = True
                del self._streams[key]
        self._known = {actor: count for actor, count in self._known.items() if not actor.retired}
        for stream in self._streams.values():
            stream.vector = {actor: count for actor, count in stream.vector.items() if not actor.retired}
            stream.host = {}


def ordered(first: Moment, second: Moment) -> bool:
    """Whether ``first``, which ran earlier, happens before ``second`` under every schedule."""
    actor = first.actor
    return actor is second.actor or first.count <= second.vector.get(actor, 0) or actor.retired

"""Asynchronous operations within a kernel: copies and matrix products that go on while threads do.

An operation touches its bytes at some time between its issue and its completion. So at its issue it is compared with what
was done before, in the name of the thread that issues it; while it is *in flight*, everybody else is compared with it;
at its completion it becomes an access of whoever has waited for it: of the issuing thread (groups), or of the unit that
waiting threads know of (an ``mbarrier``, a warpgroup's products).

What the asynchronous proxy reads must have been written by that proxy, or handed over by a proxy fence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .finding_text import IN_FLIGHT, UNFENCED, UNFENCED_MAP, unfinished_message
from .findings import Finding, Kind
from .knowledge import FENCED
from .observation import Access
from .runs import distinct
from .thread_accesses import Accesses

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray

    from drv.simulator.memory.address_space import Allocation

    from .kernel_races import KernelRaces
    from .observation import Lanes, Site, Span
    from .thread_shadow import ThreadShadow

    Array = NDArray[Any]


_MAP_BYTES = 128


@dataclass(slots=True)
class Piece:
    """One span of an operation's accesses, as the checks see it."""

    shadow: ThreadShadow
    span: Span
    positions: Array
    threads: Array
    #: Which entries are in flight.
    open: Array


@dataclass(slots=True, eq=False)
class Flight:
    """An operation that has been issued. ``number`` is never 0."""

    number: int
    site: Site
    #: A block whose threads have issued it.
    block: int
    pieces: list[Piece]
    #: Whose accesses it has become, and when.
    ended: list[tuple[Array, int]] = field(default_factory=list)


class Flights:
    """The asynchronous operations of one launch."""

    def __init__(self, races: KernelRaces) -> None:
        self._races = races
        self._last = 0
        self._sites: dict[int, Flight] = {}
        #: Operations, and the issuing lanes of each, that a phase of a barrier object waits for.
        self._counted: dict[Hashable, list[tuple[Flight, Array]]] = {}
        #: Time of each thread's latest fence for tensor maps.
        self._map_fences: dict[int, int] = {}
        self._unfinished: set[int] = set()

    def begin(self, lanes: Lanes, site: Site, spans: Sequence[Span], generic: bool) -> Flight:
        """``lanes`` issue an operation; see :class:`~.observation.AccessObserver`."""
        races = self._races
        self._last += 1
        flight = Flight(self._last, site, int(lanes.block[0]), [])
        self._sites[flight.number] = flight
        every = lanes.block * races.threads + lanes.thread
        for span in spans:
            if not span.offsets.size:
                continue
            threads = every[span.lane]
            owners = None
            if span.allocation is None:
                owners = lanes.block[span.lane] if span.owners is None else span.owners
            shadow, positions = races.shadow_of(span.allocation, owners, span.offsets, span.width)
            piece = Piece(shadow, span, positions, threads, np.ones(len(threads), np.bool_))
            flight.pieces.append(piece)
            accesses = self._accesses(flight, piece, slice(None))
            self._issue(piece, accesses, generic)
        for piece in flight.pieces:
            self._mark(flight, piece)
        return flight

    def _accesses(self, flight: Flight, piece: Piece, which: Any) -> Accesses:
        span = piece.span
        entries = piece.shadow.gather(piece.positions[which], span.width)
        granules = entries.shape[1]
        return Accesses(
            entries.ravel(),
            np.repeat(piece.threads[which], granules),
            np.repeat(span.offsets[which], granules),
            span.width,
            span.kind,
            flight.site,
            span.allocation,
            None,
            granules,
        )

    def _issue(self, piece: Piece, accesses: Accesses, generic: bool) -> None:
        races, shadow = self._races, piece.shadow
        races.happens(accesses.site)
        reads = accesses.kind is Access.READ
        if accesses.allocation is None and reads:
            races.check_written(shadow, accesses)
        races.compare(shadow, accesses, accesses.kind)
        self.meet(shadow, accesses, accesses.kind)
        if reads and not generic and shadow.writes is not None:
            self._check_fence(shadow, accesses)

    def _check_fence(self, shadow: ThreadShadow, accesses: Accesses) -> None:
        """Report bytes that ordinary stores of the cluster have written, and that no proxy fence has handed over."""
        races, record = self._races, shadow.writes
        assert record is not None
        earlier = record.thread[accesses.entries]
        which = np.flatnonzero(earlier > 0)
        which = which[~races.is_asynchronous(record.time[accesses.entries[which]])]
        which = which[races.order.in_one_cluster(earlier[which] - 1, accesses.threads[which])]
        if not which.size:
            return
        entries = accesses.entries[which]
        handed = races.order.knows(accesses.threads[which], earlier[which] - 1, record.time[entries], FENCED)
        # Where nothing orders the two that is what there is to say.
        handed |= ~races.order.ordered(record, entries, accesses.threads[which])
        if not handed.all():
            which = which[~handed]
            first = int(which[0])
            site = races.site_at(int(record.time[accesses.entries[first]]))
            races.report(accesses, which, int(earlier[first]) - 1, site, Access.WRITE, None, advice=UNFENCED)

    def _mark(self, flight: Flight, piece: Piece) -> None:
        shadow = piece.shadow
        entries = shadow.gather(piece.positions, piece.span.width).ravel()
        if piece.span.kind is Access.READ:
            if shadow.read_in_flight is None:
                shadow.read_in_flight = np.zeros(shadow.granules, np.int16)
            np.add.at(shadow.read_in_flight, entries, np.int16(1))
        else:
            if shadow.written_in_flight is None:
                shadow.written_in_flight = np.zeros(shadow.granules, np.int32)
            shadow.written_in_flight[entries] = flight.number

    def meet(self, shadow: ThreadShadow, accesses: Accesses, kind: Access) -> None:
        """Report the operations in flight that race with accesses of ``kind``."""
        written = shadow.written_in_flight
        if written is not None:
            numbers = written[accesses.entries]
            for number in np.unique(numbers[numbers != 0]).tolist():
                flight = self._sites[number]
                which = np.flatnonzero(numbers == number)
                self._report(accesses, which, flight, shadow, kind, written=True)
        reading = shadow.read_in_flight
        if reading is not None and kind is not Access.READ:
            which = np.flatnonzero(reading[accesses.entries])
            if which.size:
                for flight in self._reading(shadow, accesses.entries[which]):
                    self._report(accesses, which, flight, shadow, kind, written=False)

    def _reading(self, shadow: ThreadShadow, entries: Array) -> list[Flight]:
        """Operations in flight that read some of ``entries``."""
        numbers = np.unique(entries)
        return [
            flight
            for flight in self._sites.values()
            if any(
                piece.shadow is shadow
                and piece.span.kind is Access.READ
                and piece.open.any()
                and np.isin(
                    shadow.gather(piece.positions[piece.open], piece.span.width).ravel(), numbers
                ).any()
                for piece in flight.pieces
            )
        ]

    def _report(
        self,
        accesses: Accesses,
        which: Array,
        flight: Flight,
        shadow: ThreadShadow,
        kind: Access,
        *,
        written: bool,
    ) -> None:
        for piece in flight.pieces:
            reads = piece.span.kind is Access.READ
            if piece.shadow is not shadow or reads is written:
                continue
            if piece.span.kind is Access.ATOMIC and kind is Access.ATOMIC:
                continue
            entries = shadow.gather(piece.positions, piece.span.width)
            thread = np.repeat(piece.threads, entries.shape[1])
            flat = entries.ravel()
            order = np.argsort(flat, kind="stable")
            at = np.searchsorted(flat, accesses.entries[which], sorter=order)
            inside = at < len(flat)
            inside[inside] = flat[order[at[inside]]] == accesses.entries[which[inside]]
            if not inside.any():
                continue
            mine = which[inside]
            issuer = int(thread[order[at[inside][0]]])
            self._races.report(accesses, mine, issuer, flight.site, piece.span.kind, None, advice=IN_FLIGHT)

    # Completion

    def end(
        self,
        flight: Flight,
        lanes: Array | None,
        finished_by: Callable[[Array], Array] | None = None,
        *,
        reads_only: bool = False,
    ) -> None:
        """The accesses that the issuing ``lanes`` (all, if left out) caused are complete.

        They count as accesses of the issuing threads now, or of whoever ``finished_by`` gives for these.
        """
        races = self._races
        for piece in flight.pieces:
            span, shadow = piece.span, piece.shadow
            if reads_only and span.kind is not Access.READ:
                continue
            chosen = piece.open if lanes is None else piece.open & np.isin(span.lane, lanes)
            if not chosen.any():
                continue
            which = np.flatnonzero(chosen)
            piece.open[which] = False
            accesses = self._accesses(flight, piece, which)
            if finished_by is not None:
                accesses.threads = finished_by(accesses.threads)
            races.happens(flight.site)
            if span.kind is Access.READ:
                assert shadow.read_in_flight is not None
                np.add.at(shadow.read_in_flight, accesses.entries, np.int16(-1))
            else:
                assert shadow.written_in_flight is not None
                mine = shadow.written_in_flight[accesses.entries] == flight.number
                shadow.written_in_flight[accesses.entries[mine]] = 0
            races.keep(shadow, accesses, span.kind)
            flight.ended.append((distinct(accesses.threads), races.order.now))
        if not any(piece.open.any() for piece in flight.pieces):
            self._sites.pop(flight.number, None)

    def count(self, flight: Flight, lanes: Array | None, key: Hashable) -> None:
        """The current phase of a barrier object is not complete before what ``lanes`` have issued."""
        self._counted.setdefault(key, []).append((flight, lanes))  # type: ignore[arg-type]

    def complete(self, key: Hashable, block: int) -> None:
        """The current phase of a barrier object in the cluster of ``block`` is complete."""
        order = self._races.order
        counted = self._counted.pop(key, ())
        if not counted:
            order.complete(key, block)
            return
        unit = order.unit(key, block)
        before = [ended for flight, _ in counted for ended in flight.ended]
        for flight, lanes in counted:
            self.end(flight, lanes, lambda threads: np.full(threads.shape, unit))
        # Whoever waits for this phase knows of all that it counts, also of what others had waited for already.
        order.complete(key, block, before)

    def fence_tensor_maps(self, threads: Array, now: int) -> None:
        """``threads`` passed a fence after which copies see what was done to tensor maps before."""
        self._map_fences.update(dict.fromkeys(threads.tolist(), now))

    def tensor_map_used(self, allocation: Allocation, offset: int, lanes: Lanes, site: Site) -> None:
        """Report a tensor map that this kernel has changed, and that no fence has handed over to the copies."""
        races = self._races
        shadow, _ = races.shadow_of(allocation, None, np.array([offset]), 1)
        record = shadow.writes
        if record is None:
            return
        thread = int(lanes.block[0]) * races.threads + int(lanes.thread[0])
        offsets = offset + 8 * np.arange(_MAP_BYTES // 8)
        entries = shadow.gather(offsets, 8)
        accesses = Accesses(
            entries.ravel(),
            np.full(entries.size, thread),
            np.repeat(offsets, entries.shape[1]),
            8,
            Access.READ,
            site,
            allocation,
            None,
            entries.shape[1],
        )
        written = record.thread[accesses.entries]
        late = (written > 0) & (record.time[accesses.entries] > self._map_fences.get(thread, 0))
        which = np.flatnonzero(late)
        if which.size:
            first = int(which[0])
            other = races.site_at(int(record.time[accesses.entries[first]]))
            races.report(
                accesses, which, int(written[first]) - 1, other, Access.WRITE, None, advice=UNFENCED_MAP
            )

    def forget(self, blocks: Array) -> None:
        """``blocks`` have ended: nobody waits for what they have issued any more.

        Reported is what still reads their shared memory.
        """
        for number, flight in list(self._sites.items()):
            if flight.block not in blocks:
                continue
            del self._sites[number]
            for piece in flight.pieces:
                if piece.span.kind is Access.READ and piece.span.allocation is None and piece.open.any():
                    self._report_unfinished(flight, piece)
        for key in [key for key in self._counted if self._block_of(key) in blocks]:
            del self._counted[key]

    def _report_unfinished(self, flight: Flight, piece: Piece) -> None:
        if id(flight.site) in self._unfinished:
            return
        self._unfinished.add(id(flight.site))
        thread = int(piece.threads[np.flatnonzero(piece.open)[0]])
        side = self._races.side(Access.READ, flight.site, thread)
        message = unfinished_message(side, self._races.block_text(thread // self._races.threads))
        self._races.add(Finding(Kind.SHARED_RACE, message, None, side))

    @staticmethod
    def _block_of(key: Any) -> int:
        return int(key[1])

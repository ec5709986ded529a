"""Iterations of a loop that do what those before them did: counted, and not run.

A thread block that goes over a long sequence runs one loop hundreds of times, and the time that metering it takes grows with
the sequence, though no iteration tells more than the one before. Where a launch's results are not needed, an iteration
repeats the one before if all branches go the same way, if its accesses to shared memory have the same addresses, and if those
to global memory are as far on as they were before. The last iterations that ran, of each lane, show that; the
:mod:`slice <.address_slice>` of control flow and addresses, which takes a small part of the time, then says for each of the
next ones whether it holds for it. As far as it does, they count as the last one did; their accesses to global memory are
counted one by one, at their own addresses. The last iterations of a loop, and whatever differs, run.

What ``mbarrier`` objects let threads do follows from how they are and from what threads do with them. So iterations repeat where the
objects are the same before each, nothing is on its way, and instructions name the same objects, phases and numbers. A box of
a tensor that a bulk copy brings goes on along the tensor's dimensions; iterations repeat as long as no part of it leaves the
tensor, outside of which it reads nothing.

What an iteration repeats may be several turns of a loop, such as two where buffers take turns.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drv.simulator.ptx.control_flow import End

from .address_slice import counters, slice_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from drv.simulator.checks.observation import Access, Lanes, Site
    from drv.simulator.execution.translation.plan import FunctionPlan
    from drv.simulator.memory.address_space import Allocation
    from drv.simulator.memory.tensor_map import TensorMap

    from .address_slice import AddressSlice
    from .meter import Meter
    from .tally import Tally

    Array = NDArray[Any]

#: Turns of a loop that may be one iteration, at the most.
_LONGEST = 4
#: Iterations that have to repeat each other.
_ALIKE = 3
#: Iterations that run in any case at a loop's end, and those that are worth being left out.
_RUN_AT_END, _WORTH = 1, 2
#: Basic blocks and accesses that are remembered.
_MOST_EVENTS, _MOST_ACCESSES = 4000, 3200
#: Iterations that are left out at a time, at the most.
_MOST_LEFT_OUT = 1 << 16


class _Event(NamedTuple):
    """Lanes ran a basic block; ``decision`` is where those of a branch went."""

    block: int
    lanes: Any
    decision: Array | None


class _Values(NamedTuple):
    """What registers hold that decide which memory is accessed; see :class:`~.address_slice.Watched`."""

    addresses: list[Array]
    others: list[Array]


class _Accessed(NamedTuple):
    """Lanes accessed global memory."""

    allocation: Allocation
    offsets: Array
    width: int
    kind: Access
    lanes: Lanes
    site: Site


class _Box(NamedTuple):
    """A box of a tensor was brought to shared memory."""

    tensor: TensorMap
    coordinates: tuple[int, ...]
    lanes: Lanes


@dataclass(slots=True)
class _Visit:
    """All lanes are at the head of a loop: what they hold, what they did until then, how ``mbarrier`` objects are."""

    registers: list[Array]
    lanes: Any
    events: int
    accesses: int
    boxes: int
    tally: Tally
    phases: Any


class Iterations:
    """Finds repeated iterations in a launch's batches, for its meter.

    Parameters
    ----------
    plan : FunctionPlan
        The kernel.
    meter : Meter
        Counts what is left out.
    """

    def __init__(self, plan: FunctionPlan, meter: Meter) -> None:
        self._plan = plan
        self._meter = meter
        self._heads = frozenset(
            target for block in plan.blocks for target in block.targets if target <= block.index
        )
        #: Heads of loops whose iterations do more than the slice tells.
        self._refused: set[int] = set()
        self._counters_of: dict[int, list[int]] = {}
        self._batch: Any = None
        self._clear()

    def _clear(self) -> None:
        self._visits: dict[int, list[_Visit]] = {}
        self._events: list[_Event] = []
        self._accesses: list[_Accessed] = []
        self._boxes: list[_Box] = []

    # What happens

    def arrives(self, index: int, registers: list[Array], lanes: Any) -> None:
        """All of an activation's lanes are about to run block ``index``; their registers may be those of a later iteration when it returns."""
        if index not in self._heads or index in self._refused:
            return
        batch = lanes.batch
        if batch is not self._batch:
            self._batch = batch
            self._clear()
        if lanes.n != batch.live_count or not _is_idle(batch):
            self._visits.pop(index, None)
            return
        visits = self._visits.setdefault(index, [])
        tally = self._meter.tally()
        visits.append(
            _Visit(
                registers.copy(), lanes, len(self._events), len(self._accesses), len(self._boxes), tally, _phases(batch)
            )
        )  # fmt: skip
        del visits[: -_ALIKE * _LONGEST - 1]
        for turns in range(1, _LONGEST + 1):
            chosen = visits[::-turns][: _ALIKE + 1][::-1]
            if len(chosen) <= _ALIKE:
                break
            if self._repeats(chosen) and self._leave_out(index, chosen, registers):
                break
        self._forget()

    def ran(self, index: int, lanes: Any, decision: Any) -> None:
        """``lanes`` ran a basic block."""
        if self._visits and lanes.batch is self._batch:
            branches = self._plan.blocks[index].end is End.BRANCH
            self._events.append(_Event(index, lanes, decision if branches else None))
            if len(self._events) > 4 * _MOST_EVENTS:
                self._forget()

    def accessed(
        self, allocation: Allocation, offsets: Array, width: int, kind: Access, lanes: Any, site: Site
    ) -> None:
        """``lanes`` accessed global memory."""
        if self._visits and lanes.batch is self._batch:
            self._accesses.append(_Accessed(allocation, offsets, width, kind, lanes, site))
            if len(self._accesses) > 4 * _MOST_ACCESSES:
                self._forget()

    def brought(self, tensor: TensorMap, coordinates: tuple[int, ...], lanes: Any) -> None:
        """One of ``lanes`` brought a box of a tensor to shared memory."""
        if self._visits and lanes.batch is self._batch:
            self._boxes.append(_Box(tensor, coordinates, lanes))
            if len(self._boxes) > 4 * _MOST_ACCESSES:
                self._forget()

    def _forget(self) -> None:
        """Let go of what happened before the visits that are remembered, and of loops that have not come round for long."""
        while self._visits:
            oldest = min(self._visits, key=lambda index: self._visits[index][0].events)
            first = self._visits[oldest][0]
            events, accesses, boxes = first.events, first.accesses, first.boxes
            if (
                len(self._events) - events <= _MOST_EVENTS
                and len(self._accesses) - accesses <= _MOST_ACCESSES
                and len(self._boxes) - boxes <= _MOST_ACCESSES
            ):
                break
            del self._visits[oldest]
        else:
            self._clear()
            return
        if events < _MOST_EVENTS and accesses < _MOST_ACCESSES and boxes < _MOST_ACCESSES:
            return
        del self._events[:events], self._accesses[:accesses], self._boxes[:boxes]
        for visits in self._visits.values():
            for each in visits:
                each.events -= events
                each.accesses -= accesses
                each.boxes -= boxes

    # Whether iterations repeat each other

    def _repeats(self, visits: list[_Visit]) -> bool:
        """Whether what lies between the visits is the same, but for a constant distance in global memory."""
        spans = list(itertools.pairwise(visits))
        if (
            len({after.events - before.events for before, after in spans}) > 1
            or len({after.accesses - before.accesses for before, after in spans}) > 1
            or len({after.boxes - before.boxes for before, after in spans}) > 1
            or any(each.phases != visits[-1].phases for each in visits)
        ):
            return False
        iterations = [self._events[before.events : after.events] for before, after in spans]
        last = iterations.pop()
        numbers = [each.block for each in last]
        if any([each.block for each in events] != numbers for events in iterations):
            return False
        done = [after.tally.since(before.tally) for before, after in spans]
        return (
            all(each == done[-1] for each in done)
            and all(_same_lanes(each.lanes, visits[-1].lanes) for each in visits)
            and all(all(map(_same_event, events, last)) for events in iterations)
            and all(
                self._step(visits, number) is not None for number in range(self._accessed_between(visits))
            )
            and all(
                self._box_steps(visits, number) is not None
                for number in range(visits[-1].boxes - visits[-2].boxes)
            )
        )

    @staticmethod
    def _accessed_between(visits: list[_Visit]) -> int:
        return visits[-1].accesses - visits[-2].accesses

    def _step(self, visits: list[_Visit], number: int) -> Array | None:
        """Bytes from each lane's access in an iteration to the next one's, if that is constant; ``None`` where it is not."""
        same = [self._accesses[each.accesses + number] for each in visits[:-1]]
        last = same[-1]
        for each in same[:-1]:
            if (
                each.site is not last.site
                or each.allocation is not last.allocation
                or (each.kind, each.width) != (last.kind, last.width)
                or not _same_lanes(each.lanes, last.lanes)
            ):
                return None
        return _constant_step([each.offsets for each in same])

    def _box_steps(self, visits: list[_Visit], number: int) -> tuple[int, ...] | None:
        """How far a box goes along each dimension in an iteration, if that is constant; ``None`` where it is not."""
        same = [self._boxes[each.boxes + number] for each in visits[:-1]]
        last = same[-1]
        if any(each.tensor != last.tensor or not _same_lanes(each.lanes, last.lanes) for each in same):
            return None
        steps = {
            tuple(b - a for a, b in zip(before.coordinates, after.coordinates, strict=True))
            for before, after in itertools.pairwise(same)
        }
        return steps.pop() if len(steps) == 1 else None

    # What comes of it

    def _leave_out(self, index: int, visits: list[_Visit], registers: list[Array]) -> bool:
        """Count the iterations that repeat the last one, and go on with the first that does not.

        Returns whether it is no use to look at more turns as one iteration.
        """
        path = self._events[visits[-2].events : visits[-1].events]
        address_slice = slice_of(self._plan, (each.block for each in path))
        if not address_slice.complete:
            self._refused.add(index)
            del self._visits[index]
            return True
        steps: dict[int, Array] = {}
        for number in {*address_slice.state(index), *self._counters(index)}:
            step = _constant_step([each.registers[number] for each in visits])
            if step is None:
                return False
            if step.any():
                steps[number] = step
        self._visits[index] = visits[-1:]
        if not steps:
            return True
        count = self._count(address_slice, path, visits, steps) - _RUN_AT_END
        accesses = self._accesses[visits[-2].accesses : visits[-1].accesses]
        distances = [self._step(visits, number) for number in range(len(accesses))]
        for each, distance in zip(accesses, distances, strict=True):
            assert distance is not None
            count = min(count, _within(each, distance))
        for number, box in enumerate(self._boxes[visits[-2].boxes : visits[-1].boxes]):
            away = self._box_steps(visits, number)
            assert away is not None
            count = min(count, _inside(box, away))
        if count < _WORTH:
            return True
        for iteration in range(1, count + 1):
            for each, distance in zip(accesses, distances, strict=True):
                assert distance is not None
                offsets = _further(each.offsets, distance, iteration)
                self._meter.count_global(
                    each.allocation, offsets, each.width, each.kind, each.lanes, each.site
                )
        self._meter.repeat(visits[-1].tally.since(visits[-2].tally), count)
        for number, step in steps.items():
            registers[number] = _further(registers[number], step, count)
        self._clear()
        return True

    def _counters(self, index: int) -> list[int]:
        """What counts the loop's iterations, for itself or for what follows it."""
        known = self._counters_of.get(index)
        if known is None:
            known = self._counters_of[index] = counters(self._plan, index)
        return known

    def _count(
        self, address_slice: AddressSlice, path: list[_Event], visits: list[_Visit], steps: dict[int, Array]
    ) -> int:
        """How many of the next iterations go the way of the last one, with the accesses that follow from it."""
        slots = visits[-1].lanes.slots
        where = [
            None if each.lanes.n == len(slots) else np.searchsorted(slots, each.lanes.slots) for each in path
        ]

        def run(registers: list[Array]) -> _Values | None:
            return _run(address_slice, path, where, len(slots), registers)

        last = run(visits[-2].registers.copy())
        if last is None:
            return 0
        distances: list[Array] = []
        for count in range(_MOST_LEFT_OUT):
            registers = visits[-1].registers.copy()
            for number, step in steps.items():
                registers[number] = _further(registers[number], step, count)
            values = run(registers)
            if values is None or not all(map(_same, values.others, last.others)):
                return count
            if not count:
                distances = list(map(np.subtract, values.addresses, last.addresses))
            for address, before, distance in zip(values.addresses, last.addresses, distances, strict=True):
                if not _same(address, _further(before, distance, count + 1)):
                    return count
        return _MOST_LEFT_OUT


def _run(
    address_slice: AddressSlice,
    path: Sequence[_Event],
    where: Sequence[Array | None],
    lanes: int,
    registers: list[Array],
) -> _Values | None:
    """Run the slice of an iteration, in which ``where`` are the lanes of each basic block; ``None`` where a branch goes another way."""
    values = _Values([], [])
    for event, index in zip(path, where, strict=True):
        code = address_slice.code(event.block)
        if index is None:
            decision = code.whole(event.lanes, registers)
        else:
            some = {number: _chosen(registers[number], index) for number in code.inputs}
            decision = code.body(event.lanes, some)
            for number in code.outputs:
                merged = np.array(np.broadcast_to(registers[number], (lanes,)))
                merged[index] = some[number]
                registers[number] = merged
        if event.decision is not None and not _same(decision, event.decision):
            return None
        watched = address_slice.watched(event.block)
        for numbers, into in ((watched.addresses, values.addresses), (watched.others, values.others)):
            into += [
                registers[number] if index is None else _chosen(registers[number], index)
                for number in numbers
            ]
    return values


def _chosen(values: Array, index: Array) -> Array:
    return values if values.shape[0] == 1 else values[index]


def _same(one: Array, other: Array) -> bool:
    """Whether two arrays, either of which may be of one number for all lanes, have the same bits."""
    if one is other:
        return True
    if one.dtype.kind not in "uib":
        one, other = (
            np.ascontiguousarray(each).view(np.uint8).reshape(*each.shape, -1) for each in (one, other)
        )
    return bool((one == other).all())


def _same_event(one: _Event, other: _Event) -> bool:
    if not _same_lanes(one.lanes, other.lanes):
        return False
    return one.decision is None or other.decision is None or _same(one.decision, other.decision)


def _same_lanes(one: Any, other: Any) -> bool:
    return one.n == other.n and _same(one.slots, other.slots)


def _constant_step(values: list[Array]) -> Array | None:
    """From one to the next, if that is the same for all; ``None`` where it is not. Only integers may move."""
    first = values[0]
    if all(_same(each, first) for each in values[1:]):
        return np.zeros(1, first.dtype)
    if first.dtype.kind not in "ui":
        return None
    steps = [after - before for before, after in itertools.pairwise(values)]
    return steps[0] if all(_same(each, steps[0]) for each in steps[1:]) else None


def _further(values: Array, step: Array, count: int) -> Array:
    """``values`` after so many steps, modulo the size of their dtype."""
    if step.shape[0] == 1 and not step[0]:
        return values
    factor = np.array([count]).astype(values.dtype)
    if values.shape[0] > 1 and not values.strides[0] and not step.strides[0]:
        return np.broadcast_to(values[:1] + step[:1] * factor, values.shape)
    result: Array = values + step * factor
    return result


def _inside(box: _Box, steps: tuple[int, ...]) -> int:
    """How many steps a box stays inside its tensor where it moves; none if it is not there now."""
    result = _MOST_LEFT_OUT
    for at, step, most, size in zip(box.coordinates, steps, box.tensor.box, box.tensor.sizes, strict=True):
        if step:
            room = size - most - at if step > 0 else at
            result = min(result, room // abs(step) if 0 <= at <= size - most else 0)
    return result


def _is_idle(batch: Any) -> bool:
    """Whether nothing is on its way that threads wait for."""
    return "operations" not in vars(batch) or batch.operations.idle


def _phases(batch: Any) -> Any:
    """How a batch's ``mbarrier`` objects are; ``None`` without any."""
    return batch.mbarriers.states() if "mbarriers" in vars(batch) else None


def _within(accessed: _Accessed, step: Array) -> int:
    """How many steps an access stays inside its allocation."""
    room = np.where(step > 0, accessed.allocation.size - accessed.width - accessed.offsets, accessed.offsets)
    counts = np.where(step == 0, _MOST_LEFT_OUT, room // np.maximum(np.abs(step), 1))
    return int(counts.min())

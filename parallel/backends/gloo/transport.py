"""Collectives on host memory over sockets: the backend that needs nothing installed.

Every rank is connected to every other. Small arrays go to all others at once, which costs one hop, or between many
ranks in pairs. Of large ones each rank owns a slice: the others send it theirs in chunks, it combines them, and sends
the result to all while the next chunk arrives. That moves as few bytes as a ring does, in two hops, and since one rank
computes a slice, all have the same bits.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from parallel.backends.reductions import Reduction, reduction

from .calls import Call, Calls
from .connections import EAGER_BYTES
from .shared_slots import PIECE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nvrtc_kernels.dtypes import dtype
    from parallel.backends.backend import Array
    from parallel.groups.reduce_op import ReduceOp

    from .channels import Receipt
    from .connections import PeerConnections

# Chunks that may arrive at an owner before it has combined the first of them.
_SLOTS = 3

# Up to so many ranks all send small arrays to all others.
_FEW = 4

# What a message of a collective is for. Streams from 0 on are the tags of send() and recv().
_DATA, _GRANT, _RESULT, _NOTE = -1, -2, -3, -4


class GlooTransport:
    """The group ``group_name`` of the world's ``ranks`` over ``connections``.

    See :class:`parallel.backends.backend.HostTransport`.
    """

    name = "gloo"

    def __init__(self, connections: PeerConnections, group_name: str, ranks: Sequence[int]) -> None:
        if connections.rank not in ranks:
            raise ValueError(
                f"rank {connections.rank} is not one of the group {group_name!r} of ranks {list(ranks)}"
            )
        if len(set(ranks)) != len(ranks) or not all(0 <= rank < connections.size for rank in ranks):
            raise ValueError(f"a group has different ranks below {connections.size}, not {list(ranks)}")
        self.rank = list(ranks).index(connections.rank)
        self.size = len(ranks)
        self._calls = Calls(connections, group_name, tuple(ranks))

    def reaches_devices(self, op: ReduceOp | None, dtype: dtype) -> bool:
        """False: sockets and shared memory are the host's."""
        return False

    def all_reduce(self, array: Array, op: ReduceOp, deadline: float) -> None:
        """Replace ``array`` by the combination of every rank's."""
        combine = reduction(op, array.dtype, self.size)
        call = self._calls.begin(f"all_reduce({op.name})", array, deadline)
        if self.size == 1:
            return
        if self.size > _FEW and len(array) * max(4, array.itemsize) <= EAGER_BYTES:
            self._recursive_doubling(call, array, combine)
            return
        if array.nbytes <= EAGER_BYTES:
            slices = self._exchange(call, array, [np.empty_like(array) for _ in range(self.size)])
            # Of the same form on every rank: where NumPy vectorizes, rounding may depend on it.
            total = np.empty_like(array)
            combine.combine(total, slices)
            np.copyto(array, total)
            return
        bounds = [index * len(array) // self.size for index in range(self.size + 1)]
        segments = [array[start:end] for start, end in itertools.pairwise(bounds)]
        arriving = [
            call.post(other, _RESULT, chunk) for other in self._others() for chunk in _chunks(segments[other])
        ]

        def publish(chunk: Array) -> None:
            for other in self._others():
                call.send(other, _RESULT, chunk)

        self._combine(call, dict(enumerate(segments)), segments[self.rank], combine, publish)
        call.finish(arriving)

    def reduce(self, array: Array, dst: int, op: ReduceOp, deadline: float) -> None:
        """As :meth:`all_reduce`, on rank ``dst`` alone."""
        combine = reduction(op, array.dtype, self.size)
        call = self._calls.begin(f"reduce({op.name}, dst={self._checked(dst)})", array, deadline)
        with call.agreement(_NOTE):
            self._combine(call, {dst: array}, array if self.rank == dst else None, combine, None)

    def broadcast(self, array: Array, src: int, deadline: float) -> None:
        """Replace ``array`` by rank ``src``'s."""
        call = self._calls.begin(f"broadcast(src={self._checked(src)})", array, deadline)
        # A binomial tree: the parent of a position is the position without its lowest set bit.
        position = (self.rank - src) % self.size
        low = position & -position if position else 1 << self.size.bit_length()
        parent = None if position == 0 else (position - low + src) % self.size
        children = []
        step = 1
        while step < low and position + step < self.size:
            children.append((position + step + src) % self.size)
            step *= 2
        chunks = _chunks(array)
        large = array.nbytes > EAGER_BYTES
        with call.agreement(_NOTE):
            arriving: list[Receipt] = []
            if parent is not None:
                arriving = [call.post(parent, _DATA, chunk) for chunk in chunks]
                if large:
                    call.send(parent, _GRANT)
            granted = [call.post(child, _GRANT) for child in children] if large else []
            call.finish(granted)
            for index, chunk in enumerate(chunks):
                if parent is not None:
                    call.finish(arriving[index : index + 1])
                for child in reversed(children):
                    call.send(child, _DATA, chunk)

    def all_gather(self, output: Array, input: Array, deadline: float) -> None:
        """Fill the flat ``output`` with every rank's ``input``."""
        slots = self._slices(output, input, "output", "input")
        call = self._calls.begin("all_gather", input, deadline)
        np.copyto(slots[self.rank], input)
        self._exchange(call, slots[self.rank], slots)

    def reduce_scatter(self, output: Array, input: Array, op: ReduceOp, deadline: float) -> None:
        """Fill ``output`` with this rank's chunk of the combination of every rank's flat ``input``."""
        combine = reduction(op, input.dtype, self.size)
        slices = self._slices(input, output, "input", "output")
        call = self._calls.begin(f"reduce_scatter({op.name})", output, deadline)
        np.copyto(output, slices[self.rank])
        self._combine(call, dict(enumerate(slices)), output, combine, None)

    def gather(self, output: Array | None, input: Array, dst: int, deadline: float) -> None:
        """Fill the flat ``output`` of rank ``dst`` with every rank's ``input``."""
        if (output is None) == (self.rank == self._checked(dst)):
            raise ValueError(f"gather takes an output on rank {dst} and nowhere else")
        slots = [] if output is None else self._slices(output, input, "output", "input")
        call = self._calls.begin(f"gather(dst={dst})", input, deadline)
        with call.agreement(_NOTE):
            if output is None:
                self._transfer(call, {dst: input}, {})
            else:
                np.copyto(slots[dst], input)
                self._transfer(call, {}, {other: slots[other] for other in self._others()})

    def scatter(self, output: Array, input: Array | None, src: int, deadline: float) -> None:
        """Fill ``output`` with this rank's chunk of the flat ``input`` of rank ``src``."""
        if (input is None) == (self.rank == self._checked(src)):
            raise ValueError(f"scatter takes an input on rank {src} and nowhere else")
        slices = [] if input is None else self._slices(input, output, "input", "output")
        call = self._calls.begin(f"scatter(src={src})", output, deadline)
        with call.agreement(_NOTE):
            if input is None:
                self._transfer(call, {}, {src: output})
            else:
                np.copyto(output, slices[src])
                self._transfer(call, {other: slices[other] for other in self._others()}, {})

    def all_to_all(
        self,
        output: Array,
        input: Array,
        output_counts: Sequence[int],
        input_counts: Sequence[int],
        deadline: float,
    ) -> None:
        """Send ``input_counts[r]`` elements of the flat ``input`` to each rank r, and receive as many as it sends."""
        slices = self._split(input, input_counts, "input")
        slots = self._split(output, output_counts, "output")
        call = self._calls.begin("all_to_all", input, deadline, sized=False)
        # Sizes differ between pairs of ranks, so each is told first.
        announced = np.array([len(slice_) for slice_ in slices], np.int64)
        expected = np.zeros(self.size, np.int64)
        receipts = [call.post(other, _NOTE, expected[other : other + 1]) for other in self._others()]
        for other in self._others():
            call.send(other, _NOTE, announced[other : other + 1])
        call.finish(receipts)
        expected[self.rank] = announced[self.rank]
        for other, (count, slot) in enumerate(zip(expected.tolist(), slots, strict=True)):
            if count != len(slot):
                raise self._calls.failed(
                    call,
                    f"rank {other} sends {count} elements to rank {self.rank}, whose output has room for {len(slot)}",
                )
        np.copyto(slots[self.rank], slices[self.rank])
        self._transfer(
            call,
            {other: slices[other] for other in self._others()},
            {other: slots[other] for other in self._others()},
        )

    def barrier(self, deadline: float) -> None:
        """Return when every rank has called it."""
        call = self._calls.begin("barrier", None, deadline)
        step = 1
        while step < self.size:
            receipt = call.post((self.rank - step) % self.size, _DATA)
            call.send((self.rank + step) % self.size, _DATA)
            call.finish([receipt])
            step *= 2

    def send(self, array: Array, dst: int, tag: int, deadline: float) -> None:
        """Send ``array`` to rank ``dst``, which receives it with the same ``tag``."""
        self._calls.send(array, self._checked(dst), tag, deadline)

    def recv(self, array: Array, src: int | None, tag: int, deadline: float) -> int:
        """Fill ``array`` from rank ``src`` (None: any), and return the rank that sent it."""
        return self._calls.recv(array, None if src is None else self._checked(src), tag, deadline)

    def close(self) -> None:
        """Forget the group; the connections belong to the caller. Idempotent."""
        self._calls.close()

    def abort(self) -> None:
        """Let the calls of this group fail, here at once, and on the other ranks when they hear of it. Never blocks."""
        self._calls.abort()

    def _others(self) -> list[int]:
        """The other ranks, beginning after this one, so that not all turn to the same."""
        return [(self.rank + step) % self.size for step in range(1, self.size)]

    def _checked(self, rank: int) -> int:
        if not 0 <= rank < self.size:
            raise ValueError(f"rank {rank} is not in the group, which has ranks 0 to {self.size - 1}")
        return rank

    def _slices(self, flat: Array, one: Array, flat_name: str, one_name: str) -> list[Array]:
        if flat.dtype != one.dtype:
            raise TypeError(f"{flat_name} and {one_name} are of one type, not {flat.dtype} and {one.dtype}")
        if len(flat) != self.size * len(one):
            raise ValueError(
                f"{flat_name} has {len(flat)} elements; it needs {self.size} times the {len(one)} of {one_name}"
            )
        return [flat[rank * len(one) : (rank + 1) * len(one)] for rank in range(self.size)]

    def _split(self, flat: Array, counts: Sequence[int], name: str) -> list[Array]:
        if len(counts) != self.size or sum(counts) != len(flat) or min(counts) < 0:
            raise ValueError(
                f"{name} of {len(flat)} elements is split into {self.size} counts that add up to it, not {list(counts)}"
            )
        starts = np.cumsum([0, *counts]).tolist()
        return [flat[start : start + count] for start, count in zip(starts, counts, strict=False)]

    def _exchange(self, call: Call, mine: Array, slots: list[Array]) -> list[Array]:
        """Send ``mine`` to all, and fill the others' slots; all slots, with ``mine`` at this rank's position."""
        others = self._others()
        self._transfer(call, dict.fromkeys(others, mine), {other: slots[other] for other in others})
        return [mine if rank == self.rank else slot for rank, slot in enumerate(slots)]

    def _recursive_doubling(self, call: Call, array: Array, combine: Reduction) -> None:
        """Combine small arrays of many ranks, in pairs of ever larger blocks (recursive doubling).

        Both sides of a pair compute the same from the same, in the order of the ranks. Ranks beyond a power of two give
        their values to one below it, and take the result.
        """
        total = combine.accumulator(array)
        received, result = np.empty_like(total), np.empty_like(total)
        core = 1 << (self.size.bit_length() - 1)
        if self.rank >= core:
            receipt = call.post(self.rank - core, _RESULT, array)
            call.send(self.rank - core, _DATA, total)
            call.finish([receipt])
            return
        partners = [self.rank + core] if self.rank + core < self.size else []
        step = 1
        while step < core:
            partners.append(self.rank ^ step)
            step *= 2
        for partner in partners:
            receipt = call.post(partner, _DATA, received)
            if partner < core:
                call.send(partner, _DATA, total)
            call.finish([receipt])
            first, second = (total, received) if self.rank < partner else (received, total)
            combine.accumulate(result, first, second)
            total, result = result, total
        combine.finish(array, total)
        if self.rank + core < self.size:
            call.send(self.rank + core, _RESULT, array)

    def _transfer(self, call: Call, sending: dict[int, Array], receiving: dict[int, Array]) -> None:
        """Send and fill arrays; long ones once their receivers have said that they are ready."""
        arriving = []
        for other, slot in receiving.items():
            arriving += [call.post(other, _DATA, chunk) for chunk in _chunks(slot)]
            if slot.nbytes > EAGER_BYTES:
                call.send(other, _GRANT)
        granted = {
            other: call.post(other, _GRANT)
            for other, slice_ in sending.items()
            if slice_.nbytes > EAGER_BYTES
        }
        for other, slice_ in sending.items():
            if other in granted:
                call.finish([granted[other]])
            for chunk in _chunks(slice_):
                call.send(other, _DATA, chunk)
        call.finish(arriving)

    def _combine(
        self,
        call: Call,
        contributions: dict[int, Array],
        own: Array | None,
        combine: Reduction,
        publish: Callable[[Array], None] | None,
    ) -> None:
        """Send each owner its slice of this rank's values, and combine in ``own`` what this rank owns.

        ``own`` holds this rank's values already. Each chunk is sent when its owner has said that it has room.
        """
        others = self._others()
        owners = [other for other in others if other in contributions]
        sending = {other: _chunks(contributions[other]) for other in owners}
        mine = [] if own is None else _chunks(own)
        rows: list[list[Array]] = []
        slots: list[list[Receipt]] = []
        grants = {other: [call.post(other, _GRANT) for _ in sending[other]] for other in owners}

        def make_room(index: int) -> None:
            if index >= len(mine):
                return
            row = (
                rows[index % _SLOTS]
                if index >= _SLOTS
                else [np.empty_like(mine[0]) for _ in range(self.size)]
            )
            if index < _SLOTS:
                rows.append(row)
            count = len(mine[index])
            slots.append([call.post(other, _DATA, row[other][:count]) for other in others])
            for other in others:
                call.send(other, _GRANT)

        for index in range(_SLOTS):
            make_room(index)
        steps = max([len(mine), *map(len, sending.values())])
        # A chunk is combined one step later than it is sent, so that it arrives meanwhile.
        for step in range(steps + 1):
            for other in owners:
                if step < len(sending[other]):
                    call.finish(grants[other][step : step + 1])
                    call.send(other, _DATA, sending[other][step])
            index = step - 1
            if 0 <= index < len(mine):
                call.finish(slots[index])
                chunk = mine[index]
                row = rows[index % _SLOTS]
                combine.combine(
                    chunk,
                    [chunk if rank == self.rank else row[rank][: len(chunk)] for rank in range(self.size)],
                )
                make_room(index + _SLOTS)
                if publish is not None:
                    publish(chunk)


def _chunks(array: Array) -> list[Array]:
    """``array`` in pieces of up to ``PIECE_BYTES``; an empty array is one empty piece."""
    count = max(1, PIECE_BYTES // array.dtype.itemsize)
    return [array[start : start + count] for start in range(0, max(1, len(array)), count)]

"""Programs put together at random: many operations under way at once, of several groups, from several streams."""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import parallel
import tensor
from parallel import ReduceOp
from tests.parallel.jobs import joined, use
from tests.parallel.processes import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SIZE = 12
_LAYOUTS: list[Callable[[Any], Any]] = [
    lambda x: x,
    lambda x: x[:, 1:4],
    lambda x: x.t(),
    lambda x: x[::2],
]


class _Slot:
    """A tensor, what every rank has in it, and what still works on it."""

    def __init__(self, device: str, rank: int, size: int, layout: int) -> None:
        self.storage = tensor.zeros((_SIZE, _SIZE), device=device)
        self.tensor = _LAYOUTS[layout](self.storage)
        self.values = [np.zeros(tuple(self.tensor.shape), np.float32) for _ in range(size)]
        self.rank = rank
        self.work: Any = None
        self.stream: Any = tensor.cuda.current_stream() if self.storage.is_cuda else None

    def ready_on(self, stream: Any) -> None:
        """Order ``stream``, which is current, behind all that works on the tensor."""
        if self.work is not None:
            self.work.wait()
            self.work = None
        if stream is not None:
            stream.wait_stream(self.stream)
            self.storage.record_stream(stream)
            self.stream = stream

    def check(self) -> None:
        assert np.array_equal(self.tensor.cpu().numpy(), self.values[self.rank])


def _program(rank: int, size: int, path: str, place: str, seed: int) -> None:
    device = use(place)
    # All ranks choose alike.
    choose = random.Random(seed)
    with joined(rank, size, path):
        members = [list(range(size)), [0, 1], [2, 0], [1, 2]]
        groups = [None, *[parallel.new_group(each, sort_ranks=False) for each in members[1:]]]
        streams = [tensor.cuda.Stream() for _ in range(3)] if device == "cuda" else [None]
        slots = [_Slot(device, rank, size, index % len(_LAYOUTS)) for index in range(8)]
        for step in range(40):
            index = choose.randrange(len(groups))
            stream = choose.choice(streams)
            slot, other = choose.sample(slots, 2)
            kind = choose.choice(["fill", "reduce", "reduce", "broadcast", "gather", "message", "check"])
            op, wait, root = (
                choose.choice([ReduceOp.SUM, ReduceOp.MAX]),
                choose.random() < 0.3,
                choose.randrange(2),
            )
            on_stream = contextlib.nullcontext() if stream is None else tensor.cuda.stream(stream)
            with on_stream:
                _step(rank, kind, slot, other, stream, members[index], groups[index], op, wait, root, step)
        for slot in slots:
            with contextlib.nullcontext() if slot.stream is None else tensor.cuda.stream(slot.stream):
                slot.ready_on(slot.stream)
                slot.check()


def _step(
    rank: int,
    kind: str,
    slot: _Slot,
    other: _Slot,
    stream: Any,
    ranks: list[int],
    group: Any,
    op: ReduceOp,
    wait: bool,
    root: int,
    step: int,
) -> None:
    slot.ready_on(stream)
    if kind == "fill":
        for each in range(len(slot.values)):
            slot.values[each] = (slot.values[each] % 7) + each + step
        slot.tensor.remainder_(7).add_(rank + step)
    elif kind == "check":
        slot.check()
    elif kind == "gather":
        # Into the rows of a new tensor, which is compared at once.
        if rank in ranks:
            rows = tensor.empty((len(ranks), *slot.tensor.shape), device=slot.tensor.device)
            work: Any = parallel.all_gather(list(rows.unbind(0)), slot.tensor, group=group, async_op=True)
            work.wait()
            assert np.array_equal(rows.cpu().numpy(), np.stack([slot.values[each] for each in ranks]))
    elif kind == "reduce":
        argument = [slot.values[each] for each in ranks]
        total = np.sum(argument, 0) if op is ReduceOp.SUM else np.max(argument, 0)
        for each in ranks:
            slot.values[each] = total
        if rank in ranks:
            slot.work = parallel.all_reduce(slot.tensor, op, group=group, async_op=True)
    elif kind == "broadcast":
        for each in ranks:
            slot.values[each] = slot.values[ranks[root]]
        if rank in ranks:
            slot.work = parallel.broadcast(slot.tensor, group_src=root, group=group, async_op=True)
    elif slot.tensor.shape == other.tensor.shape:
        sender, receiver = ranks[0], ranks[1]
        other.ready_on(stream)
        other.values[receiver] = slot.values[sender]
        if rank == sender:
            slot.work = parallel.isend(slot.tensor, receiver, tag=step)
        elif rank == receiver:
            other.work = parallel.irecv(other.tensor, sender, tag=step)
    if wait and slot.work is not None:
        slot.work.wait()


@pytest.mark.parametrize(("place", "seed"), [("cpu", 0), ("eager", 2), ("lazy", 3), ("random", 4)])
def test_random_programs(tmp_path: Path, place: str, seed: int) -> None:
    run(_program, 3, str(tmp_path / "store"), place, seed)

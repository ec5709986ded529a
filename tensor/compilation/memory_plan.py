"""Where the tensors of a program lie that only the program sees.

They are parts of a few pieces of memory, so that a program asks the allocator for these alone, and what a kernel is given is the
address of a piece and a number. Tensors that are there at the same time lie apart, others share bytes.

A piece is there from its first tensor to its last one. So that what is saved for a backward pass goes as that proceeds, tensors
are in a piece with those that end at about the same time, and what lives for long is apart from what does not.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, Any, NamedTuple

from drv.allocators import CachingAllocator
from tensor.core.plans.placing import placing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tensor.core.devices.state import DeviceState
    from tensor.core.layout import Layout

    from .tape import Step

#: In how many stretches the steps of a program may be divided.
_STRETCHES = 1, 2, 4, 8
#: What addresses of tensors are multiples of, in bytes: as those of the allocator.
ALIGNMENT = 512


class Lifetime(NamedTuple):
    """When a buffer is there.

    Attributes
    ----------
    buffer : int
        Its number.
    nbytes : int
        Its size.
    first, last : int
        The step that makes it, and the last one that reads it.
    """

    buffer: int
    nbytes: int
    first: int
    last: int


def is_planned(device_state: DeviceState) -> bool:
    """Whether programs plan memory of a device.

    Allocators that look for accesses outside of tensors are asked for each one by itself.
    """
    return device_state.is_cuda and isinstance(device_state.allocator, CachingAllocator)


class Piece(NamedTuple):
    """Memory that several buffers are parts of.

    Attributes
    ----------
    nbytes : int
        Its size.
    offsets : dict
        Where each buffer begins, by number.
    """

    nbytes: int
    offsets: dict[int, int]


def plan(lifetimes: Sequence[Lifetime], others: Sequence[Lifetime], steps: int) -> list[Piece]:
    """The pieces of memory for buffers of a program of so many steps.

    Of several plans it is the one by which the program takes the least memory at once, with what ``others`` take; where two take
    as much, the one with fewer pieces.
    """
    taken = [0] * steps
    for each in others:
        for step in range(each.first, each.last + 1):
            taken[step] += _rounded(each.nbytes)
    best: tuple[int, list[Piece]] | None = None
    for stretches in _STRETCHES:
        groups = _groups(lifetimes, -(-steps // stretches))
        pieces = [arrange(group) for group in groups]
        together = list(taken)
        for group, piece in zip(groups, pieces, strict=True):
            for step in range(min(each.first for each in group), max(each.last for each in group) + 1):
                together[step] += piece.nbytes
        most = max(together, default=0)
        if best is None or most < best[0]:
            best = most, pieces
    assert best is not None
    return best[1]


def _groups(lifetimes: Iterable[Lifetime], length: int) -> list[list[Lifetime]]:
    """Buffers that are in a piece of memory together, where the steps are divided in stretches of a length."""
    groups: dict[tuple[int, bool], list[Lifetime]] = {}
    for each in lifetimes:
        groups.setdefault((each.last // length, each.last - each.first > length), []).append(each)
    return list(groups.values())


def arrange(lifetimes: Iterable[Lifetime]) -> Piece:
    """The piece of memory for buffers.

    The largest come first, each into the smallest gap between those that are there at the same time.
    """
    offsets: dict[int, int] = {}
    placed: list[tuple[Lifetime, int, int]] = []
    total = 0
    for each in sorted(lifetimes, key=lambda each: (-each.nbytes, each.first, each.buffer)):
        size = _rounded(each.nbytes)
        taken: list[tuple[int, int]] = []
        for other, begin, end in placed:
            if other.first <= each.last and each.first <= other.last:
                insort(taken, (begin, end))
        offset = _smallest_gap(taken, size)
        offsets[each.buffer] = offset
        placed.append((each, offset, offset + size))
        total = max(total, offset + size)
    return Piece(total, offsets)


def _rounded(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _smallest_gap(taken: Iterable[tuple[int, int]], size: int) -> int:
    """Where ``size`` bytes go between intervals, which are in order: into the smallest gap, or behind all of them."""
    best: tuple[int, int] | None = None
    end_before = 0
    for begin, end in taken:
        gap = begin - end_before
        if gap >= size and (best is None or gap < best[0]):
            best = gap, end_before
        end_before = max(end_before, end)
    return end_before if best is None else best[1]


def with_placed_results(step: Step, device_state: Any) -> tuple[Callable[..., Any], set[Layout]] | None:
    """The plan of a step, made once more so that the program can say where its results lie, and the layouts of these.

    ``None`` for a step that is no plan of the device's, or makes its results in another way.
    """
    plan = device_state.plans.get(step.key)
    if step.run is not plan and step.run is not getattr(plan, "run", None):
        return None
    with placing() as layouts:
        own = step.key[0].plan(*step.key[1:])
    run = own if step.run is plan else own.run
    return (run, layouts) if callable(run) and layouts else None

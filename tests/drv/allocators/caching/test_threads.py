"""Several threads, and finalizers that run in the middle of the allocator."""

from __future__ import annotations

import gc
import sys
import threading
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from drv.allocators import CachedBlock, CachingAllocator, PinnedAllocator
from drv.allocators.caching.gate import Gate, Gated, inside, section
from tests.drv.allocators.fakes import MIB, Bottom, FakeBlock, FakeSource

from .test_pinned import Host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIZES = (100, 5000, 70_000, MIB + 1, 3 * MIB)


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def run(threads: int, work: Callable[[int], None]) -> None:
    errors: list[BaseException] = []

    def guarded(index: int) -> None:
        try:
            work(index)
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=guarded, args=(index,)) for index in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def check_empty(bottom: Bottom) -> None:
    result = bottom.allocator.statistics()
    assert result["allocation.all.current"] == result["allocated_bytes.all.current"] == 0
    assert result["requested_bytes.all.current"] == result["active.all.current"] == 0
    bottom.allocator.empty_cache()
    assert bottom.source.used == 0
    assert bottom.allocator.statistics()["inactive_split_bytes.all.current"] == 0


def test_threads_that_allocate_and_free() -> None:
    bottom = Bottom()

    def work(index: int) -> None:
        live: list[CachedBlock] = []
        for step in range(400):
            live.append(bottom.allocator.allocate(SIZES[(step + index) % 5], index % 2))
            if step % 3 == 2:
                bottom.allocator.free(live.pop(step % len(live)))
        for block in live:
            bottom.allocator.free(block)

    run(4, work)
    assert bottom.stat("allocation.all.allocated") == 1600
    check_empty(bottom)


def test_blocks_freed_by_other_threads_than_they_were_allocated_by() -> None:
    bottom = Bottom()
    handed: list[CachedBlock] = []
    seen: list[CachedBlock] = []

    def work(index: int) -> None:
        for step in range(500):
            if index % 2:
                handed.append(bottom.allocator.allocate(SIZES[step % 5], 1))
                continue
            for _ in range(1000):
                if handed:
                    break
                # The others may not have begun.
                time.sleep(0)
            if handed:
                block = handed.pop()
                seen.append(block)
                bottom.allocator.free(block)

    run(4, work)
    ranges = sorted((block.address, block.address + block.size) for block in handed)
    assert all(end <= start for (_, end), (start, _) in pairwise(ranges))
    assert seen
    for block in handed:
        bottom.allocator.free(block)
    check_empty(bottom)


def test_readers_do_not_disturb() -> None:
    bottom = Bottom()

    def work(index: int) -> None:
        for step in range(150):
            if index == 0:
                segments = bottom.allocator.snapshot()
                assert sum(s["total_size"] for s in segments) % (2 * MIB) == 0
                assert bottom.stat("allocation.all.current") >= 0
            elif index == 1:
                bottom.allocator.empty_cache()
            else:
                bottom.allocator.free(bottom.allocator.allocate(SIZES[step % 5], index))

    run(4, work)
    check_empty(bottom)


class Owner:
    """Frees its block when the garbage collector finds it."""

    def __init__(self, allocator: CachingAllocator, block: CachedBlock) -> None:
        self.allocator, self.block = allocator, block
        self.cycle = self

    def __del__(self) -> None:
        self.allocator.free(self.block)


def test_finalizers_free_in_the_middle_of_the_allocator() -> None:
    bottom = Bottom()
    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for step in range(500):
            Owner(bottom.allocator, bottom.allocator.allocate(SIZES[step % 5], 1))
    finally:
        gc.set_threshold(*before)
    gc.collect()
    check_empty(bottom)


class ReentrantSource(FakeSource):
    """Runs ``inside`` in the middle of an allocation, as a finalizer would."""

    inside: Callable[[], None] | None = None

    def allocate(self, size: int, stream: int) -> FakeBlock:
        inside, self.inside = self.inside, None
        if inside is not None:
            inside()
        return super().allocate(size, stream)


def reentrant() -> tuple[Bottom, ReentrantSource]:
    bottom = Bottom()
    bottom.source = source = ReentrantSource()
    bottom.allocator = CachingAllocator(0, source, bottom.events)
    return bottom, source


def test_a_free_inside_an_allocation_is_put_off() -> None:
    bottom, source = reentrant()
    neighbour, block = bottom.allocator.allocate(1000), bottom.allocator.allocate(1000)
    source.inside = lambda: bottom.allocator.free(block)
    large = bottom.allocator.allocate(30 * MIB)
    assert not block.live
    assert bottom.stat("allocation.all.current") == 2
    assert bottom.allocator.allocate(1000).address == block.address
    for left in (neighbour, large):
        bottom.allocator.free(left)


def test_an_allocation_inside_an_allocation_has_a_segment_of_its_own() -> None:
    bottom, source = reentrant()
    inner: list[CachedBlock] = []
    source.inside = lambda: inner.append(bottom.allocator.allocate(1000, 5))
    outer = bottom.allocator.allocate(30 * MIB)
    (block,) = inner
    assert (block.size, block.requested, block.stream) == (2 * MIB, 1000, 5)
    assert bottom.stat("allocation.all.current") == 2
    assert bottom.stat("reserved_bytes.all.current") == 32 * MIB
    bottom.allocator.free(block)
    assert bottom.allocator.allocate(2000, 5).address == block.address
    source.inside = lambda: bottom.allocator.free(bottom.allocator.allocate(1000, 5))
    bottom.allocator.free(outer)
    bottom.allocator.allocate(70 * MIB)
    assert bottom.stat("allocation.all.current") == 2


def test_reading_inside_an_allocation_is_an_error_and_not_a_deadlock() -> None:
    bottom, source = reentrant()
    errors: list[Exception] = []

    def read() -> None:
        try:
            bottom.allocator.statistics()
        except RuntimeError as error:
            errors.append(error)

    source.inside = read
    bottom.allocator.allocate(1)
    assert "finalizer" in str(errors[0])
    assert bottom.stat("allocation.all.current") == 1


def test_an_error_inside_leaves_the_allocator_open() -> None:
    bottom, source = reentrant()

    def fail() -> None:
        raise KeyError("driver")

    source.inside = fail
    with pytest.raises(KeyError):
        bottom.allocator.allocate(1)
    bottom.allocator.free(bottom.allocator.allocate(1))
    check_empty(bottom)


def test_pinned_memory_of_threads() -> None:
    host = Host()
    bottom = Bottom()
    allocator = PinnedAllocator(host.pin, bottom.events)

    def work(index: int) -> None:
        live: list[Any] = []
        for step in range(300):
            live.append(allocator.allocate(SIZES[(step + index) % 5]))
            if step % 2:
                allocator.free(live.pop(0))
        for block in live:
            allocator.free(block)

    run(4, work)
    assert allocator.statistics()["allocation.current"] == 0
    assert allocator.statistics()["allocation.allocated"] == 1200
    allocator.empty_cache()
    assert host.pinned == []


def test_the_gate_lets_one_in_at_a_time() -> None:
    gate = Gate()
    inside = 0
    highest = 0

    def work(index: int) -> None:
        nonlocal inside, highest
        for _ in range(200):
            gate.wait()
            inside += 1
            highest = max(highest, inside)
            inside -= 1
            gate.leave(None)

    run(4, work)
    assert highest == 1
    gate.enter()
    with pytest.raises(IndexError):
        gate.enter()


@pytest.mark.parametrize("entrance", ["_enter", "_go_inside", "_gate.enter"])
def test_a_method_that_closes_the_gate_and_is_not_marked_is_refused_with_its_class(entrance: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def count(self):\n    self.{entrance}()\n    self._leave(None)", scope)
    with pytest.raises(TypeError, match=r"count closes the gate and is not marked: decorate it with @inside"):
        type("Forgotten", (Gated,), {"count": scope["count"]})
    marked = type("Marked", (Gated,), {"count": section(scope["count"])})()
    marked.count()
    marked.count()


class Book(Gated):
    """Runs a function in the middle of a section, as a finalizer would run."""

    @inside
    def read(self, during: Callable[[], Any]) -> Any:
        return during()

    @section
    def write(self, during: Callable[[], Any]) -> Any:
        self._enter()
        try:
            return during()
        finally:
            self._leave(None)


class LongBook(Book):
    @inside
    def sum(self) -> int:
        return 1


@pytest.mark.parametrize("outer", ["read", "write"])
def test_sections_know_each_other_further_up_the_stack_and_those_of_other_objects(outer: str) -> None:
    book, other = LongBook(), LongBook()
    run_inside = getattr(book, outer)
    assert run_inside(other.sum) == 1
    for inner in (book.sum, lambda: book.read(int), lambda: other.read(book.sum)):
        with pytest.raises(RuntimeError, match="at work"):
            run_inside(inner)
    assert book.sum() == 1

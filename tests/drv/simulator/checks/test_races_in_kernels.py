"""Races within a kernel: instructions, barriers and fences told by hand, as the interpreter would."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drv.simulator.checks.findings import Kind
from drv.simulator.checks.observation import Access
from drv.simulator.memory.address_space import MemoryKind

from .races_model import FakeLanes, FakeSite, Program, allocation

READ, WRITE, ATOMIC = Access.READ, Access.WRITE, Access.ATOMIC


class Kernel:
    """A launch in progress. Threads are pairs of block and thread, a block stands for all its threads."""

    def __init__(self, blocks: int = 4, threads: int = 64) -> None:
        self.program = Program(full=True, memory=allocation(4096, MemoryKind.PINNED))
        self.threads = threads
        launch = SimpleNamespace(
            grid=(blocks, 1, 1),
            cluster=None,
            block=(threads, 1, 1),
            dynamic_shared=0,
            kernel=SimpleNamespace(static_shared_bytes=1024, reserved_shared_bytes=0),
            properties=SimpleNamespace(warp_size=32),
        )
        self.line = 0
        self.op = self.program.queue("a", label="kernel 'k'")
        self.checker = self.program.checker
        self.checker.start(self.op)
        self.checker.launch_begins(launch)

    def lanes(self, *threads) -> FakeLanes:
        pairs = [
            (one, thread) for one in threads if isinstance(one, int) for thread in range(self.threads)
        ] + [one for one in threads if isinstance(one, tuple)]
        block, thread = np.array(pairs, np.int64).T
        return FakeLanes(block, thread)

    def site(self, text: str) -> FakeSite:
        self.line += 1
        return FakeSite(self.line, text)

    def touch(self, kind, offsets, *threads, text="", width=4, shared=False):
        lanes = self.lanes(*threads)
        offsets = np.broadcast_to(np.asarray(offsets, np.int64), lanes.block.shape).copy()
        site = self.site(
            text or {READ: "ld.f32 %f1, [%rd1];", WRITE: "st.f32 [%rd1], %f1;"}.get(kind, "atom.add.u32")
        )
        if shared:
            self.checker.shared_access(offsets, width, kind, lanes, site)
        else:
            self.checker.global_access(self.program.memory, offsets, width, kind, lanes, site)

    def shared(self, kind, offsets, *threads, **options):
        self.touch(kind, offsets, *threads, shared=True, **options)

    def barrier(self, *blocks):
        self.checker.barrier(np.array(blocks, np.int64), self.lanes(*blocks))

    def syncwarp(self, *threads):
        self.checker.warp_barrier(self.lanes(*threads))

    def fence(self, *threads):
        self.checker.fence(self.lanes(*threads))

    @property
    def kinds(self) -> list[Kind]:
        return [finding.kind for finding in self.program.findings]


EACH = np.arange(64) * 4


def test_shared_memory_between_barriers():
    kernel = Kernel()
    kernel.shared(WRITE, EACH, 0)
    kernel.shared(READ, EACH, 0)
    assert kernel.kinds == []
    kernel.barrier(0)
    kernel.shared(READ, EACH[::-1], 0)
    assert kernel.kinds == []
    kernel.shared(WRITE, EACH, 0)
    (finding,) = kernel.program.findings
    assert finding.kind is Kind.SHARED_RACE
    text = str(finding)
    assert "block (0, 0, 0), thread (63, 0, 0)" in text
    assert "__syncthreads()" in text
    assert "of the block's shared memory" in text


def test_a_reduction_without_its_barrier():
    for barriers in (True, False):
        kernel = Kernel()
        kernel.shared(WRITE, EACH, 0)
        stride = 32
        while stride:
            if barriers:
                kernel.barrier(0)
            half = [(0, thread) for thread in range(stride)]
            kernel.shared(READ, EACH[stride : 2 * stride], *half)
            kernel.shared(READ, EACH[:stride], *half)
            kernel.shared(WRITE, EACH[:stride], *half)
            stride //= 2
        assert bool(kernel.kinds) != barriers


def test_blocks_have_their_own_shared_memory():
    kernel = Kernel()
    kernel.shared(WRITE, np.concatenate((EACH, EACH)), 0, 1)
    kernel.barrier(0)
    kernel.shared(READ, EACH[::-1], 0)
    assert kernel.kinds == []
    kernel.shared(READ, EACH[::-1], 1)
    assert kernel.kinds == [Kind.SHARED_RACE]


def test_a_warp_barrier_orders_its_warp():
    kernel = Kernel()
    first, second = [(0, t) for t in range(32)], [(0, t) for t in range(32, 64)]
    kernel.shared(WRITE, EACH, 0)
    kernel.syncwarp(*first, *second)
    kernel.shared(READ, EACH[31::-1], *first)
    assert kernel.kinds == []
    kernel.syncwarp(*first)
    kernel.shared(WRITE, EACH[:32], *first)
    assert kernel.kinds == []
    kernel.shared(READ, EACH[:32], *second)
    assert kernel.kinds == [Kind.SHARED_RACE]


def test_lanes_of_a_warp_are_not_in_step():
    kernel = Kernel()
    kernel.shared(WRITE, 0, (0, 0))
    kernel.shared(READ, 0, (0, 1))
    assert kernel.kinds == [Kind.SHARED_RACE]


def test_many_readers_in_a_warp_then_one_writer():
    for synced in (True, False):
        kernel = Kernel()
        kernel.shared(WRITE, 0, (0, 0))
        kernel.barrier(0)
        warp = [(0, t) for t in range(32)]
        kernel.shared(READ, 0, *warp)
        if synced:
            kernel.syncwarp(*warp)
        kernel.shared(WRITE, 0, (0, 31))
        assert bool(kernel.kinds) != synced


def test_readers_before_and_after_a_barrier():
    kernel = Kernel()
    kernel.shared(WRITE, 0, (0, 0))
    kernel.barrier(0)
    kernel.shared(READ, 0, (0, 1))
    kernel.barrier(0)
    kernel.shared(READ, 0, (0, 2))
    kernel.shared(WRITE, 0, (0, 2))
    assert kernel.kinds == []
    kernel.barrier(0)
    kernel.shared(READ, 0, (0, 2))
    kernel.shared(READ, 0, (0, 40))
    kernel.shared(WRITE, 0, (0, 2))
    assert kernel.kinds == [Kind.SHARED_RACE]


def test_one_instruction_that_writes_a_byte_twice():
    kernel = Kernel()
    kernel.shared(WRITE, 0, (0, 3), (0, 4))
    (finding,) = kernel.program.findings
    assert "which value stays is not defined" in str(finding)


def test_accesses_of_different_widths_overlap():
    kernel = Kernel()
    kernel.touch(WRITE, [0, 16], (0, 0), (0, 1), width=16)
    kernel.touch(READ, [8, 16], (0, 0), (0, 1), width=8)
    assert kernel.kinds == []
    kernel.touch(READ, [18], (0, 0), width=1)
    (finding,) = kernel.program.findings
    assert finding.kind is Kind.KERNEL_RACE
    assert finding.ranges == ((18, 19),)


def test_atomics_race_only_with_plain_accesses():
    kernel = Kernel()
    kernel.shared(WRITE, 0, (0, 0))
    kernel.barrier(0)
    kernel.shared(ATOMIC, 0, 0)
    kernel.shared(ATOMIC, 0, (0, 5), (0, 5))
    assert kernel.kinds == []
    kernel.shared(READ, 0, (0, 7))
    assert kernel.kinds == [Kind.SHARED_RACE]


def test_blocks_are_unordered_in_global_memory():
    kernel = Kernel()
    kernel.touch(WRITE, EACH, 0)
    kernel.barrier(0)
    kernel.barrier(1)
    kernel.touch(READ, EACH, 0)
    assert kernel.kinds == []
    kernel.touch(READ, EACH, 1)
    assert kernel.kinds == [Kind.KERNEL_RACE]
    assert "__threadfence()" in str(kernel.program.findings[0])


def test_readers_in_many_blocks_and_a_writer():
    kernel = Kernel()
    kernel.touch(READ, 0, 0, 1, 2)
    kernel.barrier(0)
    kernel.touch(WRITE, 0, (0, 0))
    assert kernel.kinds == [Kind.KERNEL_RACE]


def test_a_histogram_by_atomics():
    kernel = Kernel()
    kernel.touch(ATOMIC, np.tile(EACH % 32, 4), 0, 1, 2, 3, text="red.global.add.u32 [%rd1], 1;")
    assert kernel.kinds == []
    kernel.touch(READ, 0, (1, 0))
    assert kernel.kinds == [Kind.KERNEL_RACE]


@pytest.mark.parametrize("fenced", [True, False])
def test_the_last_block_adds_up(fenced):
    """NVIDIA's threadFenceReduction: blocks may run together or one after the other."""
    counter = 2048
    for groups in ([[0, 1, 2, 3]], [[2], [0], [3], [1]]):
        kernel = Kernel()
        for blocks in groups:
            leaders = [(block, 0) for block in blocks]
            kernel.touch(WRITE, [4 * block for block in blocks], *leaders)
            if fenced:
                kernel.fence(*leaders)
            kernel.touch(ATOMIC, counter, *leaders, text="atom.global.inc.u32 %r1, [%rd1], %r2;")
            kernel.shared(WRITE, 0, *leaders)
            kernel.barrier(*blocks)
            kernel.shared(READ, 0, *blocks)
        last = groups[-1][-1]
        some = [(last, thread) for thread in range(4)]
        kernel.touch(READ, [0, 4, 8, 12], *some)
        kernel.touch(WRITE, counter, (last, 0))
        assert bool(kernel.kinds) != fenced


@pytest.mark.parametrize("missing", ["nothing", "fence", "acquire"])
def test_decoupled_look_back(missing):
    """Each block publishes a sum and then a flag; the next block spins on the flag."""
    sums, flags = 0, 1024
    kernel = Kernel()
    for block in range(4):
        leader = (block, 0)
        if block:
            if missing != "acquire":
                for _ in range(2):
                    kernel.touch(
                        READ, flags + 4 * (block - 1), leader, text="ld.volatile.global.u32 %r1, [%rd1];"
                    )
            kernel.touch(READ, sums + 4 * (block - 1), leader)
        kernel.touch(WRITE, sums + 4 * block, leader)
        if missing != "fence":
            kernel.fence(leader)
        kernel.touch(WRITE, flags + 4 * block, leader, text="st.volatile.global.u32 [%rd1], 1;")
    assert bool(kernel.kinds) == (missing != "nothing")


def test_look_back_that_reads_what_was_published_two_releases_ago():
    kernel = Kernel()
    for item in range(3):
        kernel.touch(WRITE, 4 * item, (0, 0))
        kernel.fence((0, 0))
        kernel.touch(WRITE, 1024, (0, 0), text="st.relaxed.gpu.global.u32 [%rd1], %r1;")
        if item == 0:
            kernel.touch(READ, 1024, (1, 0), text="ld.relaxed.gpu.global.u32 %r1, [%rd1];")
    kernel.touch(READ, 0, (1, 0))
    assert kernel.kinds == []
    kernel.touch(READ, 4, (1, 0))
    assert kernel.kinds == [Kind.KERNEL_RACE]


@pytest.mark.parametrize("locked", [True, False])
def test_a_spin_lock(locked):
    """Threads of several blocks, and of one block, take turns."""
    lock, value = 0, 64
    kernel = Kernel()
    for owner in ((0, 0), (1, 0), (1, 33), (0, 5)):
        if locked:
            kernel.touch(ATOMIC, lock, owner, (2, 2), text="atom.global.cas.b32 %r1, [%rd1], 0, 1;")
            kernel.fence(owner)
        kernel.touch(READ, value, owner)
        kernel.touch(WRITE, value, owner)
        if locked:
            kernel.fence(owner)
            kernel.touch(ATOMIC, lock, owner, text="atom.global.exch.b32 %r1, [%rd1], 0;")
    assert bool(kernel.kinds) != locked


@pytest.mark.parametrize("whole", [True, False])
def test_a_barrier_across_the_grid(whole):
    kernel = Kernel()
    kernel.touch(WRITE, np.concatenate((EACH, EACH + 256)), 0, 1)
    kernel.barrier(0, 1)
    for block in (0, 1) if whole else (1,):
        kernel.fence((block, 0))
        kernel.touch(ATOMIC, 1024, (block, 0))
    kernel.touch(READ, 1024, (0, 0), (1, 0), text="ld.acquire.gpu.u32 %r1, [%rd1];")
    kernel.barrier(0, 1)
    kernel.touch(READ, np.concatenate((EACH + 256, EACH)), 0, 1)
    kernel.touch(WRITE, 2048, (0, 0))
    assert bool(kernel.kinds) != whole


def test_release_and_acquire_instructions_are_fences():
    for text in (
        "atom.acq_rel.gpu.global.add.u32 %r1, [%rd1], 1;",
        "atom.relaxed.gpu.global.add.u32 %r1, [%rd1], 1;",
    ):
        kernel = Kernel()
        kernel.touch(WRITE, 0, (0, 0))
        kernel.touch(ATOMIC, 64, (0, 0), text=text)
        kernel.touch(ATOMIC, 64, (1, 0), text=f"@%p1 {text}")
        kernel.touch(READ, 0, (1, 0))
        assert bool(kernel.kinds) == ("relaxed" in text)


def test_a_fence_alone_orders_nothing():
    kernel = Kernel()
    kernel.touch(WRITE, 0, (0, 0))
    kernel.fence((0, 0), (1, 0))
    kernel.touch(READ, 0, (1, 0))
    assert kernel.kinds == [Kind.KERNEL_RACE]


def test_shared_memory_that_nothing_has_written():
    kernel = Kernel()
    kernel.shared(WRITE, 0, (0, 0))
    kernel.shared(READ, 0, (0, 0))
    assert kernel.kinds == []
    kernel.shared(READ, 0, (1, 0))
    kernel.shared(ATOMIC, 8, (0, 0))
    kernel.shared(READ, 8, (0, 0))
    assert kernel.kinds == [Kind.UNINITIALIZED] * 2
    assert kernel.program.findings[0].ranges == ((0, 4),)


def test_more_blocks_than_are_remembered(monkeypatch):
    monkeypatch.setattr("drv.simulator.checks.kernel_races.SHARED_REMEMBERED", 2048)
    kernel = Kernel(blocks=5)
    for block in range(5):
        kernel.shared(WRITE, EACH, block)
        kernel.barrier(block)
        kernel.shared(READ, EACH[::-1], block)
    assert kernel.kinds == []
    kernel.shared(READ, 0, (0, 1))
    kernel.shared(WRITE, 0, (4, 1))
    assert kernel.kinds == [Kind.SHARED_RACE]


def test_each_launch_starts_anew():
    kernel = Kernel()
    kernel.touch(WRITE, EACH, 0)
    checker = kernel.checker
    checker.launch_ends(None)
    checker.finish(kernel.op)
    second = Kernel()
    second.program = kernel.program
    second.checker = checker
    op = kernel.program.queue("a")
    checker.start(op)
    checker.launch_begins(
        SimpleNamespace(
            grid=(4, 1, 1), block=(64, 1, 1), cluster=None, properties=SimpleNamespace(warp_size=32)
        )
    )
    second.touch(WRITE, EACH[::-1], 1)
    assert second.kinds == []


@st.composite
def steps(draw):
    """Accesses by threads of two blocks of two warps, and barriers among them."""
    threads = st.tuples(st.integers(0, 1), st.sampled_from([0, 1, 32]))
    result = []
    for _ in range(draw(st.integers(1, 12))):
        choice = draw(st.integers(0, 5))
        if choice == 0:
            result.append(("barrier", draw(st.integers(0, 1))))
        elif choice == 1:
            block, warp = draw(st.tuples(st.integers(0, 1), st.integers(0, 1)))
            result.append(("syncwarp", block, warp))
        else:
            who = draw(st.lists(threads, min_size=1, max_size=4, unique=True))
            where = draw(st.lists(st.integers(0, 2), min_size=len(who), max_size=len(who)))
            result.append(("touch", draw(st.sampled_from([READ, WRITE, ATOMIC])), who, where))
    return result


def races_by_definition(program) -> set[int]:
    """Bytes for which two accesses by different threads have no barrier of both between them."""
    accesses = []
    synced: list[tuple[int, object]] = []
    result = set()
    for time, step in enumerate(program):
        if step[0] != "touch":
            synced.append((time, step))
            continue
        _, kind, who, where = step
        accesses += [(time, kind, thread, device) for thread, device in zip(who, where, strict=True)]
    for index, (t1, k1, a, p1) in enumerate(accesses):
        for t2, k2, b, p2 in accesses[index + 1 :]:
            if a == b or p1 != p2 or (k1 == k2 and k1 is not WRITE):
                continue
            # Who made the latest atomic of a place may touch it: the others' came before.
            latest = [who for t, k, who, p in accesses if k is ATOMIC and p == p1 and t < t2]
            if k1 is ATOMIC and latest[-1] == b:
                continue
            # The threads that know of the first access by the time of the second.
            knows = {a}
            for time, step in synced:
                if t1 < time < t2:
                    block = step[1]
                    group = {
                        (block, thread)
                        for thread in range(64)
                        if step[0] == "barrier" or thread // 32 == step[2]
                    }
                    if group & knows:
                        knows |= group
            if b not in knows:
                result.add(p1)
    return result


@settings(max_examples=300, deadline=None)
@given(steps())
def test_races_are_those_that_no_barrier_separates(program):
    kernel = Kernel(blocks=2)
    for step in program:
        if step[0] == "barrier":
            kernel.barrier(step[1])
        elif step[0] == "syncwarp":
            kernel.syncwarp(*[(step[1], 32 * step[2] + lane) for lane in range(32)])
        else:
            _, kind, who, where = step
            kernel.touch(kind, [4 * device for device in where], *who)
    ranges = [limits for finding in kernel.program.findings for limits in finding.ranges]
    devices = {byte // 4 for start, stop in ranges for byte in range(start, stop)}
    assert devices == races_by_definition(program)

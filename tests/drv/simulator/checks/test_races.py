"""The race finder's rules, one by one, on operations without a driver."""

from __future__ import annotations

import threading
import tracemalloc

import numpy as np
import pytest

from drv.simulator.checks import access_states, watched_sources
from drv.simulator.checks.findings import Kind
from drv.simulator.checks.observation import Access
from drv.simulator.memory.address_space import MemoryKind

from .races_model import FakeLanes, FakeSite, Program, allocation

READ, WRITE, ATOMIC = Access.READ, Access.WRITE, Access.ATOMIC


@pytest.mark.parametrize(
    ("first", "second", "races"),
    [
        (READ, READ, False),
        (READ, WRITE, True),
        (WRITE, READ, True),
        (WRITE, WRITE, True),
        (ATOMIC, ATOMIC, False),
        (ATOMIC, READ, True),
        (ATOMIC, WRITE, True),
        (READ, ATOMIC, True),
        (WRITE, ATOMIC, True),
    ],
)
def test_two_streams_race_when_one_access_is_a_write_or_only_one_is_atomic(first, second, races):
    program = Program()
    one = program.do("a", (0, 64, first))
    program.do("b", (0, 64, second))
    assert bool(program.findings) == races
    program.do("b", (64, 128, second), after=[one])
    assert len(program.findings) == races


def test_a_wait_orders_and_orders_onward():
    program = Program()
    one = program.do("a", (0, 64, WRITE))
    two = program.do("b", (64, 128, WRITE), after=[one])
    program.do("c", (0, 128, WRITE), after=[two])
    assert not program.findings


def test_only_the_bytes_that_both_touch_are_reported():
    program = Program()
    program.do("a", (0, 40, WRITE))
    program.do("b", (33, 100, READ))
    (finding,) = program.findings
    assert finding.kind is Kind.RACE
    assert finding.ranges == ((33, 40),)
    assert finding.allocation is program.memory


def test_neighbouring_bytes_do_not_race():
    program = Program()
    program.do("a", (0, 33, WRITE))
    program.do("b", (33, 256, WRITE))
    assert not program.findings


def test_report_says_who_where_and_what_is_missing():
    program = Program()
    program.memory.stack = (("model.py", 7, "make"),)
    program.run(program.queue("a", label="kernel 'fill'"), (0, 64, WRITE))
    program.run(program.queue("b", label="kernel 'sum'"), (0, 64, READ))
    text = str(program.findings[0])
    for part in (
        "kernel 'fill' on stream a writes",
        "kernel 'sum' on stream b reads",
        "bytes [0, 64) of 256 bytes of device memory on device 0",
        'File "model.py", line 7, in make',
        'File "program.py", line 1, in main',
        'File "program.py", line 2, in main',
        "Record an event on stream a after kernel 'fill' and let stream b wait for it before kernel 'sum'",
    ):
        assert part in text


def test_the_report_is_the_same_whichever_ran_first():
    texts = []
    for backwards in (False, True):
        program = Program()
        ops = [program.queue("a"), program.queue("b")]
        for op in reversed(ops) if backwards else ops:
            program.run(op, (0, 8, WRITE))
        texts.append(str(program.findings[0]))
    assert texts[0] == texts[1]


def test_the_same_lines_are_one_finding_with_a_count():
    program = Program()
    ops = []
    for _ in range(5):
        for stream in "ab":
            op = program.queue(stream, label=f"kernel {stream}")
            op.clock.stack = (("loop.py", ord(stream), "step"),)
            ops.append(op)
    for op in ops:
        program.run(op, (0, 64, WRITE))
    assert len(program.findings) == 2
    assert sum(finding.count for finding in program.findings) == 9
    assert "(found 5 times)" in str(program.findings[0])


def test_an_operation_does_not_race_with_itself():
    program = Program()
    program.do("a", (0, 64, WRITE), (0, 64, READ), (32, 64, ATOMIC), (0, 64, WRITE))
    assert not program.findings


def test_lanes_and_ranges_share_one_shadow():
    program = Program()
    program.do("a", (16, 32, WRITE))
    op = program.queue("b")
    program.checker.start(op)
    offsets = np.array([0, 4, 8, 12, 20, 28, 28], np.int64)
    lanes = FakeLanes(np.zeros(7, np.int64), np.arange(7))
    site = FakeSite(12, "ld.global.f32 %f1, [%rd1];", ("sum.cu", 3))
    program.checker.global_access(program.memory, offsets, 4, READ, lanes, site)
    program.checker.finish(op)
    (finding,) = program.findings
    assert finding.ranges == ((20, 24), (28, 32))
    assert "at sum.cu:3 (PTX line 12: ld.global.f32 %f1, [%rd1];)" in str(finding)


def test_host_reads_before_it_waits():
    program = Program(memory=allocation(kind=MemoryKind.PINNED))
    op = program.do("a", (0, 64, WRITE))
    program.host(0, 64, READ)
    (finding,) = program.findings
    assert finding.second.operation == "the host"
    assert "Synchronise with stream a" in str(finding)
    program.checker.host_waits(op)
    program.host(0, 64, READ)
    assert finding.count == 1


def test_host_writes_while_a_copy_is_pending():
    program = Program(memory=allocation(kind=MemoryKind.PINNED))
    program.host(0, 64, WRITE)
    early = program.queue("a")
    program.host(0, 64, WRITE)
    late = program.queue("a")
    program.run(early, (0, 64, READ))
    assert len(program.findings) == 1
    program.run(late, (0, 64, READ))
    assert program.findings[0].count == 1


def test_host_writes_that_only_the_bytes_tell():
    for early in (False, True):
        program = Program(memory=allocation(kind=MemoryKind.PINNED))
        pending = program.queue("a")
        # Two rows of four bytes, eight bytes apart; what lies between does not matter.
        program.checker.watch_source(pending, program.memory, 2, (1, 2, 4), (16, 8))
        if early:
            program.run(pending, (2, 14, READ))
        program.memory.data[[3, 4, 7, 12]] = 1
        if not early:
            program.run(pending, (2, 14, READ))
        program.checker.host_waits(pending)
        (finding,) = program.findings
        assert finding.ranges == ((3, 5), (12, 13))
        assert finding.count == 1


def test_host_writes_after_the_wait():
    program = Program(memory=allocation(kind=MemoryKind.PINNED))
    one, two = program.queue("a"), program.queue("b")
    program.checker.watch_source(one, program.memory, 0, (1, 1, 64), (64, 64))
    program.run(one, (0, 64, READ))
    program.checker.host_waits(one)
    program.memory.data[:] = 1
    program.run(two)
    program.checker.host_waits(two)
    assert not program.findings


def test_no_more_bytes_are_kept_than_the_limit(monkeypatch):
    monkeypatch.setattr(watched_sources, "MAX_BYTES", 100)
    program = Program(memory=allocation(kind=MemoryKind.PINNED))
    copies = [program.queue("a") for _ in range(3)]
    for copy in copies:
        program.checker.watch_source(copy, program.memory, 0, (1, 1, 50), (50, 50))
    program.memory.data[0] = 1
    program.checker.host_waits(copies[2])
    assert [finding.first.operation for finding in program.findings] == ["operation 2", "operation 3"]


def test_bytes_that_queued_work_has_changed_are_not_the_hosts_doing():
    program = Program(memory=allocation(kind=MemoryKind.PINNED))
    first, second = program.queue("a"), program.queue("a")
    program.checker.watch_source(second, program.memory, 0, (1, 1, 64), (64, 64))
    program.memory.data[:] = 1
    program.run(first, (0, 64, WRITE))
    program.run(second, (0, 64, READ))
    assert not program.findings


def test_a_callback_touches_memory_in_its_place_in_the_stream():
    program = Program(memory=allocation(kind=MemoryKind.PINNED))
    program.do("a", (0, 64, WRITE))
    callback, other = program.queue("a"), program.queue("b")

    def in_callback_thread():
        program.checker.start(callback)
        program.host(0, 64, READ)
        program.checker.finish(callback)

    program.checker.start(other)
    thread = threading.Thread(target=in_callback_thread)
    thread.start()
    thread.join()
    program.checker.range_access(program.memory, 64, 128, WRITE)
    program.checker.finish(other)
    assert not program.findings
    program.host(0, 64, READ)
    program.host(64, 128, READ)
    assert len(program.findings) == 2


def test_queueing_from_two_threads_orders_nothing_and_waiting_in_one_orders_for_all():
    for waits in (False, True):
        program = Program()

        def first(program=program, waits=waits):
            op = program.do("a", (0, 64, WRITE))
            if waits:
                program.checker.host_waits(op)

        for work in (first, lambda program=program: program.do("b", (0, 64, READ))):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        assert bool(program.findings) != waits


def test_freeing_while_work_may_be_pending():
    program = Program()
    op = program.do("a", (16, 64, READ))
    program.checker.freed(program.memory, (("free.py", 3, "drop"),))
    (finding,) = program.findings
    assert finding.kind is Kind.FREED_IN_USE
    assert finding.ranges == ((16, 64),)
    assert "before the memory is freed" in str(finding)
    program.memory = allocation()
    program.findings.clear()
    op = program.do("a", (16, 64, READ))
    program.checker.host_waits(op)
    program.checker.freed(program.memory)
    assert not program.findings


def test_freeing_looks_at_the_past_alone():
    """What was never touched, most of a large buffer, is not written for memory that is gone."""
    program = Program()
    program.checker.host_waits(program.do("a", (0, 40, WRITE)))
    shadow = program.memory.shadow
    before = shadow.states.copy()
    program.checker.freed(program.memory)
    assert not program.findings
    assert program.memory.shadow is None
    np.testing.assert_array_equal(shadow.states, before)


def test_stream_ordered_memory_is_used_after_its_allocation_and_before_its_free():
    program = Program()
    program.memory = memory = allocation(1 << 20)
    allocate = program.queue("a")
    program.checker.start(allocate)
    program.checker.allocated(memory)
    program.checker.finish(allocate)
    good = program.do("b", (0, 64, WRITE), after=[allocate])
    program.do("c", (64, 128, WRITE))
    (finding,) = program.findings
    assert finding.first.action == "allocates"
    program.findings.clear()
    free = program.queue("a", (good,))
    program.checker.start(free)
    program.checker.freed(memory)
    program.checker.finish(free)
    (finding,) = program.findings
    assert finding.kind is Kind.FREED_IN_USE
    assert finding.ranges == ((64, 128),)


def test_an_allocation_by_the_host_orders_nothing():
    program = Program()
    program.do("a", (0, 64, WRITE))
    program.checker.allocated(allocation(base=1 << 49))
    program.do("b", (0, 64, READ))
    assert len(program.findings) == 1


def test_registered_memory_at_an_odd_address():
    program = Program(memory=allocation(100, MemoryKind.REGISTERED, base=(1 << 30) + 4))
    op = program.queue("a")
    program.checker.start(op)
    lanes = FakeLanes(np.zeros(2, np.int64), np.arange(2))
    # 16-byte accesses at addresses that are multiples of 16, offsets that are not.
    program.checker.global_access(program.memory, np.array([12, 28]), 16, WRITE, lanes, FakeSite())
    program.checker.finish(op)
    program.do("b", (0, 100, READ))
    assert program.findings[0].ranges == ((12, 44),)


class TestUndefined:
    def program(self) -> Program:
        return Program(full=True)

    def copy(self, program, source, target, stream="a"):
        op = program.queue(stream)
        program.checker.start(op)
        program.checker.copy_begins()
        for memory, start, stop, kind in (source, target):
            if memory is not None:
                program.checker.range_access(memory, start, stop, kind)
        program.checker.finish(op)

    def test_device_memory_is_undefined_until_written(self):
        program = self.program()
        program.do("a", (0, 32, WRITE))
        program.do("a", (0, 32, READ))
        assert not program.findings
        program.do("a", (16, 64, READ))
        (finding,) = program.findings
        assert finding.kind is Kind.UNINITIALIZED
        assert finding.ranges == ((32, 64),)

    def test_lanes(self):
        program = self.program()
        program.do("a", (0, 32, WRITE))
        op = program.queue("a")
        program.checker.start(op)
        lanes = FakeLanes(np.zeros(3, np.int64), np.arange(3))
        program.checker.global_access(program.memory, np.array([28, 30, 32]), 2, READ, lanes, FakeSite())
        program.checker.global_access(program.memory, np.array([40, 40, 44]), 4, WRITE, lanes, FakeSite())
        program.checker.global_access(program.memory, np.array([40, 42, 44]), 2, READ, lanes, FakeSite())
        program.checker.finish(op)
        (finding,) = program.findings
        assert finding.ranges == ((32, 34),)

    def test_an_atomic_reads(self):
        program = self.program()
        program.do("a", (0, 8, ATOMIC))
        program.do("a", (0, 8, READ))
        assert [finding.second.action for finding in program.findings] == ["updates atomically"]

    @pytest.mark.parametrize("kind", [MemoryKind.PINNED, MemoryKind.REGISTERED, MemoryKind.VARIABLE])
    def test_other_memory_is_defined(self, kind):
        program = Program(full=True, memory=allocation(kind=kind))
        program.do("a", (0, 256, READ))
        assert not program.findings

    def test_copies_carry_it(self):
        program = self.program()
        other = allocation(base=1 << 49)
        program.do("a", (3, 32, WRITE))
        self.copy(program, (program.memory, 0, 64, READ), (other, 8, 72, WRITE))
        assert not program.findings
        program.memory = other
        program.do("a", (11, 40, READ))
        assert not program.findings
        program.do("a", (8, 72, READ))
        assert program.findings[0].ranges == ((8, 11), (40, 72))

    def test_copies_in_rows(self):
        program = self.program()
        other = allocation(base=1 << 49)
        program.do("a", (0, 12, WRITE))
        op = program.queue("a")
        program.checker.start(op)
        program.checker.copy_begins()
        for row in range(3):
            program.checker.range_access(program.memory, 8 * row, 8 * row + 8, READ)
        program.checker.range_access(other, 0, 24, WRITE)
        program.checker.finish(op)
        program.memory = other
        program.do("a", (0, 24, READ))
        assert program.findings[0].ranges == ((12, 24),)

    def test_copies_to_the_host_are_reported_when_nothing_of_them_is_defined(self):
        program = self.program()
        program.do("a", (0, 8, WRITE))
        self.copy(program, (program.memory, 0, 64, READ), (None, 0, 0, WRITE))
        assert not program.findings
        self.copy(program, (program.memory, 8, 64, READ), (None, 0, 0, WRITE))
        assert program.findings[0].ranges == ((8, 64),)

    def test_copies_from_the_host_define(self):
        program = self.program()
        self.copy(program, (None, 0, 0, READ), (program.memory, 0, 64, WRITE))
        pinned = allocation(kind=MemoryKind.PINNED, base=1 << 30)
        self.copy(program, (pinned, 0, 64, READ), (program.memory, 64, 128, WRITE))
        program.do("a", (0, 128, READ))
        assert not program.findings

    def test_written_defines(self):
        program = self.program()
        program.checker.written(program.memory, 5, 9)
        program.do("a", (5, 9, READ))
        assert not program.findings


class TestFindings:
    def race(self, program):
        one, two = program.queue("a"), program.queue("b")
        one.clock.label, two.clock.label = "one", "two"
        one.clock.stack = two.clock.stack = ()
        program.memory = allocation()
        program.run(one, (0, 8, WRITE))
        program.run(two, (0, 8, WRITE))

    def test_are_raised_once_and_again_when_made_again(self):
        program = Program()
        self.race(program)
        (finding,) = program.findings.take_unraised()
        assert program.findings.take_unraised() == []
        self.race(program)
        assert program.findings.take_unraised() == [finding]
        assert finding.count == 2

    def test_are_kept_while_collecting_and_not_raised(self):
        program = Program()
        with program.findings.collecting() as findings:
            self.race(program)
            assert findings.take_unraised() == []
            self.race(program)
        assert findings.take_unraised() == []
        assert len(findings) == 1
        findings.clear()
        assert list(findings) == []
        assert str(findings) == "no findings"
        self.race(program)
        assert len(findings.take_unraised()) == 1


def test_many_operations_take_bounded_memory():
    program = Program(memory=allocation(1 << 12))

    def batch(synchronise):
        for index in range(4000):
            start = index * 64 % 4096
            op = program.do("ab"[index & 1], (start, start + 64, READ if index % 3 else ATOMIC))
            if synchronise and index % 100 == 0:
                program.checker.host_waits(op)

    batch(True)
    for synchronise in (True, False):
        batch(synchronise)
        tracemalloc.start()
        batch(synchronise)
        first, _ = tracemalloc.get_traced_memory()
        for _ in range(2):
            batch(synchronise)
        last, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        # Between two sweeps up to 16,384 states pile up, of a few hundred bytes each.
        assert last - first < 12e6


def test_forgotten_streams_order_as_before(monkeypatch):
    from drv.simulator.checks import races

    monkeypatch.setattr(races, "OPERATIONS_BETWEEN_SWEEPS", 1)
    program = Program()
    program.checker._operations_left = 1
    for index in range(50):
        op = program.do(f"stream {index}", (0, 64, WRITE))
        program.checker.host_waits(op)
    assert not program.findings
    assert len(program.checker._clocks._streams) <= 2
    racing = program.do("new", (0, 64, WRITE))
    program.do("other", (64, 128, WRITE), after=[racing])
    program.do("stream 0", (0, 64, WRITE))
    assert len(program.findings) == 1


def test_state_numbers_that_run_out(monkeypatch):
    monkeypatch.setattr(access_states, "LAST_STATE", 3)
    program = Program()
    program.checker._operations_left = 1
    for index in range(8):
        program.do("ab"[index & 1], (0, 64, WRITE))
        program.checker._operations_left = 1
    assert program.findings

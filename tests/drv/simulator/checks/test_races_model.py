"""The race finder against the definition: two accesses race when the transitive closure has no path."""

from __future__ import annotations

from dataclasses import dataclass, field
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drv.simulator.checks import races
from drv.simulator.checks.observation import Access
from drv.simulator.memory.address_space import MemoryKind

from .races_model import FakeLanes, FakeSite, Program, allocation

SIZE = 48
HOST = -1

kinds = st.sampled_from([Access.READ, Access.WRITE, Access.ATOMIC])


@st.composite
def byte_accesses(draw):
    """A range, or the addresses of lanes."""
    if draw(st.booleans()):
        start = draw(st.integers(0, SIZE - 1))
        return ("range", start, draw(st.integers(start, SIZE)), draw(kinds))
    width = draw(st.sampled_from([1, 2, 4, 8, 16]))
    devices = draw(st.lists(st.integers(0, SIZE // width - 1), min_size=1, max_size=6))
    return ("lanes", [device * width for device in devices], width, draw(kinds))


@st.composite
def programs(draw):
    """A list of steps: queue on a stream after some earlier operations, wait on the host, host access."""
    steps = []
    queued = 0
    for _ in range(draw(st.integers(1, 14))):
        choice = draw(st.integers(0, 9))
        if choice < 7 or not queued:
            after = draw(st.lists(st.integers(0, queued - 1), max_size=2)) if queued else []
            accesses = draw(st.lists(byte_accesses(), min_size=1, max_size=3))
            steps.append(("queue", draw(st.integers(0, 3)), after, accesses))
            queued += 1
        elif choice == 7:
            steps.append(("wait", draw(st.integers(0, queued - 1))))
        else:
            start = draw(st.integers(0, SIZE - 1))
            kind = draw(st.sampled_from([Access.READ, Access.WRITE]))
            steps.append(("host", start, draw(st.integers(start + 1, SIZE)), kind))
    return steps


@dataclass
class Node:
    """An operation or a host access in the model."""

    name: str
    before: set[int] = field(default_factory=set)
    accesses: list = field(default_factory=list)


def touched(access) -> set[int]:
    if access[0] == "range":
        return set(range(access[1], access[2]))
    return {offset + byte for offset in access[1] for byte in range(access[2])}


def model(steps) -> tuple[list[Node], set[tuple[str, str]], set[tuple[str, int]]]:
    """Nodes, the racing pairs of names, and the pairs of name and byte that are raced for."""
    nodes: list[Node] = []
    known: set[int] = set()
    last: dict[int, int] = {}
    operations: list[int] = []
    for step in steps:
        number = len(nodes)
        if step[0] == "wait":
            target = operations[step[1]]
            known |= nodes[target].before | {target}
        elif step[0] == "host":
            node = Node(f"host {number}", set(known), [("range", *step[1:])])
            nodes.append(node)
            known.add(number)
        else:
            _, stream, after, accesses = step
            before = set(known)
            earlier = [operations[index] for index in after] + ([last[stream]] if stream in last else [])
            for other in earlier:
                before |= nodes[other].before | {other}
            nodes.append(Node(f"operation {number}", before, accesses))
            last[stream] = number
            operations.append(number)
    pairs: set[tuple[str, str]] = set()
    devices: set[int] = set()
    for second in range(len(nodes)):
        for first in range(second):
            if first in nodes[second].before:
                continue
            for one in nodes[first].accesses:
                for other in nodes[second].accesses:
                    if Access.WRITE not in (one[3], other[3]) and one[3] == other[3]:
                        continue
                    common = touched(one) & touched(other)
                    if common:
                        pairs.add((nodes[first].name, nodes[second].name))
                        devices |= common
    return nodes, pairs, devices


class Recorder:
    """What the checker reports, as names and bytes."""

    def __init__(self) -> None:
        self.pairs: set[tuple[str, str]] = set()
        self.places: set[int] = set()

    def add(self, finding) -> None:
        self.pairs.add((name(finding.first), name(finding.second)))
        for start, stop in finding.ranges:
            self.places |= set(range(start, stop))


def name(report) -> str:
    """Name in the model of one side of a finding."""
    return report.operation if report.stream else f"host {report.stack[0][1]}"


def play(steps, pick, *, sweep: bool) -> Recorder:
    """Run ``steps`` through the checker; after each, ``pick`` says which of the pending operations run."""
    recorder = Recorder()
    program = Program(memory=allocation(SIZE, MemoryKind.PINNED), findings=recorder)
    checker = program.checker
    streams: dict[int, list[int]] = {}
    operations: list = []
    waits_for: list[set[int]] = []
    accesses_of: list = []
    done: set[int] = set()
    number = 0

    def run_one(index: int) -> None:
        stack = [index]
        while stack:
            missing = waits_for[stack[-1]] - done
            if missing:
                stack.append(min(missing))
                continue
            current = stack.pop()
            if current in done:
                continue
            op = operations[current]
            if sweep:
                checker._state_limit = -1
            checker.start(op)
            for access in accesses_of[current]:
                if access[0] == "range":
                    checker.range_access(program.memory, *access[1:])
                else:
                    lanes = np.arange(len(access[1]))
                    checker.global_access(
                        program.memory,
                        np.array(access[1], np.int64),
                        access[2],
                        access[3],
                        FakeLanes(lanes * 0, lanes),
                        SITES[access[3]],
                    )
            checker.finish(op)
            done.add(current)

    for step in steps:
        if step[0] == "queue":
            _, stream, after, accesses = step
            op = program.queue(str(stream), tuple(operations[index] for index in after))
            op.label = f"operation {number}"
            op.clock.label = op.label
            mine = streams.setdefault(stream, [])
            waits_for.append(set(after) | set(mine[-1:]))
            mine.append(len(operations))
            operations.append(op)
            accesses_of.append(accesses)
            number += 1
        elif step[0] == "wait":
            run_one(step[1])
            checker.host_waits(operations[step[1]])
        else:
            checker.host_access(program.memory, *step[1:], (("host", number, "main"),))
            number += 1
        for index in pick([index for index in range(len(operations)) if index not in done]):
            run_one(index)
    for index in range(len(operations)):
        run_one(index)
    return recorder


SITES = {kind: FakeSite() for kind in Access}


@settings(max_examples=100, deadline=None)
@given(programs(), st.randoms(use_true_random=False))
def test_races_are_those_of_the_transitive_closure(steps, random):
    compare(steps, random)


@pytest.mark.nightly
@settings(max_examples=3000, deadline=None)
@given(programs(), st.randoms(use_true_random=False))
def test_races_of_many_programs_are_those_of_the_transitive_closure(steps, random):
    compare(steps, random)


def compare(steps, random):
    """Check the found races against all pairs that nothing orders, under every schedule, with and without sweeps."""
    _, pairs, devices = model(steps)
    schedules = {
        "eager": lambda pending: pending,
        "lazy": lambda pending: [],
        "random": lambda pending: random.sample(pending, random.randint(0, len(pending))),
    }
    with patch.object(races, "MAX_RANGES", SIZE):
        for pick in schedules.values():
            for sweep in (False, True):
                result = play(steps, pick, sweep=sweep)
                assert result.pairs <= pairs
                assert result.places == devices

"""Random programs of streams and events against a model that only knows happens-before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from .machine import NON_BLOCKING, Machine


class StreamModel(RuleBasedStateMachine):
    """Each operation logs its number. The model keeps, for each, the set of all that must precede it."""

    schedule = "eager"

    @initialize(seed=st.integers(0, 1 << 30))
    def begin(self, seed: int) -> None:
        self.machine = Machine(schedule=self.schedule, seed=seed)
        self.streams: list[Any] = [0]
        self.blocking = [True]
        #: Everything that the next operation of a stream comes after.
        self.ends: list[set[int]] = [set()]
        self.events = [self.machine.event() for _ in range(3)]
        self.records: list[set[int] | None] = [None] * 3
        self.before: list[set[int]] = []
        self.waited: set[int] = set()
        self.queried = False
        self.checked = 0

    def order(self, stream: int) -> set[int]:
        """What an operation queued on ``stream`` now comes after."""
        order = set(self.ends[stream])
        if stream == 0:
            for other, blocking in enumerate(self.blocking):
                if blocking:
                    order |= self.ends[other]
        elif self.blocking[stream]:
            order |= self.legacy
        return order

    @property
    def legacy(self) -> set[int]:
        return self.ends[0]

    @precondition(lambda self: len(self.streams) < 5)
    @rule(blocking=st.booleans())
    def create(self, blocking: bool) -> None:
        self.streams.append(self.machine.stream(0 if blocking else NON_BLOCKING))
        self.blocking.append(blocking)
        self.ends.append(set())

    @rule(data=st.data())
    def queue(self, data: st.DataObject) -> None:
        stream = data.draw(st.integers(0, len(self.streams) - 1))
        order = self.order(stream)
        number = len(self.before)
        self.before.append(order)
        self.ends[stream] = order | {number}
        self.machine.mark(self.streams[stream], number)

    @rule(data=st.data(), event=st.integers(0, 2))
    def record(self, data: st.DataObject, event: int) -> None:
        stream = data.draw(st.integers(0, len(self.streams) - 1))
        order = self.order(stream)
        self.ends[stream] = order
        self.records[event] = set(order)
        self.machine.cuEventRecord(self.events[event], self.streams[stream])

    @rule(data=st.data(), event=st.integers(0, 2))
    def wait(self, data: st.DataObject, event: int) -> None:
        stream = data.draw(st.integers(0, len(self.streams) - 1))
        record = self.records[event]
        if record is not None:
            self.ends[stream] = self.order(stream) | record
        self.machine.cuStreamWaitEvent(self.streams[stream], self.events[event], 0)

    @rule(data=st.data())
    def synchronise(self, data: st.DataObject) -> None:
        stream = data.draw(st.integers(0, len(self.streams) - 1))
        self.machine.cuStreamSynchronize(self.streams[stream])
        self.waited |= self.order(0) if stream == 0 else self.ends[stream]

    @rule(event=st.integers(0, 2))
    def synchronise_event(self, event: int) -> None:
        self.machine.cuEventSynchronize(self.events[event])
        self.waited |= self.records[event] or set()

    @rule()
    def synchronise_all(self) -> None:
        self.machine.cuCtxSynchronize()
        self.waited |= set(range(len(self.before)))

    @rule(data=st.data())
    def query(self, data: st.DataObject) -> None:
        stream = data.draw(st.integers(0, len(self.streams) - 1))
        self.queried = True
        if self.machine.status("cuStreamQuery", self.streams[stream]) == "SUCCESS":
            self.waited |= self.order(0) if stream == 0 else self.ends[stream]

    @rule(event=st.integers(0, 2))
    def query_event(self, event: int) -> None:
        self.queried = True
        if self.machine.status("cuEventQuery", self.events[event]) == "SUCCESS":
            self.waited |= self.records[event] or set()

    @invariant()
    def nothing_ran_too_early_or_twice(self) -> None:
        if not hasattr(self, "machine"):
            return
        log = self.machine.log
        done = set(log[: self.checked])
        for number in log[self.checked :]:
            assert self.before[number] <= done, f"{number} ran before {self.before[number] - done}"
            assert number not in done
            done.add(number)
        self.checked = len(log)
        assert self.waited <= done
        if self.schedule == "eager":
            assert done == set(range(len(self.before)))
        elif self.schedule == "lazy" and not self.queried:
            assert done == self.waited

    def teardown(self) -> None:
        if hasattr(self, "machine"):
            self.machine.cuCtxSynchronize()
            self.waited = set(range(len(self.before)))
            self.nothing_ran_too_early_or_twice()


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_streams_follow_the_model(schedule: str) -> None:
    model = type("StreamModel", (StreamModel,), {"schedule": schedule})
    case = model.TestCase
    case.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
    case().runTest()

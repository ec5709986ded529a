from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

import pytest

from tests.drv.simulator.machine import DISABLE_TIMING, NON_BLOCKING, Machine

if TYPE_CHECKING:
    from collections.abc import Callable

    MachineMaker = Callable[..., Machine]


def test_a_stream_keeps_its_order(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    stream = machine.stream()
    for number in range(20):
        machine.mark(stream, number)
    machine.cuStreamSynchronize(stream)
    assert machine.log == list(range(20))


def test_eager_runs_at_once_and_lazy_only_what_is_waited_for() -> None:
    eager, lazy = Machine(), Machine(schedule="lazy")
    for machine in (eager, lazy):
        first, second = machine.stream(), machine.stream()
        machine.mark(first, "first")
        machine.mark(second, "second")
    assert eager.log == ["first", "second"]
    assert lazy.log == []
    lazy.cuStreamSynchronize(second)
    assert lazy.log == ["second"]


def test_lazy_runs_nothing_for_calls_that_do_not_wait(lazy: Machine) -> None:
    stream = lazy.stream()
    lazy.mark(stream, 1)
    lazy.mark(0, 2)
    lazy.device_memory(1024)
    lazy.pinned(1024)
    lazy.event()
    lazy.stream()
    lazy.cuStreamDestroy(stream)
    lazy.cuMemGetInfo()
    assert lazy.log == []


def test_random_differs_by_seed_and_repeats() -> None:
    def order(seed: int) -> list[str]:
        machine = Machine(schedule="random", seed=seed)
        streams = [machine.stream() for _ in range(3)]
        for number, stream in itertools.product(range(4), streams):
            machine.mark(stream, f"{int(stream) & 0xFF}:{number}")
        machine.cuCtxSynchronize()
        return machine.log

    orders = [order(seed) for seed in range(20)]
    assert [order(seed) for seed in range(20)] == orders
    assert len({tuple(o) for o in orders}) > 10


def test_an_event_orders_streams(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    producer, consumer, event = machine.stream(), machine.stream(), machine.event()
    machine.mark(producer, "made")
    machine.cuEventRecord(event, producer)
    machine.cuStreamWaitEvent(consumer, event, 0)
    machine.mark(consumer, "used")
    machine.cuStreamSynchronize(consumer)
    assert machine.log == ["made", "used"]


def test_without_the_wait_lazy_shows_the_wrong_order(lazy: Machine) -> None:
    producer, consumer, event = lazy.stream(), lazy.stream(), lazy.event()
    lazy.mark(producer, "made")
    lazy.cuEventRecord(event, producer)
    lazy.mark(consumer, "used")
    lazy.cuStreamSynchronize(consumer)
    assert lazy.log == ["used"]


def test_a_wait_means_the_record_at_the_time_of_the_call(lazy: Machine) -> None:
    producer, consumer, event = lazy.stream(), lazy.stream(), lazy.event()
    lazy.mark(producer, "before")
    lazy.cuEventRecord(event, producer)
    lazy.cuStreamWaitEvent(consumer, event, 0)
    lazy.mark(producer, "after")
    lazy.cuEventRecord(event, producer)
    lazy.cuStreamSynchronize(consumer)
    assert lazy.log == ["before"]
    lazy.cuEventSynchronize(event)
    assert lazy.log == ["before", "after"]


def test_waiting_for_an_event_that_was_never_recorded_is_nothing(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    stream, event = machine.stream(), machine.event()
    machine.cuStreamWaitEvent(stream, event, 0)
    machine.cuStreamSynchronize(stream)
    assert machine.status("cuEventQuery", event) == "SUCCESS"
    assert machine.status("cuEventSynchronize", event) == "SUCCESS"


def test_a_wait_reaches_across_devices(any_schedule: MachineMaker) -> None:
    machine = any_schedule(devices=2)
    producer, event = machine.stream(), machine.event()
    machine.mark(producer, "device 0")
    machine.cuEventRecord(event, producer)
    machine.use(1)
    consumer = machine.stream()
    machine.cuStreamWaitEvent(consumer, event, 0)
    machine.mark(consumer, "device 1")
    machine.cuStreamSynchronize(consumer)
    assert machine.log == ["device 0", "device 1"]


def test_an_event_is_recorded_on_streams_of_its_own_device(machine: Machine) -> None:
    event = machine.event()
    machine.use(1)
    stream = machine.stream()
    assert machine.status("cuEventRecord", event, stream) == "INVALID_HANDLE"


@pytest.mark.parametrize("handle", [0, 1, None])
def test_the_legacy_stream_and_blocking_streams_wait_for_each_other(
    any_schedule: MachineMaker, handle: int | None
) -> None:
    machine = any_schedule()
    blocking = machine.stream(0)
    for number in range(3):
        machine.mark(blocking, f"blocking {number}")
        machine.mark(handle, f"legacy {number}")
    machine.mark(blocking, "last")
    machine.cuStreamSynchronize(blocking)
    expected = [f"{kind} {number}" for number in range(3) for kind in ("blocking", "legacy")]
    assert machine.log == [*expected, "last"]


def test_the_legacy_stream_does_not_order_non_blocking_streams(lazy: Machine) -> None:
    stream = lazy.stream(NON_BLOCKING)
    lazy.mark(stream, "side")
    lazy.mark(0, "default")
    lazy.cuStreamSynchronize(0)
    assert lazy.log == ["default"]
    lazy.mark(0, "default again")
    lazy.cuStreamSynchronize(stream)
    assert lazy.log == ["default", "side"]


def test_the_legacy_streams_of_two_devices_are_two(lazy: Machine) -> None:
    lazy.mark(0, "device 0")
    lazy.use(1)
    lazy.mark(0, "device 1")
    lazy.cuStreamSynchronize(0)
    assert lazy.log == ["device 1"]


def test_the_per_thread_stream_is_a_blocking_stream(lazy: Machine) -> None:
    lazy.mark(2, "mine")
    lazy.mark(0, "legacy")
    lazy.mark(2, "mine again")
    lazy.cuStreamSynchronize(2)
    assert lazy.log == ["mine", "legacy", "mine again"]
    assert lazy.cuStreamGetFlags(2) == 0


def test_synchronising_with_the_legacy_stream_waits_for_blocking_streams(lazy: Machine) -> None:
    blocking, side = lazy.stream(0), lazy.stream(NON_BLOCKING)
    lazy.mark(blocking, "blocking")
    lazy.mark(side, "side")
    assert lazy.status("cuStreamQuery", 0) == "SUCCESS"
    lazy.cuStreamSynchronize(0)
    assert lazy.log == ["blocking"]


def test_a_query_makes_progress(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    first, second, event = machine.stream(), machine.stream(), machine.event()
    for number in range(5):
        machine.mark(first, number)
    machine.cuEventRecord(event, first)
    machine.cuStreamWaitEvent(second, event, 0)
    machine.mark(second, "end")
    polls = 0
    while machine.status("cuStreamQuery", second) == "NOT_READY":
        polls += 1
        assert polls < 20
    assert machine.log == [0, 1, 2, 3, 4, "end"]


def test_an_event_query_makes_progress(lazy: Machine) -> None:
    stream, event = lazy.stream(), lazy.event()
    lazy.mark(stream, 1)
    lazy.mark(stream, 2)
    lazy.cuEventRecord(event, stream)
    lazy.mark(stream, 3)
    answers = [lazy.status("cuEventQuery", event) for _ in range(4)]
    assert answers == ["NOT_READY", "NOT_READY", "SUCCESS", "SUCCESS"]
    assert lazy.log == [1, 2]


def test_a_destroyed_stream_finishes_its_work(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    stream, event = machine.stream(), machine.event()
    machine.mark(stream, "late")
    machine.cuEventRecord(event, stream)
    machine.cuStreamDestroy(stream)
    assert machine.status("cuStreamSynchronize", stream) == "INVALID_HANDLE"
    machine.cuCtxSynchronize()
    assert machine.log == ["late"]
    machine.cuEventSynchronize(event)


def test_destroyed_streams_do_not_pile_up() -> None:
    machine = Machine(check="race")
    for _ in range(50):
        stream = machine.stream()
        machine.mark(stream, 1)
        machine.cuStreamSynchronize(stream)
        machine.cuStreamDestroy(stream)
    assert machine.driver.contexts[int(machine.contexts[0])].orphans == []


def test_a_destroyed_event_still_holds_those_who_wait(lazy: Machine) -> None:
    producer, consumer, event = lazy.stream(), lazy.stream(), lazy.event()
    lazy.mark(producer, "made")
    lazy.cuEventRecord(event, producer)
    lazy.cuStreamWaitEvent(consumer, event, 0)
    lazy.cuEventDestroy(event)
    lazy.cuStreamSynchronize(consumer)
    assert lazy.log == ["made"]
    assert lazy.status("cuEventDestroy", event) == "INVALID_HANDLE"


def test_context_synchronise_leaves_other_devices_alone(lazy: Machine) -> None:
    lazy.mark(lazy.stream(), "here")
    lazy.use(1)
    lazy.mark(lazy.stream(), "there")
    lazy.cuCtxSynchronize()
    assert lazy.log == ["there"]


def test_elapsed_time(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    stream, start, end = machine.stream(), machine.event(), machine.event()
    machine.cuEventRecord(start, stream)
    machine.driver.library_call(stream, "sleep", lambda memory: time.sleep(0.02))
    machine.cuEventRecord(end, stream)
    machine.cuEventSynchronize(end)
    assert 20 <= machine.cuEventElapsedTime(start, end) < 2000
    assert -2000 < machine.cuEventElapsedTime(end, start) <= -20


def test_elapsed_time_errors(lazy: Machine) -> None:
    stream, start, end = lazy.stream(), lazy.event(), lazy.event()
    untimed = lazy.event(DISABLE_TIMING)
    assert lazy.status("cuEventElapsedTime", start, end) == "INVALID_HANDLE"
    lazy.cuEventRecord(start, stream)
    lazy.mark(stream, 1)
    lazy.cuEventRecord(end, stream)
    lazy.cuEventRecord(untimed, stream)
    assert lazy.status("cuEventElapsedTime", start, end) == "NOT_READY"
    lazy.cuStreamSynchronize(stream)
    assert lazy.status("cuEventElapsedTime", start, untimed) == "INVALID_HANDLE"
    lazy.use(1)
    foreign = lazy.event()
    lazy.cuEventRecord(foreign, 0)
    lazy.cuEventSynchronize(foreign)
    assert lazy.status("cuEventElapsedTime", start, foreign) == "INVALID_HANDLE"


def test_a_hundred_thousand_operations(lazy: Machine) -> None:
    """A long queue, and a long chain of waits between streams, are walked without recursion."""
    stream = lazy.stream()
    for _ in range(70_000):
        lazy.mark(stream, 0)
    streams, event = [lazy.stream() for _ in range(8)], lazy.event()
    for number in range(15_000):
        lazy.cuStreamWaitEvent(streams[number % 8], event, 0)
        lazy.cuEventRecord(event, streams[number % 8])
    lazy.cuEventSynchronize(event)
    assert lazy.log == []
    lazy.cuStreamSynchronize(stream)
    assert len(lazy.log) == 70_000


def test_finished_work_holds_nothing(machine: Machine) -> None:
    stream, event = machine.stream(), machine.event()
    for _ in range(100):
        machine.cuEventRecord(event, stream)
        machine.cuStreamWaitEvent(stream, event, 0)
    last = machine.driver.streams[int(stream)].last
    assert last is not None
    assert last.done
    assert last.run is None
    assert last.after == []


def test_stream_properties(machine: Machine) -> None:
    stream = machine.cuStreamCreateWithPriority(NON_BLOCKING, -2)
    assert machine.cuStreamGetFlags(stream) == NON_BLOCKING
    assert machine.cuStreamGetPriority(stream) == -2
    assert int(machine.cuStreamGetCtx(stream)) == int(machine.contexts[0])
    assert int(machine.cuStreamGetDevice(stream)) == 0
    assert machine.cuStreamGetId(stream) != machine.cuStreamGetId(machine.stream())

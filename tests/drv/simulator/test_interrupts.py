"""Ctrl-C inside of a driver call: operations that are being computed are done first, or given up with the context."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from drv.host import interrupts
from drv.simulator.interrupts import HeldSignals
from tests.drv.simulator.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.drv.simulator.machine import MachineMaker


def _pressing(machine: Machine, times: int) -> Callable[[Any], None]:
    def run(_: Any) -> None:
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        machine.log.append("done")

    return run


def test_an_operation_is_done_first(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    stream = machine.stream()
    with pytest.raises(KeyboardInterrupt):
        machine.driver.library_call(stream, "pressing", _pressing(machine, 1))
        machine.driver.cuStreamSynchronize(stream)
    assert machine.log == ["done"]
    machine.mark(stream, "behind")
    machine.cuStreamSynchronize(stream)
    assert machine.log == ["done", "behind"]


def test_pressed_twice_the_operation_is_abandoned_and_the_context_lost(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    stream = machine.stream()
    with pytest.raises(KeyboardInterrupt):
        machine.driver.library_call(stream, "pressing", _pressing(machine, 2))
        machine.driver.cuStreamSynchronize(stream)
    assert machine.log == []
    assert machine.status("cuStreamSynchronize", stream) == "LAUNCH_FAILED"
    report = machine.driver.fault_report()
    assert report is not None
    assert "Ctrl-C was pressed twice" in report


def test_a_call_that_computes_nothing_ends_first(lazy: Machine) -> None:
    """What it does is done whole: memory is allocated and counted, or it is not."""

    class Size:
        def __int__(self) -> int:
            signal.raise_signal(signal.SIGINT)
            return 64

    before = lazy.cuMemGetInfo()[0]
    with pytest.raises(KeyboardInterrupt):
        lazy.driver.cuMemAlloc(Size())
    assert lazy.cuMemGetInfo()[0] < before


def test_outside_of_calls_it_is_pythons(lazy: Machine) -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    lazy.mark(lazy.stream(), "works")
    lazy.cuCtxSynchronize()
    assert lazy.log == ["works"]


def test_a_handler_of_the_programs_own_stays() -> None:
    seen = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        machine = Machine(schedule="lazy")
        stream = machine.stream()
        machine.driver.library_call(stream, "pressing", _pressing(machine, 2))
        machine.cuStreamSynchronize(stream)
        assert seen == [signal.SIGINT, signal.SIGINT]
        assert machine.log == ["done"]
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGALRM, signal.SIGUSR1, signal.SIGTERM])
def test_a_handler_that_raises_waits_for_the_operation(number: int, any_schedule: MachineMaker) -> None:
    def late(*_: object) -> None:
        raise TimeoutError(number)

    machine = any_schedule()
    stream = machine.stream()

    def run(_: Any) -> None:
        signal.raise_signal(number)
        machine.log.append("done")

    before = signal.signal(number, late)
    try:
        with pytest.raises(TimeoutError):
            machine.driver.library_call(stream, "late", run)
            machine.driver.cuStreamSynchronize(stream)
        assert signal.getsignal(number) is late
        assert machine.log == ["done"]
        machine.mark(stream, "behind")
        machine.cuStreamSynchronize(stream)
        assert machine.log == ["done", "behind"]
    finally:
        signal.signal(number, before)


def test_an_alarm_while_handlers_are_put_back_leaves_none_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object) -> None:
        raise TimeoutError

    def terminate(*_: object) -> None:
        """Never called."""

    put, rings = signal.signal, iter([True])

    def put_and_ring(number: int, handler: Any) -> Any:
        result = put(number, handler)
        if handler is late and next(rings, False):
            signal.raise_signal(number)
        return result

    before = put(signal.SIGALRM, late), put(signal.SIGTERM, terminate)
    try:
        held = HeldSignals()
        monkeypatch.setattr(signal, "signal", put_and_ring)
        with pytest.raises(TimeoutError):
            held.release()
        assert signal.getsignal(signal.SIGALRM) is late
        assert signal.getsignal(signal.SIGTERM) is terminate
    finally:
        put(signal.SIGALRM, before[0])
        put(signal.SIGTERM, before[1])


def test_with_the_last_driver_pythons_handler_is_back() -> None:
    interrupts._users.clear()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    first, second = (Machine(schedule="lazy").driver for _ in range(2))
    assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    first.close()
    assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    second.close()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

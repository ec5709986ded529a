from __future__ import annotations

import ctypes
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from cuda.bindings import driver as cuda

from tests.drv.simulator.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

    MachineMaker = Callable[..., Machine]

HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
STREAM_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


def entry(function: Any) -> tuple[cuda.CUhostFn, Any]:
    """A Python function as the driver takes one, and what must be kept while it may be called."""
    c_function = HOST_FUNCTION(function)
    return cuda.CUhostFn(ctypes.cast(c_function, ctypes.c_void_p).value), c_function


def test_a_callback_has_its_place_in_the_stream(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    stream = machine.stream()
    function, _c_function = entry(lambda data: machine.log.append(data))
    machine.mark(stream, "before")
    machine.cuLaunchHostFunc(stream, function, 42)
    machine.mark(stream, "after")
    machine.cuStreamSynchronize(stream)
    assert machine.log == ["before", 42, "after"]


def test_lazy_does_not_call_back_early(lazy: Machine) -> None:
    stream = lazy.stream()
    function, _c_function = entry(lambda data: lazy.log.append(data))
    lazy.cuLaunchHostFunc(stream, function, 1)
    time.sleep(0.01)
    assert lazy.log == []
    lazy.cuCtxSynchronize()
    assert lazy.log == [1]


def test_a_callback_may_not_call_the_driver(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    answers = []
    function, _c_function = entry(lambda data: answers.append(machine.status("cuMemAlloc", 16)))
    machine.cuLaunchHostFunc(0, function, 0)
    machine.cuCtxSynchronize()
    assert answers == ["NOT_PERMITTED"]
    machine.device_memory(16)


def test_a_callback_runs_without_the_lock(any_schedule: MachineMaker) -> None:
    """Other threads use the driver while a callback runs; the stream waits for it, others do not."""
    machine = any_schedule()
    stream, other = machine.stream(), machine.stream()
    entered, released = threading.Event(), threading.Event()

    def block(data: object) -> None:
        entered.set()
        released.wait(10)

    function, _c_function = entry(block)
    machine.cuLaunchHostFunc(stream, function, 0)
    machine.mark(stream, "behind")
    while not entered.is_set():
        machine.status("cuStreamQuery", stream)
        time.sleep(0.001)
    assert machine.status("cuStreamQuery", stream) == "NOT_READY"
    machine.mark(other, "beside")
    machine.cuStreamSynchronize(other)
    assert machine.log == ["beside"]
    threading.Timer(0.02, released.set).start()
    machine.cuStreamSynchronize(stream)
    assert machine.log == ["beside", "behind"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_exception_in_a_callback_harms_nobody(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    stream = machine.stream()

    def fail(data: object) -> None:
        raise RuntimeError("in a callback")

    function, _c_function = entry(fail)
    machine.cuLaunchHostFunc(stream, function, 0)
    machine.mark(stream, "after")
    machine.cuStreamSynchronize(stream)
    assert machine.log == ["after"]


def test_stream_callbacks_get_stream_and_status(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    stream, seen = machine.stream(), []
    c_function = STREAM_CALLBACK(lambda *arguments: seen.append(arguments))
    callback = cuda.CUstreamCallback(ctypes.cast(c_function, ctypes.c_void_p).value)
    machine.cuStreamAddCallback(stream, callback, 7, 0)
    machine.cuStreamSynchronize(stream)
    assert seen == [(int(stream), 0, 7)]


def test_after_an_error_only_stream_callbacks_are_called(lazy: Machine) -> None:
    stream, seen = lazy.stream(), []
    c_function = STREAM_CALLBACK(lambda handle, status, data: seen.append((status, data)))
    callback = cuda.CUstreamCallback(ctypes.cast(c_function, ctypes.c_void_p).value)
    function, _c_function = entry(lambda data: seen.append("host function"))
    lazy.driver.library_call(stream, "bad", lambda memory: memory.read(0x10, 4))
    lazy.cuLaunchHostFunc(stream, function, 0)
    lazy.cuStreamAddCallback(stream, callback, 7, 0)
    assert lazy.status("cuStreamSynchronize", stream) == "ILLEGAL_ADDRESS"
    for _ in range(500):
        if seen:
            break
        time.sleep(0.002)
    assert seen == [(700, 7)]


def test_callbacks_of_many_streams(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    event = machine.event()
    streams = [machine.stream() for _ in range(4)]
    function, _c_function = entry(lambda data: machine.log.append(data))
    for number in range(40):
        stream = streams[number % 4]
        machine.cuStreamWaitEvent(stream, event, 0)
        machine.cuLaunchHostFunc(stream, function, number + 1)
        machine.cuEventRecord(event, stream)
    machine.cuEventSynchronize(event)
    assert machine.log == list(range(1, 41))


def test_argument_errors(machine: Machine) -> None:
    function, _c_function = entry(print)
    assert machine.status("cuLaunchHostFunc", 999, function, 0) == "INVALID_HANDLE"
    assert machine.status("cuLaunchHostFunc", 0, 0, 0) == "INVALID_VALUE"
    assert machine.status("cuStreamAddCallback", 0, 0, 0, 0) == "INVALID_VALUE"

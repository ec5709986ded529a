"""Captures: what becomes a node, how streams join, and what CUDA forbids while one lasts."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from cuda.bindings import driver as cuda

from tests.drv.simulator.compiled import KERNELS, ptx
from tests.drv.simulator.machine import Machine

from .graphs import edges, kernel_parameters, types

if TYPE_CHECKING:
    from collections.abc import Callable

    MachineMaker = Callable[..., Machine]

GLOBAL, THREAD_LOCAL, RELAXED = range(3)
NONE, ACTIVE, INVALIDATED = range(3)
EXTERNAL = 1


def begin(machine: Machine, mode: int = GLOBAL, flags: int = 1) -> cuda.CUstream:
    stream = machine.stream(flags)
    machine.cuStreamBeginCapture(stream, mode)
    return stream


def captured(machine: Machine, stream: Any) -> int:
    return int(machine.cuStreamIsCapturing(stream))


def run(machine: Machine, graph: Any, stream: Any = None) -> None:
    stream = machine.stream() if stream is None else stream
    machine.cuGraphLaunch(machine.cuGraphInstantiate(graph, 0), stream)
    machine.cuStreamSynchronize(stream)


def test_nothing_runs_while_it_is_captured_and_everything_when_it_is_launched(
    any_schedule: MachineMaker,
) -> None:
    machine = any_schedule()
    address = machine.device_memory(16)
    pinned, array = machine.pinned(16)
    stream = begin(machine)
    machine.cuMemsetD8Async(address, 3, 16, stream)
    machine.mark(stream, "library")
    machine.cuMemcpyDtoHAsync(pinned, address, 16, stream)
    assert captured(machine, stream) == ACTIVE
    graph = machine.cuStreamEndCapture(stream)
    assert captured(machine, stream) == NONE
    machine.cuCtxSynchronize()
    assert machine.log == []
    assert not array.any()
    assert types(machine, graph) == ["MEMSET", "KERNEL", "MEMCPY"]
    assert edges(machine, graph) == {(0, 1), (1, 2)}
    run(machine, graph)
    assert machine.log == ["library"]
    assert (array == 3).all()


def test_streams_fork_and_join_by_events(machine: Machine) -> None:
    stream, other = begin(machine), machine.stream()
    fork, join = machine.event(), machine.event()
    machine.mark(stream, 0)
    machine.cuEventRecord(fork, stream)
    assert captured(machine, other) == NONE
    machine.cuStreamWaitEvent(other, fork, 0)
    assert captured(machine, other) == ACTIVE
    machine.mark(other, 1)
    machine.mark(stream, 2)
    machine.cuEventRecord(join, other)
    machine.cuStreamWaitEvent(stream, join, 0)
    machine.mark(stream, 3)
    graph = machine.cuStreamEndCapture(stream)
    assert captured(machine, other) == NONE
    assert edges(machine, graph) == {(0, 1), (0, 2), (1, 3), (2, 3)}


def test_what_is_behind_an_event_that_is_recorded_later_does_not_count(machine: Machine) -> None:
    stream, other, event = begin(machine), machine.stream(), machine.event()
    machine.mark(stream, 0)
    machine.cuEventRecord(event, stream)
    machine.mark(stream, 1)
    machine.cuStreamWaitEvent(other, event, 0)
    machine.mark(other, 2)
    machine.cuEventRecord(event, other)
    machine.cuStreamWaitEvent(stream, event, 0)
    graph = machine.cuStreamEndCapture(stream)
    assert edges(machine, graph) == {(0, 1), (0, 2)}


def test_a_fork_without_work_needs_no_join(machine: Machine) -> None:
    stream, other, event = begin(machine), machine.stream(), machine.event()
    machine.mark(stream, 0)
    machine.cuEventRecord(event, stream)
    machine.cuStreamWaitEvent(other, event, 0)
    assert types(machine, machine.cuStreamEndCapture(stream)) == ["KERNEL"]


def test_an_unjoined_stream_is_an_error_that_names_it(machine: Machine) -> None:
    stream, other, event = begin(machine), machine.stream(), machine.event()
    machine.cuEventRecord(event, stream)
    machine.cuStreamWaitEvent(other, event, 0)
    machine.mark(other, 0)
    status, graph = machine.driver.cuStreamEndCapture(stream)
    assert status.name == "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"
    assert graph is None
    assert captured(machine, stream) == captured(machine, other) == NONE
    report = machine.driver.capture_report
    assert f"stream {machine.cuStreamGetId(other)}" in report
    assert "test_capture.py" in report
    # Both work as before.
    machine.mark(other, "after")
    machine.cuStreamSynchronize(other)
    assert machine.log == ["after"]


def test_nodes_taken_out_of_the_dependencies_need_no_join(machine: Machine) -> None:
    stream = begin(machine)
    machine.mark(stream, 0)
    machine.cuStreamUpdateCaptureDependencies(stream, [], None, 0, 1)
    machine.mark(stream, 1)
    graph = machine.cuStreamEndCapture(stream)
    assert types(machine, graph) == ["KERNEL", "KERNEL"]
    assert edges(machine, graph) == set()


def test_information_and_nodes_added_by_hand(machine: Machine) -> None:
    stream = begin(machine)
    machine.mark(stream, 0)
    status, identifier, graph, nodes, data, count = machine.cuStreamGetCaptureInfo(stream)
    assert (int(status), count, len(nodes), len(data)) == (ACTIVE, 1, 1, 1)
    empty = machine.cuGraphAddEmptyNode(graph, nodes, count)
    machine.cuStreamUpdateCaptureDependencies(stream, [empty], None, 1, 0)
    assert machine.cuStreamGetCaptureInfo(stream)[5] == 2
    assert int(machine.cuStreamGetCaptureInfo(stream)[1]) == int(identifier)
    machine.mark(stream, 1)
    assert int(machine.cuStreamEndCapture(stream)) == int(graph)
    assert edges(machine, graph) == {(0, 1), (0, 2), (1, 2)}
    assert [int(each) for each in machine.cuStreamGetCaptureInfo(stream)[:3]] == [NONE, 0, 0]


def test_a_graph_that_is_captured_into_stays_whole(machine: Machine) -> None:
    stream = begin(machine)
    machine.mark(stream, 0)
    graph = machine.cuStreamGetCaptureInfo(stream)[2]
    node = machine.cuGraphGetNodes(graph, 1)[0][0]
    assert machine.status("cuGraphDestroy", graph) == "INVALID_VALUE"
    assert machine.status("cuGraphDestroyNode", node) == "INVALID_VALUE"
    assert machine.status("cuGraphInstantiate", graph, 0) == "INVALID_VALUE"
    machine.cuStreamEndCapture(stream)


def test_capture_into_a_graph_that_is_there(machine: Machine) -> None:
    graph = machine.cuGraphCreate(0)
    first = machine.cuGraphAddEmptyNode(graph, None, 0)
    second = machine.cuGraphAddEmptyNode(graph, None, 0)
    stream = machine.stream()
    machine.cuStreamBeginCaptureToGraph(stream, graph, [second], None, 1, THREAD_LOCAL)
    machine.mark(stream, 0)
    assert int(machine.cuStreamEndCapture(stream)) == int(graph)
    assert edges(machine, graph) == {(1, 2)}
    other = machine.cuGraphCreate(0)
    arguments = (stream, other, [first], None, 1, 0)
    assert machine.status("cuStreamBeginCaptureToGraph", *arguments) == "INVALID_VALUE"


def test_a_failed_capture_leaves_a_graph_of_ones_own(machine: Machine) -> None:
    graph = machine.cuGraphCreate(0)
    stream = machine.stream()
    machine.cuStreamBeginCaptureToGraph(stream, graph, None, None, 0, GLOBAL)
    assert machine.status("cuMemAlloc", 4) == "STREAM_CAPTURE_UNSUPPORTED"
    assert machine.driver.cuStreamEndCapture(stream)[0].name.endswith("INVALIDATED")
    assert machine.cuGraphGetNodes(graph) == ([], 0)


# What is refused


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("cuMemAlloc", (4,)),
        ("cuMemFree", ("memory",)),
        ("cuMemAllocHost", (4,)),
        ("cuCtxSynchronize", ()),
        ("cuStreamSynchronize", ("stream",)),
        ("cuStreamQuery", ("stream",)),
        ("cuStreamSynchronize", ("other",)),
        ("cuEventQuery", ("event",)),
        ("cuEventSynchronize", ("event",)),
        ("cuMemcpyDtoH", ("pinned", "memory", 4)),
        ("cuModuleLoadData", (b"",)),
    ],
)
def test_a_call_that_waits_or_allocates_makes_the_capture_void(
    machine: Machine, name: str, arguments: tuple[Any, ...]
) -> None:
    places = {
        "memory": machine.device_memory(16),
        "pinned": machine.pinned(16)[0],
        "other": machine.stream(),
        "event": machine.event(),
    }
    stream = places["stream"] = begin(machine)
    values = [places[each] if isinstance(each, str) else each for each in arguments]
    assert machine.status(name, *values) == "STREAM_CAPTURE_UNSUPPORTED"
    assert captured(machine, stream) == INVALIDATED
    assert "test_capture.py" in machine.driver.capture_report
    assert machine.status("cuMemsetD8Async", places["memory"], 0, 1, stream) == "STREAM_CAPTURE_INVALIDATED"
    status, graph = machine.driver.cuStreamEndCapture(stream)
    assert status.name == "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"
    assert graph is None
    assert captured(machine, stream) == NONE
    machine.mark(stream, "works")
    machine.cuStreamSynchronize(stream)
    assert machine.log == ["works"]


def test_relaxed_mode_allows_what_is_unsafe_and_not_what_conflicts(machine: Machine) -> None:
    stream, other = begin(machine, RELAXED), machine.stream()
    address = machine.device_memory(16)
    machine.mark(other, 1)
    machine.cuStreamSynchronize(other)
    machine.cuMemFree(address)
    assert machine.log == [1]
    assert captured(machine, stream) == ACTIVE
    assert machine.status("cuStreamSynchronize", stream) == "STREAM_CAPTURE_UNSUPPORTED"
    assert captured(machine, stream) == INVALIDATED


def test_a_thread_in_relaxed_mode_may_allocate(machine: Machine) -> None:
    stream = begin(machine, THREAD_LOCAL)
    assert int(machine.cuThreadExchangeStreamCaptureMode(RELAXED)) == GLOBAL
    machine.device_memory(16)
    assert int(machine.cuThreadExchangeStreamCaptureMode(GLOBAL)) == RELAXED
    assert machine.status("cuMemAlloc", 4) == "STREAM_CAPTURE_UNSUPPORTED"
    assert captured(machine, stream) == INVALIDATED
    assert machine.status("cuThreadExchangeStreamCaptureMode", 3) == "INVALID_VALUE"


@pytest.mark.parametrize(
    ("mode", "own_mode", "allowed"),
    [
        (GLOBAL, GLOBAL, False),
        (GLOBAL, THREAD_LOCAL, True),
        (GLOBAL, RELAXED, True),
        (THREAD_LOCAL, GLOBAL, True),
        (RELAXED, GLOBAL, True),
    ],
)
def test_what_a_capture_forbids_other_threads(
    machine: Machine, mode: int, own_mode: int, allowed: bool
) -> None:
    stream = begin(machine, mode)
    statuses = []

    def other() -> None:
        machine.use(0)
        machine.cuThreadExchangeStreamCaptureMode(own_mode)
        statuses.append(machine.status("cuMemAlloc", 16))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert statuses == ["SUCCESS" if allowed else "STREAM_CAPTURE_UNSUPPORTED"]
    assert captured(machine, stream) == (ACTIVE if allowed else INVALIDATED)


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED])
def test_another_thread_ends_only_a_relaxed_capture(machine: Machine, mode: int) -> None:
    stream = begin(machine, mode)
    statuses = []

    def other() -> None:
        machine.use(0)
        statuses.append(machine.driver.cuStreamEndCapture(stream)[0].name)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    if mode == RELAXED:
        assert statuses == ["CUDA_SUCCESS"]
        return
    assert statuses == ["CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"]
    machine.cuStreamEndCapture(stream)


def test_the_legacy_stream_cannot_be_captured(machine: Machine) -> None:
    for stream in (0, 1):
        assert machine.status("cuStreamBeginCapture", stream, GLOBAL) == "STREAM_CAPTURE_UNSUPPORTED"
    machine.cuStreamBeginCapture(2, GLOBAL)
    machine.mark(2, "own stream of the thread")
    assert types(machine, machine.cuStreamEndCapture(2)) == ["KERNEL"]


@pytest.mark.parametrize("flags", [0, 1])
def test_work_on_the_legacy_stream_while_a_blocking_stream_is_captured(machine: Machine, flags: int) -> None:
    address = machine.device_memory(16)
    stream = begin(machine, RELAXED, flags)
    if flags:
        machine.cuMemsetD8(address, 0, 16)
        assert int(machine.cuStreamIsCapturing(0)) == NONE
        machine.cuStreamEndCapture(stream)
        return
    for name in ("cuStreamIsCapturing", "cuStreamGetCaptureInfo"):
        assert machine.driver.__getattribute__(name)(0)[0].name == "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"
    assert captured(machine, stream) == ACTIVE
    assert machine.status("cuMemsetD8", address, 0, 16) == "STREAM_CAPTURE_IMPLICIT"
    assert captured(machine, stream) == INVALIDATED
    assert "legacy default stream" in machine.driver.capture_report


@pytest.mark.parametrize("name", ["cuStreamQuery", "cuStreamSynchronize"])
def test_the_legacy_stream_is_not_waited_for_while_a_blocking_stream_is_captured(
    machine: Machine, name: str
) -> None:
    stream = begin(machine, RELAXED, flags=0)
    assert machine.status(name, 0) == "STREAM_CAPTURE_IMPLICIT"
    assert captured(machine, stream) == INVALIDATED


def test_events_of_a_capture_are_not_asked_about(machine: Machine) -> None:
    for name in ("cuEventQuery", "cuEventSynchronize"):
        stream, event = begin(machine, RELAXED), machine.event()
        machine.cuEventRecord(event, stream)
        assert machine.status(name, event) == "CAPTURED_EVENT"
        assert captured(machine, stream) == INVALIDATED
        machine.driver.cuStreamEndCapture(stream)
        # Until it is recorded anew.
        assert machine.status(name, event) == "CAPTURED_EVENT"
        machine.cuEventRecord(event, stream)
        machine.cuEventSynchronize(event)


def test_an_event_from_before_the_capture_is_not_waited_for(machine: Machine) -> None:
    event, other = machine.event(), machine.stream()
    machine.cuEventRecord(event, other)
    stream = begin(machine)
    assert machine.status("cuStreamWaitEvent", stream, event, 0) == "STREAM_CAPTURE_ISOLATION"
    assert captured(machine, stream) == INVALIDATED


def test_an_event_that_was_never_recorded_orders_nothing(machine: Machine) -> None:
    stream = begin(machine)
    machine.cuStreamWaitEvent(stream, machine.event(), 0)
    assert types(machine, machine.cuStreamEndCapture(stream)) == []


def test_two_captures_do_not_merge(machine: Machine) -> None:
    first, second, event = begin(machine), begin(machine), machine.event()
    machine.cuEventRecord(event, first)
    assert machine.status("cuStreamWaitEvent", second, event, 0) == "STREAM_CAPTURE_MERGE"
    assert captured(machine, first) == captured(machine, second) == INVALIDATED


def test_an_event_of_a_capture_that_has_ended_is_not_waited_for(machine: Machine) -> None:
    stream, event = begin(machine), machine.event()
    machine.cuEventRecord(event, stream)
    machine.cuStreamEndCapture(stream)
    assert machine.status("cuStreamWaitEvent", machine.stream(), event, 0) == "CAPTURED_EVENT"


def test_beginning_and_ending_where_it_makes_no_sense(machine: Machine) -> None:
    stream, other, event = machine.stream(), machine.stream(), machine.event()
    assert machine.driver.cuStreamEndCapture(stream) == (cuda.CUresult.CUDA_ERROR_ILLEGAL_STATE, None)
    assert machine.status("cuStreamBeginCapture", stream, 3) == "INVALID_VALUE"
    update = ("cuStreamUpdateCaptureDependencies", stream, [], None, 0, 0)
    assert machine.status(*update) == "ILLEGAL_STATE"
    machine.cuStreamBeginCapture(stream, GLOBAL)
    assert machine.status("cuStreamBeginCapture", stream, GLOBAL) == "ILLEGAL_STATE"
    assert machine.status(*update[:5], 2) == "INVALID_VALUE"
    machine.cuEventRecord(event, stream)
    machine.cuStreamWaitEvent(other, event, 0)
    assert machine.status("cuStreamEndCapture", other) == "STREAM_CAPTURE_UNMATCHED"
    assert captured(machine, stream) == INVALIDATED


def test_stream_callbacks_cannot_be_captured(machine: Machine) -> None:
    stream = begin(machine)
    assert machine.status("cuStreamAddCallback", stream, 16, 0, 0) == "STREAM_CAPTURE_UNSUPPORTED"
    assert captured(machine, stream) == INVALIDATED


def test_a_destroyed_stream_ends_its_capture(machine: Machine) -> None:
    stream, other, event = begin(machine), machine.stream(), machine.event()
    machine.cuEventRecord(event, stream)
    machine.cuStreamWaitEvent(other, event, 0)
    machine.cuStreamDestroy(stream)
    assert captured(machine, other) == NONE
    assert machine.driver.captures == []


def test_a_context_that_goes_takes_its_captures_along(machine: Machine) -> None:
    begin(machine)
    machine.cuDevicePrimaryCtxRelease(0)
    assert machine.driver.captures == []
    assert not machine.driver.graphs


# Events as nodes, and memory


def test_external_events_are_nodes(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    before, after, outside = machine.event(), machine.event(), machine.stream()
    stream = begin(machine)
    machine.cuStreamWaitEvent(stream, before, EXTERNAL)
    machine.mark(stream, "graph")
    machine.cuEventRecordWithFlags(after, stream, EXTERNAL)
    graph = machine.cuStreamEndCapture(stream)
    assert types(machine, graph) == ["WAIT_EVENT", "KERNEL", "EVENT_RECORD"]
    executable = machine.cuGraphInstantiate(graph, 0)
    for number in range(2):
        machine.mark(outside, f"before {number}")
        machine.cuEventRecord(before, outside)
        machine.cuGraphLaunch(executable, stream)
        machine.cuStreamWaitEvent(outside, after, 0)
        machine.mark(outside, f"after {number}")
    machine.cuStreamSynchronize(outside)
    assert machine.log == ["before 0", "graph", "after 0", "before 1", "graph", "after 1"]
    assert machine.status("cuEventRecordWithFlags", before, outside, EXTERNAL) == "INVALID_VALUE"


def test_timing_of_events_that_are_nodes(machine: Machine) -> None:
    start, end = machine.event(0), machine.event(0)
    stream = begin(machine)
    machine.cuEventRecordWithFlags(start, stream, EXTERNAL)
    machine.mark(stream, 0)
    machine.cuEventRecordWithFlags(end, stream, EXTERNAL)
    run(machine, machine.cuStreamEndCapture(stream))
    assert machine.cuEventElapsedTime(start, end) >= 0


def test_a_launch_inside_a_capture_is_a_child_graph(machine: Machine) -> None:
    inner = begin(machine)
    machine.mark(inner, "inner")
    executable = machine.cuGraphInstantiate(machine.cuStreamEndCapture(inner), 0)
    stream = begin(machine)
    machine.mark(stream, "before")
    machine.cuGraphLaunch(executable, stream)
    machine.mark(stream, "after")
    graph = machine.cuStreamEndCapture(stream)
    assert types(machine, graph) == ["KERNEL", "GRAPH", "KERNEL"]
    machine.cuGraphExecDestroy(executable)
    run(machine, graph)
    assert machine.log == ["before", "inner", "after"]


def test_a_driver_that_runs_nothing_captures(machine: Machine) -> None:
    quiet = Machine(execute=False)
    address = quiet.device_memory(16)
    stream = quiet.stream()
    quiet.cuMemsetD8Async(address, 0, 16, stream)
    quiet.cuMemsetD8Async(address, 0, 16, stream)
    quiet.cuStreamBeginCapture(stream, GLOBAL)
    quiet.cuMemsetD8Async(address, 0, 16, stream)
    quiet.cuMemsetD8Async(address, 0, 16, stream)
    graph = quiet.cuStreamEndCapture(stream)
    assert types(quiet, graph) == ["MEMSET", "MEMSET"]
    quiet.cuGraphLaunch(quiet.cuGraphInstantiate(graph, 0), stream)


def test_a_cooperative_launch_stays_one_when_it_gets_new_parameters(machine: Machine) -> None:
    kernel = machine.cuModuleGetFunction(machine.cuModuleLoadData(ptx(KERNELS)), b"nothing")
    stream = begin(machine, RELAXED)
    machine.cuLaunchCooperativeKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, 0)
    graph = machine.cuStreamEndCapture(stream)
    node = machine.cuGraphGetNodes(graph, 1)[0][0]
    machine.cuGraphKernelNodeSetParams(node, kernel_parameters(kernel, 2, 32, ()))
    attribute = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
    assert machine.cuGraphKernelNodeGetAttribute(node, attribute).cooperative == 1
    too_large = kernel_parameters(kernel, 1 << 20, 32, ())
    assert machine.status("cuGraphKernelNodeSetParams", node, too_large) == "COOPERATIVE_LAUNCH_TOO_LARGE"

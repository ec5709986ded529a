from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from cuda.bindings import driver as cuda

from tests.drv.simulator.machine import NON_BLOCKING, Machine

if TYPE_CHECKING:
    from collections.abc import Callable

    MachineMaker = Callable[..., Machine]

TYPE = cuda.CUdevResourceType
SM = TYPE.CU_DEV_RESOURCE_TYPE_SM
DEFAULT_STREAM = 1


def whole(machine: Machine) -> Any:
    return machine.cuDeviceGetDevResource(0, SM)


def green_context(machine: Machine, count: int = 16, flags: int = DEFAULT_STREAM) -> Any:
    (part,), number, _ = machine.cuDevSmResourceSplitByCount(1, whole(machine), 0, count)
    assert number == 1
    return machine.cuGreenCtxCreate(machine.cuDevResourceGenerateDesc([part], 1), 0, flags)


def test_a_device_is_split_into_equal_parts(machine: Machine) -> None:
    all_of_it = whole(machine)
    assert (all_of_it.sm.smCount, all_of_it.sm.minSmPartitionSize, all_of_it.sm.smCoscheduledAlignment) == (
        132,
        8,
        8,
    )
    parts, number, rest = machine.cuDevSmResourceSplitByCount(4, all_of_it, 0, 20)
    assert number == 4
    assert [part.sm.smCount for part in parts] == [24] * 4
    assert rest.sm.smCount == 132 - 4 * 24
    # With no place for results it says how many there could be.
    assert machine.cuDevSmResourceSplitByCount(0, all_of_it, 0, 20)[1] == 5
    parts, number, rest = machine.cuDevSmResourceSplitByCount(8, all_of_it, 0, 60)
    assert number == 2
    assert [int(part.type) for part in parts] == [int(SM)] * 2 + [0] * 6
    ignoring = int(cuda.CUdevSmResourceSplitByCount_flags.CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING)
    assert machine.cuDevSmResourceSplitByCount(0, all_of_it, ignoring, 2)[1] == 66


def test_what_cannot_be_split(machine: Machine) -> None:
    all_of_it = whole(machine)
    split = "cuDevSmResourceSplitByCount"
    assert machine.status(split, 1, all_of_it, 0, 133) == "INVALID_VALUE"
    assert machine.status(split, 1, all_of_it, 8, 8) == "INVALID_VALUE"
    assert machine.status(split, 1, cuda.CUdevResource(), 0, 8) == "INVALID_RESOURCE_TYPE"
    (part,), _, _ = machine.cuDevSmResourceSplitByCount(1, all_of_it, 0, 64)
    assert machine.status(split, 1, part, 0, 8) == "INVALID_RESOURCE_CONFIGURATION"
    queues = machine.cuDeviceGetDevResource(0, TYPE.CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG)
    assert machine.status(split, 1, queues, 0, 8) == "INVALID_RESOURCE_TYPE"
    assert machine.status("cuDeviceGetDevResource", 0, 77) == "INVALID_RESOURCE_TYPE"
    assert machine.status("cuDeviceGetDevResource", 9, SM) == "INVALID_DEVICE"


def group(count: int = 0, together: int = 0, flags: int = 0) -> Any:
    result = cuda.CU_DEV_SM_RESOURCE_GROUP_PARAMS()
    result.smCount, result.coscheduledSmCount, result.flags = count, together, flags
    return result


def test_a_device_is_split_into_groups(machine: Machine) -> None:
    backfill = int(cuda.CUdevSmResourceGroup_flags.CU_DEV_SM_RESOURCE_GROUP_BACKFILL)
    groups = [group(8, 4), group(0, 2, backfill)]
    parts, rest = machine.cuDevSmResourceSplit(2, whole(machine), 0, groups)
    assert [part.sm.smCount for part in parts] == [8, 124]
    assert [each.smCount for each in groups] == [8, 124]
    assert int(rest.type) == 0
    parts, rest = machine.cuDevSmResourceSplit(1, whole(machine), 0, [group()])
    assert parts[0].sm.smCount == 128
    assert rest.sm.smCount == 4
    split = "cuDevSmResourceSplit"
    assert machine.status(split, 1, whole(machine), 0, [group(9, 2)]) == "INVALID_VALUE"
    assert machine.status(split, 1, whole(machine), 0, [group(8, 3)]) == "INVALID_VALUE"
    assert machine.status(split, 0, whole(machine), 0, []) == "INVALID_VALUE"
    too_many = [group(128), group(128)]
    assert machine.status(split, 2, whole(machine), 0, too_many) == "INVALID_RESOURCE_CONFIGURATION"


def test_parts_of_one_split_make_a_description(machine: Machine) -> None:
    parts, _, _ = machine.cuDevSmResourceSplitByCount(2, whole(machine), 0, 32)
    others, _, _ = machine.cuDevSmResourceSplitByCount(2, whole(machine), 0, 32)
    description = machine.cuDevResourceGenerateDesc(parts, 2)
    green = machine.cuGreenCtxCreate(description, 0, DEFAULT_STREAM)
    assert machine.cuGreenCtxGetDevResource(green, SM).sm.smCount == 64
    generate = "cuDevResourceGenerateDesc"
    mixed = [parts[0], others[0]]
    assert machine.status(generate, mixed, 2) == "INVALID_RESOURCE_CONFIGURATION"
    assert machine.status(generate, [], 0) == "INVALID_VALUE"
    assert machine.status("cuGreenCtxCreate", description, 1, 1) == "INVALID_VALUE"
    assert machine.status("cuGreenCtxCreate", 0, 0, 1) == "INVALID_VALUE"
    # What a green context has can be split again.
    assert machine.cuDevSmResourceSplitByCount(0, machine.cuGreenCtxGetDevResource(green, SM), 0, 8)[1] == 8


def test_a_green_context_is_current_by_another_handle(machine: Machine) -> None:
    green = green_context(machine)
    primary = machine.contexts[0]
    converted = machine.cuCtxFromGreenCtx(green)
    assert int(converted) not in (int(primary), int(green))
    machine.cuCtxSetCurrent(converted)
    assert int(machine.cuCtxGetCurrent()) == int(converted)
    assert int(machine.cuCtxGetDevice()) == 0
    assert machine.cuGreenCtxGetId(0) == machine.cuGreenCtxGetId(green)
    assert machine.cuCtxGetDevResource(converted, SM).sm.smCount == 16
    stream = machine.stream()
    assert int(machine.cuStreamGetGreenCtx(stream)) == int(green)
    assert int(machine.cuStreamGetCtx(stream)) == int(converted)
    assert [int(each) for each in machine.cuStreamGetCtx_v2(stream)] == [int(primary), int(green)]
    assert machine.cuStreamGetDevResource(stream, SM).sm.smCount == 16
    machine.cuCtxPushCurrent(primary)
    assert int(machine.cuCtxGetCurrent()) == int(primary)
    other = machine.stream()
    assert int(machine.cuStreamGetGreenCtx(other)) == 0
    assert machine.cuStreamGetDevResource(other, SM).sm.smCount == 132
    assert int(machine.cuCtxPopCurrent()) == int(primary)
    assert int(machine.cuCtxGetCurrent()) == int(converted)
    machine.cuCtxSetCurrent(primary)
    assert machine.status("cuGreenCtxGetId", 0) == "INVALID_CONTEXT"
    assert machine.status("cuCtxFromGreenCtx", primary) == "INVALID_CONTEXT"


def test_work_in_a_green_context(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    green = green_context(machine)
    stream = machine.cuGreenCtxStreamCreate(green, NON_BLOCKING, 0)
    memory = machine.device_memory(64)
    machine.cuMemsetD8Async(memory, 3, 64, stream)
    machine.cuStreamSynchronize(stream)
    assert (machine.peek(memory, 64) == 3).all()
    assert machine.status("cuGreenCtxStreamCreate", green, 0, 0) == "INVALID_VALUE"


def test_its_default_stream_is_its_own(lazy: Machine) -> None:
    green = green_context(lazy)
    lazy.cuCtxSetCurrent(lazy.cuCtxFromGreenCtx(green))
    lazy.mark(0, "green")
    lazy.use(0)
    lazy.mark(0, "default")
    lazy.cuStreamSynchronize(0)
    assert lazy.log == ["default"]
    lazy.cuCtxSynchronize()
    assert lazy.log == ["default", "green"]


def test_streams_outlive_it_detached(machine: Machine) -> None:
    green = green_context(machine)
    stream = machine.cuGreenCtxStreamCreate(green, NON_BLOCKING, 0)
    machine.cuStreamBeginCapture(stream, cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
    machine.cuGreenCtxDestroy(green)
    assert machine.status("cuStreamSynchronize", stream) == "STREAM_DETACHED"
    machine.cuStreamDestroy(stream)
    assert machine.status("cuStreamSynchronize", stream) == "INVALID_HANDLE"
    assert machine.status("cuGreenCtxDestroy", green) == "INVALID_CONTEXT"
    assert not machine.driver.captures


@pytest.mark.parametrize("of_green", [False, True])
def test_an_event_of_a_whole_context(lazy: Machine, of_green: bool) -> None:
    green = green_context(lazy)
    inside = lazy.cuGreenCtxStreamCreate(green, NON_BLOCKING, 0)
    outside, waiting = lazy.stream(), lazy.stream()
    lazy.mark(inside, "inside")
    lazy.mark(outside, "outside")
    event = lazy.event()
    if of_green:
        lazy.cuGreenCtxRecordEvent(green, event)
    else:
        lazy.cuCtxRecordEvent(lazy.contexts[0], event)
    lazy.cuStreamWaitEvent(waiting, event, 0)
    lazy.mark(waiting, "waiting")
    lazy.cuStreamSynchronize(waiting)
    assert sorted(lazy.log[:-1]) == (["inside"] if of_green else ["inside", "outside"])
    assert lazy.log[-1] == "waiting"


@pytest.mark.parametrize("of_green", [False, True])
def test_a_whole_context_waits(lazy: Machine, of_green: bool) -> None:
    green = green_context(lazy)
    first, event = lazy.stream(), lazy.event()
    lazy.mark(first, "first")
    lazy.cuEventRecord(event, first)
    if of_green:
        lazy.cuGreenCtxWaitEvent(green, event)
    else:
        lazy.cuCtxWaitEvent(lazy.contexts[0], event)
    outside, inside = lazy.stream(), lazy.cuGreenCtxStreamCreate(green, NON_BLOCKING, 0)
    lazy.mark(outside, "outside")
    lazy.cuStreamSynchronize(outside)
    assert lazy.log == (["outside"] if of_green else ["first", "outside"])
    lazy.mark(inside, "inside")
    lazy.cuStreamSynchronize(inside)
    assert lazy.log[-2:] == (["first", "inside"] if of_green else ["outside", "inside"])


def test_events_of_contexts_are_checked(machine: Machine) -> None:
    machine.use(1)
    event = machine.event()
    assert machine.status("cuCtxRecordEvent", machine.contexts[0], event) == "INVALID_HANDLE"
    assert machine.status("cuCtxRecordEvent", machine.contexts[1], event) == "SUCCESS"
    assert machine.status("cuCtxWaitEvent", machine.contexts[0], event) == "SUCCESS"
    assert machine.status("cuCtxWaitEvent", 0x10, event) == "INVALID_CONTEXT"
    stream = machine.stream()
    machine.cuStreamBeginCapture(stream, cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
    assert machine.status("cuCtxRecordEvent", machine.contexts[1], event) == "STREAM_CAPTURE_UNSUPPORTED"
    assert machine.status("cuStreamEndCapture", stream) == "STREAM_CAPTURE_INVALIDATED"


def test_whole_contexts_order_nothing_else(any_schedule: MachineMaker) -> None:
    machine = any_schedule(check="race")
    memory = machine.device_memory(64)
    first, second, event = machine.stream(), machine.stream(), machine.event()
    machine.cuMemsetD8Async(memory, 1, 64, first)
    machine.cuCtxRecordEvent(machine.contexts[0], event)
    machine.cuStreamWaitEvent(second, event, 0)
    machine.cuMemsetD8Async(memory, 2, 64, second)
    machine.driver.findings.collect = True
    machine.cuCtxSynchronize()
    assert not machine.driver.findings
    # The next record knows of both, and nobody has waited for it.
    machine.cuMemsetD8Async(memory, 3, 64, first)
    machine.cuCtxRecordEvent(machine.contexts[0], event)
    machine.cuMemsetD8Async(memory, 4, 64, second)
    machine.cuCtxSynchronize()
    assert len(machine.driver.findings) == 1

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cuda.bindings import driver as cuda

from tests.drv.simulator.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

    MachineMaker = Callable[..., Machine]

ORDER = cuda.CUmemcpySrcAccessOrder
STREAM, DURING_CALL, ANY = (
    ORDER.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
    ORDER.CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL,
    ORDER.CU_MEMCPY_SRC_ACCESS_ORDER_ANY,
)


def attributes(order: Any = STREAM) -> cuda.CUmemcpyAttributes:
    result = cuda.CUmemcpyAttributes()
    result.srcAccessOrder = order
    return result


def box(target: int, source: int, extent: tuple[int, int, int], rows: int = 0, order: Any = STREAM) -> Any:
    """A copy of ``extent`` (width, height, depth); rows of the target are ``rows`` bytes apart."""
    result = cuda.CUDA_MEMCPY3D_BATCH_OP()
    for operand, address, length in ((result.dst, target, rows), (result.src, source, 0)):
        operand.type = cuda.CUmemcpy3DOperandType.CU_MEMCPY_OPERAND_TYPE_POINTER
        operand.op.ptr.ptr, operand.op.ptr.rowLength = address, length
    result.extent.width, result.extent.height, result.extent.depth = extent
    result.srcAccessOrder = order
    return result


def test_a_batch_of_copies(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    stream = machine.stream()
    sources = [machine.device_memory(100) for _ in range(3)]
    for value, source in enumerate(sources):
        machine.cuMemsetD8Async(source, value + 1, 100, stream)
    target = machine.device_memory(300)
    ends = [target, target + 100, target + 200]
    machine.cuMemcpyBatchAsync(
        ends, sources, [100, 50, 100], 3, [attributes(), attributes(ANY)], [0, 2], 2, stream
    )
    machine.cuStreamSynchronize(stream)
    assert machine.peek(target, 150).tolist() == [1] * 100 + [2] * 50
    assert machine.peek(target + 200, 100).tolist() == [3] * 100


def test_between_host_and_device(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    stream, memory = machine.stream(), machine.device_memory(64)
    source, result = np.arange(64, dtype=np.uint8), np.zeros(64, np.uint8)
    machine.cuMemcpyBatchAsync(
        [memory], [source.ctypes.data], [64], 1, [attributes(DURING_CALL)], [0], 1, stream
    )
    # It was read by the call.
    source[:] = 0
    machine.cuMemcpyBatchAsync([result.ctypes.data], [memory], [64], 1, [attributes()], [0], 1, stream)
    machine.cuStreamSynchronize(stream)
    assert result.tolist() == list(range(64))


def test_a_source_in_stream_order_is_read_when_its_turn_comes(lazy: Machine) -> None:
    stream, memory = lazy.stream(), lazy.device_memory(64)
    source = np.zeros(64, np.uint8)
    lazy.cuMemcpyWithAttributesAsync(memory, source.ctypes.data, 64, attributes(), stream)
    source[:] = 7
    lazy.cuStreamSynchronize(stream)
    assert (lazy.peek(memory, 64) == 7).all()


def test_boxes(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    stream = machine.stream()
    source, target = machine.device_memory(24), machine.device_memory(100)
    machine.poke(source, np.arange(24))
    machine.cuMemcpy3DBatchAsync(1, [box(target, source, (4, 3, 2), rows=10)], 0, stream)
    machine.cuStreamSynchronize(stream)
    rows = machine.peek(target, 60).reshape(6, 10)[:, :4]
    assert rows.ravel().tolist() == list(range(24))
    machine.cuMemcpy3DWithAttributesAsync(box(target, source, (24, 1, 1)), 0, stream)
    machine.cuStreamSynchronize(stream)
    assert machine.peek(target, 24).tolist() == list(range(24))


def test_copies_of_a_batch_come_in_any_order() -> None:
    results = set()
    for seed in range(20):
        machine = Machine(schedule="random", seed=seed)
        stream = machine.stream()
        first, second, target = (machine.device_memory(64) for _ in range(3))
        machine.cuMemsetD8(first, 1, 64)
        machine.cuMemsetD8(second, 2, 64)
        machine.cuCtxSynchronize()
        machine.cuMemcpyBatchAsync(
            [target, target], [first, second], [64, 64], 2, [attributes()], [0], 1, stream
        )
        machine.cuStreamSynchronize(stream)
        results.add(int(machine.peek(target, 1)[0]))
    assert results == {1, 2}


def test_copies_of_a_batch_race_with_each_other(any_schedule: MachineMaker) -> None:
    machine = any_schedule(check="race")
    stream = machine.stream()
    first, second, target = (machine.device_memory(64) for _ in range(3))
    machine.cuMemsetD8(first, 1, 64)
    machine.cuMemsetD8(second, 2, 64)
    machine.cuCtxSynchronize()
    machine.driver.findings.collect = True
    # The second and the third copy write the same bytes; the first is apart.
    machine.cuMemcpyBatchAsync(
        [target, target + 16, target + 24],
        [first, first, second],
        [16, 16, 16],
        3,
        [attributes()],
        [0],
        1,
        stream,
    )
    machine.cuStreamSynchronize(stream)
    (finding,) = machine.driver.findings
    assert finding.ranges == ((24, 32),)
    assert "copy 1 of a batch of 3 copies" in str(finding)
    assert "copy 2 of a batch of 3 copies" in str(finding)


def test_rows_between_each_other_do_not_race(any_schedule: MachineMaker) -> None:
    machine = any_schedule(check="race")
    stream = machine.stream()
    source, target = machine.device_memory(24), machine.device_memory(64)
    machine.cuMemsetD8(source, 1, 24)
    machine.cuCtxSynchronize()
    halves = [box(target, source, (4, 3, 1), rows=8), box(target + 4, source + 12, (4, 3, 1), rows=8)]
    machine.cuMemcpy3DBatchAsync(2, halves, 0, stream)
    # What comes later in the stream comes after all of it.
    machine.cuMemsetD8Async(target, 0, 24, stream)
    machine.cuStreamSynchronize(stream)
    assert not machine.driver.findings


def test_a_batch_races_with_other_streams(any_schedule: MachineMaker) -> None:
    machine = any_schedule(check="race")
    source, target = machine.device_memory(64), machine.device_memory(64)
    machine.cuMemsetD8(source, 1, 64)
    machine.cuCtxSynchronize()
    machine.driver.findings.collect = True
    stream = machine.stream()
    machine.cuMemcpyBatchAsync([target, target], [source, source], [8, 8], 2, [attributes()], [0], 1, stream)
    machine.cuMemsetD8Async(target, 0, 4, machine.stream())
    machine.cuCtxSynchronize()
    # Of the copies with each other, and with the fill.
    assert len(machine.driver.findings) == 2
    assert "fill of 4 bytes" in str(machine.driver.findings)


@pytest.mark.parametrize(
    ("sizes", "orders", "begins", "status"),
    [
        ([64], [STREAM], [0], "SUCCESS"),
        ([], [STREAM], [0], "INVALID_VALUE"),
        ([0], [STREAM], [0], "INVALID_VALUE"),
        ([64], [], [], "INVALID_VALUE"),
        ([64], [STREAM], [1], "INVALID_VALUE"),
        ([64, 64], [STREAM, STREAM], [0, 0], "INVALID_VALUE"),
        ([64], [STREAM, STREAM], [0, 1], "INVALID_VALUE"),
        ([64], [ORDER.CU_MEMCPY_SRC_ACCESS_ORDER_INVALID], [0], "INVALID_VALUE"),
    ],
)
def test_arguments_of_batches(
    machine: Machine, sizes: list[int], orders: list[Any], begins: list[int], status: str
) -> None:
    count, memory = len(sizes), machine.device_memory(64)
    others = [machine.device_memory(64) for _ in sizes]
    attribute_list = [attributes(order) for order in orders]
    arguments = (others, [memory] * count, sizes, count, attribute_list, begins, len(attribute_list))
    assert machine.status("cuMemcpyBatchAsync", *arguments, machine.stream()) == status
    assert machine.status("cuMemcpyBatchAsync", *arguments, 0) == "INVALID_VALUE"


def test_arguments_of_boxes(machine: Machine) -> None:
    stream, memory, other = machine.stream(), machine.device_memory(64), machine.device_memory(64)
    call = "cuMemcpy3DBatchAsync"
    assert machine.status(call, 1, [box(memory, other, (0, 1, 1))], 0, stream) == "INVALID_VALUE"
    assert machine.status(call, 1, [box(memory, other, (8, 2, 1), rows=4)], 0, stream) == "INVALID_VALUE"
    assert machine.status(call, 1, [box(memory, other, (8, 1, 1))], 1, stream) == "INVALID_VALUE"
    assert machine.status(call, 0, [], 0, stream) == "INVALID_VALUE"


def test_a_capture_refuses_batches_and_goes_on(machine: Machine) -> None:
    stream, memory, other = machine.stream(), machine.device_memory(64), machine.device_memory(64)
    machine.cuStreamBeginCapture(stream, cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
    arguments = ([memory], [other], [64], 1, [attributes()], [0], 1, stream)
    assert machine.status("cuMemcpyBatchAsync", *arguments) == "STREAM_CAPTURE_UNSUPPORTED"
    machine.cuStreamEndCapture(stream)


def test_boxes_between_contexts(any_schedule: MachineMaker) -> None:
    machine = any_schedule(devices=2)
    source = machine.device_memory(64)
    machine.cuMemsetD8Async(source, 5, 64, 0)
    machine.use(1)
    target = machine.device_memory(64)
    copy = cuda.CUDA_MEMCPY3D_PEER()
    copy.srcMemoryType = copy.dstMemoryType = cuda.CUmemorytype.CU_MEMORYTYPE_DEVICE
    copy.srcDevice, copy.dstDevice = source, target
    copy.srcContext, copy.dstContext = machine.contexts
    copy.WidthInBytes, copy.Height, copy.Depth = 16, 4, 1
    machine.cuMemcpy3DPeer(copy)
    machine.cuCtxSynchronize()
    assert (machine.peek(target, 64) == 5).all()
    copy.WidthInBytes = 8
    machine.cuMemsetD8(source, 6, 64)
    machine.cuCtxSynchronize()
    stream = machine.stream()
    machine.cuMemcpy3DPeerAsync(copy, stream)
    machine.cuStreamSynchronize(stream)
    assert machine.peek(target, 33).tolist() == [6] * 32 + [5]

"""CUDA arrays: what can be made, and copies of all forms with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cuda.bindings import driver as cuda
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drv.simulator.execution.texturing.images import (
    CUBEMAP,
    GATHER,
    LAYERED,
    SURFACE,
    Images,
    described,
)
from tests.drv.simulator.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

FORMATS = cuda.CUarray_format


def plain(width: int, height: int = 0, channels: int = 1, number: Any = None) -> cuda.CUDA_ARRAY_DESCRIPTOR:
    result = cuda.CUDA_ARRAY_DESCRIPTOR()
    result.Width, result.Height, result.NumChannels = width, height, channels
    result.Format = FORMATS.CU_AD_FORMAT_FLOAT if number is None else number
    return result


def test_descriptors_come_back(machine: Machine) -> None:
    array = machine.cuArrayCreate(plain(7, 3, 2))
    result = machine.cuArrayGetDescriptor(array)
    assert (result.Width, result.Height, result.NumChannels) == (7, 3, 2)
    assert result.Format == FORMATS.CU_AD_FORMAT_FLOAT
    solid = machine.cuArray3DCreate(described(7, 3, 5, dtype="int16", channels=4, flags=SURFACE))
    result = machine.cuArray3DGetDescriptor(solid)
    assert (result.Width, result.Height, result.Depth, result.NumChannels, result.Flags) == (
        7,
        3,
        5,
        4,
        SURFACE,
    )
    assert result.Format == FORMATS.CU_AD_FORMAT_SIGNED_INT16


@pytest.mark.parametrize(
    ("extents", "options", "status"),
    [
        ((0,), {}, "INVALID_VALUE"),
        ((8,), {"channels": 3}, "INVALID_VALUE"),
        ((8, 0, 4), {}, "INVALID_VALUE"),
        ((8, 8, 0), {"flags": LAYERED}, "INVALID_VALUE"),
        ((8, 4, 6), {"flags": CUBEMAP}, "INVALID_VALUE"),
        ((8, 8, 12), {"flags": CUBEMAP}, "INVALID_VALUE"),
        ((8, 8, 12), {"flags": CUBEMAP | LAYERED}, "SUCCESS"),
        ((8, 0, 4), {"flags": LAYERED}, "SUCCESS"),
        ((8,), {"flags": GATHER}, "INVALID_VALUE"),
        ((131073,), {}, "INVALID_VALUE"),
        ((16385, 1, 1), {}, "INVALID_VALUE"),
        ((8, 8), {"flags": 1 << 12}, "INVALID_VALUE"),
        ((8, 8), {"flags": 64}, "NOT_SUPPORTED"),
    ],
)
def test_what_can_be_made(machine: Machine, extents: tuple[int, ...], options: Any, status: str) -> None:
    assert machine.status("cuArray3DCreate", described(*extents, **options)) == status


def test_formats_that_are_not_simulated(machine: Machine) -> None:
    assert machine.status("cuArrayCreate", plain(8, 8, 4, FORMATS.CU_AD_FORMAT_BC1_UNORM)) == "NOT_SUPPORTED"
    assert (
        machine.status("cuArrayCreate", plain(8, 8, 2, FORMATS.CU_AD_FORMAT_UNORM_INT8X4)) == "INVALID_VALUE"
    )
    machine.cuArrayCreate(plain(8, 8, 4, FORMATS.CU_AD_FORMAT_UNORM_INT8X4))


def test_arrays_take_memory_and_give_it_back(machine: Machine) -> None:
    before, _ = machine.cuMemGetInfo()
    array = machine.cuArrayCreate(plain(1024, 1024, 4))
    assert before - machine.cuMemGetInfo()[0] == 1 << 24
    machine.cuArrayDestroy(array)
    assert machine.cuMemGetInfo()[0] == before
    assert machine.status("cuArrayDestroy", array) == "INVALID_HANDLE"
    assert machine.status("cuArrayGetDescriptor", array) == "INVALID_HANDLE"
    assert machine.status("cuArrayCreate", plain(131072, 65536, 4)) == "OUT_OF_MEMORY"
    assert machine.cuMemGetInfo()[0] == before


def test_mipmapped_arrays(machine: Machine) -> None:
    before, _ = machine.cuMemGetInfo()
    whole = machine.cuMipmappedArrayCreate(described(20, 6), 99)
    sizes = []
    for level in range(5):
        result = machine.cuArrayGetDescriptor(machine.cuMipmappedArrayGetLevel(whole, level))
        sizes.append((result.Width, result.Height))
    assert sizes == [(20, 6), (10, 3), (5, 1), (2, 1), (1, 1)]
    assert machine.status("cuMipmappedArrayGetLevel", whole, 5) == "INVALID_VALUE"
    level = machine.cuMipmappedArrayGetLevel(whole, 1)
    assert machine.status("cuArrayDestroy", level) == "INVALID_HANDLE"
    machine.cuMipmappedArrayDestroy(whole)
    assert machine.status("cuArrayGetDescriptor", level) == "INVALID_HANDLE"
    assert machine.cuMemGetInfo()[0] == before


def test_what_only_other_arrays_have(machine: Machine) -> None:
    array = machine.cuArrayCreate(plain(8))
    assert machine.status("cuArrayGetMemoryRequirements", array, 0) == "INVALID_VALUE"
    assert machine.status("cuArrayGetSparseProperties", array) == "INVALID_VALUE"
    assert machine.status("cuArrayGetPlane", array, 0) == "INVALID_VALUE"
    assert machine.cuDeviceGetTexture1DLinearMaxWidth(FORMATS.CU_AD_FORMAT_HALF, 2, 0) == 1 << 28


# Copies


def copies(height: int, target: dict[str, Any], source: dict[str, Any], width: int, depth: int = 1) -> Any:
    result = cuda.CUDA_MEMCPY3D()
    result.WidthInBytes, result.Height, result.Depth = width, height, depth
    for side, values in (("dst", target), ("src", source)):
        for name, value in values.items():
            setattr(result, side + name, value)
    return result


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_boxes_of_arrays(data: st.DataObject) -> None:
    machine = Machine(check="full", schedule="random", seed=data.draw(st.integers(0, 9)))
    images = Images(machine)
    sizes = data.draw(st.tuples(*[st.integers(1, 5)] * 3), label="depth, height, width")
    channels = data.draw(st.sampled_from([1, 2, 4]), label="channels")
    random = np.random.default_rng(0)
    before = random.integers(0, 256, (*sizes, channels), np.uint8)
    array, other = (images.filled(each, 3) for each in (before, np.zeros_like(before)))
    box = [data.draw(st.integers(1, size)) for size in sizes]
    at, to = (
        [data.draw(st.integers(0, size - extent)) for size, extent in zip(sizes, box, strict=True)]
        for _ in "ab"
    )

    def side(handle: Any, start: list[int]) -> dict[str, Any]:
        z, y, x = start
        return {
            "MemoryType": cuda.CUmemorytype.CU_MEMORYTYPE_ARRAY,
            "Array": handle,
            "XInBytes": x * channels,
            "Y": y,
            "Z": z,
        }

    machine.cuMemcpy3D(copies(box[1], side(other, to), side(array, at), box[2] * channels, box[0]))
    expected = np.zeros_like(before)
    source, target = (
        tuple(slice(start, start + extent) for start, extent in zip(each, box, strict=True))
        for each in (at, to)
    )
    expected[target] = before[source]
    np.testing.assert_array_equal(images.read(other, before), expected)
    assert not list(machine.driver.findings)


def test_rows_of_arrays_of_one_dimension(any_schedule: Callable[..., Machine]) -> None:
    machine = any_schedule(check="race")
    numbers = np.arange(10, dtype=np.float32)
    array, other = machine.cuArrayCreate(plain(10)), machine.cuArrayCreate(plain(10))
    memory = machine.device_memory(40)
    machine.cuMemcpyHtoA(array, 0, numbers, 40)
    machine.cuMemcpyAtoA(other, 8, array, 0, 32)
    machine.cuMemcpyAtoD(memory, other, 8, 32)
    machine.cuMemcpyDtoA(other, 0, memory, 8)
    result = np.zeros(10, np.float32)
    machine.cuMemcpyAtoH(result, other, 0, 40)
    assert result.tolist() == [0, 1, *range(8)]
    stream = machine.stream(0)
    machine.cuMemcpyHtoAAsync(array, 20, numbers[::-1].copy(), 20, stream)
    machine.cuMemcpyAtoHAsync(result, array, 0, 40, stream)
    machine.cuStreamSynchronize(stream)
    assert result.tolist() == [0, 1, 2, 3, 4, 9, 8, 7, 6, 5]
    assert not list(machine.driver.findings)


def test_copies_that_do_not_fit(machine: Machine) -> None:
    array, flat = machine.cuArrayCreate(plain(10)), machine.cuArrayCreate(plain(4, 4))
    numbers = np.zeros(64, np.float32)
    assert machine.status("cuMemcpyHtoA", array, 4, numbers, 40) == "INVALID_VALUE"
    assert machine.status("cuMemcpyHtoA", array, 2, numbers, 4) == "INVALID_VALUE"
    assert machine.status("cuMemcpyHtoA", flat, 0, numbers, 4) == "INVALID_VALUE"
    assert machine.status("cuMemcpyHtoA", 0x77, 0, numbers, 4) == "INVALID_HANDLE"
    host = {"MemoryType": cuda.CUmemorytype.CU_MEMORYTYPE_HOST, "Host": numbers.ctypes.data}
    inside = {"MemoryType": cuda.CUmemorytype.CU_MEMORYTYPE_ARRAY, "Array": flat}
    assert machine.status("cuMemcpy3D", copies(5, inside, host, 16)) == "INVALID_VALUE"
    assert machine.status("cuMemcpy3D", copies(4, inside, host, 20)) == "INVALID_VALUE"
    assert machine.status("cuMemcpy3D", copies(4, inside, host, 16, 2)) == "INVALID_VALUE"
    assert machine.status("cuMemcpy3D", copies(4, inside, host, 16)) == "SUCCESS"


def test_graphs_copy_arrays(machine: Machine) -> None:
    images = Images(machine)
    data = np.arange(24, dtype=np.float32).reshape(1, 4, 6, 1)
    array, other = images.filled(data, 2), images.filled(np.zeros_like(data), 2)
    inside = {"MemoryType": cuda.CUmemorytype.CU_MEMORYTYPE_ARRAY}
    what = copies(2, inside | {"Array": other, "Y": 1}, inside | {"Array": array, "XInBytes": 8, "Y": 2}, 12)
    graph = machine.cuGraphCreate(0)
    node = machine.cuGraphAddMemcpyNode(graph, None, 0, what, machine.contexts[0])
    result = machine.cuGraphMemcpyNodeGetParams(node)
    assert result.srcMemoryType == cuda.CUmemorytype.CU_MEMORYTYPE_ARRAY
    assert int(result.srcArray) == int(array)
    assert (result.srcXInBytes, result.srcY, result.dstY) == (8, 2, 1)
    machine.cuGraphLaunch(machine.cuGraphInstantiate(graph, 0), 0)
    expected = np.zeros_like(data)
    expected[:, 1:3, :3] = data[:, 2:4, 2:5]
    np.testing.assert_array_equal(images.read(other, data), expected)


def test_batches_of_boxes(machine: Machine) -> None:
    images = Images(machine)
    data = np.arange(24, dtype=np.float32).reshape(1, 4, 6, 1)
    array, memory = images.filled(data, 2), machine.device_memory(96)
    operation = cuda.CUDA_MEMCPY3D_BATCH_OP()
    types = cuda.CUmemcpy3DOperandType
    operation.src.type = types.CU_MEMCPY_OPERAND_TYPE_ARRAY
    operation.src.op.array.array = array
    operation.src.op.array.offset.x, operation.src.op.array.offset.y = 1, 2
    operation.dst.type = types.CU_MEMCPY_OPERAND_TYPE_POINTER
    operation.dst.op.ptr.ptr = cuda.CUdeviceptr(memory)
    operation.extent.width, operation.extent.height, operation.extent.depth = 3, 2, 1
    operation.srcAccessOrder = cuda.CUmemcpySrcAccessOrder.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
    stream = machine.stream()
    machine.cuCtxSynchronize()
    machine.cuMemcpy3DBatchAsync(1, [operation], 0, stream)
    machine.cuStreamSynchronize(stream)
    assert machine.peek(memory, 24).view(np.float32).tolist() == [13, 14, 15, 19, 20, 21]


def test_a_context_takes_its_arrays_along(machine: Machine) -> None:
    context = machine.cuCtxCreate(None, 0, 1)
    array = machine.cuArrayCreate(plain(8))
    machine.cuCtxDestroy(context)
    machine.use(0)
    assert machine.status("cuArrayGetDescriptor", array) == "INVALID_HANDLE"

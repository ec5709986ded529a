"""What pointwise kernels ask memory for, counted by the simulator: bytes of an access, sectors, launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
from drv.simulator.timing.machine_code.assembling import available
from nvrtc_kernels import dtypes, normalization, pointwise, pointwise_work, reduction, scan

from .device_arrays import DeviceArray

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.simulator_only

#: Elements of operands that only full blocks work on.
FULL = 1 << 16

#: Operations by what their flat kernels must not split: branches, calls of functions, results of another size.
FLAT: dict[str, tuple[str, tuple[dtypes.dtype, ...], dtypes.dtype | None]] = {
    "add, float32": ("a + b", (dtypes.float32,) * 3, None),
    "add, bfloat16": ("a + b", (dtypes.bfloat16,) * 3, dtypes.float32),
    "add, uint8": ("a + b", (dtypes.uint8,) * 3, None),
    "add, float64": ("a + b", (dtypes.float64,) * 3, None),
    "four operands": ("a * b + c - d", (dtypes.float16,) * 5, dtypes.float32),
    "branches": ("a < 0 ? expf(a) : a > 9 ? sinf(a) : a", (dtypes.bfloat16,) * 2, dtypes.float32),
    "comparison": ("a < b", (dtypes.bool_, dtypes.float32, dtypes.float32), None),
    "narrowed": ("a", (dtypes.float16, dtypes.float32), None),
    "widened": ("a", (dtypes.float64, dtypes.uint8), None),
    "complex": ("a", (dtypes.complex64,) * 2, None),
    "wide complex": ("a", (dtypes.complex128,) * 2, None),
}


@pytest.fixture
def timed_device() -> Iterator[drv.Device]:
    """A simulated device, whose kernels can be metered."""
    with drv.simulator.installed(check="off"):
        yield drv.Device(0)


def operations_of(run: Any, *arguments: Any) -> list[Any]:
    """The kernels that a plan launches, with what they asked memory for."""
    with drv.simulator.timed() as timing:
        run(drv.Device(0).default_stream.handle, *arguments)
        drv.Device(0).synchronize()
    return [each for each in timing.operations if each.category == "kernel"]


def widths(operation: Any) -> list[int]:
    """Bytes of each access to global memory in a kernel's code that ran."""
    return sorted(each.width for each in operation.kernel.counts.sites if each.space == "global")


@pytest.mark.parametrize("name", FLAT)
@pytest.mark.sampled(4)
def test_flat_kernels_move_whole_packs(timed_device: drv.Device, name: str) -> None:
    code, types, compute = FLAT[name]
    arrays = [DeviceArray(timed_device, np.zeros(FULL, each.numpy)) for each in types]
    expression = pointwise.Expression("flat", code, compute=compute)
    operands = [((1,), each) for each in types]
    run = pointwise.plan(timed_device, expression, (FULL,), *operands)
    (operation,) = operations_of(run, *(each.address for each in arrays))
    widest = max(each.itemsize for each in types)
    expected = [16 * each.itemsize // widest for each in types for _ in range(4)]
    assert widths(operation) == sorted(expected)
    assert operation.metrics["sectors_over_needed"] == 1


#: Copies of two layouts, with the widths of accesses in packs of which elements lie together, and of sectors needed.
COPIES: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]] = {
    "slice": ((1024, 256), (256, 1), (512, 1), 16),
    "heads": ((4, 8, 256, 64), (8 * 256 * 64, 256 * 64, 64, 1), (8 * 256 * 64, 64, 8 * 64, 1), 16),
    "bias": ((1024, 256), (256, 1), (0, 1), 16),
    "transpose": ((1024, 2048), (2048, 1), (1, 1024), 8),
    "to channels_last": ((64, 1024, 128), (1024 * 128, 128, 1), (1024 * 128, 1, 1024), 8),
    "from 8 channels": ((16, 8, 1 << 15), (8 << 15, 1 << 15, 1), (8 << 15, 1, 8), 8),
}


@pytest.mark.parametrize("dtype", [dtypes.int16, dtypes.float32, dtypes.float64], ids=lambda each: each.name)
@pytest.mark.parametrize("name", COPIES)
@pytest.mark.sampled(4)
def test_strided_copies_move_words(
    timed_device: drv.Device, name: str, dtype: dtypes.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tiles of large tensors, on ones that are simulated soon.
    monkeypatch.setattr(pointwise_work, "_MANY", 1)
    shape, out, source, width = COPIES[name]
    itemsize = dtype.itemsize
    sizes = [sum((n - 1) * step for n, step in zip(shape, steps, strict=True)) + 1 for steps in (out, source)]
    arrays = [DeviceArray(timed_device, np.zeros(size, dtype.numpy)) for size in sizes]
    run = pointwise.plan_copy(timed_device, shape, (out, dtype), (source, dtype))
    (operation,) = operations_of(run, *(each.address for each in arrays))
    assert {*widths(operation)} == {max(width, itemsize)}
    sectors = operation.metrics["sectors_over_needed"]
    # A warp of the last reads rows of 8 elements of 2 bytes each, and writes as many columns.
    assert sectors == 1 or (name == "from 8 channels" and sectors <= 1.5)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.bfloat16], ids=lambda each: each.name)
def test_weight_gradients_of_rows_load_columns_by_words(
    timed_device: drv.Device, dtype: dtypes.dtype
) -> None:
    shape = (1024, 512)
    inputs = [((512, 1), dtype), ((512, 1), dtype), ((1, 0), dtypes.float32), ((1, 0), dtypes.float32)]
    plan = reduction.plan(
        timed_device, normalization.WEIGHT_GRADIENTS, shape, [0], [((0, 1), dtype)] * 2, inputs
    )
    arrays = [DeviceArray(timed_device, np.zeros(512, dtype.numpy)) for _ in range(2)]
    arrays += [DeviceArray(timed_device, np.zeros(shape, dtype.numpy)) for _ in range(2)]
    arrays += [DeviceArray(timed_device, np.zeros(1024, np.float32)) for _ in range(2)]
    with drv.DeviceMemory(plan.scratch_bytes, timed_device) as scratch, drv.simulator.timed() as timing:
        plan.run(
            timed_device.default_stream.handle, *(each.address for each in arrays), scratch=scratch.address
        )
        timed_device.synchronize()
    columns, fold = (each for each in timing.operations if each.category == "kernel")
    assert (columns.name, fold.name) == (
        "normalization_weight_gradients_columns",
        "normalization_weight_gradients_fold",
    )
    read: dict[int, int] = {}
    for each in columns.kernel.counts.sites:
        if each.space == "global" and each.kind.value == "read":
            read[each.width] = read.get(each.width, 0) + each.lanes * each.width
    large = 2 * 1024 * 512 * dtype.itemsize
    # Mean and scale of a row are loaded once for each pack of it.
    assert read == {16: large, 4: large // 16 * 4}
    assert not available() or (columns.kernel.shape.assembled, columns.kernel.shape.spills) == (True, 0)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.bfloat16], ids=lambda each: each.name)
def test_long_lines_are_scanned_in_one_pass(timed_device: drv.Device, dtype: dtypes.dtype) -> None:
    count = 1 << 18
    plan = scan.plan(timed_device, "cumsum", 0, (count,), ((1,), dtype), ((1,), dtype))
    arrays = [DeviceArray(timed_device, np.zeros(count, dtype.numpy)) for _ in range(2)]
    with drv.DeviceMemory(plan.scratch_bytes, timed_device) as scratch, drv.simulator.timed() as timing:
        plan.run(timed_device.default_stream.handle, scratch.address, *(each.address for each in arrays))
        timed_device.synchronize()
    _, chunks = (each for each in timing.operations if each.category == "kernel")
    assert chunks.name == "cumsum_chunks"
    moved = {"read": 0, "write": 0}
    for each in chunks.kernel.counts.sites:
        if each.space == "global" and each.width == 16:
            moved[each.kind.value] += each.lanes * each.width
    assert moved == {"read": count * dtype.itemsize, "write": count * dtype.itemsize}
    assert not available() or (chunks.kernel.shape.assembled, chunks.kernel.shape.spills) == (True, 0)

"""Pointwise kernels against NumPy: flat ones, packs and tiles, for every size of elements, order and alignment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
from drv.compiler import compile_program
from drv.simulator.timing.machine_code.assembling import assemble, available
from nvrtc_kernels import dtypes, pointwise, pointwise_work, program

from .device_arrays import DeviceArray

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: How output and input of three dimensions lie in memory.
LAYOUTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "contiguous": ({}, {}),
    "same order": ({"order": (2, 0, 1)}, {"order": (2, 0, 1)}),
    "input turned": ({}, {"order": (0, 2, 1)}),
    "output turned": ({"order": (2, 1, 0)}, {}),
    "outer dimensions turned": ({}, {"order": (1, 0, 2)}),
    "gaps in the input": ({}, {"gap": 1}),
    "gaps in the output": ({"gap": 2}, {"order": (0, 2, 1)}),
    "unaligned": ({"lead": 1}, {"lead": 1, "order": (1, 0, 2)}),
    "input unaligned": ({}, {"lead": 3, "order": (1, 0, 2)}),
    "output unaligned": ({"lead": 2}, {"order": (2, 1, 0)}),
    "rows stretched": ({}, {"stretch": (0,)}),
    "columns stretched": ({}, {"stretch": (2,)}),
}
SIZES = {1: dtypes.uint8, 2: dtypes.int16, 4: dtypes.float32, 8: dtypes.float64, 16: dtypes.complex128}
#: Sizes that words and tiles divide, and sizes that they do not.
SHAPES = ((3, 64, 96), (2, 33, 65), (70, 3, 48))


@pytest.fixture
def laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tensors are worked on as large ones are."""
    monkeypatch.setattr(pointwise_work, "FEW", 0)
    monkeypatch.setattr(pointwise_work, "_MANY", 0)
    monkeypatch.setattr(pointwise, "FEW", 0)


@pytest.fixture
def random_device() -> Iterator[drv.Device]:
    """A simulated device, with every access checked, whose schedules are drawn."""
    with drv.simulator.installed(check="full", schedule="random", seed=7):
        yield drv.Device(0)
        assert not list(drv.simulator.findings())


def numbers(shape: Sequence[int], kind: Any, layout: dict[str, Any] | None = None) -> np.ndarray:
    result = np.random.default_rng(sum(shape)).integers(1, 100, shape).astype(kind)
    for axis in (layout or {}).get("stretch", ()):
        result = np.broadcast_to(result.take([0], axis), shape)
    return result


def computed(device: drv.Device, code: str, out: DeviceArray, *inputs: DeviceArray) -> np.ndarray:
    operands = [each.operand for each in inputs]
    compute = next(each.dtype for each in (*inputs, out))
    expression = pointwise.Expression("pointwise", code, compute=compute)
    run = pointwise.plan(device, expression, out.shape, out.operand, *operands)
    run(device.default_stream.handle, out.address, *(each.address for each in inputs))
    device.synchronize()
    return out.numpy_array()


def copied(device: drv.Device, array: np.ndarray, layout: str) -> np.ndarray:
    to, origin = LAYOUTS[layout]
    source = DeviceArray(device, array, **origin)
    out = DeviceArray(device, np.zeros_like(array), **to)
    run = pointwise.plan_copy(device, out.shape, out.operand, source.operand)
    run(device.default_stream.handle, out.address, source.address)
    device.synchronize()
    return out.numpy_array()


@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize("itemsize", SIZES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.sampled(4)
def test_copies_of_every_size_of_elements(device: drv.Device, layout: str, itemsize: int) -> None:
    for shape in SHAPES:
        array = numbers(shape, SIZES[itemsize].numpy, LAYOUTS[layout][1])
        np.testing.assert_array_equal(copied(device, array, layout), array)


@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize("itemsize", SIZES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.sampled(4)
def test_offsets_and_counts_of_64_bits(
    device: drv.Device, layout: str, itemsize: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pointwise_work, "_FAR", 0)
    array = numbers((3, 32, 48), SIZES[itemsize].numpy, LAYOUTS[layout][1])
    np.testing.assert_array_equal(copied(device, array, layout), array)


@pytest.mark.parametrize("dtype", dtypes.EVERY, ids=lambda each: each.name)
@pytest.mark.parametrize("layout", ["input turned", "gaps in the input"])
@pytest.mark.sampled(4)
def test_bits_of_every_dtype_are_copied(device: drv.Device, layout: str, dtype: dtypes.dtype) -> None:
    to, origin = LAYOUTS[layout]
    # What a conversion to float and back would change: quiet NaN for signalling ones, 1 for true.
    array = np.random.default_rng(5).integers(0, 256, (5, 4, 9 * dtype.itemsize), np.uint8).view(dtype.numpy)
    source = DeviceArray(device, array, **origin)
    out = DeviceArray(device, np.zeros_like(array), **to)
    run = pointwise.plan_copy(device, out.shape, out.operand, source.operand)
    run(device.default_stream.handle, out.address, source.address)
    device.synchronize()
    np.testing.assert_array_equal(out.numpy_array().view(np.uint8), array.view(np.uint8))


@pytest.mark.simulator_only
@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize(
    "layout", ["contiguous", "input turned", "outer dimensions turned", "columns stretched"]
)
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.bfloat16], ids=lambda each: each.name)
@pytest.mark.sampled(4)
def test_several_operands_under_random_schedules(
    random_device: drv.Device, layout: str, dtype: dtypes.dtype
) -> None:
    origin = LAYOUTS[layout][1]
    for shape in ((4, 96, 64), (3, 33, 20)):
        a, b = numbers(shape, dtype.numpy, origin), numbers(shape, dtype.numpy) % 8
        bias = np.broadcast_to(numbers(shape[2:], dtype.numpy) % 4, shape)
        out = DeviceArray(random_device, np.zeros_like(a))
        inputs = [DeviceArray(random_device, a, **origin), DeviceArray(random_device, b, order=(1, 2, 0))]
        inputs.append(DeviceArray(random_device, bias, stretch=(0, 1)))
        result = computed(random_device, "a * b + c", out, *inputs)
        expected = a.astype(np.float64) * b.astype(np.float64) + bias.astype(np.float64)
        np.testing.assert_array_equal(result, expected.astype(dtype.numpy))


@pytest.mark.usefixtures("laid_out")
def test_operands_of_several_dtypes_and_a_result_in_place(device: drv.Device) -> None:
    mask = numbers((2, 64, 64), np.uint8) % 2 == 1
    a, b = numbers((2, 64, 64), np.float64), numbers((2, 64, 64), np.float32)
    out = DeviceArray(device, a, order=(0, 2, 1))
    inputs = DeviceArray(device, mask), DeviceArray(device, b, order=(1, 0, 2))
    expression = pointwise.Expression("select", "a ? b : c")
    operands = [inputs[0].operand, inputs[1].operand, out.operand]
    run = pointwise.plan(device, expression, out.shape, out.operand, *operands)
    run(device.default_stream.handle, out.address, inputs[0].address, inputs[1].address, out.address)
    device.synchronize()
    np.testing.assert_array_equal(out.numpy_array(), np.where(mask, b, a))


@pytest.mark.usefixtures("laid_out")
def test_an_input_stretched_over_many_packs(device: drv.Device) -> None:
    for shape in ((8, 2048), (3, 4, 5, 2048), (7, 2048)):
        row = numbers(shape[-1:], np.float32)
        array = np.broadcast_to(row, shape)
        source = DeviceArray(device, array, stretch=range(len(shape) - 1))
        out = DeviceArray(device, np.zeros(shape, np.float32))
        run = pointwise.plan_copy(device, shape, out.operand, source.operand)
        run(device.default_stream.handle, out.address, source.address)
        device.synchronize()
        np.testing.assert_array_equal(out.numpy_array(), array)


def test_channels_last_operands_are_flat() -> None:
    steps = (3 * 4 * 5, 1, 5 * 3, 3)
    assert pointwise_work.operands_of((2, 3, 4, 5), [steps, steps], [4, 4]).flat
    assert not pointwise_work.operands_of((2, 3, 4, 5), [steps, (60, 20, 5, 1)], [4, 4]).flat


def test_division_by_multiplication() -> None:
    rng = np.random.default_rng(0)
    sizes = [2, 3, 5, 6, 7, 9, 641, 12544, 65535, 65537, (1 << 30) + 1, (1 << 31) - 1]
    sizes += [1 << k for k in range(1, 31)] + rng.integers(2, 1 << 31, 500).tolist()
    for size in sizes:
        multiplier, shift = pointwise_work.divisor(size)
        assert 0 < multiplier < 1 << 32
        last = ((1 << 31) - 1) // size * size
        near = [0, 1, size - 1, size, size + 1, last - 1, last, (1 << 31) - 1]
        for n in [n for n in near if n < 1 << 31] + rng.integers(0, 1 << 31, 50).tolist():
            assert (n * multiplier >> 32) >> shift == n // size


#: Kernels by the layouts of two operands, with the variant that works on them.
VARIANTS: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], str]] = {
    "packs": ((4096, 64), (64, 1), (128, 1), "strided_2_by_"),
    "elements": ((1 << 18,), (1,), (2,), "strided_1_by_"),
    "stretched": ((64, 1 << 14), (1 << 14, 1), (0, 1), "strided_4_by_"),
    "tiles": ((4096, 4096), (4096, 1), (1, 4096), "tiled_2_by_"),
    "short columns": ((1 << 18, 16), (16, 1), (1, 1 << 18), "tiled_1_by_"),
    "short rows": ((8, 1 << 18), (1 << 18, 1), (1, 8), "tiled_1_by_"),
}


@pytest.mark.skipif(not available(), reason="nvJitLink is not installed (extra profile)")
@pytest.mark.parametrize("dtype", [*SIZES.values(), dtypes.bfloat16], ids=lambda each: each.name)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.sampled(4)
def test_kernels_are_assembled_for_a_gpu_without_spills(variant: str, dtype: dtypes.dtype) -> None:
    shape, out, source, name = VARIANTS[variant]
    operands = pointwise_work.operands_of(shape, [out, source], [dtype.itemsize] * 2)
    work = pointwise_work.work_for(operands)
    assert work.name.startswith(name)
    expression = pointwise.Expression("copy", "a")
    text = pointwise._source(expression, (dtype, dtype), work.name, work)
    options = ("-default-device", "-lineinfo")
    ptx = compile_program(
        text, "compute_90", name="copy.cu", options=options, include_dirs=(program.INCLUDE,)
    )
    assert "div.u" not in ptx.image.decode()
    assert "rem.u" not in ptx.image.decode()
    kernel = assemble(ptx.image, (9, 0))[f"copy_{work.name}"]
    assert kernel.registers <= 96
    assert (kernel.spills, kernel.frame) == (0, 0)
    assert kernel.shared <= 48 << 10

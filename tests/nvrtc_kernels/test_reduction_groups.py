"""Several reductions in one launch give what each of them gives alone, bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
from nvrtc_kernels import reducers, reduction_groups
from nvrtc_kernels.normalization import WEIGHT_GRADIENTS
from nvrtc_kernels.reduction_groups import Task

from .device_arrays import DeviceArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvrtc_kernels.plans import Plan
    from nvrtc_kernels.reducers import Reducer

_RNG = np.random.default_rng(4)


def _results(
    device: drv.Device, plan: Plan | Any, operands: Sequence[DeviceArray], outputs: Sequence[DeviceArray]
) -> list[np.ndarray]:
    with drv.DeviceMemory(max(plan.scratch_bytes, 1), device) as scratch:
        plan.run(device.default_stream.handle, *[each.address for each in operands], scratch=scratch.address)
        device.default_stream.synchronize()
    return [each.numpy_array() for each in outputs]


def _checked(
    device: drv.Device, reducer: Reducer, dims: tuple[int, ...], inputs: Sequence[Sequence[DeviceArray]]
) -> None:
    """Compare reductions of ``inputs``, of which each is one's, done together and one by one."""
    tasks, operands, outputs = [], [], []
    for members in inputs:
        shape = members[0].shape
        kept = [1 if dim in dims else size for dim, size in enumerate(shape)]
        own = [DeviceArray(device, np.zeros(kept, np.float32)) for _ in reducer.results]
        tasks.append(
            Task(
                reducer, shape, dims,
                tuple((each.strides, each.dtype) for each in own),
                tuple((each.strides, each.dtype) for each in members),
            )
        )  # fmt: skip
        operands.append([*own, *members])
        outputs.append(own)
    assert len({task.like() for task in tasks}) == 1
    assert 1 < len(tasks) <= reduction_groups.capacity(tasks[0])
    expected = [
        _results(device, task.alone(device), *each)
        for task, *each in zip(tasks, operands, outputs, strict=True)
    ]
    for each in (x for own in outputs for x in own):
        drv.copy_to_device(each.memory, np.full(each.memory.nbytes, 0xA5, np.uint8))
    plan = reduction_groups.plan(device, tasks)
    results = _results(
        device, plan, [x for each in operands for x in each], [x for own in outputs for x in own]
    )
    for one, other in zip(results, (x for own in expected for x in own), strict=True):
        assert np.array_equal(one, other)
        assert np.abs(one).max() > 0


def _normal(device: drv.Device, *shape: int, dtype: Any = np.float32, **layout: Any) -> DeviceArray:
    return DeviceArray(device, _RNG.standard_normal(shape).astype(dtype), **layout)


def test_columns_of_other_widths_and_heights(device: drv.Device) -> None:
    """Cut into chunks of their own numbers, which a second launch combines."""
    shapes = [(600, 128), (900, 256), (700, 136)]
    _checked(device, reducers.SUM, (0,), [[_normal(device, *shape)] for shape in shapes])


@pytest.mark.parametrize("length", [7, 300])
def test_rows(device: drv.Device, length: int) -> None:
    _checked(device, reducers.MAX, (1,), [[_normal(device, count, length)] for count in (3, 40, 11)])


def test_several_operands_and_results(device: drv.Device) -> None:
    def inputs(rows: int) -> list[DeviceArray]:
        statistics = [_normal(device, rows, 16, stretch=(1,)) for _ in range(2)]
        return [_normal(device, rows, 16), _normal(device, rows, 16), *statistics]

    _checked(device, WEIGHT_GRADIENTS, (0,), [inputs(18), inputs(20)])


def test_addresses_that_loads_of_packs_do_not_take(device: drv.Device) -> None:
    """All of them are launched alone then."""
    _checked(device, reducers.SUM, (0,), [[_normal(device, 40, 32)], [_normal(device, 40, 32, lead=1)]])


def test_what_is_not_alike(device: drv.Device) -> None:
    def task(reducer: Reducer, shape: tuple[int, int], **layout: Any) -> Task:
        array = _normal(device, *shape, **layout)
        return Task(reducer, shape, (0,), (((0, 1), array.dtype),), ((array.strides, array.dtype),))

    first = task(reducers.SUM, (40, 32))
    assert first.like() == task(reducers.SUM, (50, 32)).like()
    assert first.like() != task(reducers.MEAN, (40, 32)).like()
    assert first.like() != task(reducers.SUM, (40, 32), dtype=np.float64).like()
    assert first.like() != task(reducers.SUM, (40, 31)).like()
    # Numbers that are given at each launch are in no table.
    assert task(reducers.VAR, (40, 32)).like() is None

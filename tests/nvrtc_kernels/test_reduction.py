"""Reductions over any dimensions of any layout, against NumPy in double precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
from nvrtc_kernels import dtypes, reducers, reduction

from .device_arrays import DeviceArray

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nvrtc_kernels.reducers import Reducer


@pytest.fixture
def device(request: pytest.FixtureRequest) -> Iterator[drv.Device]:
    if request.config.getoption("--gpu"):
        yield drv.Device(0)
        return
    with drv.simulator.installed(check="full"):
        yield drv.Device(0)
        assert not list(drv.simulator.findings())


def reduced(
    device: drv.Device,
    reducer: Reducer,
    arrays: np.ndarray | Sequence[np.ndarray],
    dims: Sequence[int],
    outputs: Sequence[dtypes.dtype] = (dtypes.float32,),
    scalars: Sequence[float] = (),
    output_layout: dict[str, Any] | None = None,
    **layout: Any,
) -> list[np.ndarray]:
    """Results with the reduced dimensions kept."""
    arrays = [arrays] if isinstance(arrays, np.ndarray) else list(arrays)
    shape = arrays[0].shape
    given = [DeviceArray(device, array, **layout) for array in arrays]
    kept = [1 if dim in dims else size for dim, size in enumerate(shape)]
    wanted = [DeviceArray(device, np.zeros(kept, kind.numpy), **(output_layout or {})) for kind in outputs]
    plan = reduction.plan(
        device, reducer, shape, dims, [each.operand for each in wanted], [each.operand for each in given]
    )
    addresses = [each.address for each in (*wanted, *given)]
    stream = device.default_stream
    if plan.scratch_bytes:
        with drv.DeviceMemory(plan.scratch_bytes, device) as scratch:
            plan.run(stream.handle, *addresses, *scalars, scratch=scratch.address)
            stream.synchronize()
    else:
        plan.run(stream.handle, *addresses, *scalars)
        stream.synchronize()
    return [each.numpy_array() for each in wanted]


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def assert_sum(device: drv.Device, array: np.ndarray, dims: Sequence[int], **layout: Any) -> None:
    """The error is a few roundings of the sum of magnitudes."""
    (result,) = reduced(device, reducers.SUM, array, dims, **layout)
    exact = array.astype(np.float64)
    bound = 3e-7 * np.abs(exact).sum(tuple(dims), keepdims=True) + 1e-30
    assert (np.abs(result - exact.sum(tuple(dims), keepdims=True)) <= bound).all()


@pytest.mark.parametrize("length", [1, 2, 3, 5, 31, 32, 33, 255, 256, 257, 1023, 4099])
def test_rows_of_any_length(device: drv.Device, length: int) -> None:
    for rows, lead in ((1, 0), (7, 0), (70, 3)):
        assert_sum(device, normal(rows, length), [1], lead=lead)


@pytest.mark.parametrize("columns", [1, 2, 3, 8, 31, 33, 130])
def test_columns_of_any_length(device: drv.Device, columns: int) -> None:
    for length, lead in ((1, 0), (2, 0), (9, 1), (130, 0)):
        assert_sum(device, normal(length, columns), [0], lead=lead)


@pytest.mark.parametrize(
    ("shape", "dims"), [((100_003,), [0]), ((3, 40_000), [1]), ((20_000, 6), [0]), ((20_000, 7), [0])]
)
def test_few_long_rows_are_shared_by_blocks(
    device: drv.Device, shape: tuple[int, ...], dims: list[int]
) -> None:
    assert_sum(device, normal(*shape), dims)
    assert_sum(device, normal(*shape), dims, lead=1)

"""The simulated cuFFT: its signatures, work areas, streams and devices."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import drv
from drv import simulator
from drv.bindings.cufft import CUFFT_FORWARD, CUFFT_INVERSE, Cufft, cufftType
from drv.bindings.prototypes import prototypes
from drv.simulator.libraries.cufft import SimulatedCufft
from tests.drv.bindings.library_arrays import DeviceArray, cufft_library

C2C, R2C, C2R = cufftType.CUFFT_C2C, cufftType.CUFFT_R2C, cufftType.CUFFT_C2R


@pytest.mark.parametrize("name", list(prototypes(Cufft)))
def test_signatures_are_the_declared_ones(name: str) -> None:
    parameters = inspect.signature(getattr(SimulatedCufft, name)).parameters.values()
    assert [parameter.name for parameter in parameters][1:] == list(prototypes(Cufft)[name].parameters)
    assert {parameter.kind for parameter in parameters} == {inspect.Parameter.POSITIONAL_ONLY}


def packed(cufft: Cufft, n: tuple[int, ...], kind: cufftType, batch: int = 1) -> int:
    return cufft.cufftPlanMany(len(n), n, None, 1, 0, None, 1, 0, kind, batch)


def without_work_area(cufft: Cufft, n: tuple[int, ...], kind: cufftType, batch: int = 1) -> tuple[int, int]:
    plan = cufft.cufftCreate()
    cufft.cufftSetAutoAllocation(plan, 0)
    return plan, cufft.cufftMakePlanMany(plan, len(n), n, None, 1, 0, None, 1, 0, kind, batch)


def test_plans_need_a_context() -> None:
    with pytest.raises(drv.CudaError, match="CUFFT_INTERNAL_ERROR.*no context is current"):
        simulator.install().library("cufft").cufftCreate()


def test_work_areas_are_allocated_and_counted() -> None:
    simulator.install()
    cufft = cufft_library()
    before = drv.Device(0).memory_info().free
    plan = packed(cufft, (256, 256), C2C)
    size = cufft.cufftGetSize(plan)
    assert size >= 256 * 256 * 8
    assert before - drv.Device(0).memory_info().free >= size
    cufft.cufftDestroy(plan)
    assert drv.Device(0).memory_info().free == before


def test_a_callers_work_area_replaces_the_plans_own() -> None:
    simulator.install()
    cufft = cufft_library()
    before = drv.Device(0).memory_info().free
    plan = packed(cufft, (256,), C2C)
    with drv.DeviceMemory(cufft.cufftGetSize(plan)) as area:
        cufft.cufftSetWorkArea(plan, area.address)
        data = DeviceArray(np.zeros(256, np.complex64))
        cufft.cufftExecC2C(plan, data.address, data.address, CUFFT_FORWARD)
        raw = np.empty(area.nbytes, np.uint8)
        drv.copy_to_host(raw, area)
        assert raw.any()
        data.memory.free()
    assert drv.Device(0).memory_info().free == before
    cufft.cufftDestroy(plan)
    assert drv.Device(0).memory_info().free == before


def test_no_memory_for_a_work_area() -> None:
    runtime = simulator.install()
    cufft = cufft_library()
    runtime.driver.inject.out_of_memory_after(0)
    with pytest.raises(drv.OutOfMemoryError, match="CUFFT_ALLOC_FAILED.*CUDA_ERROR_OUT_OF_MEMORY"):
        packed(cufft, (64,), C2C)
    plan = cufft.cufftCreate()
    arguments = (plan, 1, (64,), None, 1, 0, None, 1, 0, C2C, 1)
    with pytest.raises(drv.OutOfMemoryError, match="CUFFT_ALLOC_FAILED"):
        cufft.cufftMakePlanMany(*arguments)
    runtime.driver.inject.clear()
    assert cufft.cufftMakePlanMany(*arguments) > 0


def test_an_execution_needs_a_work_area() -> None:
    simulator.install()
    cufft = cufft_library()
    plan, _ = without_work_area(cufft, (64,), C2C)
    data = DeviceArray(np.zeros(64, np.complex64))
    with pytest.raises(drv.CudaError, match="CUFFT_NO_WORKSPACE.*cufftSetWorkArea"):
        cufft.cufftExecC2C(plan, data.address, data.address, CUFFT_FORWARD)


def test_auto_allocation_is_chosen_before_the_plan_is_made() -> None:
    simulator.install()
    cufft = cufft_library()
    plan = packed(cufft, (8,), C2C)
    with pytest.raises(drv.InvalidHandleError, match="CUFFT_INVALID_PLAN: the plan is made already"):
        cufft.cufftSetAutoAllocation(plan, 0)


@pytest.mark.parametrize(
    ("n", "kind", "batch", "least", "most"),
    [
        ((1024,), C2C, 4, 1024 * 4 * 8, 1024 * 4 * 8),
        ((64, 64), R2C, 2, 64 * 33 * 2 * 8, 64 * 33 * 2 * 8 + 256),
        ((1009,), C2C, 1, 2 * 1009 * 8, 8 * 1024 * 8),
        ((1009,), cufftType.CUFFT_Z2Z, 1, 2 * 1009 * 16, 8 * 1024 * 16),
    ],
)
def test_sizes_of_work_areas(n: tuple[int, ...], kind: cufftType, batch: int, least: int, most: int) -> None:
    """Between one complex array and eight times the next power of two, as cuFFT's documentation says."""
    simulator.install()
    size = cufft_library().cufftEstimateMany(len(n), n, None, 1, 0, None, 1, 0, kind, batch)
    assert least <= size <= most
    assert size % 256 == 0


@pytest.mark.parametrize(("n", "destroyed"), [((16,), False), ((4, 6), True), ((2, 3, 4), True)])
def test_transforms_to_real_may_overwrite_their_input(n: tuple[int, ...], destroyed: bool) -> None:
    simulator.install()
    spectrum = np.fft.rfftn(np.random.default_rng(0).standard_normal((1, *n)), axes=range(1, len(n) + 1))
    source = DeviceArray(spectrum.astype(np.complex64))
    target = DeviceArray(np.zeros((1, *n), np.float32))
    cufft = cufft_library()
    cufft.cufftExecC2R(packed(cufft, n, C2R), source.address, target.address)
    assert (source.numpy() != spectrum.astype(np.complex64)).any() == destroyed


@pytest.mark.parametrize("shared", [True, False])
def test_a_work_area_of_two_streams_is_a_race(shared: bool) -> None:
    simulator.install(check="race")
    cufft = cufft_library()
    data = [DeviceArray(np.zeros(64, np.complex64)) for _ in range(2)]
    areas = [drv.DeviceMemory(4096) for _ in range(2)]
    drv.Device(0).synchronize()
    streams = [drv.Stream(drv.Device(0)) for _ in range(2)]
    for index, stream in enumerate(streams):
        plan, size = without_work_area(cufft, (64,), C2C)
        assert size <= 4096
        cufft.cufftSetWorkArea(plan, areas[0 if shared else index].address)
        cufft.cufftSetStream(plan, int(stream.handle))
        cufft.cufftExecC2C(plan, data[index].address, data[index].address, CUFFT_FORWARD)
    if shared:
        with pytest.raises(drv.DataRaceError, match="4096 bytes of device memory"):
            drv.Device(0).synchronize()
    else:
        drv.Device(0).synchronize()


def test_one_plan_on_two_streams_is_a_race_in_its_own_work_area() -> None:
    simulator.install(check="race")
    cufft = cufft_library()
    data = [DeviceArray(np.zeros(64, np.complex64)) for _ in range(2)]
    plan = packed(cufft, (64,), C2C)
    drv.Device(0).synchronize()
    streams = [drv.Stream(drv.Device(0)) for _ in range(2)]
    for item, stream in zip(data, streams, strict=True):
        cufft.cufftSetStream(plan, int(stream.handle))
        cufft.cufftExecC2C(plan, item.address, item.address, CUFFT_FORWARD)
    with pytest.raises(drv.DataRaceError, match="cufftExecC2C CUFFT_C2C 64"):
        drv.Device(0).synchronize()


def test_interleaved_batches_are_no_race() -> None:
    """Two streams transform the even and the odd columns of one matrix."""
    simulator.install(check="race")
    cufft = cufft_library()
    values = np.random.default_rng(0).standard_normal((8, 6)).astype(np.complex64)
    data = DeviceArray(values)
    drv.Device(0).synchronize()
    streams = [drv.Stream(drv.Device(0)) for _ in range(2)]
    for parity, stream in enumerate(streams):
        side = ((8,), 6, 2)
        plan = cufft.cufftPlanMany(1, (8,), *side, *side, C2C, 3)
        cufft.cufftSetStream(plan, int(stream.handle))
        address = data.address + 8 * parity
        cufft.cufftExecC2C(plan, address, address, CUFFT_INVERSE)
    result = data.numpy()
    np.testing.assert_allclose(result, np.fft.ifft(values, axis=0, norm="forward"), atol=1e-4)
    assert not drv.simulator.findings()


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_executions_are_asynchronous(schedule: str) -> None:
    simulator.install(schedule=schedule)
    cufft = cufft_library()
    values = np.arange(8, dtype=np.complex64)
    source, target = DeviceArray(values), DeviceArray(np.zeros_like(values))
    drv.Device(0).synchronize()
    stream, other = drv.Stream(drv.Device(0)), drv.Stream(drv.Device(0))
    plan = packed(cufft, (8,), C2C)
    cufft.cufftSetStream(plan, int(stream.handle))
    cufft.cufftExecC2C(plan, source.address, target.address, CUFFT_FORWARD)
    raw = np.empty(64, np.uint8)
    drv.copy_to_host(raw, target.memory, stream=other)
    other.synchronize()
    if schedule == "lazy":
        assert not raw.any()
    np.testing.assert_allclose(target.numpy(), np.fft.fft(values), atol=1e-5)


def test_a_plan_belongs_to_a_device() -> None:
    simulator.install(devices=2)
    cufft = cufft_library()
    data = DeviceArray(np.zeros(8, np.complex64))
    plan, empty = packed(cufft, (8,), C2C), cufft.cufftCreate()
    drv.Device(1).use()
    with pytest.raises(drv.CudaError, match="CUFFT_INVALID_DEVICE.*made on device 0"):
        cufft.cufftExecC2C(plan, data.address, data.address, CUFFT_FORWARD)
    with pytest.raises(drv.CudaError, match="CUFFT_INVALID_DEVICE.*device 1 is current"):
        cufft.cufftMakePlanMany(empty, 1, (8,), None, 1, 0, None, 1, 0, C2C, 1)


def test_layouts_that_cannot_be() -> None:
    simulator.install()
    cufft = cufft_library()
    for side in (((0,), 1, 8), ((8,), 0, 8), ((8,), 1, -1), ((), 1, 8)):
        with pytest.raises(drv.InvalidValueError, match="CUFFT_INVALID_VALUE: embed"):
            cufft.cufftPlanMany(1, (8,), (8,), 1, 8, *side, C2C, 2)


def test_half_precision_is_not_simulated() -> None:
    simulator.install()
    cufft = cufft_library()
    half = 6
    with pytest.raises(drv.NotSupportedError, match="CUFFT_NOT_SUPPORTED"):
        cufft.cufftXtMakePlanMany(cufft.cufftCreate(), 1, (8,), None, 1, 0, half, None, 1, 0, half, 1, half)


def test_stray_data_is_an_illegal_address() -> None:
    simulator.install()
    cufft = cufft_library()
    data = DeviceArray(np.zeros(8, np.complex64))
    plan = packed(cufft, (8,), C2C, batch=2)
    cufft.cufftExecC2C(plan, data.address, data.address, CUFFT_FORWARD)
    with pytest.raises(drv.IllegalAddressError, match="cufftExecC2C CUFFT_C2C 8 batch=2"):
        drv.Device(0).synchronize()

"""Faults on demand, as a user asks for them."""

from __future__ import annotations

import pytest
from cuda.bindings.driver import CUresult

import drv
from drv.bindings.cublas import cublasStatus_t
from nvrtc_kernels import RawKernel

pytestmark = pytest.mark.simulator_only

NOTHING = RawKernel('extern "C" __global__ void nothing() {}', "nothing")


def test_memory_runs_out_and_comes_back() -> None:
    with drv.simulator.installed():
        drv.simulator.inject().out_of_memory_after(1 << 20)
        held = drv.DeviceMemory(1 << 19)
        with pytest.raises(drv.OutOfMemoryError):
            drv.DeviceMemory(1 << 20)
        drv.simulator.inject().clear()
        assert drv.DeviceMemory(1 << 20).address != held.address


def test_a_launch_fails() -> None:
    with drv.simulator.installed():
        drv.simulator.inject().fail_launch(2, "nothing")
        NOTHING(1, 32, ())
        drv.Device(0).synchronize()
        NOTHING(1, 32, ())
        with pytest.raises(drv.LaunchError):
            drv.Device(0).synchronize()


def test_a_device_is_lost_and_the_other_goes_on() -> None:
    with drv.simulator.installed(devices=2):
        drv.simulator.inject().lose_device(0)
        with pytest.raises(drv.DeviceLostError):
            drv.DeviceMemory(16, drv.Device(0))
        drv.DeviceMemory(16, drv.Device(1))


def test_a_call_fails() -> None:
    with drv.simulator.installed():
        stream = drv.Stream()
        with drv.simulator.inject().recording() as calls:
            stream.synchronize()
            stream.record_event().synchronize()
        assert calls == [
            "cuStreamSynchronize",
            "cuEventCreate",
            "cuEventRecord",
            "cuEventSynchronize",
            "cuEventDestroy",
        ]
        drv.simulator.inject().fail_call(4, status=CUresult.CUDA_ERROR_NOT_SUPPORTED)
        stream.synchronize()
        with pytest.raises(
            drv.NotSupportedError, match=r"cuEventSynchronize failed: CUDA_ERROR_NOT_SUPPORTED"
        ):
            stream.record_event().synchronize()
        drv.simulator.inject().fail_call(2, "cuStreamSynchronize")
        stream.synchronize()
        stream.record_event()
        with pytest.raises(drv.CudaError, match="CUDA_ERROR_UNKNOWN") as caught:
            stream.synchronize()
        assert caught.value.call == "cuStreamSynchronize"
        with pytest.raises(ValueError, match="counted from 1"):
            drv.simulator.inject().fail_call(0)


def test_what_gives_back_does_so_although_it_fails() -> None:
    with drv.simulator.installed():
        memory = drv.DeviceMemory(1 << 20)
        before = drv.Device(0).memory_info().free
        drv.simulator.inject().fail_call(name="cuMemFree")
        with pytest.raises(drv.CudaError, match="cuMemFree"):
            memory.free()
        assert drv.Device(0).memory_info().free - before >= 1 << 20


def test_a_call_of_a_library_fails() -> None:
    with drv.simulator.installed():
        drv.Device(0).make_current()
        library = drv.runtime().library("cublas")
        with drv.simulator.inject().recording() as calls:
            library.cublasDestroy(library.cublasCreate())
        # What a library calls itself is not counted.
        assert calls == ["cublasCreate", "cublasDestroy"]
        drv.simulator.inject().fail_call()
        with pytest.raises(drv.CudaError, match="CUBLAS_STATUS_INTERNAL_ERROR") as caught:
            library.cublasCreate()
        assert caught.value.call == "cublasCreate()"
        status = cublasStatus_t.CUBLAS_STATUS_ALLOC_FAILED
        drv.simulator.inject().fail_call(status=status)
        with pytest.raises(drv.OutOfMemoryError, match=status.name):
            library.cublasCreate()
        plans = drv.runtime().library("cufft")
        # The status is not one of cuFFT's.
        drv.simulator.inject().fail_call(status=status)
        with pytest.raises(drv.CudaError, match="CUFFT_INTERNAL_ERROR"):
            plans.cufftCreate()


def test_faults_of_calls_that_nothing_runs() -> None:
    with drv.simulator.installed(execute="off"):
        inject = drv.simulator.inject()
        for _ in range(2):
            NOTHING(1, 32, ())
        inject.clear()
        inject.fail_launch(2, sticky=False)
        NOTHING(1, 32, ())
        with pytest.raises(drv.LaunchError):
            NOTHING(1, 32, ())
        inject.fail_call(name="cuLaunchKernel")
        with pytest.raises(drv.CudaError, match="CUDA_ERROR_UNKNOWN"):
            NOTHING(1, 32, ())

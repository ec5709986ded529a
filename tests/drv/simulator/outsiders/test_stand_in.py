"""Programs on ``cuda.bindings.driver`` on the simulated driver: ``drv.simulator.stand_in``."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver

import drv
from drv.simulator import stand_in

SAXPY = """
extern "C" __global__ void saxpy(float a, const float* x, float* y, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"""
RELEASED = driver.cuInit


def checked(answer: Any) -> Any:
    status, *results = answer
    assert status == driver.CUresult.CUDA_SUCCESS, status
    return results[0] if len(results) == 1 else tuple(results)


def saxpy(n: int) -> np.ndarray[Any, Any]:
    """A program as one writes it on the bindings, with no word of this project."""
    checked(driver.cuInit(0))
    device = checked(driver.cuDeviceGet(0))
    context = checked(driver.cuDevicePrimaryCtxRetain(device))
    checked(driver.cuCtxSetCurrent(context))
    ptx = drv.compile_program(SAXPY, "compute_90").image
    module = checked(driver.cuModuleLoadData(ptx))
    kernel = checked(driver.cuModuleGetFunction(module, b"saxpy"))
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    stream = checked(driver.cuStreamCreate(0))
    at_x, at_y = checked(driver.cuMemAlloc(x.nbytes)), checked(driver.cuMemAlloc(y.nbytes))
    checked(driver.cuMemcpyHtoDAsync(at_x, x.ctypes.data, x.nbytes, stream))
    checked(driver.cuMemcpyHtoDAsync(at_y, y.ctypes.data, y.nbytes, stream))
    arguments = [
        np.array([2], np.float32),
        np.array([int(at_x)], np.uint64),
        np.array([int(at_y)], np.uint64),
    ]
    arguments.append(np.array([n], np.uint64))
    table = np.array([each.ctypes.data for each in arguments], np.uint64)
    checked(driver.cuLaunchKernel(kernel, -(-n // 128), 1, 1, 128, 1, 1, 0, stream, table.ctypes.data, 0))
    checked(driver.cuMemcpyDtoHAsync(y.ctypes.data, at_y, y.nbytes, stream))
    checked(driver.cuStreamSynchronize(stream))
    checked(driver.cuMemFree(at_x))
    checked(driver.cuMemFree(at_y))
    checked(driver.cuModuleUnload(module))
    checked(driver.cuDevicePrimaryCtxRelease(device))
    return y


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_a_program_on_the_bindings(schedule: str) -> None:
    with stand_in(schedule=schedule, check="full") as standing_in:
        assert np.array_equal(saxpy(1000), np.arange(1000) * 2 + 1)
    assert not list(standing_in.findings)


def test_the_bindings_are_given_back() -> None:
    with stand_in():
        assert driver.cuInit is not RELEASED
    assert driver.cuInit is RELEASED
    assert not drv.is_initialized()
    # With all that the functions have that are not simulated.
    with stand_in() as standing_in:
        standing_in.close()
        assert driver.cuInit is RELEASED


def cuNewerThanThis(first: int) -> tuple[driver.CUresult, int, int]:
    """What a later version of the bindings may have.

    Returns
    -------
    CUresult
        The status.
    first : int
        One result.
    second : int
        Another.

    See Also
    --------
    cuInit
    """
    raise NotImplementedError


def test_functions_that_are_not_simulated_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "cuNewerThanThis", cuNewerThanThis, raising=False)
    with stand_in():
        checked(driver.cuInit(0))
        with pytest.warns(UserWarning, match=r"no cuNewerThanThis.*https://docs.nvidia.com/cuda/") as warned:
            answer = driver.cuNewerThanThis(0)
        assert answer == (driver.CUresult.CUDA_ERROR_NOT_SUPPORTED, None, None)
        assert warned[0].filename == __file__
        runtime = drv.runtime()
        # It is said once.
        assert runtime.driver.cuNewerThanThis(0) == answer
        with pytest.raises(drv.NotSupportedError, match="The simulated driver has no cuNewerThanThis: https"):
            runtime.check(answer, "cuNewerThanThis")


def test_a_finding_is_raised_at_the_end() -> None:
    def program() -> None:
        checked(driver.cuInit(0))
        checked(driver.cuCtxSetCurrent(checked(driver.cuDevicePrimaryCtxRetain(0))))
        memory = checked(driver.cuMemAlloc(64))
        for _ in range(2):
            stream = checked(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
            checked(driver.cuMemsetD8Async(memory, 1, 64, stream))

    with (
        pytest.raises(drv.DataRaceError, match="race: nothing orders fill of 64 bytes"),
        stand_in(check="race"),
    ):
        program()
    assert driver.cuInit is RELEASED
    # An error of the program's own goes first.
    with pytest.raises(KeyError), stand_in(check="race"):
        program()
        raise KeyError("the program's")


def test_our_own_code_is_on_the_same_driver() -> None:
    with stand_in(devices=3):
        assert checked(driver.cuDeviceGetCount()) == 3
        assert len(drv.runtime().devices) == 3
        memory = drv.DeviceMemory(64)
        checked(driver.cuMemsetD8(memory.address, 7, 64))
        result = np.zeros(64, np.uint8)
        drv.copy_to_host(result, memory)
        assert set(result) == {7}


def test_a_simulated_driver_in_use_is_taken() -> None:
    with drv.simulator.installed(devices=2) as runtime:
        with stand_in() as standing_in:
            assert standing_in.runtime is runtime
            assert checked(driver.cuDeviceGetCount()) == 2
        assert drv.runtime() is runtime
        with pytest.raises(drv.CudaError, match="already in use"):
            stand_in(devices=1)
        assert driver.cuInit is RELEASED


def test_one_at_a_time() -> None:
    with stand_in(), pytest.raises(drv.CudaError, match="stands in"):
        stand_in()
    with pytest.raises(drv.InvalidValueError, match="chek"):
        stand_in(chek="full")
    assert driver.cuInit is RELEASED


def test_for_the_rest_of_the_process() -> None:
    script = """
from cuda.bindings import driver
import drv
drv.simulator.stand_in(devices=2, check="race")
driver.cuInit(0)
driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
memory = driver.cuMemAlloc(64)[1]
for _ in range(2):
    driver.cuMemsetD8Async(memory, 1, 64, driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)[1])
driver.cuCtxSynchronize()
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert "DataRaceError" in run.stderr

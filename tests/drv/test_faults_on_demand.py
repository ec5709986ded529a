"""Faults on demand, as a user asks for them."""

from __future__ import annotations

import pytest

import drv
from nvrtc_kernels import RawKernel

pytestmark = pytest.mark.simulator_only

NOTHING = RawKernel('extern "C" __global__ void nothing() {}', "nothing")


def test_memory_runs_out_and_comes_back() -> None:
    with drv.simulator.installed():
        drv.simulator.inject().out_of_memory_after(1 << 20)
        kept = drv.DeviceMemory(1 << 19)
        with pytest.raises(drv.OutOfMemoryError):
            drv.DeviceMemory(1 << 20)
        drv.simulator.inject().clear()
        assert drv.DeviceMemory(1 << 20).address != kept.address


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

"""The whole floor in a handful of lines, in a fresh process, with no GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import numpy as np, drv
from nvrtc_kernels import RawKernel
drv.simulator.install(devices=2, schedule="lazy", check="race")
double = RawKernel("__global__ void twice(float* x) { x[blockIdx.x * 256 + threadIdx.x] *= 2; }", "twice")
here, there = drv.DeviceMemory(4096, drv.Device(0)), drv.DeviceMemory(4096, drv.Device(1))
one, two, result = drv.Stream(drv.Device(0)), drv.Stream(drv.Device(0)), np.zeros(1024, np.float32)
drv.copy_to_device(here, np.arange(1024, dtype=np.float32))
double(4, 256, (here,), stream=one)
two.wait_stream(one)
double(4, 256, (here,), stream=two)
drv.copy_peer(there, drv.Device(1), here, drv.Device(0), stream=two)
two.synchronize()
drv.copy_to_host(result, there)
assert (result == 4 * np.arange(1024)).all()
double(4, 256, (here,), stream=one)
double(4, 256, (here,), stream=two)
drv.Device(0).synchronize()
"""


@pytest.mark.simulator_only
def test_two_devices_two_streams_and_a_planted_race() -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=root, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert "drv.errors.DataRaceError" in done.stderr
    assert done.stderr.count("kernel 'twice'") >= 2
    assert '"<string>", line 16' in done.stderr
    assert "at twice.cu:1" in done.stderr
    assert '"<string>", line 17' in done.stderr

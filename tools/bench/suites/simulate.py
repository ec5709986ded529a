"""The simulated driver: launches per second, lane-instructions per second, the test suite's total."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import drv
from drv.compiler import architecture_of
from nvrtc_kernels import RawKernel
from tools.bench.measure import OURS, Row, host_time

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

POINTWISE = r"""
extern "C" __global__ void axpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"""

#: 64 dependent steps of two operations each, on values that stay near 1.
STRAIGHT = r"""
extern "C" __global__ void straight(float* out, float a, float b) {
    float x = 1.0f + threadIdx.x * 1e-3f, y = 1.0f - threadIdx.x * 1e-3f;
#pragma unroll
    for (int step = 0; step < 64; ++step) {
        x = %s;
        y = %s;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = x + y;
}
"""
MULTIPLY_ADD = STRAIGHT % ("x * a + y", "y * b - x")
FUSED = STRAIGHT % ("fmaf(x, a, y * 1e-3f)", "fmaf(y, b, x)")

BLOCKS, THREADS = 256, 256


def add_options(parser: argparse.ArgumentParser) -> None:
    """``--tests`` runs the whole test suite too."""
    parser.add_argument("--tests", action="store_true", help="also time the test suite (minutes)")


def rows(only: str, options: argparse.Namespace) -> Iterator[Row]:
    """Measure the rows whose name contains ``only``."""
    for check in ("on", "race", "full"):
        name = f"launch, 256-thread pointwise kernel, check={check}"
        if only in name:
            yield _launches(name, check)
    name = "launch with execute=off (host path alone)"
    if only in name:
        yield _host_path(name)
    for name, source, flags in (
        ("straight float code, multiply and add", MULTIPLY_ADD, ("-fmad=false",)),
        ("straight float code, fused multiply-add", FUSED, ()),
    ):
        if only in name:
            yield _lane_instructions(name, source, flags)
    if options.tests:
        yield _suite()


def _axpy(device: drv.Device) -> Any:
    """A call that launches the pointwise kernel on 256 elements."""
    function = RawKernel(POINTWISE, "axpy").function(device)
    launcher = drv.prepare(function, "fPPi")
    x, y = drv.DeviceMemory(4 * THREADS), drv.DeviceMemory(4 * THREADS)
    for memory in (x, y):
        drv.memset(memory, 0, THREADS, bits=32)
    stream = drv.Stream()
    # The objects stay referenced by the closure, as long as the call is.
    return lambda: launcher(1, 1, 1, THREADS, 1, 1, 0, stream.handle, 2.0, x.address, y.address, THREADS)


def _launches(name: str, check: str) -> Row:
    with drv.simulator.installed(check=check):
        nanoseconds = host_time(_axpy(drv.Device(0)))
    reach = 1000.0 if check == "on" else None
    return Row(name, "launches/s", {OURS: 1e9 / nanoseconds}, better="higher", reach=reach)


def _host_path(name: str) -> Row:
    with drv.simulator.installed(execute=False, check="off"):
        nanoseconds = host_time(_axpy(drv.Device(0)))
    return Row(name, "us", {OURS: nanoseconds / 1000})


def _lane_instructions(name: str, source: str, flags: tuple[str, ...]) -> Row:
    with drv.simulator.installed():
        device = drv.Device(0)
        kernel = RawKernel(source, "straight", flags)
        launcher = drv.prepare(kernel.function(device), "Pff")
        out = drv.DeviceMemory(4 * BLOCKS * THREADS)
        stream = drv.Stream()
        nanoseconds = host_time(
            lambda: launcher(BLOCKS, 1, 1, THREADS, 1, 1, 0, stream.handle, out.address, 0.5, 0.5), seconds=2
        )
        compiled = drv.compile_program(source, architecture_of(device), options=flags)
        per_lane = instructions(compiled.image.decode())
    rate = per_lane * BLOCKS * THREADS / nanoseconds * 1e9
    note = f"{per_lane} instructions x {BLOCKS * THREADS} threads"
    return Row(name, "lane-instructions/s", {OURS: rate}, better="higher", reach=1e8, note=note)


def instructions(ptx: str) -> int:
    """Instructions of a PTX text with one kernel and no branches: each is run once by every thread."""
    body = ptx[ptx.index("\n{") :]
    lines = (line.strip() for line in body.splitlines())
    return sum(line.endswith(";") and not line.startswith(".") for line in lines)


def _suite() -> Row:
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2"], check=False, capture_output=True, text=True
    )
    minutes = (time.perf_counter() - start) / 60
    note = done.stdout.strip().splitlines()[-1]
    return Row("the whole test suite, 2 processes", "min", {OURS: minutes}, reach=15.0, note=note)

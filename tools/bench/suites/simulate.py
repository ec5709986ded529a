"""The simulated driver: launches and lane-instructions per second, steps of training, the test suite's total."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from statistics import median
from typing import TYPE_CHECKING, Any

import drv
from drv.compiler import architecture_of
from drv.host import machine_code
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

#: Steps of training in a fresh process: prints the seconds to the end of the first, and those of each after it.
STEPS = """
from time import perf_counter
start = perf_counter()
import drv, nn, tensor
from nn import functional
from tools.bench.training_models import GPT
drv.simulator.install(native={native!r})
if {model!r} == "CNN":
    layers = nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)).cuda()
    x, y = tensor.randn(8, 3, 32, 32, device="cuda"), tensor.randint(0, 10, (8,), device="cuda")
else:
    model = GPT(layers=2, width=64, heads=4).cuda()
    x, y = (tensor.randint(0, 256, (4, 64), device="cuda") for _ in range(2))
optimizer = nn.optim.AdamW(model.parameters())
for _ in range({count}):
    optimizer.zero_grad()
    functional.cross_entropy(model(x).flatten(0, -2), y.flatten()).backward()
    optimizer.step()
    tensor.cuda.synchronize()
    print(perf_counter() - start)
    start = perf_counter()
"""
#: Steps after which every kernel that is worth it has been compiled, and seconds that the first step of a process and the
#: others should take.
WARM_STEPS, STEP_REACH = 60, {"CNN": (1.0, 0.05), "GPT": (2.0, 0.2)}


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
    engines = {"numpy": "off"} | ({"native code": "on"} if machine_code.available() else {})
    for name, source, flags, reach in (
        ("straight float code, multiply and add", MULTIPLY_ADD, ("-fmad=false",), 1e8),
        ("straight float code, fused multiply-add", FUSED, (), 3e8),
    ):
        for engine, native in engines.items():
            if only in f"{name}, {engine}":
                yield _lane_instructions(f"{name}, {engine}", source, flags, native, reach)
    for model in STEP_REACH:
        for engine, native in engines.items():
            name = f"training steps, small {model}, {engine}"
            if only in name:
                yield from _steps(name, model, "auto" if native == "on" else native)
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


def _steps(name: str, model: str, native: str) -> Iterator[Row]:
    """The first step of a process that knows every kernel, from its start on, and the others."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"GRAPHROOT_CACHE_DIR": folder}
        for count in (WARM_STEPS, 10):
            program = STEPS.format(native=native, model=model, count=count)
            done = subprocess.run(
                [sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment
            )
    first, *others = map(float, done.stdout.split())
    reach_first, reach = STEP_REACH[model]
    yield Row(f"{name}: first, with imports", "s", {OURS: first}, reach=reach_first)
    yield Row(f"{name}: later", "s", {OURS: median(others)}, reach=reach)


def _lane_instructions(name: str, source: str, flags: tuple[str, ...], native: str, reach: float) -> Row:
    with drv.simulator.installed(native=native):
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
    return Row(name, "lane-instructions/s", {OURS: rate}, better="higher", reach=reach, note=note)


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

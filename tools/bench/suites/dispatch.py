"""Host time of calls on tensors so small that the work does not matter.

With a GPU: on the device, against PyTorch's and CuPy's CUDA calls. Without: on a simulated device that runs
nothing (``execute=off``), against PyTorch's CPU calls; what is measured is the host path, through to the
driver's functions.
"""

from __future__ import annotations

import gc
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import drv
import nn
import tensor
from tools.bench.measure import OURS, Row, host_times, libraries, on_gpu, repeated

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

#: Elements of the operands.
SIZE = 8
#: Calls in one timed call, so that the timing loop costs nothing.
CALLS = 16
#: Operations of the long chain.
LONG = 1_000_000


def rows(only: str, options: argparse.Namespace) -> Iterator[Row]:
    """Measure the rows whose name contains ``only``."""
    gpu = on_gpu()
    if not gpu:
        drv.reset()
        drv.simulator.install(memory="8GiB", execute=False, check="off")
    peer_device = "cuda" if gpu else "cpu"
    factor = 1.5 if gpu else 3.0
    contenders = {
        name: (library, "cuda" if name == OURS else peer_device)
        for name, library in libraries(peer_device).items()
    }
    calls = {name: _calls(*contender) for name, contender in contenders.items()}
    for name in calls[OURS]:
        if only not in name:
            continue
        timed = {contender: repeated(each[name], CALLS) for contender, each in calls.items() if name in each}
        times = {contender: time / CALLS for contender, time in host_times(timed).items()}
        torch_time = next((time for contender, time in times.items() if contender.startswith("torch")), None)
        reach = None if torch_time is None else factor * torch_time
        yield Row(name, "ns", times, reach=reach)
    yield from _long_chain(only, contenders, factor)


def _long_chain(only: str, libraries: dict[str, tuple[Any, str]], factor: float) -> Iterator[Row]:
    """Time per node of a chain that is built, run backward and freed once."""
    names = {step: f"chain of {LONG:,}, {step}, per node" for step in ("recorded", "backward", "freed")}
    if not any(only in name for name in names.values()):
        return
    result = {name: _per_node(*library) for name, library in libraries.items()}
    for position, name in enumerate(names.values()):
        times = {contender: steps[position] for contender, steps in result.items()}
        torch_time = next((time for contender, time in times.items() if contender.startswith("torch")), None)
        reach = None if torch_time is None else factor * torch_time
        if only in name:
            yield Row(name, "ns", times, reach=reach)


def _per_node(lib: Any, device: str) -> tuple[float, float, float]:
    """Nanoseconds to record a node, to run it backward and to free it."""
    a, seed = lib.ones(SIZE, device=device), lib.ones(SIZE, device=device)
    x = lib.ones(SIZE, device=device, requires_grad=True)
    (x * a).backward(seed)
    enabled = gc.isenabled()
    gc.disable()
    try:
        start = perf_counter_ns()
        result = x
        for _ in range(LONG):
            result = result * a
        recorded = perf_counter_ns()
        result.backward(seed, retain_graph=True)
        run = perf_counter_ns()
        del result
        freed = perf_counter_ns()
    finally:
        if enabled:
            gc.enable()
    return (recorded - start) / LONG, (run - recorded) / LONG, (freed - run) / LONG


def _calls(lib: Any, device: str) -> dict[str, Callable[[], object]]:
    """The same calls of a library with PyTorch's names, on one of its devices."""
    a, b = lib.ones(SIZE, device=device), lib.ones(SIZE, device=device)
    matrix = lib.ones(3, 3, device=device)
    host = lib.ones(SIZE)
    calls: dict[str, Callable[[], object]] = {
        "empty(8)": lambda: lib.empty(SIZE, device=device),
        "zeros(8)": lambda: lib.zeros(SIZE, device=device),
        "full((8,), 2.0)": lambda: lib.full((SIZE,), 2.0, device=device),
        "arange(8)": lambda: lib.arange(SIZE, device=device),
        "empty_like(a)": lambda: lib.empty_like(a),
        "tensor([1.0, 2.0, 3.0])": lambda: lib.tensor([1.0, 2.0, 3.0]),
        "a.clone()": lambda: a.clone(),
        "a.copy_(b)": lambda: a.copy_(b),
        "a.to(float64)": lambda: a.to(lib.float64),
        "a.fill_(1.0)": lambda: a.fill_(1.0),
        "a.zero_()": lambda: a.zero_(),
        "to the device": lambda: host.to(device, copy=True),
        "a[1:]": lambda: a[1:],
        "matrix[1]": lambda: matrix[1],
        "matrix.t()": lambda: matrix.t(),
        "matrix.t().contiguous()": lambda: matrix.t().contiguous(),
        "a.view(2, 4)": lambda: a.view(2, 4),
        "a.shape": lambda: a.shape,
    }
    chained = lib.ones(SIZE, device=device, requires_grad=True)
    seed = lib.ones(SIZE, device=device)

    def chain() -> Any:
        result = chained
        for _ in range(10):
            result = result * a
        return result

    return (
        calls
        | {
            "a + b": lambda: a + b,
            "a * 2.0": lambda: a * 2.0,
            "a.add_(b)": lambda: a.add_(b),
            "a == b": lambda: a == b,
            "a.sum()": lambda: a.sum(),
            "matrix @ matrix": lambda: matrix @ matrix,
            "10 operations, recorded": chain,
            "10 operations, forward and backward": lambda: chain().backward(seed),
        }
        | _training(lib, nn if lib is tensor else lib.nn, device)
    )


def _training(lib: Any, modules: Any, device: str) -> dict[str, Callable[[], object]]:
    """A step of a layer, and one of an optimizer."""
    layer = modules.Linear(SIZE, SIZE, device=device)
    x, seed = lib.ones(2, SIZE, device=device), lib.ones(2, SIZE, device=device)
    parameters = [lib.ones(SIZE, device=device, requires_grad=True) for _ in range(100)]
    for each in parameters:
        each.grad = lib.ones(SIZE, device=device)
    optimizer = (modules.optim if lib is tensor else lib.optim).Adam(parameters)

    def step() -> None:
        layer.weight.grad = layer.bias.grad = None
        layer(x).backward(seed)

    return {
        "Linear, forward and backward": step,
        "Adam over 100 parameters": optimizer.step,
    } | _windows(lib, modules.functional, device)


def _windows(lib: Any, functional: Any, device: str) -> dict[str, Callable[[], object]]:
    """Convolution and pooling of small images, recorded."""
    image = lib.ones(2, 3, SIZE, SIZE, device=device, requires_grad=True)
    weight = lib.ones(4, 3, 3, 3, device=device, requires_grad=True)
    bias = lib.ones(4, device=device, requires_grad=True)
    seeds = [lib.ones(2, channels, size, size, device=device) for channels, size in ((4, 6), (3, 4))]

    def convolve() -> None:
        image.grad = weight.grad = bias.grad = None
        functional.conv2d(image, weight, bias).backward(seeds[0])

    def pool() -> None:
        image.grad = None
        functional.max_pool2d(image, 2).backward(seeds[1])

    return {
        "conv2d": lambda: functional.conv2d(image, weight, bias),
        "conv2d, forward and backward": convolve,
        "max_pool2d": lambda: functional.max_pool2d(image, 2),
        "max_pool2d, forward and backward": pool,
        "avg_pool2d": lambda: functional.avg_pool2d(image, 2),
    }

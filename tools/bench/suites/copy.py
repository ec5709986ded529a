"""Copies between the host and a device: from and to pinned and pageable memory, and beside work of the device.

With a GPU: against PyTorch and CuPy, and against the link's rate, which a large copy by the driver alone has; from
pinned memory timed by events, from pageable memory on the host, which waits for it. Without: the rows only run, on a
simulated device. The host's time per call is measured on small tensors, without a GPU on a simulated device that runs
nothing (``execute=off``).
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import drv
import tensor
from tools.bench.measure import OURS, Row, device_times, host_rows, host_times, libraries, on_gpu

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping

    Calls = dict[str, Callable[[], object]]

#: Bytes of a copy on a GPU and on a simulated one.
ON_GPU, SIMULATED = 1 << 28, 1 << 20
#: What is to be reached of the link's rate, and of full overlap.
REACH = 0.95
#: Side of the matrices whose products run beside copies.
SIDE = 4096
#: Calls in one timed call of the host's part, so that the timing loop costs nothing.
CALLS = 8

TO, FROM = "to the device", "to the host"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the suite."""
    parser.add_argument("--bytes", type=int, default=0, help="bytes of a copy")


def rows(only: str, options: argparse.Namespace) -> Iterator[Row]:
    """Measure the rows whose name contains ``only``."""
    gpu = on_gpu()
    if not gpu:
        drv.reset()
        drv.simulator.install(check="off")
    size = options.bytes or (ON_GPU if gpu else SIMULATED)
    # Without a GPU nobody else copies to a device.
    contenders = libraries("cuda") if gpu else {OURS: tensor}
    limits = _link_rates(size) if gpu else {}
    for direction in (TO, FROM):
        for pinned in (True, False):
            name = f"{'pinned' if pinned else 'pageable'}, {direction}"
            if only in name:
                yield _rate(name, contenders, direction, pinned, size, limits.get(direction))
    for direction in (TO, FROM):
        name = f"pinned, {direction}, beside products"
        if only in name:
            shares = {each: _overlap(library, direction, size) for each, library in contenders.items()}
            yield Row(
                name,
                "of full overlap",
                shares,
                better="higher",
                reach=REACH if gpu else None,
                note="" if gpu else "simulated",
            )
    if not gpu:
        drv.reset()
    yield from host_rows(only, libraries("cuda" if gpu else "cpu"), _small, CALLS)


def _rate(
    name: str, contenders: Mapping[str, Any], direction: str, pinned: bool, size: int, limit: float | None
) -> Row:
    calls = {each: _copy(library, direction, pinned, size) for each, library in contenders.items()}
    if limit is not None and importlib.util.find_spec("cupy"):
        calls["cupy"] = _copy_of_cupy(direction, pinned, size)
    if limit is not None and pinned:
        events = {each: contenders.get(each, tensor).cuda.Event for each in calls}
        times = device_times({each: (call, events[each]) for each, call in calls.items()})
    else:
        times = host_times({each: _waited(call) for each, call in calls.items()})
    rates = {each: size / time for each, time in times.items()}
    note = f"{rates[OURS] / limit:.0%} of the link" if limit else "simulated"
    reach = REACH * limit if limit is not None and pinned else None
    return Row(name, "GB/s", rates, better="higher", reach=reach, note=note)


def _waited(call: Callable[[], object]) -> Callable[[], None]:
    # The driver's wait is for the work of every library.
    device = drv.Device(0)

    def run() -> None:
        call()
        device.synchronize()

    return run


def _copy(lib: Any, direction: str, pinned: bool, size: int) -> Callable[[], object]:
    host = lib.empty(size, dtype=lib.uint8, pin_memory=pinned).fill_(1)
    device = lib.empty(size, dtype=lib.uint8, device="cuda").fill_(1)
    # Copies may be on another stream than this.
    lib.cuda.synchronize()
    if direction == TO:
        return lambda: device.copy_(host, non_blocking=pinned)
    return lambda: host.copy_(device, non_blocking=pinned)


def _copy_of_cupy(direction: str, pinned: bool, size: int) -> Callable[[], object]:
    import cupy
    import cupyx
    import numpy

    host = cupyx.empty_pinned(size, "uint8") if pinned else numpy.empty(size, "uint8")
    host[:] = 1
    device = cupy.ones(size, "uint8")
    if direction == TO:
        return lambda: device.set(host)
    return lambda: device.get(out=host, blocking=not pinned)


def _link_rates(size: int) -> dict[str, float]:
    """Bytes per nanosecond of copies by the driver alone, between pinned memory and a device."""
    stream = drv.Stream(drv.Device(0))
    with drv.PinnedMemory(size) as host, drv.DeviceMemory(size) as device:
        start, end = drv.Event(timing=True), drv.Event(timing=True)

        def rate(copy: Callable[[], None]) -> float:
            best = float("inf")
            for _ in range(9):
                start.record(stream)
                copy()
                end.record(stream)
                end.synchronize()
                best = min(best, start.elapsed_time(end) * 1e6)
            return size / best

        return {
            TO: rate(lambda: drv.copy_to_device(device, host, stream=stream)),
            FROM: rate(lambda: drv.copy_to_host(host, device, stream=stream)),
        }


def _overlap(lib: Any, direction: str, size: int) -> float:
    """Which share of the shorter one of a copy and products is hidden behind the other."""
    copy = _copy(lib, direction, True, size)
    side = SIDE if size >= ON_GPU else 64
    a = lib.ones(side, side, device="cuda")
    out = lib.empty(side, side, device="cuda")
    beside = lib.cuda.Stream()

    def copied() -> None:
        with lib.cuda.stream(beside):
            copy()

    def multiplied() -> None:
        for _ in range(count):
            lib.mm(a, a, out=out)

    def both() -> None:
        copied()
        multiplied()

    count = 1
    # As long as the copy, about.
    times = host_times({"copy": _waited(copied), "products": _waited(multiplied)}, seconds=0.2)
    count = max(1, round(times["copy"] / times["products"]))
    times = host_times(
        {"copy": _waited(copied), "products": _waited(multiplied), "both": _waited(both)}, seconds=1.0
    )
    hidden = times["copy"] + times["products"] - times["both"]
    return max(0.0, min(1.0, hidden / min(times["copy"], times["products"])))


def _small(lib: Any, device: str) -> Calls:
    host, there = lib.ones(8), lib.ones(8, device=device)
    calls: Calls = {
        "to(device)": lambda: host.to(device, copy=True),
        "copy_ to the device": lambda: there.copy_(host),
        "cpu()": lambda: there.to("cpu", copy=True),
        "item()": _item(lib, device),
    }
    if device == "cuda":
        pinned = lib.ones(8).pin_memory()
        calls |= {
            "pin_memory()": lambda: host.pin_memory(),
            "to(device, non_blocking), pinned": lambda: pinned.to(device, non_blocking=True),
            "copy_ to the device, non_blocking, pinned": lambda: there.copy_(pinned, non_blocking=True),
            "copy_ to the host, non_blocking, pinned": lambda: pinned.copy_(there, non_blocking=True),
        }
    return calls


def _item(lib: Any, device: str) -> Callable[[], object]:
    number = lib.ones((), device=device)
    return lambda: number.item()

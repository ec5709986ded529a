"""Peaks of memory at sizes where a copy too many is felt: what each work takes beyond what its inputs have.

Every figure is of a fresh interpreter, which does the same work on little first, so that what is loaded or compiled once
does not count. The host's is resident memory, as Linux tells it; a device's is what the allocator gave out.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tools.bench.interpreters import environment, figures, torch_module
from tools.bench.measure import OURS, Row, on_gpu
from tools.bench.suites.growth import available_memory

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

#: The peak should be at most this times PyTorch's, and ``SLACK`` bytes.
REACH, SLACK = 1.2, 16e6

_MEASURED = """
import gc
import {module} as lib

device = {device!r}

{work}

def resident(field):
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))

prepared({small})()
call = prepared({size})
gc.collect()
if device == "cuda":
    lib.cuda.reset_peak_memory_stats()
    before = lib.cuda.memory_allocated()
with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
    file.write("5")  # the peak is from here on
resting = resident("VmRSS")
result = call()
if device == "cuda":
    print(lib.cuda.max_memory_allocated() - before)
else:
    print(resident("VmHWM") - resting)
"""


class Peak(NamedTuple):
    """A work: code that defines ``prepared(size)``, which gives the call to measure, and bytes that a unit needs."""

    name: str
    size: int
    memory: int
    work: str


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the suite."""
    parser.add_argument(
        "--share",
        type=float,
        default=1.0,
        metavar="S",
        help="do each work at this share of its size (default: 1)",
    )


def rows(only: str, options: argparse.Namespace) -> Iterator[Row]:
    """Measure the rows whose name contains ``only``, but for those that do not fit into free memory.

    Raises
    ------
    OSError
        Where the system does not tell of resident memory as Linux does.
    """
    gpu = on_gpu()
    if not gpu and not Path("/proc/self/clear_refs").exists():
        raise OSError("peaks of memory on the host are read from /proc/self, which only Linux has")
    torch = torch_module(gpu)
    modules = {OURS: "tensor", **torch}
    with tempfile.TemporaryDirectory() as folder:
        variables = environment(Path(folder), gpu)
        for peak in PEAKS:
            size = int(peak.size * options.share)
            name = f"{size:,} {peak.name}"
            if only in name and size * peak.memory < available_memory() * 0.8:
                bytes_ = {
                    contender: _peak(peak, size, module, gpu, {**variables, "TMPDIR": folder})
                    for contender, module in modules.items()
                }
                reach = next((bytes_[contender] * REACH + SLACK for contender in torch), None)
                yield Row(name, "MB", _megabytes(bytes_), reach=None if reach is None else reach / 1e6)


def _peak(peak: Peak, size: int, module: str, gpu: bool, variables: Mapping[str, str]) -> float:
    """Bytes beyond those before the work."""
    small = min(size, 10_000)
    code = _MEASURED.format(
        module=module, device="cuda" if gpu else "cpu", work=peak.work, small=small, size=size
    )
    (bytes_,) = figures(code, variables)
    return bytes_


def _megabytes(values: Mapping[str, float]) -> dict[str, float]:
    return {name: value / 1e6 for name, value in values.items()}


_ELEMENTS = """
def prepared(size):
    x = lib.ones(size, device=device)
    return lambda: (x + 1.0).sum()
"""

_ELEMENTS_BACKWARD = """
def prepared(size):
    x = lib.ones(size, device=device, requires_grad=True)
    return lambda: (x * x).sum().backward()
"""

_PARAMETERS = """
def prepared(size):
    parameters = [lib.ones(4, device=device, requires_grad=True) for _ in range(size)]
    for parameter in parameters:
        parameter.grad = lib.ones(4, device=device)
    return lib.optim.Adam(parameters).step
"""

_LARGE_PARAMETERS = """
def prepared(size):
    parameters = [lib.ones(10**6, device=device, requires_grad=True) for _ in range(max(1, size // 10**6))]
    for parameter in parameters:
        parameter.grad = lib.ones(10**6, device=device)
    return lib.optim.Adam(parameters).step
"""

_TENSORS = """
def prepared(size):
    return lambda: [lib.ones(4, device=device) for _ in range(size)]
"""

_NODES = """
def prepared(size):
    leaf = lib.ones(1, device=device, requires_grad=True)

    def call():
        result = leaf
        for _ in range(size):
            result = result + 1.0
        result.backward()

    return call
"""

_SAVED = """
import os, tempfile

def prepared(size):
    state = {f"layer {index}": lib.ones(250_000, device=device) for index in range(max(1, size // 10**6))}

    def call():
        with tempfile.TemporaryDirectory() as folder:
            lib.save(state, os.path.join(folder, "checkpoint.pt"))

    return call
"""

_LOADED = """
import os, tempfile

def prepared(size):
    state = {f"layer {index}": lib.ones(250_000, device=device) for index in range(max(1, size // 10**6))}
    folder = tempfile.TemporaryDirectory()
    path = os.path.join(folder.name, "checkpoint.pt")
    lib.save(state, path)

    def call():
        # What was saved stays, so that none of its memory is used again.
        with folder:
            return state, lib.load(path)

    return call
"""

#: The sizes of the suite ``growth``.
PEAKS = (
    Peak("elements, added to and summed", 100_000_000, 12, _ELEMENTS),
    Peak("elements squared, and their gradient", 100_000_000, 20, _ELEMENTS_BACKWARD),
    Peak("parameters of 4 elements, a step of Adam", 10_000, 20_000, _PARAMETERS),
    Peak("elements in parameters of 10^6, a step of Adam", 100_000_000, 24, _LARGE_PARAMETERS),
    Peak("tensors of 4 elements", 100_000, 2_000, _TENSORS),
    Peak("nodes of a graph, run backward", 1_000_000, 2_000, _NODES),
    Peak("bytes of a checkpoint, saved", 2_000_000_000, 2, _SAVED),
    Peak("bytes of a checkpoint, loaded", 2_000_000_000, 3, _LOADED),
)

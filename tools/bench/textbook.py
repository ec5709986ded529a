"""The textbook series: what is published of kernels that differ in one thing, and the same kernels for the model.

Published figures are ratios of times to the first row of their series. ``within`` is the factor by which a modelled ratio
may be off; where the published figures are of a GPU of another generation, only the order is compared (``within`` is 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import drv
from drv.simulator.timing.recorder import recording

from .textbook_kernels import ACCESS, ARITHMETIC, PRODUCTS, REDUCTIONS, SHARING, TRANSPOSES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from drv.simulator.timing.records import TimedOperation

    Arguments = Callable[[Callable[[int], Any]], tuple[Any, ...]]

_N = 1 << 24
#: Loads of a chain: enough to go round several times where it stays in a cache.
_HOPS = 14_000


@dataclass(frozen=True, slots=True)
class Step:
    """A kernel of a series.

    Attributes
    ----------
    label : str
        What it does.
    kernel : str
        Its name.
    grid, block
        Of its launch.
    arguments : callable
        Gives its arguments from a function that allocates device memory of so many bytes, which holds zeros.
    published : float or None
        Time over that of the series' first step.
    """

    label: str
    kernel: str
    grid: Any
    block: Any
    arguments: Arguments
    published: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """Kernels that differ in one thing.

    Attributes
    ----------
    source : str
        Where the figures are published, and of which GPU.
    model : str
        The GPU that is modelled: the nearest one.
    within : float
        By which factor a modelled ratio may be off; 0 where only the order counts.
    whole : bool
        Whether all blocks run, as what they do depends on results.
    """

    name: str
    source: str
    model: str
    code: str
    steps: tuple[Step, ...]
    within: float = 0.0
    whole: bool = False


def modelled(series: Series) -> Iterator[tuple[Step, TimedOperation]]:
    """The steps of a series, with what the model says of each, on a simulated driver of its own."""
    with drv.simulator.installed(model=series.model, check="off") as runtime:
        major, minor = runtime.devices[0].compute_capability
        program = drv.compile_program(
            series.code, f"compute_{major}{minor}", name="textbook.cu", line_info=True
        )
        module = drv.Module(program.image)
        for step in series.steps:
            memory: list[Any] = []

            def allocate(nbytes: int, memory: list[Any] = memory) -> Any:
                memory.append(drv.DeviceMemory(nbytes))
                return memory[-1]

            arguments = step.arguments(allocate)
            with recording(runtime.driver, results=series.whole) as recorder:
                module.function(step.kernel).launch(step.grid, step.block, arguments)
                drv.Device(0).synchronize()
            yield step, recorder.operations[-1]
            memory.clear()


def _i(value: int) -> Any:
    return np.int32(value)


def _bank_arguments(ways: int) -> Arguments:
    return lambda new: (new(1 << 22), _i(ways), _i(200))


def _strided_arguments(stride: int) -> Arguments:
    return lambda new: (new(4 * _N * stride), new(4 * _N * stride), _i(stride))


def _strides() -> Iterator[Step]:
    for stride in (1, 2, 4, 8):
        yield Step(
            f"stride {stride}",
            "strided",
            _N // 256,
            256,
            _strided_arguments(stride),
            float(stride),
        )


def _transposes() -> Iterator[Step]:
    n = 4096
    for label, kernel, published in (
        ("copy", "copied", 1.0),
        ("transpose, naive", "naive", 136.0 / 55.3),
        ("through shared memory", "coalesced", 136.0 / 97.6),
        ("rows padded", "padded", 136.0 / 144.3),
    ):
        yield Step(
            label,
            kernel,
            (n // 32, n // 32),
            (32, 8),
            lambda new: (new(4 * n * n), new(4 * n * n), _i(n)),
            published,
        )


def _reduction_arguments(n: int, more: tuple[Any, ...]) -> Arguments:
    return lambda new: (new(4 * n), new(4 * n), *more)


def _reductions() -> Iterator[Step]:
    n, times = 1 << 22, (8.054, 3.456, 1.722, 0.965, 0.536, 0.381, 0.268)
    labels = (
        "interleaved, divergent",
        "interleaved, bank conflicts",
        "sequential addresses",
        "first add on loading",
        "last warp unrolled",
        "all unrolled",
        "several elements a thread",
    )
    for number, (label, time) in enumerate(zip(labels, times, strict=True), 1):
        blocks = n // 128 if number < 4 else n // 256
        more = (_i(n),) if number == 7 else ()
        yield Step(
            f"{number}: {label}",
            f"reduce_{number}",
            min(blocks, 1024) if number == 7 else blocks,
            128,
            _reduction_arguments(n, more),
            time / times[0],
        )


def _products() -> Iterator[Step]:
    n, rates = 4096, (309.0, 1986.5, 2980.3, 8474.7, 15971.7, 18237.3)
    kernels = (
        ("naive", "naive", 32, (32, 32)),
        ("coalesced", "coalesced", 32, (32, 32)),
        ("tiles in shared memory", "in_shared", 32, (32, 32)),
        ("8 elements a thread", "columns_in_registers", 64, (512,)),
        ("8 x 8 elements a thread", "tiles_in_registers", 128, (256,)),
        ("16-byte accesses", "vectorised", 128, (256,)),
    )
    for (label, kernel, tile, block), rate in zip(kernels, rates, strict=True):
        yield Step(
            label,
            kernel,
            (n // tile, n // tile),
            block,
            lambda new: (new(4 * n * n), new(4 * n * n), new(4 * n * n), _i(n)),
            rates[0] / rate,
        )


def _in_flight() -> Iterator[Step]:
    """Copies of one size by as many threads as a few multiprocessors' worth, which differ in the bytes of an access."""
    for label, kernel in (("4 bytes", "copy_4"), ("8 bytes", "copy_8"), ("16 bytes", "copy_16")):
        yield Step(
            label,
            kernel,
            132,
            64,
            lambda new: (new(4 * _N), new(4 * _N), _i(_N)),
            {"copy_4": 1.0, "copy_8": 0.5, "copy_16": 0.25}[kernel],
        )


def _chase(label: str, nbytes: int, published: float) -> Step:
    words = nbytes // 4
    return Step(
        label,
        "chase",
        1,
        1,
        lambda new: (new(nbytes), new(128), np.uint32(words - 1), np.uint32(64), _i(_HOPS)),
        published,
    )


SERIES = (
    Series(
        "stride of accesses",
        "CUDA C++ best practices guide, strided accesses: a stride of 2 words halves the efficiency, and so on",
        "h100",
        ACCESS,
        tuple(_strides()),
        1.1,
    ),
    Series(
        "offset of accesses",
        "CUDA C++ best practices guide, misaligned accesses, V100: five sectors a warp where four would do; 9/10 of the "
        "rate, as neighbours use the fifth",
        "h100",
        ACCESS,
        (
            Step(
                "aligned",
                "offset",
                _N // 256,
                256,
                lambda new: (new(4 * _N + 256), new(4 * _N + 256), _i(0)),
                1.0,
            ),
            Step(
                "off by 4 words",
                "offset",
                _N // 256,
                256,
                lambda new: (new(4 * _N + 256), new(4 * _N + 256), _i(4)),
                1.11,
            ),
        ),
        1.15,
    ),
    Series(
        "structure of arrays",
        "CUDA C++ best practices guide: of 32-byte structures a warp's load of one field takes 8 times the sectors; read "
        "and write together (32 + 4) / (4 + 4) bytes an element",
        "h100",
        ACCESS,
        (
            Step("arrays", "fields_apart", _N // 256, 256, lambda new: (new(4 * _N), new(4 * _N)), 1.0),
            Step(
                "structures", "fields_together", _N // 256, 256, lambda new: (new(32 * _N), new(4 * _N)), 4.5
            ),
        ),
        1.15,
    ),
    Series(
        "transposes",
        "M. Harris, An Efficient Matrix Transpose in CUDA C/C++, NVIDIA blog 2013: K20c, 136.0, 55.3, 97.6 and 144.3 GB/s",
        "h100",
        TRANSPOSES,
        tuple(_transposes()),
        2.0,
    ),
    Series(
        "seven reductions",
        "M. Harris, Optimizing Parallel Reduction in CUDA, 2007: G80, 2^22 elements, 8.054 ms to 0.268 ms",
        "h200",
        REDUCTIONS,
        tuple(_reductions()),
    ),
    Series(
        "products",
        "S. Boehm, How to Optimize a CUDA Matmul Kernel, 2022: A6000, 4096 square, 309 to 18,237 GFLOP/s",
        "rtx4090",
        PRODUCTS,
        tuple(_products()),
        2.2,
    ),
    Series(
        "bytes in flight",
        "Little's law, as in V. Volkov, Better Performance at Lower Occupancy, GTC 2010: where latency bounds a copy, "
        "bytes a thread count as threads do",
        "h100",
        ACCESS,
        tuple(_in_flight()),
        1.5,
    ),
    Series(
        "chains of loads",
        "Luo et al. 2024, H100: 40.7, 263 and 478.8 clocks a hop in level 1, level 2 and DRAM; 18 more for the index here",
        "h100",
        ACCESS,
        (
            _chase("in level 1", 1 << 14, 1.0),
            _chase("in level 2", 1 << 19, 281 / 58.7),
            _chase("in DRAM", 1 << 27, 496.8 / 58.7),
        ),
        1.3,
        whole=True,
    ),
    Series(
        "independent chains",
        "dependent multiply-adds take 4 clocks (Jia et al. 2018 and later): a warp a scheduler reaches 1/4, 2/4 and 4/4 "
        "of the rate with 1, 2 and 4 chains",
        "h100",
        ARITHMETIC,
        (
            Step("1 chain", "chains_1", 132, 128, lambda new: (new(1 << 20), _i(100)), 1.0),
            Step("2 chains", "chains_2", 132, 128, lambda new: (new(1 << 20), _i(100)), 1.0),
            Step("4 chains", "chains_4", 132, 128, lambda new: (new(1 << 20), _i(100)), 1.0),
        ),
        1.2,
    ),
    Series(
        "double precision",
        "CUDA C++ programming guide: capability 9.0 computes 64 double and 128 single results a clock",
        "h100",
        ARITHMETIC,
        (
            Step("float", "chains_4", 132 * 16, 256, lambda new: (new(1 << 22), _i(50)), 1.0),
            Step("double", "doubles", 132 * 16, 256, lambda new: (new(1 << 23), _i(50)), 2.0),
        ),
        1.2,
    ),
    Series(
        "double precision, consumer",
        "CUDA C++ programming guide: capability 8.9 computes 2 double and 128 single results a clock",
        "rtx4090",
        ARITHMETIC,
        (
            Step("float", "chains_4", 128 * 12, 256, lambda new: (new(1 << 22), _i(50)), 1.0),
            Step("double", "doubles", 128 * 12, 256, lambda new: (new(1 << 23), _i(50)), 64.0),
        ),
        1.2,
    ),
    Series(
        "special functions",
        "CUDA C++ programming guide: 16 results a clock, of multiply-adds 128",
        "h100",
        ARITHMETIC,
        (
            Step("multiply-adds", "chains_4", 132 * 16, 256, lambda new: (new(1 << 22), _i(50)), 1.0),
            Step("exponentials", "exponentials", 132 * 16, 256, lambda new: (new(1 << 22), _i(50)), 8.0),
        ),
        1.25,
    ),
    Series(
        "divergence",
        "CUDA C++ programming guide, SIMT: branches of a warp run one after the other",
        "h100",
        ARITHMETIC,
        (
            Step("warps branch as one", "together", 132 * 16, 256, lambda new: (new(1 << 22), _i(300)), 1.0),
            Step("halves of warps branch", "apart", 132 * 16, 256, lambda new: (new(1 << 22), _i(300)), 2.0),
        ),
        1.25,
    ),
    Series(
        "integer division",
        "CUDA C++ programming guide: division by a variable is up to 20 instructions",
        "h100",
        ARITHMETIC,
        (
            Step("shift", "shifts", 132 * 16, 256, lambda new: (new(1 << 22), new(1 << 22), _i(3)), 1.0),
            Step("division", "divides", 132 * 16, 256, lambda new: (new(1 << 22), new(1 << 22), _i(7)), None),
        ),
    ),
    Series(
        "bank conflicts",
        "CUDA C++ programming guide: n ways of a conflict take n turns",
        "h100",
        SHARING,
        tuple(
            Step(
                f"{ways} ways",
                "banks",
                132 * 8,
                256,
                _bank_arguments(ways),
                float(ways),
            )
            for ways in (1, 2, 4, 8, 16, 32)
        ),
        1.4,
    ),
    Series(
        "atomics",
        "GTC talks on Maxwell and later: one a clock on an address; spread over addresses, or combined in the warp, many",
        "h100",
        SHARING,
        (
            Step("one address", "count_one", 1 << 14, 256, lambda new: (new(1 << 20),), 1.0),
            Step("one a warp", "count_by_warp", 1 << 14, 256, lambda new: (new(1 << 20),), 1 / 32),
            Step("spread", "count_spread", 1 << 14, 256, lambda new: (new(1 << 24),), None),
        ),
        2.0,
    ),
    Series(
        "histograms",
        "N. Sakharnykh, Fast Histograms Using Shared Atomics on Maxwell, NVIDIA blog 2015: shared copies win, most where "
        "all elements are in one bin",
        "h100",
        SHARING,
        (
            Step(
                "in global memory",
                "histogram_global",
                264,
                256,
                lambda new: (new(1 << 20), new(1024), _i(1 << 20)),
                1.0,
            ),
            Step(
                "copies in shared memory",
                "histogram_shared",
                264,
                256,
                lambda new: (new(1 << 20), new(1024), _i(1 << 20)),
                None,
            ),
        ),
        whole=True,
    ),
    Series(
        "scans",
        "M. Harris et al., GPU Gems 3, chapter 39: padding removes the conflicts of the tree",
        "h200",
        SHARING,
        (
            Step(
                "tree", "scan_tree", 1 << 13, 256, lambda new: (new(4 * 512 << 13), new(4 * 512 << 13)), 1.0
            ),
            Step(
                "tree, padded",
                "scan_padded",
                1 << 13,
                256,
                lambda new: (new(4 * 512 << 13), new(4 * 512 << 13)),
                None,
            ),
        ),
    ),
    Series(
        "stencils",
        "CUDA introductions: shared memory loads each element once, where the caches do not do it anyway",
        "h200",
        SHARING,
        (
            Step(
                "from global memory",
                "stencil_global",
                1 << 15,
                256,
                lambda new: (new((4 * 256 << 15) + 128), new((4 * 256 << 15) + 128)),
                1.0,
            ),
            Step(
                "from shared memory",
                "stencil_shared",
                1 << 15,
                256,
                lambda new: (new((4 * 256 << 15) + 128), new((4 * 256 << 15) + 128)),
                None,
            ),
        ),
    ),
    Series(
        "waves",
        "NVIDIA, Matrix Multiplication Background, wave quantization: one block more than fits takes a further turn",
        "h100",
        ARITHMETIC,
        (
            Step("264 blocks of 1024", "waits", 132 * 2, 1024, lambda new: (new(4096), _i(3000)), 1.0),
            Step("265 blocks", "waits", 132 * 2 + 1, 1024, lambda new: (new(4096), _i(3000)), 1.5),
        ),
        1.1,
    ),
)

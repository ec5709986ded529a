"""How long copies, fills and library calls take.

Products follow NVIDIA's guide "Matrix Multiplication Background": a product is cut into tiles of 128 by 128 (or smaller
where that leaves multiprocessors idle), tiles run in waves, and a tile reaches a share of the peak that grows with its
inner length. The shares at large sizes are those that cuBLAS reaches in published measurements.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from drv.simulator.work.simulated_library import CommunicationCost, ProductCost

if TYPE_CHECKING:
    from drv.simulator.work.simulated_library import LibraryCost, TransformCost

    from .figures import Figures, PipeRates

#: Dense peak on tensor cores (or, for f32, on the FMA pipe) in 10^12 operations per second: NVIDIA's data sheets.
PEAK: dict[str, dict[str, float]] = {
    "NVIDIA H200": {"f16": 989.4, "bf16": 989.4, "tf32": 494.7, "f32": 66.9, "f64": 66.9, "s8": 1978.9},
    "NVIDIA H100 80GB HBM3": {"f16": 989.4, "bf16": 989.4, "tf32": 494.7, "f32": 66.9, "f64": 66.9, "s8": 1978.9},
    "NVIDIA A100-SXM4-80GB": {"f16": 312, "bf16": 312, "tf32": 156, "f32": 19.5, "f64": 19.5, "s8": 624},
    "Tesla V100-SXM2-16GB": {"f16": 125, "bf16": 15.7, "tf32": 15.7, "f32": 15.7, "f64": 7.8, "s8": 62.8},
    "Tesla V100-SXM2-32GB": {"f16": 125, "bf16": 15.7, "tf32": 15.7, "f32": 15.7, "f64": 7.8, "s8": 62.8},
    "NVIDIA L4": {"f16": 121, "bf16": 121, "tf32": 60, "f32": 30.3, "f64": 0.49, "s8": 242},
    "Tesla T4": {"f16": 65, "bf16": 8.1, "tf32": 8.1, "f32": 8.1, "f64": 0.25, "s8": 130},
    "NVIDIA GeForce RTX 4090": {"f16": 165.2, "bf16": 165.2, "tf32": 82.6, "f32": 82.6, "f64": 1.3, "s8": 330.3},
}  # fmt: skip
#: Share of the peak that cuBLAS reaches for large square products. Tensor cores: about 0.73 on H100 (700 to 750 of 989 at
#: its power limit), 0.85 on A100 (published cuBLAS and CUTLASS results); FMA pipe: 0.9 (23.2 of about 25 TFLOP/s on an
#: A6000 at its clock, S. Boehm's worklog).
_TENSOR_REACH = {9: 0.73, 8: 0.85, 7: 0.75}
_FMA_REACH = 0.9
#: Inner length at which a tile reaches half of that: a prologue and epilogue of about 64 steps each (assumption).
_HALF_DEPTH = 128
_TILES = ((256, 128), (128, 128), (128, 64), (64, 64), (32, 32))
#: A tile's share of the large tile's speed, as it reuses less of what it reads (the guide names the effect; figures by
#: the ratio of reads to multiply-adds, an assumption).
_TILE_SPEED = {(256, 128): 1.0, (128, 128): 0.95, (128, 64): 0.8, (64, 64): 0.65, (32, 32): 0.35}
#: Elements of a transform that one pass over memory does: what shared memory holds (cuFFT's kernels, by its documentation
#: of powers of 2, 3, 5 and 7 up to 8192 in one kernel).
_PASS_ELEMENTS = 8192
#: Share of the memory rate that cuFFT's kernels reach (assumption).
_TRANSFORM_REACH = 0.8
#: Seconds that a copy takes beside its bytes: the engine's start (published bandwidthTest results of small copies:
#: about 2 us for pinned memory from queue to end); pageable memory is staged at about a third of the link's rate.
_COPY_START = 1.5e-6
_PAGEABLE = 0.35


def product_seconds(
    cost: ProductCost, figures: Figures, multiprocessors: int, capability: tuple[int, int]
) -> tuple[float, str]:
    """Time of a matrix product, and what bounds it."""
    complex_factor = 4 if cost.unit.startswith("c") else 1
    unit = cost.unit.removeprefix("c")
    peak = PEAK[figures.name].get(unit, PEAK[figures.name]["f32"]) * 1e12
    peak *= multiprocessors / figures.model.multiprocessors
    tensor = unit != "f32" and not (unit == "f64" and capability[0] < 8)
    reach = _TENSOR_REACH.get(capability[0], 0.75) if tensor else _FMA_REACH
    depth = cost.k / (cost.k + _HALF_DEPTH) if cost.k else 1.0
    per_multiprocessor = peak * reach * depth / multiprocessors
    best = math.inf
    for rows, columns in _TILES:
        tiles = -(-cost.m // rows) * -(-cost.n // columns) * cost.batch
        waves = -(-tiles // multiprocessors)
        flops = 2.0 * rows * columns * max(cost.k, 1) * complex_factor
        # Tiles along the inner length share a product that leaves multiprocessors idle (split-k), up to 8 of them.
        split = min(max(multiprocessors // max(tiles, 1), 1), 8, max(cost.k // 256, 1))
        seconds = waves * flops / split / (per_multiprocessor * _TILE_SPEED[rows, columns])
        best = min(best, seconds)
    memory = cost.bytes_moved / (figures.dram_bandwidth * figures.dram_reach)
    if cost.bytes_moved < figures.l2_bytes / 2:
        memory = cost.bytes_moved / figures.l2_bandwidth
    bound = "DRAM" if memory > best else "tensor pipe" if tensor else "fma pipe"
    return max(best, memory) + figures.kernel_overhead, bound


def transform_seconds(cost: TransformCost, figures: Figures) -> tuple[float, str]:
    """Time of Fourier transforms, and what bounds it: passes over memory."""
    passes = 0
    for size in cost.sizes:
        passes += max(1, math.ceil(math.log(max(size, 2)) / math.log(_PASS_ELEMENTS)))
    if math.prod(cost.sizes) <= _PASS_ELEMENTS:
        passes = 1
    rate = figures.dram_bandwidth * figures.dram_reach * _TRANSFORM_REACH
    if cost.bytes_moved < figures.l2_bytes / 2:
        rate = figures.l2_bandwidth * _TRANSFORM_REACH
    return passes * (cost.bytes_moved / rate + figures.kernel_overhead), "DRAM"


def library_seconds(
    cost: LibraryCost | None,
    bytes_moved: int,
    figures: Figures,
    multiprocessors: int,
    capability: tuple[int, int],
) -> tuple[float, str]:
    """Time of a library call that is ``cost``, or, where that is not known, moves ``bytes_moved`` through memory."""
    if isinstance(cost, ProductCost):
        return product_seconds(cost, figures, multiprocessors, capability)
    if isinstance(cost, CommunicationCost):
        return cost.seconds, "network"
    if cost is not None:
        return transform_seconds(cost, figures)
    return memory_seconds(bytes_moved, figures) + figures.kernel_overhead, "DRAM"


def memory_seconds(bytes_moved: int, figures: Figures) -> float:
    """Time in which DRAM, or level 2 for what fits there, moves bytes, read and written together."""
    if bytes_moved < figures.l2_bytes / 2:
        return bytes_moved / figures.l2_bandwidth
    return bytes_moved / (figures.dram_bandwidth * figures.dram_reach)


def copy_seconds(nbytes: int, direction: str, figures: Figures) -> float:
    """Time of a copy of ``nbytes``.

    ``direction`` is ``device``, ``peer``, ``host`` (pinned) or ``pageable``.
    """
    if direction == "device":
        return memory_seconds(2 * nbytes, figures) + figures.kernel_overhead
    rate = figures.peer_link if direction == "peer" else figures.host_link
    if direction == "pageable":
        rate *= _PAGEABLE
    return nbytes / rate + _COPY_START


def rates_text(rates: PipeRates) -> str:
    """The rates in a line, for documentation and reports."""
    return ", ".join(f"{name} {getattr(rates, name):g}" for name in rates.__slots__)

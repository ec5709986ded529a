"""What the model of time knows of a GPU, beside its data sheet: latencies, rates of pipes and caches, costs of calls.

Each constant has its source beside it. Short names of the sources:

- *guide*: NVIDIA, CUDA C++ programming guide, "Arithmetic instructions" (results per clock and multiprocessor) and
  "Compute capabilities".
- *data sheet*: NVIDIA's data sheet of the product. *whitepaper*: NVIDIA's architecture paper of the generation.
- *Luo 2024*: Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture", arXiv:2402.13499 (RTX 4090,
  A100 and H100 by pointer chase and bandwidth loops).
- *Jia 2018*: Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", arXiv:1804.06826.
- *Jia 2019*: Jia et al., "Dissecting the NVidia Turing T4 GPU via Microbenchmarking", arXiv:1903.07486.
- *Volkov 2016*: Volkov, "Understanding Latency Hiding on GPUs", UC Berkeley EECS-2016-143.

What no source states, and is an assumption of this model, says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from drv.simulator.device_models import MODELS

from .machine_code.instructions import MMA_SYNC_REACH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from drv.simulator.device_models import DeviceModel

WARP = 32
SECTOR = 32
LINE = 128
#: Banks of shared memory, 4 bytes each, that answer in one clock (guide, all capabilities from 5.0 on).
BANKS = 32
#: Schedulers of a multiprocessor, each of which issues one warp instruction per clock (whitepapers, Volta to Hopper).
SCHEDULERS = 4

_KIB = 1 << 10


@dataclass(frozen=True, slots=True)
class PipeRates:
    """Lanes that a multiprocessor computes per clock, by pipe. Source: *guide*, unless said otherwise.

    Attributes
    ----------
    fma
        32-bit floating point add, multiply, multiply-add.
    alu
        32-bit integer add, compare, minimum, logic; ``int_mul``: integer multiplications.
    half
        16-bit floating point, instructions of one register (two elements).
    double
        64-bit floating point.
    special
        Reciprocal, square root, logarithm, exponential, sine.
    conversion
        Conversions between types of 32 bits and less; ``wide_conversion`` from and to 64 bits.
    shuffle
        Warp shuffles and votes.
    tensor
        Multiply-adds of 16-bit floating point per clock on tensor cores, through ``mma.sync``.
    load_store
        Addresses of loads and stores of global memory (whitepapers: 32 units in Volta, A100 and H100, 16 in Turing,
        GA10x and Ada). Shared memory answers 32 lanes per clock on all of them.
    """

    fma: float
    alu: float
    int_mul: float
    half: float
    double: float
    special: float
    conversion: float
    wide_conversion: float
    shuffle: float
    tensor: float
    load_store: float


#: By compute capability. Tensor: whitepapers give multiply-adds per clock and multiprocessor of the dense product
#: (Turing 512, A100 1024, Ada 512, Hopper 2048). On Hopper they hold for ``wgmma``; ``mma.sync`` reaches 62 % of that
#: (*Luo 2024*, table of tensor core throughput).
PIPES: Mapping[tuple[int, int], PipeRates] = {
    (7, 0): PipeRates(64, 64, 64, 64, 32, 16, 16, 16, 32, 512, 32),
    (7, 5): PipeRates(64, 64, 64, 64, 2, 16, 16, 2, 32, 512, 16),
    (8, 0): PipeRates(64, 64, 64, 128, 32, 16, 16, 16, 32, 1024, 32),
    (8, 6): PipeRates(128, 64, 64, 64, 2, 16, 16, 2, 32, 512, 16),
    (8, 9): PipeRates(128, 64, 64, 64, 2, 16, 16, 2, 32, 512, 16),
    (9, 0): PipeRates(128, 64, 64, 128, 64, 16, 64, 16, 32, 2048 * MMA_SYNC_REACH, 32),
}


@dataclass(frozen=True, slots=True)
class Figures:
    """A GPU as the model sees it. Latencies are in clocks of the multiprocessor, rates in bytes per second.

    Attributes
    ----------
    name : str
        As reports name it.
    clock : float
        Hz.
    dram_bandwidth, dram_reach
        Published bytes per second, and the share of it that a plain copy of large arrays reaches.
    l2_bytes, l2_bandwidth
        Size, and bytes per second of all multiprocessors together.
    l1_bytes
        Level-1 cache and shared memory of a multiprocessor together.
    l1_latency, l2_latency, dram_latency, shared_latency
        Clocks from a load to its value.
    fill_bytes
        Bytes per clock that a multiprocessor takes from the level-2 cache.
    dram_bytes, transfer sizes
        Bytes that one access to DRAM moves at least.
    host_link, peer_link
        Bytes per second in one direction: to the host, and to another GPU.
    launch_latency
        Seconds from the call to the start of a kernel on an idle stream.
    kernel_overhead
        Seconds that an empty kernel takes on the device, one behind another.
    """

    name: str
    model: DeviceModel
    clock: float
    dram_bandwidth: float
    dram_reach: float
    l2_bytes: int
    l2_bandwidth: float
    l1_bytes: int
    l1_latency: float
    l2_latency: float
    dram_latency: float
    shared_latency: float
    fill_bytes: float
    host_link: float
    peer_link: float
    launch_latency: float
    kernel_overhead: float


#: Share of the published memory rate that a copy of large arrays reaches. H100: 90 to 93 % in published STREAM-like
#: tests (BabelStream results by Deakin et al. for HBM GPUs); V100: 785 of 900 GB/s by a copy
#: kernel (github.com/AnjaliSandip/FastIceFlo, output/EffectiveMemoryThroughput.md); T4: 220 of 320 GB/s copy, 78 % read
#: (*Jia 2019*: 220/320); GDDR6X and L4: 90 % is an assumption.
_REACH = {
    "h200": 0.92,
    "h100": 0.92,
    "a100": 0.90,
    "v100": 0.87,
    "l4": 0.88,
    "t4": 0.75,
    "rtx4090": 0.91,
}
#: Level-1 and shared memory of a multiprocessor (guide, "Compute capabilities").
_L1 = {
    "h200": 256 * _KIB,
    "h100": 256 * _KIB,
    "a100": 192 * _KIB,
    "v100": 128 * _KIB,
    "l4": 128 * _KIB,
    "t4": 96 * _KIB,
    "rtx4090": 128 * _KIB,
}
#: Latencies in clocks: level 1, level 2, DRAM, shared. *Luo 2024*, table of memory latencies (RTX 4090, A100, H100) and
#: *Jia 2019* (T4), *Jia 2018* (V100, whose DRAM is taken as the T4's); the L4 is taken as the RTX 4090, of the same
#: generation, and the H200 as the H100.
_LATENCY = {
    "h200": (40.7, 263.0, 478.8, 29.0),
    "h100": (40.7, 263.0, 478.8, 29.0),
    "a100": (37.9, 261.5, 466.3, 29.0),
    "v100": (28.0, 193.0, 434.0, 19.0),
    "l4": (43.4, 273.0, 541.5, 30.1),
    "t4": (32.0, 188.0, 434.0, 19.0),
    "rtx4090": (43.4, 273.0, 541.5, 30.1),
}
#: Bytes per clock of the whole level-2 cache. A100: 5120 (whitepaper); Hopper the same by assumption, as published
#: measurements of 5.5 to 7 TB/s bear out; V100: 2155 GB/s at 1.38 GHz (*Jia 2018*); T4:
#: 1.27 TB/s (*Jia 2019*); RTX 4090: 5 TB/s measured, L4 by its slices.
_L2_PER_CLOCK = {
    "h200": 3400,
    "h100": 3400,
    "a100": 3400,
    "v100": 1560,
    "l4": 1000,
    "t4": 800,
    "rtx4090": 2000,
}
#: PCI Express: 16 lanes of generation 5 (H100, H200), 4 (A100, L4, RTX 4090), 3 (V100, T4), at the 85 % of the raw rate that
#: copies of pinned memory reach (assumption, by the bandwidthTest sample's usual results: 55, 25 and 12.5 GB/s).
_HOST = {
    "h200": 55e9,
    "h100": 55e9,
    "a100": 25e9,
    "v100": 12.5e9,
    "l4": 25e9,
    "t4": 12.5e9,
    "rtx4090": 25e9,
}
#: One direction of NVLink (data sheets: 900, 600 and 300 GB/s in both directions), at 80 %; else PCI Express.
_PEER = {
    "h200": 360e9,
    "h100": 360e9,
    "a100": 240e9,
    "v100": 120e9,
    "l4": 20e9,
    "t4": 10e9,
    "rtx4090": 20e9,
}
#: Bytes per clock between the level-2 cache and a multiprocessor (Volta to Hopper: 64, whitepapers).
_FILL = 64.0
#: An empty kernel behind another on the same stream takes about 1.2 us of device time on recent GPUs, and a launch on
#: an idle stream starts about 4 us after the call: assumptions, from published nsys traces of empty kernels.
_KERNEL_OVERHEAD = 1.2e-6
_LAUNCH_LATENCY = 4.0e-6


def _figures(key: str) -> Figures:
    model = MODELS[key]
    clock = model.clock_khz * 1e3
    # GPUs that differ in memory alone, as v100 and v100-32gb do, have the same figures.
    gpu = key.partition("-")[0]
    l1, l2, dram, shared = _LATENCY[gpu]
    return Figures(
        name=model.name,
        model=model,
        clock=clock,
        dram_bandwidth=float(model.bandwidth),
        dram_reach=_REACH[gpu],
        l2_bytes=model.l2_bytes,
        l2_bandwidth=_L2_PER_CLOCK[gpu] * clock,
        l1_bytes=_L1[gpu],
        l1_latency=l1,
        l2_latency=l2,
        dram_latency=dram,
        shared_latency=shared,
        fill_bytes=_FILL,
        host_link=_HOST[gpu],
        peer_link=_PEER[gpu],
        launch_latency=_LAUNCH_LATENCY,
        kernel_overhead=_KERNEL_OVERHEAD,
    )


FIGURES: Mapping[str, Figures] = {key: _figures(key) for key in MODELS}
#: What stands for a device without a model, as its clocks and cache do in the table of attributes.
DEFAULT = "h100"


def figures_of(model: DeviceModel | None) -> Figures:
    """The figures of a device that stands for ``model``, or for none in particular."""
    for figures in FIGURES.values():
        if figures.model is model:
            return figures
    return FIGURES[DEFAULT]


def pipe_rates(capability: tuple[int, int]) -> PipeRates:
    """Rates of the pipes of a capability, or of the closest older one that is known."""
    older = [known for known in PIPES if known <= capability]
    return PIPES[max(older, default=min(PIPES))]

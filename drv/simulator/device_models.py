"""GPUs that a simulated device can stand for: ``model=h200`` in ``GRAPHROOT_SIMULATOR`` and ``install(...)``.

The figures are those that NVIDIA publishes in data sheets and architecture papers; the clock is the boost clock. NVRTC compiles
nothing for the V100 any more (capability 7.0): one that is simulated runs code of the next capability, whose instructions nearly
are its own, on the multiprocessors that a V100 has.
"""

from __future__ import annotations

from dataclasses import dataclass

_GIB = 1 << 30
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """What a GPU is, beside the limits of its compute capability.

    Attributes
    ----------
    name : str
        As ``cuDeviceGetName`` gives it.
    capability : tuple of int
        Compute capability that programs are told, and whose code runs.
    multiprocessors : int
        Number of them.
    memory : int
        Bytes.
    bandwidth : int
        Bytes of memory per second, read and written together.
    bus_bits : int
        Width of the memory interface.
    l2_bytes : int
        Size of the second-level cache.
    clock_khz : int
        Clock of the multiprocessors.
    double_ratio : int
        How many single precision operations are done in the time of one of double precision.
    hardware : tuple of int, optional
        The GPU's own compute capability, where that is older than what NVRTC compiles for: limits of multiprocessors and
        rates of pipes are its own.
    """

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    memory: int
    bandwidth: int
    bus_bits: int
    l2_bytes: int
    clock_khz: int
    double_ratio: int
    hardware: tuple[int, int] | None = None

    @property
    def memory_clock_khz(self) -> int:
        """Clock of the memory, which transfers twice a cycle."""
        return round(self.bandwidth * 8 / self.bus_bits / 2 / 1000)


MODELS = {
    "h200": DeviceModel(
        "NVIDIA H200", (9, 0), 132, 141 * 10**9, 4_800 * 10**9, 6144, 50 * _MIB, 1_980_000, 2
    ),
    "h100": DeviceModel(
        "NVIDIA H100 80GB HBM3", (9, 0), 132, 80 * _GIB, 3_350 * 10**9, 5120, 50 * _MIB, 1_980_000, 2
    ),
    "a100": DeviceModel(
        "NVIDIA A100-SXM4-80GB", (8, 0), 108, 80 * _GIB, 2_039 * 10**9, 5120, 40 * _MIB, 1_410_000, 2
    ),
    "v100": DeviceModel(
        "Tesla V100-SXM2-16GB",
        (7, 5),
        80,
        16 * _GIB,
        900 * 10**9,
        4096,
        6 * _MIB,
        1_530_000,
        2,
        hardware=(7, 0),
    ),
    "v100-32gb": DeviceModel(
        "Tesla V100-SXM2-32GB",
        (7, 5),
        80,
        32 * _GIB,
        900 * 10**9,
        4096,
        6 * _MIB,
        1_530_000,
        2,
        hardware=(7, 0),
    ),
    "l4": DeviceModel("NVIDIA L4", (8, 9), 58, 24 * _GIB, 300 * 10**9, 192, 48 * _MIB, 2_040_000, 64),
    "t4": DeviceModel("Tesla T4", (7, 5), 40, 16 * _GIB, 320 * 10**9, 256, 4 * _MIB, 1_590_000, 32),
    "rtx4090": DeviceModel(
        "NVIDIA GeForce RTX 4090", (8, 9), 128, 24 * _GIB, 1_008 * 10**9, 384, 72 * _MIB, 2_520_000, 64
    ),
}

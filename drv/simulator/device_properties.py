"""Simulated devices: identity, limits of their architecture, and the table of device attributes."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuda.bindings.driver import CUdevice_attribute

from .device_models import MODELS
from .memory.address_space import DEVICE_BASE, DEVICE_STRIDE

if TYPE_CHECKING:
    from .options import Options

KIB = 1024
#: Granularity of ``cuMemCreate`` and address reservations, as on NVIDIA's devices.
GRANULARITY = 2 << 20
#: Alignment and rounding of ``cuMemAlloc``.
ALLOCATION_ALIGNMENT = 512


@dataclass(frozen=True, slots=True)
class Architecture:
    """Limits of one compute capability (CUDA C++ programming guide, "Compute capabilities")."""

    threads_per_multiprocessor: int
    blocks_per_multiprocessor: int
    shared_per_multiprocessor: int
    shared_per_block_optin: int
    reserved_shared_per_block: int


_ARCHITECTURES = {
    (5, 0): Architecture(2048, 32, 64 * KIB, 48 * KIB, 0),
    (5, 2): Architecture(2048, 32, 96 * KIB, 48 * KIB, 0),
    (6, 0): Architecture(2048, 32, 64 * KIB, 48 * KIB, 0),
    (6, 1): Architecture(2048, 32, 96 * KIB, 48 * KIB, 0),
    (7, 0): Architecture(2048, 32, 96 * KIB, 96 * KIB, 0),
    (7, 5): Architecture(1024, 16, 64 * KIB, 64 * KIB, 0),
    (8, 0): Architecture(2048, 32, 164 * KIB, 163 * KIB, KIB),
    (8, 6): Architecture(1536, 16, 100 * KIB, 99 * KIB, KIB),
    (8, 7): Architecture(1536, 16, 164 * KIB, 163 * KIB, KIB),
    (8, 9): Architecture(1536, 24, 100 * KIB, 99 * KIB, KIB),
    (9, 0): Architecture(2048, 32, 228 * KIB, 227 * KIB, KIB),
    (10, 0): Architecture(2048, 32, 228 * KIB, 227 * KIB, KIB),
    (12, 0): Architecture(1536, 24, 100 * KIB, 99 * KIB, KIB),
}


@dataclass(frozen=True, slots=True)
class ExecutionProperties:
    """What a running kernel can ask of its device (``%warpsize``, ``%nsmid``, ...)."""

    warp_size: int
    multiprocessors: int
    capability: tuple[int, int]


WARP_SIZE = 32
MAX_THREADS_PER_BLOCK = 1024
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
REGISTERS_PER_MULTIPROCESSOR = 65536
SHARED_PER_BLOCK = 48 * KIB


#: Clocks, memory interface and cache of a device that stands for no particular GPU.
_UNNAMED = MODELS["h100"]


def architecture(capability: tuple[int, int]) -> Architecture:
    """Limits of ``capability``, or of the closest older one that is known."""
    older = [known for known in _ARCHITECTURES if known <= capability]
    return _ARCHITECTURES[max(older, default=min(_ARCHITECTURES))]


class SimulatedDevice:
    """One device of the simulated machine. ``index`` is its number there, ``ordinal`` the visible one."""

    def __init__(self, options: Options, index: int) -> None:
        self.index = index
        self.ordinal = index
        self.capability = options.capability[index]
        self.multiprocessors = options.multiprocessors[index]
        self.total = options.memory[index]
        self.used = 0
        self.lost = False
        self.model = options.model[index]
        #: That of the multiprocessors: what :attr:`capability` says, but for a model whose own is no longer compiled for.
        self.hardware = self.capability
        if self.model is not None and self.model.hardware and self.capability == self.model.capability:
            self.hardware = self.model.hardware
        self.architecture = architecture(self.hardware)
        self.name = (
            f"Simulated GPU sm_{self.capability[0]}{self.capability[1]}"
            if self.model is None
            else f"{self.model.name} (simulated)"
        )
        self.uuid = uuid.uuid5(uuid.NAMESPACE_OID, f"graphroot simulated device {index}").bytes
        self.attributes = _attributes(self)
        self.execution_properties = ExecutionProperties(WARP_SIZE, self.multiprocessors, self.capability)

    @property
    def base(self) -> int:
        """First address of the device's memory."""
        return DEVICE_BASE + self.index * DEVICE_STRIDE

    @property
    def uuid_text(self) -> str:
        """UUID as ``CUDA_VISIBLE_DEVICES`` and ``nvidia-smi`` write it."""
        return f"GPU-{uuid.UUID(bytes=self.uuid)}"

    @property
    def pci_bus_id(self) -> str:
        """``domain:bus:device.function``."""
        return f"0000:{self.index + 1:02X}:00.0"


def _attributes(device: SimulatedDevice) -> dict[int, int]:
    limits = device.architecture
    model = device.model or _UNNAMED
    modern = device.capability >= (7, 0)
    # On Linux, devices from Pascal on fault on pages that are elsewhere, and so share managed memory with the host.
    faulting = device.capability >= (6, 0)
    named = {
        "MAX_THREADS_PER_BLOCK": MAX_THREADS_PER_BLOCK,
        "MAX_BLOCK_DIM_X": MAX_BLOCK[0],
        "MAX_BLOCK_DIM_Y": MAX_BLOCK[1],
        "MAX_BLOCK_DIM_Z": MAX_BLOCK[2],
        "MAX_GRID_DIM_X": MAX_GRID[0],
        "MAX_GRID_DIM_Y": MAX_GRID[1],
        "MAX_GRID_DIM_Z": MAX_GRID[2],
        "MAX_SHARED_MEMORY_PER_BLOCK": SHARED_PER_BLOCK,
        "TOTAL_CONSTANT_MEMORY": 64 * KIB,
        "WARP_SIZE": WARP_SIZE,
        "MAX_PITCH": 2**31 - 1,
        "MAX_REGISTERS_PER_BLOCK": 65536,
        "CLOCK_RATE": model.clock_khz,
        "TEXTURE_ALIGNMENT": 512,
        "GPU_OVERLAP": 1,
        "MULTIPROCESSOR_COUNT": device.multiprocessors,
        "CAN_MAP_HOST_MEMORY": 1,
        "MAXIMUM_TEXTURE1D_WIDTH": 131072,
        "MAXIMUM_TEXTURE2D_WIDTH": 131072,
        "MAXIMUM_TEXTURE2D_HEIGHT": 65536,
        "MAXIMUM_TEXTURE3D_WIDTH": 16384,
        "MAXIMUM_TEXTURE3D_HEIGHT": 16384,
        "MAXIMUM_TEXTURE3D_DEPTH": 16384,
        "MAXIMUM_TEXTURE1D_LINEAR_WIDTH": 1 << 28,
        "MAXIMUM_TEXTURE1D_LAYERED_WIDTH": 32768,
        "MAXIMUM_TEXTURE1D_LAYERED_LAYERS": 2048,
        "MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH": 32768,
        "MAXIMUM_TEXTURE2D_LINEAR_WIDTH": 131072,
        "MAXIMUM_TEXTURE2D_LINEAR_HEIGHT": 65000,
        "MAXIMUM_TEXTURE2D_LINEAR_PITCH": 2097120,
        "MAXIMUM_TEXTURE2D_LAYERED_WIDTH": 32768,
        "MAXIMUM_TEXTURE2D_LAYERED_HEIGHT": 32768,
        "MAXIMUM_TEXTURE2D_LAYERED_LAYERS": 2048,
        "MAXIMUM_TEXTURE2D_GATHER_WIDTH": 32768,
        "MAXIMUM_TEXTURE2D_GATHER_HEIGHT": 32768,
        "MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH": 32768,
        "MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT": 32768,
        "MAXIMUM_TEXTURECUBEMAP_WIDTH": 32768,
        "MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH": 32768,
        "MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS": 2046,
        "MAXIMUM_SURFACE1D_WIDTH": 32768,
        "MAXIMUM_SURFACE1D_LAYERED_WIDTH": 32768,
        "MAXIMUM_SURFACE1D_LAYERED_LAYERS": 2048,
        "MAXIMUM_SURFACE2D_WIDTH": 131072,
        "MAXIMUM_SURFACE2D_HEIGHT": 65536,
        "MAXIMUM_SURFACE2D_LAYERED_WIDTH": 32768,
        "MAXIMUM_SURFACE2D_LAYERED_HEIGHT": 32768,
        "MAXIMUM_SURFACE2D_LAYERED_LAYERS": 2048,
        "MAXIMUM_SURFACE3D_WIDTH": 16384,
        "MAXIMUM_SURFACE3D_HEIGHT": 16384,
        "MAXIMUM_SURFACE3D_DEPTH": 16384,
        "MAXIMUM_SURFACECUBEMAP_WIDTH": 32768,
        "MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH": 32768,
        "MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS": 2046,
        "SURFACE_ALIGNMENT": 512,
        "CONCURRENT_KERNELS": 1,
        "ECC_ENABLED": 1,
        "PCI_BUS_ID": device.index + 1,
        "MEMORY_CLOCK_RATE": model.memory_clock_khz,
        "GLOBAL_MEMORY_BUS_WIDTH": model.bus_bits,
        "L2_CACHE_SIZE": model.l2_bytes,
        "MAX_THREADS_PER_MULTIPROCESSOR": limits.threads_per_multiprocessor,
        "ASYNC_ENGINE_COUNT": 3,
        "UNIFIED_ADDRESSING": 1,
        "TEXTURE_PITCH_ALIGNMENT": 32,
        "COMPUTE_CAPABILITY_MAJOR": device.capability[0],
        "COMPUTE_CAPABILITY_MINOR": device.capability[1],
        "STREAM_PRIORITIES_SUPPORTED": 1,
        "GLOBAL_L1_CACHE_SUPPORTED": 1,
        "LOCAL_L1_CACHE_SUPPORTED": 1,
        "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": limits.shared_per_multiprocessor,
        "MAX_REGISTERS_PER_MULTIPROCESSOR": REGISTERS_PER_MULTIPROCESSOR,
        "MULTI_GPU_BOARD_GROUP_ID": device.index,
        "SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO": model.double_ratio,
        "COMPUTE_PREEMPTION_SUPPORTED": 1,
        "CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM": 1,
        "COOPERATIVE_LAUNCH": 1,
        "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": limits.shared_per_block_optin,
        "HOST_REGISTER_SUPPORTED": 1,
        "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED": int(modern),
        "MAX_BLOCKS_PER_MULTIPROCESSOR": limits.blocks_per_multiprocessor,
        "RESERVED_SHARED_MEMORY_PER_BLOCK": limits.reserved_shared_per_block,
        "MEMORY_POOLS_SUPPORTED": 1,
        "MEMPOOL_SUPPORTED_HANDLE_TYPES": 1,
        "HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED": int(modern),
        "IPC_EVENT_SUPPORTED": 1,
        "MANAGED_MEMORY": 1,
        "CONCURRENT_MANAGED_ACCESS": int(faulting),
        "CAN_USE_STREAM_MEM_OPS_V1": 1,
        "CAN_USE_64_BIT_STREAM_MEM_OPS": 1,
        "CAN_USE_STREAM_WAIT_VALUE_NOR": int(modern),
        "HOST_MEMORY_POOLS_SUPPORTED": 1,
        "HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED": 0,
        "HOST_NUMA_MEMORY_POOLS_SUPPORTED": 1,
        "NUMA_ID": -1,
        "HOST_NUMA_ID": 0,
        "MEM_SYNC_DOMAIN_COUNT": 1,
        "CLUSTER_LAUNCH": int(device.capability >= (9, 0)),
        "TENSOR_MAP_ACCESS_SUPPORTED": int(device.capability >= (9, 0)),
    }
    table = {int(attribute): 0 for attribute in CUdevice_attribute}
    for name, value in named.items():
        # Older versions of the bindings do not know all of them.
        attribute = getattr(CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}", None)
        if attribute is not None:
            table[int(attribute)] = value
    del table[int(CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX)]
    return table

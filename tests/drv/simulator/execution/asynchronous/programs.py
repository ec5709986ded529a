"""Programs in a right and in wrong versions, run under every schedule with all checks."""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Any

import numpy as np
from cuda.bindings import driver as cuda

import drv
from drv.compiler import compile_program, cuda_include_dirs
from tests.drv.simulator.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEDULES = [("eager", 0), ("lazy", 0), ("random", 0), ("random", 1), ("random", 2)]
#: Whether NVRTC finds libcu++ (``<cuda/barrier>`` and the like).
HAS_LIBCUDACXX = any("cccl" in directory for directory in cuda_include_dirs())


@functools.cache
def compiled(source: str, architecture: str = "compute_90a", options: tuple[str, ...] = ()) -> str:
    """PTX with line information."""
    return compile_program(
        source, architecture, name="program.cu", options=options, line_info=True
    ).image.decode()


def run(
    source: str,
    kernel: str,
    grid: Any,
    block: Any,
    arguments: list[Any],
    *,
    architecture: str = "compute_90a",
    options: tuple[str, ...] = (),
    **others: Any,
) -> tuple[Any, ...]:
    """Run a kernel of a CUDA C++ source; what the checkers find."""
    ptx = source if source.lstrip().startswith(".version") else compiled(source, architecture, options)
    return drv.simulator.run(ptx, kernel, grid, block, arguments, collect=True, **others)


def line_of(source: str, text: str) -> int:
    """Number of the one line of a source that has a text."""
    (number,) = [number for number, line in enumerate(source.splitlines(), 1) if text in line]
    return number


def raced_lines(findings: tuple[Any, ...]) -> set[tuple[int, int]]:
    """Source lines of both sides of every race, ascending."""
    pairs = set()
    for finding in findings:
        if finding.first is not None:
            first, second = (side.site.source[1] for side in (finding.first, finding.second))
            pairs.add((min(first, second), max(first, second)))
    return pairs


def counted(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """1, 2, 3, ..."""
    return (1 + np.arange(int(np.prod(shape)))).astype(dtype).reshape(shape)


class Device:
    """A simulated device whose memory has addresses that tensor maps can name."""

    def __init__(self, schedule: str = "eager", seed: int = 0, check: str = "full", **options: Any) -> None:
        self.machine = Machine(schedule=schedule, seed=seed, check=check, **options)
        self.machine.driver.findings.collect = True
        self._modules: dict[str, Any] = {}

    def memory(self, array: np.ndarray) -> int:
        """Address of a copy of an array."""
        address = self.machine.device_memory(max(array.nbytes, 1))
        self.machine.cuMemcpyHtoD(
            address, np.ascontiguousarray(array).view(np.uint8).reshape(-1), array.nbytes
        )
        return address

    def read(self, address: int, like: np.ndarray) -> np.ndarray:
        """What memory holds once all work is done, as an array of the same shape and dtype."""
        self.machine.cuCtxSynchronize()
        return self.machine.peek(address, like.nbytes).view(like.dtype).reshape(like.shape)

    def tensor_map(
        self,
        address: int,
        sizes: Sequence[int],
        box: Sequence[int],
        ptx_type: str = "f32",
        *,
        strides: Sequence[int] | None = None,
        steps: Sequence[int] | None = None,
        interleave: int = 0,
        swizzle: int = 0,
        fill: int = 0,
    ) -> bytes:
        """A tiled tensor map; ``sizes`` and ``box`` begin with the innermost dimension, ``strides`` are in bytes."""
        element = {0: ELEMENT_BYTES[ptx_type], 1: 16, 2: 32}[interleave]
        if strides is None:
            strides = [element * int(np.prod(sizes[: axis + 1])) for axis in range(len(sizes) - 1)]
        result = self.machine.cuTensorMapEncodeTiled(
            tensor_type(ptx_type),
            len(sizes),
            address,
            [cuda.cuuint64_t(each) for each in sizes],
            [cuda.cuuint64_t(each) for each in strides],
            [cuda.cuuint32_t(each) for each in box],
            [cuda.cuuint32_t(each) for each in steps or [1] * len(sizes)],
            cuda.CUtensorMapInterleave(interleave),
            cuda.CUtensorMapSwizzle(swizzle),
            cuda.CUtensorMapL2promotion(0),
            cuda.CUtensorMapFloatOOBfill(fill),
        )
        return ctypes.string_at(result.getPtr(), 128)

    def launch(
        self,
        source: str,
        kernel: str,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        *arguments: Any,
        options: tuple[str, ...] = (),
        shared: int = 0,
        architecture: str = "compute_90a",
    ) -> tuple[Any, ...]:
        """Launch a kernel and wait; what the checkers have found. Arguments are addresses, NumPy scalars or bytes."""
        key = source if source.lstrip().startswith(".version") else compiled(source, architecture, options)
        if key not in self._modules:
            self._modules[key] = self.machine.cuModuleLoadData(key.encode() + b"\0")
        function = self.machine.cuModuleGetFunction(self._modules[key], kernel.encode())
        if shared:
            attribute = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self.machine.cuFuncSetAttribute(function, attribute, shared)
        data = [each if isinstance(each, bytes) else np.asarray(each).tobytes() for each in arguments]
        slots = [ctypes.create_string_buffer(each, len(each)) for each in data]
        table = (ctypes.c_void_p * max(len(slots), 1))(*(ctypes.addressof(slot) for slot in slots))
        sizes = [(*each, 1, 1)[:3] if isinstance(each, tuple) else (each, 1, 1) for each in (grid, block)]
        self.machine.cuLaunchKernel(function, *sizes[0], *sizes[1], shared, 0, ctypes.addressof(table), 0)
        self.machine.cuCtxSynchronize()
        return tuple(self.machine.driver.findings)


ELEMENT_BYTES = {
    "u8": 1, "u16": 2, "u32": 4, "s32": 4, "u64": 8, "s64": 8, "f16": 2, "f32": 4, "f64": 8, "bf16": 2,
    "f32 ftz": 4, "tf32": 4,
}  # fmt: skip
_TYPE_NAMES = {
    "u8": "UINT8", "u16": "UINT16", "u32": "UINT32", "s32": "INT32", "u64": "UINT64", "s64": "INT64",
    "f16": "FLOAT16", "f32": "FLOAT32", "f64": "FLOAT64", "bf16": "BFLOAT16", "f32 ftz": "FLOAT32_FTZ",
    "tf32": "TFLOAT32",
}  # fmt: skip


def tensor_type(ptx_type: str) -> cuda.CUtensorMapDataType:
    """The type of tensor maps for a PTX type."""
    return getattr(cuda.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_TYPE_NAMES[ptx_type]}")


def swizzled(data: np.ndarray, swizzle: int) -> np.ndarray:
    """Bytes as the tables of the PTX ISA rearrange the 16-byte cells of each 128-byte line."""
    lines = np.zeros((-(-data.size // 128), 8, 16), np.uint8)
    lines.reshape(-1)[: data.size] = data
    result = np.zeros_like(lines)
    for number, line in enumerate(lines):
        for cell in range(8):
            mask = {
                0: 0,
                1: number % 2,
                2: number % 4,
                3: number % 8,
                4: number % 4 * 2,
                5: number % 4 * 2,
                6: number % 2 * 4,
            }
            piece = line[cell]
            if swizzle == 5 and number % 2:
                piece = np.roll(piece, 8)
            result[number, cell ^ mask[swizzle]] = piece
    return result.reshape(-1)


#: ``mbarrier`` instructions and waits as functions of C++, for programs that are about something else.
MBARRIERS = r"""
typedef unsigned long long u64;
struct alignas(64) TensorMap { u64 opaque[16]; };
__device__ unsigned shared(const void* p) { return __cvta_generic_to_shared(p); }
__device__ void init(u64* b, unsigned n) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared(b)), "r"(n) : "memory"); }
__device__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void fence_async() { asm volatile("fence.proxy.async;" ::: "memory"); }
__device__ void expect(u64* b, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(shared(b)), "r"(bytes) : "memory"); }
__device__ void arrive(u64* b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared(b)) : "memory"); }
__device__ void wait(u64* b, unsigned parity) {
    asm volatile("{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra again;\n}"
        :: "r"(shared(b)), "r"(parity) : "memory"); }
__device__ void commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ void wait_all() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
__device__ void wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
"""

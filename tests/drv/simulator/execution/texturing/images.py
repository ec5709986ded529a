"""CUDA arrays, textures and surfaces on a simulated driver, and what fetches of them should give."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from cuda.bindings import driver as cuda

from tests.drv.simulator.compiled import ptx
from tests.drv.simulator.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMATS = {
    "uint8": cuda.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT8,
    "uint16": cuda.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT16,
    "uint32": cuda.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT32,
    "int8": cuda.CUarray_format.CU_AD_FORMAT_SIGNED_INT8,
    "int16": cuda.CUarray_format.CU_AD_FORMAT_SIGNED_INT16,
    "int32": cuda.CUarray_format.CU_AD_FORMAT_SIGNED_INT32,
    "float16": cuda.CUarray_format.CU_AD_FORMAT_HALF,
    "float32": cuda.CUarray_format.CU_AD_FORMAT_FLOAT,
}
WRAP, CLAMP, MIRROR, BORDER = (cuda.CUaddress_mode(number) for number in range(4))
POINT, LINEAR = (cuda.CUfilter_mode(number) for number in range(2))
LAYERED, SURFACE, CUBEMAP, GATHER = 1, 2, 4, 8
AS_INTEGERS, NORMALIZED, SRGB, SEAMLESS = 1, 2, 16, 64
_TYPES = cuda.CUmemorytype


def described(
    width: int, height: int = 0, depth: int = 0, *, dtype: str = "float32", channels: int = 1, flags: int = 0
) -> cuda.CUDA_ARRAY3D_DESCRIPTOR:
    result = cuda.CUDA_ARRAY3D_DESCRIPTOR()
    result.Width, result.Height, result.Depth = width, height, depth
    result.Format, result.NumChannels, result.Flags = FORMATS[dtype], channels, flags
    return result


def box(array: Any, data: np.ndarray, row_bytes: int, *, to_array: bool) -> cuda.CUDA_MEMCPY3D:
    """A copy between an array and ``data``, whose rows take ``row_bytes``, and which has up to two more dimensions."""
    result = cuda.CUDA_MEMCPY3D()
    host, device = ("src", "dst") if to_array else ("dst", "src")
    rows = data.nbytes // row_bytes
    height = data.shape[1] if data.ndim > 1 and data.shape[0] * data.shape[1] == rows else 1
    result.WidthInBytes, result.Height, result.Depth = row_bytes, height, rows // height
    for name, value in (
        (f"{host}MemoryType", _TYPES.CU_MEMORYTYPE_HOST),
        (f"{host}Host", data.ctypes.data),
        (f"{host}Pitch", row_bytes),
        (f"{host}Height", height),
        (f"{device}MemoryType", _TYPES.CU_MEMORYTYPE_ARRAY),
        (f"{device}Array", array),
    ):
        setattr(result, name, value)
    return result


class Images:
    """Makes arrays of NumPy arrays ``(depth, height, width, channels)``, and objects that read and write them."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def filled(self, data: np.ndarray, rank: int, flags: int = 0) -> Any:
        """An array of ``data``, ``(depth, height, width, channels)``, of which the last ``rank`` extents count."""
        depth, height, width, channels = data.shape
        array = self.machine.cuArray3DCreate(
            described(
                width,
                height if rank > 1 else 0,
                depth if rank > 2 or flags & (LAYERED | CUBEMAP) else 0,
                dtype=data.dtype.name,
                channels=channels,
                flags=flags,
            )
        )
        self.write(array, data)
        return array

    def write(self, array: Any, data: np.ndarray) -> None:
        data = np.ascontiguousarray(data)
        self.machine.cuMemcpy3D(box(array, data, data.shape[2] * data[0, 0, 0].nbytes, to_array=True))

    def read(self, array: Any, like: np.ndarray) -> np.ndarray:
        result = np.zeros_like(like)
        self.machine.cuMemcpy3D(box(array, result, like.shape[2] * like[0, 0, 0].nbytes, to_array=False))
        return result

    def texture(
        self,
        array: Any,
        *,
        modes: Sequence[Any] = (CLAMP, CLAMP, CLAMP),
        filter_mode: Any = POINT,
        flags: int = 0,
        border: Sequence[float] = (0, 0, 0, 0),
        mipmapped: bool = False,
        mip_filter: Any = POINT,
        levels: tuple[float, float] = (0, 0),
        bias: float = 0,
        view: Any = None,
    ) -> int:
        texture = cuda.CUDA_TEXTURE_DESC()
        texture.addressMode, texture.filterMode, texture.flags = list(modes), filter_mode, flags
        texture.borderColor, texture.mipmapFilterMode = list(border), mip_filter
        texture.minMipmapLevelClamp, texture.maxMipmapLevelClamp = levels
        texture.mipmapLevelBias = bias
        resource = self.resource(array, mipmapped=mipmapped)
        return int(self.machine.cuTexObjectCreate(resource, texture, view))

    @staticmethod
    def resource(array: Any, *, mipmapped: bool = False) -> cuda.CUDA_RESOURCE_DESC:
        resource = cuda.CUDA_RESOURCE_DESC()
        if mipmapped:
            resource.resType = cuda.CUresourcetype.CU_RESOURCE_TYPE_MIPMAPPED_ARRAY
            resource.res.mipmap.hMipmappedArray = array
        else:
            resource.resType = cuda.CUresourcetype.CU_RESOURCE_TYPE_ARRAY
            resource.res.array.hArray = array
        return resource

    def surface(self, array: Any) -> int:
        return int(self.machine.cuSurfObjectCreate(self.resource(array)))

    def run(self, source: str, name: str, grid: int, block: int, *arguments: Any, stream: Any = 0) -> None:
        """Queue a kernel; arrays are given as addresses of memory, integers of NumPy by value."""
        values = tuple(arguments)
        types = tuple(
            ctypes.c_uint64 if type(each) is int else np.ctypeslib.as_ctypes_type(each.dtype)
            for each in arguments
        )
        values = tuple(each if type(each) is int else each.item() for each in arguments)
        function = self.machine.cuModuleGetFunction(self.module(source), name.encode())
        self.machine.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, stream, (values, types), 0)

    def module(self, source: str) -> Any:
        return self.machine.cuModuleLoadData(ptx(source, "-lineinfo"))

    def fetch(
        self, source: str, name: str, texture: int, coordinates: Sequence[np.ndarray], dtype: Any
    ) -> np.ndarray:
        """What a kernel ``name(texture, n, out, x, y, ...)`` writes for each point, four components each."""
        count = len(coordinates[0])
        out = self.machine.device_memory(16 * count)
        addresses = []
        for each in coordinates:
            address = self.machine.device_memory(4 * count)
            self.machine.cuMemcpyHtoD(address, np.ascontiguousarray(each), 4 * count)
            addresses.append(address)
        self.run(source, name, -(-count // 32), 32, texture, np.int32(count), out, *addresses)
        result = np.zeros((count, 4), dtype)
        self.machine.cuMemcpyDtoH(result, out, result.nbytes)
        for address in (out, *addresses):
            self.machine.cuMemFree(address)
        return result


def along(
    x: float, size: int, mode: Any, *, linear: bool, normalized: bool
) -> list[tuple[int | None, float]]:
    """Texels of a dimension and their weights, as the CUDA Programming Guide has them; ``None`` is the border."""
    if mode == WRAP and normalized:
        x = x - math.floor(x)
    elif mode == MIRROR and normalized:
        whole = math.floor(x)
        x = x - whole if whole % 2 == 0 else 1 - (x - whole)
    position = x * size if normalized else x

    def texel(index: int) -> int | None:
        if mode == BORDER:
            return index if 0 <= index < size else None
        if mode == WRAP and normalized:
            return index % size
        return min(max(index, 0), size - 1)

    if not linear:
        return [(texel(math.floor(position)), 1.0)]
    lower = position - 0.5
    first = math.floor(lower)
    fraction = math.floor((lower - first) * 256 + 0.5) / 256
    return [(texel(first), 1 - fraction), (texel(first + 1), fraction)]


def sampled(
    data: np.ndarray,
    point: Sequence[float],
    modes: Sequence[Any],
    *,
    linear: bool,
    normalized: bool,
    border: Sequence[float] = (0, 0, 0, 0),
) -> np.ndarray:
    """A fetch of ``data``, ``(depth, height, width, channels)``, at ``point`` ``(x, y, z)``, of as many as there are."""
    sizes = data.shape[2::-1]
    result = np.zeros(data.shape[3])
    axes = [
        along(x, size, mode, linear=linear, normalized=normalized)
        for x, size, mode in zip(point, sizes, modes, strict=False)
    ]
    axes += [[(0, 1.0)]] * (3 - len(axes))
    for x, x_weight in axes[0]:
        for y, y_weight in axes[1]:
            for z, z_weight in axes[2]:
                outside = x is None or y is None or z is None
                texel = np.array(border[: data.shape[3]]) if outside else data[z, y, x].astype(np.float64)
                result += x_weight * y_weight * z_weight * texel
    return result

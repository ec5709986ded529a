"""Driver calls that make CUDA arrays and mipmapped arrays, and describe them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver_call import (
    OK,
    SUCCESS,
    CallError,
    call,
    from_finalizer,
    integer,
    invalid_handle,
    invalid_value,
    listed,
    structure,
    unsigned,
)
from drv.simulator.memory.address_space import MemoryKind
from drv.simulator.memory.arrays import (
    CUBEMAP,
    FACES,
    GATHER,
    KNOWN_FORMATS,
    LAYERED,
    ROW_ALIGNMENT,
    SURFACE,
    CudaArray,
    ElementFormat,
    MipmappedArray,
    element_format,
    level_extents,
    most_levels,
)
from drv.simulator.memory.records import MemoryBook

if TYPE_CHECKING:
    from collections.abc import Mapping

    from drv.simulator.device_properties import SimulatedDevice
    from drv.simulator.driver_state import Context
    from drv.simulator.options import Options

_COLOR_ATTACHMENT, _DEPTH_TEXTURE, _SPARSE, _DEFERRED, _VIDEO = 32, 16, 64, 128, 256
_FLAGS = LAYERED | SURFACE | CUBEMAP | GATHER | _COLOR_ATTACHMENT
_NOT_SIMULATED = _DEPTH_TEXTURE | _SPARSE | _DEFERRED | _VIDEO
#: Attributes of a device that limit the extents, by dimensions, and of layered arrays.
_LIMITS = {
    (1, False): ("TEXTURE1D_WIDTH",),
    (2, False): ("TEXTURE2D_WIDTH", "TEXTURE2D_HEIGHT"),
    (3, False): ("TEXTURE3D_WIDTH", "TEXTURE3D_HEIGHT", "TEXTURE3D_DEPTH"),
    (1, True): ("TEXTURE1D_LAYERED_WIDTH", "TEXTURE1D_LAYERED_LAYERS"),
    (2, True): ("TEXTURE2D_LAYERED_WIDTH", "TEXTURE2D_LAYERED_HEIGHT", "TEXTURE2D_LAYERED_LAYERS"),
}


class ArrayCalls(MemoryBook):
    """``cuArray*`` and ``cuMipmappedArray*``."""

    def __init__(self, options: Options, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(options, environment)
        self.arrays: dict[int, CudaArray] = {}
        self.mipmapped_arrays: dict[int, MipmappedArray] = {}

    def array(self, handle: Any) -> CudaArray:
        """The array that a handle names."""
        array = self.arrays.get(integer(handle))
        if array is None:
            raise invalid_handle()
        return array

    def mipmapped_array(self, handle: Any) -> MipmappedArray:
        """The mipmapped array that a handle names."""
        array = self.mipmapped_arrays.get(integer(handle))
        if array is None:
            raise invalid_handle()
        return array

    def release_context_memory(self, context: Context) -> None:
        """Free everything that was allocated in ``context``."""
        for arrays in (self.arrays, self.mipmapped_arrays):
            for handle in [handle for handle, array in arrays.items() if array.context is context]:
                del arrays[handle]
        super().release_context_memory(context)

    # Making and destroying

    @call(1, unsafe=True)
    def cuArrayCreate(self, pAllocateArray: Any) -> tuple[Any, ...]:
        described = structure(pAllocateArray, cuda.CUDA_ARRAY_DESCRIPTOR)
        return self._create(described, 0, 0, "cuArrayCreate")

    @call(1, unsafe=True)
    def cuArray3DCreate(self, pAllocateArray: Any) -> tuple[Any, ...]:
        described = structure(pAllocateArray, cuda.CUDA_ARRAY3D_DESCRIPTOR)
        return self._create(described, int(described.Depth), int(described.Flags), "cuArray3DCreate")

    def _create(self, described: Any, depth: int, flags: int, origin: str) -> tuple[Any, ...]:
        context = self.current()
        number, element = _format(described)
        extents = int(described.Width), int(described.Height), depth
        _check_extents(context.device, extents, flags)
        array = self._make(context, number, element, extents, flags, origin)
        return SUCCESS, cuda.CUarray(array.handle)

    def _make(
        self,
        context: Context,
        number: int,
        element: ElementFormat,
        extents: tuple[int, int, int],
        flags: int,
        origin: str,
    ) -> CudaArray:
        width, height, depth = extents
        pitch = -(-width * element.nbytes // ROW_ALIGNMENT) * ROW_ALIGNMENT
        size = pitch * max(height, 1) * max(depth, 1)
        record = self.allocate(context, size, origin, MemoryKind.ARRAY, _name(extents, element, flags))
        handle = self.new_handle()
        array = self.arrays[handle] = CudaArray(
            handle, context, element, number, width, height, depth, flags, record
        )
        return array

    @from_finalizer
    @call(unsafe=True)
    def cuArrayDestroy(self, hArray: Any) -> tuple[Any, ...]:
        array = self.array(hArray)
        if array.is_level:
            raise invalid_handle()
        self.wait_context(self.usable(array.context))
        self.usable(array.context)
        self._drop(array)
        return OK

    def _drop(self, array: CudaArray) -> None:
        del self.arrays[array.handle]
        self.release(array.record)

    @call(1, unsafe=True)
    def cuMipmappedArrayCreate(self, pMipmappedArrayDesc: Any, numMipmapLevels: Any) -> tuple[Any, ...]:
        described = structure(pMipmappedArrayDesc, cuda.CUDA_ARRAY3D_DESCRIPTOR)
        count = unsigned(numMipmapLevels, 32)
        context = self.current()
        number, element = _format(described)
        extents = int(described.Width), int(described.Height), int(described.Depth)
        flags = int(described.Flags)
        _check_extents(context.device, extents, flags)
        layers = bool(flags & (LAYERED | CUBEMAP))
        if count == 0:
            raise invalid_value()
        whole = MipmappedArray(self.new_handle(), context)
        try:
            for level in range(min(count, most_levels(*extents, layers=layers))):
                smaller = level_extents(*extents, level, layers=layers)
                array = self._make(context, number, element, smaller, flags, "cuMipmappedArrayCreate")
                array.is_level = True
                whole.levels.append(array)
        except CallError:
            for array in whole.levels:
                self._drop(array)
            raise
        self.mipmapped_arrays[whole.handle] = whole
        return SUCCESS, cuda.CUmipmappedArray(whole.handle)

    @from_finalizer
    @call(unsafe=True)
    def cuMipmappedArrayDestroy(self, hMipmappedArray: Any) -> tuple[Any, ...]:
        whole = self.mipmapped_array(hMipmappedArray)
        self.wait_context(self.usable(whole.context))
        self.usable(whole.context)
        del self.mipmapped_arrays[whole.handle]
        for array in whole.levels:
            self._drop(array)
        return OK

    @call(1)
    def cuMipmappedArrayGetLevel(self, hMipmappedArray: Any, level: Any) -> tuple[Any, ...]:
        whole, number = self.mipmapped_array(hMipmappedArray), unsigned(level, 32)
        if number >= len(whole.levels):
            raise invalid_value()
        return SUCCESS, cuda.CUarray(whole.levels[number].handle)

    # Descriptions

    @call(1)
    def cuArrayGetDescriptor(self, hArray: Any) -> tuple[Any, ...]:
        array = self.array(hArray)
        result = cuda.CUDA_ARRAY_DESCRIPTOR()
        _describe(result, array)
        return SUCCESS, result

    @call(1)
    def cuArray3DGetDescriptor(self, hArray: Any) -> tuple[Any, ...]:
        array = self.array(hArray)
        result = cuda.CUDA_ARRAY3D_DESCRIPTOR()
        _describe(result, array)
        result.Depth, result.Flags = array.depth, array.flags
        return SUCCESS, result

    @call(1)
    def cuArrayGetMemoryRequirements(self, array: Any, device: Any) -> tuple[Any, ...]:
        self.array(array), self.device(device)
        # It is told of arrays that get their memory later, which a simulated device does not have.
        raise invalid_value()

    @call(1)
    def cuMipmappedArrayGetMemoryRequirements(self, mipmap: Any, device: Any) -> tuple[Any, ...]:
        self.mipmapped_array(mipmap), self.device(device)
        raise invalid_value()

    @call(1)
    def cuArrayGetSparseProperties(self, array: Any) -> tuple[Any, ...]:
        self.array(array)
        raise invalid_value()

    @call(1)
    def cuMipmappedArrayGetSparseProperties(self, mipmap: Any) -> tuple[Any, ...]:
        self.mipmapped_array(mipmap)
        raise invalid_value()

    @call(1)
    def cuArrayGetPlane(self, hArray: Any, planeIdx: Any) -> tuple[Any, ...]:
        self.array(hArray), unsigned(planeIdx, 32)
        # Formats with planes are not simulated.
        raise invalid_value()

    @call()
    def cuMemMapArrayAsync(self, mapInfoList: Any, count: Any, hStream: Any) -> tuple[Any, ...]:
        number = unsigned(count, 32)
        for each in listed(mapInfoList, number):
            structure(each, cuda.CUarrayMapInfo)
        self.stream(hStream)
        if number == 0:
            raise invalid_value()
        # No device has sparse arrays, nor arrays that get their memory later.
        raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)

    @call(1)
    def cuDeviceGetTexture1DLinearMaxWidth(self, pformat: Any, numChannels: Any, dev: Any) -> tuple[Any, ...]:
        device = self.device(dev)
        channels = unsigned(numChannels, 32)
        if integer(pformat) not in KNOWN_FORMATS or channels not in (1, 2, 4):
            raise invalid_value()
        return SUCCESS, _limit(device, "TEXTURE1D_LINEAR_WIDTH")


def _format(described: Any) -> tuple[int, ElementFormat]:
    try:
        number = int(described.Format)
    except ValueError:
        raise invalid_value() from None
    channels = int(described.NumChannels)
    if number not in KNOWN_FORMATS:
        raise invalid_value()
    element = element_format(number, channels)
    if element is None:
        raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
    if channels not in (1, 2, 4) or element.channels != channels:
        raise invalid_value()
    return number, element


def _check_extents(device: SimulatedDevice, extents: tuple[int, int, int], flags: int) -> None:
    width, height, depth = extents
    if flags & ~(_FLAGS | _NOT_SIMULATED) or width == 0:
        raise invalid_value()
    if flags & _NOT_SIMULATED:
        raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
    layered, cubemap = bool(flags & LAYERED), bool(flags & CUBEMAP)
    if cubemap and (width != height or depth == 0 or depth % FACES or (not layered and depth != FACES)):
        raise invalid_value()
    if layered and depth == 0:
        raise invalid_value()
    if height == 0 and depth and not layered:
        raise invalid_value()
    if flags & GATHER and (height == 0 or depth):
        raise invalid_value()
    flat = layered or cubemap
    rank = 1 + (height > 0) + (depth > 0 and not flat)
    sizes = [extent for extent in extents if extent]
    limits = [_limit(device, name) for name in _LIMITS[rank, flat]]
    if any(size > most for size, most in zip(sizes, limits, strict=True)):
        raise invalid_value()


def _limit(device: SimulatedDevice, name: str) -> int:
    attribute = getattr(cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_MAXIMUM_{name}")
    return device.attributes[int(attribute)]


def _describe(result: Any, array: CudaArray) -> None:
    result.Width, result.Height = array.width, array.height
    result.Format, result.NumChannels = cuda.CUarray_format(array.format_number), array.format.channels


def _name(extents: tuple[int, int, int], element: ElementFormat, flags: int) -> str:
    """``256 x 128 elements of 4 x float32, layered``."""
    sizes = " x ".join(str(extent) for extent in extents if extent)
    channels = f"{element.channels} x " if element.channels > 1 else ""
    what = {LAYERED: ", layered", CUBEMAP: ", cubemap", LAYERED | CUBEMAP: ", layered cubemap"}
    return f"{sizes} elements of {channels}{element.dtype.name}{what.get(flags & (LAYERED | CUBEMAP), '')}"

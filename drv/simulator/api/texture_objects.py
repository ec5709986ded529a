"""Driver calls about texture and surface objects (``cuTexObject*``, ``cuSurfObject*``)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver_call import (
    OK,
    SUCCESS,
    CallError,
    call,
    contents,
    filled,
    from_finalizer,
    integer,
    invalid_value,
    structure,
)
from drv.simulator.memory.arrays import GATHER, SURFACE, VIEW_FORMATS, CudaArray, element_format
from drv.simulator.memory.textures import Gone, Image, Surface, Texture, image_of

from .memory.arrays import ArrayCalls

if TYPE_CHECKING:
    from collections.abc import Mapping

    from drv.simulator.driver_state import Context
    from drv.simulator.memory.arrays import ElementFormat
    from drv.simulator.options import Options

_ARRAY, _MIPMAPPED, _LINEAR, _PITCH = range(4)
_READ_AS_INTEGER, _NORMALIZED, _SRGB, _NO_TRILINEAR, _SEAMLESS = 1, 2, 16, 32, 64
_FLAGS = _READ_AS_INTEGER | _NORMALIZED | _SRGB | _NO_TRILINEAR | _SEAMLESS
#: Bytes of the structures.
RESOURCE_BYTES, TEXTURE_BYTES, VIEW_BYTES = 144, 104, 112
_REMEMBERED = 512


@dataclass(slots=True, eq=False)
class ImageObject:
    """A texture or surface object: what it was made of, as the bytes of the structures."""

    context: Context
    resource: bytes
    texture: bytes = b""
    view: bytes = b""


class TextureObjectCalls(ArrayCalls):
    """``cuTexObject*`` and ``cuSurfObject*``."""

    def __init__(self, options: Options, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(options, environment)
        self.texture_objects: dict[int, ImageObject] = {}
        self.surface_objects: dict[int, ImageObject] = {}

    def release_context_memory(self, context: Context) -> None:
        """Drop what was made in ``context``."""
        for objects in (self.texture_objects, self.surface_objects):
            for handle in [handle for handle, each in objects.items() if each.context is context]:
                del objects[handle]
                self.forget_image(handle)
        super().release_context_memory(context)

    def forget_image(self, handle: int) -> None:
        """Kernels cannot use the texture or surface ``handle`` any more; reports remember where it went."""
        images = self.memory.images
        images[handle] = Gone(
            "surface" if isinstance(images[handle], Surface) else "texture", self.recorder.take()
        )
        gone = [handle for handle, image in images.items() if isinstance(image, Gone)]
        for old in gone[:-_REMEMBERED]:
            del images[old]

    # Textures

    @call(1)
    def cuTexObjectCreate(self, pResDesc: Any, pTexDesc: Any, pResViewDesc: Any) -> tuple[Any, ...]:
        structure(pResDesc, cuda.CUDA_RESOURCE_DESC)
        structure(pTexDesc, cuda.CUDA_TEXTURE_DESC)
        if pResViewDesc is not None:
            structure(pResViewDesc, cuda.CUDA_RESOURCE_VIEW_DESC)
        context = self.current()
        levels, fetched, gathers = self._levels(pResDesc, pResViewDesc)
        texture = self._sampled(levels, fetched, gathers, _resource_type(pResDesc), pTexDesc)
        handle = self.new_handle()
        view = contents(pResViewDesc, VIEW_BYTES) if pResViewDesc is not None else b""
        self.texture_objects[handle] = ImageObject(
            context, contents(pResDesc, RESOURCE_BYTES), contents(pTexDesc, TEXTURE_BYTES), view
        )
        self.memory.images[handle] = texture
        return SUCCESS, cuda.CUtexObject(handle)

    def _levels(self, resource: Any, view: Any) -> tuple[tuple[Image, ...], bool, bool]:
        """Images by level, whether they are fetched by index, and whether they can be gathered."""
        resource_type = _resource_type(resource)
        if int(resource.flags) != 0 or (view is not None and resource_type not in (_ARRAY, _MIPMAPPED)):
            raise invalid_value()
        if resource_type == _ARRAY:
            array = self.array(resource.res.array.hArray)
            return _viewed([array], view), False, bool(array.flags & GATHER)
        if resource_type == _MIPMAPPED:
            levels = self.mipmapped_array(resource.res.mipmap.hMipmappedArray).levels
            return _viewed(levels, view), False, bool(levels[0].flags & GATHER)
        if resource_type == _LINEAR:
            linear = resource.res.linear
            return (
                (self.linear_image(_described(linear), int(linear.devPtr), int(linear.sizeInBytes)),),
                True,
                False,
            )
        described = resource.res.pitch2D
        sizes = int(described.width), int(described.height)
        image = self.pitched_image(
            _described(described), int(described.devPtr), sizes, int(described.pitchInBytes)
        )
        return (image,), False, False

    def linear_image(self, element_type: tuple[int, int], address: int, size: int) -> Image:
        """The elements of ``size`` bytes at ``address``, of a format with so many channels."""
        element = _element(*element_type)
        count = size // element.nbytes
        self._check_linear_memory(address, size)
        if count == 0 or count > self.device_attribute("MAXIMUM_TEXTURE1D_LINEAR_WIDTH"):
            raise invalid_value()
        return Image(address, element, count, 0, 0, 0, count * element.nbytes, count * element.nbytes)

    def pitched_image(
        self, element_type: tuple[int, int], address: int, sizes: tuple[int, int], pitch: int
    ) -> Image:
        """The ``(width, height)`` elements of rows ``pitch`` bytes apart, of a format with so many channels."""
        element = _element(*element_type)
        width, height = sizes
        if width == 0 or height == 0 or pitch < width * element.nbytes:
            raise invalid_value()
        if pitch % self.device_attribute("TEXTURE_PITCH_ALIGNMENT"):
            raise invalid_value()
        for size, axis in ((width, "WIDTH"), (height, "HEIGHT"), (pitch, "PITCH")):
            if size > self.device_attribute(f"MAXIMUM_TEXTURE2D_LINEAR_{axis}"):
                raise invalid_value()
        self._check_linear_memory(address, (height - 1) * pitch + width * element.nbytes)
        return Image(address, element, width, height, 0, 0, pitch, pitch * height)

    def _check_linear_memory(self, address: int, size: int) -> None:
        if address == 0 or address % self.device_attribute("TEXTURE_ALIGNMENT"):
            raise invalid_value()
        if self.simulated_range(address, max(size, 1)) is None:
            raise invalid_value()

    def device_attribute(self, name: str) -> int:
        """An attribute of the current context's device."""
        attribute = getattr(cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return self.current().device.attributes[int(attribute)]

    def _sampled(
        self, levels: tuple[Image, ...], fetched: bool, gathers: bool, resource_type: int, described: Any
    ) -> Texture:
        flags = int(described.flags)
        try:
            modes = tuple(int(each) for each in described.addressMode)
            filters = int(described.filterMode), int(described.mipmapFilterMode)
        except ValueError:
            raise invalid_value() from None
        if flags & ~_FLAGS or any(mode not in range(4) for mode in modes):
            raise invalid_value()
        if any(each not in (0, 1) for each in filters):
            raise invalid_value()
        texture = Texture(
            levels,
            modes=(modes[0], modes[1], modes[2]),
            linear=filters[0] == 1 and not fetched,
            normalized=bool(flags & _NORMALIZED) and not fetched,
            as_integers=bool(flags & _READ_AS_INTEGER),
            srgb=bool(flags & _SRGB),
            seamless=bool(flags & _SEAMLESS),
            border=struct.pack("4f", *described.borderColor),
            mip_linear=filters[1] == 1,
            bias=float(described.mipmapLevelBias),
            level_clamp=(float(described.minMipmapLevelClamp), float(described.maxMipmapLevelClamp)),
            fetched=fetched,
            gathers=gathers,
            stack=self.recorder.take(),
        )
        element = levels[0].format
        if resource_type == _MIPMAPPED and not texture.normalized:
            raise invalid_value()
        if texture.linear and not texture.reads_floats:
            raise invalid_value()
        if texture.srgb and (element.dtype.kind, element.dtype.itemsize) != ("u", 1):
            raise invalid_value()
        if texture.srgb and not texture.reads_floats:
            raise invalid_value()
        return texture

    @from_finalizer
    @call()
    def cuTexObjectDestroy(self, texObject: Any) -> tuple[Any, ...]:
        handle = integer(texObject)
        self._object(self.texture_objects, handle)
        del self.texture_objects[handle]
        self.forget_image(handle)
        return OK

    @staticmethod
    def _object(objects: dict[int, ImageObject], handle: Any) -> ImageObject:
        known = objects.get(integer(handle))
        if known is None:
            raise invalid_value()
        return known

    @call(1)
    def cuTexObjectGetResourceDesc(self, texObject: Any) -> tuple[Any, ...]:
        known = self._object(self.texture_objects, texObject)
        return SUCCESS, filled(cuda.CUDA_RESOURCE_DESC(), known.resource)

    @call(1)
    def cuTexObjectGetTextureDesc(self, texObject: Any) -> tuple[Any, ...]:
        known = self._object(self.texture_objects, texObject)
        return SUCCESS, filled(cuda.CUDA_TEXTURE_DESC(), known.texture)

    @call(1)
    def cuTexObjectGetResourceViewDesc(self, texObject: Any) -> tuple[Any, ...]:
        known = self._object(self.texture_objects, texObject)
        if not known.view:
            raise invalid_value()
        return SUCCESS, filled(cuda.CUDA_RESOURCE_VIEW_DESC(), known.view)

    # Surfaces

    @call(1)
    def cuSurfObjectCreate(self, pResDesc: Any) -> tuple[Any, ...]:
        resource = structure(pResDesc, cuda.CUDA_RESOURCE_DESC)
        context = self.current()
        if _resource_type(resource) != _ARRAY or int(resource.flags) != 0:
            raise invalid_value()
        image = surface_image(self.array(resource.res.array.hArray))
        handle = self.new_handle()
        self.surface_objects[handle] = ImageObject(context, contents(resource, RESOURCE_BYTES))
        self.memory.images[handle] = Surface(image, self.recorder.take())
        return SUCCESS, cuda.CUsurfObject(handle)

    @from_finalizer
    @call()
    def cuSurfObjectDestroy(self, surfObject: Any) -> tuple[Any, ...]:
        handle = integer(surfObject)
        self._object(self.surface_objects, handle)
        del self.surface_objects[handle]
        self.forget_image(handle)
        return OK

    @call(1)
    def cuSurfObjectGetResourceDesc(self, surfObject: Any) -> tuple[Any, ...]:
        known = self._object(self.surface_objects, surfObject)
        return SUCCESS, filled(cuda.CUDA_RESOURCE_DESC(), known.resource)


def surface_image(array: CudaArray) -> Image:
    """The elements of an array that kernels may write."""
    if not array.flags & SURFACE:
        raise invalid_value()
    return image_of(array)


def _resource_type(resource: Any) -> int:
    try:
        return int(resource.resType)
    except ValueError:
        raise invalid_value() from None


def _described(memory: Any) -> tuple[int, int]:
    try:
        return int(memory.format), int(memory.numChannels)
    except ValueError:
        raise invalid_value() from None


def _element(number: int, channels: int) -> ElementFormat:
    element = element_format(number, channels)
    if element is None:
        raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
    if channels not in (1, 2, 4) or element.channels != channels:
        raise invalid_value()
    return element


def _viewed(levels: list[CudaArray], view: Any) -> tuple[Image, ...]:
    """Images of the levels, as a view of the resource has them."""
    if view is None:
        return tuple(image_of(array) for array in levels)
    first = levels[0]
    try:
        number = int(view.format)
    except ValueError:
        raise invalid_value() from None
    element = VIEW_FORMATS.get(number) if number else first.format
    if element is None:
        raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
    if element.nbytes != first.format.nbytes:
        raise invalid_value()
    depth = first.depth if not first.layers else 0
    extents = int(view.width), int(view.height), int(view.depth)
    if extents[:2] != (first.width, first.height) or (depth and extents[2] != depth):
        raise invalid_value()
    start, last = int(view.firstMipmapLevel), int(view.lastMipmapLevel)
    if not start <= last < len(levels):
        raise invalid_value()
    layers = None
    if first.layers:
        low, high = int(view.firstLayer), int(view.lastLayer)
        if not low <= high < first.layers:
            raise invalid_value()
        layers = low, high + 1
    return tuple(image_of(array, element, layers) for array in levels[start : last + 1])

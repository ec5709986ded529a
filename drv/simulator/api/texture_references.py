"""Driver calls about texture and surface references, which CUDA has kept for programs that are older than objects.

A reference is a variable of a module (``.texref``, ``.surfref``) that holds the handle of what is bound to it. Launches
that are queued read what was bound when they were made, so these are run before anything else is bound.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
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
    signed,
    structure,
    unsigned,
)
from drv.simulator.memory.arrays import GATHER
from drv.simulator.memory.textures import CLAMP, Surface, Texture, image_of

from .modules.module import ModuleCalls, symbol_name
from .texture_objects import TextureObjectCalls, surface_image

if TYPE_CHECKING:
    from collections.abc import Mapping

    from drv.simulator.driver_state import Context
    from drv.simulator.memory.textures import Image
    from drv.simulator.options import Options

    from .modules.module import LoadedModule

_OVERRIDE_FORMAT = 1
_FLAGS = 1 | 2 | 16 | 32


@dataclass(slots=True, eq=False)
class TextureReference:
    """A texture reference: its state, and the module's variable that it is, if it is one."""

    handle: int
    context: Context
    module: LoadedModule | None = None
    variable: int = 0
    #: ``CUarray_format``, and channels.
    element: tuple[int, int] = (int(cuda.CUarray_format.CU_AD_FORMAT_FLOAT), 1)
    modes: list[int] = field(default_factory=lambda: [CLAMP] * 3)
    linear: int = 0
    mip_linear: int = 0
    flags: int = 0
    bias: float = 0.0
    level_clamp: tuple[float, float] = (0.0, 0.0)
    anisotropy: int = 1
    border: float = 0.0
    array: int = 0
    mipmapped: int = 0
    address: int = 0
    levels: tuple[Image, ...] = ()
    fetched: bool = False
    gathers: bool = False


@dataclass(slots=True, eq=False)
class SurfaceReference:
    """A surface reference: the module's variable that it is, and the array."""

    handle: int
    module: LoadedModule
    variable: int
    array: int = 0


class TextureReferenceCalls(ModuleCalls, TextureObjectCalls):
    """``cuTexRef*``, ``cuSurfRef*``, ``cuModuleGetTexRef``, ``cuModuleGetSurfRef``."""

    def __init__(self, options: Options, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(options, environment)
        self.texture_references: dict[int, TextureReference] = {}
        self.surface_references: dict[int, SurfaceReference] = {}

    def _texture_reference(self, handle: Any) -> TextureReference:
        reference = self.texture_references.get(integer(handle))
        if reference is None or (
            reference.module is not None and reference.module.handle not in self.modules
        ):
            raise invalid_value()
        return reference

    def _variable(self, hmod: Any, name: Any, kind: str) -> tuple[LoadedModule, int]:
        module, symbol = self.module(hmod), symbol_name(name)
        variable = module.parsed.variables.get(symbol)
        if variable is None or variable.reference != kind:
            raise CallError(CUresult.CUDA_ERROR_NOT_FOUND)
        return module, module.symbols[symbol]

    @call(1)
    def cuModuleGetTexRef(self, hmod: Any, name: Any) -> tuple[Any, ...]:
        module, variable = self._variable(hmod, name, "texref")
        for reference in self.texture_references.values():
            if reference.module is module and reference.variable == variable:
                return SUCCESS, cuda.CUtexref(reference.handle)
        return SUCCESS, self._new_reference(module.context, module, variable)

    def _new_reference(self, context: Context, module: LoadedModule | None = None, variable: int = 0) -> Any:
        handle = self.new_handle()
        self.texture_references[handle] = TextureReference(handle, context, module, variable)
        return cuda.CUtexref(handle)

    @call(1)
    def cuTexRefCreate(self) -> tuple[Any, ...]:
        return SUCCESS, self._new_reference(self.current())

    @from_finalizer
    @call()
    def cuTexRefDestroy(self, hTexRef: Any) -> tuple[Any, ...]:
        reference = self._texture_reference(hTexRef)
        if reference.module is not None:
            raise invalid_value()
        del self.texture_references[reference.handle]
        self.memory.images.pop(reference.handle, None)
        return OK

    # What is bound

    def _bind(self, reference: TextureReference) -> None:
        """Let kernels see the reference as it is now."""
        if not reference.levels:
            return
        self._finish(reference.context)
        modes = reference.modes
        self.memory.images[reference.handle] = Texture(
            reference.levels,
            modes=(modes[0], modes[1], modes[2]),
            linear=bool(reference.linear) and not reference.fetched,
            normalized=bool(reference.flags & 2) and not reference.fetched,
            as_integers=bool(reference.flags & 1),
            srgb=bool(reference.flags & 16),
            border=struct.pack("4f", reference.border, 0, 0, 0),
            mip_linear=bool(reference.mip_linear),
            bias=reference.bias,
            level_clamp=reference.level_clamp,
            fetched=reference.fetched,
            gathers=reference.gathers,
            stack=self.recorder.take(),
        )
        if reference.variable:
            self._write_handle(reference.variable, reference.handle)

    def _finish(self, context: Context) -> None:
        for stream in context.all_streams():
            if stream.last is not None and not stream.last.done:
                self.scheduler.complete(stream.last)

    def _write_handle(self, variable: int, handle: int) -> None:
        allocation = self.memory.find(variable)
        if allocation is not None and self.execute:
            allocation.data[:8] = np.frombuffer(handle.to_bytes(8, "little"), np.uint8)

    def _let_be(self, reference: TextureReference, levels: tuple[Image, ...], **bound: int) -> None:
        reference.array = bound.get("array", 0)
        reference.mipmapped = bound.get("mipmapped", 0)
        reference.address = bound.get("address", 0)
        reference.fetched = bool(bound.get("fetched", 0))
        reference.gathers = bool(bound.get("gathers", 0))
        reference.levels = levels
        self._bind(reference)

    @call()
    def cuTexRefSetArray(self, hTexRef: Any, hArray: Any, Flags: Any) -> tuple[Any, ...]:
        reference, array = self._texture_reference(hTexRef), self.array(hArray)
        if unsigned(Flags, 32) != _OVERRIDE_FORMAT:
            raise invalid_value()
        reference.element = (array.format_number, array.format.channels)
        gathers = int(bool(array.flags & GATHER))
        self._let_be(reference, (image_of(array),), array=array.handle, gathers=gathers)
        return OK

    @call()
    def cuTexRefSetMipmappedArray(self, hTexRef: Any, hMipmappedArray: Any, Flags: Any) -> tuple[Any, ...]:
        reference, whole = self._texture_reference(hTexRef), self.mipmapped_array(hMipmappedArray)
        if unsigned(Flags, 32) != _OVERRIDE_FORMAT:
            raise invalid_value()
        first = whole.levels[0]
        reference.element = (first.format_number, first.format.channels)
        self._let_be(reference, tuple(image_of(each) for each in whole.levels), mipmapped=whole.handle)
        return OK

    @call(1)
    def cuTexRefSetAddress(self, hTexRef: Any, dptr: Any, numbytes: Any) -> tuple[Any, ...]:
        reference, address, size = self._texture_reference(hTexRef), integer(dptr), unsigned(numbytes)
        # The start has to be aligned: what is before the memory is told, and part of the texture.
        skipped = address % self.device_attribute("TEXTURE_ALIGNMENT")
        image = self.linear_image(reference.element, address - skipped, size + skipped)
        self._let_be(reference, (image,), address=address, fetched=1)
        return SUCCESS, skipped

    @call()
    def cuTexRefSetAddress2D(self, hTexRef: Any, desc: Any, dptr: Any, Pitch: Any) -> tuple[Any, ...]:
        structure(desc, cuda.CUDA_ARRAY_DESCRIPTOR)
        reference, address = self._texture_reference(hTexRef), integer(dptr)
        element = (int(desc.Format), int(desc.NumChannels))
        sizes = int(desc.Width), int(desc.Height)
        image = self.pitched_image(element, address, sizes, unsigned(Pitch))
        reference.element = element
        self._let_be(reference, (image,), address=address)
        return OK

    # How it is read

    def _set_reference(self, hTexRef: Any, **values: Any) -> tuple[Any, ...]:
        reference = self._texture_reference(hTexRef)
        for name, value in values.items():
            setattr(reference, name, value)
        self._bind(reference)
        return OK

    @call()
    def cuTexRefSetFormat(self, hTexRef: Any, fmt: Any, NumPackedComponents: Any) -> tuple[Any, ...]:
        channels = signed(NumPackedComponents)
        if channels not in (1, 2, 4):
            raise invalid_value()
        return self._set_reference(hTexRef, element=(integer(fmt), channels))

    @call()
    def cuTexRefSetAddressMode(self, hTexRef: Any, dim: Any, am: Any) -> tuple[Any, ...]:
        reference, axis, mode = self._texture_reference(hTexRef), signed(dim), integer(am)
        if axis not in range(3) or mode not in range(4):
            raise invalid_value()
        reference.modes[axis] = mode
        self._bind(reference)
        return OK

    @call()
    def cuTexRefSetFilterMode(self, hTexRef: Any, fm: Any) -> tuple[Any, ...]:
        return self._set_reference(hTexRef, linear=_filter(fm))

    @call()
    def cuTexRefSetMipmapFilterMode(self, hTexRef: Any, fm: Any) -> tuple[Any, ...]:
        return self._set_reference(hTexRef, mip_linear=_filter(fm))

    @call()
    def cuTexRefSetMipmapLevelBias(self, hTexRef: Any, bias: Any) -> tuple[Any, ...]:
        return self._set_reference(hTexRef, bias=float(bias))

    @call()
    def cuTexRefSetMipmapLevelClamp(
        self, hTexRef: Any, minMipmapLevelClamp: Any, maxMipmapLevelClamp: Any
    ) -> tuple[Any, ...]:
        return self._set_reference(
            hTexRef, level_clamp=(float(minMipmapLevelClamp), float(maxMipmapLevelClamp))
        )

    @call()
    def cuTexRefSetMaxAnisotropy(self, hTexRef: Any, maxAniso: Any) -> tuple[Any, ...]:
        return self._set_reference(hTexRef, anisotropy=unsigned(maxAniso, 32))

    @call()
    def cuTexRefSetBorderColor(self, hTexRef: Any, pBorderColor: Any) -> tuple[Any, ...]:
        return self._set_reference(hTexRef, border=float(pBorderColor))

    @call()
    def cuTexRefSetFlags(self, hTexRef: Any, Flags: Any) -> tuple[Any, ...]:
        flags = unsigned(Flags, 32)
        if flags & ~_FLAGS:
            raise invalid_value()
        return self._set_reference(hTexRef, flags=flags)

    # What it is

    @call(1)
    def cuTexRefGetAddress(self, hTexRef: Any) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUdeviceptr(self._bound(hTexRef, "address"))

    @call(1)
    def cuTexRefGetArray(self, hTexRef: Any) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUarray(self._bound(hTexRef, "array"))

    @call(1)
    def cuTexRefGetMipmappedArray(self, hTexRef: Any) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUmipmappedArray(self._bound(hTexRef, "mipmapped"))

    def _bound(self, hTexRef: Any, what: str) -> int:
        handle = int(getattr(self._texture_reference(hTexRef), what))
        if not handle:
            raise invalid_value()
        return handle

    @call(1)
    def cuTexRefGetAddressMode(self, hTexRef: Any, dim: Any) -> tuple[Any, ...]:
        reference, axis = self._texture_reference(hTexRef), signed(dim)
        if axis not in range(3):
            raise invalid_value()
        return SUCCESS, cuda.CUaddress_mode(reference.modes[axis])

    @call(1)
    def cuTexRefGetFilterMode(self, hTexRef: Any) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUfilter_mode(self._texture_reference(hTexRef).linear)

    @call(2)
    def cuTexRefGetFormat(self, hTexRef: Any) -> tuple[Any, ...]:
        number, channels = self._texture_reference(hTexRef).element
        return SUCCESS, cuda.CUarray_format(number), channels

    @call(1)
    def cuTexRefGetMipmapFilterMode(self, hTexRef: Any) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUfilter_mode(self._texture_reference(hTexRef).mip_linear)

    @call(1)
    def cuTexRefGetMipmapLevelBias(self, hTexRef: Any) -> tuple[Any, ...]:
        return SUCCESS, self._texture_reference(hTexRef).bias

    @call(2)
    def cuTexRefGetMipmapLevelClamp(self, hTexRef: Any) -> tuple[Any, ...]:
        return (SUCCESS, *self._texture_reference(hTexRef).level_clamp)

    @call(1)
    def cuTexRefGetMaxAnisotropy(self, hTexRef: Any) -> tuple[Any, ...]:
        return SUCCESS, self._texture_reference(hTexRef).anisotropy

    @call(1)
    def cuTexRefGetBorderColor(self, hTexRef: Any) -> tuple[Any, ...]:
        return SUCCESS, self._texture_reference(hTexRef).border

    @call(1)
    def cuTexRefGetFlags(self, hTexRef: Any) -> tuple[Any, ...]:
        return SUCCESS, self._texture_reference(hTexRef).flags

    # Surfaces

    def _surface_reference(self, handle: Any) -> SurfaceReference:
        reference = self.surface_references.get(integer(handle))
        if reference is None or reference.module.handle not in self.modules:
            raise invalid_handle()
        return reference

    @call(1)
    def cuModuleGetSurfRef(self, hmod: Any, name: Any) -> tuple[Any, ...]:
        module, variable = self._variable(hmod, name, "surfref")
        for reference in self.surface_references.values():
            if reference.module is module and reference.variable == variable:
                return SUCCESS, cuda.CUsurfref(reference.handle)
        handle = self.new_handle()
        self.surface_references[handle] = SurfaceReference(handle, module, variable)
        return SUCCESS, cuda.CUsurfref(handle)

    @call()
    def cuSurfRefSetArray(self, hSurfRef: Any, hArray: Any, Flags: Any) -> tuple[Any, ...]:
        reference, array = self._surface_reference(hSurfRef), self.array(hArray)
        if unsigned(Flags, 32) != 0:
            raise invalid_value()
        image = surface_image(array)
        self._finish(reference.module.context)
        reference.array = array.handle
        self.memory.images[reference.handle] = Surface(image, self.recorder.take())
        self._write_handle(reference.variable, reference.handle)
        return OK

    @call(1)
    def cuSurfRefGetArray(self, hSurfRef: Any) -> tuple[Any, ...]:
        reference = self._surface_reference(hSurfRef)
        if not reference.array:
            raise invalid_value()
        return SUCCESS, cuda.CUarray(reference.array)


def _filter(mode: Any) -> int:
    number = integer(mode)
    if number not in (0, 1):
        raise invalid_value()
    return number

"""Texture and surface objects: what they can be made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cuda.bindings import driver as cuda

from tests.drv.simulator.execution.texturing.images import (
    AS_INTEGERS,
    BORDER,
    LAYERED,
    LINEAR,
    NORMALIZED,
    SRGB,
    SURFACE,
    WRAP,
    Images,
    described,
)

if TYPE_CHECKING:
    from tests.drv.simulator.machine import Machine

TYPES = cuda.CUresourcetype


def sampled(flags: int = 0, *, linear: bool = False) -> cuda.CUDA_TEXTURE_DESC:
    result = cuda.CUDA_TEXTURE_DESC()
    result.flags = flags
    if linear:
        result.filterMode = LINEAR
    return result


def memory_of(address: int, nbytes: int, channels: int = 1) -> cuda.CUDA_RESOURCE_DESC:
    result = cuda.CUDA_RESOURCE_DESC()
    result.resType = TYPES.CU_RESOURCE_TYPE_LINEAR
    result.res.linear.devPtr, result.res.linear.sizeInBytes = cuda.CUdeviceptr(address), nbytes
    result.res.linear.format = cuda.CUarray_format.CU_AD_FORMAT_FLOAT
    result.res.linear.numChannels = channels
    return result


def test_descriptions_come_back(machine: Machine) -> None:
    array = machine.cuArray3DCreate(described(4, 4, 3, dtype="uint8", channels=4, flags=LAYERED))
    view = cuda.CUDA_RESOURCE_VIEW_DESC()
    view.format = cuda.CUresourceViewFormat.CU_RES_VIEW_FORMAT_UINT_1X32
    view.width = view.height = 4
    view.firstLayer, view.lastLayer = 1, 2
    texture = sampled(NORMALIZED)
    texture.addressMode, texture.borderColor = [WRAP, BORDER, WRAP], [1, 2, 3, 4]
    texture.maxAnisotropy = 8
    handle = machine.cuTexObjectCreate(Images.resource(array), texture, view)
    resource = machine.cuTexObjectGetResourceDesc(handle)
    assert resource.resType == TYPES.CU_RESOURCE_TYPE_ARRAY
    assert int(resource.res.array.hArray) == int(array)
    result = machine.cuTexObjectGetTextureDesc(handle)
    assert result.addressMode == [WRAP, BORDER, WRAP]
    assert (result.borderColor, result.maxAnisotropy, result.flags) == ([1, 2, 3, 4], 8, NORMALIZED)
    seen = machine.cuTexObjectGetResourceViewDesc(handle)
    assert (seen.firstLayer, seen.lastLayer, seen.width) == (1, 2, 4)
    machine.cuTexObjectDestroy(handle)
    for name in ("GetResourceDesc", "GetTextureDesc", "GetResourceViewDesc", "Destroy"):
        assert machine.status(f"cuTexObject{name}", handle) == "INVALID_VALUE"


def test_a_texture_without_a_view(machine: Machine) -> None:
    handle = machine.cuTexObjectCreate(
        Images.resource(machine.cuArray3DCreate(described(4))), sampled(), None
    )
    assert machine.status("cuTexObjectGetResourceViewDesc", handle) == "INVALID_VALUE"


@pytest.mark.parametrize(
    ("dtype", "flags", "linear", "status"),
    [
        ("float32", 0, True, "SUCCESS"),
        ("uint8", 0, True, "SUCCESS"),
        ("uint8", AS_INTEGERS, True, "INVALID_VALUE"),
        ("uint32", 0, True, "INVALID_VALUE"),
        ("uint8", SRGB, False, "SUCCESS"),
        ("float32", SRGB, False, "INVALID_VALUE"),
        ("uint8", SRGB | AS_INTEGERS, False, "INVALID_VALUE"),
        ("float32", 1 << 10, False, "INVALID_VALUE"),
    ],
)
def test_how_elements_can_be_read(
    machine: Machine, dtype: str, flags: int, linear: bool, status: str
) -> None:
    resource = Images.resource(machine.cuArray3DCreate(described(4, 4, dtype=dtype)))
    assert machine.status("cuTexObjectCreate", resource, sampled(flags, linear=linear), None) == status


def test_mipmapped_arrays_need_normalised_coordinates(machine: Machine) -> None:
    resource = Images.resource(machine.cuMipmappedArrayCreate(described(4, 4), 2), mipmapped=True)
    assert machine.status("cuTexObjectCreate", resource, sampled(), None) == "INVALID_VALUE"
    assert machine.status("cuTexObjectCreate", resource, sampled(NORMALIZED), None) == "SUCCESS"


def test_linear_memory(machine: Machine) -> None:
    address = machine.device_memory(4096)

    def status(*arguments: int) -> str:
        return machine.status("cuTexObjectCreate", memory_of(*arguments), sampled(), None)

    assert status(address, 4096) == "SUCCESS"
    assert status(address + 4, 1024) == "INVALID_VALUE"
    assert status(address, 8192) == "INVALID_VALUE"
    assert status(address, 2) == "INVALID_VALUE"
    assert status(address, 4096, 3) == "INVALID_VALUE"
    assert status(0, 4096) == "INVALID_VALUE"


def test_memory_with_a_pitch(machine: Machine) -> None:
    resource = cuda.CUDA_RESOURCE_DESC()
    resource.resType = TYPES.CU_RESOURCE_TYPE_PITCH2D
    image = resource.res.pitch2D
    image.devPtr = cuda.CUdeviceptr(machine.device_memory(4096))
    image.format, image.numChannels = cuda.CUarray_format.CU_AD_FORMAT_FLOAT, 1
    image.width, image.height, image.pitchInBytes = 10, 64, 64
    assert machine.status("cuTexObjectCreate", resource, sampled(), None) == "SUCCESS"
    for name, value in (("pitchInBytes", 40), ("pitchInBytes", 32), ("height", 66), ("width", 0)):
        before = getattr(image, name)
        setattr(image, name, value)
        assert machine.status("cuTexObjectCreate", resource, sampled(), None) == "INVALID_VALUE", name
        setattr(image, name, before)


def test_views_that_do_not_fit(machine: Machine) -> None:
    resource = Images.resource(machine.cuArray3DCreate(described(4, 4, 3, flags=LAYERED)))

    def status(**values: Any) -> str:
        view = cuda.CUDA_RESOURCE_VIEW_DESC()
        view.width = view.height = 4
        view.lastLayer = 2
        for name, value in values.items():
            setattr(view, name, value)
        return machine.status("cuTexObjectCreate", resource, sampled(), view)

    formats = cuda.CUresourceViewFormat
    assert status() == "SUCCESS"
    assert status(lastLayer=3) == "INVALID_VALUE"
    assert status(firstLayer=2, lastLayer=1) == "INVALID_VALUE"
    assert status(lastMipmapLevel=1) == "INVALID_VALUE"
    assert status(width=8) == "INVALID_VALUE"
    assert status(format=formats.CU_RES_VIEW_FORMAT_UINT_1X8) == "INVALID_VALUE"
    assert status(format=formats.CU_RES_VIEW_FORMAT_UNSIGNED_BC1) == "NOT_SUPPORTED"


def test_surfaces(machine: Machine) -> None:
    array = machine.cuArray3DCreate(described(4, 4, flags=SURFACE))
    handle = machine.cuSurfObjectCreate(Images.resource(array))
    assert int(machine.cuSurfObjectGetResourceDesc(handle).res.array.hArray) == int(array)
    machine.cuSurfObjectDestroy(handle)
    assert machine.status("cuSurfObjectDestroy", handle) == "INVALID_VALUE"
    assert machine.status("cuSurfObjectGetResourceDesc", handle) == "INVALID_VALUE"
    other = Images.resource(machine.cuArray3DCreate(described(4, 4)))
    assert machine.status("cuSurfObjectCreate", other) == "INVALID_VALUE"
    address = machine.device_memory(4096)
    assert machine.status("cuSurfObjectCreate", memory_of(address, 4096)) == "INVALID_VALUE"


def test_objects_of_arrays_that_are_none(machine: Machine) -> None:
    resource = Images.resource(cuda.CUarray(0x77))
    assert machine.status("cuTexObjectCreate", resource, sampled(), None) == "INVALID_HANDLE"
    assert machine.status("cuSurfObjectCreate", resource) == "INVALID_HANDLE"
    resource.flags = 1
    assert machine.status("cuTexObjectCreate", resource, sampled(), None) == "INVALID_VALUE"


def test_handles_are_forgotten_with_their_context(machine: Machine) -> None:
    context = machine.cuCtxCreate(None, 0, 1)
    images = Images(machine)
    texture = images.texture(images.filled(np.zeros((1, 1, 4, 1), np.float32), 1))
    machine.cuCtxDestroy(context)
    machine.use(0)
    assert machine.status("cuTexObjectDestroy", texture) == "INVALID_VALUE"

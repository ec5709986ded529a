"""Texture and surface references of modules, as PTX older than objects has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cuda.bindings import driver as cuda

from tests.drv.simulator.execution.texturing.images import BORDER, LINEAR, NORMALIZED, SURFACE, Images
from tests.drv.simulator.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

PTX = b"""
.version 8.0
.target sm_75
.address_size 64
.global .texref image;
.global .surfref target;
.global .u64 neither;
.visible .entry look(.param .u64 out, .param .f32 x) {
    .reg .b64 %rd<3>;
    .reg .f32 %f<6>;
    ld.param.u64 %rd1, [out];
    ld.param.f32 %f5, [x];
    tex.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [image, {%f5}];
    st.global.f32 [%rd1], %f1;
    ret;
}
.visible .entry fetch(.param .u64 out, .param .u32 i) {
    .reg .b64 %rd<3>;
    .reg .b32 %r<3>;
    .reg .f32 %f<6>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [i];
    tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [image, {%r1}];
    st.global.f32 [%rd1], %f1;
    ret;
}
.visible .entry store(.param .u32 x) {
    .reg .b32 %r<3>;
    ld.param.u32 %r1, [x];
    sust.b.1d.b32.trap [target, {%r1}], {0f3F800000};
    ret;
}
\0"""


class References:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.images = Images(machine)
        self.module = machine.cuModuleLoadData(PTX)
        self.texture = machine.cuModuleGetTexRef(self.module, b"image")
        self.out = machine.device_memory(4)

    def run(self, name: bytes, *values: Any) -> None:
        function = self.machine.cuModuleGetFunction(self.module, name)
        buffers = [np.array([value]) for value in values]
        pointers = np.array([each.ctypes.data for each in buffers], np.uint64)
        self.machine.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, pointers.ctypes.data, 0)

    def read(self, name: bytes, where: Any) -> float:
        self.run(name, np.uint64(self.out), where)
        self.machine.cuCtxSynchronize()
        return float(self.machine.peek(self.out, 4).view(np.float32)[0])


def row(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32).reshape(1, 1, -1, 1)


def test_arrays_are_read_through_references(any_schedule: Callable[..., Machine]) -> None:
    references = References(any_schedule())
    machine, texture = references.machine, references.texture
    first, second = (references.images.filled(row(*numbers), 1) for numbers in ((1, 2, 4), (8, 16, 32)))
    machine.cuTexRefSetArray(texture, first, 1)
    assert int(machine.cuTexRefGetArray(texture)) == int(first)
    assert references.read(b"look", np.float32(1)) == 2
    machine.cuTexRefSetFilterMode(texture, LINEAR)
    machine.cuTexRefSetAddressMode(texture, 0, BORDER)
    assert references.read(b"look", np.float32(3)) == 2
    machine.cuTexRefSetFlags(texture, NORMALIZED)
    assert references.read(b"look", np.float32(0.5)) == 2
    # A launch reads what was bound when it was made.
    references.run(b"look", np.uint64(references.out), np.float32(0.5))
    machine.cuTexRefSetArray(texture, second, 1)
    machine.cuCtxSynchronize()
    assert machine.peek(references.out, 4).view(np.float32).tolist() == [2]
    assert references.read(b"look", np.float32(0.5)) == 16


def test_linear_memory_is_read_through_references(machine: Machine) -> None:
    references = References(machine)
    memory = machine.device_memory(1024)
    machine.cuMemcpyHtoD(memory, np.arange(256, dtype=np.float32), 1024)
    assert machine.cuTexRefSetAddress(references.texture, memory, 1024) == 0
    assert int(machine.cuTexRefGetAddress(references.texture)) == memory
    assert references.read(b"fetch", np.int32(77)) == 77
    skipped = machine.cuTexRefSetAddress(references.texture, memory + 512 + 8, 256)
    assert skipped == 8
    assert references.read(b"fetch", np.int32(1 + skipped // 4)) == 131


def test_surfaces_are_written_through_references(machine: Machine) -> None:
    references = References(machine)
    array = references.images.filled(row(0, 0, 0), 1, SURFACE)
    surface = machine.cuModuleGetSurfRef(references.module, b"target")
    assert machine.status("cuSurfRefGetArray", surface) == "INVALID_VALUE"
    machine.cuSurfRefSetArray(surface, array, 0)
    assert int(machine.cuSurfRefGetArray(surface)) == int(array)
    references.run(b"store", np.int32(8))
    assert references.images.read(array, row(0, 0, 0)).ravel().tolist() == [0, 0, 1]


def test_a_reference_to_which_nothing_is_bound(machine: Machine) -> None:
    references = References(machine)
    references.run(b"look", np.uint64(references.out), np.float32(0))
    assert machine.status("cuCtxSynchronize") == "ILLEGAL_ADDRESS"
    assert "as a texture object, which is none" in machine.driver.fault_report()


@pytest.mark.parametrize(
    ("name", "values", "initial"),
    [
        ("Format", (cuda.CUarray_format.CU_AD_FORMAT_HALF, 2), (cuda.CUarray_format.CU_AD_FORMAT_FLOAT, 1)),
        ("FilterMode", (LINEAR,), (cuda.CUfilter_mode.CU_TR_FILTER_MODE_POINT,)),
        ("MipmapFilterMode", (LINEAR,), (cuda.CUfilter_mode.CU_TR_FILTER_MODE_POINT,)),
        ("MipmapLevelBias", (0.5,), (0.0,)),
        ("MipmapLevelClamp", (1.0, 3.0), (0.0, 0.0)),
        ("MaxAnisotropy", (4,), (1,)),
        ("BorderColor", (2.0,), (0.0,)),
        ("Flags", (NORMALIZED,), (0,)),
    ],
)
def test_settings_come_back(machine: Machine, name: str, values: Any, initial: Any) -> None:
    texture = machine.cuTexRefCreate()
    for expected in (initial, values):
        if expected is values:
            getattr(machine, f"cuTexRefSet{name}")(texture, *values)
        result = getattr(machine, f"cuTexRefGet{name}")(texture)
        assert (result if len(values) > 1 else (result,)) == expected
    machine.cuTexRefDestroy(texture)
    assert machine.status(f"cuTexRefGet{name}", texture) == "INVALID_VALUE"


def test_names_of_no_references(machine: Machine) -> None:
    references = References(machine)
    assert machine.status("cuModuleGetTexRef", references.module, b"target") == "NOT_FOUND"
    assert machine.status("cuModuleGetSurfRef", references.module, b"neither") == "NOT_FOUND"
    assert machine.status("cuTexRefDestroy", references.texture) == "INVALID_VALUE"
    machine.cuModuleUnload(references.module)
    assert machine.status("cuTexRefGetFlags", references.texture) == "INVALID_VALUE"

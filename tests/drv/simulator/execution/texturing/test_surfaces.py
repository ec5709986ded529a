"""Surfaces in kernels that NVRTC has compiled: what is read and written, outside too, and races with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.drv.simulator.machine import Machine

from .images import CUBEMAP, LAYERED, NORMALIZED, SURFACE, Images, described

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCE = r"""
#define AT int x = threadIdx.x, y = blockIdx.x % height, z = blockIdx.x / height;
extern "C" __global__ void count_one(cudaSurfaceObject_t s, int height) { surf1Dwrite((float)threadIdx.x, s, threadIdx.x * 4); }
extern "C" __global__ void invert_two(cudaSurfaceObject_t s, int height) {
    AT uchar4 v = surf2Dread<uchar4>(s, x * 4, y);
    surf2Dwrite(make_uchar4(255 - v.x, 255 - v.y, 255 - v.z, v.w), s, x * 4, y);
}
extern "C" __global__ void invert_three(cudaSurfaceObject_t s, int height) {
    AT short v = surf3Dread<short>(s, x * 2, y, z); surf3Dwrite((short)~v, s, x * 2, y, z);
}
extern "C" __global__ void invert_layers(cudaSurfaceObject_t s, int height) {
    AT float2 v = surf2DLayeredread<float2>(s, x * 8, y, z); surf2DLayeredwrite(make_float2(-v.x, -v.y), s, x * 8, y, z);
}
extern "C" __global__ void invert_rows(cudaSurfaceObject_t s, int height) {
    AT int v = surf1DLayeredread<int>(s, x * 4, z); surf1DLayeredwrite(~v, s, x * 4, z);
}
extern "C" __global__ void invert_faces(cudaSurfaceObject_t s, int height) {
    AT longlong2 v; surfCubemapread(&v, s, x * 16, y, z); v.x = ~v.x; v.y = ~v.y; surfCubemapwrite(v, s, x * 16, y, z);
}
extern "C" __global__ void shift(cudaSurfaceObject_t in, cudaSurfaceObject_t out, int by) {
    int x = threadIdx.x, y = blockIdx.x;
    int v = MODE == 0 ? surf2Dread<int>(in, (x + by) * 4, y, cudaBoundaryModeClamp)
          : MODE == 1 ? surf2Dread<int>(in, (x + by) * 4, y, cudaBoundaryModeZero) : surf2Dread<int>(in, (x + by) * 4, y);
    if (MODE == 3) surf2Dwrite(v, out, (x + by) * 4, y, cudaBoundaryModeZero); else surf2Dwrite(v, out, x * 4, y);
}
extern "C" __global__ void scatter(cudaSurfaceObject_t s, int by) {
    surf2Dwrite(7, s, (threadIdx.x + by) * 4, 0, MODE == 0 ? cudaBoundaryModeClamp : cudaBoundaryModeZero);
}
extern "C" __global__ void misaligned(cudaSurfaceObject_t s) { surf2Dwrite(7, s, 2 + threadIdx.x * 4, 0); }
extern "C" __global__ void reduce(cudaSurfaceObject_t s) {
    asm volatile("sured.b.add.2d.u32.trap [%0, {%1, %2}], %3;" :: "l"(s), "r"(4), "r"(1), "r"(threadIdx.x));
    asm volatile("sured.b.max.2d.s32.trap [%0, {%1, %2}], %3;" :: "l"(s), "r"(8), "r"(1), "r"((int)threadIdx.x - 20));
    asm volatile("sured.p.or.2d.b32.zero [%0, {%1, %2}], %3;" :: "l"(s), "r"(3), "r"(1), "r"(1 << threadIdx.x));
    asm volatile("sured.p.or.2d.b32.zero [%0, {%1, %2}], %3;" :: "l"(s), "r"(-3), "r"(1), "r"(1 << threadIdx.x));
}
extern "C" __global__ void formatted(cudaSurfaceObject_t s, float v) {
    asm volatile("sust.p.2d.v2.b32.trap [%0, {%1, %2}], {%3, %4};"
        :: "l"(s), "r"(threadIdx.x), "r"(0), "f"(v), "f"(-v));
}
extern "C" __global__ void sizes(cudaSurfaceObject_t s, int* out) {
    asm volatile("suq.width.b32 %0, [%1];" : "=r"(out[0]) : "l"(s));
    asm volatile("suq.height.b32 %0, [%1];" : "=r"(out[1]) : "l"(s));
}
extern "C" __global__ void fill(cudaSurfaceObject_t s, float v) { surf2Dwrite(v, s, threadIdx.x * 4, blockIdx.x); }
extern "C" __global__ void look(cudaTextureObject_t t, float* out) {
    out[threadIdx.x] = tex2D<float>(t, threadIdx.x + 0.5f, 1.5f);
}
extern "C" __global__ void write_and_fetch(cudaSurfaceObject_t s, cudaTextureObject_t t, float* out) {
    surf2Dwrite(1.0f, s, threadIdx.x * 4, 0);
    out[threadIdx.x] = tex2D<float>(t, threadIdx.x + 0.5f, 0.5f);
}
extern "C" __global__ void all_to_one(cudaSurfaceObject_t s) { surf2Dwrite((float)threadIdx.x, s, 4, 1); }
"""


def source(mode: int = 2) -> str:
    return f"#define MODE {mode}\n{SOURCE}"


@pytest.fixture
def images() -> Images:
    return Images(Machine(check="full"))


def outcome(images: Images) -> str:
    """Status after everything is done, and the first line of a report."""
    (status,) = images.machine.driver.cuCtxSynchronize()
    return f"{status.name.removeprefix('CUDA_')}: {images.machine.driver.fault_report()}"


def random(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return (
        np.random.default_rng(0)
        .integers(0, 256, (*shape[:-1], shape[-1] * np.dtype(dtype).itemsize), np.uint8)
        .view(dtype)
    )


CASES: list[tuple[str, tuple[int, ...], str, int, int, Callable[[np.ndarray], np.ndarray]]] = [
    ("invert_two", (1, 3, 5, 4), "uint8", 2, 0, lambda a: np.concatenate([255 - a[..., :3], a[..., 3:]], -1)),
    ("invert_three", (2, 3, 5, 1), "int16", 3, 0, lambda a: ~a),
    ("invert_rows", (3, 1, 5, 1), "int32", 1, LAYERED, lambda a: ~a),
    ("invert_faces", (6, 4, 4, 4), "uint32", 2, CUBEMAP, lambda a: ~a),
]


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "rank", "flags", "expected"), CASES, ids=[case[0] for case in CASES]
)
def test_elements_of_every_shape(
    images: Images, name: str, shape: tuple[int, ...], dtype: str, rank: int, flags: int, expected: Any
) -> None:
    data = random(shape, dtype)
    array = images.filled(data, rank, flags | SURFACE)
    surface = images.surface(array)
    images.run(source(), name, shape[0] * shape[1], shape[2], surface, np.int32(shape[1]))
    np.testing.assert_array_equal(images.read(array, data), expected(data))
    assert not list(images.machine.driver.findings)


def test_layers_of_floats(images: Images) -> None:
    data = np.random.default_rng(0).standard_normal((4, 3, 5, 2)).astype(np.float32)
    array = images.filled(data, 2, LAYERED | SURFACE)
    images.run(source(), "invert_layers", 12, 5, images.surface(array), np.int32(3))
    np.testing.assert_array_equal(images.read(array, data), -data)


@pytest.mark.parametrize("by", [-2, 0, 3])
@pytest.mark.parametrize("mode", [0, 1])
def test_reads_outside_are_clamped_or_zero(images: Images, mode: int, by: int) -> None:
    data = random((1, 2, 6, 1), "int32")
    arrays = [images.filled(each, 2, SURFACE) for each in (data, np.zeros_like(data))]
    surfaces = [images.surface(each) for each in arrays]
    images.run(source(mode), "shift", 2, 6, *surfaces, np.int32(by))
    x = np.arange(6) + by
    inside = (x >= 0) & (x < 6)
    expected = data[:, :, np.clip(x, 0, 5)]
    if mode == 1:
        expected = np.where(inside[None, None, :, None], expected, 0)
    np.testing.assert_array_equal(images.read(arrays[1], data), expected)


def test_writes_outside_do_nothing_or_go_to_the_edge(images: Images) -> None:
    zeros = np.zeros((1, 2, 6, 1), np.int32)
    for mode, expected in ((1, [0, 0, 0, 0, 7, 7]), (0, [0, 0, 0, 0, 7, 7])):
        array = images.filled(zeros, 2, SURFACE)
        images.run(source(mode), "scatter", 1, 4 if mode else 3, images.surface(array), np.int32(4))
        assert images.read(array, zeros)[0, 0, :, 0].tolist() == expected
    array = images.filled(zeros, 2, SURFACE)
    images.run(source(0), "scatter", 1, 1, images.surface(array), np.int32(100))
    assert images.read(array, zeros)[0, 0, :, 0].tolist() == [0, 0, 0, 0, 0, 7]


def test_what_is_outside_without_a_boundary_mode_traps(images: Images) -> None:
    array = images.filled(np.zeros((1, 2, 6, 1), np.int32), 2, SURFACE)
    images.run(source(), "shift", 2, 6, *[images.surface(array)] * 2, np.int32(2))
    text = outcome(images)
    assert text.startswith("ERROR_LAUNCH_FAILED: kernel 'shift' read 4 bytes outside a surface")
    assert "thread (4, 0, 0), at byte 24, row 0 of a surface with 24 bytes a row, 2 rows" in text
    assert "CUDA array '6 x 2 elements of int32'" in text
    assert "test.cu:" in text


def test_bytes_that_are_not_aligned(images: Images) -> None:
    array = images.filled(np.zeros((1, 2, 6, 1), np.int32), 2, SURFACE)
    images.run(source(), "misaligned", 1, 2, images.surface(array))
    assert outcome(images).startswith(
        "ERROR_MISALIGNED_ADDRESS: kernel 'misaligned' wrote 4 bytes of a surface"
    )


def test_reductions_and_formatted_stores_and_sizes(images: Images) -> None:
    zeros = np.full((1, 2, 6, 1), 0, np.int32)
    array = images.filled(zeros, 2, SURFACE)
    images.run(source(), "reduce", 1, 10, images.surface(array))
    assert images.read(array, zeros)[0, 1, :, 0].tolist() == [0, 45, 0, 1023, 0, 0]
    halves = np.zeros((1, 1, 4, 4), np.float16)
    array = images.filled(halves, 2, SURFACE)
    images.run(source(), "formatted", 1, 4, images.surface(array), np.float32(0.1))
    np.testing.assert_array_equal(
        images.read(array, halves)[0, 0, :, :2], np.full((4, 2), [0.1, -0.1], np.float16)
    )
    out = images.machine.device_memory(8)
    images.run(source(), "sizes", 1, 1, images.surface(array), out)
    images.machine.cuCtxSynchronize()
    assert images.machine.peek(out, 8).view(np.int32).tolist() == [4, 1]


# Objects that are not what they should be


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ("surface", "uses the surface object"),
        ("texture", "as a surface object, which is a texture"),
        ("neither", "as a surface object, which is none"),
    ],
)
def test_objects_that_are_gone_or_of_another_kind(images: Images, which: str, message: str) -> None:
    array = images.filled(np.zeros((1, 2, 6, 1), np.float32), 2, SURFACE)
    handles = {"surface": images.surface(array), "texture": images.texture(array), "neither": 0x1234}
    images.machine.cuSurfObjectDestroy(handles["surface"])
    images.run(source(), "fill", 1, 6, handles[which], np.float32(1))
    text = outcome(images)
    assert text.startswith("ERROR_ILLEGAL_ADDRESS")
    assert message in text
    assert ("which was destroyed at" in text) is (which == "surface")


def test_an_array_that_is_gone(images: Images) -> None:
    array = images.filled(np.zeros((1, 2, 6, 1), np.float32), 2, SURFACE)
    surface = images.surface(array)
    images.machine.cuArrayDestroy(array)
    images.run(source(), "fill", 1, 6, surface, np.float32(1))
    assert "of memory that was freed" in outcome(images)


def test_an_object_of_another_geometry(images: Images) -> None:
    array = images.filled(np.zeros((2, 2, 6, 1), np.float32), 3, SURFACE)
    images.run(source(), "fill", 1, 6, images.surface(array), np.float32(1))
    assert "uses an image of 3 dimensions as .2d" in outcome(images)


# Races


def test_writes_that_race_with_fetches_of_another_stream(any_schedule: Callable[..., Machine]) -> None:
    images = Images(any_schedule(check="race"))
    array = images.filled(np.zeros((1, 2, 6, 1), np.float32), 2, SURFACE)
    surface, texture = images.surface(array), images.texture(array)
    out = images.machine.device_memory(24)
    # The copy into the array is one of the default stream, which these do not wait for.
    images.machine.cuCtxSynchronize()
    writer, reader = images.machine.stream(), images.machine.stream()
    images.run(source(), "fill", 2, 6, surface, np.float32(1), stream=writer)
    event = images.machine.event()
    images.machine.cuEventRecord(event, writer)
    images.machine.cuStreamWaitEvent(reader, event, 0)
    images.run(source(), "look", 1, 6, texture, out, stream=reader)
    images.machine.cuCtxSynchronize()
    assert not list(images.machine.driver.findings)
    np.testing.assert_array_equal(images.machine.peek(out, 24).view(np.float32), 1)
    images.run(source(), "fill", 2, 6, surface, np.float32(2), stream=writer)
    images.run(source(), "look", 1, 6, texture, out, stream=reader)
    with images.machine.driver.findings.collecting():
        images.machine.driver.cuCtxSynchronize()
    (finding,) = images.machine.driver.findings
    assert finding.kind == "race"
    assert "CUDA array" in str(finding)


def test_threads_that_write_one_element(images: Images) -> None:
    array = images.filled(np.zeros((1, 2, 6, 1), np.float32), 2, SURFACE)
    images.run(source(), "all_to_one", 1, 6, images.surface(array))
    with images.machine.driver.findings.collecting():
        images.machine.driver.cuCtxSynchronize()
    (finding,) = images.machine.driver.findings
    assert "all_to_one" in str(finding)
    assert "sust.b.2d.b32.trap" in str(finding)


def test_fetches_do_not_see_what_the_same_launch_has_written(images: Images) -> None:
    array = images.filled(np.zeros((1, 2, 6, 1), np.float32), 2, SURFACE)
    surface, texture = images.surface(array), images.texture(array)
    out = images.machine.device_memory(24)
    images.run(source(), "write_and_fetch", 1, 6, surface, texture, out)
    with images.machine.driver.findings.collecting():
        images.machine.driver.cuCtxSynchronize()
    (finding,) = images.machine.driver.findings
    assert "through a cache that does not see what the same launch has written" in str(finding)
    # In two launches there is nothing wrong with it.
    fine = Images(Machine(check="full"))
    array = fine.filled(np.zeros((1, 2, 6, 1), np.float32), 2, SURFACE)
    surface, texture = fine.surface(array), fine.texture(array, flags=0)
    out = fine.machine.device_memory(24)
    fine.run(source(), "fill", 2, 6, surface, np.float32(3))
    fine.run(source(), "look", 1, 6, texture, out)
    fine.machine.cuCtxSynchronize()
    assert not list(fine.machine.driver.findings)


def test_texels_that_were_never_written(images: Images) -> None:
    array = images.machine.cuArray3DCreate(described(6, 2))
    out = images.machine.device_memory(24)
    images.run(source(), "look", 1, 2, images.texture(array, flags=NORMALIZED), out)
    with images.machine.driver.findings.collecting():
        images.machine.driver.cuCtxSynchronize()
    assert [finding.kind for finding in images.machine.driver.findings] == ["uninitialized"]

"""Fetches of textures in kernels that NVRTC has compiled, against the rules of the CUDA Programming Guide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drv.simulator.machine import Machine

from .images import (
    AS_INTEGERS,
    BORDER,
    CLAMP,
    CUBEMAP,
    GATHER,
    LAYERED,
    LINEAR,
    MIRROR,
    NORMALIZED,
    POINT,
    SEAMLESS,
    SRGB,
    WRAP,
    Images,
    cuda,
    described,
    sampled,
)

SOURCE = r"""
#define KERNEL(name, type, expression) extern "C" __global__ void name(cudaTextureObject_t t, int n, type* out, \
    const float* px, const float* py, const float* pz, const float* pw) { \
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; \
    float x = px[i], y = py ? py[i] : 0, z = pz ? pz[i] : 0, w = pw ? pw[i] : 0; (void)y; (void)z; (void)w; \
    out[i] = expression; }
KERNEL(one, float4, tex1D<float4>(t, x))
KERNEL(two, float4, tex2D<float4>(t, x, y))
KERNEL(three, float4, tex3D<float4>(t, x, y, z))
KERNEL(one_layered, float4, tex1DLayered<float4>(t, x, (int)w))
KERNEL(two_layered, float4, tex2DLayered<float4>(t, x, y, (int)w))
KERNEL(cube, float4, texCubemap<float4>(t, x, y, z))
KERNEL(cube_layered, float4, texCubemapLayered<float4>(t, x, y, z, (int)w))
KERNEL(two_level, float4, tex2DLod<float4>(t, x, y, w))
KERNEL(two_gradient, float4, tex2DGrad<float4>(t, x, y, make_float2(z, 0), make_float2(0, w)))
KERNEL(three_level, float4, tex3DLod<float4>(t, x, y, z, w))
KERNEL(fetched, float4, tex1Dfetch<float4>(t, (int)x))
KERNEL(signed_two, int4, tex2D<int4>(t, x, y))
KERNEL(unsigned_two, uint4, tex2D<uint4>(t, x, y))
KERNEL(gathered, float4, tex2Dgather<float4>(t, x, y, 1))
extern "C" __global__ void sizes(cudaTextureObject_t t, int n, int4* out, const float*) {
    asm volatile("txq.width.b32 %0, [%1];" : "=r"(out->x) : "l"(t));
    asm volatile("txq.height.b32 %0, [%1];" : "=r"(out->y) : "l"(t));
    asm volatile("txq.depth.b32 %0, [%1];" : "=r"(out->z) : "l"(t));
    asm volatile("txq.level.width.b32 %0, [%1], 1;" : "=r"(out->w) : "l"(t));
}
extern "C" __global__ void offset(cudaTextureObject_t t, int n, float4* out, const float* px, const float* py) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
    float4 v;
    asm volatile("tex.2d.v4.f32.f32 {%0, %1, %2, %3}, [%4, {%5, %6}], {-2, 1};"
        : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(t), "f"(px[i]), "f"(py[i]));
    out[i] = v;
}
extern "C" __global__ void each_its_own(const cudaTextureObject_t* t, float* out) {
    out[threadIdx.x] = tex2D<float>(t[threadIdx.x % 3], 1.5f, 0.5f);
}
"""
MODES = (WRAP, CLAMP, MIRROR, BORDER)
COUNT = 40


@pytest.fixture(scope="module")
def images() -> Images:
    return Images(Machine())


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    if dtype.startswith("float"):
        return random.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def as_floats(data: np.ndarray) -> np.ndarray:
    """What is read of elements that are read as floats."""
    if data.dtype.kind == "f":
        return data.astype(np.float64)
    return np.maximum(data.astype(np.float64) / np.iinfo(data.dtype).max, -1)


def points(sizes: tuple[int, ...], *, normalized: bool, seed: int = 0) -> list[np.ndarray]:
    """Points inside and around, some of them on edges and in the middle of texels."""
    random = np.random.default_rng(seed)
    result = []
    for size in sizes:
        x = random.uniform(-1.5 * size, 2.5 * size, COUNT)
        x[: COUNT // 2] = np.round(x[: COUNT // 2] * 2) / 2
        result.append((x / size if normalized else x).astype(np.float32))
    return result


@settings(max_examples=25, deadline=None)
@given(
    rank=st.integers(1, 3),
    channels=st.sampled_from([1, 2, 4]),
    dtype=st.sampled_from(["float32", "float16", "uint8", "int8", "uint16", "int16"]),
    modes=st.tuples(*[st.sampled_from(MODES)] * 3),
    linear=st.booleans(),
    normalized=st.booleans(),
    sizes=st.tuples(*[st.integers(1, 6)] * 3),
    seed=st.integers(0, 1000),
)
def test_fetches_follow_the_programming_guide(
    images: Images,
    rank: int,
    channels: int,
    dtype: str,
    modes: tuple[Any, Any, Any],
    linear: bool,
    normalized: bool,
    sizes: tuple[int, int, int],
    seed: int,
) -> None:
    extents = tuple(size if axis < rank else 1 for axis, size in enumerate(sizes))
    data = values((*extents[::-1], channels), dtype, seed)
    border = (0.25, -3, 8, 1e6)
    array = images.filled(data, rank)
    texture = images.texture(
        array,
        modes=modes,
        filter_mode=LINEAR if linear else POINT,
        flags=NORMALIZED if normalized else 0,
        border=border,
    )
    where = points(extents[:rank], normalized=normalized, seed=seed)
    name = ("one", "two", "three")[rank - 1]
    padded = [*where, *[np.zeros(COUNT, np.float32)] * (4 - rank)]
    out = images.fetch(SOURCE, name, texture, padded, np.float32)
    floats = as_floats(data)
    expected = [
        sampled(floats, point, modes, linear=linear, normalized=normalized, border=border)
        for point in zip(*(each.tolist() for each in where), strict=True)
    ]
    if linear:
        np.testing.assert_allclose(out[:, :channels], expected, rtol=1e-6, atol=1e-6)
    else:
        np.testing.assert_array_equal(out[:, :channels], np.array(expected, np.float32))
    images.machine.cuTexObjectDestroy(texture)
    images.machine.cuArrayDestroy(array)


def test_fractions_have_8_bits(images: Images) -> None:
    # 256 steps between two texels, whatever the coordinate says between them.
    texture = images.texture(
        images.filled(np.array([0, 256], np.float32).reshape(1, 1, 2, 1), 1), filter_mode=LINEAR
    )
    x = (np.arange(1025, dtype=np.float32) / 1024) + 0.5
    out = images.fetch(SOURCE, "one", texture, [x] * 4, np.float32)[:, 0]
    np.testing.assert_array_equal(out, np.floor(np.arange(1025) / 4 + 0.5))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32"])
def test_integers_stay_integers_where_asked_for(images: Images, dtype: str) -> None:
    data = values((1, 4, 5, 2), dtype)
    texture = images.texture(images.filled(data, 2), flags=AS_INTEGERS)
    y, x = np.divmod(np.arange(20), 5)
    where = [each.astype(np.float32) for each in (x, y, x, x)]
    signed = dtype.startswith("i")
    name, result = ("signed_two", np.int32) if signed else ("unsigned_two", np.uint32)
    out = images.fetch(SOURCE, name, texture, where, result)
    np.testing.assert_array_equal(out[:, :2], data.reshape(20, 2))


def test_layers(images: Images) -> None:
    data = values((5, 3, 4, 1), "float32")
    texture = images.texture(images.filled(data, 2, LAYERED), filter_mode=LINEAR)
    x, y = points((4, 3), normalized=False)
    layer = np.arange(COUNT, dtype=np.float32) % 7
    out = images.fetch(SOURCE, "two_layered", texture, [x, y, x, layer], np.float32)[:, 0]
    expected = [
        sampled(data[min(int(k), 4)][None], point, (CLAMP, CLAMP), linear=True, normalized=False)[0]
        for k, *point in zip(layer, x.tolist(), y.tolist(), strict=True)
    ]
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-6)
    rows = values((3, 1, 6, 1), "float32")
    texture = images.texture(images.filled(rows, 1, LAYERED))
    out = images.fetch(SOURCE, "one_layered", texture, [x, x, x, layer], np.float32)[:, 0]
    index = np.clip(np.floor(x), 0, 5).astype(int), np.minimum(layer, 2).astype(int)
    np.testing.assert_array_equal(out, rows[index[1], 0, index[0], 0])


def test_cubemaps(images: Images) -> None:
    # Each texel tells its face and place.
    faces = np.arange(2 * 6 * 4 * 4, dtype=np.float32).reshape(12, 4, 4, 1)
    one = images.texture(images.filled(faces[:6], 2, CUBEMAP))
    # A direction along each axis, and what the table of the Programming Guide makes of it.
    cases = [
        ((2, -1, -1.5), 0, 1.5 / 2, 1 / 2),
        ((-2, -1, -1.5), 1, -1.5 / 2, 1 / 2),
        ((0.5, 4, 3), 2, 0.5 / 4, 3 / 4),
        ((0.5, -4, 3), 3, 0.5 / 4, -3 / 4),
        ((1, 0.5, 2), 4, 1 / 2, -0.5 / 2),
        ((1, 0.5, -2), 5, -1 / 2, -0.5 / 2),
    ]
    where = [np.array(each, np.float32) for each in zip(*(direction for direction, *_ in cases), strict=True)]
    where.append(np.array([0, 1, 0, 1, 0, 1], np.float32))
    expected = [faces[f, int((t + 1) / 2 * 4), int((s + 1) / 2 * 4), 0] for _, f, s, t in cases]
    np.testing.assert_array_equal(images.fetch(SOURCE, "cube", one, where, np.float32)[:, 0], expected)
    several = images.texture(images.filled(faces, 2, CUBEMAP | LAYERED))
    out = images.fetch(SOURCE, "cube_layered", several, where, np.float32)[:, 0]
    np.testing.assert_array_equal(out, np.array(expected) + 96 * where[3])


def test_seamless_cubemaps_filter_across_edges(images: Images) -> None:
    # Each face has one value, so that an edge is half of one and half of the other.
    faces = np.broadcast_to(np.array([1, 2, 4, 8, 16, 32], np.float32)[:, None, None, None], (6, 4, 4, 1))
    array = images.filled(np.ascontiguousarray(faces), 2, CUBEMAP)
    where = [np.array(each, np.float32) for each in ([1, 1], [1, 0], [0, -1], [0, 0])]
    seamless = images.texture(array, filter_mode=LINEAR, flags=SEAMLESS | NORMALIZED)
    np.testing.assert_array_equal(
        images.fetch(SOURCE, "cube", seamless, where, np.float32)[:, 0], [2.5, 16.5]
    )
    apart = images.texture(array, filter_mode=LINEAR, flags=NORMALIZED)
    np.testing.assert_array_equal(images.fetch(SOURCE, "cube", apart, where, np.float32)[:, 0], [1, 1])


def mipmapped(images: Images, levels: int = 3) -> tuple[Any, list[float]]:
    """A mipmapped array whose levels have one value each."""
    whole = images.machine.cuMipmappedArrayCreate(described(8, 4), levels)
    numbers = [10.0 ** (level + 1) for level in range(levels)]
    for level, number in enumerate(numbers):
        shape = 1, max(4 >> level, 1), max(8 >> level, 1), 1
        images.write(
            images.machine.cuMipmappedArrayGetLevel(whole, level), np.full(shape, number, np.float32)
        )
    return whole, numbers


def test_levels_of_detail(images: Images) -> None:
    whole, (ten, hundred, thousand) = mipmapped(images)
    level = np.array([-1, 0, 0.4, 0.5, 1, 1.25, 2, 9], np.float32)
    middle = np.full(8, 0.5, np.float32)

    def levels_read(**options: Any) -> list[float]:
        texture = images.texture(whole, mipmapped=True, flags=NORMALIZED, **options)
        return images.fetch(SOURCE, "two_level", texture, [middle] * 3 + [level], np.float32)[:, 0].tolist()

    nearest = [ten, ten, ten, hundred, hundred, hundred, thousand, thousand]
    assert levels_read(levels=(0, 9)) == nearest
    assert levels_read(levels=(0, 1))[-1] == hundred
    assert levels_read(levels=(1, 2))[0] == hundred
    assert levels_read(levels=(0, 9), bias=1)[1] == hundred
    between = levels_read(levels=(0, 9), mip_filter=LINEAR)
    fraction = np.round(np.float32(0.4) * 256) / 256
    expected = [ten, ten, ten + 90 * fraction, 55, hundred, 325, thousand, thousand]
    np.testing.assert_allclose(between, expected, rtol=1e-6)
    images.machine.cuMipmappedArrayDestroy(whole)


def test_gradients_choose_the_level(images: Images) -> None:
    whole, numbers = mipmapped(images)
    texture = images.texture(whole, mipmapped=True, flags=NORMALIZED, levels=(0, 9))
    middle = np.full(4, 0.5, np.float32)
    # One, two and four texels of the largest level from one thread to the next.
    across = np.array([1, 2, 4, 0], np.float32) / 8
    down = np.array([0, 0, 0, 2], np.float32) / 4
    out = images.fetch(SOURCE, "two_gradient", texture, [middle, middle, across, down], np.float32)[:, 0]
    np.testing.assert_array_equal(out, [*numbers, numbers[1]])


def test_colours_in_the_srgb_encoding(images: Images) -> None:
    data = np.arange(256, dtype=np.uint8).reshape(1, 1, 64, 4)
    texture = images.texture(images.filled(data, 1), flags=SRGB)
    x = np.arange(64, dtype=np.float32)
    out = images.fetch(SOURCE, "one", texture, [x] * 4, np.float32)
    encoded = data.reshape(64, 4) / 255
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    np.testing.assert_allclose(out[:, :3], linear[:, :3], rtol=1e-6)
    np.testing.assert_allclose(out[:, 3], encoded[:, 3], rtol=1e-6)


def test_linear_memory_is_fetched_by_index(images: Images) -> None:
    data = values((50, 2), "float16")
    memory = images.machine.device_memory(data.nbytes)
    images.machine.cuMemcpyHtoD(memory, data, data.nbytes)
    resource = cuda.CUDA_RESOURCE_DESC()
    resource.resType = cuda.CUresourcetype.CU_RESOURCE_TYPE_LINEAR
    linear = resource.res.linear
    linear.devPtr, linear.sizeInBytes = cuda.CUdeviceptr(memory), data.nbytes
    linear.format, linear.numChannels = cuda.CUarray_format.CU_AD_FORMAT_HALF, 2
    texture = int(images.machine.cuTexObjectCreate(resource, cuda.CUDA_TEXTURE_DESC(), None))
    x = np.array([-1, 0, 17, 49, 50, 1e6], np.float32)
    out = images.fetch(SOURCE, "fetched", texture, [x] * 4, np.float32)
    np.testing.assert_array_equal(out[1:4, :2], data[[0, 17, 49]])
    np.testing.assert_array_equal(out[[0, 4, 5], :2], 0)
    images.machine.cuMemFree(memory)


def test_memory_with_a_pitch(images: Images) -> None:
    data = values((1, 5, 7, 1), "float32")
    memory, pitch = images.machine.cuMemAllocPitch(28, 5, 4)
    for row in range(5):
        images.machine.cuMemcpyHtoD(int(memory) + row * pitch, np.ascontiguousarray(data[0, row]), 28)
    resource = cuda.CUDA_RESOURCE_DESC()
    resource.resType = cuda.CUresourcetype.CU_RESOURCE_TYPE_PITCH2D
    image = resource.res.pitch2D
    image.devPtr, image.width, image.height, image.pitchInBytes = memory, 7, 5, pitch
    image.format, image.numChannels = cuda.CUarray_format.CU_AD_FORMAT_FLOAT, 1
    description = cuda.CUDA_TEXTURE_DESC()
    description.filterMode, description.addressMode = LINEAR, [BORDER] * 3
    texture = int(images.machine.cuTexObjectCreate(resource, description, None))
    x, y = points((7, 5), normalized=False)
    out = images.fetch(SOURCE, "two", texture, [x, y, x, x], np.float32)[:, 0]
    expected = [
        sampled(data, point, (BORDER, BORDER), linear=True, normalized=False)[0]
        for point in zip(x.tolist(), y.tolist(), strict=True)
    ]
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-6)


def test_gathering(images: Images) -> None:
    data = values((1, 4, 5, 2), "float32")
    texture = images.texture(images.filled(data, 2, GATHER), filter_mode=LINEAR)
    x, y = points((5, 4), normalized=False)
    out = images.fetch(SOURCE, "gathered", texture, [x, y, x, x], np.float32)
    i, j = np.floor(x - 0.5).astype(int), np.floor(y - 0.5).astype(int)
    for column, (right, below) in enumerate(((0, 1), (1, 1), (1, 0), (0, 0))):
        expected = data[0, np.clip(j + below, 0, 3), np.clip(i + right, 0, 4), 1]
        np.testing.assert_array_equal(out[:, column], expected)


def test_offsets_sizes_and_objects_of_their_own_for_threads(images: Images) -> None:
    data = values((1, 4, 8, 1), "float32")
    texture = images.texture(images.filled(data, 2))
    x, y = np.array([3, 0], np.float32), np.array([1, 3], np.float32)
    np.testing.assert_array_equal(
        images.fetch(SOURCE, "offset", texture, [x, y], np.float32)[:, 0],
        [data[0, 2, 1, 0], data[0, 3, 0, 0]],
    )
    whole, _ = mipmapped(images)
    several = images.texture(whole, mipmapped=True, flags=NORMALIZED)
    np.testing.assert_array_equal(images.fetch(SOURCE, "sizes", several, [x[:1]], np.int32), [[8, 4, 0, 4]])
    handles = [images.texture(images.filled(np.full((1, 2, 3, 1), v, np.float32), 2)) for v in (5, 6, 7)]
    table, out = images.machine.device_memory(24), images.machine.device_memory(4 * 40)
    images.machine.cuMemcpyHtoD(table, np.array(handles, np.uint64), 24)
    images.run(SOURCE, "each_its_own", 1, 40, table, out)
    images.machine.cuCtxSynchronize()
    np.testing.assert_array_equal(images.machine.peek(out, 160).view(np.float32), 5 + np.arange(40) % 3)


def test_views_of_resources(images: Images) -> None:
    data = values((5, 3, 4, 1), "uint32")
    array = images.filled(data, 2, LAYERED)
    view = cuda.CUDA_RESOURCE_VIEW_DESC()
    view.format = cuda.CUresourceViewFormat.CU_RES_VIEW_FORMAT_UINT_4X8
    view.width, view.height, view.firstLayer, view.lastLayer = 4, 3, 1, 3
    texture = images.texture(array, view=view)
    y, x = (np.zeros(3, np.float32), np.ones(3, np.float32))
    out = images.fetch(SOURCE, "two_layered", texture, [x, y, x, np.array([0, 2, 9], np.float32)], np.float32)
    expected = data[[1, 3, 3], 0, 1, :].view(np.uint8) / 255
    np.testing.assert_allclose(out, expected, rtol=1e-6)

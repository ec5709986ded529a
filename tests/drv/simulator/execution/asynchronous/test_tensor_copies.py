"""``cp.async.bulk.tensor``: boxes of 1 to 5 dimensions, out of bounds too, all swizzles, interleaving, im2col, multicast."""

from __future__ import annotations

import ctypes
import itertools

import ml_dtypes
import numpy as np
import pytest
from cuda.bindings import driver as cuda
from hypothesis import given, settings
from hypothesis import strategies as st

from .programs import MBARRIERS, SCHEDULES, Device, counted, line_of, raced_lines, swizzled, tensor_type

pytestmark = pytest.mark.simulator_only

DTYPES = {
    "u8": np.uint8, "u16": np.uint16, "s32": np.int32, "u64": np.uint64, "f16": np.float16, "f32": np.float32,
    "f64": np.float64, "bf16": ml_dtypes.bfloat16,
}  # fmt: skip


def load_source(rank: int, mode: str = "", extra: str = "", operands: str = "") -> str:
    """A kernel that loads a box and copies shared memory out, as it is."""
    numbers = ", ".join(f"%{2 + i}" for i in range(rank))
    inputs = "".join(f', "r"(at[{i}])' for i in range(rank))
    offsets = (
        ", {" + ", ".join(f"%{3 + rank + i}" for i in range(rank - 2)) + "}" if mode == ".im2col" else ""
    )
    away = "".join(f', "h"(away[{i}])' for i in range(rank - 2)) if mode == ".im2col" else ""
    return (
        MBARRIERS
        + rf"""
struct At {{ int at[5]; unsigned short away[3]; }};
extern "C" __global__ void load(const __grid_constant__ TensorMap map, const At where, unsigned char* out, unsigned bytes, unsigned base) {{
    extern __shared__ __align__(1024) unsigned char cells[];
    __shared__ u64 full;
    const int* at = where.at; const unsigned short* away = where.away;
    if (threadIdx.x == 0) {{
        init(&full, 1);
        fence_async();
        expect(&full, bytes);
        asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global{mode or ".tile"}.mbarrier::complete_tx::bytes"
            " [%0], [%1, {{{numbers}}}], [%{2 + rank}]{offsets};"
            :: "r"(shared(cells + base)), "l"(&map){inputs}, "r"(shared(&full)){away} : "memory");
    }}
    __syncthreads();
    wait(&full, 0);
    for (unsigned i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = cells[base + i];
}}
"""
    )


def store_source(rank: int, operation: str = "") -> str:
    """A kernel that stores what is in global memory to a box."""
    numbers = ", ".join(f"%{2 + i}" for i in range(rank))
    inputs = "".join(f', "r"(at[{i}])' for i in range(rank))
    head = f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta{operation}.tile.bulk_group"
    if not operation:
        head = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"
    return (
        MBARRIERS
        + rf"""
struct At {{ int at[5]; unsigned short away[3]; }};
extern "C" __global__ void store(const __grid_constant__ TensorMap map, const At where, const unsigned char* in, unsigned bytes) {{
    extern __shared__ __align__(1024) unsigned char cells[];
    const int* at = where.at;
    for (unsigned i = threadIdx.x; i < bytes; i += blockDim.x) cells[i] = in[i];
    FENCE;
    __syncthreads();
    if (threadIdx.x == 0) {{
        asm volatile("{head} [%1, {{{numbers}}}], [%0];" :: "r"(shared(cells)), "l"(&map){inputs} : "memory");
        commit();
        wait_read();
    }}
}}
""".replace("FENCE;", "fence_async();")
    )


def where(coordinates: tuple[int, ...], offsets: tuple[int, ...] = ()) -> bytes:
    return (
        np.array([*coordinates, *[0] * (5 - len(coordinates))], np.int32).tobytes()
        + np.array([*offsets, *[0] * (3 - len(offsets))], np.uint16).tobytes()
        + bytes(2)
    )


def box_of(
    array: np.ndarray,
    coordinates: tuple[int, ...],
    counts: tuple[int, ...],
    steps: tuple[int, ...],
    fill: object,
) -> np.ndarray:
    """The box as NumPy takes it; everything begins with the innermost dimension, the array ends with it."""
    result = np.full(counts[::-1], fill, array.dtype)
    for place in itertools.product(*map(range, counts)):
        index = tuple(at + step * each for at, step, each in zip(coordinates, steps, place, strict=True))
        if all(0 <= each < size for each, size in zip(index, array.shape[::-1], strict=True)):
            result[place[::-1]] = array[index[::-1]]
    return result


def load(
    device: Device,
    source: str,
    tensor_map: bytes,
    coordinates: tuple[int, ...],
    nbytes: int,
    offsets: tuple[int, ...] = (),
    base: int = 0,
) -> np.ndarray:
    out = device.memory(np.full(nbytes, 170, np.uint8))
    device.launch(
        source,
        "load",
        1,
        64,
        tensor_map,
        where(coordinates, offsets),
        np.uint64(out),
        np.uint32(nbytes),
        np.uint32(base),
        shared=nbytes + base,
    )
    return device.read(out, np.zeros(nbytes, np.uint8))


@st.composite
def boxes(draw: st.DrawFn) -> tuple:
    rank = draw(st.integers(1, 5))
    ptx_type = draw(st.sampled_from(sorted(DTYPES)))
    size = np.dtype(DTYPES[ptx_type]).itemsize
    unit = 16 // size
    inner = unit * draw(st.integers(1, 4))
    sizes = (unit * draw(st.integers(1, 5)), *(draw(st.integers(1, 6)) for _ in range(rank - 1)))
    box = (inner, *(draw(st.integers(1, 4)) for _ in range(rank - 1)))
    steps = (1, *(draw(st.integers(1, 3)) for _ in range(rank - 1)))
    coordinates = tuple(
        draw(st.integers(-each - 1, size_ + 1)) for each, size_ in zip(box, sizes, strict=True)
    )
    fill = draw(st.booleans()) and ptx_type in ("f16", "f32", "f64", "bf16")
    return ptx_type, sizes, box, steps, coordinates, fill


_device: list[Device] = []


def shared_device() -> Device:
    if not _device:
        _device.append(Device())
    return _device[0]


@settings(max_examples=60, deadline=None)
@given(boxes())
def test_boxes_anywhere(case: tuple) -> None:
    ptx_type, sizes, box, steps, coordinates, fill = case
    device = shared_device()
    array = counted(sizes[::-1], np.int64).astype(DTYPES[ptx_type])
    address = device.memory(array)
    tensor_map = device.tensor_map(address, sizes, box, ptx_type, steps=steps, fill=int(fill))
    counts = tuple(-(-each // step) for each, step in zip(box, steps, strict=True))
    expected = box_of(array, coordinates, counts, steps, np.nan if fill else 0)
    got = load(device, load_source(len(sizes)), tensor_map, coordinates, expected.nbytes)
    result = got.view(array.dtype).reshape(expected.shape)
    if ptx_type == "bf16":
        # NumPy finds no NaN in it.
        result, expected = result.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_array_equal(result, expected)
    assert not device.machine.driver.findings
    device.machine.cuMemFree(address)


@pytest.mark.parametrize("swizzle", range(7))
@pytest.mark.parametrize("base", [0, 128, 896])
def test_swizzles(swizzle: int, base: int) -> None:
    device = Device()
    row = {0: 64, 1: 16, 2: 32}.get(swizzle, 64)
    array = counted((40, row), np.float16)
    tensor_map = device.tensor_map(device.memory(array), (row, 40), (row, 24), "f16", swizzle=swizzle)
    got = load(device, load_source(2), tensor_map, (0, 3), 48 * row, base=base)
    # The pattern is that of the address.
    whole = swizzled(np.concatenate([np.zeros(base, np.uint8), array[3:27].view(np.uint8).ravel()]), swizzle)
    lines = whole.reshape(-1, 128)[base // 128 :].ravel()
    assert (got == lines[: got.size]).all()
    assert not device.machine.driver.findings


@pytest.mark.parametrize("swizzle", [0, 2, 3])
def test_a_stored_box_is_what_was_loaded(swizzle: int) -> None:
    for schedule, seed in SCHEDULES[:3]:
        device = Device(schedule, seed)
        out = np.zeros((13, 40), np.float32)
        address = device.memory(out)
        row = 16 if swizzle == 2 else 32
        tensor_map = device.tensor_map(address, (40, 13), (row, 8), swizzle=swizzle)
        values = counted((8, row))
        source = device.memory(swizzled(values.view(np.uint8).ravel(), swizzle))
        arguments = (tensor_map, where((20, 9)), np.uint64(source), np.uint32(values.nbytes))
        assert device.launch(store_source(2), "store", 1, 64, *arguments, shared=values.nbytes) == ()
        out[9:, 20 : 20 + row] = values[:4, :20]
        np.testing.assert_array_equal(device.read(address, out), out)


@pytest.mark.parametrize(
    ("operation", "ptx_type"),
    [("add", "f32"), ("add", "bf16"), ("max", "s32"), ("xor", "u64"), ("min", "u8")],
)
def test_reductions(operation: str, ptx_type: str) -> None:
    device = Device()
    if ptx_type == "u8":
        tensor_map = device.tensor_map(device.memory(np.zeros((4, 32), np.uint8)), (32, 4), (32, 4), "u8")
        with pytest.raises(AssertionError, match="ILLEGAL_INSTRUCTION"):
            device.launch(
                store_source(2, ".min"),
                "store",
                1,
                32,
                tensor_map,
                where((0, 0)),
                np.uint64(device.memory(np.zeros(128, np.uint8))),
                np.uint32(128),
                shared=128,
            )
        return
    dtype = DTYPES[ptx_type]
    random = np.random.default_rng(0)
    before, values = (random.integers(1, 60, (6, 16)).astype(dtype) for _ in range(2))
    address, source = device.memory(before), device.memory(values)
    tensor_map = device.tensor_map(address, (16, 6), (16, 6), ptx_type)
    arguments = (tensor_map, where((0, 2)), np.uint64(source), np.uint32(values.nbytes))
    assert (
        device.launch(store_source(2, f".{operation}"), "store", 1, 32, *arguments, shared=values.nbytes)
        == ()
    )
    combine = {"add": np.add, "max": np.maximum, "xor": np.bitwise_xor}[operation]
    before[2:] = combine(before[2:], values[:4])
    np.testing.assert_array_equal(device.read(address, before), before)


@pytest.mark.parametrize(("interleave", "channels"), [(1, 8), (2, 16)])
def test_interleaved_layouts(interleave: int, channels: int) -> None:
    device = Device()
    # NC/8HWC8 or NC/16HWC16 of 16-bit numbers: a slice of channels is an element of the map.
    images, slices, height, width = 2, 3, 5, 6
    array = counted((images, slices, height, width, channels), np.uint16)
    tensor_map = device.tensor_map(
        device.memory(array),
        (width, height, slices, images),
        (4, 3, 2, 1),
        "u16",
        interleave=interleave,
        swizzle=interleave // 2,
    )
    got = load(device, load_source(4), tensor_map, (4, -1, 1, 1), 4 * 3 * 2 * channels * 2)
    expected = np.zeros((2, 3, 4, channels), np.uint16)
    expected[:, 1:, :2] = array[1, 1:3, :2, 4:]
    flat = swizzled(expected.view(np.uint8).ravel(), interleave // 2)
    assert (got == flat[: got.size]).all()


def test_subnormal_numbers_that_are_flushed() -> None:
    device = Device()
    values = np.array([1e-39, 1.0, -1e-42, 2e-38], np.float32)
    for name, expected in (("f32", values), ("f32 ftz", np.array([0, 1, 0, 2e-38], np.float32))):
        tensor_map = device.tensor_map(device.memory(values), (4,), (4,), name)
        got = load(device, load_source(1), tensor_map, (0,), 16)
        np.testing.assert_array_equal(got.view(np.float32), expected)


# im2col


def im2col(
    array: np.ndarray,
    lower: tuple,
    upper: tuple,
    start: tuple,
    offsets: tuple,
    channels: int,
    pixels: int,
    steps: tuple,
) -> np.ndarray:
    """Pixels of the bounding box in order, W first, each moved by the offsets; NWC, NHWC or NDHWC."""
    spatial = array.shape[1:-1][::-1]
    result = np.zeros((pixels, channels), array.dtype)
    first, *position, image = start
    ranges = [range(low, size - 1 + high + 1) for low, size, high in zip(lower, spatial, upper, strict=True)]
    for pixel in range(pixels):
        index = tuple(at + away for at, away in zip(position, offsets, strict=True))
        for channel in range(channels):
            everything = (first + channel, *index, image)
            if all(0 <= each < size for each, size in zip(everything, array.shape[::-1], strict=True)):
                result[pixel, channel] = array[everything[::-1]]
        for axis, step in enumerate(steps):
            position[axis] += step
            if position[axis] in ranges[axis] or position[axis] < ranges[axis].stop:
                break
            position[axis] = ranges[axis].start
        else:
            image += 1
    return result


@pytest.mark.parametrize(
    ("shape", "lower", "upper", "start", "offsets", "steps"),
    [
        ((3, 9, 16), (-1,), (-1,), (0, -1, 0), (2,), (1,)),
        ((2, 5, 6, 16), (-1, -1), (-1, -1), (0, -1, -1, 0), (1, 2), (1, 1)),
        ((2, 6, 7, 16), (-1, -1), (-1, -1), (8, 1, 3, 0), (0, 1), (2, 2)),
        ((2, 3, 4, 5, 16), (0, -1, 0), (-1, 1, -1), (0, 3, 0, 1, 0), (1, 0, 1), (1, 1, 1)),
    ],
)
def test_im2col(shape: tuple, lower: tuple, upper: tuple, start: tuple, offsets: tuple, steps: tuple) -> None:
    device = Device()
    array = counted(shape, np.float32)
    rank = len(shape)
    sizes = shape[::-1]
    channels, pixels = 8, 20
    result = device.machine.cuTensorMapEncodeIm2col(
        tensor_type("f32"),
        rank,
        device.memory(array),
        [cuda.cuuint64_t(each) for each in sizes],
        [cuda.cuuint64_t(4 * int(np.prod(sizes[: axis + 1]))) for axis in range(rank - 1)],
        list(lower),
        list(upper),
        channels,
        pixels,
        [cuda.cuuint32_t(each) for each in (1, *steps, 1)],
        cuda.CUtensorMapInterleave(0),
        cuda.CUtensorMapSwizzle(0),
        cuda.CUtensorMapL2promotion(0),
        cuda.CUtensorMapFloatOOBfill(0),
    )
    tensor_map = ctypes.string_at(result.getPtr(), 128)
    got = load(device, load_source(rank, ".im2col"), tensor_map, start, channels * pixels * 4, offsets)
    expected = im2col(array, lower, upper, start, offsets, channels, pixels, steps)
    np.testing.assert_array_equal(got.view(np.float32).reshape(pixels, channels), expected)


# Several blocks


MULTICAST = (
    MBARRIERS
    + r"""
__device__ void meet() { asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory"); }
extern "C" __global__ void __cluster_dims__(2) multicast(const __grid_constant__ TensorMap map, float* out) {
    __shared__ alignas(128) float cells[2][4][32];
    __shared__ u64 full;
    unsigned rank = blockIdx.x % 2;
    if (threadIdx.x == 0) { init(&full, 1); fence_init(); expect(&full, sizeof(cells)); }
    meet();
    // Each block brings half of the box to both.
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
            ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, %6;"
            :: "r"(shared(cells[rank])), "l"(&map), "r"(0), "r"(int(8 * (blockIdx.x / 2) + 4 * rank)), "r"(shared(&full)),
               "h"((unsigned short)3), "l"(0ull) : "memory");
    WAIT;
    for (int i = threadIdx.x; i < 256; i += blockDim.x) out[256 * blockIdx.x + i] = cells[0][0][i];
    meet();
}
"""
)


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_a_box_for_several_blocks(schedule: str, seed: int) -> None:
    device = Device(schedule, seed)
    array = counted((16, 32))
    tensor_map = device.tensor_map(device.memory(array), (32, 16), (32, 4))
    out = device.memory(np.zeros((4, 8, 32), np.float32))
    source = MULTICAST.replace("WAIT;", "wait(&full, 0);")
    assert device.launch(source, "multicast", 4, 64, tensor_map, np.uint64(out)) == ()
    got = device.read(out, np.zeros((4, 8, 32), np.float32))
    np.testing.assert_array_equal(got, np.repeat(array.reshape(2, 8, 32), 2, axis=0))


def test_a_block_that_waits_for_its_own_half_only() -> None:
    device = Device("lazy")
    tensor_map = device.tensor_map(device.memory(counted((16, 32))), (32, 16), (32, 4))
    source = MULTICAST.replace("expect(&full, sizeof(cells))", "expect(&full, sizeof(cells) / 2)").replace(
        "WAIT;", "wait(&full, 0);"
    )
    findings = device.launch(
        source, "multicast", 4, 64, tensor_map, np.uint64(device.memory(np.zeros((4, 8, 32), np.float32)))
    )
    assert any("writes asynchronously" in str(finding) for finding in findings)


# Mistakes


def test_a_missing_fence_and_a_missing_wait() -> None:
    device = Device()
    out = device.memory(np.zeros((8, 32), np.float32))
    tensor_map = device.tensor_map(out, (32, 8), (32, 8))
    source = store_source(2).replace("    fence_async();\n    __sync", "    __sync")
    arguments = (tensor_map, where((0, 0)), np.uint64(device.memory(counted((8, 32)))), np.uint32(1024))
    findings = device.launch(source, "store", 1, 64, *arguments, shared=1024)
    assert raced_lines(findings) == {(line_of(source, "= in[i]"), line_of(source, "cp.async.bulk.tensor"))}
    assert "fence.proxy.async" in str(findings[0])


def test_reading_a_stored_box_when_only_its_source_has_been_read() -> None:
    for wait, right in (("wait_all()", True), ("wait_read()", False)):
        device = Device("lazy")
        out = device.memory(np.zeros((8, 32), np.float32))
        tensor_map = device.tensor_map(out, (32, 8), (32, 8))
        source = store_source(2).replace("const unsigned char* in", "unsigned char* in, unsigned char* out")
        source = source.replace("unsigned bytes)", "unsigned bytes)").replace(
            "wait_read();\n    }\n", f"{wait};\n        in[2] = out[2];\n    }}\n"
        )
        values = device.memory(counted((8, 32)))
        arguments = (tensor_map, where((0, 0)), np.uint64(values), np.uint64(out), np.uint32(1024))
        findings = device.launch(source, "store", 1, 64, *arguments, shared=1024)
        assert (findings == ()) is right
        if not right:
            lines = line_of(source, "cp.async.bulk.tensor"), line_of(source, "= out[2]")
            assert lines in raced_lines(findings)
        # Byte 2 of 1.0 is 128.
        assert bool(device.read(values, np.zeros(4, np.uint8))[2] == 128) is right


def test_boxes_that_cannot_be() -> None:
    device = Device()
    tensor_map = device.tensor_map(device.memory(counted((8, 32))), (32, 8), (32, 8))
    load(device, load_source(2), tensor_map, (0, 0), 1024, base=128)
    with pytest.raises(AssertionError, match="MISALIGNED_ADDRESS"):
        load(device, load_source(2), tensor_map, (0, 0), 1024, base=64)
    for change, text in (
        (lambda data: bytes(128), "as a tensor map, which are none"),
        (lambda data: data, "names an element by 3 coordinates, in a tiled tensor map of rank 2"),
    ):
        device = Device()
        data = change(device.tensor_map(device.memory(counted((8, 32))), (32, 8), (32, 8)))
        with pytest.raises(AssertionError, match="ILLEGAL_INSTRUCTION"):
            load(device, load_source(3), data, (0, 0, 0), 1024)
        assert text in device.machine.driver.fault_report()
    device = Device()
    memory = counted((8, 32))
    tensor_map = device.tensor_map(device.memory(memory) + 512, (32, 8), (32, 8))
    with pytest.raises(AssertionError, match="ILLEGAL_ADDRESS"):
        load(device, load_source(2), tensor_map, (0, 0), 1024)

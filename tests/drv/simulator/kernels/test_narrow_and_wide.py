"""Accesses of 1 to 16 bytes: vectors, bytes, shorts, unions, packed structs, reinterpretation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drv.simulator.kernels.conftest import Launch, few_examples

SOURCE = r"""
extern "C" __global__ void copy_16(const float4* in, float4* out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 v = in[i];
        out[i] = make_float4(v.w, v.z, v.y, v.x);
    }
}
extern "C" __global__ void two_floats(const float2* in, float2* out) {
    float2 a = in[threadIdx.x];
    out[threadIdx.x] = {a.x * a.x - a.y * a.y, 2 * a.x * a.y};
}
extern "C" __global__ void three_floats(const float3* a, const float3* b, float3* out) {
    float3 u = a[threadIdx.x], v = b[threadIdx.x];
    out[threadIdx.x] = make_float3(u.y * v.z - u.z * v.y, u.z * v.x - u.x * v.z, u.x * v.y - u.y * v.x);
}
extern "C" __global__ void integers(const int2* a, const uint4* b, const short4* c, const longlong2* d, long long* out) {
    int i = threadIdx.x;
    int2 x = a[i];
    uint4 y = b[i];
    short4 z = c[i];
    longlong2 w = d[i];
    out[i] = x.x + x.y + (long long)y.x + y.y + y.z + y.w + z.x * z.y + z.z * z.w + w.x - w.y;
}
extern "C" __global__ void doubles(double2* data) {
    double2 v = data[threadIdx.x];
    data[threadIdx.x] = make_double2(v.y, v.x + v.y);
}
extern "C" __global__ void colours(const uchar4* in, char4* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uchar4 c = in[i];
    unsigned char grey = (unsigned char)((c.x * 77 + c.y * 150 + c.z * 29) >> 8);
    out[i] = make_char4((char)grey, (char)(c.x - c.y), (char)-c.z, (char)c.w);
}
extern "C" __global__ void bytes(const signed char* in, unsigned char* out, short* wide, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    signed char b = in[i];
    out[i] = (unsigned char)(b + 200);
    wide[i] = (short)(b * b * (b < 0 ? -1 : 1)) >> 1;
}
extern "C" __global__ void flags(const bool* in, bool* out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = !in[i] && i % 3;
}
extern "C" __global__ void shorts(const unsigned short* in, short* out) {
    unsigned short v = in[threadIdx.x];
    v = v * 3 + 1;
    v ^= v >> 5;
    out[threadIdx.x] = (short)v / 7;
}

union Word { unsigned u; float f; unsigned char b[4]; struct { unsigned short low, high; } h; };
extern "C" __global__ void unions(const float* in, unsigned* out) {
    Word w;
    w.f = in[threadIdx.x];
    unsigned exponent = (w.u >> 23) & 255;
    w.b[threadIdx.x % 4] ^= 0x5a;
    unsigned char t = w.b[0]; w.b[0] = w.b[3]; w.b[3] = t;
    w.h.low += w.h.high;
    out[threadIdx.x] = w.u ^ exponent;
}

extern "C" __global__ void swap_bytes(const uint2* in, uint2* out) {
    uint2 v = in[threadIdx.x];
    const unsigned char* p = reinterpret_cast<const unsigned char*>(&v);
    unsigned low = 0, high = 0;
    for (int i = 0; i < 4; ++i) { low = low << 8 | p[4 + i]; high = high << 8 | p[i]; }
    out[threadIdx.x] = make_uint2(high, low);
}

struct __attribute__((packed)) Record { char kind; int value; short extra; double weight; };
extern "C" __global__ void packed(const unsigned char* raw, double* out) {
    Record r;
    memcpy(&r, raw + threadIdx.x * sizeof(Record), sizeof r);
    out[threadIdx.x] = r.kind + r.value * 2.0 + r.extra * 3.0 + r.weight;
}

struct Bits { unsigned a : 3; int b : 7; unsigned c : 13; unsigned d : 9; };
extern "C" __global__ void bit_fields(const Bits* in, int* out, Bits* changed) {
    Bits x = in[threadIdx.x];
    out[threadIdx.x] = x.a * 1000000 + x.b * 1000 + x.c + x.d;
    x.a += 1; x.b = -x.b; x.c = x.d * 3;
    changed[threadIdx.x] = x;
}

extern "C" __global__ void through_shared(const double2* in, double2* out) {
    __shared__ double2 cells[64];
    __shared__ char4 small[64];
    cells[threadIdx.x] = in[threadIdx.x];
    small[threadIdx.x] = make_char4(threadIdx.x, -(int)threadIdx.x, 3, 4);
    __syncthreads();
    char4 c = small[threadIdx.x ^ 5];
    double2 d = cells[63 - threadIdx.x];
    out[threadIdx.x] = make_double2(d.x + c.x, d.y + c.y);
}

extern "C" __global__ void cached_loads(const float4* __restrict__ in, const unsigned char* b, float* out) {
    float4 v = __ldg(in + threadIdx.x), w = __ldcs(in + threadIdx.x);
    unsigned char c = __ldg(b + threadIdx.x);
    __stcs(out + threadIdx.x, v.x + w.w + c);
    __stwt(out + 64 + threadIdx.x, __ldcg(&in[threadIdx.x].y) + __ldca(&in[threadIdx.x].z) + __ldcv(&in[threadIdx.x].w));
}

// 16 bytes in flight to shared memory, by the instruction that newer devices have for it.
extern "C" __global__ void asynchronous_copy(const float4* in, float4* out) {
    __shared__ float4 cells[64];
    unsigned at = (unsigned)__cvta_generic_to_shared(&cells[threadIdx.x]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(in + threadIdx.x) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    out[threadIdx.x] = cells[63 - threadIdx.x];
}
"""


@few_examples
@given(n=st.integers(1, 2000), blocks=st.integers(1, 5))
def test_16_bytes(launch: Launch, n: int, blocks: int) -> None:
    values = np.random.default_rng(n).standard_normal((n, 4)).astype(np.float32)
    out = np.zeros_like(values)
    launch(SOURCE, blocks, 128, values, out, np.int32(n), name="copy_16")
    np.testing.assert_array_equal(out, values[:, ::-1])


def test_pairs_and_triples(launch: Launch) -> None:
    random = np.random.default_rng(0)
    z = random.integers(-9, 9, (77, 2)).astype(np.float32)
    out = np.zeros_like(z)
    launch(SOURCE, 1, 77, z, out, name="two_floats")
    square = (z[:, 0] + 1j * z[:, 1]) ** 2
    np.testing.assert_array_equal(out, np.stack([square.real, square.imag], axis=1))
    a, b = random.integers(-9, 9, (2, 50, 3)).astype(np.float32)
    cross = np.zeros_like(a)
    launch(SOURCE, 1, 50, a, b, cross, name="three_floats")
    np.testing.assert_array_equal(cross, np.cross(a, b))


def test_vectors_of_integers(launch: Launch) -> None:
    random = np.random.default_rng(0)
    a = random.integers(-(2**30), 2**30, (64, 2)).astype(np.int32)
    b = random.integers(0, 2**32, (64, 4)).astype(np.uint32)
    c = random.integers(-(2**15), 2**15, (64, 4)).astype(np.int16)
    d = random.integers(-(2**40), 2**40, (64, 2))
    out = np.zeros(64, np.int64)
    launch(SOURCE, 1, 64, a, b, c, d, out, name="integers")
    wide = c.astype(np.int64)
    expected = (
        a.sum(1)
        + b.astype(np.int64).sum(1)
        + wide[:, 0] * wide[:, 1]
        + wide[:, 2] * wide[:, 3]
        + d[:, 0]
        - d[:, 1]
    )
    np.testing.assert_array_equal(out, expected)


def test_pairs_of_doubles(launch: Launch) -> None:
    values = np.random.default_rng(0).standard_normal((100, 2))
    expected = np.stack([values[:, 1], values.sum(1)], axis=1)
    launch(SOURCE, 1, 100, values, name="doubles")
    np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("n", [1, 300])
def test_vectors_of_bytes(launch: Launch, n: int) -> None:
    colours = np.random.default_rng(n).integers(0, 256, (n, 4)).astype(np.uint8)
    out = np.zeros((n, 4), np.int8)
    launch(SOURCE, -(-n // 128), 128, colours, out, np.int32(n), name="colours")
    x, y, z, w = colours.astype(np.int32).T
    expected = np.stack([(x * 77 + y * 150 + z * 29) >> 8, x - y, -z, w], axis=1)
    np.testing.assert_array_equal(out, expected.astype(np.int8))


@few_examples
@given(n=st.integers(1, 600))
def test_bytes_and_shorts(launch: Launch, n: int) -> None:
    values = np.random.default_rng(n).integers(-128, 128, n).astype(np.int8)
    out, wide = np.zeros(n, np.uint8), np.zeros(n, np.int16)
    launch(SOURCE, -(-n // 64), 64, values, out, wide, np.int32(n), name="bytes")
    b = values.astype(np.int32)
    np.testing.assert_array_equal(out, (b + 200).astype(np.uint8))
    np.testing.assert_array_equal(wide, (b * b * np.where(b < 0, -1, 1)).astype(np.int16) >> 1)


def test_booleans(launch: Launch) -> None:
    values = np.random.default_rng(0).random(100) < 0.5
    out = np.ones(100, np.bool_)
    launch(SOURCE, 1, 128, values, out, np.int32(90), name="flags")
    expected = ~values & (np.arange(100) % 3 != 0)
    expected[90:] = True
    np.testing.assert_array_equal(out, expected)


def test_16_bit_arithmetic_wraps(launch: Launch) -> None:
    values = np.random.default_rng(0).integers(0, 2**16, 512).astype(np.uint16)
    out = np.zeros(512, np.int16)
    launch(SOURCE, 1, 512, values, out, name="shorts")
    v = values * np.uint16(3) + np.uint16(1)
    v = (v ^ (v >> 5)).view(np.int16).astype(np.int32)
    np.testing.assert_array_equal(out, np.trunc(v / 7))


def test_unions(launch: Launch) -> None:
    values = np.random.default_rng(0).standard_normal(96).astype(np.float32)
    out = np.zeros(96, np.uint32)
    launch(SOURCE, 1, 96, values, out, name="unions")
    word = values.copy()
    exponent = (word.view(np.uint32) >> 23) & 255
    b = word.view(np.uint8).reshape(-1, 4)
    b[np.arange(96), np.arange(96) % 4] ^= 0x5A
    b[:, [0, 3]] = b[:, [3, 0]]
    halves = word.view(np.uint16).reshape(-1, 2)
    halves[:, 0] += halves[:, 1]
    np.testing.assert_array_equal(out, word.view(np.uint32) ^ exponent)


def test_bytes_of_a_register_pair(launch: Launch) -> None:
    values = np.random.default_rng(0).integers(0, 2**32, (40, 2)).astype(np.uint32)
    out = np.zeros_like(values)
    launch(SOURCE, 1, 40, values, out, name="swap_bytes")
    np.testing.assert_array_equal(out, values.byteswap())


def test_packed_records(launch: Launch) -> None:
    records = np.zeros(60, [("kind", "i1"), ("value", "i4"), ("extra", "i2"), ("weight", "f8")])
    random = np.random.default_rng(0)
    records["kind"], records["value"] = random.integers(-99, 99, (2, 60))
    records["extra"], records["weight"] = random.integers(-999, 999, 60), random.standard_normal(60)
    out = np.zeros(60)
    launch(SOURCE, 1, 60, records, out, name="packed")
    expected = records["kind"] + records["value"] * 2.0 + records["extra"] * 3.0 + records["weight"]
    np.testing.assert_allclose(out, expected, rtol=1e-15)


def test_bit_fields(launch: Launch) -> None:
    words = np.random.default_rng(0).integers(0, 2**32, 96).astype(np.uint32)
    out, changed = np.zeros(96, np.int32), np.zeros(96, np.uint32)
    launch(SOURCE, 1, 96, words, out, changed, name="bit_fields")
    w = words.astype(np.int64)
    a, b, c, d = w & 7, (w >> 3 & 127 ^ 64) - 64, w >> 10 & 0x1FFF, w >> 23
    np.testing.assert_array_equal(out, a * 1000000 + b * 1000 + c + d)
    np.testing.assert_array_equal(changed, (a + 1 & 7) | (-b & 127) << 3 | (d * 3 & 0x1FFF) << 10 | d << 23)


def test_vectors_in_shared_memory(launch: Launch) -> None:
    values = np.random.default_rng(0).standard_normal((64, 2))
    out = np.zeros_like(values)
    launch(SOURCE, 1, 64, values, out, name="through_shared")
    t = np.arange(64)
    other = np.stack([t ^ 5, -(t ^ 5)], axis=1)
    np.testing.assert_array_equal(out, values[::-1] + other)


def test_loads_and_stores_with_cache_hints(launch: Launch) -> None:
    values = np.random.default_rng(0).integers(0, 99, (64, 4)).astype(np.float32)
    small = np.arange(64, dtype=np.uint8)
    out = np.zeros((2, 64), np.float32)
    launch(SOURCE, 1, 64, values, small, out, name="cached_loads")
    np.testing.assert_array_equal(out[0], values[:, 0] + values[:, 3] + small)
    np.testing.assert_array_equal(out[1], values[:, 1:].sum(1))


def test_asynchronous_copy_to_shared_memory(launch: Launch) -> None:
    values = np.random.default_rng(0).standard_normal((64, 4)).astype(np.float32)
    out = np.zeros_like(values)
    launch(SOURCE, 1, 64, values, out, name="asynchronous_copy")
    np.testing.assert_array_equal(out, values[::-1])

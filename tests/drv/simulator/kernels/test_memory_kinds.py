"""Where data lives: local arrays, constants, globals, parameters, shared structs, generic pointers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drv.simulator.kernels.conftest import Launch, few_examples

SOURCE = r"""
extern "C" __global__ void local_array(const int* in, int* out, int n) {
    int window[16] = {};
    for (int i = 0; i < n; ++i) window[in[i] & 15] += i * (threadIdx.x + 1);
    int best = 0;
    for (int i = 1; i < 16; ++i)
        if (window[i] > window[best]) best = i;
    out[threadIdx.x] = window[(threadIdx.x + best) % 16];
}

extern "C" __global__ void local_table(int* out) {
    const short table[10] = {3, 1, 4, 1, 5, -9, 2, 6, -5, 3};
    char text[] = "shared nothing";
    out[threadIdx.x] = table[threadIdx.x % 10] * 1000 + text[threadIdx.x % 14];
}

extern "C" __global__ void local_struct_array(double* out) {
    struct Item { char tag; double value; short id; } items[7];
    for (int i = 0; i < 7; ++i) items[(i * 3) % 7] = {(char)i, i * 1.5 + threadIdx.x, (short)(-i)};
    Item item = items[threadIdx.x % 7];
    out[threadIdx.x] = item.tag + item.value * 100 + item.id * 10000;
}

extern "C" __global__ void local_matrix(float* out) {
    float m[4][4], r[4][4];
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) m[i][j] = (i + j + (int)threadIdx.x) % 5;
#pragma unroll 1
    for (int i = 0; i < 4; ++i)
#pragma unroll 1
        for (int j = 0; j < 4; ++j) {
            r[i][j] = 0;
#pragma unroll 1
            for (int k = 0; k < 4; ++k) r[i][j] += m[i][k] * m[k][j];
        }
#pragma unroll 1
    for (int i = 0; i < 16; ++i) out[threadIdx.x * 16 + i] = r[i / 4][i % 4];
}

__constant__ float coefficients[8];
__constant__ int lengths[3] = {3, 5, 8};
__constant__ struct { int shift; double scale; } settings = {2, 0.25};

extern "C" __global__ void constants(const float* in, float* out) {
    float sum = 0, x = in[threadIdx.x];
    for (int i = 0; i < lengths[threadIdx.x % 3]; ++i) sum = sum * x + coefficients[i];
    out[threadIdx.x] = sum * settings.scale + (1 << settings.shift);
}

__device__ int total = 40;
__device__ double table[4] = {1.5, -2.5, 3.5, 1e300};
__device__ unsigned char flags[5] = {1, 2, 3};
__device__ int matrix[2][3] = {{1, 2, 3}, {4, 5, 6}};
__device__ int* pointer_to_total = &total;
__device__ const char* names[2] = {"grid", "block"};

extern "C" __global__ void globals(double* out) {
    out[0] = *pointer_to_total;
    out[1] = table[threadIdx.x + 3];
    out[2] = flags[2] * 10 + flags[4];
    out[3] = matrix[1][2] * 10 + matrix[0][1];
    out[4] = names[1][4];
    *pointer_to_total += 2;
    table[0] = total;
    pointer_to_total = &matrix[1][0];
}

struct Inner { char tag; short values[3]; };
struct Parameters {
    unsigned char byte;
    double scale;
    int counts[5];
    Inner inner[2];
    float* out;
    unsigned long long big;
    bool flip;
};
extern "C" __global__ void struct_parameter(const Parameters p, signed char offset) {
    int i = threadIdx.x;
    double value = p.scale * p.counts[i % 5] + p.inner[i & 1].values[i % 3] + p.inner[1].tag + offset + p.byte;
    p.out[i] = p.flip ? -value : value;
    if (i == 0) p.out[0] += (float)(p.big >> 40);
}

struct Matrix4 { float m[16]; };
extern "C" __global__ void large_parameters(Matrix4 a, char c, Matrix4 b, double d, float* out) {
    int i = threadIdx.x / 4, j = threadIdx.x % 4;
    float sum = c;
    for (int k = 0; k < 4; ++k) sum += a.m[i * 4 + k] * b.m[k * 4 + j];
    out[threadIdx.x] = sum + d;
}

extern "C" __global__ void mixed_parameters(char a, short b, int c, long long d, float e, double f, bool g,
                                            unsigned char h, unsigned short i, double* out) {
    double values[] = {(double)a, (double)b, (double)c, (double)d, e, f, (double)g, (double)h, (double)i};
    for (int k = 0; k < 9; ++k) out[k] = values[k];
}

extern "C" __global__ void pointers_to_pointers(float** rows, const int* lengths, float* sums) {
    float* row = rows[threadIdx.x];
    float sum = 0;
    if (row)
        for (int i = 0; i < lengths[threadIdx.x]; ++i) { sum += row[i]; row[i] = -row[i]; }
    sums[threadIdx.x] = sum;
}

struct Node { int value; Node* next; };
extern "C" __global__ void linked_list(Node* nodes, int n, int* sums) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) nodes[i].next = i + 5 < n ? &nodes[i + 5] : nullptr;
    __syncthreads();
    int sum = 0;
    for (Node* at = &nodes[threadIdx.x]; at; at = at->next) sum += at->value;
    sums[threadIdx.x] = sum;
}

struct Particle { float3 position; int id; float velocity[3]; char alive; };
extern "C" __global__ void shared_structs(float* out) {
    __shared__ Particle particles[64];
    __shared__ int order[64];
    Particle& p = particles[threadIdx.x];
    p.position = make_float3(threadIdx.x, 2.0f, 3.0f);
    p.id = 63 - threadIdx.x;
    for (int k = 0; k < 3; ++k) p.velocity[k] = k * 0.5f;
    p.alive = threadIdx.x % 3 != 0;
    order[63 - threadIdx.x] = threadIdx.x;
    __syncthreads();
    Particle other = particles[order[threadIdx.x]];
    out[threadIdx.x] = other.alive ? other.position.x + other.id * 100 + other.velocity[2] : -1.0f;
}

extern "C" __global__ void carved_shared(const int* in, double* out, int n) {
    extern __shared__ __align__(16) unsigned char memory[];
    double* d = (double*)memory;
    int* i = (int*)(d + n);
    short* s = (short*)(i + n);
    unsigned char* c = (unsigned char*)(s + n);
    int t = threadIdx.x;
    d[t] = in[t] * 0.5;
    i[t] = in[t];
    s[t] = (short)in[t];
    c[t] = (unsigned char)in[t];
    __syncthreads();
    int o = (t + 1) % n;
    out[t] = d[o] + i[o] + s[o] + c[o];
}

__shared__ int module_scope[32];
extern "C" __global__ void shared_of_the_module(int* out) {
    module_scope[threadIdx.x] = threadIdx.x * blockIdx.x;
    __syncthreads();
    out[blockIdx.x * 32 + threadIdx.x] = module_scope[31 - threadIdx.x];
}

__device__ __noinline__ float sum_of(const float* p, int n) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += p[i];
    return sum;
}
__device__ __noinline__ void store_to(int* p, int value) { *p = value; }

extern "C" __global__ void generic_pointers(const float* in, float* out, int* spaces) {
    __shared__ float shared[8];
    float local[8];
    for (int i = 0; i < 8; ++i) {
        local[i] = i * (threadIdx.x + 1);
        if (threadIdx.x == 0) shared[i] = 100 + i;
    }
    __syncthreads();
    const float* p;
    switch (threadIdx.x % 3) {
        case 0: p = in; break;
        case 1: p = shared; break;
        default: p = local;
    }
    out[threadIdx.x] = sum_of(p + threadIdx.x % 2, 7);
    spaces[threadIdx.x] = __isGlobal(p) | __isShared(p) << 1 | __isLocal(p) << 2 | __isConstant(coefficients) << 3;
}
extern "C" __global__ void generic_stores(int* out) {
    __shared__ int shared[32];
    int local[4] = {-1, -2, -3, -4};
    shared[threadIdx.x] = -5;
    out[threadIdx.x] = -6;
    int* p = threadIdx.x % 4 == 0 ? &local[threadIdx.x / 4 % 4] : threadIdx.x % 4 == 1 ? &shared[threadIdx.x]
                                                                                     : &out[threadIdx.x];
    store_to(p, threadIdx.x);
    if (threadIdx.x % 4 == 3) atomicAdd(p, 1000);
    out[32 + threadIdx.x] = local[0] + local[1] + local[2] + local[3];
    out[64 + threadIdx.x] = shared[threadIdx.x];
}

extern "C" __global__ void address_arithmetic(const int* p, const int* q, long long* out) {
    out[0] = q - p;
    out[1] = (const char*)q - (const char*)p;
    out[2] = q > p;
    out[3] = (size_t)p % alignof(double2);
    out[4] = p[2] + *(q - 1) + (&p[4])[-1];
}

extern "C" __global__ void device_copies(unsigned char* to, const unsigned char* from, int n) {
    memcpy(to + n * threadIdx.x, from + threadIdx.x, n);
    memset(to + n * (blockDim.x + threadIdx.x), threadIdx.x + 1, n);
    double words[4];
    memcpy(words, "eight by", 8);
    if (threadIdx.x == 0) memcpy(to, words, 8);
}
"""


@pytest.mark.parametrize("n", [0, 1, 50])
def test_local_array(launch: Launch, n: int) -> None:
    values = np.random.default_rng(n).integers(0, 99, max(n, 1)).astype(np.int32)
    out = np.zeros(96, np.int32)
    launch(SOURCE, 1, 96, values, out, np.int32(n), name="local_array")
    window = np.bincount(values[:n] & 15, weights=np.arange(n), minlength=16).astype(int)
    t = np.arange(96)
    np.testing.assert_array_equal(out, window[(t + window.argmax()) % 16] * (t + 1))


def test_local_tables(launch: Launch) -> None:
    out = np.zeros(64, np.int32)
    launch(SOURCE, 1, 64, out, name="local_table")
    t = np.arange(64)
    text = np.frombuffer(b"shared nothing", np.uint8)
    np.testing.assert_array_equal(
        out, np.array([3, 1, 4, 1, 5, -9, 2, 6, -5, 3])[t % 10] * 1000 + text[t % 14]
    )


def test_local_structs(launch: Launch) -> None:
    out = np.zeros(50)
    launch(SOURCE, 1, 50, out, name="local_struct_array")
    t = np.arange(50)
    i = (t * 5) % 7
    np.testing.assert_array_equal(out, i + (i * 1.5 + t) * 100 - i * 10000)


def test_local_matrix(launch: Launch) -> None:
    out = np.zeros((33, 4, 4), np.float32)
    launch(SOURCE, 1, 33, out, name="local_matrix")
    m = (np.arange(4)[:, None] + np.arange(4) + np.arange(33)[:, None, None]) % 5
    np.testing.assert_array_equal(out, m @ m)


def test_constants(launch: Launch) -> None:
    values, coefficients = np.arange(-20, 20, dtype=np.float32), np.arange(1, 9, dtype=np.float32)
    launch.upload(SOURCE, "coefficients", coefficients)
    out = np.zeros_like(values)
    launch(SOURCE, 1, 40, values, out, name="constants")
    expected = [np.polyval(coefficients[: (3, 5, 8)[t % 3]], x) * 0.25 + 4 for t, x in enumerate(values)]
    np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_module_globals(launch: Launch) -> None:
    for name, initial in (("total", np.int32([40])), ("table", np.array([1.5, -2.5, 3.5, 1e300]))):
        np.testing.assert_array_equal(launch.download(SOURCE, name, np.zeros_like(initial)), initial)
    out = np.zeros(5)
    launch(SOURCE, 1, 1, out, name="globals")
    assert out.tolist() == [40, 1e300, 30, 62, ord("k")]
    assert launch.download(SOURCE, "total", np.zeros(1, np.int32)) == 42
    assert launch.download(SOURCE, "table", np.zeros(4))[0] == 42
    launch(SOURCE, 1, 1, out, name="globals")
    assert out[0] == 4
    assert launch.download(SOURCE, "matrix", np.zeros((2, 3), np.int32)).tolist() == [[1, 2, 3], [6, 5, 6]]


def test_struct_parameter(launch: Launch) -> None:
    inner = np.dtype([("tag", "i1"), ("values", "i2", 3)], align=True)
    dtype = np.dtype(
        [("byte", "u1"), ("scale", "f8"), ("counts", "i4", 5), ("inner", inner, 2), ("out", "u8"), ("big", "u8"),
         ("flip", "?")],
        align=True,
    )  # fmt: skip
    inners = [(7, [1, 2, 3]), (-8, [100, -200, 300])]
    out = np.zeros(30, np.float32)
    with launch.on_device(out) as address:
        p = np.array((200, 0.5, [1, 2, 3, 4, 5], inners, address, 3 << 40, True), dtype)[()]
        launch(SOURCE, 1, 30, p, np.int8(-3), name="struct_parameter")
    i = np.arange(30)
    values = np.array([[1, 2, 3], [100, -200, 300]])[i & 1, i % 3]
    expected = -(0.5 * (i % 5 + 1) + values - 8 - 3 + 200)
    expected[0] += 3
    np.testing.assert_array_equal(out, expected)


def test_large_parameters(launch: Launch) -> None:
    a, b = np.random.default_rng(0).integers(-5, 5, (2, 4, 4)).astype(np.float32)
    dtype = np.dtype([("m", "f4", (4, 4))])
    out = np.zeros((4, 4), np.float32)
    parameters = [np.array((a,), dtype)[()], np.int8(-4), np.array((b,), dtype)[()], np.float64(0.5)]
    launch(SOURCE, 1, 16, *parameters, out, name="large_parameters")
    np.testing.assert_array_equal(out, a @ b - 3.5)


def test_parameters_of_every_size(launch: Launch) -> None:
    values = [
        np.int8(-100), np.int16(-30000), np.int32(-(2**31)), np.int64(2**52 + 1), np.float32(1.25), np.float64(1e-300),
        np.bool_(True), np.uint8(200), np.uint16(60000),
    ]  # fmt: skip
    out = np.zeros(9)
    launch(SOURCE, 1, 1, *values, out, name="mixed_parameters")
    assert out.tolist() == [float(value) for value in values]


def test_pointers_to_pointers(launch: Launch) -> None:
    first, second = np.arange(10, dtype=np.float32), np.arange(100, 105, dtype=np.float32)
    sums = np.zeros(3, np.float32)
    with launch.on_device(first) as a, launch.on_device(second) as b:
        rows = np.array([a, 0, b], np.uint64)
        launch(SOURCE, 1, 3, rows, np.array([10, 4, 5], np.int32), sums, name="pointers_to_pointers")
    assert sums.tolist() == [45, 0, 510]
    np.testing.assert_array_equal(first, -np.arange(10))
    np.testing.assert_array_equal(second, -np.arange(100, 105))


def test_linked_list(launch: Launch) -> None:
    nodes = np.zeros(73, np.dtype([("value", "i4"), ("next", "u8")], align=True))
    nodes["value"] = np.arange(73) ** 2
    sums = np.zeros(5, np.int32)
    launch(SOURCE, 1, 5, nodes, np.int32(73), sums, name="linked_list")
    assert sums.tolist() == [sum(i * i for i in range(start, 73, 5)) for start in range(5)]
    assert (nodes["next"] == 0).sum() == 5


def test_shared_structs(launch: Launch) -> None:
    out = np.zeros(64, np.float32)
    launch(SOURCE, 1, 64, out, name="shared_structs")
    other = 63 - np.arange(64)
    np.testing.assert_array_equal(out, np.where(other % 3 != 0, other + (63 - other) * 100 + 1, -1))


@few_examples
@given(n=st.integers(1, 600))
def test_dynamic_shared_memory_of_several_types(launch: Launch, n: int) -> None:
    values = np.random.default_rng(n).integers(-(2**20), 2**20, n).astype(np.int32)
    out = np.zeros(n)
    launch(SOURCE, 1, n, values, out, np.int32(n), name="carved_shared", shared=15 * n)
    expected = values * 0.5 + values + values.astype(np.int16) + values.astype(np.uint8)
    np.testing.assert_array_equal(out, np.roll(expected, -1))


def test_more_shared_memory_than_is_given_unasked(launch: Launch) -> None:
    n = 10_000
    values = np.arange(1024, dtype=np.int32)
    out = np.zeros(1024)
    launch(SOURCE, 1, 1024, values, out, np.int32(1024), name="carved_shared", shared=15 * n)
    np.testing.assert_array_equal(out, np.roll(values * 2.5 + values.astype(np.uint8), -1))


def test_shared_memory_at_module_scope(launch: Launch) -> None:
    out = np.zeros((5, 32), np.int32)
    launch(SOURCE, 5, 32, out, name="shared_of_the_module")
    np.testing.assert_array_equal(out, np.outer(np.arange(5), 31 - np.arange(32)))


def test_generic_pointers(launch: Launch) -> None:
    values = np.arange(1000, 1008, dtype=np.float32)
    out, spaces = np.zeros(66, np.float32), np.zeros(66, np.int32)
    launch(SOURCE, 1, 66, values, out, spaces, name="generic_pointers")
    t = np.arange(66)
    k = np.arange(7) + (t % 2)[:, None]
    results = [1000 + k, 100 + k, k * (t[:, None] + 1)]
    np.testing.assert_array_equal(out, np.choose(t % 3, [c.sum(1) for c in results]))
    np.testing.assert_array_equal(spaces, np.choose(t % 3, [1, 2, 4]) | (spaces & 8))


def test_generic_stores(launch: Launch) -> None:
    out = np.zeros((3, 32), np.int32)
    launch(SOURCE, 1, 32, out, name="generic_stores")
    t = np.arange(32)
    np.testing.assert_array_equal(out[0], np.choose(t % 4, [-6, -6, t, t + 1000]))
    np.testing.assert_array_equal(out[1], np.where(t % 4 == 0, -10 + t // 4 % 4 + 1 + t, -10))
    np.testing.assert_array_equal(out[2], np.where(t % 4 == 1, t, -5))


def test_address_arithmetic(launch: Launch) -> None:
    values = np.arange(100, dtype=np.int32)
    out = np.zeros(5, np.int64)
    with launch.on_device(values) as address:
        launch(SOURCE, 1, 1, np.uint64(address), np.uint64(address + 40), out, name="address_arithmetic")
    assert out.tolist() == [10, 40, 1, 0, 2 + 9 + 3]


@pytest.mark.parametrize("n", [8, 13, 64])
def test_device_side_copies(launch: Launch, n: int) -> None:
    source = np.random.default_rng(n).integers(0, 256, 200).astype(np.uint8)
    out = np.zeros((2, 20, n), np.uint8)
    launch(SOURCE, 1, 20, out, source, np.int32(n), name="device_copies")
    expected = np.stack([source[t : t + n] for t in range(20)])
    expected[0, :8] = np.frombuffer(b"eight by", np.uint8)
    np.testing.assert_array_equal(out[0], expected)
    np.testing.assert_array_equal(out[1], np.repeat(np.arange(1, 21)[:, None], n, 1))

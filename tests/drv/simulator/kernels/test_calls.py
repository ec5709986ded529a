"""Functions: recursion, pointers to functions, virtual functions, templates, lambdas, stacks."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.drv.simulator.kernels.conftest import Launch

SOURCE = r"""
__device__ __noinline__ float not_inlined(float x, const float* table, int n) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += x * table[i];
    return sum;
}
extern "C" __global__ void calls_function(const float* in, const float* table, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = not_inlined(in[i], table, i % 5) + not_inlined(2.0f, table, 3);
}

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ __noinline__ int ackermann(int m, int n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}
extern "C" __global__ void recursive(const int* in, int* out) {
    int x = in[threadIdx.x];
    out[threadIdx.x] = x < 12 ? fibonacci(x) : ackermann(2, x - 12);
}

__device__ __noinline__ bool is_odd(unsigned n);
__device__ __noinline__ bool is_even(unsigned n) { return n == 0 ? true : is_odd(n - 1); }
__device__ __noinline__ bool is_odd(unsigned n) { return n == 0 ? false : is_even(n - 1); }
extern "C" __global__ void mutual(bool* out) { out[threadIdx.x] = is_even(threadIdx.x % 23); }

__device__ __noinline__ float twice(float x) { return 2 * x; }
__device__ __noinline__ float plus_one(float x) { return x + 1; }
__device__ __noinline__ float squared(float x) { return x * x; }
typedef float (*Function)(float);
__device__ Function functions[3] = {twice, plus_one, squared};
__device__ __noinline__ float apply(Function f, float x) { return f(f(x)); }
extern "C" __global__ void through_pointers(const int* which, const float* in, float* out) {
    int i = threadIdx.x;
    out[i] = apply(functions[which[i]], in[i]);
}
extern "C" __global__ void pointer_chosen_at_run_time(const float* in, float* out) {
    Function f = in[threadIdx.x] > 0 ? twice : squared;
    out[threadIdx.x] = f(in[threadIdx.x]);
}

struct Shape {
    __device__ virtual ~Shape() {}
    __device__ virtual float area() const = 0;
    __device__ virtual int corners() const { return 0; }
};
struct Circle : Shape {
    float radius;
    __device__ Circle(float r) : radius(r) {}
    __device__ float area() const override { return 3.0f * radius * radius; }
};
struct Box : Shape {
    float width, height;
    __device__ Box(float w, float h) : width(w), height(h) {}
    __device__ float area() const override { return width * height; }
    __device__ int corners() const override { return 4; }
};
extern "C" __global__ void virtual_functions(const int* kind, float* area, int* corners) {
    __shared__ __align__(16) unsigned char room[64][32];
    int i = threadIdx.x;
    Shape* shape;
    if (kind[i]) shape = new (room[i]) Circle((float)i);
    else shape = new (room[i]) Box((float)i, 2.0f);
    area[i] = shape->area();
    corners[i] = shape->corners();
}

template <int N> struct Power {
    template <typename T> static __device__ T of(T x) { return x * Power<N - 1>::of(x); }
};
template <> struct Power<0> {
    template <typename T> static __device__ T of(T) { return 1; }
};
template <typename T, typename F> __device__ void transform(T* data, int n, F f) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] = f(data[i], i);
}
extern "C" __global__ void templates(long long* a, double* b, int n, int factor) {
    transform(a, n, [=](long long x, int) { return Power<5>::of(x) * factor; });
    transform(b, n, [&](double x, int i) { return i % 2 ? Power<3>::of(x) : -x; });
}

struct Triple { double a; int b; char c[7]; };
__device__ __noinline__ Triple make_triple(int i) {
    Triple t;
    t.a = i * 0.5;
    t.b = -i;
    for (int k = 0; k < 7; ++k) t.c[k] = (char)(i + k);
    return t;
}
__device__ __noinline__ double use_triple(Triple t, int k) {
    t.b += 1000;
    return t.a + t.b + t.c[k % 7];
}
extern "C" __global__ void structs_by_value(double* out) {
    Triple t = make_triple(threadIdx.x);
    out[threadIdx.x] = use_triple(t, threadIdx.x) + t.b;
}

__device__ __noinline__ void exchange(int& a, int& b) { int t = a; a = b; b = t; }
__device__ __noinline__ void quicksort_recursive(int* data, int low, int high) {
    if (low >= high) return;
    int pivot = data[(low + high) / 2], i = low, j = high;
    while (i <= j) {
        while (data[i] < pivot) ++i;
        while (data[j] > pivot) --j;
        if (i <= j) exchange(data[i++], data[j--]);
    }
    quicksort_recursive(data, low, j);
    quicksort_recursive(data, i, high);
}
extern "C" __global__ void sort_rows(int* data, int columns) {
    quicksort_recursive(data + threadIdx.x * columns, 0, columns - 1);
}

extern "C" __global__ void quicksort_with_a_stack(int* data, int columns) {
    int* row = data + (blockIdx.x * blockDim.x + threadIdx.x) * columns;
    int low[24], high[24], top = 0;
    low[0] = 0;
    high[0] = columns - 1;
    while (top >= 0) {
        int l = low[top], h = high[top--];
        if (l >= h) continue;
        int pivot = row[h], at = l;
        for (int j = l; j < h; ++j)
            if (row[j] < pivot) { int t = row[j]; row[j] = row[at]; row[at++] = t; }
        row[h] = row[at];
        row[at] = pivot;
        int smaller_left = at - l < h - at;
        ++top;
        low[top] = smaller_left ? at + 1 : l;
        high[top] = smaller_left ? h : at - 1;
        ++top;
        low[top] = smaller_left ? l : at + 1;
        high[top] = smaller_left ? at - 1 : h;
    }
}

// Only some lanes call, others meet them behind the call.
__device__ __noinline__ int vote_inside(int value) { return __popc(__ballot_sync(__activemask(), value > 4)); }
extern "C" __global__ void call_in_a_branch(const int* in, int* out) {
    int value = in[threadIdx.x], result = -1;
    if (value % 3 == 0) result = vote_inside(value);
    out[threadIdx.x] = result;
    __syncwarp();
    out[threadIdx.x] += vote_inside(value) * 100;
}

__device__ __noinline__ void barrier_inside(int* cells, int value) {
    cells[threadIdx.x] = value;
    __syncthreads();
}
extern "C" __global__ void barrier_in_a_function(int* out) {
    __shared__ int cells[128];
    barrier_inside(cells, threadIdx.x * 2);
    int other = cells[127 - threadIdx.x];
    __syncthreads();
    barrier_inside(cells, other + 1);
    out[threadIdx.x] = cells[threadIdx.x ^ 1];
}

namespace {
__device__ int hidden = 5;
__device__ __noinline__ int count_calls() { return atomicAdd(&hidden, 1); }
}  // namespace
extern "C" __global__ void internal_linkage(int* out) { out[threadIdx.x] = count_calls(); }

extern "C" __global__ void from_the_heap(int* out) {
    int n = 1 + threadIdx.x % 5;
    int* list = (int*)malloc(n * sizeof(int));
    if (!list) { out[threadIdx.x] = -1; return; }
    for (int i = 0; i < n; ++i) list[i] = threadIdx.x + i;
    int sum = 0;
    for (int i = 0; i < n; ++i) sum += list[i];
    free(list);
    out[threadIdx.x] = sum;
}
"""

TEMPLATE = r"""
template <typename T, int N> __global__ void scale(T* data, T by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) data[i] *= by;
}
namespace deep { namespace inside { __global__ void fill(int* data, int value) { data[threadIdx.x] = value; } } }
"""


def test_function_that_is_not_inlined(launch: Launch) -> None:
    values, table = np.arange(256, dtype=np.float32), np.arange(1, 9, dtype=np.float32)
    out = np.zeros(256, np.float32)
    launch(SOURCE, 2, 128, values, table, out, name="calls_function")
    sums = np.concatenate([[0], table.cumsum()])
    np.testing.assert_array_equal(out, values * sums[np.arange(256) % 5] + 2 * sums[3])


def test_recursion(launch: Launch) -> None:
    @cache
    def fibonacci(n: int) -> int:
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    values = np.random.default_rng(0).integers(0, 18, 64).astype(np.int32)
    out = np.zeros(64, np.int32)
    launch(SOURCE, 1, 64, values, out, name="recursive")
    assert out.tolist() == [fibonacci(x) if x < 12 else 2 * (x - 12) + 3 for x in values.tolist()]


def test_mutual_recursion(launch: Launch) -> None:
    out = np.zeros(70, np.bool_)
    launch(SOURCE, 1, 70, out, name="mutual")
    np.testing.assert_array_equal(out, np.arange(70) % 23 % 2 == 0)


def test_table_of_functions(launch: Launch) -> None:
    which = np.random.default_rng(0).integers(0, 3, 64).astype(np.int32)
    values = np.arange(64, dtype=np.float32)
    out = np.zeros_like(values)
    launch(SOURCE, 1, 64, which, values, out, name="through_pointers")
    np.testing.assert_array_equal(out, np.choose(which, [4 * values, values + 2, values**4]))


def test_function_chosen_at_run_time(launch: Launch) -> None:
    values = np.arange(-32, 32, dtype=np.float32)
    out = np.zeros_like(values)
    launch(SOURCE, 1, 64, values, out, name="pointer_chosen_at_run_time")
    np.testing.assert_array_equal(out, np.where(values > 0, 2 * values, values**2))


def test_virtual_functions(launch: Launch) -> None:
    kind = np.random.default_rng(0).integers(0, 2, 64).astype(np.int32)
    area, corners = np.zeros(64, np.float32), np.full(64, -1, np.int32)
    launch(SOURCE, 1, 64, kind, area, corners, name="virtual_functions")
    i = np.arange(64)
    np.testing.assert_array_equal(area, np.where(kind, 3 * i * i, 2 * i))
    np.testing.assert_array_equal(corners, np.where(kind, 0, 4))


def test_templates_and_lambdas(launch: Launch) -> None:
    a, b = np.arange(-50, 50, dtype=np.int64), np.arange(100) / 4
    expected = a**5 * 3, np.where(np.arange(100) % 2, b**3, -b)
    launch(SOURCE, 1, 64, a, b, np.int32(100), np.int32(3), name="templates")
    np.testing.assert_array_equal(a, expected[0])
    np.testing.assert_array_equal(b, expected[1])


def test_structs_by_value(launch: Launch) -> None:
    out = np.zeros(60)
    launch(SOURCE, 1, 60, out, name="structs_by_value")
    i = np.arange(60)
    np.testing.assert_array_equal(out, i * 0.5 - i + 1000 + (i + i % 7) - i)


@pytest.mark.parametrize("name", ["sort_rows", "quicksort_with_a_stack"])
def test_quicksort(launch: Launch, name: str) -> None:
    data = np.random.default_rng(0).integers(0, 50, (32, 25)).astype(np.int32)
    expected = np.sort(data, axis=1)
    launch(SOURCE, 1, 32, data, np.int32(25), name=name)
    np.testing.assert_array_equal(data, expected)


def test_call_in_a_branch(launch: Launch) -> None:
    values = np.random.default_rng(0).integers(0, 10, 64).astype(np.int32)
    out = np.zeros(64, np.int32)
    launch(SOURCE, 1, 64, values, out, name="call_in_a_branch")
    warps = values.reshape(2, 32)
    inside = np.where(warps % 3 == 0, ((warps % 3 == 0) & (warps > 4)).sum(1, keepdims=True), -1)
    np.testing.assert_array_equal(out.reshape(2, 32), inside + 100 * (warps > 4).sum(1, keepdims=True))


def test_barrier_in_a_function(launch: Launch) -> None:
    out = np.zeros(128, np.int32)
    launch(SOURCE, 1, 128, out, name="barrier_in_a_function")
    np.testing.assert_array_equal(out, 2 * (127 - (np.arange(128) ^ 1)) + 1)


def test_internal_linkage(launch: Launch) -> None:
    out = np.zeros(40, np.int32)
    launch(SOURCE, 1, 40, out, name="internal_linkage")
    np.testing.assert_array_equal(np.sort(out), np.arange(out.min(), out.min() + 40))


def test_heap(launch: Launch) -> None:
    out = np.zeros(64, np.int32)
    launch(SOURCE, 1, 64, out, name="from_the_heap")
    assert out.tolist() == [sum(t + i for i in range(1 + t % 5)) for t in range(64)]


@pytest.mark.parametrize(
    ("type_", "dtype"), [("float", np.float32), ("long long", np.int64), ("unsigned char", np.uint8)]
)
def test_instances_of_a_template(launch: Launch, type_: str, dtype: type[np.generic]) -> None:
    data = np.arange(64).astype(dtype)
    expected = np.where(np.arange(64) < 50, data * dtype(3), data)
    launch(TEMPLATE, 2, 32, data, dtype(3), name=f"scale<{type_}, 50>")
    np.testing.assert_array_equal(data, expected)


def test_kernel_in_a_namespace(launch: Launch) -> None:
    data = np.zeros(40, np.int32)
    launch(TEMPLATE, 1, 40, data, np.int32(-9), name="deep::inside::fill")
    assert (data == -9).all()

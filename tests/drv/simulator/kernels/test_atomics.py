"""Every atomic function on every type, in global and shared memory, at every scope."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.drv.simulator.kernels.conftest import Launch

DTYPES: dict[str, np.dtype] = {
    "int": np.dtype(np.int32),
    "unsigned": np.dtype(np.uint32),
    "long long": np.dtype(np.int64),
    "unsigned long long": np.dtype(np.uint64),
    "unsigned short": np.dtype(np.uint16),
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
    "__half": np.dtype(np.float16),
    "__nv_bfloat16": np.dtype(ml_dtypes.bfloat16),
}
INTEGERS = ("int", "unsigned", "unsigned long long")
FLOATS = ("float", "double", "__half", "__nv_bfloat16")
OPERATIONS: dict[str, tuple[tuple[str, ...], Callable[..., np.ndarray]]] = {
    "Add": (INTEGERS + FLOATS, lambda old, value: old + value),
    "Sub": (("int", "unsigned"), lambda old, value: old - value),
    "Min": ((*INTEGERS, "long long"), np.minimum),
    "Max": ((*INTEGERS, "long long"), np.maximum),
    "And": (INTEGERS, np.bitwise_and),
    "Or": (INTEGERS, np.bitwise_or),
    "Xor": (INTEGERS, np.bitwise_xor),
    "Exch": ((*INTEGERS, "float"), lambda old, value: value + old * 0),
    "Inc": (("unsigned",), lambda old, value: np.where(old >= value, 0, old + 1).astype(old.dtype)),
    "Dec": (
        ("unsigned",),
        lambda old, value: np.where((old == 0) | (old > value), value, old - 1).astype(old.dtype),
    ),
}


@dataclass(frozen=True, slots=True)
class Case:
    operation: str
    type: str
    scope: str = ""

    @property
    def name(self) -> str:
        return f"{self.operation}{self.scope}_{self.type.replace(' ', '_')}"

    def source(self) -> str:
        call = f"atomic{self.operation}{self.scope}"
        parameters = (
            f"({self.type}* cells, const int* key, const {self.type}* value, {self.type}* old, int n)"
        )
        return f"""
extern "C" __global__ void global_{self.name}{parameters} {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) old[i] = {call}(&cells[key[i]], value[i]);
}}
extern "C" __global__ void unread_{self.name}{parameters} {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {call}(cells + key[i], value[i]);
}}
extern "C" __global__ void shared_{self.name}{parameters} {{
    __shared__ {self.type} mine[8];
    if (threadIdx.x < 8) mine[threadIdx.x] = cells[threadIdx.x];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) old[i] = {call}(&mine[key[i]], value[i]);
    __syncthreads();
    if (threadIdx.x < 8) cells[threadIdx.x] = mine[threadIdx.x];
}}
"""


CASES = [Case(operation, type_) for operation, (types, _) in OPERATIONS.items() for type_ in types]
SCOPED = [
    Case(operation, type_, scope)
    for operation, (types, _) in OPERATIONS.items()
    for type_ in types
    for scope in ("_block", "_system")
    if not type_.startswith("__")
]
HEADERS = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
SOURCE = HEADERS + "".join(case.source() for case in CASES)
SCOPED_SOURCE = HEADERS + "".join(case.source() for case in SCOPED)

OTHERS = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>

template <typename T> __device__ void compare_and_swap(T* cells, const int* key, const T* compare, const T* value, T* old) {
    __shared__ T mine[8];
    if (threadIdx.x < 8) mine[threadIdx.x] = cells[threadIdx.x];
    __syncthreads();
    old[threadIdx.x] = atomicCAS(&mine[key[threadIdx.x]], compare[threadIdx.x], value[threadIdx.x]);
    old[blockDim.x + threadIdx.x] = atomicCAS(&cells[key[threadIdx.x]], compare[threadIdx.x], value[threadIdx.x]);
    __syncthreads();
    if (threadIdx.x < 8) cells[8 + threadIdx.x] = mine[threadIdx.x];
}
#define CAS(T, NAME) \
    extern "C" __global__ void NAME(T* cells, const int* key, const T* compare, const T* value, T* old) { \
        compare_and_swap<T>(cells, key, compare, value, old); \
    }
CAS(int, cas_int)
CAS(unsigned, cas_unsigned)
CAS(unsigned long long, cas_unsigned_long_long)
CAS(unsigned short, cas_unsigned_short)

extern "C" __global__ void pairs(__half2* h, __nv_bfloat162* b, const int* key, const __half2* hs,
                                 const __nv_bfloat162* bs, __half2* old) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    old[i] = atomicAdd(&h[key[i]], hs[i]);
    atomicAdd(&b[key[i]], bs[i]);
}

extern "C" __global__ void vectors(float2* two, float4* four, const int* key, const float4* values) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 v = values[i];
    atomicAdd(&two[key[i]], make_float2(v.x, v.y));
    float4 old = atomicAdd(&four[key[i]], v);
    if (old.x < -1e30f) four[key[i]].x = 0;
}

struct alignas(16) Wide { unsigned long long low, high; };

extern "C" __global__ void exchange_128(Wide* cell, Wide* old) {
    Wide mine = {threadIdx.x + 1, ~(unsigned long long)threadIdx.x};
    old[threadIdx.x] = atomicExch(cell, mine);
}

__device__ float atomic_max(float* address, float value) {
    int* bits = (int*)address;
    int old = *bits, assumed;
    do {
        assumed = old;
        if (__int_as_float(assumed) >= value) break;
        old = atomicCAS(bits, assumed, __float_as_int(value));
    } while (assumed != old);
    return __int_as_float(old);
}
extern "C" __global__ void float_max(const float* in, float* out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomic_max(out, in[i]);
}

// The programming guide's addition of doubles for devices that have none.
extern "C" __global__ void double_add(const double* in, double* out) {
    __shared__ double sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    auto* address = (unsigned long long*)&sum;
    unsigned long long old = *address, assumed;
    do {
        assumed = old;
        old = atomicCAS(address, assumed, __double_as_longlong(in[threadIdx.x] + __longlong_as_double(assumed)));
    } while (assumed != old);
    __syncthreads();
    if (threadIdx.x == 0) *out = sum;
}

extern "C" __global__ void builtins(int* cells, int* old) {
    int i = threadIdx.x;
    old[i] = __nv_atomic_fetch_add(cells, 3, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
    __nv_atomic_fetch_max(cells + 1, i * 7 % 64, __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_BLOCK);
    __nv_atomic_store_n(cells + 2, 17, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_SYSTEM);
    cells[8 + i] = __nv_atomic_load_n(cells + 2, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_DEVICE);
    int expected = 0;
    if (__nv_atomic_compare_exchange_n(cells + 3, &expected, i + 1, false, __NV_ATOMIC_SEQ_CST, __NV_ATOMIC_RELAXED,
                                       __NV_THREAD_SCOPE_DEVICE))
        cells[4] = i + 1;
}
"""


def check_orders(
    operation: Callable[..., np.ndarray],
    before: np.ndarray,
    after: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    old: np.ndarray,
) -> None:
    """Check that for each cell some order of its operations returned ``old`` and ended at ``after``.

    An operation is an edge from the value that it returned to the value that it left; an order is an
    Eulerian trail: as many edges leave a value as enter it, and all are reached from the first.
    """
    new = operation(old, value)
    for cell in range(len(before)):
        edges = list(zip(old[key == cell].tolist(), new[key == cell].tolist(), strict=True))
        balance = Counter(start for start, _ in edges)
        balance.subtract(stop for _, stop in edges)
        balance.subtract([before[cell].item()])
        balance.update([after[cell].item()])
        assert not any(balance.values()), (cell, balance)
        reached, size = {before[cell].item()}, 0
        while len(reached) > size:
            size = len(reached)
            reached |= {stop for start, stop in edges if start in reached}
        assert reached.issuperset(start for start, _ in edges), (cell, edges)


def inputs(case: Case, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cells (8,), keys (n,) and values (n,), of a size that every type adds exactly."""
    random = np.random.default_rng(n)
    dtype = DTYPES[case.type]
    if case.operation in ("Inc", "Dec"):
        cells, values = random.integers(0, 9, 8), random.integers(3, 7, n)
    elif dtype.kind in "iu":
        info = np.iinfo(dtype)
        cells = random.integers(info.min, info.max, 8, dtype=dtype, endpoint=True)
        values = random.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
    else:
        cells, values = random.integers(-3, 4, 8), random.integers(-3, 4, n)
    return cells.astype(dtype), random.integers(0, 8, n).astype(np.int32), values.astype(dtype)


def run(launch: Launch, source: str, case: Case, space: str, n: int) -> None:
    before, key, value = inputs(case, n)
    cells, old = before.copy(), np.zeros_like(value)
    blocks = 1 if space == "shared" or case.scope == "_block" else 3
    threads = 300 if blocks == 1 else 100
    launch(source, blocks, threads, cells, key, value, old, np.int32(n), name=f"{space}_{case.name}")
    operation = OPERATIONS[case.operation][1]
    if space != "unread":
        check_orders(operation, before, cells, key, value, old)
    elif case.operation == "Exch":
        assert all(cells[cell] in value[key == cell] for cell in range(8))
    elif case.operation not in ("Inc", "Dec"):
        expected = before.copy()
        for k, v in zip(key, value, strict=True):
            expected[k : k + 1] = operation(expected[k : k + 1], v)
        np.testing.assert_array_equal(cells, expected)


@pytest.mark.parametrize("space", ["global", "unread", "shared"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.sampled(4)
def test_functions(launch: Launch, case: Case, space: str) -> None:
    run(launch, SOURCE, case, space, 250)


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("case", SCOPED, ids=lambda case: case.name)
@pytest.mark.sampled(4)
def test_scopes(launch: Launch, case: Case, space: str) -> None:
    run(launch, SCOPED_SOURCE, case, space, 90)


@pytest.mark.parametrize("type_", ["int", "unsigned", "unsigned long long", "unsigned short"])
def test_compare_and_swap(launch: Launch, type_: str) -> None:
    random = np.random.default_rng(0)
    dtype, n = DTYPES[type_], 120
    before = random.integers(0, 4, 8).astype(dtype)
    cells = np.concatenate([before, before * 0])
    key = random.integers(0, 8, n).astype(np.int32)
    compare, value = random.integers(0, 4, (2, n)).astype(dtype)
    old = np.zeros((2, n), dtype)
    launch(OTHERS, 1, n, cells, key, compare, value, old, name=f"cas_{type_.replace(' ', '_')}")
    pairs = np.stack([compare, value], axis=1)
    for space, after in ((0, cells[8:]), (1, cells[:8])):
        check_orders(
            lambda o, cv: np.where(o == cv[:, 0], cv[:, 1], o), before, after, key, pairs, old[space]
        )


def test_pairs_of_halves(launch: Launch) -> None:
    random = np.random.default_rng(1)
    key = random.integers(0, 5, 192).astype(np.int32)
    halves = random.integers(-3, 4, (192, 2)).astype(np.float16)
    brains = random.integers(-3, 4, (192, 2)).astype(ml_dtypes.bfloat16)
    h, b = np.zeros((5, 2), np.float16), np.zeros((5, 2), ml_dtypes.bfloat16)
    old = np.zeros_like(halves)
    launch(OTHERS, 2, 96, h, b, key, halves, brains, old, name="pairs")
    for cell in range(5):
        np.testing.assert_array_equal(h[cell], halves[key == cell].sum(0))
        np.testing.assert_array_equal(b[cell].astype(float), brains[key == cell].astype(float).sum(0))
    for half in range(2):
        check_orders(
            lambda o, v: o + v, np.zeros(5, np.float16), h[:, half], key, halves[:, half], old[:, half]
        )


def test_vectors(launch: Launch) -> None:
    random = np.random.default_rng(2)
    key = random.integers(0, 3, 128).astype(np.int32)
    values = random.integers(-9, 9, (128, 4)).astype(np.float32)
    two, four = np.zeros((3, 2), np.float32), np.zeros((3, 4), np.float32)
    launch(OTHERS, 2, 64, two, four, key, values, name="vectors")
    for cell in range(3):
        np.testing.assert_array_equal(four[cell], values[key == cell].sum(0))
        np.testing.assert_array_equal(two[cell], values[key == cell, :2].sum(0))


def test_exchange_of_16_bytes(launch: Launch) -> None:
    cell, old = np.zeros((1, 2), np.uint64), np.zeros((50, 2), np.uint64)
    launch(OTHERS, 1, 50, cell, old, name="exchange_128")
    seen = {tuple(pair) for pair in np.concatenate([cell, old]).tolist()}
    assert seen == {(0, 0)} | {(i + 1, 2**64 - 1 - i) for i in range(50)}


@pytest.mark.parametrize("n", [1, 700])
def test_maximum_by_a_loop(launch: Launch, n: int) -> None:
    values = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    out = np.full(1, -np.inf, np.float32)
    launch(OTHERS, 3, 128, values, out, np.int32(n), name="float_max")
    assert out[0] == values.max()


def test_addition_by_a_loop(launch: Launch) -> None:
    values = np.arange(70, dtype=np.float64)
    out = np.zeros(1)
    launch(OTHERS, 1, 70, values, out, name="double_add")
    assert out[0] == values.sum()


def test_builtin_functions(launch: Launch) -> None:
    cells, old = np.zeros(108, np.int32), np.zeros(100, np.int32)
    launch(OTHERS, 1, 100, cells, old, name="builtins")
    assert cells[:3].tolist() == [300, 63, 17]
    assert cells[3] == cells[4] != 0
    assert (cells[8:] == 17).all()
    np.testing.assert_array_equal(np.sort(old), np.arange(0, 300, 3))

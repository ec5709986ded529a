"""Half precision and bfloat16 through ``cuda_fp16.h`` and ``cuda_bf16.h``: scalars, pairs, conversions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest

from .exact_arithmetic import FORMATS, fused, narrowed, units_in_last_place

if TYPE_CHECKING:
    from tests.drv.simulator.kernels.conftest import Launch

HEADERS = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the two 16-bit types: its C++ names and its NumPy type."""

    scalar: str
    pair: str
    numpy: np.dtype
    word: str  # as conversion functions call it
    pair_word: str

    def __str__(self) -> str:
        return self.word


HALF = Kind("__half", "__half2", np.dtype(np.float16), "half", "half2")
BRAIN = Kind("__nv_bfloat16", "__nv_bfloat162", np.dtype(ml_dtypes.bfloat16), "bfloat16", "bfloat162")
kinds = pytest.mark.parametrize("kind", [HALF, BRAIN], ids=str)

ARITHMETIC = (
    HEADERS
    + r"""
template <typename T> __device__ void scalar(const T* as, const T* bs, const T* cs, T* out, int* flags, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    T a = as[i], b = bs[i], c = cs[i];
    T results[] = {a + b,      a - b,        a * b,        a / b,         -a,
                   __habs(a),  __hfma(a, b, c), __hmin(a, b), __hmax(a, b), __hmin_nan(a, b), __hmax_nan(a, b),
                   __hadd_sat(a, b), __hmul_sat(a, b), __hfma_sat(a, b, c), __hfma_relu(a, b, c),
                   hfloor(a), hceil(a), htrunc(a), hrint(a)};
    for (int k = 0; k < sizeof(results) / sizeof(T); ++k) out[k * n + i] = results[k];
    flags[i] = (a == b) | (a != b) << 1 | (a < b) << 2 | (a <= b) << 3 | (a > b) << 4 | (a >= b) << 5
               | __hisnan(a) << 6 | (__hisinf(a) != 0) << 7 | __hltu(a, b) << 8 | __hequ(a, b) << 9 | __hgtu(a, b) << 10;
}
extern "C" __global__ void scalar_half(const __half* a, const __half* b, const __half* c, __half* out, int* f, int n) {
    scalar(a, b, c, out, f, n);
}
extern "C" __global__ void scalar_bfloat16(const __nv_bfloat16* a, const __nv_bfloat16* b, const __nv_bfloat16* c,
                                           __nv_bfloat16* out, int* f, int n) {
    scalar(a, b, c, out, f, n);
}

template <typename T2> __device__ void pairs(const T2* as, const T2* bs, const T2* cs, T2* out, int* flags, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    T2 a = as[i], b = bs[i], c = cs[i];
    T2 results[] = {a + b, a - b, a * b, a / b, __hneg2(a), __habs2(a), __hfma2(a, b, c), __hmin2(a, b), __hmax2(a, b),
                    __hmin2_nan(a, b), __hadd2_sat(a, b), __hfma2_relu(a, b, c), h2floor(a), __heq2(a, b), __hlt2(a, b),
                    __lowhigh2highlow(a), __lows2bfloat162_or_half(a, b)};
    for (int k = 0; k < sizeof(results) / sizeof(T2); ++k) out[k * n + i] = results[k];
    flags[i] = __hbeq2(a, b) | __hbgt2(a, b) << 1 | __hbne2(a, b) << 2;
    flags[n + i] = (int)__hge2_mask(a, b);
}
"""
)
ARITHMETIC = ARITHMETIC.replace(
    "template <typename T2> __device__ void pairs",
    """__device__ __half2 lows(__half2 a, __half2 b) { return __lows2half2(a, b); }
__device__ __nv_bfloat162 lows(__nv_bfloat162 a, __nv_bfloat162 b) { return __lows2bfloat162(a, b); }

template <typename T2> __device__ void pairs""",
).replace("__lows2bfloat162_or_half", "lows")
ARITHMETIC += r"""
extern "C" __global__ void pairs_half(const __half2* a, const __half2* b, const __half2* c, __half2* o, int* f, int n) {
    pairs(a, b, c, o, f, n);
}
extern "C" __global__ void pairs_bfloat16(const __nv_bfloat162* a, const __nv_bfloat162* b, const __nv_bfloat162* c,
                                          __nv_bfloat162* o, int* f, int n) {
    pairs(a, b, c, o, f, n);
}
"""


def conversions(kind: Kind) -> str:
    word, scalar = kind.word, kind.scalar
    return f"""{HEADERS}
extern "C" __global__ void to_float(const {scalar}* in, float* f, double* d) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    f[i] = __{word}2float(in[i]);
    d[i] = (double)in[i];
}}
extern "C" __global__ void from_float(const float* in, {scalar}* out, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = __float2{word}(in[i]);
    out[n + i] = __float2{word}_rz(in[i]);
    out[2 * n + i] = __float2{word}_ru(in[i]);
    out[3 * n + i] = __float2{word}_rd(in[i]);
    {kind.pair} pair = __floats2{kind.pair_word}_rn(in[i], in[n - 1 - i]);
    out[4 * n + i] = __low2{word}(pair);
    out[5 * n + i] = __high2{word}(pair);
}}
extern "C" __global__ void from_double(const double* in, {scalar}* out) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = __double2{word}(in[i]);
}}
extern "C" __global__ void to_integers(const {scalar}* in, long long* out) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    {scalar} x = in[i];
    out[i] = __{word}2int_rn(x);
    out[n + i] = __{word}2int_rz(x);
    out[2 * n + i] = __{word}2int_ru(x);
    out[3 * n + i] = __{word}2int_rd(x);
    out[4 * n + i] = __{word}2uint_rz(x);
    out[5 * n + i] = __{word}2short_rn(x);
    out[6 * n + i] = __{word}2ushort_rz(x);
    out[7 * n + i] = __{word}2ll_rz(x);
    out[8 * n + i] = __{word}2char_rz(x);
}}
extern "C" __global__ void from_integers(const int* in, const long long* wide, {scalar}* out, int n) {{
    int i = threadIdx.x;
    out[i] = __int2{word}_rn(in[i]);
    out[n + i] = __int2{word}_rz(in[i]);
    out[2 * n + i] = __uint2{word}_rn((unsigned)in[i]);
    out[3 * n + i] = __short2{word}_rn((short)in[i]);
    out[4 * n + i] = __ll2{word}_rn(wide[i]);
    out[5 * n + i] = ({scalar})in[i];
}}
extern "C" __global__ void bits(const unsigned short* in, unsigned short* out) {{
    {scalar} x = __ushort_as_{word}(in[threadIdx.x]);
    out[threadIdx.x] = __{word}_as_ushort(x) ^ 1;
}}
extern "C" __global__ void functions(const {scalar}* in, {scalar}* out) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    {scalar} x = in[i];
    {scalar} results[] = {{hsqrt(x), hrsqrt(x), hrcp(x), hexp(x), hexp2(x), hexp10(x), hlog(x), hlog2(x), hlog10(x),
                           hsin(x), hcos(x), htanh(x)}};
    for (int k = 0; k < 12; ++k) out[k * n + i] = results[k];
}}
extern "C" __global__ void shuffle(const {kind.pair}* in, {kind.pair}* out) {{
    {kind.pair} x = in[threadIdx.x];
    for (int offset = 16; offset; offset /= 2) x = __hadd2(x, __shfl_xor_sync(~0u, x, offset));
    out[threadIdx.x] = x;
}}
"""


def all_values(kind: Kind) -> np.ndarray:
    """All 65536 bit patterns."""
    return np.arange(65536, dtype=np.uint16).view(kind.numpy)


def operands(kind: Kind, n: int) -> np.ndarray:
    """Triples (3, n): any bits, numbers of one size, and special values."""
    random = np.random.default_rng(n)
    values = random.integers(0, 65536, (3, n)).astype(np.uint16).view(kind.numpy)
    near = slice(n // 2, n)
    values[:, near] = random.uniform(-2, 2, (3, n - n // 2)).astype(kind.numpy)
    values[1, n - 20 : n] = values[0, n - 20 : n]
    return values


def same(actual: np.ndarray, expected: np.ndarray, label: str) -> None:
    """Equal in value; any NaN equals any NaN."""
    with np.errstate(invalid="ignore"):
        actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_array_equal(actual, expected, label)


def references(kind: Kind, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> dict[str, np.ndarray]:
    # float32 has more than twice the digits of either type and two to spare, so rounding twice shows in none of
    # + - * / (Figueroa, "When is double rounding innocuous?", 1995).
    x, y = a.astype(np.float32), b.astype(np.float32)
    with np.errstate(all="ignore"):
        nan = np.isnan(x) | np.isnan(y)
        product = fused(a, b, c)
        clipped = np.where(
            np.isnan(product.astype(np.float32)), np.float32(0), np.clip(product.astype(np.float32), 0, 1)
        )
        total, times = (r.astype(kind.numpy).astype(np.float32) for r in (x + y, x * y))
        positive = np.maximum(product.astype(np.float32), 0)
        results = {
            "+": x + y, "-": x - y, "*": x * y, "/": x / y, "negate": -x, "abs": np.abs(x), "fma": product,
            "min": np.fmin(x, y), "max": np.fmax(x, y), "min_nan": np.where(nan, np.nan, np.fmin(x, y)),
            "max_nan": np.where(nan, np.nan, np.fmax(x, y)),
            "add_sat": np.nan_to_num(np.clip(total, 0, 1)), "mul_sat": np.nan_to_num(np.clip(times, 0, 1)),
            "fma_sat": clipped, "fma_relu": positive,
            "floor": np.floor(x), "ceil": np.ceil(x), "trunc": np.trunc(x), "rint": np.rint(x),
        }  # fmt: skip
        return {name: result.astype(kind.numpy) for name, result in results.items()}


@kinds
def test_scalars(launch: Launch, kind: Kind) -> None:
    n = 3000
    a, b, c = operands(kind, n)
    out, flags = np.zeros((19, n), kind.numpy), np.zeros(n, np.int32)
    launch(ARITHMETIC, 24, 128, a, b, c, out, flags, np.int32(n), name=f"scalar_{kind.word}")
    for got, (name, expected) in zip(out, references(kind, a, b, c).items(), strict=True):
        same(got, expected, name)
    x, y = a.astype(np.float32), b.astype(np.float32)
    unordered = np.isnan(x) | np.isnan(y)
    tests = [x == y, x != y, x < y, x <= y, x > y, x >= y, np.isnan(x), np.isinf(x), (x < y) | unordered,
             (x == y) | unordered, (x > y) | unordered]  # fmt: skip
    np.testing.assert_array_equal(flags, sum(test.astype(int) << at for at, test in enumerate(tests)))


@kinds
def test_pairs(launch: Launch, kind: Kind) -> None:
    n = 1000
    a, b, c = operands(kind, 2 * n)
    out, flags = np.zeros((17, 2 * n), kind.numpy), np.zeros((2, n), np.int32)
    launch(ARITHMETIC, 8, 128, a, b, c, out, flags, np.int32(n), name=f"pairs_{kind.word}")
    expected = references(kind, a, b, c)
    names = [
        "+",
        "-",
        "*",
        "/",
        "negate",
        "abs",
        "fma",
        "min",
        "max",
        "min_nan",
        "add_sat",
        "fma_relu",
        "floor",
    ]
    for got, name in zip(out, names, strict=False):
        same(got, expected[name], name)
    x, y = a.astype(np.float32), b.astype(np.float32)
    same(out[13], x == y, "heq2")
    same(out[14], x < y, "hlt2")
    same(out[15], x.reshape(-1, 2)[:, ::-1].ravel(), "lowhigh2highlow")
    same(out[16], np.stack([x[::2], y[::2]], axis=1).ravel(), "lows")
    both = [
        np.logical_and.reduce(test.reshape(-1, 2), 1)
        for test in (x == y, x > y, (x != y) & ~(np.isnan(x) | np.isnan(y)))
    ]
    np.testing.assert_array_equal(flags[0] & 3, both[0] | both[1] << 1)
    ge = (x >= y).reshape(-1, 2)
    np.testing.assert_array_equal(
        flags[1].view(np.uint32), ge[:, 0] * 0xFFFF | (ge[:, 1] * 0xFFFF).astype(np.int64) << 16
    )


@kinds
def test_widening_of_every_value(launch: Launch, kind: Kind) -> None:
    values = all_values(kind)
    single, double = np.zeros(65536, np.float32), np.zeros(65536)
    launch(conversions(kind), 64, 1024, values, single, double, name="to_float")
    same(single, values, "float")
    same(double, values, "double")


def rounded_towards(values: np.ndarray, kind: Kind, mode: str) -> np.ndarray:
    """float32 values rounded to ``kind`` toward zero, up or down, by stepping from the nearest."""
    nearest = values.astype(kind.numpy)
    exact, got = values.astype(np.float64), nearest.astype(np.float64)
    size = np.abs
    wrong = {"rz": size(got) > size(exact), "ru": got < exact, "rd": got > exact}[mode]
    target = {"rz": 0, "ru": np.inf, "rd": -np.inf}[mode]
    return np.where(wrong, np.nextafter(nearest, kind.numpy.type(target)), nearest)


@kinds
def test_narrowing(launch: Launch, kind: Kind) -> None:
    random = np.random.default_rng(0)
    n = 4096
    values = random.integers(0, 2**32, n).astype(np.uint32).view(np.float32)
    values[: n // 2] = np.ldexp(random.uniform(-1, 1, n // 2), random.integers(-30, 20, n // 2))
    # Half-way between neighbours, and just beside.
    every = all_values(kind)[100:31000:60].astype(np.float32)
    next_ = all_values(kind)[101:31001:60].astype(np.float32)
    middle = ((every.astype(np.float64) + next_) / 2).astype(np.float32)
    values[: len(middle)] = middle
    values[len(middle) : 2 * len(middle)] = np.nextafter(middle, np.float32(np.inf))
    values[-4:] = [65519.99, 65520, 3.4e38, np.nan]
    out = np.zeros((6, n), kind.numpy)
    launch(conversions(kind), 32, 128, values, out, np.int32(n), name="from_float")
    with np.errstate(all="ignore"):
        same(out[0], values.astype(kind.numpy), "rn")
        finite = np.isfinite(values)
        for row, mode in zip(out[1:4], ("rz", "ru", "rd"), strict=True):
            expected = rounded_towards(values, kind, mode)
            same(row[finite], expected[finite], mode)
        same(out[4], values.astype(kind.numpy), "low")
        same(out[5], values[::-1].astype(kind.numpy), "high")


@kinds
def test_narrowing_of_doubles_rounds_once(launch: Launch, kind: Kind) -> None:
    digits = FORMATS[kind.numpy][0]
    # Just above half-way, by less than float32 can tell.
    ties = (1 + 2.0**-digits) + np.array([0, 2.0**-50, -(2.0**-50), 3 * 2.0**-50])
    values = np.concatenate([ties, -ties, np.random.default_rng(0).standard_normal(120)])
    out = np.zeros(128, kind.numpy)
    launch(conversions(kind), 1, 128, values, out, name="from_double")
    upper = float(np.nextafter(kind.numpy.type(1), kind.numpy.type(2)))
    expected = np.concatenate([[1, upper, 1, upper], [-1, -upper, -1, -upper]])
    same(out[:8], expected, "ties")
    same(out[8:], values[8:].astype(np.float32).astype(kind.numpy), "others")


@kinds
def test_conversions_to_integers(launch: Launch, kind: Kind) -> None:
    values = all_values(kind)[::16].copy()
    out = np.zeros((9, 4096), np.int64)
    launch(conversions(kind), 32, 128, values, out, name="to_integers")
    with np.errstate(invalid="ignore"):
        wide = values.astype(np.float64)
    modes = [np.rint, np.trunc, np.ceil, np.floor, np.trunc, np.rint, np.trunc, np.trunc, np.trunc]
    types = [np.int32] * 4 + [np.uint32, np.int16, np.uint16, np.int64, np.int8]
    for row, round_, dtype in zip(out, modes, types, strict=True):
        info = np.iinfo(dtype)
        # Beyond the type's range and for NaN the fixed results of the smaller types are left open here.
        usable = np.isfinite(wide) & (np.abs(wide) < 2.0**62)
        expected = np.clip(round_(np.where(usable, wide, 0)), float(info.min), float(min(info.max, 2**62)))
        np.testing.assert_array_equal(row[usable], expected[usable].astype(np.int64), str(dtype))


@kinds
def test_conversions_from_integers(launch: Launch, kind: Kind) -> None:
    random = np.random.default_rng(0)
    values = (random.integers(-(2**31), 2**31, 256) >> random.integers(0, 31, 256)).astype(np.int32)
    values[:4] = [257, 2049, 65519, 2**31 - 1]
    wide = random.integers(-(2**62), 2**62, 256) >> random.integers(0, 62, 256)
    out = np.zeros((6, 256), kind.numpy)
    launch(conversions(kind), 1, 256, values, wide, out, np.int32(256), name="from_integers")
    # All integers of 32 bits are exact in float64.
    with np.errstate(over="ignore"):
        nearest = narrowed(values.astype(np.float64), kind.numpy)
        same(out[0], nearest, "int")
        same(out[2], narrowed(values.view(np.uint32).astype(np.float64), kind.numpy), "uint")
        same(out[3], narrowed(values.astype(np.int16).astype(np.float64), kind.numpy), "short")
        same(out[5], nearest, "cast")
    assert (np.abs(out[1].astype(np.float64)) <= np.abs(values)).all()


@kinds
def test_bits(launch: Launch, kind: Kind) -> None:
    values = np.arange(0, 65536, 64, dtype=np.uint16)
    out = np.zeros_like(values)
    launch(conversions(kind), 1, 1024, values, out, name="bits")
    np.testing.assert_array_equal(out, values ^ 1)


@kinds
def test_functions(launch: Launch, kind: Kind) -> None:
    values = np.concatenate([np.geomspace(2e-3, 9, 256), np.linspace(0.1, 3, 256)]).astype(kind.numpy)
    out = np.zeros((12, 512), kind.numpy)
    launch(conversions(kind), 4, 128, values, out, name="functions")
    x = values.astype(np.float64)
    expected = [np.sqrt(x), 1 / np.sqrt(x), 1 / x, np.exp(x), np.exp2(x), 10**x, np.log(x), np.log2(x), np.log10(x),
                np.sin(x), np.cos(x), np.tanh(x)]  # fmt: skip
    for row, needed in zip(out, expected, strict=True):
        # Near zeros of the function the error is absolute.
        distance = units_in_last_place(row.astype(np.float64), needed, kind.numpy)
        near = np.abs(row.astype(np.float64) - needed) < 2.0**-20 if kind is HALF else False
        overflows = np.abs(needed) > FORMATS[kind.numpy][2]
        assert ((distance <= 2) | near | overflows).all()


@kinds
def test_shuffled_pairs(launch: Launch, kind: Kind) -> None:
    values = np.random.default_rng(0).integers(-3, 4, (64, 2)).astype(kind.numpy)
    out = np.zeros_like(values)
    launch(conversions(kind), 1, 64, values, out, name="shuffle")
    sums = values.astype(np.float32).reshape(2, 32, 2).sum(1, keepdims=True)
    same(out.reshape(2, 32, 2), np.broadcast_to(sums, (2, 32, 2)), "sum")

"""Rounding modes of arithmetic, and conversions between all types, extremes among them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest

from .exact_arithmetic import fused, rounded, square_root

if TYPE_CHECKING:
    from tests.drv.simulator.kernels.conftest import Launch

MODES = ("rn", "rz", "ru", "rd")
N = 160


def arithmetic_source(type_: str, prefix: str) -> str:
    lines = []
    for at, mode in enumerate(MODES):
        calls = [
            f"__{prefix}add_{mode}(x, y)",
            f"__{prefix}sub_{mode}(x, y)",
            f"__{prefix}mul_{mode}(x, y)",
            f"__{prefix}div_{mode}(x, y)",
            f"__{'fmaf' if prefix == 'f' else 'fma'}_{mode}(x, y, z)",
            f"__{prefix}sqrt_{mode}(x < 0 ? -x : x)",
            f"__{prefix}rcp_{mode}(y)",
        ]
        lines += [f"    out[({at} * 7 + {k}) * n + i] = {call};" for k, call in enumerate(calls)]
    body = "\n".join(lines)
    return f"""
extern "C" __global__ void evaluate(const {type_}* xs, const {type_}* ys, const {type_}* zs, {type_}* out, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    {type_} x = xs[i], y = ys[i], z = zs[i];
{body}
}}
"""


def hard_numbers(dtype: np.dtype, n: int) -> np.ndarray:
    """Finite numbers (3, n), whose results overflow, underflow, cancel or lie half-way now and then."""
    random = np.random.default_rng(dtype.itemsize)
    info = np.finfo(dtype)
    exponents = random.integers(info.minexp + 10, info.maxexp - 10, (3, n))
    exponents[:, n // 2 :] = random.integers(-3, 4, (3, n - n // 2))
    values = np.ldexp(random.uniform(1, 2, (3, n)), exponents).astype(dtype)
    values *= random.choice([-1, 1], (3, n)).astype(dtype)
    values[0, :6] = [info.max, info.tiny, info.smallest_subnormal, 1, -info.max, 3]
    values[1, :6] = [info.max, info.tiny, 2, 3, info.eps, 1 + info.eps]
    # Cancelling sums: z is nearly -x*y.
    near = slice(n - 40, n)
    values[2, near] = -(values[0, near] * values[1, near])
    values[:, n - 60 : n - 40] = np.round(values[:, n - 60 : n - 40] * 4) / 4 + 0.125
    return values


@pytest.mark.parametrize(
    ("type_", "prefix", "dtype"), [("float", "f", np.float32), ("double", "d", np.float64)]
)
def test_directed_arithmetic(launch: Launch, type_: str, prefix: str, dtype: type[np.floating]) -> None:
    x, y, z = hard_numbers(np.dtype(dtype), N)
    out = np.zeros((4, 7, N), dtype)
    launch(arithmetic_source(type_, prefix), 2, 80, x, y, z, out, np.int32(N))
    a, b, c = ([Fraction(float(value)) for value in array] for array in (x, y, z))
    for at, mode in enumerate(MODES):
        exact = [
            [u + v for u, v in zip(a, b, strict=True)],
            [u - v for u, v in zip(a, b, strict=True)],
            [u * v for u, v in zip(a, b, strict=True)],
            [u / v for u, v in zip(a, b, strict=True)],
            [u * v + w for u, v, w in zip(a, b, c, strict=True)],
        ]
        for k, values in enumerate(exact):
            expected = [rounded(value, np.dtype(dtype), mode) for value in values]
            np.testing.assert_array_equal(out[at, k], np.array(expected, dtype), f"{mode} {k}")
        roots = [square_root(abs(u), np.dtype(dtype), mode) for u in a]
        np.testing.assert_array_equal(out[at, 5], np.array(roots, dtype), f"{mode} sqrt")
        inverses = [rounded(1 / v, np.dtype(dtype), mode) for v in b]
        np.testing.assert_array_equal(out[at, 6], np.array(inverses, dtype), f"{mode} rcp")


FUSED = r"""
extern "C" __global__ void contracted(const float* a, const float* b, const float* c, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = a[i] * b[i] + c[i];
}
extern "C" __global__ void separate(const float* a, const float* b, const float* c, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = __fadd_rn(__fmul_rn(a[i], b[i]), c[i]);
}
extern "C" __global__ void double_precision(const double* a, const double* b, const double* c, double* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = a[i] * b[i] + c[i];
}
"""


def test_products_and_sums_are_fused_or_not(launch: Launch) -> None:
    random = np.random.default_rng(0)
    a, b = random.standard_normal((2, 4096)).astype(np.float32)
    c = (-a * b * random.choice([1, 1 + 2e-7, 0.5, 2**20], 4096)).astype(np.float32)
    for name, options, expected in (
        ("contracted", (), fused(a, b, c)),
        ("contracted", ("-fmad=false",), a * b + c),
        ("separate", (), a * b + c),
    ):
        out = np.zeros_like(a)
        launch(FUSED, 32, 128, a, b, c, out, name=name, options=options)
        np.testing.assert_array_equal(out, expected, name)


def test_fused_doubles(launch: Launch) -> None:
    random = np.random.default_rng(1)
    a, b = random.standard_normal((2, 300))
    c = -a * b * random.choice([1, 1 + 1e-15, 3, 2.0**-60], 300)
    out = np.zeros_like(a)
    launch(FUSED, 3, 100, a, b, c, out, name="double_precision")
    exact = [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a, b, c, strict=True)]
    np.testing.assert_array_equal(out, exact)


INTEGERS = {
    "int": np.int32,
    "uint": np.uint32,
    "ll": np.int64,
    "ull": np.uint64,
}
FLOATS = {"float": np.float32, "double": np.float64}
C_NAMES = {"int": "int", "uint": "unsigned", "ll": "long long", "ull": "unsigned long long"}


def to_integer_source(float_: str, integer: str) -> str:
    lines = "\n".join(
        f"    out[{at} * n + i] = __{float_}2{integer}_{mode}(in[i]);" for at, mode in enumerate(MODES)
    )
    return f"""
extern "C" __global__ void convert(const {float_}* in, {C_NAMES[integer]}* out, int n) {{
    int i = threadIdx.x;
{lines}
    out[4 * n + i] = ({C_NAMES[integer]})in[i];
}}
"""


@pytest.mark.parametrize("float_", FLOATS)
@pytest.mark.parametrize("integer", INTEGERS)
def test_floats_to_integers(launch: Launch, float_: str, integer: str) -> None:
    info = np.iinfo(INTEGERS[integer])
    powers = [2.0**k + d for k in (7, 23, 31, 32, 52, 63, 64) for d in (-0.5, 0, 1)]
    values = np.array(
        [0, -0.0, 0.5, -0.5, 1.5, 2.5, -1.5, 0.999999, -7.3, 1e-40, 3e9, 1e20, -1e20, np.inf, -np.inf, np.nan,
         *powers, *(-p for p in powers)],
        FLOATS[float_],
    )  # fmt: skip
    n = len(values)
    out = np.zeros((5, n), INTEGERS[integer])
    launch(to_integer_source(float_, integer), 1, n, values, out, np.int32(n))
    functions = {"rn": round, "rz": math.trunc, "ru": math.ceil, "rd": math.floor}
    # PTX ISA, cvt: NaN gives 0, but where double or a 64-bit integer takes part the top bit alone.
    nan = (
        0 if float_ == "float" and info.bits == 32 else -(2**63) if integer == "ll" else 2 ** (info.bits - 1)
    )
    if float_ == "double" and integer == "int":
        nan = -(2**31)
    for row, mode in zip(out.tolist(), (*MODES, "rz"), strict=True):
        expected = []
        for value in values.tolist():
            if math.isnan(value):
                expected.append(nan)
            elif math.isinf(value):
                expected.append(info.max if value > 0 else info.min)
            else:
                expected.append(min(max(functions[mode](value), info.min), info.max))
        assert row == expected, mode


def to_float_source(integer: str, float_: str) -> str:
    lines = "\n".join(
        f"    out[{at} * n + i] = __{integer}2{float_}_{mode}(in[i]);" for at, mode in enumerate(MODES)
    )
    return f"""
extern "C" __global__ void convert(const {C_NAMES[integer]}* in, {float_}* out, int n) {{
    int i = threadIdx.x;
{lines}
}}
"""


@pytest.mark.parametrize(
    ("integer", "float_"), [(i, f) for i in INTEGERS for f in FLOATS if f == "float" or i in ("ll", "ull")]
)
def test_integers_to_floats(launch: Launch, integer: str, float_: str) -> None:
    info = np.iinfo(INTEGERS[integer])
    random = np.random.default_rng(info.bits)
    values = random.integers(info.min, info.max, 90, dtype=info.dtype) >> random.integers(
        0, info.bits, 90
    ).astype(info.dtype)
    values[:8] = [info.min, info.max, info.max - 1, 2**24 + 1, 2**24 + 3, info.min + 1, 0, 2**30 + 2**6]
    out = np.zeros((4, 90), FLOATS[float_])
    launch(to_float_source(integer, float_), 1, 90, values, out, np.int32(90))
    for row, mode in zip(out, MODES, strict=True):
        expected = [rounded(Fraction(value), out.dtype, mode) for value in values.tolist()]
        np.testing.assert_array_equal(row, np.array(expected, out.dtype), mode)


NARROWING = r"""
extern "C" __global__ void narrow(const double* in, float* out, int n) {
    int i = threadIdx.x;
    out[i] = __double2float_rn(in[i]);
    out[n + i] = __double2float_rz(in[i]);
    out[2 * n + i] = __double2float_ru(in[i]);
    out[3 * n + i] = __double2float_rd(in[i]);
}
extern "C" __global__ void small(const float* in, signed char* a, unsigned char* b, short* c, unsigned short* d) {
    int i = threadIdx.x;
    a[i] = (signed char)in[i];
    b[i] = (unsigned char)in[i];
    c[i] = (short)in[i];
    d[i] = (unsigned short)in[i];
}
extern "C" __global__ void widen(const signed char* a, const unsigned short* b, const float* f, double* out) {
    int i = threadIdx.x;
    out[3 * i] = a[i] * 1.5;
    out[3 * i + 1] = (float)b[i];
    out[3 * i + 2] = f[i];
}
extern "C" __global__ void bits(const float* f, const double* d, int* fi, long long* di, double* back) {
    int i = threadIdx.x;
    fi[i] = __float_as_int(f[i]) ^ (int)__float_as_uint(1.0f);
    di[i] = __double_as_longlong(d[i]) + __double2hiint(d[i]) - __double2loint(d[i]);
    back[i] = __hiloint2double(__double2hiint(d[i]), __double2loint(d[i])) + __int_as_float(fi[i] & 0x007fffff);
}
extern "C" __global__ void classify(const float* f, const double* d, int* out) {
    int i = threadIdx.x;
    float x = f[i];
    double y = d[i];
    out[i] = isnan(x) | isinf(x) << 1 | isfinite(x) << 2 | (signbit(x) != 0) << 3 | (isnan(y) != 0) << 4
             | (isinf(y) != 0) << 5 | (isfinite(y) != 0) << 6 | (signbit(y) != 0) << 7 | (x != x) << 8 | (x < y) << 9
             | (x >= y) << 10 | !(x <= y) << 11 | (x == y) << 12;
}
"""


def test_doubles_to_floats(launch: Launch) -> None:
    random = np.random.default_rng(0)
    values = random.standard_normal(100) * 10.0 ** random.integers(-46, 40, 100)
    values[:7] = [1e39, -1e39, 1e-46, -1e-46, 1 + 2**-24, 1 + 3 * 2**-24, 3.4028235677973366e38]
    out = np.zeros((4, 100), np.float32)
    launch(NARROWING, 1, 100, values, out, np.int32(100), name="narrow")
    for row, mode in zip(out, MODES, strict=True):
        expected = [rounded(Fraction(value), out.dtype, mode) for value in values.tolist()]
        np.testing.assert_array_equal(row, np.array(expected, np.float32), mode)


def test_floats_to_small_integers(launch: Launch) -> None:
    values = np.array([0, 1.9, -1.9, 100.5, 127.99, -128, 12.25, 77], np.float32)
    outs = [np.zeros(8, dtype) for dtype in (np.int8, np.uint8, np.int16, np.uint16)]
    launch(NARROWING, 1, 8, values, *outs, name="small")
    fits = values >= 0
    for out in outs:
        use = fits if out.dtype.kind == "u" else np.ones(8, bool)
        np.testing.assert_array_equal(out[use], np.trunc(values[use]))


def test_widening(launch: Launch) -> None:
    a, b = np.arange(-32, 32, dtype=np.int8), np.arange(0, 65536, 1024, dtype=np.uint16)
    f = np.geomspace(1e-45, 1e38, 64).astype(np.float32)
    out = np.zeros((64, 3))
    launch(NARROWING, 1, 64, a, b, f, out, name="widen")
    np.testing.assert_array_equal(out, np.stack([a * 1.5, b, f], axis=1))


def test_reinterpretation(launch: Launch) -> None:
    random = np.random.default_rng(0)
    f, d = random.standard_normal(64).astype(np.float32), random.standard_normal(64) * 1e100
    fi, di, back = np.zeros(64, np.int32), np.zeros(64, np.int64), np.zeros(64)
    launch(NARROWING, 1, 64, f, d, fi, di, back, name="bits")
    np.testing.assert_array_equal(fi, f.view(np.int32) ^ np.float32(1).view(np.int32))
    words = d.view(np.int64)
    np.testing.assert_array_equal(di, words + (words >> 32) - words.astype(np.int32))
    np.testing.assert_array_equal(back, d + (fi & 0x007FFFFF).view(np.float32).astype(np.float64))


def test_classification(launch: Launch) -> None:
    specials = np.array([0, -0.0, 1, -2, np.inf, -np.inf, np.nan, 1e-44, 3e38])
    d, f = (array.ravel() for array in np.meshgrid(specials, specials.astype(np.float32)))
    out = np.zeros(81, np.int32)
    launch(NARROWING, 1, 81, f.astype(np.float32), d, out, name="classify")
    x, y = f.astype(np.float32).astype(np.float64), d
    tests = [np.isnan(x), np.isinf(x), np.isfinite(x), np.signbit(x), np.isnan(y), np.isinf(y), np.isfinite(y),
             np.signbit(y), np.isnan(x), x < y, x >= y, ~(x <= y), x == y]  # fmt: skip
    np.testing.assert_array_equal(out, sum(test.astype(int) << at for at, test in enumerate(tests)))

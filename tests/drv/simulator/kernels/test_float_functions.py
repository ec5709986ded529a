"""CUDA's mathematical functions in single and double precision, within their documented errors.

The bounds, in units in the last place, are those of the CUDA Math API's accuracy tables.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy.special as sp

from .exact_arithmetic import units_in_last_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.drv.simulator.kernels.conftest import Launch

N = 512


@dataclass(frozen=True, slots=True)
class Row:
    """An expression of x and y, what it means, where, and within how many ulp."""

    expression: str
    meaning: Callable[..., np.ndarray]
    ulp: float
    domain: tuple[float, float] = (-20, 20)
    domain_of_y: tuple[float, float] = (-20, 20)
    #: Uniform in the exponent and not in the number.
    logarithmic: bool = False


def wide(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """A NumPy function computed with 64 bits of significand."""
    return lambda *arrays: function(*(array.astype(np.longdouble) for array in arrays))


def double(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """A function of SciPy in double precision."""
    return lambda *arrays: function(*(array.astype(np.float64) for array in arrays))


def each(function: Callable[..., float]) -> Callable[..., np.ndarray]:
    """A function of the C library, number by number."""
    return double(np.vectorize(function, otypes=[np.float64]))


PI = np.longdouble("3.14159265358979323846264338327950288")


def sinpi(x: np.ndarray) -> np.ndarray:
    # Brought to [-1/2, 1/2], where pi times it loses nothing that shows.
    reduced = np.remainder(x.astype(np.longdouble), 2)
    reduced = np.where(reduced > 1.5, reduced - 2, reduced)
    reduced = np.where(reduced > 0.5, 1 - reduced, reduced)
    return np.sin(PI * reduced)


def cospi(x: np.ndarray) -> np.ndarray:
    return sinpi(x.astype(np.longdouble) + 0.5)


def norm3(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    x, y = x.astype(np.longdouble), y.astype(np.longdouble)
    return np.sqrt(x * x + y * y + 9)


TINY, HUGE = 1e-37, 1e38
FLOATS = [
    Row("sinf(x)", wide(np.sin), 2),
    Row("cosf(x)", wide(np.cos), 2),
    Row("tanf(x)", wide(np.tan), 4),
    Row("sinf(x * 3000.0f)", lambda x: np.sin((x * np.float32(3000)).astype(np.longdouble)), 2),
    Row("cosf(x)", wide(np.cos), 2, (1e4, 3e38), logarithmic=True),
    Row("sinf(-x)", lambda x: -wide(np.sin)(x), 2, (1e4, 3e38), logarithmic=True),
    Row("sinpif(x)", sinpi, 2),
    Row("cospif(x)", cospi, 2),
    Row("asinf(x)", wide(np.arcsin), 4, (-1, 1)),
    Row("acosf(x)", wide(np.arccos), 3, (-1, 1)),
    Row("atanf(x)", wide(np.arctan), 2, (-100, 100)),
    Row("atan2f(x, y)", wide(np.arctan2), 3),
    Row("sinhf(x)", wide(np.sinh), 3),
    Row("coshf(x)", wide(np.cosh), 2),
    Row("tanhf(x)", wide(np.tanh), 2, (-5, 5)),
    Row("asinhf(x)", wide(np.arcsinh), 3),
    Row("acoshf(x)", wide(np.arccosh), 4, (1, 100)),
    Row("atanhf(x)", wide(np.arctanh), 3, (-1, 1)),
    Row("expf(x)", wide(np.exp), 2, (-100, 100)),
    Row("exp2f(x)", wide(np.exp2), 2, (-140, 140)),
    Row("exp10f(x)", lambda x: np.longdouble(10) ** x.astype(np.longdouble), 2, (-44, 44)),
    Row("expm1f(x)", wide(np.expm1), 1, (-2, 2)),
    Row("logf(x)", wide(np.log), 1, (TINY, HUGE), logarithmic=True),
    Row("log2f(x)", wide(np.log2), 1, (TINY, HUGE), logarithmic=True),
    Row("log10f(x)", wide(np.log10), 2, (TINY, HUGE), logarithmic=True),
    Row("log1pf(x)", wide(np.log1p), 1, (-0.9, 5)),
    Row("powf(x, y)", wide(np.power), 4, (0, 30)),
    Row("sqrtf(x)", wide(np.sqrt), 0.5, (TINY, HUGE), logarithmic=True),
    Row("rsqrtf(x)", lambda x: 1 / wide(np.sqrt)(x), 2, (TINY, HUGE), logarithmic=True),
    Row("cbrtf(x)", wide(np.cbrt), 1),
    Row("rcbrtf(x)", lambda x: 1 / wide(np.cbrt)(x), 2),
    Row("hypotf(x, y)", wide(np.hypot), 3),
    Row("rhypotf(x, y)", lambda x, y: 1 / wide(np.hypot)(x, y), 2),
    Row("norm3df(x, y, 3.0f)", norm3, 3),
    Row("erff(x)", double(sp.erf), 2, (-4, 4)),
    Row("erfcf(x)", double(sp.erfc), 4, (-4, 9)),
    Row("erfinvf(x)", double(sp.erfinv), 2, (-1, 1)),
    Row("erfcinvf(x)", double(sp.erfcinv), 4, (0, 2)),
    Row("erfcxf(x)", double(sp.erfcx), 4, (-5, 50)),
    Row("normcdff(x)", double(sp.ndtr), 5, (-9, 6)),
    Row("normcdfinvf(x)", double(sp.ndtri), 5, (0, 1)),
    Row("lgammaf(x)", double(sp.gammaln), 6, (0.01, 100)),
    Row("tgammaf(x)", double(sp.gamma), 5, (-4.9, 30)),
    Row("j0f(x)", double(sp.j0), 9, (-2, 2)),
    Row("y1f(x)", double(sp.y1), 9, (0.01, 2)),
    Row("x / y", wide(np.divide), 0.5),
    Row("fdividef(x, y)", wide(np.divide), 2),
    Row("fmodf(x, y)", wide(np.fmod), 0),
    Row("remainderf(x, y)", lambda x, y: x - y * np.rint(x.astype(np.float64) / y), 0),
    Row("fdimf(x, y)", lambda x, y: np.maximum(x - y, 0), 0),
    Row("fmaf(x, y, 1.0f)", lambda x, y: x.astype(np.longdouble) * y + 1, 0.5),
    Row("ldexpf(x, (int)y)", lambda x, y: np.ldexp(x.astype(np.longdouble), y.astype(int)), 0),
    Row("nextafterf(x, y)", np.nextafter, 0),
    Row("copysignf(x, y)", np.copysign, 0),
    Row("truncf(x) + floorf(y)", lambda x, y: np.trunc(x) + np.floor(y), 0),
    Row("rintf(x * 2) + nearbyintf(y)", lambda x, y: np.rint(x * 2) + np.rint(y), 0),
    Row("roundf(x)", lambda x: np.trunc(x + np.copysign(np.float64(0.5), x)), 0),
    Row("ceilf(x) - fabsf(y)", lambda x, y: np.ceil(x) - np.abs(y), 0),
    Row("(float)lroundf(x) + llrintf(y)", lambda x, y: np.trunc(x + np.copysign(0.5, x)) + np.rint(y), 0),
    Row("(float)ilogbf(x) + logbf(y)", lambda x, y: np.frexp(x)[1] - 1.0 + np.frexp(y)[1] - 1, 0),
    Row("fmaxf(x, y) - fminf(x, y)", lambda x, y: np.maximum(x, y) - np.minimum(x, y), 0),
]
DOUBLES = [
    Row("sin(x)", wide(np.sin), 2),
    Row("cos(x)", wide(np.cos), 2),
    Row("tan(x)", wide(np.tan), 2.5),
    Row("sin(x)", wide(np.sin), 2, (1e6, 1e300), logarithmic=True),
    Row("cos(-x)", wide(np.cos), 2, (1e6, 1e300), logarithmic=True),
    Row("sinpi(x)", sinpi, 2),
    Row("cospi(x)", cospi, 2),
    Row("asin(x)", wide(np.arcsin), 2, (-1, 1)),
    Row("acos(x)", wide(np.arccos), 2, (-1, 1)),
    Row("atan(x)", wide(np.arctan), 2, (-100, 100)),
    Row("atan2(x, y)", wide(np.arctan2), 2),
    Row("sinh(x)", wide(np.sinh), 2),
    Row("cosh(x)", wide(np.cosh), 1),
    Row("tanh(x)", wide(np.tanh), 2, (-5, 5)),
    Row("asinh(x)", wide(np.arcsinh), 3),
    Row("acosh(x)", wide(np.arccosh), 3, (1, 100)),
    Row("atanh(x)", wide(np.arctanh), 2, (-1, 1)),
    Row("exp(x)", wide(np.exp), 1, (-700, 700)),
    Row("exp2(x)", wide(np.exp2), 1, (-1000, 1000)),
    Row("exp10(x)", lambda x: np.longdouble(10) ** x.astype(np.longdouble), 1, (-300, 300)),
    Row("expm1(x)", wide(np.expm1), 1, (-2, 2)),
    Row("log(x)", wide(np.log), 1, (1e-300, 1e300), logarithmic=True),
    Row("log2(x)", wide(np.log2), 1, (1e-300, 1e300), logarithmic=True),
    Row("log10(x)", wide(np.log10), 1, (1e-300, 1e300), logarithmic=True),
    Row("log1p(x)", wide(np.log1p), 1, (-0.9, 5)),
    Row("pow(x, y)", wide(np.power), 2, (0, 30)),
    Row("sqrt(x)", wide(np.sqrt), 0.5, (1e-300, 1e300), logarithmic=True),
    Row("rsqrt(x)", lambda x: 1 / wide(np.sqrt)(x), 1, (1e-300, 1e300), logarithmic=True),
    Row("cbrt(x)", wide(np.cbrt), 1),
    Row("hypot(x, y)", wide(np.hypot), 2),
    Row("norm3d(x, y, 3.0)", norm3, 2),
    # These references are good to a few units themselves.
    Row("erf(x)", each(math.erf), 2 + 1, (-4, 4)),
    Row("erfc(x)", each(math.erfc), 5 + 1, (-4, 9)),
    Row("erfcx(x)", double(sp.erfcx), 4 + 8, (-5, 50)),
    Row("lgamma(x)", each(math.lgamma), 4 + 4, (3, 100)),
    Row("tgamma(x)", each(math.gamma), 10 + 6, (0.1, 30)),
    Row("x / y", wide(np.divide), 0.5005),
    Row("1.0 / x", lambda x: 1 / x.astype(np.longdouble), 0.5005),
    Row("fmod(x, y)", wide(np.fmod), 0),
    Row("floor(x) + ceil(y)", lambda x, y: np.floor(x) + np.ceil(y), 0),
    Row("rint(x * 2) + trunc(y)", lambda x, y: np.rint(x * 2) + np.trunc(y), 0),
    Row("round(x)", lambda x: np.trunc(x + np.copysign(0.5, x)), 0),
    Row("fmax(x, y) - fmin(x, y)", lambda x, y: np.maximum(x, y) - np.minimum(x, y), 0),
    Row("ldexp(x, (int)y)", lambda x, y: np.ldexp(x, y.astype(int)), 0),
    Row("nextafter(x, y)", np.nextafter, 0),
]


def source(rows: list[Row], type_: str) -> str:
    cases = "\n".join(f"        case {at}: r = {row.expression}; break;" for at, row in enumerate(rows))
    return f"""
extern "C" __global__ void evaluate(const {type_}* xs, const {type_}* ys, {type_}* out) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    {type_} x = xs[i], y = ys[i], r = 0;
    switch (blockIdx.x) {{
{cases}
    }}
    out[i] = r;
}}
"""


def numbers(row: Row, dtype: type[np.floating], seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    low, high = row.domain
    if row.logarithmic:
        x = np.exp(random.uniform(np.log(low), np.log(high), N))
    else:
        x = random.uniform(low, high, N)
    return x.astype(dtype), random.uniform(*row.domain_of_y, N).astype(dtype)


def evaluate(
    launch: Launch, rows: list[Row], type_: str, dtype: type[np.floating], options: tuple[str, ...] = ()
) -> list[tuple[Row, np.ndarray, np.ndarray]]:
    """For every row: what the device gives, and what the reference gives."""
    inputs = [numbers(row, dtype, seed) for seed, row in enumerate(rows)]
    xs, ys = (np.concatenate(arrays) for arrays in zip(*inputs, strict=True))
    out = np.zeros((len(rows), N), dtype)
    launch(source(rows, type_), len(rows), N, xs, ys, out, options=options)
    results = []
    for row, (x, y), actual in zip(rows, inputs, out, strict=True):
        arguments = (x, y) if re.search(r"\by\b", row.expression) else (x,)
        results.append((row, actual, row.meaning(*arguments)))
    return results


@pytest.mark.parametrize(
    ("rows", "type_", "dtype"), [(FLOATS, "float", np.float32), (DOUBLES, "double", np.float64)]
)
def test_accuracy(launch: Launch, rows: list[Row], type_: str, dtype: type[np.floating]) -> None:
    too_far = {}
    for row, actual, expected in evaluate(launch, rows, type_, dtype):
        distance = units_in_last_place(actual, expected, np.dtype(dtype)).max()
        # The tables count from the correctly rounded result.
        if distance > row.ulp + 0.5 * (row.ulp > 0.51):
            too_far[row.expression, row.domain] = distance
    assert not too_far


SPECIAL: dict[str, Callable[..., np.ndarray]] = {
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log,
    "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt, "cbrt": np.cbrt, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
    "fabs": np.fabs, "erf": sp.erf,
}  # fmt: skip
SPECIAL_PAIRS: dict[str, Callable[..., np.ndarray]] = {
    "pow": np.power, "atan2": np.arctan2, "fmod": np.fmod, "fmin": np.fmin, "fmax": np.fmax, "hypot": np.hypot,
    "nextafter": np.nextafter, "copysign": np.copysign,
}  # fmt: skip


@pytest.mark.parametrize(("type_", "dtype"), [("float", np.float32), ("double", np.float64)])
def test_special_values(launch: Launch, type_: str, dtype: type[np.floating]) -> None:
    info = np.finfo(dtype)
    specials = np.array(
        [0.0, -0.0, 1, -1, 0.5, -2, 3, np.inf, -np.inf, np.nan, info.max, -info.max, info.tiny, -info.tiny,
         info.smallest_subnormal, -info.smallest_subnormal, info.tiny / 8, 1 + info.eps],
        dtype,
    )  # fmt: skip
    suffix = "f" if type_ == "float" else ""
    ones = "\n".join(f"    one[{at} * n + i] = {name}{suffix}(x);" for at, name in enumerate(SPECIAL))
    twos = "\n".join(
        f"        two[({at} * n + i) * n + j] = {name}{suffix}(x, y);"
        for at, name in enumerate(SPECIAL_PAIRS)
    )
    text = f"""
extern "C" __global__ void evaluate(const {type_}* in, {type_}* one, {type_}* two) {{
    int i = threadIdx.y, j = threadIdx.x, n = blockDim.x;
    {type_} x = in[i], y = in[j];
    if (j == 0) {{
{ones}
    }}
{twos}
}}
"""
    n = len(specials)
    one, two = np.zeros((len(SPECIAL), n), dtype), np.zeros((len(SPECIAL_PAIRS), n, n), dtype)
    launch(text, 1, (n, n), specials, one, two)
    y, x = np.meshgrid(specials, specials)
    with np.errstate(all="ignore"):
        wrong = [
            (name, arguments[at], got[at], expected[at])
            for name, got, expected, arguments in (
                *(
                    (name, row, f(specials), specials)
                    for (name, f), row in zip(SPECIAL.items(), one, strict=True)
                ),
                *(
                    (name, table, f(x, y), np.stack([x, y], axis=-1))
                    for (name, f), table in zip(SPECIAL_PAIRS.items(), two, strict=True)
                ),
            )
            for at in zip(
                *np.nonzero(~close(got, expected, either_zero=name in ("fmin", "fmax"))), strict=True
            )
        ]
    assert not wrong, wrong


def close(got: np.ndarray, reference: np.ndarray, *, either_zero: bool) -> np.ndarray:
    """Equal within a few units; zeros (unless either will do) and infinities with their signs; NaN like NaN."""
    info = np.finfo(reference.dtype)
    error = np.abs(got.astype(np.longdouble) - reference)
    near = error <= np.maximum(
        16 * info.eps * np.abs(reference.astype(np.longdouble)), 16 * info.smallest_subnormal
    )
    # Next to the largest number, a few units are as good as infinity.
    near |= (
        np.isinf(got)
        & (np.abs(reference) > info.max * (1 - 16 * info.eps))
        & (np.sign(got) == np.sign(reference))
    )
    exact = (reference == 0) | np.isinf(reference)
    same_sign = (np.signbit(got) == np.signbit(reference)) | ((reference == 0) & either_zero)
    return np.where(exact, (got == reference) & same_sign, near) | (np.isnan(got) & np.isnan(reference))

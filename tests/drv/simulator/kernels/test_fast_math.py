"""Intrinsics and ``-use_fast_math``: the programming guide's bounds, and flushing of subnormals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
import scipy.special

from .exact_arithmetic import units_in_last_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.drv.simulator.kernels.conftest import Launch

N = 512
PI = np.pi


@dataclass(frozen=True, slots=True)
class Row:
    """An expression of x and y, what it means, where, and within how many ulp or how much absolutely."""

    expression: str
    meaning: Callable[[np.ndarray, np.ndarray], np.ndarray]
    domain: tuple[float, float]
    ulp: float | Callable[[np.ndarray], np.ndarray] = 0
    absolute: float = 0
    relative: float = 0


INTRINSICS = [
    Row("__sinf(x)", lambda x, y: np.sin(x), (-PI, PI), absolute=2**-21.41),
    Row("__cosf(x)", lambda x, y: np.cos(x), (-PI, PI), absolute=2**-21.19),
    Row("__tanf(x)", lambda x, y: np.tan(x), (-1, 1), absolute=2**-19),
    Row("__expf(x)", lambda x, y: np.exp(x), (-80, 80), ulp=lambda x: 2 + np.floor(np.abs(1.173 * x))),
    Row("__exp10f(x)", lambda x, y: 10**x, (-37, 37), ulp=lambda x: 2 + np.floor(np.abs(2.97 * x))),
    Row("__logf(x)", lambda x, y: np.log(x), (0.5, 2), absolute=2**-21.41),
    Row("__logf(x)", lambda x, y: np.log(x), (2, 1e30), ulp=3),
    Row("__log2f(x)", lambda x, y: np.log2(x), (0.5, 2), absolute=2**-22),
    Row("__log2f(x)", lambda x, y: np.log2(x), (2, 1e30), ulp=2),
    Row("__log10f(x)", lambda x, y: np.log10(x), (0.5, 2), absolute=2**-24 + 2**-25),
    Row("__powf(x, y)", lambda x, y: x**y, (0.1, 10), relative=2**-17),
    Row("__fdividef(x, y)", lambda x, y: x / y, (-50, 50), ulp=2),
    Row("__frsqrt_rn(x)", lambda x, y: 1 / np.sqrt(x), (1e-3, 1e6), ulp=0.5),
    Row("__frcp_rn(x)", lambda x, y: 1 / x, (1e-3, 1e6), ulp=0.5),
    Row("__saturatef(x)", lambda x, y: np.clip(x, 0, 1), (-2, 3)),
]
FAST = [
    Row("sinf(x)", lambda x, y: np.sin(x), (-PI, PI), absolute=2**-21.41),
    Row("cosf(x)", lambda x, y: np.cos(x), (-PI, PI), absolute=2**-21.19),
    Row("expf(x)", lambda x, y: np.exp(x), (-80, 80), ulp=lambda x: 2 + np.floor(np.abs(1.173 * x))),
    Row("exp2f(x)", lambda x, y: np.exp2(x), (-120, 120), ulp=2),
    Row("logf(x)", lambda x, y: np.log(x), (2, 1e30), ulp=3),
    Row("powf(x, y)", lambda x, y: x**y, (0.1, 10), relative=2**-17),
    Row("tanhf(x)", lambda x, y: np.tanh(x), (-5, 5), relative=2**-10.9),
    Row("sqrtf(x)", lambda x, y: np.sqrt(x), (1e-3, 1e6), ulp=1.5),
    Row("rsqrtf(x)", lambda x, y: 1 / np.sqrt(x), (1e-3, 1e6), ulp=2),
    Row("x / y", lambda x, y: x / y, (-50, 50), ulp=2),
    Row("1.0f / x", lambda x, y: 1 / x, (1e-3, 1e6), ulp=1.5),
    Row("erff(x)", lambda x, y: scipy.special.erf(x), (-3, 3), ulp=8),
    Row("x * y + 1.0f", lambda x, y: x * y + 1, (-5, 5), ulp=0.5),
]


def source(rows: list[Row]) -> str:
    cases = "\n".join(f"        case {at}: r = {row.expression}; break;" for at, row in enumerate(rows))
    return f"""
extern "C" __global__ void evaluate(const float* xs, const float* ys, float* out) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = xs[i], y = ys[i], r = 0;
    switch (blockIdx.x) {{
{cases}
    }}
    out[i] = r;
}}
"""


FLUSHING = r"""
extern "C" __global__ void arithmetic(const float* in, float* out, int n) {
    int i = threadIdx.x;
    float x = in[i];
    out[i] = x * 0.5f;
    out[n + i] = x + 0.0f;
    out[2 * n + i] = fmaf(x, 1.0f, 0.0f);
    out[3 * n + i] = x < 0.0f ? -1.0f : x > 0.0f ? 1.0f : 0.0f;
    out[4 * n + i] = fabsf(x);
    out[5 * n + i] = fmaxf(x, 0.0f);
    out[6 * n + i] = x / 3.0f;
}
extern "C" __global__ void moves(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }
extern "C" __global__ void doubles(const double* in, double* out) { out[threadIdx.x] = in[threadIdx.x] * 0.5; }
"""


@pytest.mark.parametrize(
    ("rows", "options"), [(INTRINSICS, ()), (FAST, ("-use_fast_math",))], ids=["intrinsics", "use_fast_math"]
)
def test_bounds(launch: Launch, rows: list[Row], options: tuple[str, ...]) -> None:
    random = np.random.default_rng(0)
    xs = np.stack([random.uniform(*row.domain, N) for row in rows]).astype(np.float32)
    ys = random.uniform(0.5, 4, xs.shape).astype(np.float32)
    out = np.zeros_like(xs)
    launch(source(rows), len(rows), N, xs, ys, out, options=options)
    too_far = {}
    for row, x, y, actual in zip(rows, xs.astype(np.float64), ys.astype(np.float64), out, strict=True):
        expected = row.meaning(x, y)
        error = np.abs(actual - expected)
        ulp = row.ulp(x) if callable(row.ulp) else row.ulp
        within = units_in_last_place(actual, expected, np.dtype(np.float32)) <= ulp + 0.5
        within |= error <= row.absolute + row.relative * np.abs(expected)
        if not within.all():
            too_far[row.expression] = (x[~within][0], y[~within][0], actual[~within][0], expected[~within][0])
    assert not too_far


@pytest.mark.parametrize("flush", [False, True])
def test_subnormal_numbers(launch: Launch, flush: bool) -> None:
    tiny, least = np.finfo(np.float32).tiny, np.finfo(np.float32).smallest_subnormal
    values = np.array([tiny, -tiny, tiny / 2, -tiny / 4, least, -least, 0, -0.0, 1], np.float32)
    n = len(values)
    out = np.zeros((7, n), np.float32)
    launch(
        FLUSHING, 1, n, values, out, np.int32(n), name="arithmetic", options=(f"-ftz={str(flush).lower()}",)
    )

    def flushed(array: np.ndarray) -> np.ndarray:
        return np.where(np.abs(array) < tiny, np.copysign(0, array), array) if flush else array

    x = flushed(values)
    # Without -ftz the compiler drops x + 0.0f only where that keeps the sign of zero.
    expected = [
        x * np.float32(0.5),
        x + np.float32(0),
        x + np.float32(0),
        np.sign(x),
        np.abs(x),
        np.maximum(x, 0),
    ]
    expected.append((x.astype(np.float64) / 3).astype(np.float32))
    for row, (got, needed) in enumerate(zip(out, expected, strict=True)):
        np.testing.assert_array_equal(got, flushed(np.asarray(needed, np.float32)), str(row))
        if row in (0, 1, 2):
            np.testing.assert_array_equal(np.signbit(got), np.signbit(flushed(np.asarray(needed))), str(row))


def test_moves_and_doubles_are_never_flushed(launch: Launch) -> None:
    values = np.array([1e-45, -1e-40, 1e-38], np.float32)
    out = np.zeros_like(values)
    launch(FLUSHING, 1, 3, values, out, name="moves", options=("-ftz=true",))
    np.testing.assert_array_equal(out, values)
    wide = np.array([5e-324, 1e-310, -3e-308])
    halves = np.zeros(3)
    launch(FLUSHING, 1, 3, wide, halves, name="doubles", options=("-ftz=true",))
    np.testing.assert_array_equal(halves, wide * 0.5)

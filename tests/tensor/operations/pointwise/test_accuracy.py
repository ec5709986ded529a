"""How exact pointwise operations are in single precision, over all that they are used for.

Every bound is in units in the last place of the exact result, which is computed in double precision. Most are
those that NVIDIA documents for CUDA's functions ("CUDA C++ Programming Guide", mathematical functions appendix).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from tests.tensor.operations.operands import call, on, units_off
from tests.tensor.operations.samples import SAMPLES, Sample

_ANY = 1e30
#: Sample, least and largest operand, units off on the CPU and on a device.
ACCURACY: dict[str, tuple[float, float, float, float]] = {
    "reciprocal": (-1e37, 1e37, 0.5, 0.5),
    "square": (-1e19, 1e19, 0.5, 0.5),
    "sqrt": (0, 1e38, 0.5, 0.5),
    "rsqrt": (1e-38, 1e38, 2, 2),
    "exp": (-87, 88.7, 4, 2),
    "exp2": (-126, 127.9, 4, 2),
    "expm1": (-20, 88.7, 4, 2),
    "log": (1e-38, 1e38, 4, 1),
    "log2": (1e-38, 1e38, 4, 1),
    "log10": (1e-38, 1e38, 4, 2),
    "log1p": (-0.999999, 1e38, 4, 1),
    "pow": (1e-3, 30, 4, 2),
    "sin": (-1e5, 1e5, 4, 2),
    "cos": (-1e5, 1e5, 4, 2),
    "tan": (-1e5, 1e5, 4, 4),
    "asin": (-1, 1, 4, 2),
    "acos": (-1, 1, 4, 2),
    "atan": (-_ANY, _ANY, 4, 2),
    "atan2": (-_ANY, _ANY, 4, 3),
    "hypot": (-1e19, 1e19, 4, 3),
    "sinh": (-88, 88, 4, 3),
    "cosh": (-88, 88, 4, 2),
    "tanh": (-20, 20, 4, 2),
    "asinh": (-_ANY, _ANY, 4, 3),
    "acosh": (1, _ANY, 4, 4),
    "atanh": (-0.999999, 0.999999, 4, 3),
    "deg2rad": (-_ANY, _ANY, 1, 1),
    "rad2deg": (-_ANY, _ANY, 1, 1),
    "frac": (-1e6, 1e6, 0, 0),
    "erf": (-5, 5, 4, 2),
    "erfc": (-5, 9, 1, 4),
    "erfinv": (-0.999999, 0.999999, 1, 2),
    "lgamma": (1e-30, _ANY, 1, 6),
    "digamma": (1e-30, _ANY, 1, 1),
    "sigmoid": (-87, 87, 4, 3),
    "logit": (1e-30, 0.999999, 4, 3),
    "sinc": (-100, 100, 2, 2),
    "logaddexp": (-80, 80, 4, 3),
    "xlogy": (1e-10, 1e10, 4, 2),
    "ldexp": (-20, 20, 3, 3),
    "igamma": (1e-3, 40, 1, 1),
    "igammac": (1e-3, 40, 1, 1),
    "mvlgamma": (0.51, 1e5, 1, 1),
    "zeta": (1.01, 30, 1, 1),
    "erfcx": (-5, 1e4, 1, 4),
    "ndtr": (-10, 5, 1, 5),
    "log_ndtr": (-1e4, 8, 1, 5),
    "ndtri": (1e-30, 0.999999, 1, 5),
    "entr": (1e-30, 1e30, 4, 2),
    "xlog1py": (1e-10, 1e10, 4, 2),
    "i0": (-80, 80, 1, 1),
    "i0e": (-1e30, 1e30, 1, 1),
    "i1": (-80, 80, 1, 1),
    "i1e": (-1e30, 1e30, 1, 1),
    "bessel_j0": (-1e4, 1e4, 1, 1),
    "bessel_j1": (-1e4, 1e4, 1, 1),
    "bessel_y0": (1e-30, 1e4, 1, 1),
    "bessel_y1": (1e-30, 1e4, 1, 1),
    "modified_bessel_k0": (1e-30, 80, 1, 1),
    "modified_bessel_k1": (1e-30, 80, 1, 1),
    "scaled_modified_bessel_k0": (1e-30, 1e30, 1, 1),
    "scaled_modified_bessel_k1": (1e-30, 1e30, 1, 1),
    "spherical_bessel_j0": (-1e4, 1e4, 4, 2),
    "leaky_relu": (-_ANY, _ANY, 1, 1),
    "elu": (-80, 80, 4, 3),
    "selu": (-80, 80, 4, 3),
    "celu": (-80, 80, 4, 3),
    "softplus": (-80, 80, 4, 3),
    "logsigmoid": (-80, 80, 4, 3),
    "silu": (-80, 80, 4, 3),
    "mish": (-80, 80, 6, 5),
    "gelu": (-5, 13, 32, 32),
    "gelu-tanh": (-5, 13, 32, 32),
    "softsign": (-_ANY, _ANY, 2, 2),
    "hardsigmoid": (-5, 5, 1, 1),
    "hardswish": (-5, 5, 2, 2),
    "tanhshrink": (-10, 10, 2, 2),
}
_BY_NAME = {str(sample): sample for sample in SAMPLES}
_COUNT = 1500


def _points(low: float, high: float, seed: int) -> Any:
    """Single precision numbers: spread evenly, evenly near 0, and evenly over all sizes."""
    rng = np.random.default_rng(seed)
    result = [rng.uniform(low, high, _COUNT // 3), rng.uniform(max(low, -3), min(high, 3), _COUNT // 3)]
    for sign, least, most in ((1, low, high), (-1, -high, -low)):
        if most > 0:
            sizes = rng.uniform(np.log(max(least, 1e-30)), np.log(most), _COUNT // 6 * (1 + (low >= 0)))
            result.append(sign * np.exp(sizes))
    points = np.concatenate(result).astype(np.float32)
    return rng.permutation(points)[:_COUNT].clip(np.float32(low), np.float32(high))


@pytest.mark.parametrize("name", ACCURACY)
@pytest.mark.sampled(4)
def test_single_precision(name: str, device_name: str) -> None:
    low, high, *bounds = ACCURACY[name]
    sample = _BY_NAME[name]
    points = [_points(low, high, seed) for seed in range(sample.operands)]
    result = call(sample, [on(device_name, x) for x in points])
    with np.errstate(all="ignore"):
        expected = sample.reference(*[x.astype(np.float64) for x in points])
    representable = np.abs(expected) < np.finfo(np.float32).max
    off = np.where(representable, units_off(result, expected, sample.least), 0)
    worst = int(np.argmax(off))
    allowed = bounds[device_name == "cuda"]
    assert off[worst] <= allowed + 0.001, (
        f"{name}({', '.join(str(x[worst]) for x in points)}) is {result[worst].item()} instead of {expected[worst]}, "
        f"off by {off[worst]:.1f} units"
    )


@pytest.mark.parametrize("name", ["exp", "sin", "sigmoid", "gelu", "tanh", "erf"])
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_half_precision_is_rounded_once(name: str, kind: str) -> None:
    """Every number of half precision in [-8, 8] gives the exact result, rounded as well as can be."""
    sample: Sample = _BY_NAME[name]
    bits = tensor.arange(-(2**15), 2**15).to(tensor.int16)
    numbers = bits.view(getattr(tensor, kind))
    numbers = numbers[(numbers.abs() <= 8) & (numbers.abs() > 1e-3)]
    result = call(sample, [numbers])
    expected = sample.reference(numbers.double().numpy())
    # Native loops compute in single precision, which shows where most of gelu's terms cancel.
    assert units_off(result, expected, 1e-4).max() < (0.52 if name == "gelu" else 0.51)


def test_division_is_correctly_rounded(device_name: str) -> None:
    """The quotient is the nearest number of the type: no approximate reciprocal."""
    a, b = (_points(-1e15, 1e15, seed) for seed in (5, 6))
    result = (on(device_name, a) / on(device_name, b)).cpu().numpy()
    np.testing.assert_array_equal(result, a / b)
    np.testing.assert_array_equal(on(device_name, a).sqrt().cpu().numpy()[a > 0], np.sqrt(a[a > 0]))

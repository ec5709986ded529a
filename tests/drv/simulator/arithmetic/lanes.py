"""Lanes of every PTX type for the tests of the arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drv.simulator.arithmetic import DTYPES

#: Bit patterns that arithmetic most often gets wrong, by float dtype.
_FLOAT_SPECIALS = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 1.5, 2.5, -2.5, 3.0)

#: Float types whose lanes hold bit patterns, and the dtype of their parts; bf16 is the upper half of float32.
_PATTERNS = {"f16x2": np.float16, "f32x2": np.float32}


def as_floats(ptx_type: str, lanes: NDArray[Any]) -> NDArray[Any]:
    """Return lanes of a float type as NumPy floats, parts of packed lanes one after the other."""
    if ptx_type.startswith("bf16"):
        return (lanes.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return lanes.view(_PATTERNS.get(ptx_type, lanes.dtype))


def same(ptx_type: str, a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which lanes (or parts of packed lanes) have the same bits or are both NaN."""
    if "f" not in ptx_type:
        return a == b
    a, b = as_floats(ptx_type, a), as_floats(ptx_type, b)
    unsigned = f"u{a.itemsize}"
    return (a.view(unsigned) == b.view(unsigned)) | (np.isnan(a) & np.isnan(b))


def random_lanes(ptx_type: str, count: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return ``count`` random bit patterns of ``ptx_type``, with many special values."""
    dtype = DTYPES[ptx_type]
    if dtype == np.bool_:
        return rng.integers(0, 2, count).astype(np.bool_)
    lanes = rng.integers(0, 256, count * dtype.itemsize, dtype=np.uint8).view(dtype)
    if dtype.kind == "f":
        info = np.finfo(dtype)
        specials = [*_FLOAT_SPECIALS, info.max, info.tiny, info.smallest_subnormal, info.tiny / 2]
    else:
        limits = np.iinfo(dtype)
        specials = [0, 1, 2, 31, 32, 33, limits.min, limits.max, limits.max // 2 + 1]
    chosen = rng.choice(np.array(specials, dtype), count)
    return np.where(rng.random(count) < 0.3, chosen, lanes)


def demanding_floats(ptx_type: str, count: int, arity: int, rng: np.random.Generator) -> list[NDArray[Any]]:
    """Return operands of f32 or f64 that make ties, cancellation, underflow and overflow likely."""
    dtype = DTYPES[ptx_type]
    unsigned = np.dtype(f"u{dtype.itemsize}")
    info = np.finfo(dtype)
    operands = []
    for _ in range(arity):
        lanes = random_lanes(ptx_type, count, rng).view(unsigned)
        # Few significant bits make exact and halfway results, exponents near 0 make sums that overlap.
        dropped = rng.integers(0, info.nmant + 1, count).astype(unsigned)
        lanes = np.where(rng.random(count) < 0.5, lanes >> dropped << dropped, lanes)
        exponents = rng.integers(-30, 31, count) + (info.maxexp - 1)
        mask = unsigned.type((2 * info.maxexp - 1) << info.nmant)
        near = lanes & ~mask | exponents.astype(unsigned) << unsigned.type(info.nmant)
        operands.append(np.where(rng.random(count) < 0.6, near, lanes).view(dtype))
    if arity > 1:
        with np.errstate(all="ignore"):
            others = operands[0] * operands[1] if arity == 3 else operands[0]
            cancelling = np.where(rng.random(count) < 0.3, -others, operands[-1])
            nudged = np.nextafter(cancelling, dtype.type(0))
        operands[-1] = np.where(rng.random(count) < 0.1, nudged, cancelling).astype(dtype)
    return operands

"""Lanes of every PTX type for the tests of the arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drv.simulator.arithmetic import DTYPES

#: Bit patterns that arithmetic most often gets wrong, by float dtype.
_FLOAT_SPECIALS = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 1.5, 2.5, -2.5, 3.0)


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

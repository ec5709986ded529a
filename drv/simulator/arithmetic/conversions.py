"""cvt: conversions between integers and floats of all widths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from drv.simulator.arithmetic.operation import DTYPES, Row, scalar_name, width

if TYPE_CHECKING:
    from collections.abc import Iterator

    from drv.simulator.arithmetic.operation import Function, Lanes

INTEGERS = tuple(f"{kind}{bits}" for kind in "us" for bits in (8, 16, 32, 64))


def rows() -> Iterator[Row]:
    """Yield conversions."""
    for source in INTEGERS:
        for t in INTEGERS:
            yield Row(f"cvt.{t}.{source}", (source,), (t,), f"{{0}}.astype({scalar_name(t)})")
        for t in ("f32", "f64"):
            yield Row(f"cvt.rn.{t}.{source}", (source,), (t,), f"{{0}}.astype({scalar_name(t)})")
    for source in ("f32", "f64"):
        for t in INTEGERS:
            for mode, function in (("rzi", np.trunc), ("rni", np.rint), ("rmi", np.floor), ("rpi", np.ceil)):
                yield Row(f"cvt.{mode}.{t}.{source}", (source,), (t,), to_integer(t, source, function))
    yield Row("cvt.f64.f32", ("f32",), ("f64",), "{0}.astype(np.float64)")
    yield Row("cvt.rn.f32.f64", ("f64",), ("f32",), "{0}.astype(np.float32)")


def to_integer(t: str, source: str, rounded: Function) -> Function:
    """Return the conversion of float ``source`` to integer ``t``, which saturates; NaN gives what PTX says."""
    dtype = DTYPES[t]
    bits = width(t)
    lowest = 0.0 if t.startswith("u") else -(2.0 ** (bits - 1))
    beyond = 2.0 ** (bits if t.startswith("u") else bits - 1)
    limits = np.iinfo(dtype)
    # PTX: 0, unless either type has 64 bits; then the highest bit alone.
    wide = source == "f64" or bits == 64
    of_nan = np.array(1 << bits - 1 if wide else 0, f"u{bits // 8}").view(dtype)[()]

    def convert(value: Lanes) -> Lanes:
        whole = rounded(value)
        inside = (whole >= lowest) & (whole < beyond)
        if inside.all():
            result: Lanes = whole.astype(dtype)
            return result
        result = np.where(inside, whole, 0).astype(dtype)
        outside = np.where(whole < lowest, limits.min, np.where(whole != whole, of_nan, limits.max))
        return np.where(inside, result, outside.astype(dtype))

    return convert

"""f32 and f64 arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from drv.simulator.arithmetic.fused import fma_f32, fma_f64
from drv.simulator.arithmetic.operation import Row

if TYPE_CHECKING:
    from collections.abc import Iterator


def rows() -> Iterator[Row]:
    """Yield the arithmetic of f32 and f64."""
    for t, fma in (("f32", fma_f32), ("f64", fma_f64)):
        for rounding in ("", ".rn"):
            for base, symbol in (("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/")):
                yield Row(f"{base}{rounding}.{t}", (t, t), (t,), f"{{0}} {symbol} {{1}}")
        yield Row(f"fma.rn.{t}", (t, t, t), (t,), fma)
        yield Row(f"mad.rn.{t}", (t, t, t), (t,), fma)
        yield Row(f"sqrt.rn.{t}", (t,), (t,), "np.sqrt({0})")
        yield Row(f"rcp.rn.{t}", (t,), (t,), "1 / {0}")
        yield Row(f"abs.{t}", (t,), (t,), "np.abs({0})")
        yield Row(f"neg.{t}", (t,), (t,), "-{0}")
        yield Row(f"min.{t}", (t, t), (t,), "np.fmin({0}, {1})")
        yield Row(f"max.{t}", (t, t), (t,), "np.fmax({0}, {1})")
    for name, function in (
        ("sin", np.sin),
        ("cos", np.cos),
        ("ex2", np.exp2),
        ("lg2", np.log2),
        ("tanh", np.tanh),
    ):
        yield Row(f"{name}.approx.f32", ("f32",), ("f32",), f"np.{function.__name__}({{0}})")
    yield Row("rsqrt.approx.f32", ("f32",), ("f32",), "1 / np.sqrt({0})")
    yield Row("sqrt.approx.f32", ("f32",), ("f32",), "np.sqrt({0})")
    yield Row("rcp.approx.f32", ("f32",), ("f32",), "1 / {0}")
    yield Row("div.full.f32", ("f32", "f32"), ("f32",), "{0} / {1}")
    yield Row("div.approx.f32", ("f32", "f32"), ("f32",), "{0} / {1}")

"""Softmax of rows of float32, and its gradient, as text: a row stays in the first cache while it is gone over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drv.simulator.execution.native.forms.expressions import F32, F64

from .approximations import exponential, logarithm
from .row_writer import RowWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drv.simulator.execution.native.forms import Value


def forward(*, log: bool) -> str:
    """Text of ``loop(first, last, n, x, out)``."""
    w = RowWriter(False, ("x", "out"))
    x, out = w.row_of("x"), w.row_of("out")
    (largest,) = w.over_columns(lambda i: [w.load(x, i)], 1, maxima=True)

    def moved(i: str) -> Value:
        return w.compute(w.load(x, i), "-", largest)

    def add_up(i: str) -> Sequence[Value]:
        value = exponential(w, moved(i))
        if not log:
            w.store(value, out, i)
        return [value]

    (total,) = w.over_columns(add_up, 1)
    if log:
        by = w.converted(logarithm(w, w.converted(total, F64)), F32)
        # Infinity and NaN, of which the series makes something else.
        by = w.compute(by, "+", w.compute(total, "-", total))
    else:
        by = w.compute(w.number(1.0), "/", total)

    def write(i: str) -> Sequence[Value]:
        value = w.compute(moved(i), "-", by) if log else w.compute(w.load(out, i), "*", by)
        w.store(value, out, i)
        return []

    w.over_columns(write)
    return w.text()


def backward(*, log: bool) -> str:
    """Text of ``loop(first, last, n, grad, result, out)``."""
    w = RowWriter(False, ("grad", "result", "out"))
    grad, result, out = (w.row_of(name) for name in ("grad", "result", "out"))

    def add_up(i: str) -> Sequence[Value]:
        g = w.load(grad, i)
        return [g if log else w.compute(g, "*", w.load(result, i))]

    (total,) = w.over_columns(add_up, 1)

    def write(i: str) -> Sequence[Value]:
        g, value = w.load(grad, i), w.load(result, i)
        if log:
            g = w.compute(g, "-", w.compute(exponential(w, value), "*", total))
        else:
            g = w.compute(w.compute(g, "-", total), "*", value)
        w.store(g, out, i)
        return []

    w.over_columns(write)
    return w.text()

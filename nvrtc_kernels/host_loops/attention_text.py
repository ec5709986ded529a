"""Texts of the loops of :mod:`.attention`: a row of scores stays in the first cache while it is gone over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drv.simulator.execution.native.forms.expressions import EQ, F32, F64, I64, LT, Value

from .approximations import exponential, logarithm
from .row_writer import RowWriter

if TYPE_CHECKING:
    from collections.abc import Sequence


def _visible(w: RowWriter, causal: bool) -> str:
    """How many columns the row sees."""
    if not causal:
        return "%n"
    pointer = w.emit("getelementptr inbounds i64, ptr %visible, i64 %r")
    return w.emit(f"load i64, ptr {pointer}")


def _masked(w: RowWriter, i: str, visible: str, value: Value) -> Value:
    """``value`` in columns that the row sees, and 0 in others."""
    if visible == "%n":
        return value
    return w.select(w.compare(LT, Value(i, I64), Value(visible, I64)), value, w.number(0.0))


def _weights(*, causal: bool) -> str:
    """Text of ``loop(first, last, n, scores, visible, logarithms, scale)``."""
    w = RowWriter(False, ("scores", "visible", "logarithms"), ("scale",))
    scores, visible, scale = w.row_of("scores"), _visible(w, causal), w.parameter("scale")

    def scaled(i: str) -> Value:
        return w.compute(w.load(scores, i), "*", scale)

    (largest,) = w.over_columns(lambda i: [scaled(i)], 1, maxima=True, end=visible)
    # A row whose keys are all masked has weights of 0.
    nothing = w.compare(EQ, largest, w.number(float("-inf")))
    shift = w.select(nothing, w.number(0.0), largest)

    def add_up(i: str) -> Sequence[Value]:
        value = exponential(w, w.compute(scaled(i), "-", shift))
        w.store(value, scores, i)
        return [value]

    (total,) = w.over_columns(add_up, 1, end=visible)
    sum_logarithm = w.converted(logarithm(w, w.converted(total, F64)), F32)
    # NaN, of which the series makes something else.
    sum_logarithm = w.compute(sum_logarithm, "+", w.compute(total, "-", total))
    w.store(w.compute(largest, "+", sum_logarithm), "%logarithms", "%r")
    share = w.select(nothing, w.number(0.0), w.compute(w.number(1.0), "/", total))

    def write(i: str) -> Sequence[Value]:
        value = w.compute(w.load(scores, i), "*", share)
        w.store(_masked(w, i, visible, value), scores, i)
        return []

    w.over_columns(write)
    return w.text()


def _gradients(*, causal: bool) -> str:
    """Text of ``loop(first, last, n, scores, slopes, visible, logarithms, along, scale)``."""
    w = RowWriter(False, ("scores", "slopes", "visible", "logarithms", "along"), ("scale",))
    scores, slopes, scale = w.row_of("scores"), w.row_of("slopes"), w.parameter("scale")
    visible, total, along = _visible(w, causal), w.load("%logarithms", "%r"), w.load("%along", "%r")
    nothing = w.compare(EQ, total, w.number(float("-inf")))

    def write(i: str) -> Sequence[Value]:
        value = exponential(w, w.compute(w.compute(w.load(scores, i), "*", scale), "-", total))
        value = _masked(w, i, visible, w.select(nothing, w.number(0.0), value))
        w.store(value, scores, i)
        slope = w.compute(w.compute(w.load(slopes, i), "-", along), "*", value)
        w.store(slope, slopes, i)
        return []

    w.over_columns(write)
    return w.text()


_TEXTS = {"weights": _weights, "gradients": _gradients}


def text(name: str, *, causal: bool) -> str:
    """Text of the loop of the function ``name``."""
    return _TEXTS[name](causal=causal)

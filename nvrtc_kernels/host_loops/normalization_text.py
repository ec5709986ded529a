"""Rows normalised, and the gradient of that, as :mod:`nvrtc_kernels.cuda` has it in ``normalization.cuh``: a row stays in the
first cache while it is gone over three times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .row_writer import RowWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drv.simulator.execution.native.forms import Value

FORWARD = ("x", "weight", "bias", "out", "means", "scales")
BACKWARD = ("grad", "x", "weight", "means", "scales", "out", "weight_sums", "bias_sums")


def forward(double: bool, *, center: bool, weight: bool, bias: bool) -> str:
    """Text of ``loop(first, last, n, x, weight, bias, out, means, scales, eps)``; arrays that are not there are not read."""
    w = RowWriter(double, FORWARD, ("eps",))
    x, out, n = w.row_of("x"), w.row_of("out"), w.columns()
    mean = w.number(0.0)
    if center:
        (total,) = w.over_columns(lambda i: [w.load(x, i)], 1)
        mean = w.compute(total, "/", n)
        w.store(mean, "%means", "%r")

    def centred(i: str) -> Value:
        element = w.load(x, i)
        return w.compute(element, "-", mean) if center else element

    def square(i: str) -> Sequence[Value]:
        element = centred(i)
        return [w.compute(element, "*", element)]

    (squares,) = w.over_columns(square, 1)
    variance = w.compute(w.compute(squares, "/", n), "+", w.parameter("eps"))
    scale = w.compute(w.number(1.0), "/", w.function("sqrt", variance))
    w.store(scale, "%scales", "%r")

    def write(i: str) -> Sequence[Value]:
        value = w.compute(centred(i), "*", scale)
        if weight:
            value = w.compute(value, "*", w.load("%weight", i))
        if bias:
            value = w.compute(value, "+", w.load("%bias", i))
        w.store(value, out, i)
        return []

    w.over_columns(write)
    return w.text()


def backward(double: bool, *, center: bool, weight: bool, out: bool, sums: bool) -> str:
    """Text of ``loop(first, last, n, grad, x, weight, means, scales, out, weight_sums, bias_sums)``.

    With ``out`` the gradient of ``x`` is written there; with ``sums`` those of weight and bias are added to two arrays of ``n``.
    """
    w = RowWriter(double, BACKWARD)
    grad, x, into, n = w.row_of("grad"), w.row_of("x"), w.row_of("out"), w.columns()
    scale = w.load("%scales", "%r")
    mean = w.load("%means", "%r") if center else w.number(0.0)

    def normalised(i: str) -> Value:
        element = w.load(x, i)
        return w.compute(w.compute(element, "-", mean) if center else element, "*", scale)

    def weighted(g: Value, i: str) -> Value:
        return w.compute(g, "*", w.load("%weight", i)) if weight else g

    def add_up(i: str) -> Sequence[Value]:
        g, value = w.load(grad, i), normalised(i)
        if sums:
            for array, each in (("%weight_sums", w.compute(g, "*", value)), ("%bias_sums", g)):
                w.store(w.compute(w.load(array, i), "+", each), array, i)
        g = weighted(g, i)
        return [w.compute(g, "*", value), g] if out else []

    totals = w.over_columns(add_up, 2 if out else 0)
    if out:
        along, gradient_mean = (w.compute(total, "/", n) for total in totals)

        def write(i: str) -> Sequence[Value]:
            g = weighted(w.load(grad, i), i)
            if center:
                g = w.compute(g, "-", gradient_mean)
            value = w.compute(g, "-", w.compute(normalised(i), "*", along))
            w.store(w.compute(value, "*", scale), into, i)
            return []

        w.over_columns(write)
    return w.text()

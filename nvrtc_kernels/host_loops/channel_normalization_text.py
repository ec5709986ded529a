"""Texts of the loops of :mod:`.channel_normalization`: a row is a plane, and vectors have an element for each row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .approximations import fused
from .row_writer import RowWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drv.simulator.execution.native.forms import Value


def _moments(double: bool) -> str:
    """Text of ``loop(first, last, n, x, means, squares)``."""
    w = RowWriter(double, ("x", "means", "squares"))
    x = w.row_of("x")
    (total,) = w.over_columns(lambda i: [w.load(x, i)], 1)
    mean = w.compute(total, "/", w.columns())

    def square(i: str) -> Sequence[Value]:
        away = w.compute(w.load(x, i), "-", mean)
        return [w.compute(away, "*", away)]

    (squares,) = w.over_columns(square, 1)
    w.store(mean, "%means", "%r")
    w.store(squares, "%squares", "%r")
    return w.text()


def _apply(double: bool) -> str:
    """Text of ``loop(first, last, n, x, mean, scale, out)``."""
    return _apply_to(double, ("x", "mean", "scale", "out"))


def _apply_with_bias(double: bool) -> str:
    """Text of ``loop(first, last, n, x, mean, scale, bias, out)``."""
    return _apply_to(double, ("x", "mean", "scale", "bias", "out"))


def _apply_to(double: bool, names: tuple[str, ...]) -> str:
    w = RowWriter(double, names)
    x, out = w.row_of("x"), w.row_of("out")
    mean, scale, *bias = (w.load(f"%{name}", "%r") for name in names[1:-1])

    def write(i: str) -> Sequence[Value]:
        away = w.compute(w.load(x, i), "-", mean)
        value = fused(w, away, scale, bias[0]) if bias else w.compute(away, "*", scale)
        w.store(value, out, i)
        return []

    w.over_columns(write)
    return w.text()


def _sums(double: bool) -> str:
    """Text of ``loop(first, last, n, grad, x, mean, total, products)``."""
    w = RowWriter(double, ("grad", "x", "mean", "total", "products"))
    grad, x, mean = w.row_of("grad"), w.row_of("x"), w.load("%mean", "%r")

    def add_up(i: str) -> Sequence[Value]:
        g = w.load(grad, i)
        return [g, w.compute(g, "*", w.compute(w.load(x, i), "-", mean))]

    total, products = w.over_columns(add_up, 2)
    w.store(total, "%total", "%r")
    w.store(products, "%products", "%r")
    return w.text()


def _input_gradient(double: bool) -> str:
    """Text of ``loop(first, last, n, grad, x, mean, factor, shift, scale, out)``."""
    names = ("mean", "factor", "shift", "scale")
    w = RowWriter(double, ("grad", "x", *names, "out"))
    grad, x, out = w.row_of("grad"), w.row_of("x"), w.row_of("out")
    mean, factor, shift, scale = (w.load(f"%{name}", "%r") for name in names)

    def write(i: str) -> Sequence[Value]:
        along = w.compute(w.compute(w.load(x, i), "-", mean), "*", factor)
        value = w.compute(w.compute(w.compute(w.load(grad, i), "-", shift), "-", along), "*", scale)
        w.store(value, out, i)
        return []

    w.over_columns(write)
    return w.text()


_TEXTS = {
    "moments": _moments,
    "apply": _apply,
    "apply_with_bias": _apply_with_bias,
    "sums": _sums,
    "input_gradient": _input_gradient,
}


def text(name: str, double: bool) -> str:
    """Text of the loop of the function ``name``."""
    return _TEXTS[name](double)

"""Comparisons (setp, set), selections (selp, slct) and tests of floats."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from .floats.single_and_double import flush_f32
from .operation import Function, Row, function_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .operation import Lanes

#: What holds between two values of any type, and between unsigned ones under another name.
ORDER = {
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
}
UNSIGNED_NAMES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
#: Ordered comparisons of floats are false with a NaN, unordered ones (name + "u") true.
FLOAT_ORDER = {
    **ORDER,
    "ne": "({0} < {1}) | ({0} > {1})",
    "equ": "~(({0} < {1}) | ({0} > {1}))",
    "neu": "{0} != {1}",
    "ltu": "~({0} >= {1})",
    "leu": "~({0} > {1})",
    "gtu": "~({0} <= {1})",
    "geu": "~({0} < {1})",
    "num": "({0} == {0}) & ({1} == {1})",
    "nan": "({0} != {0}) | ({1} != {1})",
}
COMBINATIONS: dict[str, tuple[str, Function]] = {
    "and": ("&", np.logical_and),
    "or": ("|", np.logical_or),
    "xor": ("^", np.logical_xor),
}


def comparisons(t: str) -> dict[str, str]:
    """Return the comparisons of two values of type ``t`` by name, as expressions over bool lanes."""
    if t.startswith("f"):
        return FLOAT_ORDER
    if t.startswith("b"):
        return {name: ORDER[name] for name in ("eq", "ne")}
    if t.startswith("u"):
        return {**ORDER, **{name: ORDER[same] for name, same in UNSIGNED_NAMES.items()}}
    return ORDER


NUMBERS = ("u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64")
TYPES = ("b16", "b32", "b64", *NUMBERS)
#: testp, over floats with ``tiny`` the smallest normal number.
TESTS = {
    "finite": "np.isfinite({0})",
    "infinite": "np.isinf({0})",
    "number": "{0} == {0}",
    "notanumber": "{0} != {0}",
    "normal": "np.isfinite({{0}}) & (np.abs({{0}}) >= {tiny})",
    "subnormal": "(np.abs({{0}}) < {tiny}) & ({{0}} != 0)",
}
_TINY = {"f32": "2.0**-126", "f64": "2.0**-1022"}
#: What set writes for true.
_TRUE = {
    "u16": "-{0}.astype(np.uint16)",
    "s16": "-{0}.astype(np.int16)",
    "u32": "-{0}.astype(np.uint32)",
    "s32": "-{0}.astype(np.int32)",
    "f32": "{0}.astype(np.float32)",
}


def rows() -> Iterator[Row]:
    """Yield setp, set, selp, slct and testp of the types that have a NumPy type of their own."""
    for t in TYPES:
        for name, holds in comparisons(t).items():
            for ftz in (False, True) if t == "f32" else (False,):
                prepare, modifier = (flush_f32, ".ftz") if ftz else (None, "")
                yield from predicates(name, t, holds, prepare, ftz=modifier)
                yield from masks(name, t, holds, prepare, ftz=modifier)
        yield Row(f"selp.{t}", (t, t, "pred"), (t,), "np.where({2}, {0}, {1})")
        yield Row(f"slct.{t}.s32", (t, t, "s32"), (t,), "np.where({2} >= 0, {0}, {1})")
        yield Row(f"slct.{t}.f32", (t, t, "f32"), (t,), "np.where({2} >= 0, {0}, {1})")
        # Flushing makes a negative subnormal a zero, which is not less than 0.
        flushed = "np.where({2} > -(2.0**-126), {0}, {1})"
        yield Row(f"slct.ftz.{t}.f32", (t, t, "f32"), (t,), flushed)
    for t, tiny in _TINY.items():
        for name, holds in TESTS.items():
            yield Row(f"testp.{name}.{t}", (t,), ("pred",), holds.format("{0}", tiny=tiny))


def predicates(
    name: str, t: str, holds: str, prepare: Function | None = None, *, ftz: str = ""
) -> Iterator[Row]:
    """Yield the forms of a setp: one or two results, combined with a predicate or not.

    ``prepare``, where it is given, is applied to both operands before they are compared.
    """
    compare = prepared(holds, prepare)
    yield Row(f"setp.{name}{ftz}.{t}", (t, t), ("pred",), compare if prepare else holds)
    yield Row(f"setp.{name}{ftz}.{t}", (t, t), ("pred", "pred"), _with_complement(compare, None))
    for combination, (symbol, combine) in COMBINATIONS.items():
        opcode = f"setp.{name}.{combination}{ftz}.{t}"
        combined = f"({holds}) {symbol} {{2}}"
        one = _combined(compare, combine) if prepare else combined
        yield Row(opcode, (t, t, "pred"), ("pred",), one)
        yield Row(opcode, (t, t, "pred"), ("pred", "pred"), _with_complement(compare, combine))


def masks(name: str, t: str, holds: str, prepare: Function | None = None, *, ftz: str = "") -> Iterator[Row]:
    """Yield the forms of a set: all ones, or 1.0, where the comparison holds."""
    compare = prepared(holds, prepare)
    for d, write in _TRUE.items():
        if d.endswith("16") and not t.endswith("f16"):
            continue
        written = prepared(write, None)
        yield Row(f"set.{name}{ftz}.{d}.{t}", (t, t), (d,), _then(compare, written))
        for combination, (_, combine) in COMBINATIONS.items():
            opcode = f"set.{name}.{combination}{ftz}.{d}.{t}"
            yield Row(opcode, (t, t, "pred"), (d,), _then(_combined(compare, combine), written))


def prepared(expression: str, prepare: Function | None) -> Function:
    """Return an expression of one or two operands as a function, each operand passed through ``prepare``."""
    function = _function_of(expression)
    if prepare is None:
        return function
    return lambda *operands: function(*(prepare(operand) for operand in operands))


@cache
def _function_of(expression: str) -> Function:
    return function_of(expression, 2 if "{1}" in expression else 1)


def _then(compare: Function, write: Function) -> Function:
    return lambda *operands: write(compare(*operands))


def _combined(compare: Function, combine: Function) -> Function:
    return lambda a, b, other: combine(compare(a, b), other)


def _with_complement(compare: Function, combine: Function | None) -> Function:
    """Return a pair: the comparison and its opposite, each combined with the third operand."""
    if combine is None:

        def pair(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
            holds = compare(a, b)
            return holds, ~holds

        return pair

    def combined_pair(a: Lanes, b: Lanes, other: Lanes) -> tuple[Lanes, Lanes]:
        holds = compare(a, b)
        return combine(holds, other), combine(~holds, other)

    return combined_pair

"""Comparisons (setp, set), selections (selp, slct) and tests of floats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drv.simulator.arithmetic.operation import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

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
COMBINATIONS = {"and": "&", "or": "|", "xor": "^"}


def comparisons(t: str) -> dict[str, str]:
    """Return the comparisons of two values of type ``t`` by name, as expressions over bool lanes."""
    if t.startswith("f"):
        return FLOAT_ORDER
    if t.startswith("b"):
        return {name: ORDER[name] for name in ("eq", "ne")}
    if t.startswith("u"):
        return {**ORDER, **{name: ORDER[same] for name, same in UNSIGNED_NAMES.items()}}
    return ORDER


def rows() -> Iterator[Row]:
    """Yield setp, selp, slct of the types that have a NumPy type of their own."""
    for t in ("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64"):
        for name, holds in comparisons(t).items():
            yield from predicates(f"setp.{name}", t, holds)
            if t == "f32":
                yield from predicates(f"setp.{name}.ftz", t, holds)
        yield Row(f"selp.{t}", (t, t, "pred"), (t,), "np.where({2}, {0}, {1})")


def predicates(name: str, t: str, holds: str) -> Iterator[Row]:
    """Yield the forms of one comparison: one or two results, combined with a predicate or not."""
    base, comparison, *rest = name.split(".")
    yield Row(".".join((base, comparison, *rest, t)), (t, t), ("pred",), holds)
    for combination, symbol in COMBINATIONS.items():
        opcode = ".".join((base, comparison, combination, *rest, t))
        yield Row(opcode, (t, t, "pred"), ("pred",), f"({holds}) {symbol} {{2}}")

"""Random expressions of C++ with their meaning in NumPy.

An expression is text beside a function of the variables. Signed sums go through unsigned ones, since C++
leaves their overflow undefined; every other corner has a defined meaning in C++ or PTX.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from .exact_arithmetic import fused, rounded

Variables = dict[str, np.ndarray]

TYPES: dict[str, np.dtype] = {
    "int": np.dtype(np.int32),
    "unsigned": np.dtype(np.uint32),
    "long long": np.dtype(np.int64),
    "unsigned long long": np.dtype(np.uint64),
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
}
INTEGERS = ("int", "unsigned", "long long", "unsigned long long")
UNSIGNED = {"int": "unsigned", "long long": "unsigned long long"}
NAMES = {
    "int": ("i", "j"), "unsigned": ("u",), "long long": ("l",), "unsigned long long": ("m",), "float": ("f", "g"),
    "double": ("d",),
}  # fmt: skip
VARIABLES = {name: type_ for type_, names in NAMES.items() for name in names}
#: Arrays of ``LENGTH`` ints that each thread has: one in local memory, one in shared memory.
ARRAYS = ("near", "wide")
LENGTH = 8


@dataclass(frozen=True, slots=True)
class Expression:
    text: str
    type: str
    value: Callable[[Variables], np.ndarray] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Operation:
    """``text`` with places for operands of the types ``operands``, and what it computes."""

    text: str
    result: str
    operands: tuple[str, ...]
    function: Callable[..., Any]


def truncated_quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    quotient = a // b
    return quotient + ((quotient * b != a) & ((a < 0) != (b < 0))).astype(a.dtype)


def truncated_remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a - truncated_quotient(a, b) * b


def high_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    bits = a.dtype.itemsize * 8
    products = [x * y >> bits for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    return np.array(products, object).astype(a.dtype)


def bit_count(a: np.ndarray) -> np.ndarray:
    return np.array([int(x).bit_count() for x in a.tolist()], np.int32)


def leading_zeros(a: np.ndarray) -> np.ndarray:
    bits = a.dtype.itemsize * 8
    return np.array([bits - int(x).bit_length() for x in a.tolist()], np.int32)


def fused_double(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    result = a * b + c
    for at, (x, y, z) in enumerate(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)):
        if not (math.isfinite(x) and math.isfinite(y)):
            continue
        if not math.isfinite(z):
            # A finite product changes nothing, even one that overflows on its own.
            result[at] = z
            continue
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        # A zero keeps the sign that the rounded operations give it.
        if exact:
            result[at] = rounded(exact, a.dtype)
        elif x * y != 0:
            result[at] = 0.0
    return result


def saturated(dtype: np.dtype) -> Callable[[np.ndarray], np.ndarray]:
    """Truncation to an integer type as PTX defines it."""
    info = np.iinfo(dtype)

    def convert(a: np.ndarray) -> np.ndarray:
        wide = a.dtype.itemsize == 8 or info.bits == 64
        nan = (info.min or 2 ** (info.bits - 1)) if wide else 0
        values = []
        for x in a.tolist():
            if math.isnan(x):
                values.append(nan)
            elif math.isinf(x):
                values.append(info.max if x > 0 else info.min)
            else:
                values.append(min(max(math.trunc(x), info.min), info.max))
        return np.array(values, object).astype(dtype)

    return convert


def integer_operations(type_: str) -> list[Operation]:
    dtype, bits = TYPES[type_], TYPES[type_].itemsize * 8
    one = (type_,)
    two = (type_, type_)
    safe = UNSIGNED.get(type_, type_)
    suffix = "ll" if bits == 64 else ""
    not_signed = safe == type_
    mask = dtype.type(bits - 1)

    def wrapped(text: str) -> str:
        return f"({type_})({text})"

    operations = [
        Operation(wrapped(f"({safe}){{0}} + ({safe}){{1}}"), type_, two, np.add),
        Operation(wrapped(f"({safe}){{0}} - ({safe}){{1}}"), type_, two, np.subtract),
        Operation(wrapped(f"({safe}){{0}} * ({safe}){{1}}"), type_, two, np.multiply),
        Operation(wrapped(f"({safe})0 - ({safe}){{0}}"), type_, one, lambda a: np.zeros_like(a) - a),
        Operation("({0} & {1})", type_, two, np.bitwise_and),
        Operation("({0} | {1})", type_, two, np.bitwise_or),
        Operation("({0} ^ {1})", type_, two, np.bitwise_xor),
        Operation("(~{0})", type_, one, np.invert),
        Operation(
            wrapped(f"({safe}){{0}} << ({{1}} & {bits - 1})"), type_, two, lambda a, b: np.left_shift(a, b & mask)
        ),
        Operation(f"({{0}} >> ({{1}} & {bits - 1}))", type_, two, lambda a, b: np.right_shift(a, b & mask)),
        Operation("min({0}, {1})", type_, two, np.minimum),
        Operation("max({0}, {1})", type_, two, np.maximum),
        # Divisors that are neither 0 nor -1.
        Operation(
            f"({{0}} / ({{1}} & ~({type_})1 | 2))", type_, two,
            lambda a, b: truncated_quotient(a, b & ~dtype.type(1) | dtype.type(2)),
        ),
        Operation(
            f"({{0}} % ({{1}} & ~({type_})1 | 2))", type_, two,
            lambda a, b: truncated_remainder(a, b & ~dtype.type(1) | dtype.type(2)),
        ),
        Operation("({1} != 0 ? {0} : {2})", type_, (type_, "int", type_), lambda a, c, b: np.where(c != 0, a, b)),
        Operation("({0} < {1})", "int", two, lambda a, b: (a < b).astype(np.int32)),
        Operation("({0} == {1})", "int", two, lambda a, b: (a == b).astype(np.int32)),
    ]  # fmt: skip
    high = {
        "int": "__mulhi",
        "unsigned": "__umulhi",
        "long long": "__mul64hi",
        "unsigned long long": "__umul64hi",
    }
    operations.append(Operation(f"{high[type_]}({{0}}, {{1}})", type_, two, high_product))
    if not_signed:
        operations += [
            Operation(f"__popc{suffix}({{0}})", "int", one, bit_count),
            Operation(f"__clz{suffix}({{0}})", "int", one, leading_zeros),
        ]
    for other in INTEGERS:
        if other != type_:
            operations.append(Operation(f"({type_}){{0}}", type_, (other,), lambda a: a.astype(dtype)))
    words = {"int": "int", "unsigned": "uint", "long long": "ll", "unsigned long long": "ull"}
    for real in ("float", "double"):
        operations.append(Operation(f"__{real}2{words[type_]}_rz({{0}})", type_, (real,), saturated(dtype)))
    return operations


def float_operations(type_: str) -> list[Operation]:
    dtype = TYPES[type_]
    f = "f" if type_ == "float" else ""
    one, two = (type_,), (type_, type_)
    zero = dtype.type(0)
    operations = [
        Operation("({0} + {1})", type_, two, np.add),
        Operation("({0} - {1})", type_, two, np.subtract),
        Operation("({0} * {1})", type_, two, np.multiply),
        Operation("({0} / {1})", type_, two, np.divide),
        Operation("(-{0})", type_, one, np.negative),
        Operation(f"fabs{f}({{0}})", type_, one, np.abs),
        Operation(f"sqrt{f}({{0}})", type_, one, np.sqrt),
        Operation(f"floor{f}({{0}})", type_, one, np.floor),
        Operation(f"trunc{f}({{0}})", type_, one, np.trunc),
        Operation(f"rint{f}({{0}})", type_, one, np.rint),
        # Which zero is the lesser is left open; adding zero makes them one.
        Operation(f"(fmin{f}({{0}}, {{1}}) + 0.0{f})", type_, two, lambda a, b: np.fmin(a, b) + zero),
        Operation(f"(fmax{f}({{0}}, {{1}}) + 0.0{f})", type_, two, lambda a, b: np.fmax(a, b) + zero),
        Operation(f"fma{f}({{0}}, {{1}}, {{2}})", type_, (type_,) * 3, fused if f else fused_double),
        Operation(
            "({1} > 0 ? {0} : {2})", type_, (type_, "int", type_), lambda a, c, b: np.where(c > 0, a, b)
        ),
        Operation("({0} < {1})", "int", two, lambda a, b: (a < b).astype(np.int32)),
        Operation("({0} >= {1})", "int", two, lambda a, b: (a >= b).astype(np.int32)),
        Operation("({0} != {1})", "int", two, lambda a, b: (a != b).astype(np.int32)),
    ]
    other = "double" if f else "float"
    operations.append(Operation(f"({type_}){{0}}", type_, (other,), lambda a: a.astype(dtype)))
    operations += [
        Operation(f"({type_}){{0}}", type_, (integer,), lambda a: a.astype(dtype)) for integer in INTEGERS
    ]
    return operations


OPERATIONS: dict[str, list[Operation]] = {type_: [] for type_ in TYPES}
for _type in TYPES:
    for _operation in integer_operations(_type) if _type in INTEGERS else float_operations(_type):
        OPERATIONS[_operation.result].append(_operation)


def constant(type_: str, value: float) -> Expression:
    dtype = TYPES[type_]
    with np.errstate(over="ignore"):
        number = np.array(value).astype(dtype)[()] if type_ not in INTEGERS else dtype.type(value)
    if type_ in INTEGERS:
        suffix = {"int": "", "unsigned": "u", "long long": "ll", "unsigned long long": "ull"}[type_]
        least = number == np.iinfo(dtype).min and dtype.kind == "i"
        text = f"({number + 1}{suffix} - 1)" if least else f"({number}{suffix})"
    else:
        text = f"({float(number).hex()}{'f' if type_ == 'float' else ''})"
    return Expression(text, type_, lambda variables: np.full(len(variables["i"]), number, dtype))


def constants(type_: str) -> st.SearchStrategy[Expression]:
    if type_ in INTEGERS:
        info = np.iinfo(TYPES[type_])
        numbers: st.SearchStrategy[Any] = st.integers(int(info.min), int(info.max)) | st.integers(0, 9)
    else:
        numbers = st.floats(width=32 if type_ == "float" else 64, allow_nan=False, allow_infinity=False)
    return numbers.map(lambda value: constant(type_, value))


@st.composite
def expressions(draw: st.DrawFn, type_: str, depth: int = 3) -> Expression:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        kind = draw(st.integers(0, 7))
        if kind <= 1:
            return draw(constants(type_))
        if kind == 2 and type_ == "int" and depth:
            return element(draw(st.sampled_from(ARRAYS)), draw(expressions("int", depth - 1)))
        name = draw(st.sampled_from(NAMES[type_]))
        return Expression(name, type_, lambda variables: variables[name])
    operation = draw(st.sampled_from(OPERATIONS[type_]))
    operands = [draw(expressions(operand, depth - 1)) for operand in operation.operands]
    text = operation.text.format(*(operand.text for operand in operands))
    return Expression(
        text, type_, lambda variables: operation.function(*(operand.value(variables) for operand in operands))
    )


def element(array: str, index: Expression) -> Expression:
    """An element of an array, the index kept inside it."""

    def value(variables: Variables) -> np.ndarray:
        at = index.value(variables) & (LENGTH - 1)
        return variables[array][np.arange(len(at)), at]

    return Expression(f"{place(array, index)}", "int", value)


def place(array: str, index: Expression) -> str:
    """The text of an element."""
    return f"{array}[{index.text} & {LENGTH - 1}]"

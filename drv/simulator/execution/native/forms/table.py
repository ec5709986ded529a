"""Native forms of arithmetic that the tables have as NumPy functions: the same bits, by what the processor has for it.

What is missing here is no mistake: NumPy does it. Only the payload of a NaN may differ, where two operands are NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .comparisons import predicate
from .conversions import convert
from .expressions import ADD, Emitter, Form, NotNative, Value
from .floats import float_operation
from .halves import half_operation
from .integers import (
    division,
    extract_signed,
    find_leading,
    high_product,
    inserted,
    leading_zeros,
    looked_up,
    permuted,
    reversed_bits,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def native_form(e: Emitter, opcode: str, operands: Sequence[Value]) -> list[Value]:
    """Results of an arithmetic instruction whose meaning is a function. Raises :class:`NotNative`."""
    base, *qualifiers = opcode.split(".")
    form = _FORMS.get(base)
    if form is None:
        raise NotNative(opcode)
    return form(e, qualifiers, operands)


def _arithmetic(base: str) -> Form:
    def form(e: Emitter, qualifiers: Sequence[str], operands: Sequence[Value]) -> list[Value]:
        ptx_type = qualifiers[-1]
        if ptx_type in ("f16", "bf16", "f16x2", "bf16x2"):
            return [half_operation(e, base, qualifiers, operands)]
        if ptx_type[0] in "fb":
            return float_operation(e, base, qualifiers, operands)
        if base in ("div", "rem") and len(qualifiers) == 1:
            return [division(e, base, operands)]
        if base in ("mul", "mad") and list(qualifiers[:-1]) == ["hi"] and ptx_type in ("u64", "s64"):
            high = high_product(e, operands[0], operands[1])
            return [high if base == "mul" else e.binary(ADD, high, operands[2])]
        raise NotNative(".".join((base, *qualifiers)))

    return form


def _bit_operation(function: Callable[[Emitter, Value], Value]) -> Form:
    return lambda e, qualifiers, operands: [function(e, operands[0])]


def _plain_bits(function: Callable[[Emitter, Sequence[Value]], Value]) -> Form:
    def form(e: Emitter, qualifiers: Sequence[str], operands: Sequence[Value]) -> list[Value]:
        if list(qualifiers) != ["b32"]:
            raise NotNative(".".join(qualifiers))
        return [function(e, operands)]

    return form


_ARITHMETIC = "add sub mul mad fma div rem min max sqrt rcp rsqrt ex2 neg abs"
_FORMS: dict[str, Form] = {
    **{base: _arithmetic(base) for base in _ARITHMETIC.split()},
    "cvt": convert,
    "setp": predicate,
    "clz": _bit_operation(leading_zeros),
    "brev": _bit_operation(reversed_bits),
    "bfind": find_leading,
    "bfe": extract_signed,
    "bfi": lambda e, qualifiers, operands: [inserted(e, operands)],
    "prmt": _plain_bits(permuted),
    "lop3": _plain_bits(looked_up),
}

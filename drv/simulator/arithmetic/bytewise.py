"""lop3, prmt, and sums of products and differences of packed bytes and halfwords."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, cast

import numpy as np

from .operation import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .operation import Function, Lanes

#: The bytes that prmt's modes pick for selectors 0 to 3 (of the eight bytes of b, a), from the lowest.
PERMUTATIONS = {
    "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}

_BYTE = {"u32": "u1", "s32": "i1"}
_HALFWORD = {"u32": "u2", "s32": "i2"}


def rows() -> Iterator[Row]:
    """Yield lop3, prmt, dp4a, dp2a and vabsdiff4."""
    three = ("b32", "b32", "b32")
    yield Row("lop3.b32", (*three, "b32"), ("b32",), lookup)
    for name, combine in (("or", np.logical_or), ("and", np.logical_and)):
        yield Row(f"lop3.{name}.b32", (*three, "b32", "pred"), ("b32", "pred"), _lookup_and_test(combine))
    yield Row("prmt.b32", three, ("b32",), permute)
    for mode, picks in PERMUTATIONS.items():
        yield Row(f"prmt.b32.{mode}", three, ("b32",), _permute_by_mode(picks))
    for a in ("u32", "s32"):
        for b in ("u32", "s32"):
            d = "s32" if "s32" in (a, b) else "u32"
            products = _dot(_BYTE[a], _BYTE[b], slice(0, 4))
            yield Row(f"dp4a.{a}.{b}", (a, b, d), (d,), products)
            for c in ("u32", "s32"):
                # Without a mask all four bytes are written, and nothing is left of the third operand.
                opcode = f"vabsdiff4.{c}.{a}.{b}"
                yield Row(opcode, (a, b, c), (c,), _differences(a, b, accumulate=False))
                yield Row(f"{opcode}.add", (a, b, c), (c,), _differences(a, b, accumulate=True))
            for half, used in (("lo", slice(0, 2)), ("hi", slice(2, 4))):
                halves = _dot(_HALFWORD[a], _BYTE[b], used)
                yield Row(f"dp2a.{half}.{a}.{b}", (a, b, d), (d,), halves)


@cache
def _truth_table(table: int) -> Callable[[Lanes, Lanes, Lanes], Lanes]:
    """Return the function of three bits whose values the 8 bits of ``table`` list."""
    terms = [
        "&".join(
            name if row >> position & 1 else f"~{name}" for name, position in (("a", 2), ("b", 1), ("c", 0))
        )
        for row in range(8)
        if table >> row & 1
    ]
    shortest = _short_forms().get(table) or "|".join(f"({term})" for term in terms) or "(a^a)|(b^b)|(c^c)"
    return cast("Callable[[Lanes, Lanes, Lanes], Lanes]", eval(f"lambda a, b, c: {shortest}"))


@cache
def _short_forms() -> dict[int, str]:
    """Return for each truth table that one expression of up to four operators has, the shortest one."""
    literals = [(0xF0, "a"), (0xCC, "b"), (0xAA, "c"), (0x0F, "~a"), (0x33, "~b"), (0x55, "~c")]
    forms: dict[int, str] = {}
    pairs = list(literals)
    for symbol, operator in (("&", int.__and__), ("|", int.__or__), ("^", int.__xor__)):
        for x, left in literals:
            for y, right in literals:
                pairs.append((operator(x, y), f"({left}{symbol}{right})"))
    for symbol, operator in (("^", int.__xor__), ("&", int.__and__), ("|", int.__or__)):
        for x, left in pairs:
            for y, right in pairs:
                text = f"{left}{symbol}{right}"
                used = operator(x, y)
                # All three names must appear for the result to have the lanes of all three operands.
                if {"a", "b", "c"} <= set(text) and len(text) < len(forms.get(used, text + " ")):
                    forms[used] = text
    return forms


def lookup(a: Lanes, b: Lanes, c: Lanes, table: Lanes) -> Lanes:
    """Return the bits of ``a``, ``b``, ``c`` looked up in the truth table, an immediate (1,)."""
    result: Lanes = _truth_table(int(table[0]) & 0xFF)(a, b, c)
    return result


def _lookup_and_test(combine: Function) -> Function:
    def apply(a: Lanes, b: Lanes, c: Lanes, table: Lanes, other: Lanes) -> tuple[Lanes, Lanes]:
        result = lookup(a, b, c, table)
        predicate = combine(result != 0, other)
        if len(predicate) > len(result):
            result = result.repeat(len(predicate))
        return result, predicate

    return apply


def permute(a: Lanes, b: Lanes, selector: Lanes) -> Lanes:
    """Return four bytes of the eight of ``b`` and ``a``; bit 3 of a selector repeats the byte's sign."""
    if len(selector) == 1:
        return _permutation(int(selector[0]) & 0xFFFF)(a, b)
    source = b.astype(np.uint64) << 32 | a
    result: Lanes = np.zeros(1, np.uint32)
    for position in range(0, 16, 4):
        choice = selector >> position
        byte = (source >> ((choice & 7) << 3)).astype(np.uint32) & 0xFF
        spread = (byte >> 7) * np.uint32(0xFF)
        result = result | np.where(choice & 8 != 0, spread, byte) << 2 * position
    return result


@cache
def _permutation(selector: int) -> Callable[[Lanes, Lanes], Lanes]:
    """Return the function of ``a`` and ``b`` that one selector describes; bytes that stay together move together."""
    selections = [selector >> position & 15 for position in range(0, 16, 4)]
    terms = []
    position = 0
    while position < 4:
        first = selections[position]
        source, byte = "b" if first & 4 else "a", first & 3
        length = 1
        if first & 8:
            spread = f"({source} >> {8 * byte + 7} & 1) * np.uint32(255)"
            terms.append(f"({spread} << {8 * position})")
        else:
            while (
                position + length < 4
                and byte + length < 4
                and selections[position + length] == first + length
            ):
                length += 1
            moved = 8 * (position - byte)
            shifted = (
                f"({source} << {moved})" if moved > 0 else f"({source} >> {-moved})" if moved else source
            )
            mask = ((1 << 8 * length) - 1) << 8 * position
            terms.append(f"({shifted} & {mask})")
        position += length
    # A result has the lanes of both operands, the one that gives no byte included.
    terms += [f"({name} & 0)" for name in "ab" if name not in {term.lstrip("(")[0] for term in terms}]
    return cast("Callable[[Lanes, Lanes], Lanes]", eval(f"lambda a, b: {' | '.join(terms)}", {"np": np}))


def _permute_by_mode(picks: tuple[tuple[int, ...], ...]) -> Function:
    selectors = np.array([sum(pick << 4 * i for i, pick in enumerate(four)) for four in picks], np.uint32)
    return lambda a, b, mode: permute(a, b, selectors[mode & 3])


def _dot(a_part: str, b_part: str, used: slice) -> Function:
    """Return the sum of products of all elements of ``a`` with the ``used`` bytes of ``b``, and ``c``."""

    def dot(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        left = np.ascontiguousarray(a).view(a_part)
        right = np.ascontiguousarray(b).view(b_part)
        total = c.view(np.int32)
        for element, byte in enumerate(range(4)[used]):
            total = total + left[element :: len(left) // len(a)].astype(np.int32) * right[byte::4]
        result: Lanes = total.view(c.dtype)
        return result

    return dot


def _differences(a_type: str, b_type: str, *, accumulate: bool) -> Function:
    """Return the absolute differences of the four bytes, packed, or their sum with ``c``."""

    def differ(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        left = np.ascontiguousarray(a).view(_BYTE[a_type]).reshape(len(a), 4).astype(np.int64)
        right = np.ascontiguousarray(b).view(_BYTE[b_type]).reshape(len(b), 4)
        sizes = np.abs(left - right)
        if accumulate:
            total: Lanes = (sizes.sum(axis=1) + c.astype(np.int64)).astype(c.dtype)
            return total
        packed: Lanes = sizes.astype(np.uint8).view(c.dtype).reshape(-1)
        return np.broadcast_to(packed, (max(len(packed), len(c)),))

    return differ

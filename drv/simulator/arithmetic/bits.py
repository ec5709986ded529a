"""Logic, shifts, bit fields, bit counting and byte permutation.

NumPy shifts by the width or more as PTX's clamped shifts do: the result is 0, or the sign in every bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .operation import Row, scalar_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .operation import Lanes


def rows() -> Iterator[Row]:
    """Yield and, or, xor, not, cnot, shl, shr, shf, and the instructions on bits and bit fields."""
    yield from _logic()
    yield from _shifts()
    yield from _counts()
    yield from _fields()


def _logic() -> Iterator[Row]:
    for t in ("pred", "b16", "b32", "b64"):
        for base, symbol in (("and", "&"), ("or", "|"), ("xor", "^")):
            yield Row(f"{base}.{t}", (t, t), (t,), f"{{0}} {symbol} {{1}}")
        yield Row(f"not.{t}", (t,), (t,), "~{0}")
        if t != "pred":
            yield Row(f"cnot.{t}", (t,), (t,), f"({{0}} == 0).astype({scalar_name(t)})")


def _shifts() -> Iterator[Row]:
    for bits in (16, 32, 64):
        unsigned, signed = f"np.uint{bits}", f"np.int{bits}"
        # A shift of 16-bit lanes is done in 32 bits, the type of the amount.
        narrow = f".astype({unsigned})" if bits == 16 else ""
        yield Row(f"shl.b{bits}", (f"b{bits}", "u32"), (f"b{bits}",), f"({{0}} << {{1}}){narrow}")
        for t in (f"b{bits}", f"u{bits}"):
            yield Row(f"shr.{t}", (t, "u32"), (t,), f"({{0}} >> {{1}}){narrow}")
        narrow = f".astype({signed})" if bits == 16 else ""
        # Amounts seen as negative are clamped like any other that is too large.
        amount = "{1}.view(np.int32)"
        yield Row(f"shr.s{bits}", (f"s{bits}", "u32"), (f"s{bits}",), f"({{0}} >> {amount}){narrow}")
    left = "{1} << (%s) | {0} >> 32 - (%s)"
    right = "{1} << 32 - (%s) | {0} >> (%s)"
    for direction, expression in (("l", left), ("r", right)):
        for mode, amount in (("wrap", "{2} & 31"), ("clamp", "np.minimum({2}, 32)")):
            operands = ("b32", "b32", "u32")
            yield Row(f"shf.{direction}.{mode}.b32", operands, ("b32",), expression % (amount, amount))


def _counts() -> Iterator[Row]:
    for bits in (32, 64):
        b = f"b{bits}"
        yield Row(f"popc.{b}", (b,), ("u32",), "np.bitwise_count({0}).astype(np.uint32)")
        yield Row(f"clz.{b}", (b,), ("u32",), _count_leading_zeros)
        yield Row(f"brev.{b}", (b,), (b,), _reverse)
        for t in (f"u{bits}", f"s{bits}"):
            yield Row(f"bfind.{t}", (t,), ("u32",), _find_leading)
            yield Row(f"bfind.shiftamt.{t}", (t,), ("u32",), _shift_to_leading)
    yield Row("fns.b32", ("b32", "b32", "s32"), ("b32",), _find_nth_set)


def _fields() -> Iterator[Row]:
    for bits in (32, 64):
        b, u, s = f"b{bits}", f"u{bits}", f"s{bits}"
        ones = f"((np.{'uint32' if bits == 32 else 'uint64'}(1) << (%s)) - 1)"
        field = ones % "{2} & 255"
        yield Row(f"bfe.{u}", (u, "u32", "u32"), (u,), f"{{0}} >> ({{1}} & 255) & {field}")
        yield Row(f"bfe.{s}", (s, "u32", "u32"), (s,), _extract_signed)
        yield Row(f"bfi.{b}", (b, b, "u32", "u32"), (b,), _insert)
    one = "np.uint32(1)"
    yield Row("bmsk.wrap.b32", ("b32", "b32"), ("b32",), f"(({one} << ({{1}} & 31)) - {one}) << ({{0}} & 31)")
    yield Row("bmsk.clamp.b32", ("b32", "b32"), ("b32",), f"(({one} << {{1}}) - {one}) << {{0}}")
    for t in ("u32", "s32"):
        for mode in ("wrap", "clamp"):
            yield Row(f"szext.{mode}.{t}", (t, "u32"), (t,), _extend_wrapped if mode == "wrap" else _extend)


def leading_bit(value: Lanes) -> Lanes:
    """Return the position of the highest set bit of unsigned ``value`` as uint32; all ones for 0."""
    # Clearing bits below keeps the conversion to double from rounding up to the next power of two.
    exponent = ((value & ~(value >> 1)).astype(np.float64).view(np.int64) >> 52) - 1023
    position: Lanes = np.maximum(exponent, -1).astype(np.int32).view(np.uint32)
    return position


def _count_leading_zeros(value: Lanes) -> Lanes:
    count: Lanes = np.uint32(8 * value.itemsize - 1) - leading_bit(value)
    return count


def _find_leading(value: Lanes) -> Lanes:
    if value.dtype.kind == "u":
        return leading_bit(value)
    return leading_bit((value ^ value >> 8 * value.itemsize - 1).view(f"u{value.itemsize}"))


def _shift_to_leading(value: Lanes) -> Lanes:
    position = _find_leading(value)
    return np.where(position == 0xFFFFFFFF, position, np.uint32(8 * value.itemsize - 1) - position)


def _reverse(value: Lanes) -> Lanes:
    for distance, mask in (
        (1, 0x5555555555555555),
        (2, 0x3333333333333333),
        (4, 0x0F0F0F0F0F0F0F0F),
    ):
        low = mask & (1 << 8 * value.itemsize) - 1
        value = (value & low) << distance | value >> distance & low
    reversed_bits: Lanes = value.byteswap()
    return reversed_bits


def _find_nth_set(mask: Lanes, base: Lanes, offset: Lanes) -> Lanes:
    """Find the ``offset``-th set bit from ``base``: upwards when positive, downwards when negative."""
    mask, base, offset = np.broadcast_arrays(mask, base, offset)
    position = base.astype(np.int64)
    step = np.where(offset < 0, -1, 1)
    rank = np.maximum(np.abs(offset.astype(np.int64)), 1)
    result = np.full(mask.shape, 0xFFFFFFFF, np.uint32)
    seen = np.zeros(mask.shape, np.int64)
    for _ in range(32):
        inside = (position >= 0) & (position < 32)
        is_set = inside & ((mask >> (position & 31).astype(np.uint32) & 1) != 0)
        seen += is_set
        result = np.where(is_set & (seen == rank), position.astype(np.uint32), result)
        position += step
    at_base = base.astype(np.int64)
    own = (at_base < 32) & ((mask >> (at_base & 31).astype(np.uint32) & 1) != 0)
    return np.where(offset == 0, np.where(own, base, np.uint32(0xFFFFFFFF)), result)


def _extract_signed(value: Lanes, position: Lanes, length: Lanes) -> Lanes:
    bits = 8 * value.itemsize
    position = (position & 255).view(np.int32)
    length = (length & 255).view(np.int32)
    left = np.maximum(bits - position - length, 0)
    field: Lanes = np.where(length == 0, value.dtype.type(0), value << left >> left + position)
    return field


def _insert(field: Lanes, value: Lanes, position: Lanes, length: Lanes) -> Lanes:
    one = value.dtype.type(1)
    position = position & 255
    mask = ((one << (length & 255)) - one) << position
    result: Lanes = value & ~mask | field << position & mask
    return result


def _extend(value: Lanes, length: Lanes) -> Lanes:
    if value.dtype.kind == "u":
        result: Lanes = value & (np.uint32(1) << length) - np.uint32(1)
        return result
    left = 32 - np.minimum(length, 32).view(np.int32)
    field: Lanes = np.where(length == 0, np.int32(0), value << left >> left)
    return field


def _extend_wrapped(value: Lanes, length: Lanes) -> Lanes:
    return _extend(value, length & 31)

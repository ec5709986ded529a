"""cvt to and from packed pairs, to tf32, and to floats of 8, 6 and 4 bits; cvt.pack."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from .conversions import modified
from .floats.brain_floats import round_f32, widen
from .operation import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .operation import Function, Lanes

#: The NaN of both f16 and bf16.
_CANONICAL_NAN = 0x7FFF
#: Small float formats: NumPy type, bits, largest finite number, the pattern of NaN (None: the largest number).
MINIFLOATS: dict[str, tuple[Any, int, float, int | None]] = {
    "e4m3": (ml_dtypes.float8_e4m3fn, 8, 448.0, 0x7F),
    "e5m2": (ml_dtypes.float8_e5m2, 8, 57344.0, 0x7F),
    "e2m3": (ml_dtypes.float6_e2m3fn, 8, 7.5, None),
    "e3m2": (ml_dtypes.float6_e3m2fn, 8, 28.0, None),
    "e2m1": (ml_dtypes.float4_e2m1fn, 4, 6.0, None),
}


def rows() -> Iterator[Row]:
    """Yield cvt with packed operands or results, and cvt.pack."""
    for t, rounding in product(("f16", "bf16"), ("rn", "rz")):
        for modifiers, convert in modified("f32", t, rounding):
            opcode = f"cvt.{rounding}{modifiers}.{t}x2.f32"
            yield Row(opcode, ("f32", "f32"), (f"{t}x2",), _pair(convert))
    yield from _tf32()
    for small in MINIFLOATS:
        result = "b8" if small == "e2m1" else "b16"
        for relu in ("", ".relu"):
            encode = _encoder(small, relu=bool(relu))
            prefix = f"cvt.rn.satfinite{relu}.{small}x2"
            yield Row(f"{prefix}.f32", ("f32", "f32"), (result,), _encode_two(encode, small))
            for packed, unpack in (("f16x2", _f16_pair), ("bf16x2", _bf16_pair)):
                yield Row(f"{prefix}.{packed}", (packed,), (result,), _encode_packed(encode, unpack, small))
            for t in ("f16", "bf16"):
                decode = _decoder(small, t, relu=bool(relu))
                yield Row(f"cvt.rn{relu}.{t}x2.{small}x2", (result,), (f"{t}x2",), decode)
    for t, low, high in (("u16", 0, 0xFFFF), ("s16", -0x8000, 0x7FFF)):
        yield Row(f"cvt.pack.sat.{t}.s32", ("s32", "s32"), ("b32",), _packed_integers(16, low, high))
    for bits in (8, 4, 2):
        for t, low in ((f"u{bits}", 0), (f"s{bits}", -(1 << bits - 1))):
            function = _packed_integers(bits, low, low + (1 << bits) - 1)
            yield Row(f"cvt.pack.sat.{t}.s32.b32", ("s32", "s32", "b32"), ("b32",), function)


def _pair(convert: Function) -> Function:
    """Return the conversion of two operands, the first of which becomes the upper half."""

    def convert_two(upper: Lanes, lower: Lanes) -> Lanes:
        high = convert(upper).view(np.uint16).astype(np.uint32)
        result: Lanes = high << 16 | convert(lower).view(np.uint16)
        return result

    return convert_two


def _tf32() -> Iterator[Row]:
    for rounding in ("rna", "rn", "rz"):
        for finite, relu in product((False, True), repeat=2):
            if rounding == "rna" and relu:
                continue
            modifiers = (".satfinite" if finite else "") + (".relu" if relu else "")
            function = _to_tf32(rounding, finite=finite, relu=relu)
            yield Row(f"cvt.{rounding}{modifiers}.tf32.f32", ("f32",), ("b32",), function)
            if finite and relu:
                yield Row(f"cvt.{rounding}.relu.satfinite.tf32.f32", ("f32",), ("b32",), function)


def _to_tf32(rounding: str, *, finite: bool, relu: bool) -> Function:
    """Return the rounding of float32 to the 10 fraction bits of tf32, the rest of the bits 0."""

    def convert(value: Lanes) -> Lanes:
        bits: Lanes = value.view(np.uint32)
        if rounding == "rna":
            bits = bits + 0x1000
        elif rounding == "rn":
            bits = bits + (bits >> 13 & 1) + 0xFFF
        bits = bits & 0xFFFFE000
        if finite:
            bits = np.where(bits & 0x7FFFFFFF == 0x7F800000, bits - 0x2000, bits)
        if relu:
            bits = np.where(bits >> 31 == 1, np.uint32(0), bits)
        nan = value != value
        result: Lanes = np.where(nan, np.uint32(0x7FFFFFFF), bits) if nan.any() else bits
        return result

    return convert


def _encoder(small: str, *, relu: bool) -> Function:
    dtype, _, largest, of_nan = MINIFLOATS[small]

    def encode(value: Lanes) -> Lanes:
        """Return the patterns of float32 lanes; too large ones become the largest number."""
        nan = value != value
        bounded = np.clip(value, 0 if relu else -largest, largest)
        if relu:
            bounded = bounded + np.float32(0)
        pattern = np.where(nan, np.float32(largest), bounded).astype(dtype).view(np.uint8)
        result: Lanes = pattern if of_nan is None else np.where(nan, np.uint8(of_nan), pattern)
        return result

    return encode


def _encode_two(encode: Function, small: str) -> Function:
    return lambda upper, lower: _join(encode(upper), encode(lower), small)


def _encode_packed(encode: Function, unpack: Function, small: str) -> Function:
    def encode_pair(pair: Lanes) -> Lanes:
        upper, lower = unpack(pair)
        return _join(encode(upper), encode(lower), small)

    return encode_pair


def _join(upper: Lanes, lower: Lanes, small: str) -> Lanes:
    if MINIFLOATS[small][1] == 4:
        nibbles: Lanes = upper << 4 | lower & 0xF
        return nibbles
    result: Lanes = upper.astype(np.uint16) << 8 | lower
    return result


def _decoder(small: str, t: str, *, relu: bool) -> Function:
    dtype, bits, _, _ = MINIFLOATS[small]

    def decode(packed: Lanes) -> Lanes:
        halves = []
        for code in (packed >> bits, packed & ((1 << bits) - 1)):
            value = code.astype(np.uint8).view(dtype).astype(np.float32)
            if relu:
                value = np.where(value <= 0, np.float32(0), value)
            # Every value of the small formats is one of f16 and of bf16.
            half = value.astype(np.float16).view(np.uint16) if t == "f16" else round_f32(value)
            halves.append(np.where(value != value, np.uint16(_CANONICAL_NAN), half).astype(np.uint32))
        result: Lanes = halves[0] << 16 | halves[1]
        return result

    return decode


def _f16_pair(pair: Lanes) -> tuple[Lanes, Lanes]:
    halves = ((pair >> 16).astype(np.uint16), pair.astype(np.uint16))
    upper, lower = (half.view(np.float16).astype(np.float32) for half in halves)
    return upper, lower


def _bf16_pair(pair: Lanes) -> tuple[Lanes, Lanes]:
    return widen((pair >> 16).astype(np.uint16)), widen(pair.astype(np.uint16))


def _packed_integers(bits: int, low: int, high: int) -> Function:
    mask = (1 << bits) - 1

    def pack(upper: Lanes, lower: Lanes, rest: Lanes | None = None) -> Lanes:
        halves = [np.clip(value, low, high).view(np.uint32) & mask for value in (upper, lower)]
        result: Lanes = halves[0] << bits | halves[1]
        return result if rest is None else rest << 2 * bits | result

    return pack

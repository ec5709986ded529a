"""f16 and bf16 arithmetic, alone and in pairs, and the mixed forms with an f32 sum.

Sums and products are done in float32, whose rounding does no harm to the one that follows: it has
more than twice the bits. A fused multiply-add is done in float64. bf16 results that are NaN are
the canonical 0x7FFF; f16 ones only after min, max and relu.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.arithmetic.comparisons import COMBINATIONS, FLOAT_ORDER, masks, predicates, prepared
from drv.simulator.arithmetic.integers import on_halves
from drv.simulator.arithmetic.operation import Row

from . import brain_floats
from .brain_floats import round_f32, widen
from .directed import MODES, directed_f32
from .extrema import CANONICAL_NAN, extrema_rows
from .fused import fma_f32
from .single_and_double import saturated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from drv.simulator.arithmetic.operation import Function, Lanes

_F16, _BITS16 = np.dtype(np.float16), np.dtype(np.uint16)
_SMALLEST_NORMAL_F16 = np.float16(2.0**-14)


def rows() -> Iterator[Row]:
    """Yield the arithmetic, comparisons and approximations of f16, f16x2, bf16 and bf16x2."""
    for row in (*_f16(), *_bf16()):
        yield row
        yield _in_pairs(row)
    yield from _sign_bits()
    yield from _mixed()
    yield from _comparisons()


def _in_pairs(row: Row) -> Row:
    t = row.results[0]
    pair = f"{t}x2"
    function = row.meaning
    if isinstance(function, str):
        function = prepared(function, None)
    opcode = f"{row.opcode.removesuffix(t)}{pair}"
    return Row(opcode, (pair,) * len(row.operands), (pair,), on_halves(function, _part(t)))


def _part(t: str) -> np.dtype[Any]:
    return _F16 if t.startswith("f16") else _BITS16


def _f16() -> Iterator[Row]:
    for base, function in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("fma", fma_f16)):
        operands = ("f16",) * (3 if base == "fma" else 2)
        for spelling in (f"{base}.rn",) if base == "fma" else (base, f"{base}.rn"):
            for ftz in ("", ".ftz"):
                apply = _flushed(function) if ftz else function
                yield Row(f"{spelling}{ftz}.f16", operands, ("f16",), apply)
                yield Row(f"{spelling}{ftz}.sat.f16", operands, ("f16",), saturated(apply))
                if base == "fma":
                    yield Row(f"{spelling}{ftz}.relu.f16", operands, ("f16",), _then(relu, apply))
    yield from extrema_rows("f16", flush_f16)
    one = ("f16",)
    yield Row("neg.ftz.f16", one, one, _flushed(np.negative))
    yield Row("abs.ftz.f16", one, one, _flushed(np.abs))
    for base, approximation in (("tanh", np.tanh), ("ex2", np.exp2)):
        yield Row(f"{base}.approx.f16", one, one, _in_f32(approximation))


def _bf16() -> Iterator[Row]:
    two, one = ("bf16", "bf16"), ("bf16",)
    for base, function in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply)):
        for spelling in (base, f"{base}.rn"):
            yield Row(f"{spelling}.bf16", two, one, _of_wide(function, round_f32))
    yield Row("fma.rn.bf16", ("bf16",) * 3, one, brain_floats.fma)
    yield Row("fma.rn.relu.bf16", ("bf16",) * 3, one, _then(_relu_bf16, brain_floats.fma))
    for row in extrema_rows("f32"):
        if len(row.operands) == 2 and not isinstance(row.meaning, str):
            opcode = f"{row.opcode.removesuffix('f32')}bf16"
            yield Row(opcode, two, one, _of_wide(row.meaning, _upper_half))
    yield Row("tanh.approx.bf16", one, one, _of_wide(np.tanh, round_f32))
    yield Row("ex2.approx.ftz.bf16", one, one, _of_wide(_exp2_flushed, round_f32))


def _sign_bits() -> Iterator[Row]:
    yield Row("neg.f16", ("f16",), ("f16",), "-{0}")
    yield Row("abs.f16", ("f16",), ("f16",), "np.abs({0})")
    yield Row("neg.bf16", ("bf16",), ("bf16",), "{0} ^ 0x8000")
    yield Row("abs.bf16", ("bf16",), ("bf16",), "{0} & 0x7FFF")
    for t in ("f16x2", "bf16x2"):
        yield Row(f"neg.{t}", (t,), (t,), "{0} ^ 0x80008000")
        yield Row(f"abs.{t}", (t,), (t,), "{0} & 0x7FFF7FFF")


def _mixed() -> Iterator[Row]:
    """Yield f32 sums with f16 or bf16 operands, which are widened first."""
    for t, wide in (("f16", _to_f32), ("bf16", widen)):
        for base, symbol in (("add", np.add), ("sub", np.subtract), ("fma", fma_f32)):
            narrow_ones = 2 if base == "fma" else 1
            operands = (*(t,) * narrow_ones, "f32")
            for rounding in ("rn", *MODES):
                function = symbol if rounding == "rn" else directed_f32(base, rounding)
                apply = _widened(function, wide, narrow_ones)
                optional = base != "fma" and rounding == "rn"
                for spelling in (base, f"{base}.rn") if optional else (f"{base}.{rounding}",):
                    yield Row(f"{spelling}.f32.{t}", operands, ("f32",), apply)
                    yield Row(f"{spelling}.sat.f32.{t}", operands, ("f32",), saturated(apply))


def _comparisons() -> Iterator[Row]:
    for name, holds in FLOAT_ORDER.items():
        for t in ("f16", "bf16"):
            for ftz, prepare in (("", None if t == "f16" else widen), (".ftz", flush_f16)):
                if ftz and t == "bf16":
                    continue
                yield from predicates(name, t, holds, prepare, ftz=ftz)
                yield from masks(name, t, holds, prepare, ftz=ftz)
                compare = prepared(holds, prepare)
                one = np.float16(1) if t == "f16" else np.uint16(0x3F80)
                yield Row(f"set.{name}{ftz}.{t}.{t}", (t, t), (t,), _chosen(compare, one))
                pair = f"{t}x2"
                yield from _pair_predicates(f"{name}{{}}{ftz}.{pair}", pair, compare)
                ones = on_halves(_chosen(compare, one), _part(t))
                yield Row(f"set.{name}{ftz}.{pair}.{pair}", (pair, pair), (pair,), ones)
                every = on_halves(_chosen(compare, np.uint16(0xFFFF)), _part(t))
                yield Row(f"set.{name}{ftz}.u32.{pair}", (pair, pair), ("u32",), every)


def _pair_predicates(opcode: str, pair: str, compare: Function) -> Iterator[Row]:
    """Yield setp of packed operands: the first result is of the lower halves, the second of the upper."""

    def of_halves(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
        lanes = max(len(a), len(b))
        a, b = (x if len(x) == lanes else x.repeat(lanes) for x in (a, b))
        holds = compare(a.view(_part(pair)), b.view(_part(pair)))
        return holds[::2], holds[1::2]

    yield Row("setp." + opcode.format(""), (pair, pair), ("pred", "pred"), of_halves)
    for combination, (_, combine) in COMBINATIONS.items():
        yield Row(
            "setp." + opcode.format(f".{combination}"),
            (pair, pair, "pred"),
            ("pred", "pred"),
            lambda a, b, other, combine=combine: tuple(combine(p, other) for p in of_halves(a, b)),
        )


def _chosen(compare: Function, value: Any) -> Function:
    return lambda a, b: np.where(compare(a, b), value, value.dtype.type(0))


def fma_f16(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """Return ``a * b + c`` of float16 lanes, rounded once to nearest, ties to even.

    Where float64 rounds the sum, it never lands on a tie of float16: the product has 22 bits and the
    addend 11, so a sum near a tie has all its bits within 53.
    """
    result: Lanes = (a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)).astype(np.float16)
    return result


def flush_f16(value: Lanes) -> Lanes:
    """Return float16 lanes with subnormals replaced by 0 of their sign."""
    return np.where(np.abs(value) < _SMALLEST_NORMAL_F16, np.copysign(np.float16(0), value), value)


def relu(value: Lanes) -> Lanes:
    """Return float lanes with negative ones and -0 replaced by +0; NaN is the canonical one."""
    positive = np.where(value > 0, value, value.dtype.type(0))
    return np.where(value != value, CANONICAL_NAN[value.dtype], positive)


def _relu_bf16(pattern: Lanes) -> Lanes:
    # Rounding has left no other NaN than the canonical, positive one.
    return np.where(pattern >> 15 == 1, np.uint16(0), pattern)


def _flushed(function: Function) -> Function:
    return lambda *operands: flush_f16(function(*(flush_f16(operand) for operand in operands)))


def _then(last: Function, first: Function) -> Function:
    return lambda *operands: last(first(*operands))


def _to_f32(value: Lanes) -> Lanes:
    return value.astype(np.float32)


def _in_f32(function: Function) -> Function:
    return lambda a: function(a.astype(np.float32)).astype(np.float16)


def _of_wide(function: Function, narrowed: Function) -> Function:
    return lambda *operands: narrowed(function(*(widen(operand) for operand in operands)))


def _upper_half(value: Lanes) -> Lanes:
    return (value.view(np.uint32) >> 16).astype(np.uint16)


def _exp2_flushed(value: Lanes) -> Lanes:
    tiny = np.float32(2.0**-126)
    result: Lanes = np.exp2(value * (np.abs(value) >= tiny))
    return result * (result >= tiny)


def _widened(function: Function, widen_operand: Function, count: int) -> Function:
    return lambda *operands: function(
        *(widen_operand(operand) for operand in operands[:count]), *operands[count:]
    )

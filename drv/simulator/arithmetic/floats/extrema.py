"""min and max of floats: a NaN loses against a number unless .NaN says otherwise, and -0 is less than +0."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from drv.simulator.arithmetic.operation import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from drv.simulator.arithmetic.operation import Function, Lanes

#: The NaN that GPUs answer with.
CANONICAL_NAN = {
    np.dtype(dtype): np.array(bits, f"u{np.dtype(dtype).itemsize}").view(dtype)[()]
    for dtype, bits in ((np.float16, 0x7FFF), (np.float32, 0x7FFFFFFF), (np.float64, 0x7FFFFFFFFFFFFFFF))
}


def minimum(a: Lanes, b: Lanes) -> Lanes:
    """Return the smaller of float lanes; the number where one is NaN."""
    return _finish(np.fmin(a, b), a, b, np.bitwise_or)


def maximum(a: Lanes, b: Lanes) -> Lanes:
    """Return the larger of float lanes; the number where one is NaN."""
    return _finish(np.fmax(a, b), a, b, np.bitwise_and)


def minimum_or_nan(a: Lanes, b: Lanes) -> Lanes:
    """Return the smaller of float lanes; NaN where one is NaN."""
    return _finish(np.minimum(a, b), a, b, np.bitwise_or, keeps_nan=True)


def maximum_or_nan(a: Lanes, b: Lanes) -> Lanes:
    """Return the larger of float lanes; NaN where one is NaN."""
    return _finish(np.maximum(a, b), a, b, np.bitwise_and, keeps_nan=True)


EXTREMA: dict[tuple[str, bool], Function] = {
    ("min", False): minimum,
    ("max", False): maximum,
    ("min", True): minimum_or_nan,
    ("max", True): maximum_or_nan,
}


def _finish(chosen: Lanes, a: Lanes, b: Lanes, merge: Function, *, keeps_nan: bool = False) -> Lanes:
    equal = a == b
    if equal.any():
        # Equal numbers have equal bits, but for zeros: there the sign bits are merged.
        unsigned = f"u{a.itemsize}"
        merged = merge(a.view(unsigned), b.view(unsigned)).view(a.dtype)
        chosen = np.where(equal, merged, chosen)
    nan = chosen != chosen
    if nan.any():
        canonical = CANONICAL_NAN[chosen.dtype]
        # The C library's fmin and fmax, unlike a GPU, let a signalling NaN win.
        number = canonical if keeps_nan else np.where(a == a, a, np.where(b == b, b, canonical))
        chosen = np.where(nan, number, chosen)
    return chosen


def extrema_rows(t: str, flush: Function | None = None) -> Iterator[Row]:
    """Yield min and max of the float type ``t``; with .ftz forms that use ``flush`` when it is given."""
    for (base, keeps_nan), function in EXTREMA.items():
        nan = ".NaN" if keeps_nan else ""
        if t == "f64":
            if not keeps_nan:
                yield Row(f"{base}.f64", (t, t), (t,), function)
            continue
        for ftz in ("", ".ftz") if flush else ("",):
            prepare = flush if ftz else None
            yield Row(f"{base}{ftz}{nan}.{t}", (t, t), (t,), _prepared(function, prepare))
            signed = _with_xor_sign(_prepared(function, prepare))
            yield Row(f"{base}{ftz}{nan}.xorsign.abs.{t}", (t, t), (t,), signed)
            for magnitude, taken in product(("", ".abs"), (flush,)):
                if taken is None:
                    continue
                of_three = _of_three(_prepared(function, prepare), absolute=bool(magnitude))
                yield Row(f"{base}{ftz}{nan}{magnitude}.{t}", (t, t, t), (t,), of_three)


def _prepared(function: Function, prepare: Function | None) -> Function:
    if prepare is None:
        return function
    return lambda *operands: function(*(prepare(operand) for operand in operands))


def _of_three(function: Function, *, absolute: bool) -> Function:
    if absolute:
        return lambda a, b, c: function(function(np.abs(a), np.abs(b)), np.abs(c))
    return lambda a, b, c: function(function(a, b), c)


def _with_xor_sign(function: Function) -> Function:
    """Return ``function`` of the magnitudes, with the sign that a product would have."""

    def apply(a: Lanes, b: Lanes) -> Lanes:
        return np.copysign(
            function(np.abs(a), np.abs(b)), np.where(np.signbit(a) == np.signbit(b), 1, -1)
        ).astype(a.dtype)

    return apply

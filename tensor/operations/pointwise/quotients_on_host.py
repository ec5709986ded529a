"""Remainders, whole quotients and hypotenuses of float32 in NumPy, whose loops take them one by one.

In double precision the quotient of two numbers of 24 bits is not rounded across a whole number below 2**28, and that times the divisor is
exact. Where a quotient is larger, or a number is infinite or NaN, NumPy computes it.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.core.host.scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Callable

#: Elements that are computed at a time, and up to which one call of NumPy's takes less.
_PART, _FEW = 1 << 16, 1 << 6
#: Quotients below this are exact; those of whole quotients have 24 bits with room for what PyTorch rounds.
_EXACT, _EXACT_WHOLE = 2.0**28, 2.0**22
_SIGN = np.array(-(2**31), np.int32)


def _of_singles(exact: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Of a function of NumPy's, with ``exact`` for what it decorates to be in doubt of.

    The decorated function takes arrays of float32 of one dimension and an output, and gives which elements it leaves to ``exact``,
    ``None`` for none.
    """

    def decorate(single: Callable[[Any, Any, Any], Any]) -> Callable[..., Any]:
        @wraps(single)
        def computed(a: Any, b: Any, out: Any = None) -> Any:
            if np.result_type(a, b) != np.float32 or max(np.size(a), np.size(b)) <= _FEW:
                result = exact(a, b)
                if out is None:
                    return result
                out[...] = result
                return out
            if out is None:
                out = np.empty(np.broadcast_shapes(np.shape(a), np.shape(b)), np.float32)
            # A number is taken by all parts; other operands that are stretched are copied.
            operands = [x if np.ndim(x) == 0 else np.broadcast_to(x, out.shape).reshape(-1) for x in (a, b)]
            target = out.reshape(-1)
            for start in range(0, target.size, _PART):
                part = slice(start, start + _PART)
                x, y = (each if np.ndim(each) == 0 else each[part] for each in operands)
                doubtful = single(x, y, target[part])
                if doubtful is not None:
                    target[part][doubtful] = exact(
                        *[each if np.ndim(each) == 0 else each[doubtful] for each in (x, y)]
                    )
            if not np.shares_memory(target, out):
                out[...] = target.reshape(out.shape)
            return out

        return computed

    return decorate


def _double(x: Any, like: Any) -> Any:
    if np.ndim(x) == 0:
        return np.float64(x)
    result = scratch(like, np.float64)
    np.copyto(result, x)
    return result


def _beyond(quotient: Any, limit: float, result: Any) -> Any:
    """Where quotients are not below a limit, or results are NaN."""
    if (
        np.maximum.reduce(quotient) < limit
        and np.minimum.reduce(quotient) > -limit
        and not np.isnan(np.minimum.reduce(result))
    ):
        return None
    return ~(np.abs(quotient) < limit) | np.isnan(result)


def _left(a: Any, b: Any, whole: Any, out: Any) -> Any:
    """``a - whole(a / b) * b``; the elements that may be wrong."""
    x, y = _double(a, out), _double(b, out)
    quotient = np.divide(x, y, out=scratch(out, np.float64))
    whole(quotient, out=quotient)
    product = np.multiply(quotient, y, out=scratch(out, np.float64))
    np.copyto(out, np.subtract(x, product, out=product), casting="same_kind")
    return _beyond(quotient, _EXACT, out)


@_of_singles(np.fmod)
def fmod_on_host(a: Any, b: Any, out: Any) -> Any:
    """What a division towards zero leaves, with the sign of the dividend."""
    doubtful = _left(a, b, np.trunc, out)
    signs = np.bitwise_and(np.asarray(a).view(np.int32), _SIGN)
    np.bitwise_or(out.view(np.int32), signs, out=out.view(np.int32))
    return doubtful


def _remainder(a: Any, b: Any) -> Any:
    # NumPy gives a zero the sign of the divisor.
    left = np.fmod(a, b)
    return np.where((left != 0) & ((left < 0) != (b < 0)), left + b, left)


@_of_singles(_remainder)
def remainder_on_host(a: Any, b: Any, out: Any) -> Any:
    """What a division towards minus infinity leaves, with the sign of the divisor; zeros have that of the dividend."""
    doubtful = _left(a, b, np.floor, out)
    zero = out == 0
    if zero.any():
        out[zero] = np.copysign(np.float32(0), a if np.ndim(a) == 0 else a[zero])
    return doubtful


@_of_singles(np.floor_divide)
def floor_divide_on_host(a: Any, b: Any, out: Any) -> Any:
    """The quotient, rounded towards minus infinity."""
    x, y = _double(a, out), _double(b, out)
    quotient = np.divide(x, y, out=scratch(out, np.float64))
    np.floor(quotient, out=quotient)
    np.copyto(out, quotient, casting="same_kind")
    doubtful = _beyond(quotient, _EXACT_WHOLE, out)
    if not np.isfinite(b).all():
        infinite = ~np.isfinite(np.broadcast_to(b, out.shape))
        doubtful = infinite if doubtful is None else doubtful | infinite
    return doubtful


@_of_singles(np.hypot)
def hypot_on_host(a: Any, b: Any, out: Any) -> Any:
    """``sqrt(a * a + b * b)``, whose squares double precision holds."""
    x, y = _double(a, out), _double(b, out)
    x, y = np.square(x, out=x if np.ndim(x) else None), np.square(y, out=y if np.ndim(y) else None)
    result = np.add(x, y, out=x if np.ndim(x) else y)
    np.copyto(out, np.sqrt(result, out=result), casting="same_kind")
    # Of an infinite number and NaN it is infinite.
    return np.isnan(out) if np.isnan(np.minimum.reduce(out)) else None

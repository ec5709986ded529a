"""Elementary functions of float32 in NumPy for processors without AVX-512, where its own loops take elements one by one.

They are made of NumPy's loops that have vector instructions (exponential, logarithm, sine, cosine and square root) and of polynomials,
which were fitted with 30 digits at Chebyshev nodes; errors are below 4 units in the last place. What is infinite, NaN or near an
overflow NumPy computes.
"""

from __future__ import annotations

import math
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.core.host.scratch import scratch
from tensor.operations.special.evaluation import constants, has_vector_loop, polynomial

from .selection import FEW, choose

if TYPE_CHECKING:
    from collections.abc import Callable


def quickest(ufunc: np.ufunc, single: Callable[..., Any]) -> Any:
    """``ufunc``; where its loop for float32 has no vector instructions, :func:`computing`."""
    return ufunc if has_vector_loop(ufunc.__name__) else computing(ufunc, single)


def computing(ufunc: np.ufunc, single: Callable[..., Any]) -> Callable[..., Any]:
    """``single(*operands, out)`` for many elements of float32, ``ufunc`` for what it leaves and for all others.

    ``single`` takes contiguous arrays of one shape and gives the elements that are left, ``None`` for none.
    """

    def of_operands(operands: tuple[Any, ...], out: Any) -> Any:
        if np.result_type(*operands) != np.float32 or max(map(np.size, operands)) <= FEW:
            return ufunc(*operands, out=out, casting="unsafe") if out is not None else ufunc(*operands)
        shape = np.broadcast_shapes(*map(np.shape, operands))
        operands = tuple(np.ascontiguousarray(np.broadcast_to(x, shape)) for x in operands)
        if out is None or not out.flags.c_contiguous:
            result = np.empty(shape, np.float32)
        else:
            result = out
        left = single(*operands, result)
        if left is not None:
            result[left] = ufunc(*[x[left] for x in operands])
        if out is not None and out is not result:
            out[...] = result
            return out
        return result

    if ufunc.nin == 1:

        @wraps(single)
        def unary(a: Any, out: Any = None) -> Any:
            return of_operands((a,), out)

        return unary

    @wraps(single)
    def binary(a: Any, b: Any, out: Any = None) -> Any:
        return of_operands((a, b), out)

    return binary


def _not_numbers(result: Any) -> Any:
    """Where a result is NaN; ``None`` for nowhere."""
    return np.isnan(result) if np.isnan(np.minimum.reduce(result, axis=None)) else None


def _beyond(x: Any, limit: float) -> Any:
    """Where a size is not at most ``limit``; ``None`` for nowhere."""
    if np.maximum.reduce(x, axis=None) <= limit and np.minimum.reduce(x, axis=None) >= -limit:
        return None
    return ~(np.abs(x) <= limit)


_SIGN = np.array(-(2**31), np.int32)


def _with_sign_of(x: Any, result: Any) -> None:
    """Give ``result``, whose numbers have no signs or these, those of ``x``: by bits, as copysign takes longer."""
    signs = np.bitwise_and(x.view(np.int32), _SIGN, out=scratch(x, np.int32))
    bits = result.view(np.int32)
    np.bitwise_or(bits, signs, out=bits)


# Exponentials

#: Sizes of operands whose exponentials neither overflow nor have a power of two that does, nor are subnormal.
_LARGEST_EXPONENT = 86.0
_LOG2_E, _LN2_HEAD, _LN2_TAIL, _ONE, _HALF = constants(
    (1 / math.log(2), 0.693359375, math.log(2) - 0.693359375, 1, 0.5), np.float32
)
#: ``(exp(r) - 1 - r) / r**2``, for sizes up to ``log(2) / 2``: relative errors of ``exp(r) - 1`` below 1.4e-8.
_EXPM1 = constants(
    (
        0.4999999815427596,
        0.16666543632185482,
        0.04166719982130467,
        0.008366519047722898,
        0.0013882520919294697,
    ),
    np.float32,
)
_BIAS, _FRACTION = np.array(127, np.int32), np.array(23, np.int32)


def _expm1_of_moderate(x: Any, out: Any) -> None:
    """``exp(x) - 1`` of sizes up to 86, others anything; ``out`` may be ``x``."""
    # x = power * log(2) + rest, in two products, the first of which is exact.
    power = np.multiply(x, _LOG2_E, out=scratch(x))
    np.rint(power, out=power)
    product = np.multiply(power, _LN2_HEAD, out=scratch(x))
    rest = np.subtract(x, product, out=out)
    rest -= np.multiply(power, _LN2_TAIL, out=product)
    value = polynomial(_EXPM1, rest, product)
    value *= rest
    value *= rest
    value += rest
    # As many bits as an exponent has are set right in the power's memory: 2**power * value + (2**power - 1).
    bits = scratch(x, np.int32)
    np.copyto(bits, power, casting="unsafe")
    bits += _BIAS
    np.left_shift(bits, _FRACTION, out=bits)
    scale = bits.view(np.float32)
    value *= scale
    np.subtract(scale, _ONE, out=power)
    np.add(value, power, out=out)


def expm1_of_singles(x: Any, out: Any) -> Any:
    """``exp(x) - 1``."""
    left = _beyond(x, _LARGEST_EXPONENT)
    _expm1_of_moderate(x, out)
    _with_sign_of(x, out)
    return left


def sinh_of_singles(x: Any, out: Any) -> Any:
    """``(w + w / (w + 1)) / 2``, where ``w = exp(abs(x)) - 1``."""
    left = _beyond(x, _LARGEST_EXPONENT)
    np.abs(x, out=out)
    _expm1_of_moderate(out, out)
    quotient = np.add(out, _ONE, out=scratch(x))
    np.divide(out, quotient, out=quotient)
    out += quotient
    out *= _HALF
    _with_sign_of(x, out)
    return left


def cosh_of_singles(x: Any, out: Any) -> Any:
    """``(e + 1 / e) / 2``, where ``e = exp(x)``."""
    np.exp(x, out=out)
    out += np.divide(_ONE, out, out=scratch(x))
    out *= _HALF
    return _beyond(x, _LARGEST_EXPONENT)


# Logarithms


def log1p_of_singles(x: Any, out: Any) -> Any:
    """``log(1 + x)`` and what the sum was rounded by, over the sum."""
    _log1p_without_sign(x, out)
    _with_sign_of(x, out)
    return _not_numbers(out)


def _log1p_without_sign(x: Any, out: Any) -> None:
    sum_ = np.add(x, _ONE, out=scratch(x))
    lost = np.subtract(sum_, _ONE, out=scratch(x))
    np.subtract(x, lost, out=lost)
    lost /= sum_
    np.log(sum_, out=out)
    out += lost


def atanh_of_singles(x: Any, out: Any) -> Any:
    """``log1p(2 * a / (1 - a)) / 2``, where ``a = abs(x)``."""
    size = np.abs(x, out=scratch(x))
    rest = np.subtract(_ONE, size, out=scratch(x))
    size += size
    size /= rest
    _log1p_without_sign(size, out)
    out *= _HALF
    _with_sign_of(x, out)
    return _not_numbers(out)


# Angles

#: ``atan(r) / r`` by ``r * r``, for ``r`` from 0 to 1: relative errors below 1.6e-8.
_ATAN = constants(
    (
        0.9999999847783343,
        -0.3333307340579402,
        0.19992620246245799,
        -0.14203649857646436,
        0.1064095204577693,
        -0.07504328689301729,
        0.042691887706286145,
        -0.01606883980926281,
        0.0028499392949835637,
    ),
    np.float32,
)
#: ``(asin(r) - r) / r**3`` by ``r * r``, for ``r`` from 0 to 1/2: relative errors of ``asin(r)`` below 5e-9.
_ASIN = constants(
    (
        0.16666752481795258,
        0.0749529765093252,
        0.04547037506430603,
        0.024179518757673275,
        0.042166301983995125,
    ),
    np.float32,
)
_RIGHT_ANGLE, _STRAIGHT_ANGLE = constants((math.pi / 2, math.pi), np.float32)


def tan_of_singles(x: Any, out: Any) -> Any:
    """Sine over cosine."""
    cosine = np.cos(x, out=scratch(x))
    np.divide(np.sin(x, out=out), cosine, out=out)
    return None


def _angle(smaller: Any, larger: Any, out: Any) -> None:
    """``atan(smaller / larger)`` of numbers from 0 on; ``out`` is neither."""
    ratio = np.divide(smaller, larger, out=scratch(out))
    polynomial(_ATAN, np.square(ratio, out=scratch(out)), out)
    out *= ratio


def atan_of_singles(x: Any, out: Any) -> Any:
    """Of sizes above 1 by the reciprocal."""
    size = np.abs(x, out=scratch(x))
    smaller = size.clip(0, 1, out=scratch(x))
    larger = size.clip(1, np.inf, out=scratch(x))
    _angle(smaller, larger, out)
    # Where the size is above 1, a right angle less the angle.
    rest = np.subtract(_RIGHT_ANGLE, out, out=smaller)
    np.copyto(larger, out)
    choose(size > 1, rest, larger, out)
    _with_sign_of(x, out)
    return _not_numbers(out)


def atan2_of_singles(a: Any, b: Any, out: Any) -> Any:
    """The angle of the shorter coordinate over the longer one, taken to its octant."""
    height, width = np.abs(a, out=scratch(a)), np.abs(b, out=scratch(b))
    longer = np.maximum(height, width, out=scratch(a))
    angle = scratch(a)
    _angle(np.minimum(height, width, out=out), longer, angle)
    rest = np.subtract(_RIGHT_ANGLE, angle, out=longer)
    choose(height > width, rest, angle, out)
    np.subtract(_STRAIGHT_ANGLE, out, out=rest)
    np.copyto(angle, out)
    choose(b < 0, rest, angle, out)
    _with_sign_of(a, out)
    # Of zeros and infinities, and where numbers of very different sizes are not 0 where the quotient is.
    return (
        _not_numbers(out)
        if np.minimum.reduce(np.abs(out, out=rest), axis=None) > 0
        else np.isnan(out) | (out == 0)
    )


def _arc(x: Any, out: Any) -> Any:
    """The size of ``x``; ``out`` has its arc sine, or half of its arc cosine where it is above 1/2."""
    size = np.abs(x, out=scratch(x))
    # Both squares are the same at 1/2.
    square = np.square(size, out=scratch(x))
    half = np.subtract(_ONE, size, out=scratch(x))
    half *= _HALF
    np.minimum(square, half, out=square)
    root = np.sqrt(square, out=half)
    # Squares of tiny numbers are inexact.
    np.minimum(root, size, out=root)
    polynomial(_ASIN, square, out)
    out *= square
    out *= root
    out += root
    return size


def asin_of_singles(x: Any, out: Any) -> Any:
    """Of sizes above 1/2 by the angle between."""
    size = _arc(x, out)
    rest = np.multiply(out, -2, out=scratch(x))
    rest += _RIGHT_ANGLE
    angle = scratch(x)
    # Of those the root may be too small.
    np.maximum(out, size, out=angle)
    choose(size > _HALF, rest, angle, out)
    _with_sign_of(x, out)
    return _not_numbers(out)


def acos_of_singles(x: Any, out: Any) -> Any:
    """A right angle less the arc sine; near 1 and -1 by the angle between, which is exact there."""
    size = _arc(x, out)
    double = np.add(out, out, out=scratch(x))
    _with_sign_of(x, out)
    middle = np.subtract(_RIGHT_ANGLE, out, out=scratch(x))
    far = np.subtract(_STRAIGHT_ANGLE, double, out=scratch(x))
    near = choose(x < 0, far, double, scratch(x))
    choose(size > _HALF, near, middle, out)
    return _not_numbers(out)

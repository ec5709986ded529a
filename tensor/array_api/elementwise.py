"""Functions of each element, and of pairs of them.

Where the standard's special cases are not PyTorch's (quotients of infinities, signs of zeros, complex ``expm1`` and
``tanh`` at infinity), functions here follow the standard; operators and methods of tensors stay PyTorch's.
"""

from __future__ import annotations

from typing import Any

from tensor.methods.tensor import Tensor

from .operations import binary, ops

#: Of one array: the operations themselves.
abs = ops.abs
acos = ops.acos
acosh = ops.acosh
asin = ops.asin
asinh = ops.asinh
atan = ops.atan
atanh = ops.atanh
ceil = ops.ceil
conj = ops.conj
cos = ops.cos
cosh = ops.cosh
exp = ops.exp
floor = ops.floor
imag = ops.imag
isfinite = ops.isfinite
isinf = ops.isinf
isnan = ops.isnan
log = ops.log
log1p = ops.log1p
log2 = ops.log2
log10 = ops.log10
logical_not = ops.logical_not
negative = ops.negative
positive = ops.positive
real = ops.real
reciprocal = ops.reciprocal
round = ops.round
signbit = ops.signbit
sin = ops.sin
sinh = ops.sinh
square = ops.square
sqrt = ops.sqrt
tan = ops.tan
trunc = ops.trunc
bitwise_invert = ops.bitwise_not

#: Of two arrays.
add = binary("add")
atan2 = binary("atan2")
bitwise_and = binary("bitwise_and")
bitwise_left_shift = binary("bitwise_left_shift")
bitwise_or = binary("bitwise_or")
bitwise_right_shift = binary("bitwise_right_shift")
bitwise_xor = binary("bitwise_xor")
copysign = binary("copysign")
divide = binary("divide")
greater = binary("greater")
greater_equal = binary("greater_equal")
hypot = binary("hypot")
less = binary("less")
less_equal = binary("less_equal")
logaddexp = binary("logaddexp")
logical_and = binary("logical_and")
logical_or = binary("logical_or")
logical_xor = binary("logical_xor")
maximum = binary("maximum")
minimum = binary("minimum")
multiply = binary("multiply")
nextafter = binary("nextafter")
not_equal = binary("not_equal")
pow = binary("pow")
subtract = binary("subtract")
equal = binary("eq")

_floor_divide = binary("floor_divide")
_remainder = binary("remainder")


def floor_divide(x1: Any, x2: Any, /) -> Tensor:
    """See :func:`tensor.floor_divide`; beside an infinity it is the floor of the quotient.

    Dtypes promote as the array API standard says.
    """
    result: Tensor = _floor_divide(x1, x2)
    if result.is_floating_point():
        x1, x2 = (ops.asarray(each, dtype=result.dtype, device=result.device) for each in (x1, x2))
        result = ops.where(ops.isinf(x1) | ops.isinf(x2), ops.floor(x1 / x2), result)
    return result


def remainder(x1: Any, x2: Any, /) -> Tensor:
    """See :func:`tensor.remainder`; a result of zero has the sign of ``x2``.

    Dtypes promote as the array API standard says.
    """
    result: Tensor = _remainder(x1, x2)
    if result.is_floating_point():
        x2 = ops.asarray(x2, dtype=result.dtype, device=result.device)
        result = ops.where(result == 0, ops.copysign(result, x2), result)
    return result


def expm1(x: Tensor, /) -> Tensor:
    """See :func:`tensor.expm1`; of complex numbers with an infinite or NaN part it is what the standard says."""
    if not x.is_complex():
        return ops.expm1(x)  # type: ignore[no-any-return]
    real, imag = ops.real(x), ops.imag(x)
    # exp(a) cos(b) - 1 without cancellation: expm1(a) cos(b) - 2 sin(b/2)**2.
    result_real = ops.expm1(real) * ops.cos(imag) - 2 * ops.square(ops.sin(imag / 2))
    # Not exp(a) sin(b) for b = 0: infinity times zero is NaN.
    result_imag = ops.where(imag == 0, imag, ops.exp(real) * ops.sin(imag))
    has_no_angle = ~ops.isfinite(imag) & ops.isinf(real)
    result_real = ops.where(has_no_angle, ops.expm1(real), result_real)
    # Of zeros, standard C has +0.
    result_real = result_real + 0.0
    result_imag = ops.where(has_no_angle & (real < 0), ops.zeros_like(imag), result_imag)
    return ops.complex(result_real, result_imag)  # type: ignore[no-any-return]


def tanh(x: Tensor, /) -> Tensor:
    """See :func:`tensor.tanh`; of a complex number whose real part is infinite, zeros have the imaginary part's sign."""
    result: Tensor = ops.tanh(x)
    if not x.is_complex():
        return result
    at_infinity = ops.isinf(ops.real(x)) & ops.isfinite(ops.imag(x))
    zeros = ops.copysign(ops.zeros_like(ops.imag(x)), ops.imag(x))
    imag = ops.where(at_infinity, zeros, ops.imag(result))
    return ops.complex(ops.real(result), imag)  # type: ignore[no-any-return]


def sign(x: Tensor, /) -> Tensor:
    """See :func:`tensor.sgn`, for complex ``x`` too; of NaN it is NaN."""
    result: Tensor = ops.sgn(x)
    return ops.where(ops.isnan(x), x, result) if x.is_floating_point() else result


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """See :func:`tensor.clip`; the result has the dtype of ``x``, whatever those of ``min`` and ``max`` are."""
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        min, max = (
            None if each is None else ops.asarray(each, dtype=x.dtype, device=x.device) for each in (min, max)
        )
    if min is None and max is None:
        return x.clone()
    return ops.clip(x, min, max).to(x.dtype)  # type: ignore[no-any-return]

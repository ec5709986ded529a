"""Functions of each element, and of pairs of them."""

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
expm1 = ops.expm1
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
tanh = ops.tanh
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
floor_divide = binary("floor_divide")
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
remainder = binary("remainder")
subtract = binary("subtract")
equal = binary("eq")


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

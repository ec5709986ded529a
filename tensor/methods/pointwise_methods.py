"""Methods of tensors that work on each element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import Category
from tensor.operations.pointwise import (
    activation_functions,
    arithmetic,
    binary_exponents,
    bitwise,
    comparisons,
    complex_numbers,
    divisors,
    logic,
    powers,
    rounding,
    selection,
    trigonometry,
)
from tensor.operations.special import bessel as bessel_functions
from tensor.operations.special import error_and_gamma as special_functions
from tensor.operations.special import incomplete_gamma as gamma_functions

from .operators import binary, forms, in_place

if TYPE_CHECKING:
    from .tensor import Tensor


class PointwiseMethods:
    """What the families of pointwise functions give to the class ``Tensor``."""

    __slots__ = ()

    #: NumPy arrays leave operators to tensors.
    __array_priority__ = 1000

    # Operators

    __add__, __radd__, __iadd__ = forms(arithmetic.ADD)
    __sub__, __rsub__, __isub__ = forms(arithmetic.SUB)
    __mul__, __rmul__, __imul__ = forms(arithmetic.MUL)
    __truediv__, _, __itruediv__ = forms(arithmetic.DIV)
    __rtruediv__ = binary(arithmetic.rtruediv)
    __floordiv__, __rfloordiv__, __ifloordiv__ = forms(arithmetic.FLOOR_DIVIDE)
    __mod__, __rmod__, __imod__ = forms(arithmetic.REMAINDER)
    __and__, __rand__, __iand__ = forms(bitwise.AND)
    __or__, __ror__, __ior__ = forms(bitwise.OR)
    __xor__, __rxor__, __ixor__ = forms(bitwise.XOR)
    __lshift__, __rlshift__, __ilshift__ = forms(bitwise.LEFT_SHIFT)
    __rshift__, __rrshift__, __irshift__ = forms(bitwise.RIGHT_SHIFT)
    __pow__ = binary(powers.pow)
    __rpow__ = binary(lambda self, other: powers.pow(other, self))
    __ipow__ = binary(in_place(powers.pow))
    __eq__ = binary(comparisons.EQ.binary)  # type: ignore[assignment]
    __ne__ = binary(comparisons.NE.binary)  # type: ignore[assignment]
    __lt__ = binary(comparisons.LT.binary)
    __le__ = binary(comparisons.LE.binary)
    __gt__ = binary(comparisons.GT.binary)
    __ge__ = binary(comparisons.GE.binary)
    __hash__ = object.__hash__
    __pos__ = arithmetic.positive

    def __neg__(self: Tensor) -> Tensor:
        return arithmetic.NEG.unary(self)

    def __abs__(self: Tensor) -> Tensor:
        return arithmetic.ABS.unary(self)

    def __invert__(self: Tensor) -> Tensor:
        if self._layout.dtype.category > Category.INTEGER:
            raise TypeError(
                f"~ (operator.invert) is only implemented on integer and Boolean-type tensors, not {self.dtype!r}"
            )
        return bitwise.NOT.unary(self)

    # Arithmetic

    abs = absolute = arithmetic.abs
    abs_ = absolute_ = in_place(arithmetic.abs)
    add = arithmetic.add
    add_ = in_place(arithmetic.add)
    div = divide = arithmetic.div
    div_ = divide_ = in_place(arithmetic.div)
    floor_divide = arithmetic.floor_divide
    floor_divide_ = in_place(arithmetic.floor_divide)
    fmod = arithmetic.fmod
    fmod_ = in_place(arithmetic.fmod)
    gcd = divisors.gcd
    gcd_ = in_place(divisors.gcd)
    lcm = divisors.lcm
    lcm_ = in_place(divisors.lcm)
    mul = multiply = arithmetic.mul
    mul_ = multiply_ = in_place(arithmetic.mul)
    neg = negative = arithmetic.neg
    neg_ = negative_ = in_place(arithmetic.neg)
    positive = arithmetic.positive
    reciprocal = arithmetic.reciprocal
    reciprocal_ = in_place(arithmetic.reciprocal)
    remainder = arithmetic.remainder
    remainder_ = in_place(arithmetic.remainder)
    sgn = arithmetic.sgn
    sgn_ = in_place(arithmetic.sgn)
    sign = arithmetic.sign
    sign_ = in_place(arithmetic.sign)
    sub = subtract = arithmetic.sub
    sub_ = subtract_ = in_place(arithmetic.sub)
    true_divide = arithmetic.true_divide
    true_divide_ = in_place(arithmetic.true_divide)

    # Comparisons

    eq = comparisons.eq
    eq_ = in_place(comparisons.eq)
    ge = greater_equal = comparisons.ge
    ge_ = greater_equal_ = in_place(comparisons.ge)
    gt = greater = comparisons.gt
    gt_ = greater_ = in_place(comparisons.gt)
    isclose = comparisons.isclose
    isfinite = comparisons.isfinite
    isinf = comparisons.isinf
    isnan = comparisons.isnan
    isneginf = comparisons.isneginf
    isposinf = comparisons.isposinf
    isreal = comparisons.isreal
    le = less_equal = comparisons.le
    le_ = less_equal_ = in_place(comparisons.le)
    lt = less = comparisons.lt
    lt_ = less_ = in_place(comparisons.lt)
    ne = not_equal = comparisons.ne
    ne_ = not_equal_ = in_place(comparisons.ne)
    signbit = comparisons.signbit

    # Bits and logic

    bitwise_and = bitwise.bitwise_and
    bitwise_and_ = in_place(bitwise.bitwise_and)
    bitwise_left_shift = bitwise.bitwise_left_shift
    bitwise_left_shift_ = in_place(bitwise.bitwise_left_shift)
    bitwise_not = bitwise.bitwise_not
    bitwise_not_ = in_place(bitwise.bitwise_not)
    bitwise_or = bitwise.bitwise_or
    bitwise_or_ = in_place(bitwise.bitwise_or)
    bitwise_right_shift = bitwise.bitwise_right_shift
    bitwise_right_shift_ = in_place(bitwise.bitwise_right_shift)
    bitwise_xor = bitwise.bitwise_xor
    bitwise_xor_ = in_place(bitwise.bitwise_xor)

    logical_and = logic.logical_and
    logical_and_ = in_place(logic.logical_and)
    logical_not = logic.logical_not
    logical_not_ = in_place(logic.logical_not)
    logical_or = logic.logical_or
    logical_or_ = in_place(logic.logical_or)
    logical_xor = logic.logical_xor
    logical_xor_ = in_place(logic.logical_xor)

    # Complex numbers

    angle = complex_numbers.angle
    conj = complex_numbers.conj
    conj_physical = complex_numbers.conj_physical
    conj_physical_ = in_place(complex_numbers.conj_physical)

    # Powers

    exp = powers.exp
    exp_ = in_place(powers.exp)
    exp2 = powers.exp2
    exp2_ = in_place(powers.exp2)
    expm1 = powers.expm1
    expm1_ = in_place(powers.expm1)
    float_power = powers.float_power
    float_power_ = in_place(powers.float_power)
    frexp = binary_exponents.frexp
    ldexp = binary_exponents.ldexp
    ldexp_ = in_place(binary_exponents.ldexp)
    log = powers.log
    log_ = in_place(powers.log)
    log10 = powers.log10
    log10_ = in_place(powers.log10)
    log1p = powers.log1p
    log1p_ = in_place(powers.log1p)
    log2 = powers.log2
    log2_ = in_place(powers.log2)
    pow = powers.pow
    pow_ = in_place(powers.pow)
    rsqrt = powers.rsqrt
    rsqrt_ = in_place(powers.rsqrt)
    sqrt = powers.sqrt
    sqrt_ = in_place(powers.sqrt)
    square = powers.square
    square_ = in_place(powers.square)

    # Angles and hyperbolas

    acos = arccos = trigonometry.acos
    acos_ = arccos_ = in_place(trigonometry.acos)
    acosh = arccosh = trigonometry.acosh
    acosh_ = arccosh_ = in_place(trigonometry.acosh)
    asin = arcsin = trigonometry.asin
    asin_ = arcsin_ = in_place(trigonometry.asin)
    asinh = arcsinh = trigonometry.asinh
    asinh_ = arcsinh_ = in_place(trigonometry.asinh)
    atan = arctan = trigonometry.atan
    atan_ = arctan_ = in_place(trigonometry.atan)
    atan2 = arctan2 = trigonometry.atan2
    atan2_ = arctan2_ = in_place(trigonometry.atan2)
    atanh = arctanh = trigonometry.atanh
    atanh_ = arctanh_ = in_place(trigonometry.atanh)
    cos = trigonometry.cos
    cos_ = in_place(trigonometry.cos)
    cosh = trigonometry.cosh
    cosh_ = in_place(trigonometry.cosh)
    deg2rad = trigonometry.deg2rad
    deg2rad_ = in_place(trigonometry.deg2rad)
    hypot = trigonometry.hypot
    hypot_ = in_place(trigonometry.hypot)
    rad2deg = trigonometry.rad2deg
    rad2deg_ = in_place(trigonometry.rad2deg)
    sin = trigonometry.sin
    sin_ = in_place(trigonometry.sin)
    sinh = trigonometry.sinh
    sinh_ = in_place(trigonometry.sinh)
    tan = trigonometry.tan
    tan_ = in_place(trigonometry.tan)
    tanh = trigonometry.tanh
    tanh_ = in_place(trigonometry.tanh)

    # Rounding

    ceil = rounding.ceil
    ceil_ = in_place(rounding.ceil)
    floor = rounding.floor
    floor_ = in_place(rounding.floor)
    frac = rounding.frac
    frac_ = in_place(rounding.frac)
    round = rounding.round
    round_ = in_place(rounding.round)
    trunc = fix = rounding.trunc
    trunc_ = fix_ = in_place(rounding.trunc)

    # Special functions

    digamma = special_functions.digamma
    digamma_ = in_place(special_functions.digamma)
    erf = special_functions.erf
    erf_ = in_place(special_functions.erf)
    erfc = special_functions.erfc
    erfc_ = in_place(special_functions.erfc)
    erfinv = special_functions.erfinv
    erfinv_ = in_place(special_functions.erfinv)
    i0 = bessel_functions.i0
    i0_ = in_place(bessel_functions.i0)
    igamma = gamma_functions.igamma
    igamma_ = in_place(gamma_functions.igamma)
    igammac = gamma_functions.igammac
    igammac_ = in_place(gamma_functions.igammac)
    lgamma = special_functions.lgamma
    lgamma_ = in_place(special_functions.lgamma)
    logaddexp = special_functions.logaddexp
    logaddexp2 = special_functions.logaddexp2
    logit = special_functions.logit
    logit_ = in_place(special_functions.logit)
    mvlgamma = gamma_functions.mvlgamma
    mvlgamma_ = in_place(gamma_functions.mvlgamma)
    polygamma = special_functions.polygamma_of
    polygamma_ = in_place(special_functions.polygamma_of)
    sigmoid = special_functions.sigmoid
    sigmoid_ = in_place(special_functions.sigmoid)
    sinc = special_functions.sinc
    sinc_ = in_place(special_functions.sinc)
    xlogy = special_functions.xlogy
    xlogy_ = in_place(special_functions.xlogy)

    # Selection

    addcdiv = selection.addcdiv
    addcdiv_ = in_place(selection.addcdiv)
    addcmul = selection.addcmul
    addcmul_ = in_place(selection.addcmul)
    clamp = clip = selection.clamp
    clamp_ = clip_ = in_place(selection.clamp)
    clamp_max = selection.clamp_max
    clamp_max_ = in_place(selection.clamp_max)
    clamp_min = selection.clamp_min
    clamp_min_ = in_place(selection.clamp_min)
    copysign = selection.copysign
    copysign_ = in_place(selection.copysign)
    fmax = selection.fmax
    fmin = selection.fmin
    heaviside = selection.heaviside
    heaviside_ = in_place(selection.heaviside)
    lerp = selection.lerp
    lerp_ = in_place(selection.lerp)
    maximum = selection.maximum
    minimum = selection.minimum
    nan_to_num = selection.nan_to_num
    nan_to_num_ = in_place(selection.nan_to_num)
    nextafter = selection.nextafter
    nextafter_ = in_place(selection.nextafter)

    def where(self: Tensor, condition: Tensor, other: Any) -> Tensor:
        """Own elements where ``condition`` is true, else those of ``other``."""
        return selection.where(condition, self, other)

    # Activation functions

    hardshrink = activation_functions.hardshrink
    prelu = activation_functions.prelu

    def relu(self: Tensor) -> Tensor:
        """``max(self, 0)``."""
        return activation_functions.relu(self)

    def relu_(self: Tensor) -> Tensor:
        """:meth:`relu` in place."""
        return activation_functions.relu(self, inplace=True)

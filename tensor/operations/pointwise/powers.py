"""Powers and roots, exponentials and logarithms."""

from __future__ import annotations

import cmath
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import Category, complex128, float64
from tensor.core.base import TensorBase
from tensor.core.dtypes import promotion as rules
from tensor.core.dtypes.scalars import element, is_number
from tensor.core.modes.grad_mode import modes
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.creation.like import zeros_like
from tensor.operations.definition import operation
from tensor.operations.pointwise_operation import IN_PLACE, Pointwise, by_category

from . import elementary_on_host
from .arithmetic import ADD, DIV, MUL, NUMERIC, SUB
from .bitwise import OR
from .comparisons import EQ, GE
from .complex_numbers import conjugate
from .selection import DROP

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

_LN2, _LN10 = math.log(2), math.log(10)

# Exponentials

EXP = Pointwise(
    "exp",
    "exp(a)",
    np.exp,
    rule=rules.floating,
    derivatives=(lambda grad, out: MUL.binary(grad, conjugate(out)),),
)
EXP2 = Pointwise(
    "exp2",
    "exp2(a)",
    np.exp2,
    rule=rules.floating,
    derivatives=(lambda grad, out: MUL.binary(MUL.binary(grad, conjugate(out)), _LN2),),
)
EXPM1 = Pointwise(
    "expm1",
    "expm1(a)",
    elementary_on_host.quickest(np.expm1, elementary_on_host.expm1_of_singles),
    rule=rules.floating,
    derivatives=(lambda grad, out: MUL.binary(grad, conjugate(ADD.binary(out, 1))),),
)

# Logarithms

LOG = Pointwise(
    "log",
    "log(a)",
    np.log,
    rule=rules.floating,
    derivatives=(lambda grad, a: DIV.binary(grad, conjugate(a)),),
)
LOG2 = Pointwise(
    "log2",
    "log2(a)",
    np.log2,
    rule=rules.floating,
    derivatives=(lambda grad, a: DIV.binary(grad, MUL.binary(conjugate(a), _LN2)),),
)
LOG10 = Pointwise(
    "log10",
    "log10(a)",
    np.log10,
    rule=rules.floating,
    derivatives=(lambda grad, a: DIV.binary(grad, MUL.binary(conjugate(a), _LN10)),),
)
LOG1P = Pointwise(
    "log1p",
    "log1p(a)",
    elementary_on_host.quickest(np.log1p, elementary_on_host.log1p_of_singles),
    rule=rules.floating,
    derivatives=(lambda grad, a: DIV.binary(grad, conjugate(ADD.binary(a, 1))),),
)

# Roots

#: What is infinitely large in no direction.
_INFINITE = complex(math.inf, math.nan)


def _reciprocal(a: Any) -> Any:
    """1 / a, of which NumPy makes NaN without an infinity for a complex 0."""
    result = np.reciprocal(a)
    return np.where(a == 0, _INFINITE, result).astype(a.dtype) if a.dtype.kind == "c" else result


SQRT = Pointwise(
    "sqrt",
    "sqrt(a)",
    np.sqrt,
    rule=rules.floating,
    derivatives=(lambda grad, out: SQRT_BACKWARD.binary(grad, out),),
)
#: Of (gradient, root).
SQRT_BACKWARD: Pointwise = Pointwise(
    "sqrt_backward",
    by_category("a / (2 * b)", complex="a / (2 * conj(b))"),
    lambda a, b: a / (2 * np.conjugate(b)),
    derivatives=(
        lambda grad, b: DIV.binary(grad, MUL.binary(b, 2)),
        lambda grad, a, b: DIV.binary(
            MUL.binary(conjugate(grad), a), MUL.binary(MUL.binary(conjugate(b), conjugate(b)), -2)
        ),
    ),
)
RSQRT = Pointwise(
    "rsqrt",
    "rsqrt(a)",
    lambda a: _reciprocal(np.sqrt(a)),
    rule=rules.floating,
    derivatives=(lambda grad, out: RSQRT_BACKWARD.binary(grad, out),),
)
#: Of (gradient, reciprocal root).
RSQRT_BACKWARD: Pointwise = Pointwise(
    "rsqrt_backward",
    by_category("Compute(-0.5) * a * (b * b * b)", complex="-0.5 * (a * conj(b * b * b))"),
    lambda a, b: a.dtype.type(-0.5) * a * np.conjugate(b * b * b),
    derivatives=(
        lambda grad, b: MUL.binary(MUL.binary(grad, -0.5), MUL.binary(MUL.binary(b, b), b)),
        lambda grad, a, b: MUL.binary(
            MUL.binary(MUL.binary(conjugate(grad), a), -1.5), conjugate(MUL.binary(b, b))
        ),
    ),
)

# Powers


def _power(a: Any, b: Any) -> Any:
    if a.dtype.kind == "c":
        # Of exponents that are not real NumPy does not define the powers of 0: |0^b| = 0^Re(b).
        powers = np.where((a == 0) & (b.real > 0), 0, np.power(a, b))
        return np.where((a == 0) & (b.real < 0), _INFINITE, powers).astype(a.dtype)
    if a.dtype.kind not in "iu":
        return np.power(a, b)
    # NumPy refuses negative exponents: of the reciprocals only those of -1 and 1 are whole.
    negative = b < 0
    if not np.any(negative):
        return np.power(a, b)
    whole = np.power(a, np.where(negative, b.dtype.type(0), b))
    unit = np.where(a == 1, 1, np.where(a == -1, np.where(b & 1, -1, 1), 0)).astype(a.dtype)
    return np.where(negative, unit, whole)


POW = Pointwise(
    "pow",
    by_category("pow(a, b)", integer="integer_power(a, b)"),
    _power,
    categories=NUMERIC,
    include="arithmetic.cuh",
    node=lambda a, b: f"PowBackward{2 if not isinstance(a, TensorBase) else isinstance(b, TensorBase):d}",
    derivatives=(
        lambda grad, a, b: _base_gradient(grad, a, b),
        lambda grad, a, b, out: _exponent_gradient(grad, a, b, out),
    ),
)


def _special(exponent: float, cuda: str, function: Any) -> Pointwise:
    """The power for one exponent: exact where the general one is not, and faster."""
    return Pointwise("pow", cuda, function, derivatives=(lambda grad, a: _base_gradient(grad, a, exponent),))


#: The powers that are left of a square: the base itself, and 1.
_FIRST: Pointwise = Pointwise(
    "pow", "a", np.positive, derivatives=(lambda grad, a: MUL.binary(grad, _ZEROTH.unary(a)),)
)
_ZEROTH: Pointwise = Pointwise(
    "pow", "Compute(1)", np.ones_like, derivatives=(lambda grad, a: zeros_like(a),)
)
SQUARE = _special(2, "a * a", lambda a: a * a)
_SPECIAL: dict[float, Pointwise] = {
    2: SQUARE,
    3: _special(3, "a * a * a", lambda a, out=None: np.multiply(np.multiply(a, a, out=out), a, out=out)),
    0.5: _special(0.5, "sqrt(a)", np.sqrt),
    -0.5: _special(-0.5, "rsqrt(a)", lambda a: _reciprocal(np.sqrt(a))),
    -1: _special(-1, "Compute{1} / a", _reciprocal),
    -2: _special(-2, "Compute{1} / (a * a)", lambda a: _reciprocal(a * a)),
}


def _base_gradient(grad: Tensor, a: Any, b: Any) -> Tensor:
    if not isinstance(b, TensorBase):
        if b == 0:
            return zeros_like(grad)
        if b == 2:
            # Where a higher derivative may follow, one that depends on the base, as of other powers.
            slope = MUL.binary(_FIRST.unary(a) if modes.recording else a, b)
        else:
            slope = MUL.binary(pow(a, b - 1), b)
        return MUL.binary(grad, conjugate(slope))
    slope = MUL.binary(b, pow(a, SUB.binary(b, 1)))
    return DROP.binary(MUL.binary(grad, conjugate(slope)), EQ.binary(b, 0))


def _exponent_gradient(grad: Tensor, a: Any, b: Tensor, out: Tensor) -> Tensor:
    if isinstance(a, TensorBase):
        logarithm: Any = LOG.unary(a)
    elif a == 0:
        logarithm = -math.inf
    elif isinstance(a, complex) or out._layout.dtype.is_complex:
        logarithm = cmath.log(a)
    else:
        logarithm = math.log(a) if a > 0 else math.nan
    slope = conjugate(MUL.binary(out, logarithm))
    if not isinstance(a, TensorBase) and a != 0:
        return MUL.binary(grad, slope)
    exponent = b.real if b._layout.dtype.is_complex else b
    nothing = GE.binary(exponent, 0)
    if isinstance(a, TensorBase):
        nothing = nothing & EQ.binary(a, 0)
    return MUL.binary(grad, DROP.binary(slope, nothing))


@operation(in_place=True, autocast=Autocast(cuda=FLOAT32))
def pow(input: Tensor | complex, exponent: Tensor | complex, *, out: Tensor | None = None) -> Tensor:
    """``input**exponent``.

    Parameters
    ----------
    input, exponent : Tensor or number
        At least one of them a tensor; of shapes that broadcast. The result has the promoted dtype: integers
        give integers, where negative exponents in a tensor give 0 (for a base of -1 or 1, its power). CUDA
        autocast computes it in float32.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        If the input is of integers or bools and the exponent a negative int, as the result is no integer; if
        the number is out of the integer dtype's range, the shapes do not broadcast, or the devices differ.
    NotImplementedError
        If both are of bools, and the exponent is a tensor.
    TypeError
        If neither is a tensor, or one is no number.

    Examples
    --------
    >>> tensor.pow(tensor.tensor([1, 2, 3]), 2)
    tensor([1, 4, 9])
    >>> tensor.pow(2, tensor.tensor([-1.0, 0.5]))
    tensor([0.5000, 1.4142])
    """
    if isinstance(exponent, TensorBase):
        return POW.out(out, input, exponent)
    if not isinstance(input, TensorBase) or not is_number(exponent):
        raise TypeError(
            f"pow() takes tensors, or a tensor and a number, got {type(input).__name__} and {type(exponent).__name__}"
        )
    # NumPy's numbers are numbers too.
    number: Any = exponent if isinstance(exponent, (int, float, complex)) else exponent.item()
    dtype = input._layout.dtype
    if dtype.category <= Category.INTEGER and isinstance(number, int):
        if number < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        if dtype.category is Category.INTEGER:
            element(number, dtype)
        elif isinstance(number, bool):
            return OR.out(out, input, not number)
    elif dtype.category >= Category.FLOATING and not isinstance(number, complex):
        special = _SPECIAL.get(number)
        if special is not None:
            return special.unary(input) if out is None else special.out(out, input)
    return POW.out(out, input, number)


@operation(in_place=True)
def float_power(input: Tensor | complex, exponent: Tensor | complex, *, out: Tensor | None = None) -> Tensor:
    """``input**exponent`` in double precision.

    Parameters
    ----------
    input, exponent : Tensor or number
        At least one of them a tensor; of shapes that broadcast. The result is of float64, or complex128 if
        one is complex.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        If the shapes do not broadcast, or the devices differ; in place, if the input is not of the result's
        dtype.
    TypeError
        If neither is a tensor.

    Examples
    --------
    >>> tensor.float_power(tensor.tensor([2, 4]), -1)
    tensor([0.5000, 0.2500], dtype=tensor.float64)
    """
    operands = (input, exponent)
    is_complex = any(
        x._layout.dtype.is_complex if isinstance(x, TensorBase) else isinstance(x, complex) for x in operands
    )
    dtype = complex128 if is_complex else float64
    base, power = (
        x.to(dtype) if isinstance(x, TensorBase) else complex(x) if is_complex else float(x)  # type: ignore[arg-type]
        for x in operands
    )
    if out is IN_PLACE:
        if input._layout.dtype is not dtype:  # type: ignore[union-attr]
            raise RuntimeError(f"float_power_(): the base must be of {dtype!r}, got {input.dtype!r}")  # type: ignore[union-attr]
        base = input
    return pow(base, power, out=out)


@operation(in_place=True, also="tensor.exp_", autocast=Autocast(cuda=FLOAT32))
def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``e**input``, the exponential function.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype. The result has its shape; integers and bools give the default floating dtype,
        complex numbers are taken in the complex plane. CUDA autocast computes it in float32.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Examples
    --------
    >>> tensor.exp(tensor.tensor([-1, 0, 1]))
    tensor([0.3679, 1.0000, 2.7183])
    """
    return EXP.unary(input) if out is None else EXP.out(out, input)


@operation(namespace="tensor special", in_place=True, also="tensor.exp2_")
def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``2**input``.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype. The result has its shape; integers and bools give the default floating dtype,
        complex numbers are taken in the complex plane.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Examples
    --------
    >>> tensor.exp2(tensor.tensor([-1, 0, 3]))
    tensor([0.5000, 1.0000, 8.0000])
    """
    return EXP2.unary(input) if out is None else EXP2.out(out, input)


@operation(namespace="tensor special", in_place=True, also="tensor.expm1_", autocast=Autocast(cuda=FLOAT32))
def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``exp(input) - 1``, with full relative precision near 0.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype. The result has its shape; integers and bools give the default floating dtype,
        complex numbers are taken in the complex plane. CUDA autocast computes it in float32.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Examples
    --------
    >>> tensor.expm1(tensor.tensor([0.0, 1.0]))
    tensor([0.0000, 1.7183])
    """
    return EXPM1.unary(input) if out is None else EXPM1.out(out, input)


@operation(in_place=True, also="tensor.log_", autocast=Autocast(cuda=FLOAT32))
def log(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Natural logarithm; -inf at 0, NaN for negative real numbers.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype. The result has its shape; integers and bools give the default floating dtype,
        complex numbers are taken in the complex plane. CUDA autocast computes it in float32.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Examples
    --------
    >>> tensor.log(tensor.tensor([-1.0, 0.0, 1.0, 10.0]))
    tensor([   nan,   -inf, 0.0000, 2.3026])
    """
    return LOG.unary(input) if out is None else LOG.out(out, input)


@operation(in_place=True, also="tensor.log2_", autocast=Autocast(cuda=FLOAT32))
def log2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Logarithm to the base 2; -inf at 0, NaN for negative real numbers.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype. The result has its shape; integers and bools give the default floating dtype,
        complex numbers are taken in the complex plane. CUDA autocast computes it in float32.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Examples
    --------
    >>> tensor.log2(tensor.tensor([0.5, 1.0, 8.0]))
    tensor([-1.,  0.,  3.])
    """
    return LOG2.unary(input) if out is None else LOG2.out(out, input)


@operation(in_place=True, also="tensor.log10_", autocast=Autocast(cuda=FLOAT32))
def log10(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Logarithm to the base 10; -inf at 0, NaN for negative real numbers.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype. The result has its shape; integers and bools give the default floating dtype,
        complex numbers are taken in the complex plane. CUDA autocast computes it in float32.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Examples
    --------
    >>> tensor.log10(tensor.tensor([0.5, 1.0, 50.0]))
    tensor([-0.3010,  0.0000,  1.6990])
    """
    return LOG10.unary(input) if out is None else LOG10.out(out, input)


@operation(namespace="tensor special", in_place=True, also="tensor.log1p_", autocast=Autocast(cuda=FLOAT32))
def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``log(1 + input)``, with full relative precision near 0; NaN for real numbers below -1.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype. The result has its shape; integers and bools give the default floating dtype,
        complex numbers are taken in the complex plane. CUDA autocast computes it in float32.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Examples
    --------
    >>> tensor.log1p(tensor.tensor([-1.0, 0.0, 1.0]))
    tensor([  -inf, 0.0000, 0.6931])
    """
    return LOG1P.unary(input) if out is None else LOG1P.out(out, input)


@operation(in_place=True, also="tensor.sqrt_")
def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Square root; NaN for negative real numbers.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype. The result has its shape; integers and bools give the default floating dtype,
        complex numbers are taken in the complex plane.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Examples
    --------
    >>> tensor.sqrt(tensor.tensor([-1.0, 4.0]))
    tensor([nan, 2.])
    >>> tensor.sqrt(tensor.tensor([-1.0 + 0j]))
    tensor([0.+1.j])
    """
    return SQRT.unary(input) if out is None else SQRT.out(out, input)


@operation(in_place=True, also="tensor.rsqrt_", autocast=Autocast(cuda=FLOAT32))
def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``1 / sqrt(input)``; infinite at 0, NaN for negative real numbers.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype. The result has its shape; integers and bools give the default floating dtype,
        complex numbers are taken in the complex plane. CUDA autocast computes it in float32.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Examples
    --------
    >>> tensor.rsqrt(tensor.tensor([0.0, 4.0]))
    tensor([   inf, 0.5000])
    """
    return RSQRT.unary(input) if out is None else RSQRT.out(out, input)


@operation(in_place=True, also="tensor.square_")
def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input**2``.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype, which the result has too; bools give int64.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Examples
    --------
    >>> tensor.square(tensor.tensor([-3, 2]))
    tensor([9, 4])
    """
    return pow(input, 2, out=out)

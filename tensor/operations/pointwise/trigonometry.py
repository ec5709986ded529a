"""Functions of angles, of hyperbolas, and their inverses."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from nvrtc_kernels.dtypes import Category
from tensor.core.dtypes import promotion as rules
from tensor.operations.autocast import FLOAT32, WIDEST, Autocast
from tensor.operations.definition import operation
from tensor.operations.pointwise_operation import Pointwise, by_category

from . import elementary_on_host
from .arithmetic import ADD, DIV, MUL, NEG, SUB
from .comparisons import EQ
from .complex_numbers import conjugate
from .powers import RSQRT, SQUARE
from .quotients_on_host import hypot_on_host
from .selection import DROP

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

_REAL = (Category.BOOL, Category.INTEGER, Category.FLOATING)

# Angles

SIN = Pointwise(
    "sin",
    "sin(a)",
    np.sin,
    rule=rules.floating,
    derivatives=(lambda grad, a: MUL.binary(grad, conjugate(COS.unary(a))),),
)
COS: Pointwise = Pointwise(
    "cos",
    "cos(a)",
    np.cos,
    rule=rules.floating,
    derivatives=(lambda grad, a: MUL.binary(grad, NEG.unary(conjugate(SIN.unary(a)))),),
)
TAN = Pointwise(
    "tan",
    "tan(a)",
    elementary_on_host.quickest(np.tan, elementary_on_host.tan_of_singles),
    rule=rules.floating,
    derivatives=(lambda grad, out: MUL.binary(grad, conjugate(ADD.binary(SQUARE.unary(out), 1))),),
)
ASIN = Pointwise(
    "asin",
    "asin(a)",
    elementary_on_host.quickest(np.arcsin, elementary_on_host.asin_of_singles),
    rule=rules.floating,
    derivatives=(lambda grad, a: MUL.binary(grad, conjugate(_of_circle(a))),),
)
ACOS = Pointwise(
    "acos",
    "acos(a)",
    elementary_on_host.quickest(np.arccos, elementary_on_host.acos_of_singles),
    rule=rules.floating,
    derivatives=(lambda grad, a: NEG.unary(MUL.binary(grad, conjugate(_of_circle(a)))),),
)
ATAN = Pointwise(
    "atan",
    "atan(a)",
    elementary_on_host.quickest(np.arctan, elementary_on_host.atan_of_singles),
    rule=rules.floating,
    derivatives=(lambda grad, a: DIV.binary(grad, conjugate(ADD.binary(SQUARE.unary(a), 1))),),
)
ATAN2 = Pointwise(
    "atan2",
    "atan2(a, b)",
    elementary_on_host.quickest(np.arctan2, elementary_on_host.atan2_of_singles),
    numbers="",
    rule=rules.floating,
    categories=_REAL,
    derivatives=(
        lambda grad, a, b: MUL.binary(grad, _over_square(b, a, b)),
        lambda grad, a, b: MUL.binary(grad, NEG.unary(_over_square(a, a, b))),
    ),
)
HYPOT = Pointwise(
    "hypot",
    "hypot(a, b)",
    hypot_on_host,
    numbers="",
    rule=rules.floating,
    categories=_REAL,
    derivatives=(
        lambda grad, a, out: MUL.binary(grad, DIV.binary(a, out)),
        lambda grad, b, out: MUL.binary(grad, DIV.binary(b, out)),
    ),
)


def _of_circle(a: Tensor) -> Tensor:
    """``1 / sqrt(1 - a * a)``."""
    return RSQRT.unary(SUB(1, SQUARE.unary(a)))


def _over_square(part: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """A part divided by the square of the length; 0 where that is 0."""
    square = ADD.binary(SQUARE.unary(a), SQUARE.unary(b))
    return DROP.binary(DIV.binary(part, square), EQ.binary(square, 0))


# Hyperbolas

SINH = Pointwise(
    "sinh",
    "sinh(a)",
    elementary_on_host.quickest(np.sinh, elementary_on_host.sinh_of_singles),
    rule=rules.floating,
    derivatives=(lambda grad, a: MUL.binary(grad, conjugate(COSH.unary(a))),),
)
COSH: Pointwise = Pointwise(
    "cosh",
    "cosh(a)",
    elementary_on_host.quickest(np.cosh, elementary_on_host.cosh_of_singles),
    rule=rules.floating,
    derivatives=(lambda grad, a: MUL.binary(grad, conjugate(SINH.unary(a))),),
)
TANH = Pointwise(
    "tanh",
    "tanh(a)",
    np.tanh,
    rule=rules.floating,
    derivatives=(lambda grad, out: TANH_BACKWARD.binary(grad, out),),
)
#: Of (gradient, result).
TANH_BACKWARD: Pointwise = Pointwise(
    "tanh_backward",
    by_category("a * (1 - b * b)", complex="a * conj(Compute{1, 0} - b * b)"),
    lambda a, b: a * np.conjugate(1 - b * b),
    derivatives=(
        lambda grad, b: TANH_BACKWARD.binary(grad, conjugate(b)),
        lambda grad, a, b: MUL.binary(MUL.binary(conjugate(grad), a), MUL.binary(conjugate(b), -2)),
    ),
)
ASINH = Pointwise(
    "asinh",
    "asinh(a)",
    np.arcsinh,
    rule=rules.floating,
    derivatives=(lambda grad, a: MUL.binary(grad, conjugate(RSQRT.unary(ADD.binary(SQUARE.unary(a), 1)))),),
)
ACOSH = Pointwise(
    "acosh",
    "acosh(a)",
    np.arccosh,
    rule=rules.floating,
    derivatives=(
        lambda grad, a: MUL.binary(
            grad,
            conjugate(MUL.binary(RSQRT.unary(SUB.binary(a, 1)), RSQRT.unary(ADD.binary(a, 1)))),
        ),
    ),
)
ATANH = Pointwise(
    "atanh",
    "atanh(a)",
    elementary_on_host.quickest(np.arctanh, elementary_on_host.atanh_of_singles),
    rule=rules.floating,
    derivatives=(lambda grad, a: DIV.binary(grad, conjugate(SUB(1, SQUARE.unary(a)))),),
)

# Units

DEG2RAD: Pointwise = Pointwise(
    "deg2rad",
    f"a * Compute({math.pi / 180!r})",
    lambda a: a * a.dtype.type(math.pi / 180),
    rule=rules.floating,
    categories=_REAL,
    derivatives=(lambda grad: DEG2RAD.unary(grad),),
)
RAD2DEG: Pointwise = Pointwise(
    "rad2deg",
    f"a * Compute({180 / math.pi!r})",
    lambda a: a * a.dtype.type(180 / math.pi),
    rule=rules.floating,
    categories=_REAL,
    derivatives=(lambda grad: RAD2DEG.unary(grad),),
)


@operation(in_place=True, also="tensor.sin_")
def sin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sine of angles in radians.

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
    >>> tensor.sin(tensor.tensor([0.0, 1.0, 3.0]))
    tensor([0.0000, 0.8415, 0.1411])
    """
    return SIN.unary(input) if out is None else SIN.out(out, input)


@operation(in_place=True, also="tensor.cos_")
def cos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Cosine of angles in radians.

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
    >>> tensor.cos(tensor.tensor([0.0, 1.0, 3.0]))
    tensor([ 1.0000,  0.5403, -0.9900])
    """
    return COS.unary(input) if out is None else COS.out(out, input)


@operation(in_place=True, also="tensor.tan_", autocast=Autocast(cuda=FLOAT32))
def tan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Tangent of angles in radians.

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
    >>> tensor.tan(tensor.tensor([0.0, 1.0, 3.0]))
    tensor([ 0.0000,  1.5574, -0.1425])
    """
    return TAN.unary(input) if out is None else TAN.out(out, input)


@operation(in_place=True, also="arcsin tensor.arcsin_ tensor.asin_", autocast=Autocast(cuda=FLOAT32))
def asin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Arcsine: the angle in [-pi/2, pi/2] that has this sine; NaN for real numbers outside of [-1, 1].

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
    >>> tensor.asin(tensor.tensor([-1.0, 0.5, 2.0]))
    tensor([-1.5708,  0.5236,     nan])
    """
    return ASIN.unary(input) if out is None else ASIN.out(out, input)


@operation(in_place=True, also="arccos tensor.acos_ tensor.arccos_", autocast=Autocast(cuda=FLOAT32))
def acos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Arccosine: the angle in [0, pi] that has this cosine; NaN for real numbers outside of [-1, 1].

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
    >>> tensor.acos(tensor.tensor([-1.0, 0.5, 2.0]))
    tensor([3.1416, 1.0472,    nan])
    """
    return ACOS.unary(input) if out is None else ACOS.out(out, input)


@operation(in_place=True, also="arctan tensor.arctan_ tensor.atan_")
def atan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Arctangent: the angle in [-pi/2, pi/2] that has this tangent.

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
    >>> tensor.atan(tensor.tensor([0.0, 1.0, float('inf')]))
    tensor([0.0000, 0.7854, 1.5708])
    """
    return ATAN.unary(input) if out is None else ATAN.out(out, input)


@operation(in_place=True, also="arctan2", autocast=Autocast(cuda=WIDEST))
def atan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Angle in [-pi, pi] of the point with ordinate ``input`` and abscissa ``other``.

    Parameters
    ----------
    input, other : Tensor
        Of shapes that broadcast. Of real dtypes, which are promoted; integers and bools give the default
        floating dtype.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the dtype is complex.
    TypeError
        If an argument is not a tensor.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.

    Examples
    --------
    >>> tensor.atan2(tensor.tensor([1.0, 1.0, -1.0]), tensor.tensor([1.0, -1.0, 0.0]))
    tensor([ 0.7854,  2.3562, -1.5708])
    """
    return ATAN2.out(out, input, other)


@operation(in_place=True)
def hypot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``sqrt(input**2 + other**2)``, the length of the hypotenuse, without overflow.

    Parameters
    ----------
    input, other : Tensor
        Of shapes that broadcast. Of real dtypes, which are promoted; integers and bools give the default
        floating dtype.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the dtype is complex.
    TypeError
        If an argument is not a tensor.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.

    Examples
    --------
    >>> tensor.hypot(tensor.tensor([3.0, 1e30]), tensor.tensor([4.0, 1e30]))
    tensor([5.0000e+00, 1.4142e+30])
    """
    return HYPOT.out(out, input, other)


@operation(in_place=True, also="tensor.sinh_", autocast=Autocast(cuda=FLOAT32))
def sinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Hyperbolic sine: ``(exp(input) - exp(-input)) / 2``.

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
    >>> tensor.sinh(tensor.tensor([-1.0, 0.0, 1.0]))
    tensor([-1.1752,  0.0000,  1.1752])
    """
    return SINH.unary(input) if out is None else SINH.out(out, input)


@operation(in_place=True, also="tensor.cosh_", autocast=Autocast(cuda=FLOAT32))
def cosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Hyperbolic cosine: ``(exp(input) + exp(-input)) / 2``.

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
    >>> tensor.cosh(tensor.tensor([-1.0, 0.0, 1.0]))
    tensor([1.5431, 1.0000, 1.5431])
    """
    return COSH.unary(input) if out is None else COSH.out(out, input)


@operation(namespace="tensor nn.functional", in_place=True, also="tensor.tanh_")
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Hyperbolic tangent: ``sinh(input) / cosh(input)``.

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
    >>> tensor.tanh(tensor.tensor([-1.0, 0.0, 100.0]))
    tensor([-0.7616,  0.0000,  1.0000])
    """
    return TANH.unary(input) if out is None else TANH.out(out, input)


@operation(in_place=True, also="arcsinh tensor.arcsinh_ tensor.asinh_")
def asinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse of the hyperbolic sine: ``log(input + sqrt(input**2 + 1))``.

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
    >>> tensor.asinh(tensor.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.8814,  0.0000,  0.8814])
    """
    return ASINH.unary(input) if out is None else ASINH.out(out, input)


@operation(in_place=True, also="arccosh tensor.acosh_ tensor.arccosh_")
def acosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse of the hyperbolic cosine: ``log(input + sqrt(input**2 - 1))``; NaN for real numbers below 1.

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
    >>> tensor.acosh(tensor.tensor([0.0, 1.0, 2.0]))
    tensor([   nan, 0.0000, 1.3170])
    """
    return ACOSH.unary(input) if out is None else ACOSH.out(out, input)


@operation(in_place=True, also="arctanh tensor.arctanh_ tensor.atanh_")
def atanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse of the hyperbolic tangent; infinite at -1 and 1, NaN for real numbers beyond.

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
    >>> tensor.atanh(tensor.tensor([0.0, 0.5, 1.0]))
    tensor([0.0000, 0.5493,    inf])
    """
    return ATANH.unary(input) if out is None else ATANH.out(out, input)


@operation(in_place=True, also="tensor.deg2rad_")
def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Radians of angles in degrees: ``input * pi / 180``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype. The result has its shape; integers and bools give the default floating
        dtype.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.deg2rad(tensor.tensor([90, 180]))
    tensor([1.5708, 3.1416])
    """
    return DEG2RAD.out(out, input)


@operation(in_place=True, also="tensor.rad2deg_")
def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Degrees of angles in radians: ``input * 180 / pi``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype. The result has its shape; integers and bools give the default floating
        dtype.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.rad2deg(tensor.tensor([0.0, 3.14159265]))
    tensor([  0., 180.])
    """
    return RAD2DEG.out(out, input)

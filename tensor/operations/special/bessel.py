"""Bessel functions and the cardinal sine, to a few units in the last place.

The NumPy forms compute in double precision; results in single precision are rounded once, those of I0 and I1 from series of
their own. Near their zeros the
oscillating ones (J and Y) are exact to double precision in absolute terms.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import Category
from tensor.core.dtypes import promotion as rules
from tensor.core.host.scratch import scratch
from tensor.operations.definition import operation
from tensor.operations.pointwise.arithmetic import ADD, DIV, MUL, SGN, SUB
from tensor.operations.pointwise.comparisons import EQ
from tensor.operations.pointwise.complex_numbers import conjugate
from tensor.operations.pointwise.selection import DROP, where
from tensor.operations.pointwise.trigonometry import COS
from tensor.operations.pointwise_operation import Pointwise, by_category

from . import bessel_series as series
from .evaluation import chebyshev, in_double, in_two_precisions, polynomial

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.methods.tensor import Tensor

_REAL = (Category.BOOL, Category.INTEGER, Category.FLOATING)


def _row(
    name: str,
    cuda: str,
    numpy: Callable[[Any], Any],
    derivative: Callable[..., Tensor] | None = None,
    node: str = "",
) -> Pointwise:
    """A function of one number, computed in double precision."""
    return Pointwise(
        name,
        cuda,
        numpy,
        rule=rules.floating,
        categories=_REAL,
        include="bessel.cuh" if "bessel" in cuda else "",
        node=node,
        derivatives=() if derivative is None else (derivative,),
    )


def _near_or_far(x: Any, limit: float, near: Any, far: Any, inside: Any) -> Any:
    """A function of ``x >= 0`` from its series on both sides of ``limit``.

    ``inside(x)`` is the variable of the nearer one; that of the other is ``2 * limit / x - 1``.
    """
    small = x <= limit
    low, high = np.where(small, x, limit), np.where(small, limit, x)
    return np.where(small, chebyshev(near, inside(low)), chebyshev(far, 2 * limit / high - 1) / np.sqrt(high))


# Modified functions of the first kind


def _i0e(x: Any) -> Any:
    return _near_or_far(np.abs(x), 8.0, series.I0_NEAR, series.I0_FAR, lambda low: low / 4 - 1)


def _i1e(x: Any) -> Any:
    size = np.abs(x)
    result = _near_or_far(size, 8.0, series.I1_NEAR, series.I1_FAR, lambda low: low / 4 - 1)
    return np.where(size <= 8, x * result, np.copysign(result, x))


def _grown(scaled: Any, x: Any) -> Any:
    """``scaled * exp(|x|)`` in two steps: the second may overflow where the first would."""
    half = np.exp(np.abs(x) / 2)
    return np.where(np.isinf(x), np.copysign(np.inf, scaled), scaled * half * half)


def _single_i(order: int, *, scaled: bool) -> Callable[[Any, Any], None]:
    """The function of float32, into an output: in double precision, by series that are as exact as float32 needs."""
    near, far = (
        (series.SINGLE_I0_NEAR, series.SINGLE_I0_FAR)
        if order == 0
        else (series.SINGLE_I1_NEAR, series.SINGLE_I1_FAR)
    )

    def computed(x: Any, out: Any) -> None:
        argument = scratch(x, np.float64)
        np.copyto(argument, x)
        square = np.square(argument, out=scratch(argument))
        value = polynomial(near, square, scratch(argument))
        if order:
            value *= argument
        if scaled:
            np.negative(np.abs(argument, out=argument), out=argument)
            value *= np.exp(argument, out=argument)
        limit = series.SINGLE_LIMIT
        if not (x.size == 0 or (np.max(x) <= limit and np.min(x) >= -limit)):
            beyond = ~(np.abs(x) <= limit)
            size = np.abs(x[beyond], dtype=np.float64)
            inverse = 1 / size
            large = polynomial(far, inverse) * np.sqrt(inverse)
            if not scaled:
                large = _grown(large, size)
            value[beyond] = np.copysign(large, x[beyond]) if order else large
        np.copyto(out, value, casting="same_kind")

    return computed


#: Modified Bessel function of the first kind of order 0, of NumPy arrays.
i0_on_host = in_two_precisions(_single_i(0, scaled=False), lambda x: _grown(_i0e(x), x))


I0 = _row("i0", "bessel_i0(a)", i0_on_host, lambda grad, a: MUL.binary(grad, I1.unary(a)))


@operation(namespace="tensor special", in_place=True, also="tensor.i0_")
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Modified Bessel function of the first kind of order 0.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype. The result has its shape; integers and bools give the default floating dtype.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.special.i0(tensor.tensor([0.0, 1.0]))
    tensor([1.0000, 1.2661])
    """
    return I0.out(out, input)


@operation(namespace="special", method=False)
def modified_bessel_i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """:func:`i0` without a derivative.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype. The result has its shape; integers and bools give the default floating dtype.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.special.modified_bessel_i0(tensor.tensor([0.0, 1.0, 2.0]))
    tensor([1.0000, 1.2661, 2.2796])
    """
    return I0.out(out, input.detach())


#: ``exp(-|x|) * i0(x)``.
i0e_on_host = in_two_precisions(_single_i(0, scaled=True), _i0e)


I0E = _row(
    "i0e",
    "bessel_i0e(a)",
    i0e_on_host,
    lambda grad, a, out: MUL.binary(grad, SUB.binary(I1E.unary(a), MUL.binary(SGN.unary(a), out))),
    "SpecialI0EBackward0",
)


@operation(namespace="special", method=False)
def i0e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Scaled modified Bessel function ``exp(-abs(input)) * i0(input)``, which does not overflow.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype. The result has its shape; integers and bools give the default floating dtype.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.special.i0e(tensor.tensor([0.0, 1.0, 2.0]))
    tensor([1.0000, 0.4658, 0.3085])
    """
    return I0E.out(out, input)


#: Modified Bessel function of the first kind of order 1, of NumPy arrays.
i1_on_host = in_two_precisions(_single_i(1, scaled=False), lambda x: _grown(_i1e(x), x))


def _less_ratio(head: Tensor, a: Tensor, out: Tensor) -> Tensor:
    """``head - out / a``, which is 1/2 at 0."""
    at_zero = EQ.binary(a, 0)
    return where(at_zero, 0.5, SUB.binary(head, DIV.binary(out, ADD.binary(a, at_zero))))


I1: Pointwise = _row(
    "i1",
    "bessel_i1(a)",
    i1_on_host,
    lambda grad, a, out: MUL.binary(grad, _less_ratio(I0.unary(a), a, out)),
    "SpecialI1Backward0",
)


@operation(namespace="special", method=False)
def i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Modified Bessel function of the first kind of order 1.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype. The result has its shape; integers and bools give the default floating dtype.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.special.i1(tensor.tensor([0.0, 1.0, 2.0]))
    tensor([0.0000, 0.5652, 1.5906])
    """
    return I1.out(out, input)


@operation(namespace="special", method=False)
def modified_bessel_i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """:func:`i1` without a derivative.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype. The result has its shape; integers and bools give the default floating dtype.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.special.modified_bessel_i1(tensor.tensor([0.0, 1.0, 2.0]))
    tensor([0.0000, 0.5652, 1.5906])
    """
    return I1.out(out, input.detach())


#: ``exp(-|x|) * i1(x)``.
i1e_on_host = in_two_precisions(_single_i(1, scaled=True), _i1e)


I1E: Pointwise = _row(
    "i1e",
    "bessel_i1e(a)",
    i1e_on_host,
    lambda grad, a, out: MUL.binary(
        grad, SUB.binary(_less_ratio(I0E.unary(a), a, out), MUL.binary(SGN.unary(a), out))
    ),
    "SpecialI1EBackward0",
)


@operation(namespace="special", method=False)
def i1e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Scaled modified Bessel function ``exp(-abs(input)) * i1(input)``, which does not overflow.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype. The result has its shape; integers and bools give the default floating dtype.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.special.i1e(tensor.tensor([0.0, 1.0, 2.0]))
    tensor([0.0000, 0.2079, 0.2153])
    """
    return I1E.out(out, input)


# Modified functions of the second kind


def _k(x: Any, order: int, scaled: bool) -> Any:
    small = x <= 2
    low, high = np.where(small & (x > 0), x, 2.0), np.where(small, 2.0, x)
    near, far = (series.K0_NEAR, series.K0_FAR) if order == 0 else (series.K1_NEAR, series.K1_FAR)
    result = chebyshev(near, low * low / 2 - 1)
    logarithm = np.log(low / 2) * np.exp(low)
    result = result - logarithm * _i0e(low) if order == 0 else result / low + logarithm * _i1e(low)
    beyond = chebyshev(far, 4 / high - 1) / np.sqrt(high)
    if scaled:
        result = result * np.exp(low)
    else:
        half = np.exp(-high / 2)
        beyond = beyond * half * half
    result = np.where(small, result, beyond)
    return np.where(x == 0, np.inf, np.where(x < 0, np.nan, np.where(np.isnan(x), x, result)))


@in_double
def k0_on_host(x: Any) -> Any:
    """Modified Bessel function of the second kind of order 0."""
    return _k(x, 0, False)


K0 = _row("modified_bessel_k0", "bessel_k(a, false, false)", k0_on_host)


@operation(namespace="special", method=False)
def modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Modified Bessel function of the second kind of order 0: infinite at 0, NaN below; no derivative.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype. The result has its shape; integers and bools give the default floating dtype.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.special.modified_bessel_k0(tensor.tensor([1.0, 2.0]))
    tensor([0.4210, 0.1139])
    """
    return K0.out(out, input)


@in_double
def k1_on_host(x: Any) -> Any:
    """Modified Bessel function of the second kind of order 1."""
    return _k(x, 1, False)


K1 = _row("modified_bessel_k1", "bessel_k(a, true, false)", k1_on_host)


@operation(namespace="special", method=False)
def modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Modified Bessel function of the second kind of order 1: infinite at 0, NaN below; no derivative.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype. The result has its shape; integers and bools give the default floating dtype.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.special.modified_bessel_k1(tensor.tensor([1.0, 2.0]))
    tensor([0.6019, 0.1399])
    """
    return K1.out(out, input)


@in_double
def k0e_on_host(x: Any) -> Any:
    """``exp(x) * k0(x)``."""
    return _k(x, 0, True)


K0E = _row("scaled_modified_bessel_k0", "bessel_k(a, false, true)", k0e_on_host)


@operation(namespace="special", method=False)
def scaled_modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``exp(input) * modified_bessel_k0(input)``, which does not underflow; no derivative.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype. The result has its shape; integers and bools give the default floating dtype.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.special.scaled_modified_bessel_k0(tensor.tensor([1.0, 2.0]))
    tensor([1.1445, 0.8416])
    """
    return K0E.out(out, input)


@in_double
def k1e_on_host(x: Any) -> Any:
    """``exp(x) * k1(x)``."""
    return _k(x, 1, True)


K1E = _row("scaled_modified_bessel_k1", "bessel_k(a, true, true)", k1e_on_host)


@operation(namespace="special", method=False)
def scaled_modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``exp(input) * modified_bessel_k1(input)``, which does not underflow; no derivative.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype. The result has its shape; integers and bools give the default floating dtype.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.special.scaled_modified_bessel_k1(tensor.tensor([1.0, 2.0]))
    tensor([1.6362, 1.0335])
    """
    return K1E.out(out, input)


# Functions of the first and second kind. CUDA's for float lose digits from 8 on, so those for double are taken.


def _inside(low: Any) -> Any:
    return low * low / 32 - 1


def _wave(x: Any, order: int, second: bool) -> Any:
    """Function of the first or the second kind, of ``x >= 8``, from that expansion."""
    inverse = 128 / (x * x) - 1
    p = chebyshev(series.P0 if order == 0 else series.P1, inverse)
    q = chebyshev(series.Q0 if order == 0 else series.Q1, inverse) / x
    sine, cosine = np.sin(x), np.cos(x)
    # Sine and cosine of x - pi / 4, times sqrt(2); and of x - 3 pi / 4.
    behind = (sine - cosine, sine + cosine) if order == 0 else (-sine - cosine, sine - cosine)
    result = p * behind[0] + q * behind[1] if second else p * behind[1] - q * behind[0]
    return np.where(np.isinf(x), 0.0, result / np.sqrt(np.pi * x))


def _first(x: Any, order: int) -> Any:
    size = np.abs(x)
    small = size <= 8
    low, high = np.where(small, size, 8.0), np.where(small, 8.0, size)
    near = (
        chebyshev(series.J0_NEAR, _inside(low))
        if order == 0
        else low * chebyshev(series.J1_NEAR, _inside(low))
    )
    result = np.where(small, near, _wave(high, order, False))
    result = result if order == 0 else np.where(np.signbit(x), -result, result)
    return np.where(np.isnan(x), x, result)


def _second(x: Any, order: int) -> Any:
    small = x <= 8
    low, high = np.where(small & (x > 0), x, 8.0), np.where(small, 8.0, x)
    turn = 2 / np.pi * np.log(low)
    if order == 0:
        near = chebyshev(series.Y0_NEAR, _inside(low)) + turn * _first(low, 0)
    else:
        near = low * chebyshev(series.Y1_NEAR, _inside(low)) + turn * _first(low, 1) - 2 / (np.pi * low)
    result = np.where(small, near, _wave(high, order, True))
    return np.where(x == 0, -np.inf, np.where(x < 0, np.nan, np.where(np.isnan(x), x, result)))


@in_double
def j0_on_host(x: Any) -> Any:
    """Bessel function of the first kind of order 0."""
    return _first(x, 0)


J0 = _row("bessel_j0", "j0(double(a))", j0_on_host)


@operation(namespace="special", method=False)
def bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Bessel function of the first kind of order 0; no derivative.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype. The result has its shape; integers and bools give the default floating dtype.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.special.bessel_j0(tensor.tensor([0.0, 1.0, 2.0]))
    tensor([1.0000, 0.7652, 0.2239])
    """
    return J0.out(out, input)


@in_double
def j1_on_host(x: Any) -> Any:
    """Bessel function of the first kind of order 1."""
    return _first(x, 1)


J1 = _row("bessel_j1", "j1(double(a))", j1_on_host)


@operation(namespace="special", method=False)
def bessel_j1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Bessel function of the first kind of order 1; no derivative.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype. The result has its shape; integers and bools give the default floating dtype.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.special.bessel_j1(tensor.tensor([0.0, 1.0, 2.0]))
    tensor([0.0000, 0.4401, 0.5767])
    """
    return J1.out(out, input)


@in_double
def y0_on_host(x: Any) -> Any:
    """Bessel function of the second kind of order 0."""
    return _second(x, 0)


Y0 = _row("bessel_y0", "y0(double(a))", y0_on_host)


@operation(namespace="special", method=False)
def bessel_y0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Bessel function of the second kind of order 0: minus infinity at 0, NaN below; no derivative.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype. The result has its shape; integers and bools give the default floating dtype.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.special.bessel_y0(tensor.tensor([1.0, 2.0]))
    tensor([0.0883, 0.5104])
    """
    return Y0.out(out, input)


@in_double
def y1_on_host(x: Any) -> Any:
    """Bessel function of the second kind of order 1."""
    return _second(x, 1)


Y1 = _row("bessel_y1", "y1(double(a))", y1_on_host)


@operation(namespace="special", method=False)
def bessel_y1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Bessel function of the second kind of order 1: minus infinity at 0, NaN below; no derivative.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype. The result has its shape; integers and bools give the default floating dtype.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.special.bessel_y1(tensor.tensor([1.0, 2.0]))
    tensor([-0.7812, -0.1070])
    """
    return Y1.out(out, input)


# Spherical functions


def _spherical_j0_on_host(a: Any) -> Any:
    one = a.dtype.type(1)
    return np.where(a == 0, one, np.where(np.isinf(a), 0 * one, np.sin(a) / np.where(a == 0, one, a)))


SPHERICAL_J0 = _row(
    "spherical_bessel_j0", "a == 0 ? Compute(1) : isinf(a) ? Compute(0) : sin(a) / a", _spherical_j0_on_host
)


@operation(namespace="special", method=False)
def spherical_bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Spherical Bessel function of the first kind of order 0: ``sin(input) / input``, 1 at 0; no derivative.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype. The result has its shape; integers and bools give the default floating dtype.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.special.spherical_bessel_j0(tensor.tensor([0.0, 1.0, 2.0]))
    tensor([1.0000, 0.8415, 0.4546])
    """
    return SPHERICAL_J0.out(out, input)


def _sinc_on_host(a: Any) -> Any:
    angle = a * a.dtype.type(np.pi)
    return np.where(a == 0, a.dtype.type(1), np.sin(angle) / np.where(a == 0, a.dtype.type(1), angle))


def _sinc_gradient(grad: Tensor, a: Tensor, out: Tensor) -> Tensor:
    at_zero = EQ.binary(a, 0)
    slope = DIV.binary(SUB.binary(COS.unary(MUL.binary(a, math.pi)), out), ADD.binary(a, at_zero))
    # At 0 the slope goes through 0, steeply: the second derivative is there.
    slope = where(at_zero, MUL.binary(a, -(math.pi**2) / 3), DROP.binary(slope, at_zero))
    return MUL.binary(grad, conjugate(slope))


SINC = Pointwise(
    "sinc",
    by_category(
        f"a == 0 ? Compute(1) : sin(Compute({math.pi!r}) * a) / (Compute({math.pi!r}) * a)",
        complex=f"a == Compute{{0, 0}} ? Compute{{1, 0}} : sin({math.pi!r} * a) / ({math.pi!r} * a)",
    ),
    _sinc_on_host,
    rule=rules.floating,
    derivatives=(lambda grad, a, out: _sinc_gradient(grad, a, out),),
)


@operation(namespace="tensor special", in_place=True, also="tensor.sinc_")
def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Normalised cardinal sine ``sin(pi * input) / (pi * input)``, 1 at 0.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype. The result has its shape; integers and bools give the default floating dtype.
    out : Tensor, optional
        Tensor that the result is written to.

    Examples
    --------
    >>> tensor.sinc(tensor.tensor([0.0, 0.5]))
    tensor([1.0000, 0.6366])
    """
    return SINC.out(out, input)

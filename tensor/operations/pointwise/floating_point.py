"""Floating point numbers by their representation: signs, neighbours, fraction and exponent."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nvrtc_kernels import dtypes
from nvrtc_kernels.dtypes import Category, bfloat16, dtype, float16
from tensor.core.base import check_outs, check_tensor
from tensor.core.dtypes import promotion as rules
from tensor.operations.definition import operation
from tensor.operations.pointwise_node import numbered
from tensor.operations.pointwise_operation import Pointwise, by_category
from tensor.operations.return_types import return_type

from .arithmetic import DIV, MUL, SIGN, no_change
from .comparisons import EQ, GT, ISNAN, NE
from .complex_numbers import conjugate
from .powers import EXP2
from .selection import KEEP, ORDERED, where

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor


def _ratio(grad: Tensor, a: Tensor, out: Tensor) -> Tensor:
    """The gradient with the sign that :func:`copysign` gave; nothing at 0."""
    return MUL.binary(grad, MUL.binary(SIGN.unary(a), SIGN.unary(out)))


COPYSIGN = Pointwise(
    "copysign",
    "copysign(a, b)",
    np.copysign,
    rule=rules.floating,
    numbers="b",
    node=numbered("Copysign", 0, 1),
    categories=ORDERED,
    derivatives=(lambda grad, a, out: _ratio(grad, a, out), no_change),
)


#: Of a number moved to its neighbour, which is as far from it wherever it stands; PyTorch has no more than this.
_OF_NEXT = (lambda grad, a, b: KEEP.binary(grad, NE(a, b)), no_change)


def _next_on_host(a: Any, b: Any) -> Any:
    """What ``np.nextafter`` gives, whose loop is one of calls: the bits of neighbours, without their sign, are integers 1 apart."""
    if np.ndim(a) == 0 or np.shape(a) != np.shape(b):
        return np.nextafter(a, b)
    signed = np.dtype(f"i{a.dtype.itemsize}").type
    bits = a.view(signed)
    outwards = np.greater(b, a)
    outwards ^= bits < 0
    moved = np.multiply(outwards, signed(2), dtype=signed)
    moved -= signed(1)
    moved += bits
    result = moved.view(a.dtype)
    equal = a == b
    if not a.all():
        # From zero the smallest number of the right sign follows.
        zero = (a == 0) & ~equal
        result[zero] = np.copysign(np.finfo(a.dtype).smallest_subnormal, b[zero])
    if equal.any():
        np.copyto(result, b, where=equal)
    if np.isnan(np.minimum.reduce(a, axis=None, initial=0)) or np.isnan(
        np.minimum.reduce(b, axis=None, initial=0)
    ):
        missing = np.isnan(a) | np.isnan(b)
        result[missing] = a[missing] + b[missing]
    return result


NEXTAFTER = Pointwise(
    "nextafter",
    "nextafter(a, b)",
    _next_on_host,
    numbers="",
    categories=(Category.FLOATING,),
    derivatives=_OF_NEXT,
)


#: What has been found for the first two operands otherwise.
_PRECOMPUTED = Pointwise("nextafter", "c", lambda a, b, c: c, derivatives=(*_OF_NEXT, no_change))


@operation(in_place=True)
def copysign(input: Tensor, other: Tensor | float, *, out: Tensor | None = None) -> Tensor:
    """``abs(input)`` with the sign of ``other``, that of a negative zero too.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype.
    other : Tensor or number
        Of a shape that broadcasts. The result has the promoted dtype; integers and bools give the default
        floating dtype.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the dtype is complex.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.copysign(tensor.tensor([1.0, -2.0]), -0.0)
    tensor([-1., -2.])
    """
    return COPYSIGN.out(out, input, other)


@operation(in_place=True)
def nextafter(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The next representable number from ``input`` towards ``other``.

    Parameters
    ----------
    input, other : Tensor
        Of shapes that broadcast. Of floating dtypes (one may be of integers); the result has the promoted
        one.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the promoted dtype is not a floating one; in backward, as there is no derivative.
    TypeError
        If an argument is not a tensor.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.

    Examples
    --------
    >>> tensor.nextafter(tensor.tensor([1.0]), tensor.tensor([2.0])) - 1
    tensor([1.1921e-07])
    """
    check_tensor(input, "nextafter", "input")
    check_tensor(other, "nextafter", "other")
    dtype = rules.promoted((input._layout, other._layout))
    if dtype not in (float16, bfloat16):
        return NEXTAFTER.out(out, input, other)
    return _PRECOMPUTED.out(out, input, other, _next_half(input, other, dtype))


def _next_half(input: Tensor, other: Tensor, dtype: dtype) -> Tensor:
    """:func:`nextafter` for half precision, whose bits count as the numbers do."""
    a, b = input.detach().to(dtype), other.detach().to(dtype)
    outwards = EQ.binary(GT.binary(b, a), GT.binary(a, 0))
    bits = a.contiguous().view(dtypes.int16)
    moved = bits + where(outwards, 1, -1).to(dtypes.int16)
    # From zero the smallest number of the right sign follows.
    least = where(GT.binary(b, 0), 1, 1 - 0x8000).to(dtypes.int16)
    result = where(EQ.binary(a, 0), least, moved).view(dtype)
    result = where(EQ.binary(a, b), b, result)
    return where(ISNAN.unary(a) | ISNAN.unary(b), a + b, result)


def _ldexp(a: Any, b: Any) -> Any:
    if a.dtype.kind == "c":
        return a * np.exp2(b)
    whole = b == np.rint(b)
    # Beyond these the result is 0 or infinite for every type.
    steps = np.where(whole, np.clip(np.nan_to_num(b), -5000, 5000), 0).astype(np.int32)
    return np.where(whole, np.ldexp(a, steps), a * np.exp2(b))


LDEXP: Pointwise = Pointwise(
    "ldexp",
    by_category(
        "b == rint(b) ? ldexp(a, int(fmin(fmax(b, Compute(-5000)), Compute(5000)))) : a * exp2(b)",
        complex="a * exp2(b)",
    ),
    _ldexp,
    rule=rules.floating,
    numbers="",
    derivatives=(
        lambda grad, b: LDEXP.binary(grad, conjugate(b)),
        lambda grad, out: MUL.binary(MUL.binary(grad, conjugate(out)), math.log(2)),
    ),
)


def _check_floating(_: Any, common: dtype) -> None:
    if not common.is_floating_point:
        raise RuntimeError(f"torch.frexp() only supports floating-point dtypes, got {common!r}")


FRACTION = Pointwise(
    "frexp",
    "fraction(a)",
    lambda a: np.frexp(a)[0],
    check=_check_floating,
    include="arithmetic.cuh",
    derivatives=(lambda grad, a: DIV.binary(grad, EXP2.unary(EXPONENT.unary(a).to(grad.dtype))),),
)
EXPONENT: Pointwise = Pointwise(
    "frexp_exponent",
    "exponent(a)",
    lambda a: np.where(np.isfinite(a), np.frexp(a)[1], 0),
    rule=lambda dtype: (dtype, dtypes.int32),
    check=_check_floating,
    include="arithmetic.cuh",
    derivatives=(no_change,),
)


class Apart(NamedTuple):
    """Fractions in [1/2, 1), with a sign, and powers of two."""

    mantissa: Tensor
    exponent: Tensor


_FREXP = return_type("frexp", Apart)


@operation(in_place=True, also="tensor.ldexp_")
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input * 2**other``, exact for whole exponents.

    Parameters
    ----------
    input, other : Tensor
        Of shapes that broadcast. The result has the promoted dtype; integers and bools give the default
        floating dtype.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    TypeError
        If an argument is not a tensor.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.

    Examples
    --------
    >>> tensor.ldexp(tensor.tensor([1.0, 3.0]), tensor.tensor([4, -1]))
    tensor([16.0000,  1.5000])
    """
    return LDEXP.out(out, input, other)


@operation()
def frexp(input: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> Apart:
    """Fractions in [0.5, 1), with the sign, and exponents: ``mantissa * 2**exponent == input``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a floating dtype. 0, infinities and NaN have exponent 0 and are their own fraction.
    out : tuple of Tensor, optional
        Two tensors that the results are written to.

    Returns
    -------
    Apart
        ``mantissa`` of the input's dtype and ``exponent`` of int32, both of its shape.

    Raises
    ------
    RuntimeError
        If the dtype is not a floating one.

    Examples
    --------
    >>> mantissa, exponent = tensor.frexp(tensor.tensor([10.0, -0.25]))
    >>> mantissa
    tensor([ 0.6250, -0.5000])
    >>> exponent
    tensor([ 4, -1], dtype=tensor.int32)
    """
    if out is not None:
        check_outs(out, 2, "frexp")
    first, second = (None, None) if out is None else out
    return _FREXP(FRACTION.out(first, input), EXPONENT.out(second, input))

"""Sums, products, quotients and remainders, and what has to do with the sign."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import FLOAT8, STORAGE_ONLY, Category
from tensor.core.base import TensorBase, check_tensor
from tensor.core.dtypes import promotion as rules
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.creation.like import zeros_like
from tensor.operations.definition import autocasted, operation
from tensor.operations.pointwise_node import numbered
from tensor.operations.pointwise_operation import IN_PLACE, Pointwise, by_category, one_pass, written

from .complex_numbers import conjugate, sgn_gradient
from .quotients_on_host import floor_divide_on_host, fmod_on_host, remainder_on_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvrtc_kernels.dtypes import dtype
    from tensor.methods.tensor import Tensor

REAL = (Category.INTEGER, Category.FLOATING)
NUMERIC = (Category.INTEGER, Category.FLOATING, Category.COMPLEX)


def no_change(grad: Tensor) -> Tensor:
    """Gradient of a function that is constant almost everywhere."""
    return zeros_like(grad)


def undefined(name: str) -> Callable[[Tensor], Tensor]:
    """Gradient of a function whose derivative is asked for in vain."""

    def derivative(_: Tensor) -> Tensor:
        raise NotImplementedError(
            f"derivative for {name} is not implemented; detach() its result where it counts as constant"
        )

    return derivative


# Checks of operands


def _no_bools(signature: Any, _: dtype) -> None:
    bools = [rules.is_bool(operand) for operand in signature[:2]]
    if all(bools):
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead."
        )
    if any(bools):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a "
            "mask, use the `~` or `logical_not()` operator instead."
        )


def check_factor(name: str) -> Any:
    """Check that the number ``name``, the third operand, does not belong to a higher category than the result."""

    def check(signature: Any, common: dtype) -> None:
        argument = signature[2]
        if argument is bool and common.category is not Category.BOOL:
            raise RuntimeError(f"Boolean {name} only supported for Boolean results.")
        if argument is float and common.category < Category.FLOATING:
            raise RuntimeError(
                f"For integral input tensors, argument {name} must not be a floating point number."
            )
        if argument is complex and not common.is_complex:
            raise RuntimeError(
                f"For non-complex input tensors, argument {name} must not be a complex number."
            )

    return check


_check_alpha = check_factor("alpha")


def _check_difference(signature: Any, common: dtype) -> None:
    _no_bools(signature, common)
    _check_alpha(signature, common)


def _not_bool(message: str) -> Any:
    def check(signature: Any, common: dtype) -> None:
        if common.category is Category.BOOL:
            raise RuntimeError(message)

    return check


# Sums and differences


@one_pass
def _add_scaled(a: Any, b: Any, c: Any, out: Any = None) -> Any:
    return np.add(a, b * c, out=out)


@one_pass
def _subtract_scaled(a: Any, b: Any, c: Any, out: Any = None) -> Any:
    return np.subtract(a, b * c, out=out)


ADD = Pointwise("add", "a + b", np.add, derivatives=(lambda grad: grad, lambda grad: grad))
ADD_SCALED = Pointwise(
    "add",
    "a + b * c",
    _add_scaled,
    typed=2,
    check=_check_alpha,
    derivatives=(lambda grad: grad, lambda grad, c: MUL.binary(grad, conjugate(c))),
)
SUB = Pointwise(
    "sub",
    "a - b",
    np.subtract,
    check=_no_bools,
    node=lambda a, _: "SubBackward0" if isinstance(a, TensorBase) else "RsubBackward1",
    derivatives=(lambda grad: grad, lambda grad: NEG.unary(grad)),
)
SUB_SCALED = Pointwise(
    "sub",
    "a - b * c",
    _subtract_scaled,
    typed=2,
    check=_check_difference,
    derivatives=(lambda grad: grad, lambda grad, c: NEG.unary(MUL.binary(grad, conjugate(c)))),
)


@operation(in_place=True)
def add(input: Tensor, other: Tensor | complex, *, alpha: complex = 1, out: Tensor | None = None) -> Tensor:
    """``input + alpha * other``.

    Parameters
    ----------
    input, other : Tensor or number
        At least one of them a tensor; of shapes that broadcast. The result has the promoted dtype; a number
        only raises its category (a float beside integers gives the default floating dtype). Of two bools it
        is a bool (``or``).
    alpha : number
        Factor of the second operand; for integers an integer, for real tensors not complex.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        If the shapes do not broadcast, the tensors are on different devices, or ``alpha`` is of a higher
        category than the result.
    TypeError
        If neither argument is a tensor.

    Examples
    --------
    >>> tensor.add(tensor.tensor([[1], [2]]), tensor.tensor([10, 20]))
    tensor([[11, 21],
            [12, 22]])
    >>> tensor.add(tensor.tensor([1.0, 2.0]), 10, alpha=0.5)
    tensor([6., 7.])
    """
    if type(alpha) is int and alpha == 1:
        return ADD.binary(input, other) if out is None else ADD.out(out, input, other)
    return ADD_SCALED.out(out, input, other, alpha)


@operation(in_place=True, also="subtract")
def sub(input: Tensor, other: Tensor | complex, *, alpha: complex = 1, out: Tensor | None = None) -> Tensor:
    """``input - alpha * other``.

    Parameters
    ----------
    input, other : Tensor or number
        At least one of them a tensor; of shapes that broadcast. The result has the promoted dtype; a number
        only raises its category (a float beside integers gives the default floating dtype).
    alpha : number
        Factor of the second operand; for integers an integer, for real tensors not complex.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        If an operand is bool (use ``^`` or ``~``), the shapes do not broadcast, the tensors are on different
        devices, or ``alpha`` is of a higher category than the result.
    TypeError
        If neither argument is a tensor.

    Examples
    --------
    >>> tensor.sub(tensor.tensor([5, 7]), tensor.tensor([1, 2]), alpha=2)
    tensor([3, 3])
    """
    if type(alpha) is int and alpha == 1:
        return SUB.binary(input, other) if out is None else SUB.out(out, input, other)
    return SUB_SCALED.out(out, input, other, alpha)


@operation(method=False)
def rsub(input: Tensor, other: Tensor | complex, *, alpha: complex = 1) -> Tensor:
    """``other - alpha * input``: :func:`sub` with its operands swapped.

    Parameters
    ----------
    input : Tensor
        The subtrahend.
    other : Tensor or number
        The minuend; of a shape that broadcasts. The result has the promoted dtype; a number only raises its
        category (a float beside integers gives the default floating dtype).
    alpha : number
        Factor of the second operand; for integers an integer, for real tensors not complex.

    Raises
    ------
    RuntimeError
        If an operand is bool, the shapes do not broadcast, the tensors are on different devices, or ``alpha``
        is of a higher category than the result.
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.rsub(tensor.tensor([1.0, 2.0]), 10)
    tensor([9., 8.])
    """
    check_tensor(input, "rsub", "input")
    if type(alpha) is int and alpha == 1:
        return SUB(other, input)
    return SUB_SCALED(other, input, alpha)


# Products and quotients

MUL: Pointwise = Pointwise(
    "mul",
    "a * b",
    np.multiply,
    derivatives=(
        lambda grad, b: MUL.binary(grad, conjugate(b)),
        lambda grad, a: MUL.binary(grad, conjugate(a)),
    ),
    stored=STORAGE_ONLY,
)
DIV: Pointwise = Pointwise(
    "div",
    "a / b",
    np.true_divide,
    rule=rules.floating,
    derivatives=(
        lambda grad, b: DIV.binary(grad, conjugate(b)),
        lambda grad, a, b: DIV_BACKWARD(grad, a, b),
    ),
)
#: Gradient of the divisor: of (gradient, dividend, divisor).
DIV_BACKWARD: Pointwise = Pointwise(
    "div_backward",
    by_category("-a * (b / c / c)", complex="-a * conj(b / c / c)"),
    lambda a, b, c: -a * np.conjugate(b / c / c),
    rule=rules.floating,
    derivatives=(
        lambda grad, b, c: NEG.unary(MUL.binary(grad, DIV.binary(DIV(b, c), c))),
        lambda grad, a, c: NEG.unary(
            MUL.binary(conjugate(grad), DIV.binary(DIV(a, conjugate(c)), conjugate(c)))
        ),
        lambda grad, a, b, c: MUL.binary(
            MUL.binary(MUL.binary(conjugate(grad), a), 2), conjugate(DIV.binary(DIV.binary(DIV(b, c), c), c))
        ),
    ),
)
RECIPROCAL = Pointwise(
    "reciprocal",
    by_category("1 / a", complex="reciprocal(a)"),
    lambda a: np.true_divide(a.dtype.type(1), a),
    rule=rules.floating,
    derivatives=(lambda grad, out: MUL.binary(NEG.unary(grad), conjugate(MUL.binary(out, out))),),
)


def _divided(function: Any) -> Any:
    """``function`` of a dividend and a divisor; integers must not be divided by zero."""

    def divide(a: Any, b: Any, out: Any = None) -> Any:
        if np.result_type(b).kind in "iu" and not np.all(b) and np.size(a):
            raise RuntimeError(
                "ZeroDivisionError: an integer is divided by zero; replace such divisors, or divide in floating point"
            )
        return function(a, b, out)

    return divide


def _trunc_divide(a: Any, b: Any, out: Any = None) -> Any:
    if np.result_type(a).kind != "f":
        return _truncated(a, b)
    return np.trunc(np.divide(a, b, out=out), out=out)


FLOOR_DIVIDE = Pointwise(
    "floor_divide",
    "floor_quotient(a, b)",
    _divided(floor_divide_on_host),
    node="DivBackward2",
    categories=REAL,
    include="arithmetic.cuh",
    derivatives=(no_change, no_change),
)
TRUNC_DIVIDE = Pointwise(
    "trunc_divide",
    "trunc_quotient(a, b)",
    _divided(_trunc_divide),
    node="DivBackward2",
    categories=REAL,
    include="arithmetic.cuh",
    derivatives=(no_change, no_change),
)
REMAINDER = Pointwise(
    "remainder",
    "floor_modulus(a, b)",
    _divided(remainder_on_host),
    node=numbered("Remainder"),
    categories=REAL,
    include="arithmetic.cuh",
    derivatives=(
        lambda grad: grad,
        lambda grad, a, b: NEG.unary(MUL.binary(grad, FLOOR_DIVIDE(a, b))),
    ),
)
FMOD = Pointwise(
    "fmod",
    "trunc_modulus(a, b)",
    _divided(fmod_on_host),
    node=numbered("Fmod"),
    numbers="b",
    categories=REAL,
    include="arithmetic.cuh",
    derivatives=(
        lambda grad: grad,
        lambda grad, a, b: NEG.unary(MUL.binary(grad, TRUNC_DIVIDE(a, b))),
    ),
)


def _truncated(a: Any, b: Any) -> Any:
    """Quotient of integers without its fraction."""
    left = np.fmod(a, b)
    return np.floor_divide(a - left, b)


@operation(in_place=True, also="multiply")
def mul(input: Tensor, other: Tensor | complex, *, out: Tensor | None = None) -> Tensor:
    """``input * other``, element by element.

    Parameters
    ----------
    input, other : Tensor or number
        At least one of them a tensor; of shapes that broadcast. The result has the promoted dtype; a number
        only raises its category (a float beside integers gives the default floating dtype). Of two bools it
        is a bool (``and``).
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.
    TypeError
        If neither argument is a tensor.

    Examples
    --------
    >>> tensor.mul(tensor.tensor([1, 2, 3]), 0.5)
    tensor([0.5000, 1.0000, 1.5000])
    """
    return MUL.binary(input, other) if out is None else MUL.out(out, input, other)


@operation(in_place=True, also="divide")
def div(
    input: Tensor,
    other: Tensor | complex,
    *,
    rounding_mode: str | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """``input / other``, or that rounded to a whole number.

    Parameters
    ----------
    input, other : Tensor or number
        At least one of them a tensor; of shapes that broadcast. Without rounding, integers and bools give the
        default floating dtype; with rounding the result has the promoted dtype.
    rounding_mode : str, optional
        ``"trunc"`` rounds the quotient towards zero, ``"floor"`` down.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        For another mode; on the CPU, for an integer divided by zero with rounding; if the shapes do not
        broadcast, or the tensors are on different devices.
    NotImplementedError
        With rounding, if the promoted dtype is bool or complex.
    TypeError
        If neither argument is a tensor.

    Examples
    --------
    >>> tensor.div(tensor.tensor([-7, 7]), 2)
    tensor([-3.5000,  3.5000])
    >>> tensor.div(tensor.tensor([-7, 7]), 2, rounding_mode="trunc")
    tensor([-3,  3])
    >>> tensor.div(tensor.tensor([-7, 7]), 2, rounding_mode="floor")
    tensor([-4,  3])
    """
    if rounding_mode is None:
        return DIV.binary(input, other) if out is None else DIV.out(out, input, other)
    if rounding_mode == "floor":
        return FLOOR_DIVIDE.out(out, input, other)
    if rounding_mode == "trunc":
        return TRUNC_DIVIDE.out(out, input, other)
    raise RuntimeError(
        f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found {rounding_mode!r}"
    )


@operation(in_place=True)
def true_divide(input: Tensor, other: Tensor | complex, *, out: Tensor | None = None) -> Tensor:
    """``input / other``: :func:`div` without rounding.

    Parameters
    ----------
    input, other : Tensor or number
        At least one of them a tensor; of shapes that broadcast. Integers and bools give the default floating
        dtype; a floating-point division by zero is infinite or NaN.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.
    TypeError
        If neither argument is a tensor.

    Examples
    --------
    >>> tensor.true_divide(tensor.tensor([1, 3]), tensor.tensor([2, 0]))
    tensor([0.5000,    inf])
    """
    return DIV.out(out, input, other)


@operation(in_place=True)
def floor_divide(input: Tensor, other: Tensor | float, *, out: Tensor | None = None) -> Tensor:
    """``input // other``: the quotient rounded down, to minus infinity.

    Parameters
    ----------
    input, other : Tensor or number
        At least one of them a tensor; of shapes that broadcast. Of integer or floating dtypes; the result has
        the promoted one.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        On the CPU, for an integer divided by zero; if the shapes do not broadcast, or the tensors are on
        different devices.
    NotImplementedError
        If the promoted dtype is bool or complex.
    TypeError
        If neither argument is a tensor.

    Examples
    --------
    >>> tensor.floor_divide(tensor.tensor([-7, 7]), 2)
    tensor([-4,  3])
    """
    return FLOOR_DIVIDE.out(out, input, other)


@operation(in_place=True)
def remainder(input: Tensor, other: Tensor | float, *, out: Tensor | None = None) -> Tensor:
    """``input % other``: ``input - other * floor(input / other)``, which has the divisor's sign.

    Parameters
    ----------
    input, other : Tensor or number
        At least one of them a tensor; of shapes that broadcast. Of integer or floating dtypes; the result has
        the promoted one. NaN where the divisor is a floating-point 0.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        On the CPU, for an integer divided by zero; if the shapes do not broadcast, or the tensors are on
        different devices.
    NotImplementedError
        If the promoted dtype is bool or complex.
    TypeError
        If neither argument is a tensor.

    Examples
    --------
    >>> tensor.remainder(tensor.tensor([-7, 7]), 3)
    tensor([2, 1])
    """
    return REMAINDER.out(out, input, other)


@operation(in_place=True)
def fmod(input: Tensor, other: Tensor | float, *, out: Tensor | None = None) -> Tensor:
    """``input - other * trunc(input / other)``, which has the dividend's sign, as C's ``fmod``.

    Parameters
    ----------
    input : Tensor
        Dividend, of an integer or floating dtype.
    other : Tensor or number
        Divisor, of a shape that broadcasts. The result has the promoted dtype. NaN where the divisor is a
        floating-point 0.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        On the CPU, for an integer divided by zero; if the shapes do not broadcast, or the tensors are on
        different devices.
    NotImplementedError
        If the promoted dtype is bool or complex.
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.fmod(tensor.tensor([-7, 7]), 3)
    tensor([-1,  1])
    """
    return FMOD.out(out, input, other)


@operation(in_place=True, also="tensor.reciprocal_", autocast=Autocast(cuda=FLOAT32))
def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``1 / input``; infinite at 0.

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
    >>> tensor.reciprocal(tensor.tensor([2, -4]))
    tensor([ 0.5000, -0.2500])
    """
    return RECIPROCAL.unary(input) if out is None else RECIPROCAL.out(out, input)


# Signs

_SIGN_OF_HALF = np.uint16(0x8000)

NEG: Pointwise = Pointwise(
    "neg",
    "-a",
    np.negative,
    check=_not_bool(
        "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the "
        "`~` or `logical_not()` operator instead."
    ),
    derivatives=(lambda grad: NEG.unary(grad),),
    half=lambda bits, _, out: np.bitwise_xor(bits, _SIGN_OF_HALF, out=out),
)
ABS = Pointwise(
    "abs",
    by_category("fabs(a)", integer="a < 0 ? -a : a", complex="abs(a)"),
    np.abs,
    rule=rules.to_real,
    categories=NUMERIC,
    derivatives=(lambda grad, a: MUL.binary(grad, SGN.unary(a)),),
    stored=FLOAT8,
    half=lambda bits, _, out: np.bitwise_and(bits, ~_SIGN_OF_HALF, out=out),
)


def _sign(a: Any, out: Any = None) -> Any:
    # In bytes, as that takes less than NumPy's sign, which also keeps NaN.
    result = a if a.dtype == bool else np.subtract((a > 0).view(np.int8), (a < 0).view(np.int8))
    return written(result.astype(a.dtype) if out is None else result, out)


SIGN = Pointwise(
    "sign",
    by_category("(Compute)((a > 0) - (a < 0))", boolean="a"),
    _sign,
    categories=(Category.BOOL, *REAL),
    derivatives=(no_change,),
)
SGN: Pointwise = Pointwise(
    "sgn",
    by_category("(Compute)((a > 0) - (a < 0))", boolean="a", complex="sgn(a)"),
    lambda a, out=None: _unit(a, out) if a.dtype.kind == "c" else _sign(a, out),
    derivatives=(lambda grad, a, out: sgn_gradient(grad, a, out),),
)


@autocasted(Autocast(cuda=FLOAT32))
def rtruediv(input: Tensor, other: complex) -> Tensor:
    """``other / input``."""
    return DIV(other, input)


def _unit(a: Any, out: Any = None) -> Any:
    """Complex numbers on the unit circle, or zero."""
    length = np.abs(a)
    result = np.where(length == 0, a.dtype.type(0), a / np.where(length == 0, 1, length))
    return written(result.astype(a.dtype) if out is None else result, out)


@operation(in_place=True, also="negative tensor.neg_ tensor.negative_")
def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``-input``.

    Parameters
    ----------
    input : Tensor
        Of any shape and numeric dtype, which the result has too. Unsigned integers wrap around.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        If the dtype is bool (use ``~``).

    Examples
    --------
    >>> tensor.neg(tensor.tensor([-1, 2]))
    tensor([ 1, -2])
    """
    return NEG.unary(input) if out is None else NEG.out(out, input)


@operation()
def positive(input: Tensor) -> Tensor:
    """``+input``: ``input`` itself, not a copy.

    Raises
    ------
    RuntimeError
        If the dtype is bool.

    Examples
    --------
    >>> x = tensor.tensor([-1.0, 2.0])
    >>> tensor.positive(x) is x
    True
    """
    if input._layout.dtype.category is Category.BOOL:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


@operation(in_place=True, also="absolute tensor.abs_")
def abs(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Absolute value; of a complex number ``sqrt(real**2 + imag**2)``.

    Parameters
    ----------
    input : Tensor
        Of any shape and numeric dtype, which the result has too; complex numbers give the floating dtype of
        their parts.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the dtype is bool.
    RuntimeError
        In place, if the dtype is complex, as the result is real.

    Examples
    --------
    >>> tensor.abs(tensor.tensor([-2, 3]))
    tensor([2, 3])
    >>> tensor.abs(tensor.tensor([3.0 + 4.0j]))
    tensor([5.])
    """
    if out is IN_PLACE and input._layout.dtype.is_complex:
        raise RuntimeError("In-place abs is not supported for complex tensors: the result is real; use abs()")
    return ABS.unary(input) if out is None else ABS.out(out, input)


@operation(in_place=True)
def sign(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """1, 0 or -1 by the sign of each element; 0 for NaN.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype, which the result has too; bools stay as they are.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the dtype is complex: see :func:`sgn`.

    Examples
    --------
    >>> tensor.sign(tensor.tensor([-2.0, 0.0, 5.0]))
    tensor([-1.,  0.,  1.])
    """
    return SIGN.unary(input) if out is None else SIGN.out(out, input)


@operation(in_place=True)
def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """:func:`sign`, and for complex numbers ``input / abs(input)``, which is on the unit circle (0 for 0).

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype, which the result has too.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Examples
    --------
    >>> tensor.sgn(tensor.tensor([3.0 + 4.0j, 0j]))
    tensor([0.6000+0.8000j, 0.0000+0.0000j])
    """
    return SGN.unary(input) if out is None else SGN.out(out, input)

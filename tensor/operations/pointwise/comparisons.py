"""Comparisons of elements, which give bools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nvrtc_kernels.dtypes import STORAGE_ONLY, UNSIGNED, Category, float8_e5m2, float64
from tensor.core.base import check_tensor
from tensor.core.dtypes import promotion as rules
from tensor.operations.definition import operation
from tensor.operations.pointwise_node import numbered
from tensor.operations.pointwise_operation import Pointwise, by_category

from .arithmetic import no_change

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tensor.methods.tensor import Tensor

_ORDERED = (Category.BOOL, Category.INTEGER, Category.FLOATING)


#: Dtypes that have an infinity, or are integers, of those whose elements are only stored.
_WITH_INFINITY = (*UNSIGNED, float8_e5m2)


def _comparison(name: str, sign: str, function: Callable[..., Any], *, ordered: bool = True) -> Pointwise:
    # Written into a floating point tensor (`eq_`), the result still has a gradient: nothing.
    return Pointwise(
        name,
        f"a {sign} b",
        function,
        rule=rules.comparison,
        numbers="b",
        categories=_ORDERED if ordered else tuple(Category),
        derivatives=(no_change, no_change),
        wide_integers=True,
        stored=() if ordered else STORAGE_ONLY,
        node=numbered(name.capitalize()),
    )


EQ = _comparison("eq", "==", np.equal, ordered=False)
NE = _comparison("ne", "!=", np.not_equal, ordered=False)
LT = _comparison("lt", "<", np.less)
LE = _comparison("le", "<=", np.less_equal)
GT = _comparison("gt", ">", np.greater)
GE = _comparison("ge", ">=", np.greater_equal)


@operation(in_place=True)
def eq(input: Tensor, other: Tensor | complex, *, out: Tensor | None = None) -> Tensor:
    """``input == other``, element by element, as a bool tensor.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype.
    other : Tensor or number
        Of a shape that broadcasts; compared in the promoted dtype. NaN is equal to nothing.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.
    TypeError
        If ``input`` is not a tensor, or ``other`` neither a tensor nor a number.

    Examples
    --------
    >>> tensor.eq(tensor.tensor([1, 2, 3]), 2)
    tensor([False,  True, False])
    """
    return EQ.binary(input, other) if out is None else EQ.out(out, input, other)


@operation(in_place=True, also="not_equal")
def ne(input: Tensor, other: Tensor | complex, *, out: Tensor | None = None) -> Tensor:
    """``input != other``, element by element, as a bool tensor.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype.
    other : Tensor or number
        Of a shape that broadcasts; compared in the promoted dtype. NaN differs from everything.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.
    TypeError
        If ``input`` is not a tensor, or ``other`` neither a tensor nor a number.

    Examples
    --------
    >>> tensor.ne(tensor.tensor([1, 2, 3]), 2)
    tensor([ True, False,  True])
    """
    return NE.binary(input, other) if out is None else NE.out(out, input, other)


@operation(in_place=True, also="less")
def lt(input: Tensor, other: Tensor | float, *, out: Tensor | None = None) -> Tensor:
    """``input < other``, element by element, as a bool tensor.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype.
    other : Tensor or number
        Of a shape that broadcasts; compared in the promoted dtype. NaN compares as false.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If an operand is complex, which has no order.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.
    TypeError
        If ``input`` is not a tensor, or ``other`` neither a tensor nor a number.

    Examples
    --------
    >>> tensor.lt(tensor.tensor([1, 2, 3]), 2)
    tensor([ True, False, False])
    """
    return LT.binary(input, other) if out is None else LT.out(out, input, other)


@operation(in_place=True, also="less_equal")
def le(input: Tensor, other: Tensor | float, *, out: Tensor | None = None) -> Tensor:
    """``input <= other``, element by element, as a bool tensor.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype.
    other : Tensor or number
        Of a shape that broadcasts; compared in the promoted dtype. NaN compares as false.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If an operand is complex, which has no order.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.
    TypeError
        If ``input`` is not a tensor, or ``other`` neither a tensor nor a number.

    Examples
    --------
    >>> tensor.le(tensor.tensor([1, 2, 3]), 2)
    tensor([ True,  True, False])
    """
    return LE.binary(input, other) if out is None else LE.out(out, input, other)


@operation(in_place=True, also="greater")
def gt(input: Tensor, other: Tensor | float, *, out: Tensor | None = None) -> Tensor:
    """``input > other``, element by element, as a bool tensor.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype.
    other : Tensor or number
        Of a shape that broadcasts; compared in the promoted dtype. NaN compares as false.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If an operand is complex, which has no order.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.
    TypeError
        If ``input`` is not a tensor, or ``other`` neither a tensor nor a number.

    Examples
    --------
    >>> tensor.gt(tensor.tensor([1, 2, 3]), 2)
    tensor([False, False,  True])
    """
    return GT.binary(input, other) if out is None else GT.out(out, input, other)


@operation(in_place=True, also="greater_equal")
def ge(input: Tensor, other: Tensor | float, *, out: Tensor | None = None) -> Tensor:
    """``input >= other``, element by element, as a bool tensor.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype.
    other : Tensor or number
        Of a shape that broadcasts; compared in the promoted dtype. NaN compares as false.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If an operand is complex, which has no order.
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.
    TypeError
        If ``input`` is not a tensor, or ``other`` neither a tensor nor a number.

    Examples
    --------
    >>> tensor.ge(tensor.tensor([1, 2, 3]), 2)
    tensor([False,  True,  True])
    """
    return GE.binary(input, other) if out is None else GE.out(out, input, other)


# Kinds of numbers

ISNAN = Pointwise(
    "isnan",
    by_category("a != a", complex="isnan(a)"),
    np.isnan,
    rule=rules.comparison,
    stored=STORAGE_ONLY,
)
ISINF = Pointwise(
    "isinf",
    by_category("isinf(a)", integer="false", complex="isinf(a.re) || isinf(a.im)"),
    np.isinf,
    rule=rules.comparison,
    stored=_WITH_INFINITY,
)
ISFINITE = Pointwise(
    "isfinite",
    by_category("isfinite(a)", integer="true", complex="isfinite(a.re) && isfinite(a.im)"),
    np.isfinite,
    rule=rules.comparison,
    stored=_WITH_INFINITY,
)
ISPOSINF = Pointwise(
    "isposinf",
    by_category("isinf(a) && a > 0", integer="false"),
    lambda a: np.isinf(a) & (a > 0),
    rule=rules.comparison,
    categories=_ORDERED,
    stored=UNSIGNED,
)
ISNEGINF = Pointwise(
    "isneginf",
    by_category("isinf(a) && a < 0", integer="false"),
    lambda a: np.isinf(a) & (a < 0),
    rule=rules.comparison,
    categories=_ORDERED,
    stored=UNSIGNED,
)
SIGNBIT = Pointwise(
    "signbit",
    by_category("signbit(a)", integer="a < 0", boolean="false"),
    lambda a: np.signbit(a) if a.dtype.kind == "f" else a < 0,
    rule=rules.comparison,
    categories=_ORDERED,
    stored=UNSIGNED,
)
ISREAL = Pointwise(
    "isreal",
    by_category("true", complex="a.im == 0"),
    np.isreal,
    rule=rules.comparison,
    stored=STORAGE_ONLY,
)


@operation()
def isnan(input: Tensor) -> Tensor:
    """Whether each element is NaN; of complex numbers, whether a part is. False for integers.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype; the result has its shape and dtype bool.

    Examples
    --------
    >>> tensor.isnan(tensor.tensor([1.0, float('nan'), -float('inf')]))
    tensor([False,  True, False])
    """
    return ISNAN.unary(input)


@operation()
def isinf(input: Tensor) -> Tensor:
    """Whether each element is infinite; of complex numbers, whether a part is. False for integers.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype; the result has its shape and dtype bool.

    Examples
    --------
    >>> tensor.isinf(tensor.tensor([1.0, float('nan'), -float('inf')]))
    tensor([False, False,  True])
    """
    return ISINF.unary(input)


@operation()
def isfinite(input: Tensor) -> Tensor:
    """Whether each element is neither infinite nor NaN; of complex numbers, whether both parts are not.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype; the result has its shape and dtype bool.

    Examples
    --------
    >>> tensor.isfinite(tensor.tensor([1.0, float('nan'), -float('inf')]))
    tensor([ True, False, False])
    """
    return ISFINITE.unary(input)


@operation()
def isposinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element is positive infinity.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype; the result has its shape and dtype bool.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.isposinf(tensor.tensor([1.0, float('nan'), -float('inf')]))
    tensor([False, False, False])
    """
    return ISPOSINF.out(out, input)


@operation()
def isneginf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element is negative infinity.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype; the result has its shape and dtype bool.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.isneginf(tensor.tensor([1.0, float('nan'), -float('inf')]))
    tensor([False, False,  True])
    """
    return ISNEGINF.out(out, input)


@operation()
def isreal(input: Tensor) -> Tensor:
    """Whether the imaginary part of each element is 0; true for real tensors.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype; the result has its shape and dtype bool.

    Examples
    --------
    >>> tensor.isreal(tensor.tensor([1.0 + 0j, 2j]))
    tensor([ True, False])
    """
    return ISREAL.unary(input)


@operation()
def signbit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether the sign bit of each element is set: negative numbers, and the negative zero.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype; the result has its shape and dtype bool.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.signbit(tensor.tensor([-1.0, -0.0, 0.0]))
    tensor([ True,  True, False])
    """
    return SIGNBIT.out(out, input)


# Closeness


def _close_rule(dtype: Any) -> Any:
    return rules.comparison(dtype if dtype.category >= Category.FLOATING else float64)


def _isclose(a: Any, b: Any, rtol: Any, atol: Any) -> Any:
    limit = np.abs(atol) + np.abs(rtol * b)
    return (a == b) | (np.isfinite(b) & (np.abs(a - b) <= limit))


_CLOSE = by_category(
    "a == b || (isfinite(b) && fabs(a - b) <= fabs(d) + fabs(c * b))",
    complex="a == b || (isfinite(b.re) && isfinite(b.im) && abs(a - b) <= abs(d) + abs(c * b))",
)
_BOTH_NAN = by_category("(a != a && b != b)", complex="(isnan(a) && isnan(b))")

ISCLOSE = Pointwise("isclose", _CLOSE, _isclose, rule=_close_rule, typed=2, numbers="cd")
ISCLOSE_OR_NAN = Pointwise(
    "isclose",
    lambda dtype: f"{_BOTH_NAN(dtype)} || {_CLOSE(dtype)}",
    lambda a, b, rtol, atol: (np.isnan(a) & np.isnan(b)) | _isclose(a, b, rtol, atol),
    rule=_close_rule,
    typed=2,
    numbers="cd",
)


@operation()
def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """Whether ``abs(input - other) <= atol + rtol * abs(other)``, as a bool tensor.

    Parameters
    ----------
    input, other : Tensor
        Of one dtype, and of shapes that broadcast. Infinities are close to themselves only.
    rtol, atol : float
        Relative and absolute tolerance, not negative.
    equal_nan : bool
        Whether NaN is close to NaN.

    Raises
    ------
    RuntimeError
        If the dtypes or the devices differ, a tolerance is negative, or the shapes do not broadcast.
    TypeError
        If an argument is not a tensor.

    Examples
    --------
    >>> tensor.isclose(tensor.tensor([1.0, 2.0]), tensor.tensor([1.000001, 2.1]))
    tensor([ True, False])
    """
    check_tensor(input, "isclose", "input")
    check_tensor(other, "isclose", "other")
    if input._layout.dtype is not other._layout.dtype:
        raise RuntimeError(
            f"isclose(): expected tensors of one dtype, got {input.dtype!r} and {other.dtype!r}; convert one with .to()"
        )
    if rtol < 0 or atol < 0:
        raise RuntimeError(f"isclose(): rtol and atol must not be negative, got rtol={rtol}, atol={atol}")
    return (ISCLOSE_OR_NAN if equal_nan else ISCLOSE)(input, other, rtol, atol)

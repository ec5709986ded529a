"""Whole numbers near each element, and fractions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import UNSIGNED, Category
from tensor.core.arguments import as_int64
from tensor.operations.definition import operation
from tensor.operations.pointwise_operation import Pointwise, by_category, one_pass, written

from .arithmetic import REAL, no_change

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.methods.tensor import Tensor


def _rounding(name: str, cuda: str, function: Callable[..., Any]) -> Pointwise:
    """A way to round; integers stay as they are."""

    @one_pass
    def rounded(a: Any, out: Any = None) -> Any:
        return function(a, out=out) if a.dtype.kind == "f" else written(a, out)

    return Pointwise(
        name,
        by_category(cuda, integer="a"),
        rounded,
        categories=REAL,
        derivatives=(no_change,),
        stored=UNSIGNED,
    )


CEIL = _rounding("ceil", "ceil(a)", np.ceil)
FLOOR = _rounding("floor", "floor(a)", np.floor)
ROUND = _rounding("round", "rint(a)", np.rint)
TRUNC = _rounding("trunc", "trunc(a)", np.trunc)


def _fraction(a: Any, out: Any = None) -> Any:
    return np.subtract(a, np.trunc(a, out=out), out=out)


FRAC = Pointwise(
    "frac",
    "a - trunc(a)",
    _fraction,
    categories=(Category.FLOATING,),
    derivatives=(lambda grad: grad,),
)
#: Of (number, power of ten): that many decimals are kept.
ROUND_DECIMALS = Pointwise(
    "round",
    "rint(a * b) / b",
    lambda a, b: np.rint(a * b) / b,
    node="RoundBackward1",
    typed=1,
    categories=(Category.FLOATING,),
    derivatives=(no_change,),
)
#: Of (number, power of ten): to a multiple of it.
ROUND_TENS = Pointwise(
    "round",
    "rint(a / b) * b",
    lambda a, b: np.rint(a / b) * b,
    node="RoundBackward1",
    typed=1,
    categories=(Category.FLOATING,),
    derivatives=(no_change,),
)


@operation(in_place=True, also="tensor.ceil_")
def ceil(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The smallest whole number that is not below each element.

    Parameters
    ----------
    input : Tensor
        Of any shape and an integer or floating dtype; the result has both, and integers stay as they are.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the dtype is bool or complex.

    Examples
    --------
    >>> tensor.ceil(tensor.tensor([-1.5, 0.2, 2.0]))
    tensor([-1.,  1.,  2.])
    """
    return CEIL.out(out, input)


@operation(in_place=True, also="tensor.floor_")
def floor(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The largest whole number that is not above each element.

    Parameters
    ----------
    input : Tensor
        Of any shape and an integer or floating dtype; the result has both, and integers stay as they are.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the dtype is bool or complex.

    Examples
    --------
    >>> tensor.floor(tensor.tensor([-1.5, 0.2, 2.0]))
    tensor([-2.,  0.,  2.])
    """
    return FLOOR.out(out, input)


@operation(namespace="tensor special", in_place=True, also="tensor.round_")
def round(input: Tensor, *, decimals: int = 0, out: Tensor | None = None) -> Tensor:
    """Nearest whole number; of two equally near ones the even one.

    Parameters
    ----------
    input : Tensor
        Of any shape and an integer or floating dtype; the result has both, and integers stay as they are.
    decimals : int
        Decimals that are kept; a negative number rounds to tens, hundreds and so on. Only floating dtypes
        take other numbers than 0.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the dtype is bool or complex, or an integer one with ``decimals``.

    Examples
    --------
    >>> tensor.round(tensor.tensor([0.5, 1.5, 2.6]))
    tensor([0., 2., 3.])
    >>> tensor.round(tensor.tensor([1234.567]), decimals=-2)
    tensor([1200.])
    """
    if decimals == 0:
        return ROUND.out(out, input)
    digits = abs(as_int64(decimals, "round", "decimals"))
    # 10**309 is infinite, and overflows in Python.
    scale = 10.0**digits if digits <= 308 else math.inf
    return (ROUND_DECIMALS if decimals > 0 else ROUND_TENS).out(out, input, scale)


@operation(in_place=True, also="fix tensor.fix_ tensor.trunc_")
def trunc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Each element rounded towards zero.

    Parameters
    ----------
    input : Tensor
        Of any shape and an integer or floating dtype; the result has both, and integers stay as they are.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the dtype is bool or complex.

    Examples
    --------
    >>> tensor.trunc(tensor.tensor([-1.5, 0.2, 2.0]))
    tensor([-1.,  0.,  2.])
    """
    return TRUNC.out(out, input)


@operation(in_place=True, also="tensor.frac_")
def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Fractional part ``input - trunc(input)``, with the sign of the element.

    Parameters
    ----------
    input : Tensor
        Of any shape and a floating dtype; the result has both.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    NotImplementedError
        If the dtype is not a floating one.

    Examples
    --------
    >>> tensor.frac(tensor.tensor([1.5, -2.25]))
    tensor([ 0.5000, -0.2500])
    """
    return FRAC.out(out, input)

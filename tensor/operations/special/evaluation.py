"""Polynomials, quotients of them and Chebyshev series of NumPy arrays: what special functions are approximated by.

Each step is one pass over an array. Constants are arrays without dimensions, which ufuncs take at half the cost of Python's
numbers: that counts where arrays are as short as blocks that stay in the cache.
"""

from __future__ import annotations

from functools import cache, wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.core.host.scratch import scratch
from tensor.operations.pointwise.selection import FEW

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: How NumPy's tables of loops write the dtype.
_FLOAT32 = np.dtype(np.float32).char


def in_double(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` computed in double precision, on one-dimensional arrays."""

    @wraps(function)
    def computed(a: Any, *rest: Any) -> Any:
        array = np.asarray(a)
        result = function(array.astype(np.float64).reshape(-1), *rest)
        return result.reshape(array.shape).astype(array.dtype)

    return computed


def in_two_precisions(single: Callable[[Any, Any], None], double: Callable[[Any], Any]) -> Callable[..., Any]:
    """A function that computes arrays of float32 by ``single(array, out)``, of one dimension at least, others by ``double``."""
    double = in_double(double)

    def computed(a: Any, out: Any = None) -> Any:
        array = np.asarray(a)
        if array.dtype == np.float32:
            if out is None:
                out = np.empty_like(array)
            single(np.atleast_1d(array), np.atleast_1d(out))
            return out
        if out is None:
            return double(array)
        out[...] = double(array)
        return out

    return computed


def polynomial(coefficients: Sequence[Any], x: Any, out: Any = None) -> Any:
    """Sum of ``coefficients[k] * x**k``, written to ``out``, which is not ``x``; a new array without it."""
    if len(coefficients) == 1:
        return np.full_like(x, coefficients[0])
    result = np.multiply(x, coefficients[-1], out=out)
    result += coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        result *= x
        result += coefficient
    return result


def chebyshev(coefficients: Sequence[float], x: Any) -> Any:
    """Sum of a Chebyshev series by Clenshaw's recurrence."""
    twice = 2 * x
    first, second, next_ = np.zeros_like(x), np.zeros_like(x), np.empty_like(x)
    for coefficient in coefficients[:0:-1]:
        np.multiply(twice, first, out=next_)
        next_ -= second
        next_ += coefficient
        first, second, next_ = next_, first, second
    return x * first - second + coefficients[0]


@cache
def has_vector_loop(name: str) -> bool:
    """Whether NumPy's loop of a function for float32 has this processor's vector instructions."""
    try:
        # Of all functions, which is a table that is there: for some it compiles patterns and looks at every loop.
        loops = np.lib.introspect.opt_func_info().get(name, {})
    except AttributeError:
        # NumPy 2.1 does not say.
        return False
    return any("baseline" not in loop["current"] for types, loop in loops.items() if set(types) == {_FLOAT32})


def log1p_from_0(x: Any, out: Any = None) -> Any:
    """``np.log1p(x)`` of numbers from 0 on, whose loop may have no vector instructions while the logarithm's has; into ``out``."""
    if x.dtype != np.float32 or x.size <= FEW or has_vector_loop("log1p"):
        return np.log1p(x, out=out)
    sum_ = np.add(x, 1, out=scratch(x))
    lost = np.subtract(sum_, 1, out=scratch(x))
    np.subtract(x, lost, out=lost)
    lost /= sum_  # what the sum was rounded by
    result = np.log(sum_, out=out)
    result += lost
    if np.isnan(np.minimum.reduce(result, axis=None)):
        # An infinite sum has lost NaN.
        result[np.isposinf(x)] = np.inf
    return result


class Ratio:
    """A quotient of polynomials for one dtype.

    Parameters
    ----------
    numerator, denominator : sequence of float
        Coefficients, the constants first. The denominator's last one, which is 1, is left out.
    dtype : dtype
        Of the arrays.
    """

    def __init__(self, numerator: Sequence[float], denominator: Sequence[float], dtype: Any) -> None:
        self.numerator = constants(numerator, dtype)
        self.constant, *self.rest = constants(denominator[::-1], dtype)

    def __call__(self, x: Any, out: Any) -> Any:
        """The quotient at each element of ``x``, written to ``out``, which is not ``x``."""
        polynomial(self.numerator, x, out)
        denominator = np.add(x, self.constant, out=scratch(x))
        for coefficient in self.rest:
            denominator *= x
            denominator += coefficient
        return np.divide(out, denominator, out=out)


def constants(numbers: Sequence[float], dtype: Any) -> list[Any]:
    """Arrays without dimensions."""
    return [np.array(number, dtype) for number in numbers]

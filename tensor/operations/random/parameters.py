"""Parameters of distributions, checked as PyTorch checks them.

Each function gives what :func:`.distributions.numbers` and ``nvrtc_kernels.random.fill`` take: the name of a
distribution and its two parameters.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from nvrtc_kernels import dtypes
from nvrtc_kernels.dtypes import Category
from tensor.core.arguments import as_int64
from tensor.core.dtypes.limits import finfo, iinfo
from tensor.core.plans import not_implemented
from tensor.core.warning import warn_caller

from .distributions import threshold

if TYPE_CHECKING:
    from nvrtc_kernels.dtypes import dtype


class Draw(NamedTuple):
    """The name of a distribution, and its two parameters."""

    distribution: str
    first: Any
    second: Any


class _Limits(dict[dtypes.dtype, tuple[Any, Any]]):
    """Smallest and largest number of the types that numbers are drawn of."""

    def __missing__(self, dtype: dtype) -> tuple[Any, Any]:
        raise not_implemented("random", dtype)


_LIMITS = _Limits({dtypes.bool_: (0, 1)})
#: Binary digits of a floating point type: integers up to ``2**digits`` are all numbers of the type.
_DIGITS: dict[dtype, int] = {}
for _dtype in (*dtypes.ALL[1:], *dtypes.UNSIGNED):
    _limits = iinfo(_dtype) if _dtype.category is Category.INTEGER else finfo(_dtype)
    _LIMITS[_dtype] = _limits.min, _limits.max
    if _dtype.is_floating_point:
        _DIGITS[_dtype] = 1 - round(math.log2(finfo(_dtype).eps))


def uniform(dtype: dtype, low: Any, high: Any) -> Draw:
    """In ``[low, high)``; for complex types so are both parts."""
    if not (dtype.is_floating_point or dtype.is_complex):
        raise _unsupported("uniform_", dtype, "a floating point or complex")
    least, greatest = _LIMITS[dtype]
    ends = number(low, "uniform_", "from"), number(high, "uniform_", "to")
    for name, end in zip(("from", "to"), ends, strict=True):
        if not least <= end <= greatest:
            raise RuntimeError(f"{name} is out of bounds for {dtype!r}: got {end:g}")
    start, stop = ends
    if start > stop:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={start:g} > to={stop:g}"
        )
    if stop - start > greatest:
        raise RuntimeError(
            f"uniform_ expects to-from <= {greatest:g}, the largest number of {dtype!r}, but found to={stop:g} "
            f"and from={start:g}"
        )
    return Draw("uniform", start, stop)


def normal(dtype: dtype, mean: Any, std: Any) -> Draw:
    """Of given mean and standard deviation; each part of a complex number has half the variance."""
    if not (dtype.is_floating_point or dtype.is_complex):
        raise _unsupported("normal_", dtype, "a floating point or complex")
    centre, width = number(mean, "normal_", "mean"), number(std, "normal_", "std")
    if not width >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {width:g}")
    return Draw("normal", centre, width / math.sqrt(2) if dtype.is_complex else width)


def log_normal(dtype: dtype, mean: Any, std: Any) -> Draw:
    """Exponential of a normal number of given mean and standard deviation."""
    if not dtype.is_floating_point:
        raise _unsupported("log_normal_", dtype, "a floating point")
    centre, width = number(mean, "log_normal_", "mean"), number(std, "log_normal_", "std")
    if not width > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={width:g}")
    return Draw("log_normal", centre, width)


def exponential(dtype: dtype, lambd: Any) -> Draw:
    """Of rate ``lambd``."""
    _check_continuous("Exponential", dtype)
    rate = number(lambd, "exponential_", "lambd")
    if not rate > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={rate:g}")
    return Draw("exponential", rate, 0.0)


def cauchy(dtype: dtype, median: Any, sigma: Any) -> Draw:
    """Of given median and half width at half maximum."""
    _check_continuous("Cauchy", dtype)
    centre, width = number(median, "cauchy_", "median"), number(sigma, "cauchy_", "sigma")
    if not width > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={width:g}")
    return Draw("cauchy", centre, width)


def geometric(dtype: dtype, p: Any) -> Draw:
    """Trials up to the first success, which has probability ``p`` in each."""
    if dtype.is_complex or dtype is dtypes.bool_:
        raise _unsupported("geometric_", dtype, "an integer or floating point")
    probability = number(p, "geometric_", "p")
    if not 0 < probability < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={probability:g}")
    return Draw("geometric", math.log1p(-probability), 0.0)


def bernoulli(dtype: dtype, p: Any) -> Draw:
    """1 with probability ``p``, else 0."""
    check_bernoulli(dtype)
    probability = number(p, "bernoulli_", "p")
    if not 0 <= probability <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={probability:g}")
    return Draw("bernoulli", threshold(probability), 0)


def check_bernoulli(dtype: dtype) -> None:
    """Raise NotImplementedError if ones and zeros of the type are not drawn."""
    if dtype.is_complex:
        raise _unsupported("bernoulli_", dtype, "a real")


def integers(dtype: dtype, low: Any, high: Any) -> Draw:
    """Integers in ``[low, high)``.

    With ``high`` ``None`` up to the largest of an integer type, and up to ``2**digits`` for a floating point
    type of so many binary digits. Where a floating point type does not hold an end of the range, it begins or
    ends with the nearest number inside that it holds, so that rounding leads to nothing outside.

    Warns
    -----
    UserWarning
        If a floating point type does not hold all numbers of the range.
    """
    if dtype.is_complex:
        raise RuntimeError(f"random_ handles only integer, floating point and bool dtypes, got {dtype!r}")
    least, greatest = _LIMITS[dtype]
    digits = _DIGITS.get(dtype)
    start = as_int64(low, "random_", "from")
    if high is None:
        last = largest_integer(dtype)
        if start > last:
            raise RuntimeError(
                f"random_ expects 'from' to be at most {last} for {dtype!r} without 'to', but got from={start}"
            )
    else:
        stop = as_int64(high, "random_", "to")
        if start >= stop:
            raise RuntimeError(
                f"random_ expects 'from' to be less than 'to', but got from={start} >= to={stop}"
            )
        last = stop - 1
    for name, end in (("from", start), ("to - 1", last)):
        if not least <= end <= greatest:
            raise RuntimeError(
                f"{name} is out of bounds for {dtype!r}: got {end}, expected [{least:g}, {greatest:g}]"
            )
        if digits is not None and not -(1 << digits) <= end <= 1 << digits:
            warn_caller(
                f"{name} is out of bounds [-(2^{digits}), 2^{digits}]: {dtype!r} does not hold all integers "
                f"beyond, got {end}",
            )
    if digits is not None:
        first, end = -_below(-start, digits), _below(last, digits)
        if first > end:
            raise RuntimeError(
                "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but "
                f"{dtype!r} holds no number from {start} to {last}"
            )
        start, last = first, end
    extent = last - start + 1
    return Draw("random", 0 if extent == 1 << 64 else extent, start)


def largest_integer(dtype: dtype) -> int:
    """The number up to which a real type holds all integers."""
    digits = _DIGITS.get(dtype)
    return int(_LIMITS[dtype][1]) if digits is None else 1 << digits


def _below(value: int, digits: int) -> int:
    """Largest integer up to ``value`` that ``digits`` binary digits hold."""
    spare = max(abs(value).bit_length() - digits, 0)
    return value >> spare << spare


def number(value: Any, function: str, name: str) -> float:
    """``value`` as a float; a number, or a tensor of one.

    Raises
    ------
    TypeError
        If it is neither.
    """
    if type(value) is float:
        return value
    if not hasattr(type(value), "__float__"):
        raise TypeError(f"{function}(): argument '{name}' must be float, not {type(value).__name__}")
    return float(value)


def _unsupported(function: str, dtype: dtype, expected: str) -> NotImplementedError:
    return NotImplementedError(
        f"\"{function}\" not implemented for '{dtype.name}': it wants {expected} dtype"
    )


def _check_continuous(name: str, dtype: dtype) -> None:
    if not dtype.is_floating_point:
        raise RuntimeError(
            f"{name} distribution is a continuous probability distribution. dtype must be a floating point "
            f"but you specified {dtype!r}"
        )

"""Arrays of random numbers of every distribution; the CPU's half of ``nvrtc_kernels/cuda/distributions.cuh``.

Element ``i`` of a call, counted in row-major order of the target's shape, uses words ``i * w`` to
``(i + 1) * w`` of the call, where ``w`` is the number of words that an element of that distribution and
type takes. So neither the layout of the target nor the order of the work changes a number.

Half precision numbers are computed in single precision and rounded once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from nvrtc_kernels import random as kernels
from nvrtc_kernels.dtypes import float64
from nvrtc_kernels.elementary import cotangent_pi, exponential, logarithm
from tensor.core.host.ordering import stable_order

from . import transforms
from .philox import words

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Words = NDArray[np.uint32]

#: Elements computed at a time: temporaries stay in the second-level cache.
_CHUNK = 1 << 15
_DOUBLE = np.dtype(np.float64)
_BRAIN = np.dtype(ml_dtypes.bfloat16)
#: Largest double below 2**63: conversions to integers beyond it differ between machines.
_LARGEST = 9223372036854774784.0
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def words_per_element(distribution: str, dtype: np.dtype[Any], first: float = 0) -> int:
    """Random words that an element takes; ``first`` is the distribution's first parameter."""
    if distribution == "bernoulli":
        return 1
    if distribution == "random":
        return 2 if 0 < first <= 1 << 32 else 4
    return 2 if _compute_type(dtype) == _DOUBLE else 1


def _compute_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Single precision for itself and half precision, double for double and the integers."""
    return np.dtype(np.float32) if dtype.kind in "fV" and dtype.itemsize < 8 else _DOUBLE


def numbers(
    distribution: str,
    dtype: np.dtype[Any],
    count: int,
    seed: int,
    call: int,
    first: Any,
    second: Any = 0,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """The first ``count`` numbers of a call.

    Parameters
    ----------
    distribution
        With its parameters ``first`` and ``second``:

        ============  ==========================================================================
        uniform       in ``[first, second)``
        normal        mean, standard deviation
        log_normal    mean and standard deviation of the logarithm
        exponential   rate
        cauchy        median, half width at half maximum
        geometric     ``log(1 - p)``
        bernoulli     ``ceil(p * 2**32)``: 1 where a word is less; an integer or one per element
        random        integers in ``[second, second + first)``; ``first`` 0 stands for 2**64
        ============  ==========================================================================
    dtype
        Of the result.
    out
        Array of shape ``(count,)`` and ``dtype`` that the result is written to; a new one by default.

    Returns
    -------
    numpy.ndarray
        Shape ``(count,)``.

    Notes
    -----
    An integer of ``random`` is the upper part of a product of its range with 64 random bits (128 bits for
    ranges above 2**32): no value is more or less likely than another by more than a 2**-32 part (2**-64).
    """
    if out is None:
        out = np.empty(count, dtype)
    compute = _FUNCTIONS[distribution]
    per = words_per_element(distribution, dtype, 0 if isinstance(first, np.ndarray) else first)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for start in range(0, count, _CHUNK):
            stop = min(start + _CHUNK, count)
            drawn = words(seed, call, (stop - start) * per, start * per)
            parameter = first[start:stop] if isinstance(first, np.ndarray) else first
            out[start:stop] = compute(drawn, dtype, parameter, second)
    return out


def _uniform(drawn: Words, dtype: np.dtype[Any], low: float, high: float) -> NDArray[Any]:
    compute = _compute_type(dtype).type
    if compute is np.float64:
        u: Any = transforms.uniform64(drawn)
    elif dtype.itemsize == 4:
        u = transforms.uniform32(drawn)
    else:
        # As many bits as the type holds, so that rounding moves no number to the end of the range.
        bits = 8 if dtype == _BRAIN else 11
        u = (drawn >> np.uint32(32 - bits)).astype(np.float32) * np.float32(2.0**-bits)
    if (low, high) == (0, 1):
        return np.asarray(u.astype(dtype, copy=False))
    u *= compute(high) - compute(low)
    u += compute(low)
    result = u.astype(dtype, copy=False)
    outside = ~(result.astype(compute, copy=False) < compute(high))
    result[outside] = dtype.type(compute(low))
    return np.asarray(result)


def _standard_normal(drawn: Words, dtype: np.dtype[Any]) -> Any:
    return (transforms.normal64 if _compute_type(dtype) == _DOUBLE else transforms.normal32)(drawn)


def _normal(drawn: Words, dtype: np.dtype[Any], mean: float, std: float) -> Any:
    z = _standard_normal(drawn, dtype)
    z *= z.dtype.type(std)
    z += z.dtype.type(mean)
    return z.astype(dtype, copy=False)


def _log_normal(drawn: Words, dtype: np.dtype[Any], mean: float, std: float) -> Any:
    z = _standard_normal(drawn, dtype)
    return exponential(z * z.dtype.type(std) + z.dtype.type(mean)).astype(dtype)


def _open(drawn: Words, dtype: np.dtype[Any]) -> Any:
    return (transforms.open64 if _compute_type(dtype) == _DOUBLE else transforms.open32)(drawn)


def _exponential(drawn: Words, dtype: np.dtype[Any], rate: float, _: Any) -> Any:
    u = _open(drawn, dtype)
    return (-logarithm(u) / u.dtype.type(rate)).astype(dtype)


def _geometric(drawn: Words, dtype: np.dtype[Any], log_of_failure: float, _: Any) -> Any:
    u = _open(drawn, dtype)
    trials = np.ceil(logarithm(u) / u.dtype.type(log_of_failure))
    if dtype.kind in "fV":
        return trials.astype(dtype)
    return np.minimum(trials, _LARGEST).astype(np.int64).astype(dtype)


def _cauchy(drawn: Words, dtype: np.dtype[Any], median: float, sigma: float) -> Any:
    double = _compute_type(dtype) == _DOUBLE
    tail, negative = transforms.tail64(drawn) if double else transforms.tail32(drawn)
    element_dtype: Any = tail.dtype.type
    value = cotangent_pi(tail)
    return (np.where(negative, -value, value) * element_dtype(sigma) + element_dtype(median)).astype(dtype)


def _bernoulli(drawn: Words, dtype: np.dtype[Any], threshold: Any, _: Any) -> Any:
    return (drawn < np.asarray(threshold, np.uint64)).astype(dtype)


def _random(drawn: Words, dtype: np.dtype[Any], extent: int, low: int) -> Any:
    if 0 < extent <= 1 << 32:
        by = np.uint64(extent)
        pairs = drawn.reshape(-1, 2).astype(np.uint64)
        offset = (pairs[:, 1] * by + (pairs[:, 0] * by >> _HALF)) >> _HALF
    else:
        halves = transforms.joined(drawn).reshape(-1, 2)
        offset = halves[:, 1]
        if extent:
            by = np.uint64(extent)
            carried = _high_product(halves[:, 0], by)
            carry = (halves[:, 1] * by + carried) < carried
            offset = _high_product(halves[:, 1], by) + carry
    values = (offset + np.uint64(low & 0xFFFFFFFFFFFFFFFF)).view(np.int64)
    return values.astype(dtype)


def _high_product(a: NDArray[np.uint64], b: np.uint64) -> NDArray[np.uint64]:
    """Upper 64 bits of the products."""
    a0, a1, b0, b1 = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    middle = a1 * b0 + (a0 * b0 >> _HALF)
    other = a0 * b1 + (middle & _LOW)
    result: NDArray[np.uint64] = a1 * b1 + (middle >> _HALF) + (other >> _HALF)
    return result


_FUNCTIONS: dict[str, Callable[[Words, np.dtype[Any], Any, Any], Any]] = {
    "uniform": _uniform,
    "normal": _normal,
    "log_normal": _log_normal,
    "exponential": _exponential,
    "geometric": _geometric,
    "cauchy": _cauchy,
    "bernoulli": _bernoulli,
    "random": _random,
}


def threshold(probability: Any) -> Any:
    """``ceil(p * 2**32)`` as ``bernoulli`` takes it: an int, or ``uint64`` for an array of probabilities."""
    if isinstance(probability, np.ndarray):
        return np.ceil(probability.astype(np.float64) * 2.0**32).astype(np.uint64)
    return int(np.ceil(float(probability) * 2.0**32))


def permutation(count: int, seed: int, call: int) -> NDArray[np.int64]:
    """The numbers below ``count`` in random order: the stable order of as many random 64-bit keys."""
    return stable_order(transforms.joined(words(seed, call, 2 * count)))


def categories(
    weights: NDArray[np.float64], count: int, replacement: bool, seed: int, call: int
) -> NDArray[np.int64]:
    """Categories drawn with probabilities in proportion to ``weights``.

    Parameters
    ----------
    weights
        Shape ``(rows, categories)``; each row has a positive sum.
    count
        Draws per row; without ``replacement`` at most the row's positive weights.

    Returns
    -------
    numpy.ndarray
        Shape ``(rows, count)``. Without replacement a row holds no category twice: the categories with
        the largest ``weight / e`` are drawn, for independent exponential numbers ``e`` (P. Efraimidis, P.
        Spirakis, "Weighted random sampling with a reservoir", 2006).
    """
    rows, size = weights.shape
    if not replacement:
        e = _doubles("exponential", rows * size, seed, call, 1.0).reshape(rows, size)
        return _largest(np.divide(weights, e, out=e), count)
    u = _doubles("uniform", rows * count, seed, call, 0.0, 1.0).reshape(rows, count)
    out = np.empty((rows, count), np.int64)
    for row in range(rows):
        sums = np.cumsum(weights[row])
        last = int(np.flatnonzero(weights[row])[-1])
        # Sums stay level at a weight of zero, and the right side steps over it.
        out[row] = np.minimum(np.searchsorted(sums, u[row] * sums[-1], side="right"), last)
    return out


def _doubles(
    distribution: str, count: int, seed: int, call: int, first: float, second: float = 0.0
) -> NDArray[np.float64]:
    """What :func:`numbers` gives as float64, by a native loop where there is one."""
    name, *parameters = kernels.parameters_of(distribution, first, second)
    loop = kernels.plan_on_host(name, float64, count)
    if loop is None:
        return numbers(distribution, _DOUBLE, count, seed, call, first, second)
    result = np.empty(count)
    loop(result.ctypes.data, seed, call, *parameters)
    return result


def _largest(a: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Positions of the ``count`` largest numbers of each row, in stable order from the largest on."""
    rows, size = a.shape
    if count > size // _PART:
        return np.ascontiguousarray(stable_order(a, descending=True)[:, :count])
    result = np.empty((rows, count), np.int64)
    limits = np.partition(a, size - count, axis=1)[:, size - count]
    for row, (keys, limit) in enumerate(zip(a, limits, strict=True)):
        candidates = np.flatnonzero(keys >= limit)
        result[row] = candidates[stable_order(keys[candidates], descending=True)[:count]]
    return result


#: From which part of a row on selecting its largest numbers is quicker than sorting it.
_PART = 4

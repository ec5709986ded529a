"""Variances, standard deviations and norms."""

from __future__ import annotations

import builtins
import math
from math import prod as product_of
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import reducers
from nvrtc_kernels.dtypes import Category, dtype
from nvrtc_kernels.host_loops.row_sums import row_sums
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.base import TensorBase
from tensor.core.host.memory import empty_array
from tensor.core.host.scratch import scratch
from tensor.operations.autocast import FLOAT32_RESULT, Autocast
from tensor.operations.definition import operation
from tensor.operations.pointwise.comparisons import eq
from tensor.operations.pointwise.selection import where
from tensor.operations.reduction import (
    Reduction,
    are_last,
    axes_of,
    dtype_to_compute_in,
    into_out,
    keep_dims,
    kept_shape,
    stretched,
)

from .sums import converted, mean, mean_form, sum, sum_form

REAL = (Category.BOOL, Category.INTEGER, Category.FLOATING)
FLOATING = (Category.FLOATING, Category.COMPLEX)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


def _real(dtype: dtype) -> tuple[dtype, tuple[dtype, ...]]:
    return dtype, (dtype.to_real(),)


def _real_and_mean(dtype: dtype) -> tuple[dtype, tuple[dtype, ...]]:
    return dtype, (dtype.to_real(), dtype)


def _moments(a: Array, axes: tuple[int, ...], correction: float) -> tuple[Array, Array]:
    """Variance and mean, by the mean first: no large squares are subtracted."""
    count = product_of(a.shape[axis] for axis in axes)
    mean = mean_form(a, axes)
    centred = np.subtract(a, mean.astype(a.dtype), out=empty_array(a.shape, a.dtype))
    squares = (
        centred.real**2 + centred.imag**2
        if a.dtype.kind == "c"
        else np.multiply(centred, centred, out=centred)
    )
    return sum_form(squares, axes) / np.float64(builtins.max(count - correction, 0)), mean


def _deviation_and_mean(a: Array, axes: tuple[int, ...], correction: float) -> tuple[Array, Array]:
    variance, mean = _moments(a, axes, correction)
    return np.sqrt(variance), mean


#: Elements whose squares are added up at a time, so that they stay in the cache, and by one call, which BLAS would share among
#: threads if they were many more.
_BLOCK, _RUN = 1 << 15, 1 << 12


def _sum_of_squares(a: Array, axes: tuple[int, ...]) -> Array:
    """Of real numbers, in double precision: the squares of large numbers of single precision overflow."""
    shape = kept_shape(a.shape, axes)
    trailing = are_last(axes, a.ndim)
    if not (trailing and a.size and a.flags.c_contiguous):
        double = a.astype(np.float64)
        return np.asarray(np.sum(np.multiply(double, double, out=double), axis=axes, keepdims=True))
    rows = a.reshape(product_of(shape), -1)
    count, n = rows.shape
    totals = row_sums(rows, squares=True) if a.dtype == np.float32 else None
    if totals is not None:
        return totals.reshape(shape)
    result = np.empty(count)
    if n <= _RUN:
        step = _BLOCK // n
        for start in builtins.range(0, count, step):
            double = _double(rows[start : start + step])
            np.vecdot(double, double, out=result[start : start + step])
        return result.reshape(shape)
    for number, row in enumerate(rows):
        total = np.float64(0)
        for start in builtins.range(0, n, _BLOCK):
            double = _double(row[start : start + _BLOCK])
            whole = len(double) // _RUN * _RUN
            runs, rest = double[:whole].reshape(-1, _RUN), double[whole:]
            total += np.vecdot(runs, runs).sum() + np.dot(rest, rest)
        result[number] = total
    return result.reshape(shape)


def _double(a: Array) -> Array:
    result = scratch(a, np.float64)
    np.copyto(result, a)
    return result


def _norm(a: Array, axes: tuple[int, ...], order: float) -> Array:
    if order == 2 and a.dtype.kind == "f":
        return np.sqrt(_sum_of_squares(a, axes))
    size = np.abs(a)
    if order == 0:
        return sum_form((size != 0).astype(size.dtype), axes)
    if math.isinf(order):
        result = (
            np.max(size, axis=axes, keepdims=True) if order > 0 else np.min(size, axis=axes, keepdims=True)
        )
        return np.asarray(result)
    if order == 1:
        return sum_form(size, axes)
    if order == 2:
        # Squares are made in double: the squares of large single precision numbers overflow.
        double = size.astype(np.float64)
        norm: Array = np.sqrt(np.sum(double * double, axis=axes, keepdims=True))
    else:
        norm = np.power(np.sum(np.power(size.astype(np.float64), order), axis=axes, keepdims=True), 1 / order)
    return norm


NORM = Reduction("norm", reducers.norm, _norm, _real, categories=FLOATING)
VAR = Reduction(
    "var",
    reducers.VAR,
    lambda a, axes, correction: _moments(a, axes, correction)[0],
    _real,
    categories=FLOATING,
)
STD = Reduction(
    "std",
    reducers.STD,
    lambda a, axes, correction: np.sqrt(_moments(a, axes, correction)[0]),
    _real,
    categories=FLOATING,
)
VAR_MEAN = Reduction("var_mean", reducers.VAR_MEAN, _moments, _real_and_mean, categories=FLOATING)
STD_MEAN = Reduction(
    "std_mean",
    reducers.STD_MEAN,
    _deviation_and_mean,
    _real_and_mean,
    categories=FLOATING,
)


def _correction(unbiased: Any, correction: Any) -> float:
    if correction is not None:
        return float(correction)
    return 1.0 if unbiased is None or unbiased else 0.0


def _variance_arguments(dim: Any, unbiased: Any) -> tuple[Any, Any]:
    """``var(input, False)`` means ``unbiased``, ``var(input, 0)`` a dimension."""
    return (None, dim) if isinstance(dim, bool) else (dim, unbiased)


def _var_gradient(grad: Tensor, a: Tensor, shape: Any, axes: Any, keepdim: bool, correction: float) -> Tensor:
    count = product_of(shape[axis] for axis in axes)
    centred = a - mean(a, list(axes), keepdim=True) if axes else a - a
    return keep_dims(grad, axes, keepdim) * (centred * (2.0 / _divisor(count, correction)))


def _divisor(count: int, correction: float) -> float:
    return count - correction if count > correction else math.nan


def _std_gradient(
    grad: Tensor, a: Tensor, out: Tensor, shape: Any, axes: Any, keepdim: bool, correction: float
) -> Tensor:
    scaled = where(eq(out, 0), out.new_zeros(()), grad / (out * 2))
    return _var_gradient(scaled, a, shape, axes, keepdim, correction)


def _mean_gradient(grad: Tensor, shape: Any, axes: Any, keepdim: bool) -> Tensor:
    count = product_of(shape[axis] for axis in axes)
    return stretched(grad / count, shape, axes, keepdim)


def _both(variance: Tensor | None, mean: Tensor | None) -> Tensor | None:
    if variance is None or mean is None:
        return mean if variance is None else variance
    return variance + mean


def _var_mean_gradient(
    grad: Tensor | None,
    mean_grad: Tensor | None,
    a: Tensor,
    shape: Any,
    axes: Any,
    keepdim: bool,
    less: float,
) -> Tensor | None:
    return _both(
        None if grad is None else _var_gradient(grad, a, shape, axes, keepdim, less),
        None if mean_grad is None else _mean_gradient(mean_grad, shape, axes, keepdim),
    )


def _std_mean_gradient(
    grad: Tensor | None,
    mean_grad: Tensor | None,
    a: Tensor,
    out: Tensor,
    shape: Any,
    axes: Any,
    keepdim: bool,
    less: float,
) -> Tensor | None:
    return _both(
        None if grad is None else _std_gradient(grad, a, out, shape, axes, keepdim, less),
        None if mean_grad is None else _mean_gradient(mean_grad, shape, axes, keepdim),
    )


_VAR_BACKWARD = BackwardFormula("VarBackward0", "a", [Derivative(_var_gradient, needs="a")])
_STD_BACKWARD = BackwardFormula("StdBackward0", "a", [Derivative(_std_gradient, needs="a out")])
_VAR_MEAN_BACKWARD = BackwardFormula(
    "VarMeanBackward0", "a", [Derivative(_var_mean_gradient, needs="a")], outputs="var mean"
)
_STD_MEAN_BACKWARD = BackwardFormula(
    "StdMeanBackward0", "a", [Derivative(_std_mean_gradient, needs="a std")], outputs="std mean"
)


def _widened(input: Tensor, out: Tensor | None) -> Tensor:
    """``input`` as precise as ``out``, as PyTorch computes it, where that is a wider floating dtype."""
    if not isinstance(out, TensorBase):
        return input
    dtype, result = input._layout.dtype, out._layout.dtype
    wider = dtype.is_floating_point and result.is_floating_point and result.itemsize > dtype.itemsize
    return converted(input, result) if wider else input


@operation()
def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Variance over the dimensions ``dim``, by default all: squares of deviations over ``N - correction``.

    NaN where there are not more elements than the correction and all deviations are 0.

    Parameters
    ----------
    input : Tensor
        Of a floating or complex dtype; a complex one gives the real dtype of its parts.
    dim : int or sequence of int, optional
        Dimensions to reduce, negative ones counted from the end; by default (and for an empty sequence) all.
    unbiased : bool, optional
        True is ``correction=1`` (the default), False ``correction=0``.
    keepdim : bool
        Whether the reduced dimensions stay, with size 1.
    correction : number, optional
        What is taken from the number of elements N before it divides.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (floating, complex).

    Raises
    ------
    IndexError
        If there is no such dimension.
    RuntimeError
        If the dtype is bool or an integer one, or a dimension is named twice.

    Examples
    --------
    >>> tensor.var(tensor.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor(1.6667)
    >>> tensor.var(tensor.tensor([[1.0, 3.0], [2.0, 6.0]]), dim=1, correction=0)
    tensor([1., 4.])
    """
    dim, unbiased = _variance_arguments(dim, unbiased)
    axes, less = axes_of("var", input, dim), _correction(unbiased, correction)
    results = VAR(input, axes, keepdim, less)
    _VAR_BACKWARD.record(results, (input,), context=(input._layout.shape, axes, keepdim, less))
    return into_out(results[0], out, "var", casts=True)


@operation()
def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Standard deviation, the square root of :func:`var`, over the dimensions ``dim``, by default all.

    Parameters
    ----------
    input : Tensor
        Of a floating or complex dtype; a complex one gives the real dtype of its parts.
    dim : int or sequence of int, optional
        Dimensions to reduce, negative ones counted from the end; by default (and for an empty sequence) all.
    unbiased : bool, optional
        True is ``correction=1`` (the default), False ``correction=0``.
    keepdim : bool
        Whether the reduced dimensions stay, with size 1.
    correction : number, optional
        What is taken from the number of elements N before it divides.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (floating, complex).

    Raises
    ------
    IndexError
        If there is no such dimension.
    RuntimeError
        If the dtype is bool or an integer one, or a dimension is named twice.

    Examples
    --------
    >>> tensor.std(tensor.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor(1.2910)
    """
    dim, unbiased = _variance_arguments(dim, unbiased)
    axes, less = axes_of("std", input, dim), _correction(unbiased, correction)
    results = STD(input, axes, keepdim, less)
    context = (input._layout.shape, axes, keepdim, less)
    _STD_BACKWARD.record(results, (input,), context=context)
    return into_out(results[0], out, "std", casts=True)


@operation(method=False)
def var_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Variance and mean in one pass, over the dimensions ``dim``, by default all; see :func:`var`.

    Parameters
    ----------
    input : Tensor
        Of a floating or complex dtype; a complex one gives the real dtype of its parts.
    dim : int or sequence of int, optional
        Dimensions to reduce, negative ones counted from the end; by default (and for an empty sequence) all.
    unbiased : bool, optional
        True is ``correction=1`` (the default), False ``correction=0``.
    keepdim : bool
        Whether the reduced dimensions stay, with size 1.
    correction : number, optional
        What is taken from the number of elements N before it divides.

    Returns
    -------
    tuple of Tensor
        Variance, of a real dtype, and mean, of the input's.

    Raises
    ------
    IndexError
        If there is no such dimension.
    RuntimeError
        If the dtype is bool or an integer one, or a dimension is named twice.

    Examples
    --------
    >>> variance, mean = tensor.var_mean(tensor.tensor([1.0, 2.0, 3.0, 4.0]))
    >>> variance, mean
    (tensor(1.6667), tensor(2.5000))
    """
    dim, unbiased = _variance_arguments(dim, unbiased)
    axes, less = axes_of("var_mean", input, dim), _correction(unbiased, correction)
    first, second = results = VAR_MEAN(input, axes, keepdim, less)
    context = (input._layout.shape, axes, keepdim, less)
    _VAR_MEAN_BACKWARD.record(results, (input,), context=context)
    return first, second


@operation(method=False)
def std_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean in one pass, over the dimensions ``dim``, by default all.

    Parameters
    ----------
    input : Tensor
        Of a floating or complex dtype; a complex one gives the real dtype of its parts.
    dim : int or sequence of int, optional
        Dimensions to reduce, negative ones counted from the end; by default (and for an empty sequence) all.
    unbiased : bool, optional
        True is ``correction=1`` (the default), False ``correction=0``.
    keepdim : bool
        Whether the reduced dimensions stay, with size 1.
    correction : number, optional
        What is taken from the number of elements N before it divides.

    Returns
    -------
    tuple of Tensor
        Standard deviation, of a real dtype, and mean, of the input's.

    Raises
    ------
    IndexError
        If there is no such dimension.
    RuntimeError
        If the dtype is bool or an integer one, or a dimension is named twice.

    Examples
    --------
    >>> deviation, mean = tensor.std_mean(tensor.tensor([1.0, 2.0, 3.0, 4.0]))
    >>> deviation, mean
    (tensor(1.2910), tensor(2.5000))
    """
    dim, unbiased = _variance_arguments(dim, unbiased)
    axes, less = axes_of("std_mean", input, dim), _correction(unbiased, correction)
    first, second = results = STD_MEAN(input, axes, keepdim, less)
    context = (input._layout.shape, axes, keepdim, less)
    _STD_MEAN_BACKWARD.record(results, (input,), context=context)
    return first, second


def _norm_gradient(
    grad: Tensor, a: Tensor, out: Tensor, shape: Any, axes: Any, keepdim: bool, order: float
) -> Tensor:
    grad, out = keep_dims(grad, axes, keepdim), keep_dims(out, axes, keepdim)
    if order == 0:
        return a.new_zeros(shape)
    if order == 1:
        return a.sgn() * grad
    if order == 2:
        return a * where(eq(out, 0), out.new_zeros(()), grad / out)
    size = a.abs()
    if math.isinf(order):
        hits = eq(size, out).to(size._layout.dtype)
        return a.sgn() * hits * (grad / (sum(hits, list(axes), keepdim=True) if axes else hits))
    scale = where(eq(out, 0), out.new_zeros(()), grad / out.pow(order - 1))
    if order < 2:
        inner = where(eq(size, 0), size.new_zeros(()), size.pow(order - 1))
        return a.sgn() * inner * scale
    return a * size.pow(order - 2) * scale


_NORM_BACKWARD = BackwardFormula(
    "LinalgVectorNormBackward0", "a", [Derivative(_norm_gradient, needs="a out")]
)


@operation(namespace="linalg", method=False, autocast=Autocast(cuda=FLOAT32_RESULT))
def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Vector norm ``sum(abs(x)**ord)**(1 / ord)`` over the dimensions ``dim``, by default all.

    Parameters
    ----------
    x : Tensor
        Of a floating or complex dtype; a complex one gives the real dtype of its parts.
    ord : float
        Infinity is the largest magnitude, minus infinity the smallest, and 0 counts the elements that are not
        0.
    dim : int or sequence of int, optional
        Dimensions to reduce, negative ones counted from the end; by default (and for an empty sequence) all.
    keepdim : bool
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        Dtype to convert to first, and of the result; by default the input's.
    out : Tensor, optional
        Tensor of the result's dtype that the result is written to, resized to its shape.

    Raises
    ------
    IndexError
        If there is no such dimension.
    RuntimeError
        If the dtype is bool or an integer one, a dimension is named twice, or one of size 0 is reduced with a
        negative or infinite ``ord``.
    TypeError
        If ``ord`` is a string.

    Examples
    --------
    >>> tensor.linalg.vector_norm(tensor.tensor([3.0, -4.0]))
    tensor(5.)
    >>> tensor.linalg.vector_norm(tensor.tensor([3.0, -4.0]), ord=1)
    tensor(7.)
    """
    if isinstance(ord, str):  # type: ignore[unreachable]
        raise TypeError("linalg_vector_norm(): argument 'ord' (position 2) must be Number, not str")
    input = converted(x, dtype_to_compute_in("linalg.vector_norm", dtype, None))
    if input._layout.dtype.category < Category.FLOATING:
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {input._layout.dtype!r}"
        )
    axes, order = axes_of("vector_norm", input, dim), float(ord)
    if any_empty(input, axes) and (order < 0 or math.isinf(order)):
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the operation does not have an "
            "identity"
        )
    results = NORM(input, axes, keepdim, order)
    context = (input._layout.shape, axes, keepdim, order)
    _NORM_BACKWARD.record(results, (input,), context=context)
    return into_out(results[0], out, "vector_norm")


def any_empty(input: Tensor, axes: Sequence[int]) -> bool:
    """Whether nothing is reduced, although there are results."""
    return 0 in [input._layout.shape[axis] for axis in axes]

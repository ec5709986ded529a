"""Sums, means and products of elements, and counts."""

from __future__ import annotations

import builtins
from math import prod as product_of
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.host.threads import share
from nvrtc_kernels import dtypes, reducers
from nvrtc_kernels.dtypes import Category, dtype
from nvrtc_kernels.host_loops.row_sums import row_sums
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.arguments import integers
from tensor.core.base import TensorBase
from tensor.core.creation_arguments import sizes_of
from tensor.core.dtypes.default import get_default_dtype
from tensor.core.host.scratch import scratch
from tensor.core.modes.grad_mode import modes
from tensor.core.plans.copies import host_conversion
from tensor.operations.autocast import FLOAT32, FLOAT32_RESULT, Autocast
from tensor.operations.definition import operation
from tensor.operations.pointwise.comparisons import eq, isnan
from tensor.operations.pointwise.complex_numbers import conjugate
from tensor.operations.pointwise.logic import logical_not
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
from tensor.operations.shapes import views

from .recurrences import later_products, running_before

REAL = (Category.BOOL, Category.INTEGER, Category.FLOATING)
FLOATING = (Category.FLOATING, Category.COMPLEX)
#: By the category of the input: those of outputs in whose dtype a mean is computed.
_MEANS_IN = {Category.FLOATING: FLOATING, Category.COMPLEX: (Category.COMPLEX,)}

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


# Types


def _total(dtype: dtype) -> tuple[dtype, tuple[dtype, ...]]:
    """Integers are added up in 64 bits."""
    dtype = dtypes.int64 if dtype.category < Category.FLOATING else dtype
    return dtype, (dtype,)


def _same(dtype: dtype) -> tuple[dtype, tuple[dtype, ...]]:
    return dtype, (dtype,)


def _floating_only(name: str) -> Callable[[dtype], tuple[dtype, tuple[dtype, ...]]]:
    def rule(dtype: dtype) -> tuple[dtype, tuple[dtype, ...]]:
        if dtype.category < Category.FLOATING:
            raise RuntimeError(
                f"{name}(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
                f"Got: {dtype!r}"
            )
        return dtype, (dtype,)

    return rule


# NumPy forms: the reduced dimensions are kept


def accumulate_type(a: Array, axes: tuple[int, ...]) -> Any:
    """Type to add up in: NumPy adds pairwise, with small errors, only along the innermost dimension."""
    inner = bool(axes) and axes[-1] == a.ndim - 1 and a.flags.c_contiguous
    if inner or a.dtype.kind not in "fc":
        return None
    return {"f": np.float64, "c": np.complex128}[a.dtype.kind]


#: Elements that are added up in single precision, one after the other, at most.
_FEW = 8
#: Elements of a vector addition that are worth a call of its loop.
_VECTOR = 2048
#: Elements of rows that are multiplied one after the other.
_SHORT = 256


def sum_form(a: Array, axes: tuple[int, ...]) -> Array:
    if a.dtype in _CONVERSIONS:
        return _sum_of_halves(a, axes)
    dtype = accumulate_type(a, axes)
    if dtype is None and a.dtype == np.float32 and are_last(axes, a.ndim):
        outer = a.shape[: a.ndim - len(axes)]
        totals = row_sums(a.reshape(product_of(outer), -1)) if a.size else None
        if totals is not None:
            return totals.astype(np.float32).reshape(*outer, *[1] * len(axes))
    if dtype is None and len(axes) == a.ndim and a.size >= 16 * _FEW * _VECTOR and a.dtype.kind == "f":
        # Few vectors at a time, and the eighth that is left pairwise, whose loop is none of vectors of the processor.
        flat = a.reshape(-1)
        count = a.size // (_FEW * _VECTOR) * (_FEW * _VECTOR)
        most = flat[:count].reshape(-1, _FEW, _VECTOR).sum(1)
        return np.reshape(most.sum() + flat[count:].sum(), (1,) * a.ndim)
    if dtype is np.float64 and a.dtype == np.float32 and axes == (0,) and a.flags.c_contiguous:
        count = len(a) // _FEW
        if count > 1:
            # A few at a time in single precision, whose loops are vectors of the processor, and those sums in double.
            most = np.add.reduce(a[: count * _FEW].reshape(count, _FEW, *a.shape[1:]), 1)
            left = a[count * _FEW :]
            rest = np.add.reduce(left, 0, dtype, keepdims=True) if len(left) else 0.0
            return np.asarray(np.add.reduce(most, 0, dtype, keepdims=True) + rest)
    return np.asarray(np.add.reduce(a, axis=axes, keepdims=True, dtype=dtype))


#: Elements of half precision that are converted at a time, so that they stay in the cache.
_BLOCK = 1 << 16
#: What copies half precision to single, by the dtype of the array.
_CONVERSIONS = {
    each.numpy: host_conversion(each, dtypes.float32) for each in (dtypes.float16, dtypes.bfloat16)
}


def _sum_of_halves(a: Array, axes: tuple[int, ...]) -> Array:
    """Sums of half precision, in single or double precision; of many elements those of blocks, and of these."""
    leading, trailing = axes == (*range(len(axes)),), are_last(axes, a.ndim)
    shape = kept_shape(a.shape, axes)
    if a.flags.c_contiguous and a.size > _BLOCK:
        if trailing:
            return _sums_of_rows(a.reshape(product_of(shape), -1)).reshape(shape)
        if leading:
            rows = a.reshape(-1, product_of(shape))
            sums = _of_blocks(rows, lambda block: sum_form(block, (0,)))
            return np.sum(sums, axis=0, dtype=np.float64).reshape(shape)
    array = np.empty(a.shape, np.float32)
    _CONVERSIONS[a.dtype](array, a)
    return sum_form(array, axes)


def _sums_of_rows(rows: Array) -> Array:
    n = rows.shape[1]
    totals = row_sums(rows)
    if totals is not None:
        return totals.astype(np.float32)
    if n <= _BLOCK:
        return np.concatenate(_of_blocks(rows, lambda block: np.add.reduce(block, axis=1)))
    whole = n // _VECTOR * _VECTOR
    sums = [
        # Vectors of many elements are added up as quickly as the processor can.
        np.sum(_of_blocks(row[:whole].reshape(-1, _VECTOR), lambda block: np.add.reduce(block, axis=0).sum()))
        + row[whole:].astype(np.float32).sum()
        for row in rows
    ]
    return np.array(sums, np.float32)


def _of_blocks(rows: Array, function: Callable[[Array], Array]) -> list[Array]:
    """What a function makes of blocks of rows of half precision in single precision."""
    convert, count = _CONVERSIONS[rows.dtype], min(-(-rows.size // _BLOCK), len(rows))
    bounds = [len(rows) * number // count for number in range(count + 1)]
    results: list[Any] = [None] * count

    def work(number: int) -> None:
        block = rows[bounds[number] : bounds[number + 1]]
        single = scratch(block, np.float32)
        with np.errstate(all="ignore"):
            convert(single, block)
            results[number] = function(single)

    share(work, count)
    return results


def mean_form(a: Array, axes: tuple[int, ...]) -> Array:
    count = product_of(a.shape[axis] for axis in axes)
    total = sum_form(a, axes)
    single = a.dtype in _CONVERSIONS or a.dtype == np.float32
    result: Array = total / (
        np.float32(count) if single else a.dtype.type(count) if a.dtype.kind == "f" else count
    )
    return result


def _logsumexp(a: Array, axes: tuple[int, ...]) -> Array:
    if builtins.any(a.shape[axis] == 0 for axis in axes):
        return np.log(sum_form(a, axes))
    top = np.max(a.real if a.dtype.kind == "c" else a, axis=axes, keepdims=True)
    shift = np.where(np.isfinite(top), top, 0)
    return np.log(sum_form(np.exp(a - shift), axes)) + shift


def _prod(a: Array, axes: tuple[int, ...]) -> Array:
    dtype = accumulate_type(a, axes)
    trailing = are_last(axes, a.ndim)
    if dtype is None and a.dtype.kind == "f" and trailing and a.size > _BLOCK:
        shape = kept_shape(a.shape, axes)
        return _products_of_rows(a.reshape(product_of(shape), -1)).reshape(shape)
    return np.asarray(np.prod(a, axis=axes, keepdims=True, dtype=dtype))


def _products_of_rows(rows: Array) -> Array:
    """Products of rows: of parts of each, element by element, until few elements are left, where NumPy takes one by one."""
    count, n = rows.shape
    if n < _SHORT:
        return np.asarray(np.multiply.reduce(rows, axis=1))
    # Long rows in vectors, which stay in the cache.
    length = _VECTOR if n >= _FEW * _VECTOR else n // _FEW
    whole = n // (_FEW * length) * (_FEW * length)
    most = np.multiply.reduce(rows[:, :whole].reshape(count, -1, _FEW, length), axis=2)
    result = _products_of_rows(most.reshape(count, -1))
    result *= np.multiply.reduce(rows[:, whole:], axis=1)
    return result


def _nansum(a: Array, axes: tuple[int, ...]) -> Array:
    if a.dtype.kind in "fc":
        # Most sums have no NaN to leave out, and show one.
        total = sum_form(a, axes)
        if not np.isnan(total).any():
            return total
    return sum_form(np.where(np.isnan(a), a.dtype.type(0), a) if a.dtype.kind in "fc" else a, axes)


def _nanmean(a: Array, axes: tuple[int, ...]) -> Array:
    there = np.sum(~np.isnan(a), axis=axes, keepdims=True)
    result: Array = _nansum(a, axes) / there.astype(a.dtype)
    return result


SUM = Reduction("sum", reducers.SUM, sum_form, _total, halves=True)
#: Sums of half precision that are not rounded to it.
SUM_IN_SINGLE = Reduction(
    "sum", reducers.SUM, sum_form, lambda _: (dtypes.float32, (dtypes.float32,)), halves=True
)
PROD = Reduction(
    "prod",
    reducers.PROD,
    _prod,
    _total,
)
MEAN = Reduction("mean", reducers.MEAN, mean_form, _floating_only("mean"), halves=True)
LOGSUMEXP = Reduction("logsumexp", reducers.LOGSUMEXP, _logsumexp, _same, categories=(Category.FLOATING,))
NANSUM = Reduction("nansum", reducers.NANSUM, _nansum, _total, categories=REAL)
NANMEAN = Reduction("nanmean", reducers.NANMEAN, _nanmean, _same, categories=(Category.FLOATING,))


def converted(input: Tensor, dtype: dtype | None) -> Tensor:
    if not isinstance(input, TensorBase):
        raise TypeError(f"argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return input if dtype is None or dtype is input._layout.dtype else input.to(dtype)


def _sum_gradient(grad: Tensor, shape: Any, axes: Any, keepdim: bool) -> Tensor:
    return stretched(grad, shape, axes, keepdim)


SUM_BACKWARD = BackwardFormula("SumBackward1", "a", [Derivative(_sum_gradient, needs="")])
_SUM_OF_ALL = SUM_BACKWARD.named("SumBackward0")


@operation(autocast=Autocast(cuda=FLOAT32_RESULT))
def sum(
    input: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Sum over the dimensions ``dim``, by default all.

    Parameters
    ----------
    dim : int or sequence of int, optional
        Dimensions to reduce, negative ones counted from the end; by default (and for an empty sequence) all.
    keepdim : bool
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        Dtype to convert to first, and of the result; by default the input's, or int64 for integers and bools.
        CUDA autocast adds up in float32.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; where no ``dtype`` is given, its dtype is taken
        for that.

    Raises
    ------
    IndexError
        If there is no such dimension.
    RuntimeError
        If a dimension is named twice.

    Examples
    --------
    >>> x = tensor.tensor([[1, 2], [3, 4]])
    >>> tensor.sum(x)
    tensor(10)
    >>> tensor.sum(x, dim=1, keepdim=True)
    tensor([[3],
            [7]])
    """
    if dtype is not None or out is not None:
        dtype = dtype_to_compute_in("sum", dtype, out)
    input = converted(input, dtype)
    axes = axes_of("sum", input, dim)
    if dtype is not None and dtype.category < Category.FLOATING and dtype is not dtypes.int64:
        return into_out(SUM(input, axes, keepdim)[0].to(dtype), out, "sum")
    results = SUM(input, axes, keepdim)
    if input._autograd is not None:
        formula = _SUM_OF_ALL if dim is None else SUM_BACKWARD
        formula.record(results, (input,), context=(input._layout.shape, axes, keepdim))
    return results[0] if out is None else into_out(results[0], out, "sum")


@operation(namespace="")
def sum_to_size(input: Tensor, *sizes: Any, size: Any = None) -> Tensor:
    """Sum over the dimensions that broadcasting ``size`` to this shape stretches: of shape ``size``.

    Parameters
    ----------
    sizes : int
        Sizes, one by one or as a sequence.
    size : sequence of int, optional
        The sizes by name.

    Raises
    ------
    RuntimeError
        If ``size`` does not broadcast to this shape.

    Examples
    --------
    >>> tensor.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    expected = integers(sizes, "sum_to_size") if size is None else sizes_of(sizes, size, "sum_to_size")
    shape = input._layout.shape
    lead = len(shape) - len(expected)
    if lead < 0 or builtins.any(a not in (1, b) for a, b in zip(expected, shape[lead:], strict=True)):
        raise RuntimeError(f"size {{{list(expected)}}} is not expandable to size {{{list(shape)}}}.")
    stretched_dims = [
        axis for axis, (a, b) in enumerate(zip(expected, shape[lead:], strict=True), lead) if a != b
    ]
    axes = [*range(lead), *stretched_dims]
    return views.view(sum(input, axes, keepdim=True), expected) if axes else input


_NANSUM_BACKWARD = BackwardFormula(
    "NansumBackward0",
    "a",
    [Derivative(lambda grad, a, *context: stretched(grad, *context) * logical_not(isnan(a)), needs="a")],
)


@operation()
def nansum(
    input: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Sum that takes NaN as 0, over the dimensions ``dim``, by default all.

    Parameters
    ----------
    dim : int or sequence of int, optional
        Dimensions to reduce, negative ones counted from the end; by default (and for an empty sequence) all.
    keepdim : bool
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        Dtype to convert to first, and of the result; by default the input's, or int64 for integers and bools.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; where no ``dtype`` is given, its dtype is taken
        for that.

    Raises
    ------
    IndexError
        If there is no such dimension.
    RuntimeError
        If a dimension is named twice, or ``input`` is complex, or becomes it from floating point by ``dtype``.

    Examples
    --------
    >>> tensor.nansum(tensor.tensor([1.0, float('nan'), 2.0]))
    tensor(3.)
    """
    if isinstance(input, TensorBase) and input._layout.dtype.category < Category.FLOATING:
        return sum(input, dim, keepdim, dtype=dtype, out=out)
    is_floating = isinstance(input, TensorBase) and input._layout.dtype.is_floating_point
    # Fractions are not lost for an output of integers.
    dtype = dtype_to_compute_in("nansum", dtype, out, (Category.FLOATING,) if is_floating else ())
    input = converted(input, dtype)
    axes = axes_of("nansum", input, dim)
    results = NANSUM(input, axes, keepdim)
    if input._autograd is not None:
        _NANSUM_BACKWARD.record(results, (input,), context=(input._layout.shape, axes, keepdim))
    result = results[0]
    if out is not None and dtype is None and not is_floating:
        result = result.to(out._layout.dtype)
    return into_out(result, out, "nansum")


_MEAN_BACKWARD = BackwardFormula(
    "MeanBackward1",
    "a",
    [
        Derivative(
            lambda grad, shape, axes, keepdim, count: stretched(grad / count, shape, axes, keepdim), needs=""
        )
    ],
)
_MEAN_OF_ALL = _MEAN_BACKWARD.named("MeanBackward0")


@operation()
def mean(
    input: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Arithmetic mean over the dimensions ``dim``, by default all; NaN where there are no elements.

    Parameters
    ----------
    dim : int or sequence of int, optional
        Dimensions to reduce, negative ones counted from the end; by default (and for an empty sequence) all.
    keepdim : bool
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        Dtype to convert to first, and of the result; by default the input's.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; where no ``dtype`` is given, its dtype is taken
        for that.

    Raises
    ------
    IndexError
        If there is no such dimension.
    RuntimeError
        If a dimension is named twice, or the dtype is bool or an integer one: give a floating ``dtype``.

    Examples
    --------
    >>> tensor.mean(tensor.tensor([[1.0, 2.0], [3.0, 6.0]]), dim=0)
    tensor([2., 4.])
    >>> tensor.mean(tensor.tensor([1, 2]), dtype=tensor.float32)
    tensor(1.5000)
    """
    if dtype is not None or out is not None:
        category = input._layout.dtype.category if isinstance(input, TensorBase) else Category.BOOL
        dtype = dtype_to_compute_in("mean", dtype, out, _MEANS_IN.get(category, ()))
    input = converted(input, dtype)
    axes = axes_of("mean", input, dim)
    results = MEAN(input, axes, keepdim)
    if input._autograd is not None:
        shape = input._layout.shape
        count = product_of(shape[axis] for axis in axes)
        formula = _MEAN_OF_ALL if dim is None else _MEAN_BACKWARD
        formula.record(results, (input,), context=(shape, axes, keepdim, count))
    return into_out(results[0], out, "mean")


@operation()
def nanmean(
    input: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Arithmetic mean of the elements that are not NaN, over the dimensions ``dim``, by default all.

    Parameters
    ----------
    dim : int or sequence of int, optional
        Dimensions to reduce, negative ones counted from the end; by default (and for an empty sequence) all.
    keepdim : bool
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        Dtype to convert to first, and of the result; by default the input's.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; where no ``dtype`` is given, its dtype is taken
        for that.

    Raises
    ------
    IndexError
        If there is no such dimension.
    RuntimeError
        If a dimension is named twice, or the dtype is not a floating one.

    Examples
    --------
    >>> tensor.nanmean(tensor.tensor([1.0, float('nan'), 2.0]))
    tensor(1.5000)
    """
    is_floating = isinstance(input, TensorBase) and input._layout.dtype.is_floating_point
    dtype = dtype_to_compute_in("nanmean", dtype, out, (Category.FLOATING,) if is_floating else ())
    input = converted(input, dtype)
    if modes.recording and input.requires_grad:
        there = logical_not(isnan(input))
        return nansum(input, dim, keepdim) / sum(there, dim, keepdim)
    axes = axes_of("nanmean", input, dim)
    return into_out(NANMEAN(input, axes, keepdim)[0], out, "nanmean")


def _prod_gradient(grad: Tensor, a: Tensor, shape: Any, axes: Any, keepdim: bool) -> Tensor:
    """Products of all others: by division, except where elements are 0.

    Those have second derivatives too, which a division does not: they come from all before times all behind.
    """
    if not axes:
        return grad
    if modes.recording:
        others: Tensor = conjugate(_products_of_others(a, axes))
        return keep_dims(grad, axes, keepdim) * others
    zero = eq(a, 0)
    filled = where(zero, a.new_ones(()), a)
    others = PROD(filled, axes, True)[0]
    zeros = sum(zero, list(axes), keepdim=True)
    here: Tensor = where(zero, eq(zeros, 1) * others, eq(zeros, 0) * others / filled)
    here = conjugate(here)
    return keep_dims(grad, axes, keepdim) * here


def _products_of_others(a: Tensor, axes: tuple[int, ...]) -> Tensor:
    order = [*(axis for axis in range(len(a._layout.shape)) if axis not in axes), *axes]
    moved = views.permute(a, order)
    rows = moved.reshape(*moved._layout.shape[: -len(axes)], -1) if a._layout.numel else a
    others = running_before(rows.cumprod(-1), -1) * later_products(rows, -1)
    back = [order.index(axis) for axis in range(len(order))]
    return views.permute(others.reshape(moved._layout.shape), back)


_PROD_BACKWARD = BackwardFormula("ProdBackward1", "a", [Derivative(_prod_gradient, needs="a")])
_PROD_OF_ALL = _PROD_BACKWARD.named("ProdBackward0")


@operation(autocast=Autocast(cuda=FLOAT32_RESULT, cpu=FLOAT32))
def prod(
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Product over a dimension, by default over all elements; 1 where there are none.

    Parameters
    ----------
    dim : int, optional
        Dimension to reduce, negative ones counted from the end; by default all elements are reduced.
    keepdim : bool
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        Dtype to convert to first, and of the result; by default the input's, or int64 for integers and bools.
        CUDA autocast multiplies in float32.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; where no ``dtype`` is given, its dtype is taken
        for that.

    Raises
    ------
    IndexError
        If there is no such dimension.
    TypeError
        With ``keepdim`` and no ``dim``.

    Examples
    --------
    >>> tensor.prod(tensor.tensor([[1, 2], [3, 4]]), dim=1)
    tensor([ 2, 12])
    """
    if keepdim and dim is None:
        raise TypeError("prod(): 'keepdim' goes with 'dim': give the dimension")
    dtype = dtype_to_compute_in("prod", dtype, out)
    input = converted(input, dtype)
    axes = axes_of("prod", input, dim)
    results = PROD(input, axes, keepdim)
    formula = _PROD_OF_ALL if dim is None else _PROD_BACKWARD
    formula.record(results, (input,), context=(input._layout.shape, axes, keepdim))
    # Products of integers have 64 bits, unless others are asked for.
    result = results[0]
    if dtype is not None and dtype.category < Category.FLOATING:
        result = result.to(dtype)
    return into_out(result, out, "prod")


_LOGSUMEXP_BACKWARD = BackwardFormula(
    "LogsumexpBackward0",
    "a",
    [
        Derivative(
            lambda grad, a, out, shape, axes, keepdim: (
                stretched(grad, shape, axes, keepdim)
                * conjugate((a - stretched(out, shape, axes, keepdim)).exp())
            ),
            needs="a out",
        )
    ],
)


@operation(namespace="tensor special", autocast=Autocast(cuda=FLOAT32))
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """``log(sum(exp(input)))`` over the dimensions ``dim``, without overflow.

    Parameters
    ----------
    input : Tensor
        Of any dtype, which the result has too; integers and bools give the default floating dtype. CUDA
        autocast computes it in float32.
    dim : int or sequence of int
        Dimensions to reduce, negative ones counted from the end; an empty sequence is all.
    keepdim : bool
        Whether the reduced dimensions stay, with size 1.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (floating, complex).

    Raises
    ------
    IndexError
        If there is no such dimension.
    RuntimeError
        If a dimension is named twice.

    Examples
    --------
    >>> tensor.logsumexp(tensor.tensor([[0.0, 0.0], [1000.0, 1000.0]]), dim=1)
    tensor([6.9315e-01, 1.0007e+03])
    """
    if input._layout.dtype.category < Category.FLOATING:
        input = input.to(get_default_dtype())
    axes = axes_of("logsumexp", input, dim)
    if input._layout.dtype.is_complex:
        results: Any = (_complex_logsumexp(input.detach(), axes, keepdim),)
    else:
        results = LOGSUMEXP(input, axes, keepdim)
    _LOGSUMEXP_BACKWARD.record(results, (input,), context=(input._layout.shape, axes, keepdim))
    return into_out(results[0], out, "logsumexp", casts=True)


def _complex_logsumexp(input: Any, axes: Any, keepdim: bool) -> Tensor:
    """Relative to the largest real part, so that no exponential overflows."""
    if not input.numel():
        return sum(input.exp(), list(axes), keepdim).log()
    largest: Any = input.real.amax(list(axes), True) if axes else input.real
    largest = largest.nan_to_num(posinf=0.0, neginf=0.0)
    result = sum((input - largest).exp(), list(axes), True).log() + largest
    if not keepdim:
        for axis in sorted(axes, reverse=True):
            result = views.squeeze(result, axis)
    return result  # type: ignore[no-any-return]

"""Running sums, products and extremes along a dimension."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nvrtc_kernels import dtypes
from nvrtc_kernels import scan as kernels
from nvrtc_kernels.dtypes import Category, dtype
from nvrtc_kernels.host_loops.running_sums import running_extremes, running_sums
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core import layout as layouts
from tensor.core.arguments import dimension
from tensor.core.base import empty, wrap
from tensor.core.dtypes import promotion as rules
from tensor.core.host.memory import empty_array
from tensor.core.host.scratch import scratch, scratch_of
from tensor.core.plans import not_implemented
from tensor.core.plans.copies import host_conversion
from tensor.operations import scratch as planned
from tensor.operations.autocast import AS_GIVEN, FLOAT32_RESULT, Autocast
from tensor.operations.definition import operation
from tensor.operations.pointwise.comparisons import eq
from tensor.operations.pointwise.complex_numbers import conjugate
from tensor.operations.pointwise.selection import where
from tensor.operations.reduction import all_into_out, dtype_to_compute_in, into_out
from tensor.operations.return_types import return_type
from tensor.operations.shapes import slices, views
from tensor.operations.shapes.joining import cat
from tensor.operations.shapes.rearrangement import flip
from tensor.operations.special.logistic import LOGADDEXP

from .recurrences import next_elements, recurrence, running_before
from .sums import converted, sum

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


class _Scan:
    """A scan; ``device_state.plans[scan, layout, dim, dtype]`` carries it out."""

    #: The dtype that is computed in decides.
    takes = dtypes.STORAGE_ONLY

    def __init__(self, name: str, numpy: Callable[[Array, int], Any], *, indices: bool = False) -> None:
        self.name = name
        self.numpy = numpy
        self.indices = indices

    def __call__(self, input: Tensor, dim: int, dtype: dtype) -> tuple[Tensor, ...]:
        """Results along ``dim``, of type ``dtype``. Not recorded."""
        layout = input._layout
        result: tuple[Tensor, ...] = layout.device_state.plans[self, layout, dim, dtype](input)
        return result

    def plan(self, layout: Layout, dim: int, dtype: dtype) -> Callable[[Tensor], tuple[Tensor, ...]]:
        """What scans tensors of ``layout``."""
        if dtype.is_storage_only:
            raise not_implemented(self.name, dtype)
        out = layouts.contiguous[layout.shape, dtype, layout.device_state]
        outs = [out, out.with_dtype(dtypes.int64)] if self.indices else [out]
        if not layout.device_state.is_cuda:
            return self._host(dim, dtype, outs)
        device_state = layout.device_state
        # A 0-dim tensor is scanned as a vector.
        shape, strides = (layout.shape, layout.strides) if layout.shape else ((1,), (1,))
        steps = out.strides or (1,)
        result = kernels.plan(
            device_state.native,
            self.name,
            dim,
            shape,
            (steps, dtype),
            (strides, layout.dtype),
            *([steps] if self.indices else []),
        )

        def run(input: Tensor) -> tuple[Tensor, ...]:
            results = [empty(each) for each in outs]
            first, *rest = (each._address for each in results)
            if out.numel:
                planned.launch(device_state, result, first, input._address, *rest)
            return tuple(results)

        return run

    def _host(self, dim: int, dtype: dtype, outs: list[Layout]) -> Callable[[Tensor], tuple[Tensor, ...]]:
        compute_dtype = rules.computes_in(dtype)

        def run(input: Tensor) -> tuple[Tensor, ...]:
            array = np.atleast_1d(input._host)
            values = array
            if input._layout.dtype is not compute_dtype:
                values = np.empty(array.shape, compute_dtype.numpy)
                host_conversion(input._layout.dtype, compute_dtype)(values, array)
            with np.errstate(all="ignore"):
                result = self.numpy(values, dim)
            results = []
            for value, out in zip(result if isinstance(result, tuple) else (result,), outs, strict=True):
                # What was scanned is never handed out: results have memory of their own.
                held = np.ascontiguousarray(value, out.dtype.numpy)
                results.append(wrap(held.reshape(out.shape), out))
            return tuple(results)

        return run


def _sum(a: Array, dim: int) -> Array:
    single = a.dtype == np.float32
    last = dim in (-1, a.ndim - 1)
    if single and last and a.flags.c_contiguous:
        return _row_sums(a)
    if not last and a.flags.c_contiguous and a.size > _BLOCK:
        # NumPy adds up one column after the other, and fetches whole lines of the cache for each.
        if prod(a.shape[dim + 1 :]) >= _VECTOR:
            return _sums_of_vectors(a, dim)
        if single:
            return np.moveaxis(_row_sums(np.ascontiguousarray(np.moveaxis(a, dim, -1))), -1, dim)
    return np.cumsum(a, axis=dim, dtype=np.float64 if single else a.dtype)


#: Elements that are worth a call of the loop that adds them to others.
_VECTOR = 512


def _sums_of_vectors(a: Array, dim: int) -> Array:
    """Running sums in double precision, all of an index of ``dim`` at once."""
    result = empty_array(a.shape, a.dtype)
    n = a.shape[dim]
    shape = -1, n, prod(a.shape[dim + 1 :])
    for source, target in zip(a.reshape(shape), result.reshape(shape), strict=True):
        total = source[0].astype(np.float64 if a.dtype == np.float32 else a.dtype)
        target[0] = source[0]
        for index in range(1, n):
            total += source[index]
            target[index] = total
    return result


#: Elements that are added up at a time, so that they stay in the cache, and the length of a run.
_BLOCK, _RUN = 1 << 15, 16
#: Elements that NumPy adds up one after the other.
_FEW = 256
#: What the product of a run with gives its running sums.
_TRIANGLE, _ONES = np.triu(np.ones((_RUN, _RUN))), np.ones(_RUN)


def _row_sums(a: Array) -> Array:
    """Running sums in double precision along the last dimension, rounded to the dtype of ``a``."""
    result = empty_array(a.shape, a.dtype)
    if not a.size:
        return result
    n = a.shape[-1]
    source, target = a.reshape(-1, n), result.reshape(-1, n)
    if running_sums(source, target):
        return result
    if a.size <= _FEW or n < _RUN:
        np.copyto(target, np.cumsum(source, axis=1, dtype=np.float64), casting="same_kind")
        return result
    rows = max(_BLOCK // (-(-n // _RUN) * _RUN), 1)
    for start in range(0, len(source), rows):
        block = slice(start, start + rows)
        before = np.zeros(len(source[block]))
        for first in range(0, n, _BLOCK):
            columns = slice(first, first + _BLOCK)
            before = _add_up(source[block, columns], before, target[block, columns])
    return result


def _add_up(values: Array, before: Array, out: Array) -> Array:
    """Write the running sums of rows, on top of a number for each, to ``out``; returns the last of each row.

    Each row is cut into runs, whose sums are added up first: then a product of matrices gives the running sums of all runs at
    once, where elements one after the other would each wait for the last.
    """
    rows, n = values.shape
    count = -(-n // _RUN)
    lines = scratch_of((rows * count, _RUN), np.float64)
    runs, flat = lines.reshape(rows, count, _RUN), lines.reshape(rows, -1)
    flat[:, :n] = values
    flat[:, n:] = 0
    ends = np.add.accumulate(np.matmul(lines, _ONES).reshape(rows, -1), axis=1)
    ends += before[:, None]
    if not np.isfinite(ends[:, -1]).all():
        # Products with zeros would bring infinite elements and NaN to those before them.
        sums = np.cumsum(values, axis=1, dtype=np.float64)
        out[...] = sums + before[:, None]
        return ends[:, -1]
    runs[:, 1:, 0] += ends[:, :-1]
    runs[:, 0, 0] += before
    out[...] = np.matmul(lines, _TRIANGLE, out=scratch(lines)).reshape(rows, -1)[:, :n]
    return ends[:, -1]


def _last_true(wins: Array, dim: int) -> Array:
    """Positions of the last true element along ``dim`` that is not after each; the first of all are true."""
    n = wins.shape[dim]
    if dim == wins.ndim - 1:
        there = np.flatnonzero(wins)
        if len(there) <= wins.size // _REPEATED:
            return np.repeat(there % max(n, 1), np.diff(there, append=wins.size)).reshape(wins.shape)
    index = np.arange(n).reshape(-1, *[1] * (wins.ndim - 1 - dim))
    positions: Array = np.multiply(wins, index)
    return np.maximum.accumulate(positions, axis=dim, out=positions)


#: How many elements a position stands for, on average, where repeating it is quicker than going over all.
_REPEATED = 8


def _best(larger: np.ufunc, larger_or_equal: np.ufunc) -> Callable[[Array, int], tuple[Array, Array]]:
    """Running extremes with the position of the last of equal ones; a NaN wins from where it stands on."""

    def form(a: Array, dim: int) -> tuple[Array, Array]:
        n = a.shape[dim]
        if dim < a.ndim - 1 and n and a.size // n >= _VECTOR:
            return of_vectors(a, dim)
        if dim == a.ndim - 1 and a.size and a.dtype.kind == "f" and a.flags.c_contiguous:
            results = empty_array(a.shape, a.dtype), empty_array(a.shape, np.dtype(np.int64))
            rows = tuple(each.reshape(-1, n) for each in (a, *results))
            if running_extremes(*rows, largest=larger is np.maximum):
                return results
        values: Array = larger.accumulate(a, axis=dim)
        wins = a == values
        if a.dtype.kind == "f" and np.isnan(values.take([-1] if n else [], axis=dim)).any():
            wins |= np.isnan(a)
        positions = _last_true(wins, dim)
        if a.dtype.kind == "f" and not values.all():
            # Of zeros the ufunc gives either.
            values = np.take_along_axis(a, positions, dim)
        return values, positions

    def of_vectors(a: Array, dim: int) -> tuple[Array, Array]:
        moved = np.moveaxis(a, dim, 0)
        values, positions = moved.copy(), np.zeros(moved.shape, np.int64)
        for at in range(1, len(moved)):
            here, before = moved[at], values[at - 1]
            wins = larger_or_equal(here, before)
            if a.dtype.kind == "f":
                wins = (wins & ~np.isnan(before)) | np.isnan(here)
            values[at] = np.where(wins, here, before)
            positions[at] = np.where(wins, at, positions[at - 1])
        return np.moveaxis(values, 0, dim), np.moveaxis(positions, 0, dim)

    return form


CUMSUM = _Scan("cumsum", _sum)
CUMPROD = _Scan("cumprod", lambda a, dim: np.cumprod(a, axis=dim, dtype=a.dtype))
LOGCUMSUMEXP = _Scan("logcumsumexp", lambda a, dim: np.logaddexp.accumulate(a, axis=dim))
CUMMAX = _Scan("cummax", _best(np.maximum, np.greater_equal), indices=True)
CUMMIN = _Scan("cummin", _best(np.minimum, np.less_equal), indices=True)


class Running(NamedTuple):
    """Running extremes, and where they stand."""

    values: Tensor
    indices: Tensor


#: Dtypes of ``out=`` in which running sums and products are computed.
_NUMBERS = (Category.INTEGER, Category.FLOATING, Category.COMPLEX)
_RUNNING = {scan: return_type(scan.name, Running) for scan in (CUMMAX, CUMMIN)}


def _type(input: Tensor, dtype: dtype | None) -> dtype:
    element_dtype = input._layout.dtype
    if dtype is not None:
        return dtype
    return dtypes.int64 if element_dtype.category < Category.FLOATING else element_dtype


def _reversed_sum(x: Tensor, dim: int) -> Tensor:
    """Sums of each element and all after it."""
    return sum(x, dim, keepdim=True) - cumsum(x, dim) + x


_CUMSUM_BACKWARD = BackwardFormula("CumsumBackward0", "a", [Derivative(_reversed_sum, needs="")])


@operation(autocast=Autocast(cuda=FLOAT32_RESULT))
def cumsum(input: Tensor, dim: int, *, dtype: dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Cumulative sum along a dimension: of each element and all before it.

    Parameters
    ----------
    dim : int
        Dimension to go along, negative ones counted from the end.
    dtype : dtype, optional
        Dtype to convert to first, and of the result; by default the input's, or int64 for integers and bools.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; where no ``dtype`` is given, its dtype is taken
        for that.

    Raises
    ------
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> tensor.cumsum(tensor.tensor([[1, 2, 3], [4, 5, 6]]), dim=1)
    tensor([[ 1,  3,  6],
            [ 4,  9, 15]])
    """
    dtype = dtype_to_compute_in("cumsum", dtype, out, _NUMBERS)
    at = dimension(dim, len(input._layout.shape))
    results = CUMSUM(input, at, _type(input, dtype))
    _CUMSUM_BACKWARD.record(results, (input,), context=(at,))
    return into_out(results[0], out, "cumsum")


def _cumprod_gradient(grad: Tensor, a: Tensor, dim: int) -> Tensor:
    """What stands before each element, times the gradients of what stands behind, as a recurrence."""
    if not a._layout.shape:
        return grad
    factors = conjugate(a)
    return running_before(cumprod(factors, dim), dim) * recurrence(next_elements(factors, dim), grad, dim)


@operation(namespace="")
def cumsum_(input: Tensor, dim: int, *, dtype: dtype | None = None) -> Tensor:
    """Replace the elements by their :func:`cumsum` along a dimension; the dtype stays.

    Parameters
    ----------
    dim : int
        Dimension to go along, negative ones counted from the end.
    dtype : dtype, optional
        Dtype to compute in.

    Raises
    ------
    IndexError
        If there is no such dimension.
    RuntimeError
        If ``input`` is a leaf that requires a gradient.

    Examples
    --------
    >>> tensor.tensor([1, 2, 3]).cumsum_(0)
    tensor([1, 3, 6])
    """
    return input.copy_(cumsum(input, dim, dtype=dtype))


@operation(namespace="")
def cumprod_(input: Tensor, dim: int, *, dtype: dtype | None = None) -> Tensor:
    """Replace the elements by their :func:`cumprod` along a dimension; the dtype stays.

    Parameters
    ----------
    dim : int
        Dimension to go along, negative ones counted from the end.
    dtype : dtype, optional
        Dtype to compute in.

    Raises
    ------
    IndexError
        If there is no such dimension.
    RuntimeError
        If ``input`` is a leaf that requires a gradient.

    Examples
    --------
    >>> tensor.tensor([1, 2, 3]).cumprod_(0)
    tensor([1, 2, 6])
    """
    # What the derivative needs is kept in a copy.
    return input.copy_(cumprod(input.clone() if input.requires_grad else input, dim, dtype=dtype))


_CUMPROD_BACKWARD = BackwardFormula("CumprodBackward0", "a", [Derivative(_cumprod_gradient, needs="a")])


@operation(autocast=Autocast(cuda=FLOAT32_RESULT))
def cumprod(input: Tensor, dim: int, *, dtype: dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Cumulative product along a dimension: of each element and all before it.

    Parameters
    ----------
    dim : int
        Dimension to go along, negative ones counted from the end.
    dtype : dtype, optional
        Dtype to convert to first, and of the result; by default the input's, or int64 for integers and bools.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; where no ``dtype`` is given, its dtype is taken
        for that.

    Raises
    ------
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> tensor.cumprod(tensor.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([1., 2., 6.])
    """
    dtype = dtype_to_compute_in("cumprod", dtype, out, _NUMBERS)
    input = converted(input, dtype)
    at = dimension(dim, len(input._layout.shape))
    results = CUMPROD(input, at, _type(input, dtype))
    _CUMPROD_BACKWARD.record(results, (input,), context=(at,))
    return into_out(results[0], out, "cumprod")


def _logcumsumexp_gradient(grad: Tensor, a: Tensor, out: Tensor, dim: int) -> Tensor:
    """``sum over j >= k of grad[j] exp(a[k] - out[j])``, as a recurrence with factors that are at most 1."""
    if not a._layout.shape:
        return grad * (a - out).exp()
    # Nothing but minus infinity so far: the elements have no share, and no difference shall be made of them.
    nothing, zero = eq(out, -float("inf")), out.new_zeros(())
    reached = where(nothing, zero, out)
    growth = where(nothing, zero, reached - next_elements(reached, dim))
    return recurrence(growth.exp(), grad, dim) * (a - reached).exp()


_LOGCUMSUMEXP_BACKWARD = BackwardFormula(
    "LogcumsumexpBackward0", "a", [Derivative(_logcumsumexp_gradient, needs="a out")]
)


@operation()
def logcumsumexp(input: Tensor, dim: int, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the cumulative sum of exponentials along a dimension, without overflow.

    Parameters
    ----------
    input : Tensor
        Of a floating or complex dtype, which the result has too.
    dim : int
        Dimension to go along, negative ones counted from the end.
    out : Tensor, optional
        Tensor of the result's dtype that the result is written to, resized to its shape.

    Raises
    ------
    IndexError
        If there is no such dimension.
    RuntimeError
        If the dtype is bool or an integer one.

    Examples
    --------
    >>> tensor.logcumsumexp(tensor.tensor([0.0, 1.0, 100.0]), dim=0)
    tensor([  0.0000,   1.3133, 100.0000])
    """
    at = dimension(dim, len(input._layout.shape))
    dtype = input._layout.dtype
    if dtype.is_complex:
        return into_out(_complex_logcumsumexp(input, at), out, "logcumsumexp")
    if not dtype.is_floating_point:
        raise NotImplementedError(
            f'"logcumsumexp" not implemented for {dtype!r}: it takes floating point tensors'
        )
    results = LOGCUMSUMEXP(input, at, dtype)
    _LOGCUMSUMEXP_BACKWARD.record(results, (input,), context=(at,))
    return into_out(results[0], out, "logcumsumexp")


def _complex_logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """By pairs, pairs of pairs and so on: after each step a position has the sum over twice as many."""
    size = input._layout.shape[dim] if input._layout.shape else 1
    result, reach = input.clone(), 1
    while reach < size:
        leading = slices.narrow(result, dim, 0, reach)
        later, earlier = (slices.narrow(result, dim, start, size - reach) for start in (reach, 0))
        result = cat((leading, LOGADDEXP.binary(later, earlier)), dim)
        reach *= 2
    return result


def _best_gradient(grad: Tensor, indices: Tensor, shape: Any, dim: int) -> Tensor:
    """The gradients of all positions that took an element, added up there."""
    if not shape:
        return grad
    return grad.new_zeros(shape).scatter_add(dim, indices, grad)


_BEST_BACKWARD = {
    scan: BackwardFormula(
        f"{scan.name.capitalize()}Backward0",
        "a",
        [Derivative(_best_gradient, needs="indices")],
        outputs="values indices",
    )
    for scan in (CUMMAX, CUMMIN)
}


def _running(scan: _Scan, input: Tensor, dim: int, out: Any) -> Running:
    at = dimension(dim, len(input._layout.shape))
    if input._layout.dtype.is_complex:
        raise NotImplementedError(
            f'"{scan.name}" not implemented for {input._layout.dtype!r}: it takes real tensors'
        )
    results = scan(input, at, input._layout.dtype)
    _BEST_BACKWARD[scan].record(results, (input,), context=(input._layout.shape, at))
    result: Running = all_into_out(_RUNNING[scan](*results), out, scan.name)
    return result


@operation()
def cummax(input: Tensor, dim: int, *, out: Any = None) -> Running:
    """Running extreme: the largest of each element and all before it along a dimension, with its index.

    Of equal elements the index is that of the last; NaN wins over every number.

    Parameters
    ----------
    input : Tensor
        Of a real dtype, which the values have too.
    dim : int
        Dimension to go along, negative ones counted from the end.
    out : tuple of Tensor, optional
        Two tensors that the results are written to.

    Returns
    -------
    Running
        ``values``, and ``indices`` of int64, both of the input's shape.

    Raises
    ------
    IndexError
        If there is no such dimension.
    RuntimeError
        If the dtype is complex.

    Examples
    --------
    >>> values, indices = tensor.cummax(tensor.tensor([3, 1, 5, 2]), dim=0)
    >>> values
    tensor([3, 3, 5, 5])
    >>> indices
    tensor([0, 0, 2, 2])
    """
    return _running(CUMMAX, input, dim, out)


@operation()
def cummin(input: Tensor, dim: int, *, out: Any = None) -> Running:
    """Running extreme: the smallest of each element and all before it along a dimension, with its index.

    Of equal elements the index is that of the last; NaN wins over every number.

    Parameters
    ----------
    input : Tensor
        Of a real dtype, which the values have too.
    dim : int
        Dimension to go along, negative ones counted from the end.
    out : tuple of Tensor, optional
        Two tensors that the results are written to.

    Returns
    -------
    Running
        ``values``, and ``indices`` of int64, both of the input's shape.

    Raises
    ------
    IndexError
        If there is no such dimension.
    RuntimeError
        If the dtype is complex.

    Examples
    --------
    >>> values, indices = tensor.cummin(tensor.tensor([3, 1, 5, 2]), dim=0)
    >>> values
    tensor([3, 1, 1, 1])
    >>> indices
    tensor([0, 1, 1, 1])
    """
    return _running(CUMMIN, input, dim, out)


@operation(method=False, autocast=Autocast(cuda=AS_GIVEN))
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:  # noqa: N803 - PyTorch's name
    """Powers of each element of a vector: ``N`` columns (by default as many as elements), the highest first.

    Raises
    ------
    RuntimeError
        If ``x`` is no vector, or ``N`` negative.

    Examples
    --------
    >>> tensor.vander(tensor.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [4, 2, 1],
            [9, 3, 1]])
    >>> tensor.vander(tensor.tensor([1, 2, 3]), N=2, increasing=True)
    tensor([[1, 1],
            [1, 2],
            [1, 3]])
    """
    if len(x._layout.shape) != 1:
        raise RuntimeError(f"vander(): x must be a one-dimensional tensor, got shape {list(x._layout.shape)}")
    count = x._layout.numel if N is None else N
    if count < 0:
        raise RuntimeError(f"vander(): N must be non-negative, got {N}")
    result_dtype = _type(x, None)
    column = views.unsqueeze(x.to(result_dtype), 1)
    if not count:
        return x.new_empty((x._layout.numel, 0), dtype=result_dtype)
    factors = [column.new_ones(column._layout.shape), views.expand(column, (x._layout.numel, count - 1))]
    result = cumprod(cat(factors, 1), 1)
    if increasing:
        return result
    return flip(result, 1)

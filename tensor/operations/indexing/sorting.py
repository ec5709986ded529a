"""Sorted elements, and elements of a rank: ``sort``, ``topk``, ``median`` and their like.

-0.0 equals 0.0, and NaN is larger than every number. Sorting is stable.
"""

from __future__ import annotations

import math
from math import prod as product_of
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from nvrtc_kernels import dtypes
from nvrtc_kernels import selection as selection_kernels
from nvrtc_kernels import sort as sort_kernels
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core import layout as layouts
from tensor.core.arguments import as_int64, dimension
from tensor.core.base import empty, wrap
from tensor.core.dtypes import promotion as rules
from tensor.core.host.ordering import stable_order
from tensor.core.plans.copies import copied
from tensor.operations import scratch as planned
from tensor.operations.definition import operation
from tensor.operations.reduction import all_into_out, into_out, keep_dims
from tensor.operations.return_types import return_type
from tensor.operations.shapes import views

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


class Sorted(NamedTuple):
    """Sorted values, and where each stood."""

    values: Tensor
    indices: Tensor


class Ranked(NamedTuple):
    """Values of a rank, and where they stand."""

    values: Tensor
    indices: Tensor


_SORT = return_type("sort", Sorted)
_TOPK, _KTHVALUE = return_type("topk", Ranked), return_type("kthvalue", Ranked)
_MEDIAN = {name: return_type(name, Ranked) for name in ("median", "nanmedian")}


class _Rows:
    """An operation on the rows of a contiguous ``(rows, n)`` tensor that gives values and int64 positions.

    ``device_state.plans[operation, layout, *arguments]`` carries it out: ``run(input)``.
    """

    def __init__(
        self,
        name: str,
        numpy: Callable[..., Array],
        kernel: Callable[..., Any],
        width: Callable[..., int],
    ) -> None:
        self.name = name
        self.takes = dtypes.UNSIGNED if name == "sort" else ()
        self.numpy = numpy
        self.kernel = kernel
        self.width = width

    def __call__(self, input: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
        layout = input._layout
        result: tuple[Tensor, Tensor] = layout.device_state.plans[self, layout, *arguments](input)
        return result

    def plan(self, layout: Layout, *arguments: Any) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """What works on tensors of ``layout``."""
        dtype, (rows, n) = layout.dtype, layout.shape
        if dtype.is_complex:
            raise NotImplementedError(f'"{self.name}" not implemented for {dtype!r}: it takes real tensors')
        shape = (rows, self.width(n, *arguments))
        values = layouts.contiguous[shape, dtype, layout.device_state]
        positions = layouts.contiguous[shape, dtypes.int64, layout.device_state]
        if not layout.device_state.is_cuda:

            def on_host(input: Tensor) -> tuple[Tensor, Tensor]:
                array = input._host
                compute_dtype = rules.computes_in(dtype).numpy
                with np.errstate(all="ignore"):
                    at = self.numpy(
                        array.astype(compute_dtype) if array.dtype != compute_dtype else array, *arguments
                    )
                at = np.ascontiguousarray(at, np.int64)
                return wrap(np.take_along_axis(array, at, 1), values), wrap(at, positions)

            return on_host
        device_state = layout.device_state
        result = self.kernel(
            device_state.native,
            rows,
            n,
            *arguments[: self.kernel_arguments],
            dtype,
            **self.options(*arguments),
        )

        def on_device(input: Tensor) -> tuple[Tensor, Tensor]:
            results = empty(values), empty(positions)
            if values.numel:
                planned.launch(device_state, result, results[0]._address, results[1]._address, input._address)
            return results

        return on_device

    kernel_arguments = 0

    def options(self, *arguments: Any) -> dict[str, Any]:
        """Keyword arguments of the kernel's plan."""
        return {}


class _Sort(_Rows):
    def options(self, descending: bool) -> dict[str, Any]:
        """The order."""
        return {"descending": descending}


class _Top(_Rows):
    kernel_arguments = 1

    def options(self, k: int, largest: bool) -> dict[str, Any]:
        """Which end."""
        return {"largest": largest}


class _Kth(_Rows):
    kernel_arguments = 1


class _Median(_Rows):
    def options(self, skip_nan: bool) -> dict[str, Any]:
        """Whether NaN counts."""
        return {"skip_nan": skip_nan}


def _top(a: Array, k: int, largest: bool) -> Array:
    """Positions of the ``k`` first elements of each row of ``a``, ``(rows, n)``, as :func:`.stable_order` gives them."""
    rows, n = a.shape
    if not rows or not 0 < k <= n // _TOP_PART or a.dtype.kind not in "fiu":
        return stable_order(a, largest)[..., :k]
    # Whatever is not beyond the k-th element; more than k where elements equal it.
    at = n - k if largest else k - 1
    limit = np.partition(a, at, axis=1)[:, at, None]
    candidates = ~(a < limit) if largest else a <= limit
    result = np.empty((rows, k), np.int64)
    for row, mask in enumerate(candidates):
        positions = np.flatnonzero(mask)
        if len(positions) < k:
            # The k-th of the smallest is a NaN, which nothing is less or equal to.
            positions = np.arange(n)
        result[row] = positions[stable_order(a[row, positions], largest)[:k]]
    return result


#: From which part of a row on selecting the elements is quicker than sorting the row.
_TOP_PART = 4


def _places(a: Array, ranks: Array) -> Array:
    """Where the element stands that :func:`.stable_order` has at a rank, of each row of ``a``: ``(rows, 1)``."""
    n = a.shape[1]
    different = np.unique(ranks)
    if n < _SORTED or len(different) > _MOST_RANKS:
        return np.take_along_axis(stable_order(a), ranks[:, None], 1)
    # The value first, by partition, and then which of the elements that equal it.
    values = np.take_along_axis(np.partition(a, different, axis=1), ranks[:, None], 1)
    equal, before = a == values, np.count_nonzero(a < values, axis=1)
    nan = np.flatnonzero(values != values)
    if nan.size:
        equal[nan] = np.isnan(a[nan])
        before[nan] = n - np.count_nonzero(equal[nan], axis=1)
    result: Array = np.argmax(equal, axis=1)
    for row in np.flatnonzero(ranks > before):
        result[row] = np.flatnonzero(equal[row])[ranks[row] - before[row]]
    return result[:, None]


#: Elements of rows that are sorted in any case, and how many elements of a row are selected at most.
_SORTED, _MOST_RANKS = 32, 8


def _kth_place(a: Array, k: int) -> Array:
    return _places(a, np.full(len(a), k - 1))


def _median_place(a: Array, skip_nan: bool) -> Array:
    n = a.shape[-1]
    nans = np.isnan(a).sum(-1) if a.dtype.kind == "f" else np.zeros(a.shape[:-1], np.int64)
    return _places(
        a, np.maximum(n - nans - 1, 0) // 2 if skip_nan else np.where(nans > 0, n - nans, (n - 1) // 2)
    )


SORT = _Sort("sort", stable_order, sort_kernels.plan, lambda n, descending: n)
TOPK = _Top(
    "topk",
    _top,
    selection_kernels.topk,
    lambda n, k, largest: k,
)
KTH = _Kth("kthvalue", _kth_place, selection_kernels.kth, lambda n, k: 1)
MEDIAN = _Median("median", _median_place, selection_kernels.median, lambda n, skip_nan: 1)


def _in_rows(operation: _Rows, input: Tensor, dim: int, *arguments: Any) -> tuple[Tensor, Tensor]:
    """``operation`` along ``dim``: the results have it in its place. Not recorded."""
    plain = input.detach()
    moved = views.movedim(plain, dim, -1) if len(plain._layout.shape) > 1 else plain
    shape = moved._layout.shape
    rows = product_of(shape[:-1])
    value = operation(moved.contiguous().view(rows, shape[-1]), *arguments)
    results = []
    for x in value:
        back = x.view((*shape[:-1], x._layout.shape[1]))
        result = views.movedim(back, -1, dim) if len(shape) > 1 else back
        result._base = None
        results.append(result)
    return results[0], results[1]


def _arranged(result: tuple[Tensor, Tensor], strides: tuple[int, ...] | None = None) -> tuple[Tensor, Tensor]:
    """Results with given strides, in row-major order by default: the same tensors where they have them."""
    expected = [
        x._layout.as_contiguous() if strides is None else x._layout.with_strides(x._layout.shape, strides)
        for x in result
    ]
    first, second = (
        x if x._layout is layout else copied(x, layout) for x, layout in zip(result, expected, strict=True)
    )
    return first, second


def place_gradient(grad: Tensor, indices: Tensor, shape: Any, dim: int) -> Tensor:
    """The gradient of elements that were picked along ``dim``, at their indices."""
    if not shape:
        return grad.reshape(())
    return grad.new_zeros(shape).scatter_add(dim, indices, grad)


_SORT_BACKWARD = BackwardFormula(
    "SortBackward0", "a", [Derivative(place_gradient, needs="indices")], outputs="values indices"
)
_TOPK_BACKWARD = _SORT_BACKWARD.named("TopkBackward0")


@operation()
def sort(
    input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False, *, out: Any = None
) -> Sorted:
    """Elements sorted along ``dim``, and their indices in ``input``.

    The sort is always stable: equal elements keep their order. NaN is larger than every number.

    Parameters
    ----------
    stable : bool
        Ignored.
    out : tuple of Tensor, optional
        Two tensors that the results are written to.

    Returns
    -------
    Sorted
        Named tuple of ``values``, of the dtype of ``input``, and int64 ``indices``, both of its shape.

    Raises
    ------
    RuntimeError
        If ``input`` is complex.
    IndexError
        If ``dim`` is out of range.

    Examples
    --------
    >>> values, indices = tensor.tensor([3.0, 1.0, 2.0]).sort()
    >>> values
    tensor([1., 2., 3.])
    >>> indices
    tensor([1, 2, 0])
    """
    at = dimension(dim, len(input._layout.shape))
    if not input._layout.shape:
        return _SORT(input.clone(), input.new_zeros((), dtype=dtypes.int64))
    result = sorted_along(input, at, bool(descending), arranged=True)
    return all_into_out(result, out, "sort")


def sorted_along(input: Tensor, dim: int, descending: bool, *, arranged: bool) -> Sorted:
    """What :func:`sort` gives; not ``arranged``, with whatever strides it has been found."""
    like = input._layout
    result = _in_rows(SORT, input, dim, descending)
    values, indices = _arranged(result, like.strides if like.dense else None) if arranged else result
    _SORT_BACKWARD.record((values, indices), (input,), context=(like.shape, dim))
    return _SORT(values, indices)


@operation()
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """Indices that sort ``input`` along ``dim``: ``sort(input, dim, descending).indices``, int64 of its shape.

    Raises
    ------
    RuntimeError
        If ``input`` is complex.
    IndexError
        If ``dim`` is out of range.

    Examples
    --------
    >>> tensor.tensor([3.0, 1.0, 2.0]).argsort(descending=True)
    tensor([0, 2, 1])
    """
    return sort(input.detach(), dim, descending, stable).indices


@operation()
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elements sorted along the first dimension in ascending order: ``sort(input, 0).values``.

    Raises
    ------
    RuntimeError
        If ``input`` is complex.

    Examples
    --------
    >>> tensor.tensor([[3, 1], [2, 4]]).msort()
    tensor([[2, 1],
            [3, 4]])
    """
    return into_out(sort(input, 0).values, out, "msort")


@operation()
def topk(
    input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *, out: Any = None
) -> Ranked:
    """The ``k`` largest elements along ``dim``, or the smallest, in order, and their indices.

    NaN is larger than every number.

    Parameters
    ----------
    largest : bool
        Whether the largest elements, in descending order, or the smallest, in ascending order.
    sorted : bool
        Ignored: the results are always in order.
    out : tuple of Tensor, optional
        Two tensors that the results are written to.

    Returns
    -------
    Ranked
        Named tuple of ``values`` and int64 ``indices``, of the shape of ``input`` with size ``k`` along ``dim``.

    Raises
    ------
    RuntimeError
        If ``k`` is negative or larger than the dimension, or ``input`` is complex.
    IndexError
        If ``dim`` is out of range.
    TypeError
        If ``k`` is no integer.

    Examples
    --------
    >>> values, indices = tensor.tensor([1.0, 4.0, 2.0, 3.0]).topk(2)
    >>> values
    tensor([4., 3.])
    >>> indices
    tensor([1, 3])
    """
    shape = input._layout.shape
    at = dimension(dim, len(shape))
    length = shape[at] if shape else 1
    k = k if type(k) is int else as_int64(k, "topk", "k")
    if not 0 <= k <= length:
        raise RuntimeError(f"selected index k out of range: {k} of {length} elements along dimension {at}")
    if not shape:
        return _TOPK(input.clone(), input.new_zeros((), dtype=dtypes.int64))
    values, indices = _arranged(_in_rows(TOPK, input, at, k, bool(largest)))
    _TOPK_BACKWARD.record((values, indices), (input,), context=(shape, at))
    return all_into_out(_TOPK(values, indices), out, "topk")


def _gradient_of_all(grad: Tensor, index: Tensor, shape: Any) -> Tensor:
    count = product_of(shape)
    return place_gradient(grad.reshape(1), index.reshape(1), (count,), 0).reshape(shape)


def _one_gradient(grad: Tensor, indices: Tensor, shape: Any, dim: int, keepdim: bool) -> Tensor:
    return place_gradient(keep_dims(grad, (dim,), keepdim), keep_dims(indices, (dim,), keepdim), shape, dim)


def _one(name: str) -> BackwardFormula:
    return BackwardFormula(name, "a", [Derivative(_one_gradient, needs="indices")], outputs="values indices")


_KTHVALUE_BACKWARD = _one("KthvalueBackward0")
_MEDIAN_BACKWARD = {name: _one(f"{name.capitalize()}Backward1") for name in ("median", "nanmedian")}
_MEDIAN_OF_ALL = {
    name: BackwardFormula(
        f"{name.capitalize()}Backward0", "a index", [Derivative(_gradient_of_all, needs="index")]
    )
    for name in ("median", "nanmedian")
}


def _picked(
    operation: _Rows,
    returns: type[Ranked],
    formula: BackwardFormula,
    input: Tensor,
    dim: int,
    keepdim: bool,
    *arguments: Any,
) -> Ranked:
    shape = input._layout.shape
    at = dimension(dim, len(shape))
    if not shape:
        return returns(input.clone(), input.new_zeros((), dtype=dtypes.int64))
    if shape[at] == 0:
        raise IndexError(f"{operation.name}(): Expected reduction dim {at} to have non-zero size.")
    result = _in_rows(operation, input, at, *arguments)
    values, indices = result if keepdim else (views.squeeze(x, at) for x in result)
    values._base = indices._base = None
    formula.record((values, indices), (input,), context=(shape, at, keepdim))
    return returns(values, indices)


@operation()
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> Ranked:
    """The ``k``-th smallest element along ``dim``, counting from 1, and its index.

    NaN is larger than every number.

    Returns
    -------
    Ranked
        Named tuple of ``values`` and int64 ``indices``, without the dimension, or with size 1 with ``keepdim``.

    Raises
    ------
    RuntimeError
        If ``k`` is below 1 or larger than the dimension, or ``input`` is complex.
    IndexError
        If ``dim`` is out of range, or has no elements.
    TypeError
        If ``k`` is no integer.

    Examples
    --------
    >>> tensor.tensor([5.0, 1.0, 3.0]).kthvalue(2).values
    tensor(3.)
    """
    shape = input._layout.shape
    length = shape[dimension(dim, len(shape))] if shape else 1
    k = k if type(k) is int else as_int64(k, "kthvalue", "k")
    if not length:
        raise IndexError(
            f"kthvalue(): Expected reduction dim {dim} to have non-zero size, but input has shape {list(shape)}"
        )
    if not 1 <= k <= length:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}: {k} of {length}")
    return all_into_out(_picked(KTH, _KTHVALUE, _KTHVALUE_BACKWARD, input, dim, keepdim, k), out, "kthvalue")


@overload
def median(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def median(input: Tensor, dim: int, keepdim: bool = False, *, out: Any = None) -> Ranked: ...
@operation()
def median(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """Median: the middle element in order, the lower one of two.

    NaN if there is a NaN; see :func:`nanmedian`. Of nothing, the median without ``dim`` is NaN (0 for integers).

    Parameters
    ----------
    dim : int, optional
        By default the median of all elements, without an index.
    out : Tensor or tuple of Tensor, optional
        What the results are written to.

    Returns
    -------
    Tensor or Ranked
        A 0-dim tensor; with ``dim`` a named tuple of ``values`` and int64 ``indices``, without the dimension, or with
        size 1 with ``keepdim``.

    Raises
    ------
    RuntimeError
        If ``input`` is complex.
    TypeError
        With ``keepdim`` and no ``dim``.
    IndexError
        If ``dim`` is out of range or has size 0.

    Examples
    --------
    >>> tensor.tensor([4.0, 1.0, 3.0, 2.0]).median()
    tensor(2.)
    >>> tensor.tensor([[1, 5, 2], [9, 7, 8]]).median(1).values
    tensor([2, 8])
    """
    return _middle(input, dim, keepdim, out, "median", skip_nan=False)


@overload
def nanmedian(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def nanmedian(input: Tensor, dim: int, keepdim: bool = False, *, out: Any = None) -> Ranked: ...
@operation()
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """:func:`median` of the elements that are not NaN; NaN if there are no others.

    Arguments, results and errors are those of :func:`median`.

    Examples
    --------
    >>> tensor.tensor([4.0, float("nan"), 2.0, 3.0]).nanmedian()
    tensor(3.)
    """
    return _middle(input, dim, keepdim, out, "nanmedian", skip_nan=True)


def _middle(input: Tensor, dim: int | None, keepdim: bool, out: Any, name: str, *, skip_nan: bool) -> Any:
    if dim is None:
        if keepdim:
            raise TypeError(f"{name}(): 'keepdim' goes with 'dim': give the dimension")
        if not input._layout.numel:
            return input.new_full((), math.nan) if input.is_floating_point() else input.new_zeros(())
        flat = input.detach().reshape(-1)
        value, at = (views.squeeze(x, 0) for x in _in_rows(MEDIAN, flat, 0, skip_nan))
        value._base = None
        _MEDIAN_OF_ALL[name].record((value,), (input,), (at,), (input._layout.shape,))
        return into_out(value, out, name)
    result = _picked(MEDIAN, _MEDIAN[name], _MEDIAN_BACKWARD[name], input, dim, keepdim, skip_nan)
    return all_into_out(result, out, name)

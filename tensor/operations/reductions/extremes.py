"""Largest and smallest elements, and where they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from nvrtc_kernels import dtypes, reducers
from nvrtc_kernels.dtypes import Category, dtype
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.arguments import dimension
from tensor.core.base import TensorBase
from tensor.operations.definition import operation
from tensor.operations.pointwise.comparisons import eq, isnan
from tensor.operations.pointwise.selection import maximum, minimum, where
from tensor.operations.reduction import Reduction, all_into_out, axes_of, into_out, keep_dims, stretched
from tensor.operations.return_types import return_type
from tensor.operations.shapes import views

from .sums import sum

REAL = (Category.BOOL, Category.INTEGER, Category.FLOATING)
NUMBERS = (Category.INTEGER, Category.FLOATING)
FLOATING = (Category.FLOATING, Category.COMPLEX)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


def _same(dtype: dtype) -> tuple[dtype, tuple[dtype, ...]]:
    return dtype, (dtype,)


def _to_index(dtype: dtype) -> tuple[dtype, tuple[dtype, ...]]:
    return dtype, (dtypes.int64,)


def _with_index(dtype: dtype) -> tuple[dtype, tuple[dtype, ...]]:
    return dtype, (dtype, dtypes.int64)


def _pair(dtype: dtype) -> tuple[dtype, tuple[dtype, ...]]:
    return dtype, (dtype, dtype)


def _arg(function: Any) -> Callable[[Array, tuple[int, ...]], Array]:
    def form(a: Array, axes: tuple[int, ...]) -> Array:
        if len(axes) == a.ndim:
            return np.asarray(function(a.reshape(-1))).reshape((1,) * a.ndim)
        return np.asarray(function(a, axis=axes[0], keepdims=True))

    return form


def _extreme(pick: Any) -> Callable[[Array, tuple[int, ...]], tuple[Array, Array]]:
    def form(a: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
        at = np.asarray(pick(a, axis=axes[0], keepdims=True))
        return np.take_along_axis(a, at, axes[0]), at

    return form


AMAX = Reduction(
    "amax",
    reducers.AMAX,
    lambda a, axes: np.max(a, axis=axes, keepdims=True),
    _same,
    categories=REAL,
    identity=False,
)
AMIN = Reduction(
    "amin",
    reducers.AMIN,
    lambda a, axes: np.min(a, axis=axes, keepdims=True),
    _same,
    categories=REAL,
    identity=False,
)
AMINMAX = Reduction(
    "aminmax",
    reducers.AMINMAX,
    lambda a, axes: (np.min(a, axis=axes, keepdims=True), np.max(a, axis=axes, keepdims=True)),
    _pair,
    categories=REAL,
    identity=False,
)
MAX = Reduction("max", reducers.MAX, _extreme(np.argmax), _with_index, categories=REAL, identity=False)
MIN = Reduction("min", reducers.MIN, _extreme(np.argmin), _with_index, categories=REAL, identity=False)
ARGMAX = Reduction("argmax", reducers.ARGMAX, _arg(np.argmax), _to_index, categories=NUMBERS, identity=False)
ARGMIN = Reduction("argmin", reducers.ARGMIN, _arg(np.argmin), _to_index, categories=NUMBERS, identity=False)


class Extreme(NamedTuple):
    """Values, and where along the dimension they stand."""

    values: Tensor
    indices: Tensor


class Range(NamedTuple):
    """Smallest and largest values."""

    min: Tensor
    max: Tensor


_EXTREME = {MAX: return_type("max", Extreme), MIN: return_type("min", Extreme)}
_AMINMAX = return_type("aminmax", Range)


def _share_gradient(grad: Tensor, a: Tensor, out: Tensor, shape: Any, axes: Any, keepdim: bool) -> Tensor:
    """Equal shares for all elements that are the extreme."""
    hits = eq(a, stretched(out, shape, axes, keepdim)).to(grad._layout.dtype)
    count = sum(hits, list(axes), keepdim=True) if axes else hits
    return hits * (keep_dims(grad, axes, keepdim) / count)


def _share_of_all(grad: Tensor, a: Tensor, out: Tensor) -> Tensor:
    """Equal shares for all elements that are the extreme of all, or are NaN where that is."""
    hits = (eq(a, out) | (isnan(a) & isnan(out))).to(grad._layout.dtype)
    return hits * (grad / sum(hits))


_SHARED = {
    row: BackwardFormula(
        f"{row.name.capitalize()}Backward0", "a", [Derivative(_share_gradient, needs="a out")]
    )
    for row in (AMAX, AMIN)
}
_SHARED_BY_ALL = {
    row: BackwardFormula(f"{name}Backward1", "a", [Derivative(_share_of_all, needs="a out")])
    for row, name in ((AMAX, "Max"), (AMIN, "Min"))
}


def _check_not_empty(name: str, input: Tensor, error: type[Exception] = RuntimeError) -> None:
    if not input._layout.numel:
        raise error(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with "
            "the 'dim' argument."
        )


def _extreme_of_all(row: Reduction, input: Tensor) -> Tensor:
    if not input._layout.numel:
        _check_not_empty(row.name[1:], input)
    results = row(input, axes_of(row.name, input, None), False)
    if input._autograd is not None:
        _SHARED_BY_ALL[row].record(results, (input,))
    return results[0]


def _extreme_of(row: Reduction, input: Tensor, dim: Any, keepdim: bool, out: Tensor | None) -> Tensor:
    if dim == ():
        _check_not_empty(row.name, input)
    axes = axes_of(row.name, input, dim)
    results = row(input, axes, keepdim)
    context = (input._layout.shape, axes, keepdim)
    _SHARED[row].record(results, (input,), context=context)
    return into_out(results[0], out, row.name)


@operation()
def amax(input: Tensor, dim: Any = (), keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Largest elements over the dimensions ``dim``, by default all. NaN wins over every number.

    The gradient is shared equally between equal extremes.

    Parameters
    ----------
    input : Tensor
        Of a real dtype, which the result has too.
    dim : int or sequence of int, optional
        Dimensions to reduce, negative ones counted from the end; by default (and for an empty sequence) all.
    keepdim : bool
        Whether the reduced dimensions stay, with size 1.
    out : Tensor, optional
        Tensor of the result's dtype that the result is written to, resized to its shape.

    Raises
    ------
    IndexError
        If there is no such dimension, or one of those reduced has size 0.
    RuntimeError
        If the dtype is complex, a dimension is named twice, or all elements of an empty tensor are reduced.

    Examples
    --------
    >>> x = tensor.tensor([[1, 5], [7, 3]])
    >>> tensor.amax(x, dim=1)
    tensor([5, 7])
    >>> tensor.amax(x)
    tensor(7)
    """
    return _extreme_of(AMAX, input, dim, keepdim, out)


@operation()
def amin(input: Tensor, dim: Any = (), keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Smallest elements over the dimensions ``dim``, by default all. NaN wins over every number.

    The gradient is shared equally between equal extremes.

    Parameters
    ----------
    input : Tensor
        Of a real dtype, which the result has too.
    dim : int or sequence of int, optional
        Dimensions to reduce, negative ones counted from the end; by default (and for an empty sequence) all.
    keepdim : bool
        Whether the reduced dimensions stay, with size 1.
    out : Tensor, optional
        Tensor of the result's dtype that the result is written to, resized to its shape.

    Raises
    ------
    IndexError
        If there is no such dimension, or one of those reduced has size 0.
    RuntimeError
        If the dtype is complex, a dimension is named twice, or all elements of an empty tensor are reduced.

    Examples
    --------
    >>> x = tensor.tensor([[1, 5], [7, 3]])
    >>> tensor.amin(x, dim=1)
    tensor([1, 3])
    >>> tensor.amin(x)
    tensor(1)
    """
    return _extreme_of(AMIN, input, dim, keepdim, out)


@operation()
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False, out: Any = None) -> Range:
    """Smallest and largest elements in one pass. NaN wins over every number.

    Parameters
    ----------
    input : Tensor
        Of a real dtype, which the results have too.
    dim : int, optional
        Dimension to reduce, negative ones counted from the end; by default all elements are reduced.
    keepdim : bool
        Whether the reduced dimensions stay, with size 1.
    out : tuple of Tensor, optional
        Two tensors that the results are written to.

    Returns
    -------
    Range
        ``min`` and ``max``.

    Raises
    ------
    IndexError
        If there is no such dimension, or one of those reduced has size 0.
    RuntimeError
        If the dtype is complex, or all elements of an empty tensor are reduced.

    Examples
    --------
    >>> low, high = tensor.aminmax(tensor.tensor([[1, 5], [7, 3]]), dim=0)
    >>> low
    tensor([1, 3])
    >>> high
    tensor([7, 5])
    """
    if dim is None and not input._layout.numel:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        )
    axes = axes_of("aminmax", input, dim)
    results = AMINMAX(input, axes, keepdim)
    context = (input._layout.shape, axes, keepdim)
    _SHARED_BY_BOTH.record(results, (input,), context=context)
    result: Range = all_into_out(_AMINMAX(*results), out, "aminmax")
    return result


def _shares_of_both(
    least: Tensor | None, most: Tensor | None, a: Tensor, low: Tensor, high: Tensor, *context: Any
) -> Tensor | None:
    first = None if least is None else _share_gradient(least, a, low, *context)
    second = None if most is None else _share_gradient(most, a, high, *context)
    return second if first is None else first if second is None else first + second


_SHARED_BY_BOTH = BackwardFormula(
    "AminmaxBackward0", "a", [Derivative(_shares_of_both, needs="a low high")], outputs="low high"
)


def _at_gradient(grad: Tensor, indices: Tensor, shape: Any, axes: Any, keepdim: bool) -> Tensor:
    """The gradient where the chosen element stands, and 0 elsewhere."""
    if not axes:
        return grad
    (axis,) = axes
    positions = indices.new_tensor(list(range(shape[axis])))
    positions = views.view(positions, [-1 if dim == axis else 1 for dim in range(len(shape))])
    chosen = eq(positions, keep_dims(indices, axes, keepdim))
    return where(chosen, keep_dims(grad, axes, keepdim), grad.new_zeros(()))


_AT = {
    row: BackwardFormula(
        f"{row.name.capitalize()}Backward0",
        "a",
        [Derivative(_at_gradient, needs="indices")],
        outputs="values indices",
    )
    for row in (MAX, MIN)
}


def _with_indices(row: Reduction, input: Tensor, dim: int, keepdim: bool) -> Extreme:
    rank = len(input._layout.shape)
    at = dimension(dim, rank)
    if not rank:
        only, index = input.detach().clone(), input.new_zeros((), dtype=dtypes.int64)
        _AT[row].record((only, index), (input,), context=((), (), keepdim))
        return _EXTREME[row](only, index)
    results = row(input, (at,), keepdim)
    context = (input._layout.shape, (at,), keepdim)
    _AT[row].record(results, (input,), context=context)
    return _EXTREME[row](*results)


def _largest(
    input: Tensor,
    dim: Any,
    keepdim: Any,
    other: Any,
    out: Any,
    row: Reduction,
    whole: Reduction,
    pairwise: Any,
) -> Any:
    if other is not None or isinstance(dim, TensorBase):
        if keepdim or (other is not None and dim is not None):
            extra = "keepdim" if keepdim else "dim"
            raise TypeError(f"{row.name}(): '{extra}' goes with one tensor, but another one was given, too")
        return pairwise(input, dim if other is None else other, out=out)
    if dim is None:
        if keepdim:
            raise TypeError(
                f"{row.name}(): 'keepdim' goes with 'dim': give the dimension, or call a{row.name}(keepdim=True)"
            )
        largest = _extreme_of_all(whole, input)
        return largest if out is None else into_out(largest, out, row.name, casts=True)
    result = _with_indices(row, input, dim, keepdim)
    return result if out is None else all_into_out(result, out, row.name)


@overload
def max(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(input: Tensor, dim: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(input: Tensor, *, other: Tensor, out: Tensor | None = None) -> Tensor: ...
@overload
def max(input: Tensor, dim: int, keepdim: bool = False, *, out: Any = None) -> Extreme: ...
@operation()
def max(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None, out: Any = None) -> Any:
    """Largest element; with ``dim``, those along it and their indices; with a tensor, that of each pair.

    Of equal elements the index is that of the first; NaN wins over every number. ``max(input, other)`` is
    ``maximum(input, other)``.

    Parameters
    ----------
    input : Tensor
        Of a real dtype, which the values have too.
    dim : int or Tensor, optional
        Dimension to reduce, or the other tensor of the pairs.
    keepdim : bool
        Whether the reduced dimensions stay, with size 1.
    other : Tensor, optional
        The other tensor of the pairs, by name.
    out : Tensor or tuple of Tensor, optional
        What the result is, or the values and indices are, written to.

    Returns
    -------
    Tensor or Extreme
        ``(values, indices)`` with ``dim``; the indices are of int64.

    Raises
    ------
    IndexError
        If there is no such dimension, or it has size 0.
    RuntimeError
        If the dtype is complex, or all elements of an empty tensor are reduced.
    TypeError
        With ``keepdim`` where no dimension is reduced.
    NotImplementedError
        With a tensor, if the dtype is complex.

    Examples
    --------
    >>> x = tensor.tensor([[1, 5], [7, 3]])
    >>> tensor.max(x)
    tensor(7)
    >>> values, indices = tensor.max(x, dim=1)
    >>> values
    tensor([5, 7])
    >>> indices
    tensor([1, 0])
    """
    return _largest(input, dim, keepdim, other, out, MAX, AMAX, maximum)


@overload
def min(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def min(input: Tensor, dim: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def min(input: Tensor, *, other: Tensor, out: Tensor | None = None) -> Tensor: ...
@overload
def min(input: Tensor, dim: int, keepdim: bool = False, *, out: Any = None) -> Extreme: ...
@operation()
def min(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None, out: Any = None) -> Any:
    """Smallest element; with ``dim``, those along it and their indices; with a tensor, that of each pair.

    Of equal elements the index is that of the first; NaN wins over every number. ``min(input, other)`` is
    ``minimum(input, other)``.

    Parameters
    ----------
    input : Tensor
        Of a real dtype, which the values have too.
    dim : int or Tensor, optional
        Dimension to reduce, or the other tensor of the pairs.
    keepdim : bool
        Whether the reduced dimensions stay, with size 1.
    other : Tensor, optional
        The other tensor of the pairs, by name.
    out : Tensor or tuple of Tensor, optional
        What the result is, or the values and indices are, written to.

    Returns
    -------
    Tensor or Extreme
        ``(values, indices)`` with ``dim``; the indices are of int64.

    Raises
    ------
    IndexError
        If there is no such dimension, or it has size 0.
    RuntimeError
        If the dtype is complex, or all elements of an empty tensor are reduced.
    TypeError
        With ``keepdim`` where no dimension is reduced.
    NotImplementedError
        With a tensor, if the dtype is complex.

    Examples
    --------
    >>> x = tensor.tensor([[1, 5], [7, 3]])
    >>> tensor.min(x)
    tensor(1)
    >>> values, indices = tensor.min(x, dim=1)
    >>> values
    tensor([1, 3])
    >>> indices
    tensor([0, 1])
    """
    return _largest(input, dim, keepdim, other, out, MIN, AMIN, minimum)


def _argument(row: Reduction, input: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    if dim is None:
        _check_not_empty(row.name, input, IndexError)
    axes = axes_of(row.name, input, dim)
    if not axes:
        return input.new_zeros(input._layout.shape, dtype=dtypes.int64)
    return row(input, axes, keepdim)[0]


@operation()
def argmax(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Index of the largest element along ``dim``, or in row-major order; the first of equal ones.

    NaN wins over every number.

    Parameters
    ----------
    input : Tensor
        Of an integer or floating dtype. The result is of int64.
    dim : int, optional
        Dimension to reduce, negative ones counted from the end; by default all elements are reduced.
    keepdim : bool
        Whether the reduced dimensions stay, with size 1.
    out : Tensor, optional
        Tensor of the result's dtype that the result is written to, resized to its shape.

    Raises
    ------
    IndexError
        If there is no such dimension, it has size 0, or the tensor is empty.
    RuntimeError
        If the dtype is complex or bool.

    Examples
    --------
    >>> x = tensor.tensor([[1, 5], [7, 3]])
    >>> tensor.argmax(x)
    tensor(2)
    >>> tensor.argmax(x, dim=1)
    tensor([1, 0])
    """
    return into_out(_argument(ARGMAX, input, dim, keepdim), out, "argmax")


@operation()
def argmin(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Index of the smallest element along ``dim``, or in row-major order; the first of equal ones.

    NaN wins over every number.

    Parameters
    ----------
    input : Tensor
        Of an integer or floating dtype. The result is of int64.
    dim : int, optional
        Dimension to reduce, negative ones counted from the end; by default all elements are reduced.
    keepdim : bool
        Whether the reduced dimensions stay, with size 1.
    out : Tensor, optional
        Tensor of the result's dtype that the result is written to, resized to its shape.

    Raises
    ------
    IndexError
        If there is no such dimension, it has size 0, or the tensor is empty.
    RuntimeError
        If the dtype is complex or bool.

    Examples
    --------
    >>> x = tensor.tensor([[1, 5], [7, 3]])
    >>> tensor.argmin(x)
    tensor(0)
    >>> tensor.argmin(x, dim=1)
    tensor([0, 1])
    """
    return into_out(_argument(ARGMIN, input, dim, keepdim), out, "argmin")

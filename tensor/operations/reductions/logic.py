"""Reductions by logic: any, all, and how many are not zero."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import dtypes, reducers
from tensor.operations.definition import operation
from tensor.operations.pointwise.comparisons import eq
from tensor.operations.reduction import (
    Reduction,
    axes_of,
    into_out,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nvrtc_kernels.dtypes import dtype
    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


def _to_bool(dtype: dtype) -> tuple[dtype, tuple[dtype, ...]]:
    return dtype, (dtypes.uint8 if dtype is dtypes.uint8 else dtypes.bool_,)


def _to_index(dtype: dtype) -> tuple[dtype, tuple[dtype, ...]]:
    return dtype, (dtypes.int64,)


ANY = Reduction(
    "any",
    reducers.ANY,
    lambda a, axes: np.any(a != 0, axis=axes, keepdims=True),
    _to_bool,
    stored=dtypes.STORAGE_ONLY,
)


ALL = Reduction(
    "all",
    reducers.ALL,
    lambda a, axes: np.all(a != 0, axis=axes, keepdims=True),
    _to_bool,
    stored=dtypes.STORAGE_ONLY,
)


COUNT = Reduction(
    "count_nonzero",
    reducers.COUNT_NONZERO,
    lambda a, axes: np.sum(a != 0, axis=axes, keepdims=True),
    _to_index,
)


def _logical(row: Reduction, input: Tensor, dim: Any, keepdim: bool, out: Tensor | None) -> Tensor:
    if isinstance(dim, (tuple, list)) and not dim:
        # As in PyTorch, no dimensions are none here, where for other reductions they are all.
        result = eq(input, 0).logical_not()
        if input._layout.dtype is dtypes.uint8:
            result = result.to(dtypes.uint8)
    else:
        result = row(input, axes_of(row.name, input, dim), keepdim)[0]
    if out is not None and out._layout.dtype is dtypes.uint8:
        result = result.to(dtypes.uint8)
    elif out is not None and out._layout.dtype is dtypes.bool_:
        result = result.to(dtypes.bool_)
    return into_out(result, out, row.name)


@operation()
def any(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Whether an element is not 0, over the dimensions ``dim``, by default all; false where there are none.

    Parameters
    ----------
    input : Tensor
        Of any dtype; NaN is not 0. The result is of bools, for uint8 of uint8.
    dim : int or sequence of int, optional
        Dimensions to reduce, negative ones counted from the end; by default all, and for an empty sequence none.
    keepdim : bool
        Whether the reduced dimensions stay, with size 1.
    out : Tensor, optional
        Tensor of bools or uint8 that the result is written to, resized to its shape.

    Raises
    ------
    IndexError
        If there is no such dimension.
    RuntimeError
        If a dimension is named twice.

    Examples
    --------
    >>> tensor.any(tensor.tensor([[0, 0], [0, 2]]), dim=1)
    tensor([False,  True])
    """
    return _logical(ANY, input, dim, keepdim, out)


@operation()
def all(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Whether no element is 0, over the dimensions ``dim``, by default all; true where there are none.

    Parameters
    ----------
    input : Tensor
        Of any dtype; NaN is not 0. The result is of bools, for uint8 of uint8.
    dim : int or sequence of int, optional
        Dimensions to reduce, negative ones counted from the end; by default all, and for an empty sequence none.
    keepdim : bool
        Whether the reduced dimensions stay, with size 1.
    out : Tensor, optional
        Tensor of bools or uint8 that the result is written to, resized to its shape.

    Raises
    ------
    IndexError
        If there is no such dimension.
    RuntimeError
        If a dimension is named twice.

    Examples
    --------
    >>> tensor.all(tensor.tensor([[1, 0], [1, 2]]), dim=1)
    tensor([False,  True])
    """
    return _logical(ALL, input, dim, keepdim, out)


@operation()
def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """How many elements are not 0, over the dimensions ``dim``, by default all.

    Parameters
    ----------
    input : Tensor
        Of any dtype; NaN is not 0. The result is of int64.
    dim : int or sequence of int, optional
        Dimensions to reduce, negative ones counted from the end; by default (and for an empty sequence) all.

    Raises
    ------
    IndexError
        If there is no such dimension.
    RuntimeError
        If a dimension is named twice.

    Examples
    --------
    >>> tensor.count_nonzero(tensor.tensor([[1, 0], [1, 2]]), dim=1)
    tensor([1, 2])
    """
    return COUNT(input, axes_of("count_nonzero", input, dim), False)[0]

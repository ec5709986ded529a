"""How often values occur, and whether they do: ``mode``, ``isin``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import dtypes
from tensor.core.arguments import dimension
from tensor.core.base import TensorBase, check_outs
from tensor.core.creation_arguments import shaped
from tensor.core.modes.grad_mode import unrecorded
from tensor.operations.creation.factories import delivered
from tensor.operations.creation.ranges import arange
from tensor.operations.creation.result_types import result_type
from tensor.operations.definition import operation
from tensor.operations.pointwise.comparisons import EQ, NE
from tensor.operations.pointwise.selection import nan_to_num
from tensor.operations.reductions.scans import cummax
from tensor.operations.return_types import return_type
from tensor.operations.shapes import slices, views
from tensor.operations.shapes.joining import cat

from .searching import searchsorted
from .sorting import Ranked, sort

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

#: As many values are compared with every element; more are sorted first.
_FEW = 16


_MODE = return_type("mode", Ranked)


@operation()
def mode(input: Tensor, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> Ranked:
    """The most frequent value along ``dim``, the smallest of several, and the index of its last occurrence.

    Returns
    -------
    Ranked
        Named tuple of ``values`` and int64 ``indices``, without the dimension, or with size 1 with ``keepdim``.

    Raises
    ------
    RuntimeError
        If ``input`` is complex.
    IndexError
        If ``dim`` is out of range or has size 0.

    Examples
    --------
    >>> tensor.tensor([[1, 2, 2], [3, 3, 1]]).mode().values
    tensor([2, 3])
    """
    rank = len(input._layout.shape)
    at = dimension(dim, rank)
    if not rank:
        result = _MODE(input.clone(), input.new_zeros((), dtype=dtypes.int64))
    else:
        size = input._layout.shape[at]
        if not size:
            raise IndexError(f"mode(): Expected reduction dim {at} to have non-zero size.")
        indices = _last_of_longest_run(input, at, size)
        values = input.gather(at, indices)
        result = _MODE(values, indices)
        if not keepdim:
            result = _MODE(views.squeeze(values, at), views.squeeze(indices, at))
    if out is None:
        return result
    check_outs(out, 2, "mode")
    return _MODE(
        *(shaped(each, output.shape).copy_(output) for each, output in zip(out, result, strict=True))
    )


def _last_of_longest_run(input: Tensor, dim: int, size: int) -> Tensor:
    with unrecorded():
        # Equal values are neighbours in order: the longest run of them, by the position where it ends.
        values, order = sort(input, dim, stable=True)
        ahead = slices.narrow(values, dim, 1, size - 1)
        starts = NE.binary(ahead, slices.narrow(values, dim, 0, size - 1))
        first = starts.new_ones((*starts.shape[:dim], 1, *starts.shape[dim + 1 :]))
        shape = [1] * values.ndim
        shape[dim] = size
        positions_along = views.view(arange(size, device=input._layout.device), shape)
        begin = cummax(positions_along * cat((first, starts), dim).to(dtypes.int64), dim).values
        longest = (positions_along - begin).argmax(dim, keepdim=True)
        return order.gather(dim, longest)


@operation()
def isin(
    elements: Any,
    test_elements: Any,
    *,
    assume_unique: bool = False,
    invert: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Whether each of ``elements`` is one of ``test_elements``; with ``invert``, whether it is none.

    Parameters
    ----------
    elements, test_elements : Tensor or number
        Of any shapes; at least one is a tensor. Different dtypes are promoted.
    assume_unique : bool
        Ignored.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Of bools and the shape of ``elements``.

    Raises
    ------
    TypeError
        If both are numbers.

    Examples
    --------
    >>> tensor.isin(tensor.tensor([[1, 2], [3, 4]]), tensor.tensor([2, 3]))
    tensor([[False,  True],
            [ True, False]])
    """
    if not isinstance(elements, TensorBase):
        if not isinstance(test_elements, TensorBase):
            raise TypeError("isin(): elements and test_elements cannot both be numbers: one must be a Tensor")
        elements = test_elements.new_tensor(elements, dtype=result_type(test_elements, elements))
    if not isinstance(test_elements, TensorBase):
        result = EQ.binary(elements, test_elements)
        return delivered(out, ~result if invert else result, "isin")
    dtype = dtypes.promote_types(elements._layout.dtype, test_elements._layout.dtype)
    argument, expected = elements.detach().to(dtype), test_elements.detach().to(dtype).reshape(-1)
    count = expected._layout.numel
    if not count:
        result = argument.new_zeros(argument._layout.shape, dtype=dtypes.bool_)
    elif count <= _FEW or dtype.is_complex or dtype is dtypes.bool_:
        result = EQ.binary(views.unsqueeze(argument, -1), expected).any(-1)
    else:
        ordered = sort(expected)[0]
        # NaN, which has no order, would lead the search astray, and equals nothing that it finds there.
        searched = ordered
        if dtype.is_floating_point:
            searched = nan_to_num(ordered, nan=math.inf, posinf=math.inf, neginf=-math.inf)
        position = searchsorted(searched, argument).clamp(max=count - 1)
        result = EQ.binary(ordered.take(position), argument)
    return delivered(out, ~result if invert else result, "isin")

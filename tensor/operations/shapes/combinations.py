"""Elements that come several times, and combinations of elements."""

from __future__ import annotations

import itertools
import math
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.core.arguments import as_int64, dimension
from tensor.core.base import TensorBase, check_tensor, empty, wrap
from tensor.core.layout import contiguous
from tensor.core.memory_format import contiguous_format
from tensor.core.modes.grad_mode import unrecorded
from tensor.operations.creation.copies import clone
from tensor.operations.creation.ranges import arange
from tensor.operations.definition import operation
from tensor.operations.indexing.gather import index_select
from tensor.operations.indexing.searching import searchsorted
from tensor.operations.reductions.extremes import amin
from tensor.operations.reductions.scans import cumsum

from . import views
from .joining import stack
from .slices import select

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor


#: Elements that combinations gives at most, as a power of 2: their indices are made on the host.
_MOST_BITS = 32


@operation()
def repeat_interleave(
    input: Tensor | None = None,
    repeats: Any = None,
    dim: int | None = None,
    *,
    output_size: int | None = None,
) -> Tensor:
    """Each element so many times, one copy behind the other.

    Parameters
    ----------
    repeats
        How often each slice along ``dim`` comes: one number for all, or a vector of int32 or int64 with one
        for each (or one for all). Without it ``input`` is that vector, and the result has the indices of
        what is repeated.
    dim
        Dimension; by default ``input`` is taken as a vector, in row-major order.
    output_size
        Size of the result along ``dim``. On CUDA the host need not wait for the sum of a vector then, and
        what it says is not checked.

    Raises
    ------
    RuntimeError
        If a number of repeats is negative, ``repeats`` has another type or length, or ``output_size`` is not the sum
        of the repeats.

    Examples
    --------
    >>> x = tensor.tensor([[1, 2], [3, 4]])
    >>> tensor.repeat_interleave(x, 2)
    tensor([1, 1, 2, 2, 3, 3, 4, 4])
    >>> tensor.repeat_interleave(x, tensor.tensor([1, 2]), dim=0)
    tensor([[1, 2],
            [3, 4],
            [3, 4]])
    """
    if input is None or repeats is None:
        return _repeated_indices(repeats if input is None else input, output_size)
    if isinstance(repeats, bool) or not (isinstance(repeats, TensorBase) or hasattr(repeats, "__index__")):
        raise TypeError(
            f"repeat_interleave(): argument 'repeats' must be int or Tensor, not {type(repeats).__name__}"
        )
    if dim is None:
        input, dim = input.reshape(-1), 0
    elif not input._layout.shape:
        raise IndexError(f"repeat_interleave(): dim {dim} is out of range for a tensor without dimensions")
    at = dimension(dim, len(input._layout.shape))
    length = input._layout.shape[at]
    if not isinstance(repeats, TensorBase):
        return _repeated(input, index(repeats), at, output_size)
    if len(repeats._layout.shape) > 1:
        raise RuntimeError(
            f"repeat_interleave(): repeats must be 0-dim or 1-dim tensor, got shape {list(repeats._layout.shape)}"
        )
    if repeats._layout.numel == 1:
        repeats = views.expand(views.view(repeats, 1), (length,))
    elif repeats._layout.numel != length:
        raise RuntimeError(
            "repeat_interleave(): repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{repeats._layout.numel} and input.size({at}) = {length}"
        )
    return index_select(input, at, _repeated_indices(repeats, output_size))


def _repeated(input: Tensor, repeats: int, at: int, output_size: int | None) -> Tensor:
    """Each slice along dimension ``at`` the same number of times."""
    if repeats < 0:
        raise RuntimeError(f"repeat_interleave(): Repeats must be non-negative, got {repeats}")
    shape = input._layout.shape
    total = shape[at] * repeats
    if output_size is not None and output_size != total:
        raise RuntimeError(f"repeat_interleave: Invalid output_size, expected {total} but got {output_size}")
    expanded = views.expand(views.unsqueeze(input, at + 1), (*shape[: at + 1], repeats, *shape[at + 1 :]))
    return views.view(
        clone(expanded, memory_format=contiguous_format), (*shape[:at], total, *shape[at + 1 :])
    )


def _repeated_indices(repeats: Tensor, output_size: int | None) -> Tensor:
    """Index ``i`` for ``repeats[i]`` times, for all ``i``."""
    check_tensor(repeats, "repeat_interleave", "repeats")
    layout = repeats._layout
    if layout.dtype.name not in ("int32", "int64"):
        raise RuntimeError(
            f"repeat_interleave(): repeats has to be of type int32 or int64, got {layout.dtype!r}"
        )
    if len(layout.shape) != 1:
        raise RuntimeError(
            f"repeat_interleave(): only a 1D vector is accepted as repeats, got shape {list(layout.shape)}"
        )
    if not layout.numel:
        return empty(contiguous[(0,), layout.dtype, layout.device_state])
    ends = cumsum(repeats, 0)
    if output_size is None or not layout.device_state.is_cuda:
        total, smallest = _total(ends, repeats)
        if smallest < 0:
            raise RuntimeError(f"repeat_interleave(): repeats can not be negative, got {smallest}")
        if output_size is not None and output_size != total:
            raise RuntimeError(
                f"repeat_interleave(): allocated size does not match required size: output_size is {output_size}, "
                f"and repeats sum to {total}"
            )
    else:
        total = index(output_size)
    # Element k of the result comes from the first that ends behind k.
    result = searchsorted(ends, arange(total, device=layout.device), right=True)
    return result.to(layout.dtype)


def _total(ends: Tensor, repeats: Tensor) -> tuple[int, int]:
    """The last of ``ends`` and the smallest of ``repeats``. On CUDA the host waits once for both."""
    total, smallest = stack((select(ends, 0, -1), amin(repeats).to(ends.dtype))).tolist()
    return total, smallest


@operation(method=False)
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of ``r`` elements of a vector, in the order of :mod:`itertools`, one row each.

    Parameters
    ----------
    with_replacement
        Whether an element may come several times.

    Raises
    ------
    RuntimeError
        If ``input`` is no vector, ``r`` is negative, or the result would have more than 2**32 elements.

    Examples
    --------
    >>> tensor.combinations(tensor.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    shape = input._layout.shape
    if len(shape) != 1:
        raise RuntimeError(f"combinations(): Expect a 1D vector, but got shape {list(shape)}")
    r = as_int64(r, "combinations", "r")
    if r < 0:
        raise RuntimeError(f"combinations(): Expect a non-negative number, but got {r}")
    if r == 0:
        return empty(contiguous[(0,), input._layout.dtype, input._layout.device_state])
    if r > shape[0] and (not with_replacement or not shape[0]):
        positions = wrap(np.empty(0, np.int64))
    else:
        _check_count(shape[0] + (r - 1 if with_replacement else 0), r)
        positions = wrap(_places(shape[0], r, with_replacement=with_replacement))
    with unrecorded():
        flat = positions.to(input._layout.device)
    return views.view(index_select(input, 0, flat), (-1, r) if flat._layout.numel else (0, r))


def _check_count(n: int, r: int) -> None:
    """Raise RuntimeError for more combinations of ``r`` among ``n`` than indices of the elements can be held for."""
    log_count = math.lgamma(n + 1) - math.lgamma(r + 1) - math.lgamma(n - r + 1)
    bits = max(log_count, 0) / math.log(2) + math.log2(r)
    if bits > _MOST_BITS:
        raise RuntimeError(
            f"combinations(): about 2**{bits:.0f} elements are more than memory holds: at most 2**{_MOST_BITS} are chosen"
        )


def _places(length: int, r: int, *, with_replacement: bool) -> Any:
    """Indices of the elements of all combinations, one behind the other."""
    if r == 2:
        return np.stack(np.triu_indices(length, 0 if with_replacement else 1), axis=1).reshape(-1)
    if r > length and not with_replacement:
        return np.zeros(0, np.int64)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    return np.fromiter(itertools.chain.from_iterable(choose(range(length), r)), np.int64)

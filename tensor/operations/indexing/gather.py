"""Reading what indices choose, and the indices of what is true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from nvrtc_kernels import dtypes, scan
from nvrtc_kernels import layouts as strides_of
from tensor.core import layout as layouts
from tensor.core.arguments import dimension
from tensor.core.base import empty, wrap
from tensor.core.modes.grad_mode import unrecorded
from tensor.core.modes.sync_debug import sync_debug
from tensor.core.plans import planned
from tensor.operations import scratch
from tensor.operations.creation.factories import delivered
from tensor.operations.definition import operation
from tensor.operations.pointwise.selection import where
from tensor.operations.shapes import slices, views
from tensor.operations.shapes.joining import stack

from .advanced_indexing import Indexing
from .recorded_indexing import check_indices, read

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

_INDICES = ("int32", "int64")


@operation()
def gather(
    input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False, out: Tensor | None = None
) -> Tensor:
    """Elements of ``input`` at indices along ``dim``.

    For a matrix and ``dim=0``: ``result[i][j] = input[index[i][j]][j]``; for ``dim=1``:
    ``result[i][j] = input[i][index[i][j]]``.

    Parameters
    ----------
    index : Tensor
        int64 or int32, with as many dimensions as ``input``, and no larger than it apart from ``dim``; without elements,
        of any shape. Negative indices are out of range; see :func:`take_along_dim`.
    sparse_grad : bool
        Ignored: gradients are dense.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Of the shape of ``index`` and the dtype of ``input``.

    Raises
    ------
    RuntimeError
        If ``index`` is neither int32 nor int64, is on another device or has another number of dimensions, it is
        larger than ``input`` in another dimension than ``dim``, or an index is out of range (on CUDA a device assert,
        which a later synchronising call raises).
    IndexError
        If ``dim`` is out of range.

    Examples
    --------
    >>> x = tensor.tensor([[1, 2], [3, 4]])
    >>> x.gather(1, tensor.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])
    >>> x.gather(1, x.argmax(1, keepdim=True))
    tensor([[2],
            [4]])
    """
    at = dimension(dim, len(input._layout.shape))
    argument = getattr(index, "_layout", None)
    if argument is not None and not argument.numel:
        # Of no indices the dtype does not matter.
        index = index.to(dtypes.int64)
    check_indices("gather", input, index, types=_INDICES)
    fitting = with_rank("gather", input, index)
    result = read(input, Indexing("gather", "elementwise", (fitting,), at))
    if fitting is not index:
        result = result.reshape(index._layout.shape)
        result._base = None
    return delivered(out, result, "gather")


def with_rank(name: str, input: Tensor, index: Tensor) -> Tensor:
    """``index``, which has as many dimensions as ``input``, as long as there are indices; a number counts as a vector.

    Raises
    ------
    RuntimeError
        If it has not.
    """
    mine, argument = len(input._layout.shape), len(index._layout.shape)
    if max(mine, 1) != max(argument, 1):
        if not index._layout.numel:
            return views.view(index, (0,) * max(mine, 1))
        raise RuntimeError(
            f"{name}(): Index tensor must have the same number of dimensions as input tensor: got {argument} and {mine}"
        )
    return index


@operation()
def take_along_dim(
    input: Tensor, indices: Tensor, dim: int | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Elements of ``input`` at indices along ``dim``, such as :func:`argsort` and :func:`argmax` return.

    As :func:`gather`, but ``input`` and ``indices`` are broadcast apart from ``dim``, and negative indices count from
    the end.

    Parameters
    ----------
    indices : Tensor
        int64, with as many dimensions as ``input``.
    dim : int, optional
        By default both tensors are flattened; negative indices are then out of range.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Of the broadcast shape, with the size of ``indices`` along ``dim``, and the dtype of ``input``.

    Raises
    ------
    RuntimeError
        If ``indices`` is not an int64 tensor on the same device with the same number of dimensions, the other
        dimensions cannot be broadcast together, or an index is out of range (on CUDA a device assert, which a later
        synchronising call raises).
    IndexError
        If ``dim`` is out of range.

    Examples
    --------
    >>> x = tensor.tensor([[3, 1, 2], [4, 6, 5]])
    >>> x.take_along_dim(x.argsort(1), 1)
    tensor([[1, 2, 3],
            [4, 5, 6]])
    >>> x.take_along_dim(tensor.tensor([[-1]]), 1)
    tensor([[2],
            [5]])
    """
    check_indices("take_along_dim", input, indices)
    if dim is None:
        return gather(input.reshape(-1), 0, indices.reshape(-1), out=out)
    rank = len(input._layout.shape)
    if len(indices._layout.shape) != rank:
        raise RuntimeError(
            f"take_along_dim(): input and indices should have the same number of dimensions, but got {rank} "
            f"dimensions for input, and {len(indices._layout.shape)} dimensions for indices"
        )
    at = dimension(dim, rank)
    mine, argument = list(input._layout.shape), list(indices._layout.shape)
    mine[at] = argument[at] = 1
    common = list(strides_of.broadcast_shapes(mine, argument))
    input_shape, index = common.copy(), common.copy()
    input_shape[at], index[at] = input._layout.shape[at], indices._layout.shape[at]
    from_end = where(indices < 0, indices + input_shape[at], indices)
    return gather(views.expand(input, input_shape), at, views.expand(from_end, index), out=out)


@operation()
def index_select(input: Tensor, dim: int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Slices of ``input`` along ``dim``: ``input[index]`` for ``dim=0``.

    Parameters
    ----------
    index : Tensor
        A vector (or 0-dim) of int64 or int32. Negative indices are out of range.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        A new tensor of the dtype of ``input``, with as many slices along ``dim`` as there are indices.

    Raises
    ------
    RuntimeError
        If ``index`` has another dtype or device, or a 0-dim ``input`` gets more than one index.
    IndexError
        If ``dim`` or an index is out of range (on CUDA a device assert, which a later synchronising call raises), or
        ``index`` has more than one dimension.

    Examples
    --------
    >>> tensor.tensor([[1, 2, 3], [4, 5, 6]]).index_select(1, tensor.tensor([2, 0]))
    tensor([[3, 1],
            [6, 4]])
    """
    at = dimension(dim, len(input._layout.shape))
    check_indices("index_select", input, index, types=_INDICES)
    if len(index._layout.shape) > 1:
        raise IndexError(
            f"index_select(): Index is supposed to be a vector, got shape {list(index._layout.shape)}"
        )
    if not input._layout.shape and index._layout.numel != 1:
        raise RuntimeError(
            f"index_select(): Index to scalar can have only 1 value, got {index._layout.numel} value(s)"
        )
    return delivered(out, read(input, Indexing("index_select", "along", (index,), at)), "index_select")


@operation()
def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elements of ``input`` at positions in row-major order: ``input.flatten()[index]``.

    Parameters
    ----------
    index : Tensor
        int64 of any shape; negative positions count from the end.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Of the shape of ``index`` and the dtype of ``input``.

    Raises
    ------
    RuntimeError
        If ``index`` is not int64 or on another device.
    IndexError
        If a position is out of range (on CUDA a device assert, which a later synchronising call raises).

    Examples
    --------
    >>> tensor.tensor([[1, 2], [3, 4]]).take(tensor.tensor([0, -1, 2]))
    tensor([1, 4, 3])
    """
    check_indices("take", input, index)
    return delivered(out, read(input, Indexing("take", "flat", (index,))), "take")


# What is true


def _nonzero_positions_plan(layout: Any) -> Any:
    """What lists them for tensors of ``layout``.

    ``device_state.plans[_TRUE, layout](input)``: row-major positions of what is not zero, as a vector of int64.
    """
    device_state = layout.device_state
    if not device_state.is_cuda:
        return _on_host
    compact = scan.plan_compact(device_state.native, layout.shape, layout.strides, layout.dtype)
    # The count first, and the positions behind it, so that one tensor holds both.
    both = layouts.contiguous[(layout.numel + 2,), dtypes.int64, device_state]

    def run(input: Tensor) -> Tensor:
        result = empty(both)
        scratch.launch(device_state, compact, result._address, result._address + 16, input._address)
        count = int(slices.select(result, 0, 0).item())
        # A copy: a view would hold the room for as many positions as there are elements.
        return slices.narrow(result, 0, 2, count).clone()

    return run


def _on_host(input: Tensor) -> Tensor:
    sync_debug.shape_follows_from_data()
    return wrap(np.flatnonzero(input._host))


_TRUE = planned(_nonzero_positions_plan)


def nonzero_positions(input: Tensor) -> Tensor:
    """Row-major positions of the elements that are not zero. On CUDA the host waits for their number."""
    layout = input._layout
    if not layout.numel:
        return empty(layouts.contiguous[(0,), dtypes.int64, layout.device_state])
    result: Tensor = layout.device_state.plans[_TRUE, layout](input)
    return result


def true_indices(input: Tensor) -> list[Tensor]:
    """For each dimension the indices of the elements that are not zero."""
    with unrecorded():
        positions = nonzero_positions(input)
        result: list[Tensor] = []
        for size in reversed(input._layout.shape):
            result.append(positions % size if len(result) + 1 < len(input._layout.shape) else positions)
            positions = positions.div(size, rounding_mode="floor") if size else positions
        return result[::-1]


@overload
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: Literal[False] = False) -> Tensor: ...
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
@overload
def nonzero(input: Tensor, *, as_tuple: bool) -> Any: ...
@operation()
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Any:
    """Indices of the elements that are not zero, in row-major order.

    On CUDA the host waits for the count.

    Returns
    -------
    Tensor or tuple of Tensor
        int64 of shape ``(count, input.ndim)``; with ``as_tuple`` a vector for each dimension (a 0-dim tensor counts as
        a vector then), which can index ``input``.

    Raises
    ------
    RuntimeError
        If ``out`` has another dtype or device.

    Examples
    --------
    >>> x = tensor.tensor([[1, 0], [0, 2]])
    >>> tensor.nonzero(x)
    tensor([[0, 0],
            [1, 1]])
    >>> x[tensor.nonzero(x, as_tuple=True)]
    tensor([1, 2])
    """
    if as_tuple:
        return tuple(true_indices(input if input._layout.shape else views.view(input.detach(), (1,))))
    if not input._layout.shape:
        count = nonzero_positions(input)._layout.numel
        result = empty(layouts.contiguous[(count, 0), dtypes.int64, input._layout.device_state])
    else:
        # One row for each dimension, shown as columns: the strides that PyTorch gives.
        result = views.t(stack(true_indices(input)))
    return delivered(out, result, "nonzero")


@operation()
def argwhere(input: Tensor) -> Tensor:
    """Indices of the elements that are not zero: int64 of shape ``(count, input.ndim)``, in row-major order.

    The same as :func:`nonzero`; on CUDA the host waits for the count.

    Examples
    --------
    >>> tensor.argwhere(tensor.tensor([0, 5, 6]) > 0)
    tensor([[1],
            [2]])
    """
    return nonzero(input)


@operation()
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1, out: Tensor | None = None) -> Tensor:
    """The first ``size`` rows of :func:`nonzero`, filled up with ``fill_value``: int64 of shape ``(size, input.ndim)``.

    Raises
    ------
    RuntimeError
        If ``size`` is negative, or ``out`` has another dtype or device.

    Examples
    --------
    >>> tensor.nonzero_static(tensor.tensor([0, 7, 8]), size=3)
    tensor([[ 1],
            [ 2],
            [-1]])
    """
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, got {size}")
    result: Any = nonzero(input)
    result = result[:size]
    output: Tensor = result.new_full((size, result.shape[1]), fill_value)
    output[: result.shape[0]] = result
    return delivered(out, output, "nonzero_static")

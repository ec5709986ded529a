"""Tensors made around a diagonal, and copies of tensors with a region replaced."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import int64
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.autograd.recording.storage_views import as_strided
from tensor.core.arguments import dimension
from tensor.core.memory_format import contiguous_format
from tensor.core.modes.grad_mode import first_version, unrecorded
from tensor.operations.creation.copies import clone
from tensor.operations.creation.result_types import cast_for
from tensor.operations.definition import operation
from tensor.operations.reduction import into_out

from . import slices

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.methods.tensor import Tensor


@operation()
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the last dimension of ``input`` as their diagonal, and zeros elsewhere.

    Parameters
    ----------
    offset
        0 is the main diagonal, positive ones are above it.
    dim1, dim2
        The result's dimensions that rows and columns are.

    Raises
    ------
    IndexError
        If there is no such dimension.
    RuntimeError
        If the two are the same one.

    Examples
    --------
    >>> tensor.diag_embed(tensor.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    shape = input._layout.shape
    rank, offset = len(shape) + 1, index(offset)
    first, second = dimension(dim1, rank), dimension(dim2, rank)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return _embedded(input, offset, first, second)


def _embedded(input: Tensor, offset: int, first: int, second: int) -> Tensor:
    *sizes, length = input._layout.shape
    for axis in sorted((first, second)):
        sizes.insert(axis, length + abs(offset))
    with unrecorded():
        result = input.new_zeros(sizes)
        slices.diagonal(result, offset, first, second).copy_(input)
    # Filling it was its making, not a change.
    result._storage.version = first_version()
    _EMBEDDED.record((result,), (input,), context=(offset, first, second))
    return result


_EMBEDDED = BackwardFormula("DiagEmbedBackward0", "input", [Derivative(slices.diagonal, needs="")])


@operation()
def diag(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """A vector as the diagonal of a square matrix, or a copy of a diagonal of a matrix.

    Parameters
    ----------
    diagonal
        0 is the main diagonal, positive ones are above it.

    Raises
    ------
    RuntimeError
        If the tensor is neither a vector nor a matrix.

    Examples
    --------
    >>> tensor.diag(tensor.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    >>> tensor.diag(tensor.tensor([[1, 2], [3, 4]]), 1)
    tensor([2])
    """
    rank = len(input._layout.shape)
    if rank == 1:
        result = diag_embed(input, diagonal)
    elif rank == 2:
        result = clone(slices.diagonal(input, diagonal), memory_format=contiguous_format)
    else:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {rank}D")
    if out is None:
        return result
    return into_out(cast_for(out, result, "diag") if rank == 1 else result, out, "diag")


@operation()
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """All elements, in row-major order, as the diagonal of a square matrix with zeros elsewhere.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype; the result has n + abs(offset) rows and columns for n elements.
    offset : int
        0 is the main diagonal, positive ones are above it.

    Examples
    --------
    >>> tensor.diagflat(tensor.tensor([1, 2]), offset=1)
    tensor([[0, 1, 0],
            [0, 0, 2],
            [0, 0, 0]])
    """
    return diag_embed(input.reshape(-1), offset)


@operation(namespace="")
def fill_diagonal_(input: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Write a number to the main diagonal, on which all indices are the same; the tensor is returned.

    Parameters
    ----------
    fill_value : number
        Converted to the tensor's dtype.
    wrap : bool
        Whether the diagonal of a tall matrix starts again, one row below where it has left the matrix.

    Raises
    ------
    RuntimeError
        If there are fewer than two dimensions, or more of different sizes, or the tensor is a leaf that
        requires a gradient.

    Examples
    --------
    >>> tensor.zeros(2, 3).fill_diagonal_(5)
    tensor([[5., 0., 0.],
            [0., 5., 0.]])
    >>> tensor.zeros(4, 2).fill_diagonal_(5, wrap=True)
    tensor([[5., 0.],
            [0., 5.],
            [0., 0.],
            [5., 0.]])
    """
    shape, strides = input._layout.shape, input._layout.strides
    if len(shape) < 2:
        raise RuntimeError(f"fill_diagonal_(): dimensions must be larger than 1, got shape {list(shape)}")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError(
            f"fill_diagonal_(): all dimensions of input must be of equal length, got shape {list(shape)}"
        )
    length, step = min(shape), sum(strides)
    start = input.storage_offset()
    as_strided(input, (length,), (step,), start).fill_(fill_value)
    if wrap and len(shape) == 2:
        rows, columns = shape
        for top in range(columns + 1, rows, columns + 1):
            below = as_strided(input, (min(columns, rows - top),), (step,), start + top * strides[0])
            below.fill_(fill_value)
    return input


# A region replaced


@operation()
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of ``input`` whose diagonal, as :func:`~tensor.diagonal` gives it, is ``src``.

    Parameters
    ----------
    src : Tensor
        Of the shape of the region that it takes; converted to the input's dtype, which the result has.
    offset : int
        0 is the main diagonal, positive ones are above it.
    dim1, dim2 : int
        Dimensions that rows and columns are.

    Raises
    ------
    RuntimeError
        If ``src`` has not the diagonal's shape, or the two dimensions are the same one.
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> tensor.diagonal_scatter(tensor.zeros(2, 2), tensor.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    return _scattered("DiagonalScatter", slices.diagonal, input, src, offset, dim1, dim2)


@operation()
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of ``input`` whose slice ``input.select(dim, index)`` is ``src``.

    Parameters
    ----------
    src : Tensor
        Of the shape of the region that it takes; converted to the input's dtype, which the result has.

    Raises
    ------
    RuntimeError
        If ``src`` has not the slice's shape.
    IndexError
        If the index is out of range, there is no such dimension, or the tensor is 0-dim.

    Examples
    --------
    >>> tensor.select_scatter(tensor.zeros(2, 2), tensor.tensor([1.0, 2.0]), dim=0, index=1)
    tensor([[0., 0.],
            [1., 2.]])
    """
    return _scattered("SelectScatter", slices.select, input, src, dim, index)


@operation()
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of ``input`` whose elements ``start:end:step`` of dimension ``dim`` are ``src``.

    Parameters
    ----------
    src : Tensor
        Of the shape of the region that it takes; converted to the input's dtype, which the result has.
    start, end : int, optional
        As in a Python slice: negative ones count from the end, and what is outside is cut off.
    out : Tensor, optional
        Tensor of the result's dtype that the result is written to, resized to its shape.

    Raises
    ------
    RuntimeError
        If ``src`` has not the shape of these elements, or ``step`` is not positive.
    IndexError
        If there is no such dimension, or the tensor is 0-dim.

    Examples
    --------
    >>> tensor.slice_scatter(tensor.zeros(4), tensor.tensor([1.0, 2.0]), start=0, end=4, step=2)
    tensor([1., 0., 2., 0.])
    """
    shape = input._layout.shape
    if not shape:
        raise IndexError("slice_scatter() cannot be applied to a 0-dim tensor.")
    if index(step) <= 0:
        raise RuntimeError(f"slice step must be positive, got {step}")
    at = dimension(dim, len(shape))
    chosen = range(*slice(start, end, step).indices(shape[at]))
    result = _scattered(
        "SliceScatter", slices.step_through, input, src, at, chosen.start, len(chosen), chosen.step
    )
    return into_out(result, out, "slice_scatter")


@operation()
def as_strided_scatter(
    input: Tensor,
    src: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """A copy of ``input`` whose elements at ``size`` and ``stride``, as by ``as_strided``, are ``src``.

    Parameters
    ----------
    src : Tensor
        Of shape ``size`` and the input's dtype.
    stride : sequence of int
        Distances in elements, one for each size.
    storage_offset : int, optional
        First element in the storage; by default the input's.

    Raises
    ------
    RuntimeError
        If ``src`` has not the shape ``size``, or elements would lie outside the storage.

    Examples
    --------
    >>> tensor.as_strided_scatter(tensor.zeros(2, 2), tensor.tensor([1.0, 2.0]), (2,), (3,))
    tensor([[1., 0.],
            [0., 2.]])
    """
    layout = input._layout
    if layout.contiguous and not input.storage_offset():
        return _scattered("AsStridedScatter", as_strided, input, src, size, stride, storage_offset)
    # Which of the elements each element of the storage is; -1 for none.
    count = input._storage.nbytes() // layout.itemsize
    positions = input.new_full((count,), -1, dtype=int64)
    first = input.storage_offset()
    shown = as_strided(positions, layout.shape, layout.strides, first)
    shown.copy_(input.new_tensor(range(layout.numel), dtype=int64).view(layout.shape))
    chosen = as_strided(positions, size, stride, first if storage_offset is None else storage_offset)
    if chosen._layout.shape != src._layout.shape:
        raise RuntimeError(
            f"AsStridedScatter: expected src to have a size equal to the slice of self. src size = "
            f"{list(src._layout.shape)}, slice size = {list(chosen._layout.shape)}"
        )
    inside = chosen >= 0
    return input.reshape(-1).index_put((chosen[inside],), src[inside]).view(layout.shape)


def _scattered(name: str, view: Callable[..., Tensor], input: Tensor, src: Tensor, *args: Any) -> Tensor:
    """A copy of ``input`` whose region ``view(input, *args)`` is ``src``."""
    with unrecorded():
        output = clone(input)
        region = view(output, *args)
        expected, result = region._layout.shape, src._layout.shape
        if expected != result:
            raise RuntimeError(
                f"{name}: expected src to have a size equal to the slice of self. src size = {list(result)}, "
                f"slice size = {list(expected)}"
            )
        region.copy_(src)
    output._storage.version = first_version()
    _SCATTERED[name].record((output,), (input, src), (), (name, view, args))
    return output


def _scatter_gradients(
    mask: tuple[bool, bool], grad: Tensor, name: str, view: Callable[..., Tensor], args: tuple[Any, ...]
) -> tuple[Tensor | None, Tensor | None]:
    """The gradient with zeros in the region, and the region of the gradient."""
    region = view(grad, *args)
    former = _scattered(name, view, grad, grad.new_zeros(region._layout.shape), *args) if mask[0] else None
    return former, region if mask[1] else None


_SCATTERED = {
    name: BackwardFormula(f"{name}Backward0", "input src", joint=Derivative(_scatter_gradients, needs=""))
    for name in ("DiagonalScatter", "SelectScatter", "SliceScatter", "AsStridedScatter")
}

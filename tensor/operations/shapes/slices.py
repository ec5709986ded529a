"""Views of parts: slices, windows, diagonals.

Offsets that vary from call to call (``x[i]`` in a loop) are left out of what is remembered of a layout.
"""

from __future__ import annotations

import operator
from itertools import pairwise
from operator import index
from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import Category
from tensor.autograd.recording.views import Division, View, divide, show
from tensor.core.arguments import dimension
from tensor.core.base import TensorBase
from tensor.core.layout import Layout, Memo
from tensor.operations.definition import operation

from .overlap_add import overlap_add

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor


@operation()
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """View of the slice at ``index`` of dimension ``dim``, without that dimension.

    Parameters
    ----------
    index : int
        Negative ones are counted from the end.

    Raises
    ------
    IndexError
        If the index is out of range, there is no such dimension, or the tensor is 0-dim.

    Examples
    --------
    >>> tensor.select(tensor.tensor([[1, 2], [3, 4]]), 1, 0)
    tensor([1, 3])
    """
    layout, stride, size = _selected[input._layout, dim]
    at = index if type(index) is int else operator.index(index)
    if not -size <= at < size:
        raise IndexError(
            f"select(): index {at} out of range for tensor of size {list(input._layout.shape)} at dimension {dim}"
        )
    return show(input, layout, (at + size if at < 0 else at) * stride, _SELECT, dim, at)


def _select(layout: Layout, dim: Any) -> tuple[Layout, int, int]:
    if not layout.shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    at = dimension(dim, len(layout.shape))
    shape, strides = layout.shape, layout.strides
    rest = layout.with_strides(tuple(shape[:at]) + tuple(shape[at + 1 :]), strides[:at] + strides[at + 1 :])
    return rest, layout.numpy_strides[at], shape[at]


@operation()
def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """View of ``length`` elements of a dimension from ``start`` on.

    Parameters
    ----------
    start : int or Tensor
        First index; a negative one counts from the end. A tensor is 0-dim, of integers.

    Raises
    ------
    IndexError
        If there is no such dimension, or ``start`` is outside.
    RuntimeError
        If ``start`` is another tensor, ``start + length`` is beyond the size, ``length`` is negative, or the tensor is 0-dim.

    Examples
    --------
    >>> tensor.narrow(tensor.tensor([1, 2, 3, 4]), 0, 1, 2)
    tensor([2, 3])
    """
    layout = input._layout
    if not layout.shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    length = index(length)
    if length < 0:
        raise RuntimeError(f"narrow(): length must be non-negative, got {length}")
    at = dimension(dim, len(layout.shape))
    size, first = layout.shape[at], start if type(start) is int else _start(start)
    if not -size <= first <= size:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-size}, {size}], but got {first})"
        )
    first += size if first < 0 else 0
    if first + length > size:
        raise RuntimeError(f"start ({first}) + length ({length}) exceeds dimension size ({size}).")
    return step_through(input, at, first, length, 1)


def _start(start: Any) -> int:
    if isinstance(start, TensorBase):
        dtype = start._layout.dtype
        if start._layout.shape or dtype.category is not Category.INTEGER:
            raise RuntimeError(
                f"start must be an 0-dim integral Tensor, got {dtype!r} of shape {list(start._layout.shape)}"
            )
    return index(start)


def step_through(input: Tensor, dim: int, start: int, length: int, step: int) -> Tensor:
    """``length`` elements of dimension ``dim`` from ``start`` on, every ``step``-th. Nothing is checked."""
    result, stride = _stepped[input._layout, dim, length, step]
    return show(input, result, start * stride, _SLICE, dim, start, length, step)


def _step(layout: Layout, dim: int, length: int, step: int) -> tuple[Layout, int]:
    shape, strides = list(layout.shape), list(layout.strides)
    shape[dim] = length
    strides[dim] *= step
    return layout.with_strides(tuple(shape), tuple(strides)), layout.numpy_strides[dim]


@operation(method=False)
def split(tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive parts of a dimension.

    Parameters
    ----------
    split_size_or_sections : int or sequence of int
        Size of each part, of which the last may be smaller; or the size of each, which sum to the
        dimension's.

    Raises
    ------
    RuntimeError
        For a negative size, a size of 0 of a dimension that is not empty, sizes that do not sum to the
        dimension's, or a 0-dim tensor.
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> tensor.split(tensor.tensor([1, 2, 3, 4, 5]), 2)
    (tensor([1, 2]), tensor([3, 4]), tensor([5]))
    >>> tensor.split(tensor.tensor([1, 2, 3, 4, 5]), [1, 4])
    (tensor([1]), tensor([2, 3, 4, 5]))
    """
    layout = tensor._layout
    if not layout.shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    uneven = isinstance(split_size_or_sections, (tuple, list))
    if not uneven and index(split_size_or_sections) < 0:  # type: ignore[arg-type]
        raise RuntimeError(
            f"split expects split_size be non-negative, but got split_size={split_size_or_sections}"
        )
    at = dimension(dim, len(layout.shape))
    total = layout.shape[at]
    if isinstance(split_size_or_sections, (tuple, list)):
        lengths = [index(size) for size in split_size_or_sections]
        if sum(lengths) != total or any(size < 0 for size in lengths):
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {total} (input tensor's size at dimension "
                f"{at}) and have only non-negative entries, but got split_sizes={lengths}"
            )
    else:
        size = index(split_size_or_sections)  # type: ignore[arg-type]
        if size == 0 and total:
            raise RuntimeError(
                f"split_size can only be 0 if dimension size is 0, but got dimension size of {total}"
            )
        count = max(-(-total // size), 1) if size else 1
        lengths = [size] * (count - 1) + [total - size * (count - 1)]
    parts, offset = [], 0
    for length in lengths:
        part, stride = _stepped[layout, at, length, 1]
        parts.append((part, offset))
        offset += length * stride
    return divide(tensor, parts, _SPLIT_SIZES if uneven else _SPLIT, lengths, at)


@operation(namespace="", method=False, also="Tensor.split")
def split_parts(input: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive parts of a dimension; see :func:`tensor.split`.

    Parameters
    ----------
    split_size : int or sequence of int
        Size of each part, of which the last may be smaller; or the size of each, which sum to the
        dimension's.

    Raises
    ------
    RuntimeError
        For a negative size, a size of 0 of a dimension that is not empty, sizes that do not sum to the
        dimension's, or a 0-dim tensor.
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> tensor.tensor([1, 2, 3]).split(2)
    (tensor([1, 2]), tensor([3]))
    """
    return split(input, split_size, dim)


@operation()
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive parts of a dimension, of the sizes ``split_sizes``.

    Raises
    ------
    RuntimeError
        If a size is negative, the sizes do not sum to the dimension's, or the tensor is 0-dim.
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> tensor.split_with_sizes(tensor.tensor([1, 2, 3]), [1, 2])
    (tensor([1]), tensor([2, 3]))
    """
    return split(input, list(split_sizes), dim)


@operation()
def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of parts of ``split_size`` elements, of which the last may be smaller; see :func:`split`.

    The caller promises not to write to one part and read it through the input or another part.

    Raises
    ------
    RuntimeError
        For a negative size, a size of 0 of a dimension that is not empty, or a 0-dim tensor.
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> tensor.unsafe_split(tensor.tensor([1, 2, 3]), 2)
    (tensor([1, 2]), tensor([3]))
    """
    return split(input, split_size, dim)


@operation()
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of parts of the sizes ``split_sizes``; see :func:`split_with_sizes`.

    The caller promises not to write to one part and read it through the input or another part.

    Raises
    ------
    RuntimeError
        If a size is negative, the sizes do not sum to the dimension's, or the tensor is 0-dim.
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> tensor.unsafe_split_with_sizes(tensor.tensor([1, 2, 3]), [1, 2])
    (tensor([1]), tensor([2, 3]))
    """
    return split(input, list(split_sizes), dim)


@operation()
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of at most ``chunks`` parts of a dimension; see :func:`chunk`.

    The caller promises not to write to one part and read it through the input or another part.

    Raises
    ------
    RuntimeError
        If ``chunks`` is not positive, or the tensor is 0-dim.
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> tensor.unsafe_chunk(tensor.tensor([1, 2, 3]), 2)
    (tensor([1, 2]), tensor([3]))
    """
    return chunk(input, chunks, dim)


@operation()
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of at most ``chunks`` parts of a dimension, all of one size but the last, which may be smaller.

    There are fewer where the size divided by ``chunks``, rounded up, gives fewer: :func:`tensor_split` gives
    exactly as many.

    Raises
    ------
    RuntimeError
        If ``chunks`` is not positive, or the tensor is 0-dim.
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> tensor.chunk(tensor.tensor([1, 2, 3, 4, 5]), 3)
    (tensor([1, 2]), tensor([3, 4]), tensor([5]))
    >>> len(tensor.chunk(tensor.zeros(6), 4))
    3
    """
    if not input._layout.shape:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    total = input._layout.shape[dimension(dim, len(input._layout.shape))]
    size = -(-total // chunks)
    return split(input, size if size else [0] * chunks, dim)


#: Tensors that tensor_split makes at most; most of them are empty.
_MOST_SECTIONS = 1 << 24


@operation()
def tensor_split(
    input: Tensor, indices_or_sections: Any = None, dim: int = 0, *, sections: Any = None, indices: Any = None
) -> tuple[Tensor, ...]:
    """Views of parts of a dimension: a number of nearly equal ones, or those between indices.

    Parameters
    ----------
    indices_or_sections : int, sequence of int, or Tensor
        Number of parts, of which the first are longer by one where it does not divide the size; or the
        indices at which parts begin. On CUDA the host waits for a tensor.
    sections, indices : optional
        The same by other names.

    Raises
    ------
    TypeError
        If it is not passed, or by several names.
    RuntimeError
        For a 0-dim tensor, or a number of sections that is not positive or beyond 2**24.
    ValueError
        For a number of sections that needs more than 64 bits.
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> tensor.tensor_split(tensor.tensor([1, 2, 3, 4, 5]), 3)
    (tensor([1, 2]), tensor([3, 4]), tensor([5]))
    >>> tensor.tensor_split(tensor.tensor([1, 2, 3, 4, 5]), [1, 4])
    (tensor([1]), tensor([2, 3, 4]), tensor([5]))
    """
    if not input._layout.shape:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    indices_or_sections = _division("tensor_split", indices_or_sections, sections, indices)
    at = dimension(dim, len(input._layout.shape))
    total = input._layout.shape[at]
    if hasattr(indices_or_sections, "tolist"):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, (tuple, list)):
        bounds = [0, *(slice(index(i)).indices(total)[1] for i in indices_or_sections), total]
    else:
        sections = index(indices_or_sections)
        if sections >= 1 << 63:
            raise ValueError(f"tensor_split(): the number of sections must fit in 64 bits, got {sections}")
        if sections <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {sections}")
        if sections > _MOST_SECTIONS:
            raise RuntimeError(
                f"tensor_split(): {sections} sections are more tensors than memory holds: at most {_MOST_SECTIONS} are made"
            )
        small, larger = divmod(total, sections)
        bounds = [part * small + min(part, larger) for part in range(sections + 1)]
    pairs = pairwise(bounds)
    return tuple(step_through(input, at, start, max(end - start, 0), 1) for start, end in pairs)


def _division(name: str, argument: Any, sections: Any, indices: Any) -> Any:
    """How to divide a dimension, by whichever name it was given."""
    result = [each for each in (argument, sections, indices) if each is not None]
    if len(result) != 1:
        raise TypeError(
            f"{name}() needs a number of sections or indices, by one name, but got {len(result)} of them"
        )
    return result[0]


@operation()
def hsplit(
    input: Tensor, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None
) -> tuple[Tensor, ...]:
    """Views of parts side by side: along the second dimension, or the only one of a vector.

    Parameters
    ----------
    indices_or_sections : int, sequence of int, or Tensor
        Number of equal parts, or the indices at which parts begin.
    sections, indices : optional
        The same by other names.

    Raises
    ------
    RuntimeError
        If the tensor has fewer dimensions, or the number of sections does not divide the size.
    TypeError
        If no division is passed, or by several names.

    Examples
    --------
    >>> left, right = tensor.hsplit(tensor.tensor([[1, 2], [3, 4]]), 2)
    >>> left
    tensor([[1],
            [3]])
    >>> right
    tensor([[2],
            [4]])
    """
    division = _division("hsplit", indices_or_sections, sections, indices)
    return _split_evenly("hsplit", input, division, 0 if len(input._layout.shape) == 1 else 1, 1)


@operation()
def vsplit(
    input: Tensor, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None
) -> tuple[Tensor, ...]:
    """Views of parts below each other: along the first of at least two dimensions.

    Parameters
    ----------
    indices_or_sections : int, sequence of int, or Tensor
        Number of equal parts, or the indices at which parts begin.
    sections, indices : optional
        The same by other names.

    Raises
    ------
    RuntimeError
        If the tensor has fewer dimensions, or the number of sections does not divide the size.
    TypeError
        If no division is passed, or by several names.

    Examples
    --------
    >>> tensor.vsplit(tensor.tensor([[1, 2], [3, 4]]), 2)
    (tensor([[1, 2]]), tensor([[3, 4]]))
    """
    division = _division("vsplit", indices_or_sections, sections, indices)
    return _split_evenly("vsplit", input, division, 0, 2)


@operation()
def dsplit(
    input: Tensor, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None
) -> tuple[Tensor, ...]:
    """Views of parts along the third of at least three dimensions.

    Parameters
    ----------
    indices_or_sections : int, sequence of int, or Tensor
        Number of equal parts, or the indices at which parts begin.
    sections, indices : optional
        The same by other names.

    Raises
    ------
    RuntimeError
        If the tensor has fewer dimensions, or the number of sections does not divide the size.
    TypeError
        If no division is passed, or by several names.

    Examples
    --------
    >>> [part.shape for part in tensor.dsplit(tensor.zeros(1, 2, 4), [1])]
    [tensor.Size([1, 2, 1]), tensor.Size([1, 2, 3])]
    """
    division = _division("dsplit", indices_or_sections, sections, indices)
    return _split_evenly("dsplit", input, division, 2, 3)


def _split_evenly(name: str, input: Tensor, argument: Any, dim: int, least: int) -> tuple[Tensor, ...]:
    shape = input._layout.shape
    if len(shape) < least:
        raise RuntimeError(
            f"{name} requires a tensor with at least {least} dimension, but got a tensor with {len(shape)} dimensions!"
        )
    if hasattr(argument, "__index__") and (argument <= 0 or shape[dim] % argument):
        raise RuntimeError(
            f"{name} attempted to split along dimension {dim}, but the size of the dimension {shape[dim]} is not "
            f"divisible by the split_size {argument}!"
        )
    return tensor_split(input, argument, dim)


@operation()
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Tuple of views of all slices along a dimension, without it.

    Raises
    ------
    IndexError
        If the tensor is 0-dim, or there is no such dimension.

    Examples
    --------
    >>> tensor.unbind(tensor.tensor([[1, 2], [3, 4]]), dim=1)
    (tensor([1, 3]), tensor([2, 4]))
    """
    if not input._layout.shape:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    dim = index(dim)
    layout, stride, size = _selected[input._layout, dim]
    return divide(input, [(layout, at * stride) for at in range(size)], _UNBIND, dim)


@operation(namespace="")
def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """View of all windows of ``size`` elements along a dimension, ``step`` apart, as a new last dimension.

    Raises
    ------
    RuntimeError
        If a window is larger than the dimension, the size is negative, or the step not positive.
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> tensor.arange(5).unfold(0, 3, 1)
    tensor([[0, 1, 2],
            [1, 2, 3],
            [2, 3, 4]])
    """
    dim, size, step = index(dimension), index(size), index(step)
    return show(input, _unfolded[input._layout, dim, size, step], 0, _UNFOLD, dim, size, step)


def _unfold(layout: Layout, dim: int, size: int, step: int) -> Layout:
    at = dimension(dim, len(layout.shape))
    extent = layout.shape[at] if layout.shape else 1
    stride = layout.strides[at] if layout.shape else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > extent:
        raise RuntimeError(f"maximum size for tensor at dimension {at} is {extent} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    shape, strides = list(layout.shape), list(layout.strides)
    if layout.shape:
        shape[at] = (extent - size) // step + 1
        strides[at] = stride * step
    return layout.with_strides((*shape, size), (*strides, stride))


@operation()
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """View of a diagonal of two dimensions, which becomes the last dimension.

    Parameters
    ----------
    offset : int
        0 is the main diagonal, positive ones are above it, negative ones below.
    dim1, dim2 : int
        Dimensions that rows and columns are, negative ones counted from the end.

    Raises
    ------
    RuntimeError
        If the two dimensions are the same one.
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> tensor.diagonal(tensor.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    >>> tensor.diagonal(tensor.tensor([[1, 2], [3, 4]]), offset=1)
    tensor([2])
    """
    layout, delta = _diagonals[input._layout, index(offset), index(dim1), index(dim2)]
    return show(input, layout, delta, _DIAGONAL, offset, dim1, dim2)


def _diagonal(layout: Layout, offset: int, dim1: int, dim2: int) -> tuple[Layout, int]:
    rank = len(layout.shape)
    first, second = dimension(dim1, rank), dimension(dim2, rank)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    rows, columns = layout.shape[first], layout.shape[second]
    length = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
    delta = 0
    if length:
        delta = offset * layout.strides[second] if offset >= 0 else -offset * layout.strides[first]
    others = [dim for dim in range(rank) if dim not in (first, second)]
    result = layout.with_strides(
        (*(layout.shape[dim] for dim in others), length),
        (*(layout.strides[dim] for dim in others), layout.strides[first] + layout.strides[second]),
    )
    return result, delta * layout.itemsize


def _unfolded_back(grad: Tensor, layout: Layout, dim: int, size: int, step: int) -> Tensor:
    """Sum of the gradients of all windows, which may overlap."""
    if not layout.shape:
        return grad.reshape(())
    at = dimension(dim, len(layout.shape))
    if not size:
        return grad.new_zeros(layout.shape)
    result: Any = overlap_add(grad.movedim(at, -2), step, layout.shape[at])
    return result.movedim(-1, at)  # type: ignore[no-any-return]


_SELECT = View("select", select)
_SLICE = View("slice", step_through)
_SPLIT = Division("split", split)
_SPLIT_SIZES = Division("split_with_sizes", split)
_UNBIND = Division("unbind", unbind)
_UNFOLD = View("unfold", unfold, _unfolded_back)
_DIAGONAL = View("diagonal", diagonal)

_selected: Memo[tuple[Layout, int, int]] = Memo(_select)
_stepped: Memo[tuple[Layout, int]] = Memo(_step)
_unfolded: Memo[Layout] = Memo(_unfold)
_diagonals: Memo[tuple[Layout, int]] = Memo(_diagonal)

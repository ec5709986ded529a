"""Views: tensors that show the elements of another one differently, without a copy.

What a view looks like follows from the layout of its input, so it is worked out once for each layout and
arguments, and remembered. Offsets that vary from call to call (``x[i]`` in a loop) are left out of what is
remembered.
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import layouts
from nvrtc_kernels.dtypes import dtype as Dtype
from tensor.autograd.recording.storage_views import as_strided
from tensor.autograd.recording.storage_views import view_as_complex as as_complex
from tensor.autograd.recording.storage_views import view_as_real as view_as_real
from tensor.autograd.recording.views import View, show
from tensor.core.arguments import dimension, dimensions, integers
from tensor.core.base import view_of
from tensor.core.creation_arguments import sizes_of
from tensor.core.layout import Layout, Memo
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation

from . import slices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvrtc_kernels.dtypes import dtype
    from tensor.methods.tensor import Tensor

Ints = tuple[int, ...]


# One dimension for another


@operation(also="swapdims")
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """View with two dimensions swapped.

    Raises
    ------
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> tensor.transpose(tensor.tensor([[1, 2, 3], [4, 5, 6]]), 0, 1)
    tensor([[1, 4],
            [2, 5],
            [3, 6]])
    """
    dim0, dim1 = index(dim0), index(dim1)
    return show(input, _transposed[input._layout, dim0, dim1], 0, _TRANSPOSE, dim0, dim1)


def _transpose(layout: Layout, dim0: int, dim1: int) -> Layout:
    rank = len(layout.shape)
    first, second = dimension(dim0, rank), dimension(dim1, rank)
    if first == second:
        return layout
    shape, strides = list(layout.shape), list(layout.strides)
    shape[first], shape[second] = shape[second], shape[first]
    strides[first], strides[second] = strides[second], strides[first]
    return layout.with_strides(tuple(shape), tuple(strides))


@operation()
def t(input: Tensor) -> Tensor:
    """Transpose of a matrix; a vector and a 0-dim tensor stay as they are.

    Raises
    ------
    RuntimeError
        For more than two dimensions.

    Examples
    --------
    >>> tensor.t(tensor.tensor([[1, 2, 3], [4, 5, 6]]))
    tensor([[1, 4],
            [2, 5],
            [3, 6]])
    """
    return show(input, _t[input._layout,], 0, _T)


def _matrix_transpose(layout: Layout) -> Layout:
    rank = len(layout.shape)
    if rank > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {rank}D")
    return _transpose(layout, 0, 1) if rank == 2 else layout


@operation()
def permute(input: Tensor, *order: Any, dims: Any = None) -> Tensor:
    """View with the dimensions in another order.

    Parameters
    ----------
    order : int
        The dimensions in their new order, one by one or as a sequence, negative ones counted from the end.
    dims : sequence of int, optional
        The order by name.

    Raises
    ------
    RuntimeError
        If there are not as many as the tensor has, or one is named twice.
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> tensor.permute(tensor.zeros(2, 3, 4), (2, 0, 1)).shape
    tensor.Size([4, 2, 3])
    """
    result = integers(order, "permute", "dims") if dims is None else sizes_of(order, dims, "permute", "dims")
    return show(input, _permuted[input._layout, result], 0, _PERMUTE, result)


def _permute(layout: Layout, dims: Ints) -> Layout:
    rank = len(layout.shape)
    if len(dims) != rank:
        raise RuntimeError(
            "permute: number of dimensions in the tensor input does not match the length of the "
            f"desired ordering of dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {len(dims)}"
        )
    order = dimensions(dims, rank, "permute") if rank else ()
    return layout.with_strides(
        tuple(layout.shape[dim] for dim in order), tuple(layout.strides[dim] for dim in order)
    )


@operation(also="moveaxis")
def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """View with dimensions moved to other positions; the others keep their order.

    Parameters
    ----------
    source, destination : int or sequence of int
        Dimensions, and the positions that they have in the result; negative ones are counted from the end.

    Raises
    ------
    RuntimeError
        If the two differ in length, or name a dimension twice.
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> tensor.movedim(tensor.zeros(2, 3, 4), 0, -1).shape
    tensor.Size([3, 4, 2])
    """
    source, destination = _tuple(source), _tuple(destination)
    return show(input, _moved[input._layout, source, destination], 0, _MOVEDIM, source, destination)


def _movedim(layout: Layout, source: Ints, destination: Ints) -> Layout:
    rank = len(layout.shape)
    if len(source) != len(destination):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(source)} dims) should contain the same "
            f"number of dims as destination ({list(destination)} dims)"
        )
    for dim in (*source, *destination):
        dimension(dim, rank)
    origins, targets = dimensions(source, rank, "movedim"), dimensions(destination, rank, "movedim")
    if rank == 0:
        return layout
    rest = iter(dim for dim in range(rank) if dim not in origins)
    placed = dict(zip(targets, origins, strict=True))
    return _permute(layout, tuple(placed[dim] if dim in placed else next(rest) for dim in range(rank)))


def _tuple(dims: int | Sequence[int]) -> Ints:
    return tuple(map(index, dims)) if isinstance(dims, (tuple, list)) else (index(dims),)  # type: ignore[arg-type]


def adjoint(input: Tensor) -> Tensor:
    """``mT`` of a real tensor (a complex one needs conjugation, which is no view)."""
    return _last_two(input, "adjoint()")


def matrix_transpose(input: Tensor) -> Tensor:
    """View with the last two dimensions swapped (``x.mT``).

    Raises
    ------
    RuntimeError
        For fewer than two dimensions.
    """
    return _last_two(input, "tensor.mT")


def _last_two(input: Tensor, name: str) -> Tensor:
    rank = len(input._layout.shape)
    if rank < 2:
        raise RuntimeError(
            f"{name} is only supported on matrices or batches of matrices. Got {rank}-D tensor."
        )
    return transpose(input, -2, -1)


def reverse_dimensions(input: Tensor) -> Tensor:
    """View with the dimensions in reverse order (``x.T``)."""
    return permute(input, tuple(range(len(input._layout.shape) - 1, -1, -1)))


# More or fewer dimensions


@operation()
def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """View without dimensions of size 1: without all of them, or those of ``dim`` that have size 1.

    Parameters
    ----------
    dim : int or sequence of int, optional
        Dimensions to leave out, negative ones counted from the end; those of another size stay.

    Raises
    ------
    IndexError
        If there is no such dimension.
    RuntimeError
        If a dimension is named twice.

    Examples
    --------
    >>> tensor.squeeze(tensor.zeros(1, 2, 1)).shape
    tensor.Size([2])
    >>> tensor.squeeze(tensor.zeros(1, 2, 1), 0).shape
    tensor.Size([2, 1])
    """
    if dim is not None:
        dim = _tuple(dim)
        return show(input, _squeezed[input._layout, dim], 0, _SQUEEZE_DIM, dim)
    return show(input, _squeezed[input._layout, None], 0, _SQUEEZE)


def _squeeze(layout: Layout, dim: Ints | None) -> Layout:
    rank = len(layout.shape)
    dropped = range(rank) if dim is None else dimensions(dim, rank, "squeeze")
    remaining = [d for d in range(rank) if layout.shape[d] != 1 or d not in dropped]
    return layout.with_strides(
        tuple(layout.shape[d] for d in remaining), tuple(layout.strides[d] for d in remaining)
    )


@operation()
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """View with a new dimension of size 1, which is dimension ``dim`` of the result.

    Parameters
    ----------
    dim : int
        From 0 to the number of dimensions; negative ones count from the result's end.

    Raises
    ------
    IndexError
        If ``dim`` is not one of the result's dimensions.

    Examples
    --------
    >>> tensor.unsqueeze(tensor.tensor([1, 2]), 0)
    tensor([[1, 2]])
    >>> tensor.unsqueeze(tensor.tensor([1, 2]), -1)
    tensor([[1],
            [2]])
    """
    dim = index(dim)
    return show(input, _unsqueezed[input._layout, dim], 0, _UNSQUEEZE, dim)


def _unsqueeze(layout: Layout, dim: int) -> Layout:
    at = dimension(dim, len(layout.shape) + 1)
    shape, strides = list(layout.shape), list(layout.strides)
    stride = shape[at] * strides[at] if at < len(shape) else 1
    shape.insert(at, 1)
    strides.insert(at, stride)
    return layout.with_strides(tuple(shape), tuple(strides))


@operation(namespace="")
def expand(input: Tensor, *sizes: Any, size: Any = None, implicit: bool = False) -> Tensor:
    """View in which dimensions of size 1 are stretched without a copy: elements share memory.

    Parameters
    ----------
    sizes : int
        Sizes, one by one or as a sequence; -1 keeps a size, and leading dimensions may be new.
    size : sequence of int, optional
        The sizes by name.
    implicit : bool
        Without effect.

    Raises
    ------
    RuntimeError
        If a size other than 1 would change, there are fewer sizes than dimensions, or a new dimension has
        size -1.

    Examples
    --------
    >>> tensor.tensor([[1], [2]]).expand(-1, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    shape = integers(sizes, "expand") if size is None else sizes_of(sizes, size, "expand")
    return show(input, _expanded[input._layout, shape], 0, _EXPAND, shape)


def _expand(layout: Layout, size: Ints) -> Layout:
    lead = len(size) - len(layout.shape)
    if lead < 0:
        raise RuntimeError(
            f"expand(tensor.{layout.dtype.name}{list(layout.shape)}, size={list(size)}): the number of sizes "
            f"provided ({len(size)}) must be greater or equal to the number of dimensions in the tensor "
            f"({len(layout.shape)})"
        )
    shape = list(size)
    for axis, expected in enumerate(size):
        have = layout.shape[axis - lead] if axis >= lead else None
        if expected == -1:
            if have is None:
                raise RuntimeError(
                    f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {axis}"
                )
            shape[axis] = have
        elif expected < 0 or (have is not None and have != expected and have != 1):
            raise RuntimeError(
                f"The expanded size of the tensor ({expected}) must match the existing size ({have}) at "
                f"non-singleton dimension {axis}.  Target sizes: {list(size)}.  Tensor sizes: "
                f"{list(layout.shape)}"
            )
    strides = list(layouts.broadcast_strides(layout.shape, layout.strides, tuple(shape)))
    for axis in range(lead - 1 if layout.shape else -1, -1, -1):
        if shape[axis] == 1:
            # Nothing is stretched here: it is a new dimension as unsqueeze() makes it.
            strides[axis] = shape[axis + 1] * strides[axis + 1]
    return layout.with_strides(tuple(shape), tuple(strides))


@operation(namespace="")
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """``input.expand(other.shape)``: view in which dimensions of size 1 are stretched without a copy.

    Raises
    ------
    RuntimeError
        If a size other than 1 would change, or there are fewer sizes than dimensions.

    Examples
    --------
    >>> tensor.tensor([[1], [2]]).expand_as(tensor.zeros(2, 3))
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    shape = other._layout.shape
    return show(input, _expanded[input._layout, shape], 0, _EXPAND, shape)


@operation()
def broadcast_to(input: Tensor, *sizes: Any, size: Any = None) -> Tensor:
    """View in which dimensions of size 1 are stretched to ``size`` without a copy, as by ``expand``.

    Parameters
    ----------
    sizes : int
        Sizes, one by one or as a sequence; leading dimensions may be new, and -1 keeps a size.
    size : sequence of int, optional
        The sizes by name.

    Raises
    ------
    RuntimeError
        If a size other than 1 would change, or there are fewer sizes than dimensions.

    Examples
    --------
    >>> tensor.broadcast_to(tensor.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return expand(input, *sizes, size=size)


@operation()
def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """View with two dimensions swapped, as :func:`transpose`.

    Raises
    ------
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> tensor.swapaxes(tensor.zeros(2, 3, 4), 0, 2).shape
    tensor.Size([4, 3, 2])
    """
    return transpose(input, axis0, axis1)


@operation(namespace="")
def view(input: Tensor, *shape: Any, size: Any = None, dtype: dtype | None = None) -> Tensor:
    """View of the same elements, in row-major order, as another shape, or as another dtype.

    Parameters
    ----------
    shape
        Sizes, one by one, as a sequence or by name, one of which may be -1; or a dtype, for the same bytes as other
        elements: the last dimension shrinks or grows with their size, and the view is not differentiable.

    Raises
    ------
    RuntimeError
        If the number of elements differs, or the strides do not allow it without a copy.

    Examples
    --------
    >>> x = tensor.arange(4)
    >>> x.view(2, -1)
    tensor([[0, 1],
            [2, 3]])
    >>> tensor.tensor([1.0]).view(tensor.int32)
    tensor([1065353216], dtype=tensor.int32)
    """
    if len(shape) == 1 and not isinstance(shape[0], (tuple, list, int)) and hasattr(shape[0], "itemsize"):
        return _as_type(input, shape[0])
    if dtype is not None and not shape:
        return _as_type(input, dtype)
    sizes = integers(shape, "view") if size is None else sizes_of(shape, size, "view")
    return show(input, _viewed[input._layout, sizes], 0, _VIEW, sizes)


def _as_type(input: Tensor, dtype: dtype) -> Tensor:
    """The same bytes as elements of another type, which has no part in differentiation."""
    if not isinstance(dtype, Dtype):
        raise TypeError(f"view(): argument 'dtype' must be tensor.dtype, not {type(dtype).__name__}")
    if input._offset % dtype.itemsize:
        raise RuntimeError(
            f"the tensor's {input._offset} bytes from the start of its storage must be a multiple of the "
            f"{dtype.itemsize} bytes of {dtype!r} to view it as that"
        )
    return view_of(input._storage, _retyped[input._layout, dtype], input._offset)


def _view(layout: Layout, argument: Ints) -> Layout:
    shape = layouts.infer_size(argument, layout.numel)
    strides = layouts.view_strides(layout.shape, layout.strides, shape)
    if strides is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans "
            "across two contiguous subspaces). Use .reshape(...) instead."
        )
    return layout.with_strides(shape, strides)


def alias(input: Tensor) -> Tensor:
    """Another tensor that shows the same elements."""
    return show(input, input._layout, 0, _ALIAS)


@operation(namespace="")
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """``input.view(other.shape)``: the same elements, in row-major order, as another shape.

    Raises
    ------
    RuntimeError
        If the numbers of elements differ, or the strides do not allow it without a copy.

    Examples
    --------
    >>> tensor.arange(4).view_as(tensor.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    shape = other._layout.shape
    return show(input, _viewed[input._layout, shape], 0, _VIEW, shape)


def _view_dtype(layout: Layout, dtype: dtype) -> Layout:
    old, new = layout.itemsize, dtype.itemsize
    if old == new:
        return layout.with_dtype(dtype)
    shape, strides = layout.shape, layout.strides
    names = f"from {layout.dtype!r} to {dtype!r}"
    if not shape:
        raise RuntimeError(
            f"self.dim() cannot be 0 to view {names} (different element sizes): unsqueeze(0) it first"
        )
    if strides[-1] != 1:
        raise RuntimeError(
            f"self.stride(-1) must be 1 to view {names} (different element sizes), but got {strides[-1]}"
        )
    if old > new:
        times = old // new
        return layout.with_dtype(dtype).with_strides(
            (*shape[:-1], shape[-1] * times), (*(step * times for step in strides[:-1]), 1)
        )
    times = new // old
    if shape[-1] % times or any(step % times for step in strides[:-1]):
        raise RuntimeError(
            f"self.size(-1) and the other strides must be divisible by {times} to view {names} (different "
            f"element sizes), but got shape {list(shape)} and strides {list(strides)}"
        )
    return layout.with_dtype(dtype).with_strides(
        (*shape[:-1], shape[-1] // times), (*(step // times for step in strides[:-1]), 1)
    )


@operation()
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """View with dimension ``dim`` split into several of the sizes ``sizes``.

    Parameters
    ----------
    sizes : sequence of int
        One may be -1, for what is left of the dimension's size.

    Raises
    ------
    RuntimeError
        If the product of ``sizes`` is not the dimension's size, there are none, or the tensor is 0-dim.
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> tensor.unflatten(tensor.arange(6), 0, (2, -1))
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    dim, sizes = index(dim), integers((sizes,), "unflatten", "sizes")
    return show(input, _unflattened[input._layout, dim, sizes], 0, _UNFLATTEN, dim, sizes)


def _unflatten(layout: Layout, dim: int, sizes: Ints) -> Layout:
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    at = dimension(dim, len(layout.shape))
    shape = layout.shape
    if not shape:
        raise RuntimeError("unflatten: the tensor has no dimension that could be split")
    try:
        split = layouts.infer_size(sizes, shape[at])
    except RuntimeError:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {at} ({shape[at]}) "
            "in the input tensor"
        ) from None
    return _view(layout, (*shape[:at], *split, *shape[at + 1 :]))


# Complex numbers as pairs


@operation(method=False, autocast=Autocast(cpu=FLOAT32))
def view_as_complex(input: Tensor) -> Tensor:
    """View of pairs of floating-point numbers, the last dimension, as complex numbers.

    Parameters
    ----------
    input : Tensor
        Of a floating dtype that has a complex one, and of shape (..., 2) with stride 1 there; the result has
        shape (...).

    Raises
    ------
    RuntimeError
        If the last dimension is not so, another stride is odd, or the dtype has no complex one.

    Examples
    --------
    >>> tensor.view_as_complex(tensor.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([1.+2.j, 3.+4.j])
    """
    return as_complex(input)


@operation(method=False)
def real(input: Tensor) -> Tensor:
    """View of the real parts, of the dtype of the parts; a real tensor itself.

    Examples
    --------
    >>> tensor.real(tensor.tensor([1.0 + 2.0j]))
    tensor([1.])
    """
    return slices.select(view_as_real(input), -1, 0) if input._layout.dtype.is_complex else input


@operation(method=False)
def imag(input: Tensor) -> Tensor:
    """View of the imaginary parts, of the dtype of the parts.

    Raises
    ------
    RuntimeError
        If the tensor is real.

    Examples
    --------
    >>> tensor.imag(tensor.tensor([1.0 + 2.0j]))
    tensor([2.])
    """
    if not input._layout.dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return slices.select(view_as_real(input), -1, 1)


_transposed: Memo[Layout] = Memo(_transpose)
_t: Memo[Layout] = Memo(_matrix_transpose)
_permuted: Memo[Layout] = Memo(_permute)
_moved: Memo[Layout] = Memo(_movedim)
_squeezed: Memo[Layout] = Memo(_squeeze)
_unsqueezed: Memo[Layout] = Memo(_unsqueeze)
_expanded: Memo[Layout] = Memo(_expand)
_viewed: Memo[Layout] = Memo(_view)
_retyped: Memo[Layout] = Memo(_view_dtype)
_unflattened: Memo[Layout] = Memo(_unflatten)


def _reshaped_back(grad: Tensor, layout: Layout, *_: Any) -> Tensor:
    return grad.reshape(layout.shape)


def _permuted_back(grad: Tensor, _: Layout, order: Ints) -> Tensor:
    positions = [0] * len(order)
    for position, dim in enumerate(order):
        positions[dim] = position
    return permute(grad, tuple(positions))


_ALIAS = View("alias", alias, lambda grad, _: grad)
_TRANSPOSE = View("transpose", transpose, lambda grad, _, dim0, dim1: transpose(grad, dim0, dim1))
_T = View("t", t, lambda grad, _: t(grad))
_PERMUTE = View("permute", permute, _permuted_back)
_MOVEDIM = View(
    "movedim",
    movedim,
    lambda grad, _, source, destination: movedim(grad, destination, source),
    node="PermuteBackward0",
)
_SQUEEZE = View("squeeze", squeeze, _reshaped_back)
_SQUEEZE_DIM = View("squeeze", squeeze, _reshaped_back, node="SqueezeBackward1")
_UNSQUEEZE = View("unsqueeze", unsqueeze, _reshaped_back)
# What was stretched the engine sums up.
_EXPAND = View("expand", expand, lambda grad, *_: grad)
_VIEW = View("view", view, _reshaped_back)
_UNFLATTEN = View("unflatten", unflatten, _reshaped_back, node="ViewBackward0")

# Defined where in-place writes through views need them.
operation()(as_strided)
operation(method=False)(view_as_real)

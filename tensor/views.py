"""Views: tensors that show the elements of another one differently, without a copy.

What a view looks like follows from the layout of its input, so it is worked out once for each layout and
arguments, and remembered. Offsets that vary from call to call (``x[i]`` in a loop) are left out of what is
remembered.
"""

from __future__ import annotations

import itertools
from operator import index
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import layouts

from .arguments import dimension, dimensions, integers
from .base import view_of
from .layout import Layout, Memo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvrtc_kernels.dtypes import dtype

    from .tensors import Tensor

Ints = tuple[int, ...]


def show(input: Tensor, layout: Layout, offset: int = 0) -> Tensor:
    """View of ``input``'s storage with another layout, ``offset`` bytes after ``input``'s first element."""
    return view_of(input._storage, layout, input._offset + offset)


# One dimension for another


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """View with two dimensions exchanged.

    Raises
    ------
    IndexError
        If there is no such dimension.
    """
    return show(input, _transposed[input._layout, index(dim0), index(dim1)])


def _transpose(layout: Layout, dim0: int, dim1: int) -> Layout:
    rank = len(layout.shape)
    first, second = dimension(dim0, rank), dimension(dim1, rank)
    if first == second:
        return layout
    shape, strides = list(layout.shape), list(layout.strides)
    shape[first], shape[second] = shape[second], shape[first]
    strides[first], strides[second] = strides[second], strides[first]
    return layout.with_strides(tuple(shape), tuple(strides))


def t(input: Tensor) -> Tensor:
    """Transpose of a matrix; a vector and a 0-dim tensor stay as they are.

    Raises
    ------
    RuntimeError
        For more than two dimensions.
    """
    return show(input, _t[input._layout,])


def _matrix_transpose(layout: Layout) -> Layout:
    rank = len(layout.shape)
    if rank > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {rank}D")
    return _transpose(layout, 0, 1) if rank == 2 else layout


def permute(input: Tensor, *dims: Any) -> Tensor:
    """View with the dimensions in the order ``dims``, given one by one or as a tuple.

    Raises
    ------
    RuntimeError
        If ``dims`` is no permutation of the dimensions.
    """
    return show(input, _permuted[input._layout, integers(dims, "permute", "dims")])


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


def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """View with the dimensions ``source`` moved to the places ``destination``; the others keep their order.

    Raises
    ------
    RuntimeError
        If the two differ in length or name a dimension twice.
    """
    return show(input, _moved[input._layout, _tuple(source), _tuple(destination)])


def _movedim(layout: Layout, source: Ints, destination: Ints) -> Layout:
    rank = len(layout.shape)
    if len(source) != len(destination):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(source)} dims) should contain the same "
            f"number of dims as destination ({list(destination)} dims)"
        )
    if rank == 0:
        dimensions(source, rank, "movedim"), dimensions(destination, rank, "movedim")
        return layout
    origins, targets = dimensions(source, rank, "movedim"), dimensions(destination, rank, "movedim")
    rest = iter(dim for dim in range(rank) if dim not in origins)
    placed = dict(zip(targets, origins, strict=True))
    return _permute(layout, tuple(placed[dim] if dim in placed else next(rest) for dim in range(rank)))


def _tuple(dims: int | Sequence[int]) -> Ints:
    return tuple(map(index, dims)) if isinstance(dims, (tuple, list)) else (index(dims),)  # type: ignore[arg-type]


def adjoint(input: Tensor) -> Tensor:
    """``mT`` of a real tensor (a complex one needs conjugation, which is no view)."""
    return _last_two(input, "adjoint()")


def matrix_transpose(input: Tensor) -> Tensor:
    """View with the last two dimensions exchanged (``x.mT``).

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


def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """View without the dimensions of size 1: all, or those of ``dim`` that have it."""
    if dim is not None:
        dim = _tuple(dim)
    return show(input, _squeezed[input._layout, dim])


def _squeeze(layout: Layout, dim: Ints | None) -> Layout:
    rank = len(layout.shape)
    dropped = range(rank) if dim is None else dimensions(dim, rank, "squeeze")
    kept = [d for d in range(rank) if layout.shape[d] != 1 or d not in dropped]
    return layout.with_strides(tuple(layout.shape[d] for d in kept), tuple(layout.strides[d] for d in kept))


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """View with a new dimension of size 1 before ``dim``, which counts up to the rank."""
    return show(input, _unsqueezed[input._layout, index(dim)])


def _unsqueeze(layout: Layout, dim: int) -> Layout:
    at = dimension(dim, len(layout.shape) + 1)
    shape, strides = list(layout.shape), list(layout.strides)
    stride = shape[at] * strides[at] if at < len(shape) else 1
    shape.insert(at, 1)
    strides.insert(at, stride)
    return layout.with_strides(tuple(shape), tuple(strides))


def expand(input: Tensor, *size: Any) -> Tensor:
    """View in which dimensions of size 1 are stretched without a copy; -1 keeps a size.

    Raises
    ------
    RuntimeError
        If a size other than 1 would change.
    """
    return show(input, _expanded[input._layout, integers(size, "expand")])


def _expand(layout: Layout, size: Ints) -> Layout:
    lead = len(size) - len(layout.shape)
    if lead < 0:
        raise RuntimeError(
            f"expand(tensor.{layout.dtype.name}{list(layout.shape)}, size={list(size)}): the number of sizes "
            f"provided ({len(size)}) must be greater or equal to the number of dimensions in the tensor "
            f"({len(layout.shape)})"
        )
    shape = list(size)
    for axis, wanted in enumerate(size):
        have = layout.shape[axis - lead] if axis >= lead else None
        if wanted == -1:
            if have is None:
                raise RuntimeError(
                    f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {axis}"
                )
            shape[axis] = have
        elif wanted < 0 or (have is not None and have != wanted and have != 1):
            raise RuntimeError(
                f"The expanded size of the tensor ({wanted}) must match the existing size ({have}) at "
                f"non-singleton dimension {axis}.  Target sizes: {list(size)}.  Tensor sizes: "
                f"{list(layout.shape)}"
            )
    return layout.with_strides(
        tuple(shape), layouts.broadcast_strides(layout.shape, layout.strides, tuple(shape))
    )


def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """``input.expand(other.shape)``."""
    return show(input, _expanded[input._layout, other._layout.shape])


def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    """The same as :func:`expand`."""
    return expand(input, size)


def view(input: Tensor, *shape: Any) -> Tensor:
    """View of the same elements, in row-major order, as another shape, or as another dtype.

    Parameters
    ----------
    shape
        Sizes, one by one or as a tuple, one of which may be -1; or a dtype, for the same bytes as other
        elements: the last dimension shrinks or grows with their size.

    Raises
    ------
    RuntimeError
        If the number of elements differs, or the strides do not allow it without a copy.
    """
    if len(shape) == 1 and not isinstance(shape[0], (tuple, list, int)) and hasattr(shape[0], "itemsize"):
        if input._offset % shape[0].itemsize:
            raise RuntimeError(
                f"the tensor's {input._offset} bytes from the start of its storage must be a multiple of the "
                f"{shape[0].itemsize} bytes of {shape[0]!r} to view it as that"
            )
        return show(input, _retyped[input._layout, shape[0]])
    return show(input, _viewed[input._layout, integers(shape, "view")])


def _view(layout: Layout, given: Ints) -> Layout:
    shape = layouts.infer_size(given, layout.numel)
    strides = layouts.view_strides(layout.shape, layout.strides, shape)
    if strides is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans "
            "across two contiguous subspaces). Use .reshape(...) instead."
        )
    return layout.with_strides(shape, strides)


def view_as(input: Tensor, other: Tensor) -> Tensor:
    """``input.view(other.shape)``."""
    return show(input, _viewed[input._layout, other._layout.shape])


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
    if strides[-1] != 1 and layout.numel > 1:
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


def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """View with dimension ``dim`` split into ``sizes``, one of which may be -1.

    Raises
    ------
    RuntimeError
        If the product of ``sizes`` is not the dimension's size.
    """
    return show(input, _unflattened[input._layout, index(dim), integers((sizes,), "unflatten", "sizes")])


def _unflatten(layout: Layout, dim: int, sizes: Ints) -> Layout:
    at = dimension(dim, len(layout.shape))
    shape = layout.shape
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    try:
        split = layouts.infer_size(sizes, shape[at])
    except RuntimeError:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {at} ({shape[at]}) "
            "in the input tensor"
        ) from None
    return _view(layout, (*shape[:at], *split, *shape[at + 1 :]))


# Parts


def select(input: Tensor, dim: int, index: int) -> Tensor:
    """View of the slice at ``index`` of a dimension, which goes.

    Raises
    ------
    IndexError
        If the tensor has no dimensions, or the index is outside.
    """
    layout, stride, size = _selected[input._layout, dim]
    at = index if type(index) is int else index.__index__()
    if not -size <= at < size:
        raise IndexError(
            f"select(): index {at} out of range for tensor of size {list(input._layout.shape)} at dimension {dim}"
        )
    return view_of(input._storage, layout, input._offset + (at + size if at < 0 else at) * stride)


def _select(layout: Layout, dim: Any) -> tuple[Layout, int, int]:
    if not layout.shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    at = dimension(dim, len(layout.shape))
    shape, strides = layout.shape, layout.strides
    rest = layout.with_strides(tuple(shape[:at]) + tuple(shape[at + 1 :]), strides[:at] + strides[at + 1 :])
    return rest, layout.numpy_strides[at], shape[at]


def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """View of ``length`` elements of a dimension from ``start`` on (negative: from the end).

    Raises
    ------
    RuntimeError
        If they are not all there.
    """
    layout = input._layout
    if not layout.shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    at = dimension(dim, len(layout.shape))
    size, first, length = layout.shape[at], index(start), index(length)
    if not -size <= first <= size:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-size}, {size}], but got {first})"
        )
    first += size if first < 0 else 0
    if length < 0:
        raise RuntimeError(f"narrow(): length must be non-negative, got {length}")
    if first + length > size:
        raise RuntimeError(f"start ({first}) + length ({length}) exceeds dimension size ({size}).")
    return step_through(input, at, first, length, 1)


def step_through(input: Tensor, dim: int, start: int, length: int, step: int) -> Tensor:
    """``length`` elements of dimension ``dim`` from ``start`` on, every ``step``-th. Nothing is checked."""
    found, stride = _stepped[input._layout, dim, length, step]
    return view_of(input._storage, found, input._offset + start * stride)


def _step(layout: Layout, dim: int, length: int, step: int) -> tuple[Layout, int]:
    shape, strides = list(layout.shape), list(layout.strides)
    shape[dim] = length
    strides[dim] *= step
    return layout.with_strides(tuple(shape), tuple(strides)), layout.numpy_strides[dim]


def split(tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of parts of a dimension: of one size (the last may be smaller), or of given sizes.

    Raises
    ------
    RuntimeError
        For a negative size, or sizes that do not sum to the dimension's.
    """
    layout = tensor._layout
    if not layout.shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
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
        if size < 0 or (size == 0 and total):
            raise RuntimeError(
                f"split expects split_size be non-negative, but got split_size={size}"
                if size < 0
                else f"split_size can only be 0 if dimension size is 0, but got dimension size of {total}"
            )
        count = max(-(-total // size), 1) if size else 1
        lengths = [size] * (count - 1) + [total - size * (count - 1)]
    parts, start = [], 0
    for length in lengths:
        parts.append(step_through(tensor, at, start, length, 1))
        start += length
    return tuple(parts)


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of at most ``chunks`` parts of a dimension, all of one size but the last.

    Raises
    ------
    RuntimeError
        If ``chunks`` is not positive.
    """
    if not input._layout.shape:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    total = input._layout.shape[dimension(dim, len(input._layout.shape))]
    size = -(-total // chunks)
    return split(input, size if size else [0] * chunks, dim)


def tensor_split(input: Tensor, indices_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of parts of a dimension: a number of nearly equal ones, or those between given indices.

    Raises
    ------
    RuntimeError
        For a 0-dim tensor, or a number of sections that is not positive.
    """
    if not input._layout.shape:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    at = dimension(dim, len(input._layout.shape))
    total = input._layout.shape[at]
    if hasattr(indices_or_sections, "tolist"):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, (tuple, list)):
        bounds = [0, *(slice(index(i)).indices(total)[1] for i in indices_or_sections), total]
    else:
        sections = index(indices_or_sections)  # type: ignore[arg-type]
        if sections <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {sections}")
        small, larger = divmod(total, sections)
        bounds = [part * small + min(part, larger) for part in range(sections + 1)]
    pairs = itertools.pairwise(bounds)
    return tuple(step_through(input, at, start, max(end - start, 0), 1) for start, end in pairs)


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of all slices along a dimension.

    Raises
    ------
    RuntimeError
        For a 0-dim tensor.
    """
    if not input._layout.shape:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    layout, stride, size = _selected[input._layout, index(dim)]
    storage, offset = input._storage, input._offset
    return tuple(view_of(storage, layout, offset + at * stride) for at in range(size))


def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """View of all windows of ``size`` elements along a dimension, ``step`` apart, as a new last dimension.

    Raises
    ------
    RuntimeError
        If a window is larger than the dimension, or the step is not positive.
    """
    return show(input, _unfolded[input._layout, index(dimension), index(size), index(step)])


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


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """View of a diagonal of two dimensions, which becomes the last dimension.

    Parameters
    ----------
    offset
        0 is the main diagonal, positive ones are above it.

    Raises
    ------
    RuntimeError
        If the two dimensions are the same one.
    """
    layout, delta = _diagonals[input._layout, index(offset), index(dim1), index(dim2)]
    return show(input, layout, delta)


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
    kept = [dim for dim in range(rank) if dim not in (first, second)]
    found = layout.with_strides(
        (*(layout.shape[dim] for dim in kept), length),
        (*(layout.strides[dim] for dim in kept), layout.strides[first] + layout.strides[second]),
    )
    return found, delta * layout.itemsize


def as_strided(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """View of the input's storage with any shape, strides and offset, all in elements.

    Raises
    ------
    RuntimeError
        If elements would lie outside the storage, or a number is negative.
    """
    shape, strides = integers((size,), "as_strided"), integers((stride,), "as_strided", "stride")
    if len(shape) != len(strides):
        raise RuntimeError(
            f"mismatch in length of strides and shape: {len(strides)} strides, {len(shape)} sizes"
        )
    if any(number < 0 for number in (*shape, *strides)):
        raise RuntimeError(
            "as_strided: sizes and strides must not be negative, got sizes "
            f"{list(shape)} and strides {list(strides)}"
        )
    layout = input._layout.with_strides(shape, strides)
    offset = input._offset if storage_offset is None else index(storage_offset) * layout.itemsize
    size_in_bytes = input._storage.nbytes()
    if offset < 0 or (layout.numel and offset + layout.nbytes > size_in_bytes):
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset "
            f"{offset // layout.itemsize}, and itemsize {layout.itemsize} requiring a storage size of "
            f"{offset + layout.nbytes} are out of bounds for storage of size {size_in_bytes}"
        )
    return view_of(input._storage, layout, offset)


# Parts of complex numbers


def view_as_real(input: Tensor) -> Tensor:
    """View of a complex tensor as real one with a last dimension of size 2: real and imaginary part.

    Raises
    ------
    RuntimeError
        If the tensor is not complex.
    """
    return show(input, _as_real[input._layout,])


def _view_as_real(layout: Layout) -> Layout:
    if not layout.dtype.is_complex:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    steps = tuple(2 * step for step in layout.strides)
    return layout.with_dtype(layout.dtype.to_real()).with_strides((*layout.shape, 2), (*steps, 1))


def view_as_complex(input: Tensor) -> Tensor:
    """View of a float tensor whose last dimension has size 2 and stride 1 as complex tensor.

    Raises
    ------
    RuntimeError
        If the last dimension is not so, another stride is odd, or the type has no complex one.
    """
    return show(input, _as_complex[input._layout,])


def _view_as_complex(layout: Layout) -> Layout:
    if layout.dtype.name not in ("float32", "float64"):
        raise RuntimeError(
            f"view_as_complex is only supported for float and double tensors, but got a tensor of {layout.dtype!r}"
        )
    if not layout.shape or layout.shape[-1] != 2:
        raise RuntimeError(f"Tensor must have a last dimension of size 2, got shape {list(layout.shape)}")
    if layout.strides[-1] != 1 or any(step % 2 for step in layout.strides[:-1]):
        raise RuntimeError(
            "Tensor must have a last dimension with stride 1 and a stride divisible by 2 for all but last "
            f"dimension, got strides {list(layout.strides)}"
        )
    steps = tuple(step // 2 for step in layout.strides[:-1])
    return layout.with_dtype(layout.dtype.to_complex()).with_strides(tuple(layout.shape[:-1]), steps)


def real(input: Tensor) -> Tensor:
    """View of the real parts; a real tensor itself."""
    return select(view_as_real(input), -1, 0) if input._layout.dtype.is_complex else input


def imag(input: Tensor) -> Tensor:
    """View of the imaginary parts.

    Raises
    ------
    RuntimeError
        For a real tensor.
    """
    if not input._layout.dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return select(view_as_real(input), -1, 1)


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
_selected: Memo[tuple[Layout, int, int]] = Memo(_select)
_stepped: Memo[tuple[Layout, int]] = Memo(_step)
_unfolded: Memo[Layout] = Memo(_unfold)
_diagonals: Memo[tuple[Layout, int]] = Memo(_diagonal)
_as_real: Memo[Layout] = Memo(_view_as_real)
_as_complex: Memo[Layout] = Memo(_view_as_complex)

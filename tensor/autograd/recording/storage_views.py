"""Views as which all others can be written: any shape and strides over a storage, and complex numbers as pairs.

The derivative of :func:`as_strided`: a view and what it is a view of are both ways to read one storage. The gradient
is written to a storage of zeros as the view reads it, with sums where it reads twice, and is read from there as the
input reads it. The derivative of that is the same with both ways exchanged.
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING

from nvrtc_kernels.dtypes import bfloat16, float16, float32, int64
from tensor.core.arguments import integers
from tensor.core.base import empty, view_of
from tensor.core.layout import Layout, Memo
from tensor.core.modes.grad_mode import unrecorded

from .recorder import BackwardFormula, Derivative
from .views import View, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor

    #: Shape, strides, and the offset of the first element.
    Way = tuple[tuple[int, ...], tuple[int, ...], int]

_HALF_PRECISION = (float16, bfloat16)


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
    # Recorded is where the view starts from the input, not from the storage.
    delta = offset - input._offset
    return show(input, layout, delta, AS_STRIDED, shape, strides, delta // layout.itemsize)


def strided_gradient(
    grad: Tensor, layout: Layout, shape: tuple[int, ...], strides: tuple[int, ...], start: int
) -> Tensor:
    """Gradient of a tensor of ``layout`` from that of a view, which starts ``start`` elements behind it."""
    origin = (tuple(layout.shape), layout.strides, 0)
    return _moved(grad, (shape, strides, start), origin, origin)


def _moved(grad: Tensor, written: Way, read: Way, origin: Way) -> Tensor:
    """``grad``, written to a storage in one way and read in another.

    Elements that ``origin`` shows several times share what is there equally.
    """
    with unrecorded():
        result = _through_storage(grad, written, read, origin)
    # The derivative is the same, with the ways exchanged.
    _MOVED.record((result,), (grad,), context=(read, written, origin))
    return result


_MOVED = BackwardFormula("AsStridedBackward0Backward", "grad", [Derivative(_moved, needs="")])


def _through_storage(grad: Tensor, written: Way, read: Way, origin: Way) -> Tensor:
    dtype = grad._layout.dtype
    first = min(written[2], read[2])
    last = max(start + _reach(shape, strides) for shape, strides, start in (written, read))
    overlaps = may_overlap(*written[:2])
    if dtype in _HALF_PRECISION and (overlaps or may_overlap(*origin[:2])):
        # Sums that are rounded each time stop growing, and counts above 2048, or 256, are no numbers of these dtypes.
        grad = grad.to(float32)
    if overlaps:
        grad, written = _without_repetition(grad, written)
    storage = grad.new_zeros(last + 1 - first)
    if may_overlap(*written[:2]):
        storage.index_add_(0, _places(storage, written, first), grad.reshape(-1))
    elif grad._layout.numel:
        _show(storage, written, first).copy_(grad)
    if may_overlap(*origin[:2]):
        positions = _places(storage, origin, first)
        counts = storage.new_zeros(storage.shape).index_add_(0, positions, storage.new_ones(positions.shape))
        storage = (
            storage / counts.real.clamp(min=1) if storage.is_complex() else storage / counts.clamp(min=1)
        )
    if storage._layout.dtype is not dtype:
        storage = storage.to(dtype)
    result = _show(storage, read, first)
    # What leaves memory out, or shows it twice, is no good gradient to add to.
    return result if result._layout.dense else result.clone()


def _without_repetition(grad: Tensor, written: Way) -> tuple[Tensor, Way]:
    """The sum over dimensions along which a way shows the same elements, and the way without these."""
    shape, strides, start = written
    stretched = [
        dim for dim, (size, step) in enumerate(zip(shape, strides, strict=True)) if size > 1 and not step
    ]
    if not stretched:
        return grad, written
    stay = [dim for dim in range(len(shape)) if dim not in stretched]
    return grad.sum(stretched), (
        tuple(shape[dim] for dim in stay),
        tuple(strides[dim] for dim in stay),
        start,
    )


def _show(storage: Tensor, way: Way, first: int) -> Tensor:
    shape, strides, start = way
    layout = storage._layout.with_strides(shape, strides)
    if not layout.numel:
        return empty(layout.as_dense())
    return view_of(storage._storage, layout, (start - first) * layout.itemsize)


def _places(storage: Tensor, way: Way, first: int) -> Tensor:
    """Where the elements of ``way`` are, in its order."""
    numbers = storage.new_ones(storage.shape, dtype=int64).cumsum(0).sub_(1)
    result: Tensor = _show(numbers, way, first).reshape(-1)
    return result


def _reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last that is read."""
    return sum((size - 1) * step for size, step in zip(shape, strides, strict=True)) if 0 not in shape else 0


def may_overlap(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether an element may be shown several times. It is not where each stride is beyond all smaller ones."""
    reach = 0
    for step, size in sorted((t, s) for s, t in zip(shape, strides, strict=True) if s != 1):
        if step <= reach and size:
            return True
        reach += step * (size - 1)
    return False


def view_as_real(input: Tensor) -> Tensor:
    """View of a complex tensor as real one with a last dimension of size 2: real and imaginary part.

    Raises
    ------
    RuntimeError
        If the tensor is not complex.
    """
    return show(input, _as_real[input._layout,], 0, _VIEW_AS_REAL)


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
    layout = _as_complex[input._layout,]
    if input._offset % layout.itemsize:
        raise RuntimeError(
            "Tensor must have a storage_offset divisible by 2 to be viewed as complex, got "
            f"{input._offset // input._layout.itemsize}"
        )
    return show(input, layout, 0, _VIEW_AS_COMPLEX)


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


AS_STRIDED = View("as_strided", as_strided, strided_gradient)
_VIEW_AS_REAL = View("view_as_real", view_as_real, lambda grad, _: view_as_complex(grad.contiguous()))
_VIEW_AS_COMPLEX = View("view_as_complex", view_as_complex, lambda grad, _: view_as_real(grad))

_as_real: Memo[Layout] = Memo(_view_as_real)
_as_complex: Memo[Layout] = Memo(_view_as_complex)

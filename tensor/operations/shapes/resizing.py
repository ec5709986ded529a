"""Other memory and other shapes for a tensor that stays the same object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import dtypes
from tensor.autograd.recording.inplace import check_in_place
from tensor.autograd.recording.storage_views import as_strided
from tensor.core.arguments import integers
from tensor.core.base import TensorBase, empty, view_of
from tensor.core.creation_arguments import sizes_of
from tensor.core.layout import contiguous
from tensor.core.memory_format import format_of, preserve_format
from tensor.core.modes.determinism import determinism, filling
from tensor.core.storage import DeviceStorage, PinnedStorage, Storage
from tensor.core.typed_storage import TypedStorage, untyped_of
from tensor.operations.creation.copies import copy_
from tensor.operations.creation.fills import fill_
from tensor.operations.definition import operation

if TYPE_CHECKING:
    from tensor.core.layout import Layout
    from tensor.core.memory_format import memory_format as MemoryFormat
    from tensor.methods.tensor import Tensor


@operation(namespace="")
def set_(
    input: Tensor,
    source: Tensor | Storage | TypedStorage | None = None,
    storage_offset: int = 0,
    size: Any = None,
    stride: Any = None,
) -> Tensor:
    """Show other memory: that of a tensor or a storage, or with no ``source`` none.

    Parameters
    ----------
    source
        A tensor or a typed storage of the same dtype and device, or a storage of the same device.
    storage_offset, size, stride
        What of the memory to show, in elements; by default what the tensor shows, or all of a storage.

    Raises
    ------
    TypeError
        If ``source`` is neither tensor nor storage.
    RuntimeError
        If the dtype or device differs, elements lie outside the storage, or this is a leaf that requires grad.

    Examples
    --------
    >>> x = tensor.zeros(2)
    >>> x.set_(tensor.tensor([1.0, 2.0, 3.0]))
    tensor([1., 2., 3.])
    """
    layout = input._layout
    dtype, device_state = layout.dtype, layout.device_state
    if source is None:
        shown = empty(contiguous[(0,), dtype, device_state])
    elif isinstance(source, TensorBase):
        if source._layout.dtype is not dtype:
            raise RuntimeError(
                f"Could not set tensor of type {source._layout.dtype!r} to a tensor of type {dtype!r}"
            )
        shown = view_of(source._storage, source._layout, source._offset)
        if size is not None:
            shown = _part(shown._storage, dtype, storage_offset, size, stride)
    elif isinstance(source := untyped_of(source, dtype, "set_"), Storage):
        if size is None:
            size = (max(source.nbytes() // dtype.itemsize - storage_offset, 0),)
        shown = _part(source, dtype, storage_offset, size, stride)
    else:
        raise TypeError(
            f"set_(): argument 'source' must be a tensor, a storage or None, not {type(source).__name__}"
        )
    if shown._layout.device_state is not device_state:
        raise RuntimeError(
            f'Attempted to set the storage of a tensor on device "{layout.device}" to a storage on different device '
            f'"{shown._layout.device}". Copy it there, for example with to().'
        )
    check_in_place(input)
    # What was saved of this tensor is not what it shows now.
    former = input._storage.version
    if former >= 0 and shown._storage.version >= 0:
        shown._storage.version = max(former, shown._storage.version) + 1
    return _show(input, shown)


def _part(storage: Storage, dtype: dtypes.dtype, offset: int, size: Any, stride: Any) -> Tensor:
    shape = integers((size,), "set_")
    whole = view_of(
        storage, contiguous[(storage.nbytes() // dtype.itemsize,), dtype, storage.device_state], 0
    )
    steps = contiguous[shape, dtype, storage.device_state].strides if stride is None else stride
    return as_strided(whole, shape, steps, offset)


def _show(input: Tensor, shown: Tensor) -> Tensor:
    if input._storage is not shown._storage:
        input._base = None
    input._storage, input._layout, input._offset = shown._storage, shown._layout, shown._offset
    input._array = None
    return input


@operation(namespace="")
def resize_(
    input: Tensor, *sizes: Any, size: Any = None, memory_format: MemoryFormat | None = None
) -> Tensor:
    """Take another shape, without gaps, over the same memory.

    Where the memory is too small, new memory takes its contents, for this tensor and all that share it; new
    elements are undefined.

    Raises
    ------
    TypeError
        If ``size`` is no sequence of ints.
    RuntimeError
        For a negative size, a tensor that requires grad, or memory of another library that is too small.

    Examples
    --------
    >>> tensor.tensor([[1, 2], [3, 4]]).resize_(3)
    tensor([1, 2, 3])
    """
    shape = sizes_of(sizes, size, "resize_")
    layout = input._layout
    result = contiguous[shape, layout.dtype, layout.device_state]
    if memory_format is not None:
        form = format_of(memory_format, "resize_")
        if form is preserve_format:
            raise RuntimeError(
                "Unsupported memory format: resize_() cannot preserve the strides of another shape"
            )
        result = form.layout(result)
    if input.requires_grad:
        raise RuntimeError("cannot resize variables that require grad: resize what detach() gives")
    if memory_format is None and shape == layout.shape:
        return input
    storage, end = input._storage, input._offset + result.nbytes
    if end > storage.nbytes():
        _grow(storage, end, layout)
    input._layout, input._array = result, None
    storage.version += 1
    return input


def _grow(storage: Storage, nbytes: int, layout: Layout) -> None:
    """Take more memory with the former contents; ``layout`` is that of elements."""
    data_layout = contiguous[(storage.nbytes(),), dtypes.uint8, layout.device_state]
    pinned = isinstance(storage, PinnedStorage)
    former = (
        PinnedStorage(nbytes)
        if pinned
        else empty(contiguous[(nbytes,), dtypes.uint8, layout.device_state])._storage
    )
    storage.exchange(former)
    copy_(view_of(storage, data_layout, 0), view_of(former, data_layout, 0))
    if isinstance(former, DeviceStorage):
        # Another stream's memory is not to be reused before it has been read.
        former.record_stream(former.device_state.local.stream)
    if determinism.fills:
        # From the first element that did not fit on.
        start = -(-data_layout.numel // layout.itemsize) * layout.itemsize
        rest = contiguous[((nbytes - start) // layout.itemsize,), layout.dtype, layout.device_state]
        fill_(view_of(storage, rest, start), filling(layout.dtype))


@operation()
def resize_as_(input: Tensor, the_template: Tensor, memory_format: MemoryFormat | None = None) -> Tensor:
    """``input.resize_(the_template.shape)``: take another shape over the same memory, larger where needed.

    Parameters
    ----------
    the_template : Tensor
        Its shape is taken; its dtype and device are of no interest.
    memory_format : memory_format, optional
        Order of the dimensions in memory; by default row-major.

    Raises
    ------
    RuntimeError
        If ``input`` requires a gradient, or its memory belongs to another library and is too small.

    Examples
    --------
    >>> tensor.tensor([1, 2, 3, 4]).resize_as_(tensor.zeros(2, 2))
    tensor([[1, 2],
            [3, 4]])
    """
    return resize_(input, the_template._layout.shape, memory_format=memory_format)

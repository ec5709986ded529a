"""New tensors like another: ``*_like`` functions keep its shape, ``new_*`` methods its dtype and device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.base import TensorBase, check_tensor
from tensor.core.creation_arguments import check_memory, dtype_of_argument, sequence_of_sizes, sizes_of
from tensor.core.devices.state import device_state_of
from tensor.core.memory_format import format_of, preserve_format
from tensor.core.memory_format import memory_format as MemoryFormat
from tensor.core.plans.fills import filled
from tensor.operations.definition import operation

from .factories import empty_strided, new_layout, number_to_fill, undefined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvrtc_kernels.dtypes import dtype
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


def layout_like(
    input: Any,
    dtype: dtype | None,
    device: Any,
    memory_format: MemoryFormat | None,
    function: str = "empty_like",
) -> Layout:
    """Layout of ``input``'s shape and order of dimensions, unless another is asked for."""
    if not isinstance(input, TensorBase):
        check_tensor(input, function, "input")
    result: Layout = input._layout
    if dtype is not None:
        result = result.with_dtype(dtype_of_argument(dtype, function))
    if device is not None:
        result = result.on(device_state_of(device))
    if memory_format is None or memory_format is preserve_format:
        return result if result.dense else result.as_dense()
    return format_of(memory_format, function).layout(result)


@operation(method=False)
def empty_like(
    input: Tensor,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: MemoryFormat | None = preserve_format,
) -> Tensor:
    """Tensor with the shape, dtype and device of ``input``, and undefined contents.

    Parameters
    ----------
    dtype, device : optional
        Another dtype or device.
    memory_format : memory_format
        By default the order of the dimensions of ``input`` in memory is kept.

    Raises
    ------
    RuntimeError
        For pinned memory on a CUDA device.
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.empty_like(tensor.zeros(2, 3)).shape
    tensor.Size([2, 3])
    """
    result = layout_like(input, dtype, device, memory_format, "empty_like")
    if layout is not None or pin_memory:
        check_memory(layout, pin_memory, result.device_state, "empty_like")
    output = undefined(result, pin_memory=pin_memory)
    return output.requires_grad_(True) if requires_grad else output


@operation(method=False)
def zeros_like(
    input: Tensor,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: MemoryFormat | None = preserve_format,
) -> Tensor:
    """Tensor with the shape, dtype and device of ``input``, filled with 0.

    Arguments and errors are those of :func:`empty_like`.

    Examples
    --------
    >>> tensor.zeros_like(tensor.tensor([1, 2]))
    tensor([0, 0])
    """
    result = layout_like(input, dtype, device, memory_format, "zeros_like")
    if layout is not None or pin_memory:
        check_memory(layout, pin_memory, result.device_state, "zeros_like")
    output = filled(result, 0, pin_memory=pin_memory)
    return output.requires_grad_(True) if requires_grad else output


@operation(method=False)
def ones_like(
    input: Tensor,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: MemoryFormat | None = preserve_format,
) -> Tensor:
    """Tensor with the shape, dtype and device of ``input``, filled with 1.

    Arguments and errors are those of :func:`empty_like`.

    Examples
    --------
    >>> tensor.ones_like(tensor.tensor([1.0, 2.0]))
    tensor([1., 1.])
    """
    result = layout_like(input, dtype, device, memory_format, "ones_like")
    if layout is not None or pin_memory:
        check_memory(layout, pin_memory, result.device_state, "ones_like")
    output = filled(result, 1, pin_memory=pin_memory)
    return output.requires_grad_(True) if requires_grad else output


@operation(method=False)
def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: MemoryFormat | None = preserve_format,
) -> Tensor:
    """Tensor with the shape, dtype and device of ``input``, filled with ``fill_value``.

    The other arguments are those of :func:`empty_like`.

    Parameters
    ----------
    fill_value : number or Tensor
        A number, or a 0-dim tensor, converted to the dtype: an integer one drops the fraction.

    Raises
    ------
    RuntimeError
        If the dtype cannot hold the value, or for pinned memory on a CUDA device.
    TypeError
        If ``fill_value`` is not a number, or ``input`` not a tensor.

    Examples
    --------
    >>> tensor.full_like(tensor.zeros(2), 3)
    tensor([3., 3.])
    """
    fill_value = number_to_fill(fill_value, "full_like")[1]
    result = layout_like(input, dtype, device, memory_format, "full_like")
    if layout is not None or pin_memory:
        check_memory(layout, pin_memory, result.device_state, "full_like")
    output = filled(result, fill_value, pin_memory=pin_memory)
    return output.requires_grad_(True) if requires_grad else output


def _new(input: Tensor, shape: tuple[int, ...], function: str, dtype: dtype | None, device: Any) -> Layout:
    device_state = input._layout.device_state if device is None else device_state_of(device)
    return new_layout(shape, input._layout.dtype if dtype is None else dtype, device_state, None, function)


@operation(namespace="")
def new_empty(
    input: Tensor,
    *sizes: Any,
    size: Sequence[int] | None = None,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Tensor of shape ``size`` with the dtype and device of ``input``, and undefined contents.

    Sizes are given one by one or as a sequence; another dtype or device can be given by name.

    Raises
    ------
    RuntimeError
        For a negative size, or pinned memory on a CUDA device.

    Examples
    --------
    >>> tensor.zeros(2, dtype=tensor.float64).new_empty(3, 4).dtype
    tensor.float64
    """
    shape = sizes_of(sizes, size, "new_empty")
    result = _new(input, shape, "new_empty", dtype, device)
    if layout is not None or pin_memory:
        check_memory(layout, pin_memory, result.device_state, "new_empty")
    output = undefined(result, pin_memory=pin_memory)
    return output.requires_grad_(True) if requires_grad else output


@operation(namespace="")
def new_zeros(
    input: Tensor,
    *sizes: Any,
    size: Sequence[int] | None = None,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Tensor of shape ``size`` with the dtype and device of ``input``, filled with 0.

    Sizes are given one by one or as a sequence; another dtype or device can be given by name.

    Raises
    ------
    RuntimeError
        For a negative size, or pinned memory on a CUDA device.

    Examples
    --------
    >>> tensor.tensor([1, 2]).new_zeros(3)
    tensor([0, 0, 0])
    """
    shape = sizes_of(sizes, size, "new_zeros")
    result = _new(input, shape, "new_zeros", dtype, device)
    if layout is not None or pin_memory:
        check_memory(layout, pin_memory, result.device_state, "new_zeros")
    output = filled(result, 0, pin_memory=pin_memory)
    return output.requires_grad_(True) if requires_grad else output


@operation(namespace="")
def new_ones(
    input: Tensor,
    *sizes: Any,
    size: Sequence[int] | None = None,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Tensor of shape ``size`` with the dtype and device of ``input``, filled with 1.

    Sizes are given one by one or as a sequence; another dtype or device can be given by name.

    Raises
    ------
    RuntimeError
        For a negative size, or pinned memory on a CUDA device.

    Examples
    --------
    >>> tensor.tensor([1, 2]).new_ones(2, 2)
    tensor([[1, 1],
            [1, 1]])
    """
    shape = sizes_of(sizes, size, "new_ones")
    result = _new(input, shape, "new_ones", dtype, device)
    if layout is not None or pin_memory:
        check_memory(layout, pin_memory, result.device_state, "new_ones")
    output = filled(result, 1, pin_memory=pin_memory)
    return output.requires_grad_(True) if requires_grad else output


@operation(namespace="")
def new_full(
    input: Tensor,
    size: Sequence[int],
    fill_value: Any,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Tensor of shape ``size`` with the dtype and device of ``input``, filled with ``fill_value``.

    ``size`` is a sequence; another dtype or device can be given by name.

    Raises
    ------
    RuntimeError
        If the dtype cannot hold the value, for a negative size, or pinned memory on a CUDA device.
    TypeError
        If ``fill_value`` is not a number.

    Examples
    --------
    >>> tensor.tensor([1.0, 2.0]).new_full((3,), 5)
    tensor([5., 5., 5.])
    """
    fill_value = number_to_fill(fill_value, "new_full")[1]
    shape = sequence_of_sizes(size, "new_full")
    result = _new(input, shape, "new_full", dtype, device)
    if layout is not None or pin_memory:
        check_memory(layout, pin_memory, result.device_state, "new_full")
    output = filled(result, fill_value, pin_memory=pin_memory)
    return output.requires_grad_(True) if requires_grad else output


@operation(namespace="")
def new_empty_strided(
    input: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Tensor of a shape and strides, in elements, with the dtype and device of ``input``, and undefined contents.

    Raises
    ------
    RuntimeError
        If sizes and strides differ in number, or one is negative.

    Examples
    --------
    >>> tensor.zeros(2).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    return empty_strided(
        size,
        stride,
        dtype=input._layout.dtype if dtype is None else dtype,
        device=input._layout.device if device is None else device,
        requires_grad=requires_grad,
        layout=layout,
        pin_memory=pin_memory,
    )

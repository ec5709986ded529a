"""Tensors from data: Python numbers and lists, NumPy arrays, buffers, other tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import dtype
from nvrtc_kernels.dtypes import from_numpy as dtype_of_array
from tensor.core.base import TensorBase, wrap
from tensor.core.creation_arguments import dtype_of_argument
from tensor.core.devices.state import device_state_of
from tensor.core.dtypes.default import get_default_dtype
from tensor.core.plans.copies import host_conversion
from tensor.core.plans.steps import one_step, recorders
from tensor.core.size import Size
from tensor.core.storage import Storage
from tensor.core.typed_storage import tensor_of, untyped_of
from tensor.core.warning import warn_caller
from tensor.operations.creation.interchange.array_interfaces import (
    dtypes_of_arrays,
    from_cuda_array_interface,
    from_numpy,
    share,
)
from tensor.operations.creation.interchange.dlpack_exchange import from_dlpack
from tensor.operations.definition import operation

from .copies import copy_into_new
from .factories import empty
from .nested_data import array_of_nested, as_element, inferred_dtype, is_sequence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensor.core.devices.state import DeviceState
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


@operation(method=False)
def tensor(
    data: Any,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Tensor with a copy of ``data``.

    Parameters
    ----------
    data
        A number, nested sequences of numbers (or of tensors with one element), a NumPy array, a tensor.
    dtype
        By default that of an array or tensor; the default type for Python floats, int64 for integers, bool
        for bools, and the highest category where they are mixed.
    device
        By default the CPU, for a tensor its own.

    Raises
    ------
    ValueError
        If sequences differ in length.
    RuntimeError
        If a number is out of the range of ``dtype``.
    TypeError
        For elements that are no numbers.

    Examples
    --------
    >>> tensor.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    >>> tensor.tensor([1, 2.5])
    tensor([1.0000, 2.5000])
    """
    device_state = device_state_of(device)
    if dtype is not None:
        dtype = dtype_of_argument(dtype, "tensor")
    if isinstance(data, TensorBase):
        warn_caller(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than tensor.tensor(sourceTensor).",
        )
        result = _copy_of(
            data.detach(), dtype, data._layout.device_state if device is None else device_state, pin_memory
        )
    elif isinstance(data, np.ndarray) or (hasattr(data, "__array__") and not isinstance(data, np.generic)):
        array = np.asarray(data)
        element_dtype = dtype_of_array(array.dtype)
        if array.dtype.isnative and all(step >= 0 and not step % array.itemsize for step in array.strides):
            result = _copy_of(share(array, element_dtype), dtype, device_state, pin_memory)
        else:
            result = _copy_of(wrap(_converted(array, element_dtype)), dtype, device_state, pin_memory)
    else:
        result = wrap(_array_of(data, dtype))
        if recorders and not device_state.is_cuda and not pin_memory:
            result = _of_numbers(result._layout, data)
        if device_state.is_cuda or pin_memory:
            result = copy_into_new(result, result._layout.on(device_state), pin_memory=pin_memory)
    return result.requires_grad_(True) if requires_grad else result


@one_step
def _of_numbers(layout: Layout, data: Any) -> Tensor:
    return wrap(_array_of(data, layout.dtype), layout)


def _copy_of(data: Tensor, dtype: dtype | None, device_state: DeviceState, pin_memory: bool) -> Tensor:
    """A copy with the order of dimensions that ``data`` has."""
    target = data._layout.on(device_state).as_dense()
    return copy_into_new(data, target if dtype is None else target.with_dtype(dtype), pin_memory=pin_memory)


def of_old_class(data: tuple[Any, ...], device: Any, dtype: dtype | None = None) -> Tensor:
    """What ``Tensor(...)`` makes: of type ``dtype``, the default type by default, from a sequence or an array, or of sizes.

    Of a storage it is a tensor over the same memory.

    Raises
    ------
    TypeError
        For anything else, or a tensor of another type.
    """
    dtype = dtype or get_default_dtype()
    argument = untyped_of(data[0], dtype, "new") if len(data) == 1 else None
    if isinstance(argument, Storage):
        return tensor_of(argument, dtype)
    if isinstance(argument, TensorBase) and argument._layout.shape:
        if argument._layout.dtype is not dtype:
            raise TypeError(
                f"expected {dtype!r} (got {argument._layout.dtype!r}); Tensor(...) converts nothing"
            )
        return argument.detach().to(device=device)
    if len(data) != 1 or isinstance(argument, (int, np.integer, Size)):
        return empty(*(data or (0,)), dtype=dtype, device=device)
    if not is_sequence(argument):
        raise TypeError(f"new(): data must be a sequence (got {type(argument).__name__})")
    return tensor(argument, dtype=dtype, device=device)


@operation(method=False)
def as_tensor(data: Any, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """``data`` as a tensor, without a copy where dtype and device allow: tensors, NumPy arrays, DLPack and
    CUDA arrays share memory. See :func:`tensor`.

    Examples
    --------
    >>> x = tensor.zeros(2)
    >>> tensor.as_tensor(x) is x
    True
    """
    if dtype is not None:
        dtype = dtype_of_argument(dtype, "as_tensor")
    shared = _shared_with(data)
    if shared is None:
        return tensor(data, dtype=dtype, device=device)
    if device is None and not isinstance(data, TensorBase) and not shared._layout.device_state.is_cuda:
        device = device_state_of(None).device
    where = shared._layout.device if device is None else device
    return shared.to(where, dtype or shared._layout.dtype)


def _shared_with(data: Any) -> Tensor | None:
    """A tensor over the memory of ``data``, where it has a way to share it."""
    if isinstance(data, TensorBase):
        return data
    if isinstance(data, np.ndarray):
        return from_numpy(data) if data.dtype in dtypes_of_arrays() else None
    if hasattr(data, "__cuda_array_interface__"):
        return from_cuda_array_interface(data)
    if hasattr(data, "__dlpack__") or type(data).__name__ == "PyCapsule":
        return from_dlpack(data)
    return None


@operation(method=False)
def asarray(
    obj: Any,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``obj`` as a tensor; ``copy`` True copies always, False never, None where it is needed.

    Raises
    ------
    ValueError
        If ``copy`` is False and a copy is needed.

    Examples
    --------
    >>> tensor.asarray([1.0, 2.0])
    tensor([1., 2.])
    """
    if isinstance(obj, (bytes, bytearray, memoryview)) and not hasattr(obj, "__array_interface__"):
        obj = frombuffer(obj, dtype=dtype or get_default_dtype())
    elif isinstance(obj, Storage):
        obj = tensor_of(obj, dtype or get_default_dtype())
    origin = _shared_with(obj)
    result = as_tensor(obj if origin is None else origin, dtype, device)
    shared = result is origin
    if copy is False and not shared:
        raise ValueError(
            "can't alias arbitrary Python objects or convert dtype and device without a copy (copy=False)"
        )
    if copy and shared:
        result = copy_into_new(result, result._layout.as_dense())
    return result.requires_grad_(True) if requires_grad else result


@operation(method=False)
def frombuffer(
    buffer: Any, *, dtype: dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """Vector over the memory of an object with the buffer protocol.

    Parameters
    ----------
    count
        Number of elements; -1 takes all from ``offset`` (in bytes) on.

    Raises
    ------
    ValueError
        If the buffer is empty or too short, or its bytes are no whole number of elements.

    Examples
    --------
    >>> tensor.frombuffer(bytearray([1, 2, 3]), dtype=tensor.uint8)
    tensor([1, 2, 3], dtype=tensor.uint8)
    """
    element_dtype = dtype_of_argument(dtype, "frombuffer")
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError(
            f"frombuffer(): object does not implement Python buffer protocol: {type(buffer).__name__}"
        ) from None
    size = view.nbytes
    if size == 0 or count == 0:
        raise ValueError(f"both buffer length ({size}) and count ({count}) must not be 0")
    if not 0 <= offset < size:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({size} bytes) minus 1"
        )
    if count < 0 and (size - offset) % element_dtype.itemsize:
        raise ValueError(
            f"buffer length ({size - offset} bytes) after offset ({offset} bytes) must be a multiple of element size "
            f"({element_dtype.itemsize})"
        )
    if count > 0 and offset + count * element_dtype.itemsize > size:
        raise ValueError(
            f"requested buffer length ({count} * {element_dtype.itemsize} bytes) after offset ({offset} bytes) must not be "
            f"greater than actual buffer length ({size} bytes)"
        )
    array = np.frombuffer(view, element_dtype.numpy, count, offset)
    if not array.flags.writeable:
        warn_caller(
            "The given buffer is not writable: writing to the tensor is an error. Copy the buffer to protect "
            "its data.",
        )
    result = share(array, element_dtype)
    return result.requires_grad_(True) if requires_grad else result


def _array_of(data: Any, dtype: dtype | None) -> NDArray[Any]:
    """A fresh C-contiguous array with a copy of ``data``."""
    if isinstance(data, (int, float, complex, np.generic)):
        target = inferred_dtype(data) if dtype is None else dtype
        with np.errstate(all="ignore"):
            return np.array(as_element(data, target), target.numpy)
    if not is_sequence(data):
        inferred_dtype(data)
    return array_of_nested(data, dtype, _converted)


def _converted(array: NDArray[Any], dtype: dtype) -> NDArray[Any]:
    origin = dtype_of_array(array.dtype)
    result = np.empty(array.shape, dtype.numpy)
    host_conversion(origin, dtype)(result, array.astype(origin.numpy, copy=False))
    return result

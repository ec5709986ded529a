"""Tensors from data: Python numbers and lists, NumPy arrays, buffers, other tensors."""

from __future__ import annotations

import warnings
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import dtypes
from nvrtc_kernels.dtypes import Category, dtype, promote_types
from nvrtc_kernels.dtypes import from_numpy as dtype_of_array

from . import layout as layouts
from .base import TensorBase, view_of, wrap
from .copies import copy_into_new
from .copy_plans import host_conversion
from .creation import default_dtype_of, get_default_dtype
from .creation_arguments import dtype_of_argument
from .numeric_limits import iinfo
from .places import cpu, place_of
from .scalars import element
from .storage import HostStorage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from .tensors import Tensor


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
        for bools, and the widest kind where they are mixed.
    device
        By default the CPU, for a tensor its own.

    Raises
    ------
    ValueError
        If sequences differ in length.
    RuntimeError
        If a number does not fit into ``dtype``.
    TypeError
        For elements that are no numbers.
    """
    place = place_of(device)
    if dtype is not None:
        dtype = dtype_of_argument(dtype, "tensor")
    if isinstance(data, TensorBase):
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than tensor.tensor(sourceTensor).",
            stacklevel=2,
        )
        origin = data._layout
        target = layouts.contiguous[
            origin.shape, dtype or origin.dtype, origin.place if device is None else place
        ]
        made = copy_into_new(data, target, pin_memory=pin_memory)
    else:
        made = wrap(_array_of(data, dtype))
        if place.is_cuda or pin_memory:
            made = copy_into_new(made, made._layout.on(place), pin_memory=pin_memory)
    return made.requires_grad_(True) if requires_grad else made


def as_tensor(data: Any, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """``data`` as a tensor, without a copy where dtype and device allow: tensors, NumPy arrays, DLPack and
    CUDA arrays share memory. See :func:`tensor`.
    """
    if dtype is not None:
        dtype = dtype_of_argument(dtype, "as_tensor")
    shared = _shared_with(data)
    if shared is None:
        return tensor(data, dtype=dtype, device=device)
    where = shared._layout.device if device is None else device
    return shared.to(where, dtype or shared._layout.dtype)


def _shared_with(data: Any) -> Tensor | None:
    """A tensor over the memory of ``data``, where it has a way to share it."""
    if isinstance(data, TensorBase):
        return data  # type: ignore[return-value]
    if isinstance(data, np.ndarray):
        return from_numpy(data) if data.dtype in dtypes_of_arrays() else None
    if hasattr(data, "__cuda_array_interface__"):
        from .array_interfaces import from_cuda_array_interface

        return from_cuda_array_interface(data)
    if hasattr(data, "__dlpack__") or type(data).__name__ == "PyCapsule":
        from .interop import from_dlpack

        return from_dlpack(data)
    return None


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
    """
    if isinstance(obj, (bytes, bytearray, memoryview)) and not hasattr(obj, "__array_interface__"):
        obj = frombuffer(obj, dtype=dtype or get_default_dtype())
    origin = _shared_with(obj)
    made = as_tensor(obj if origin is None else origin, dtype, device)
    shared = made is origin
    if copy is False and not shared:
        raise ValueError(
            "can't alias arbitrary Python objects or convert dtype and device without a copy (copy=False)"
        )
    if copy and shared:
        made = copy_into_new(made, made._layout.as_dense())
    return made.requires_grad_(True) if requires_grad else made


def dtypes_of_arrays() -> frozenset[np.dtype[Any]]:
    """NumPy types that a tensor can share."""
    return _SHARED


_SHARED = frozenset(kind.numpy for kind in dtypes.ALL)


def from_numpy(ndarray: NDArray[Any]) -> Tensor:
    """CPU tensor over the memory of a NumPy array: changes of one show in the other.

    Raises
    ------
    TypeError
        If it is no array, or of a type that no tensor has.
    ValueError
        If a stride is negative or no multiple of the element's size, or the byte order is foreign.
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    kind = dtype_of_array(ndarray.dtype)
    if not ndarray.dtype.isnative:
        raise ValueError(
            f"given numpy array has byte order different from the native byte order ({ndarray.dtype.str}): "
            "convert it with array.astype(array.dtype.newbyteorder('='))"
        )
    if not ndarray.flags.writeable:
        warnings.warn(
            "The given NumPy array is not writable: writing to the tensor is an error. Copy the array to "
            "protect its data or make it writable.",
            stacklevel=2,
        )
    return share(ndarray, kind)


def share(array: NDArray[Any], kind: dtype) -> Tensor:
    """CPU tensor over the memory of an array of native byte order."""
    item = array.dtype.itemsize
    if array.flags.c_contiguous:
        return wrap(array.view(kind.numpy), layouts.contiguous[array.shape, kind, cpu])
    if any(step < 0 for step in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are "
            "not currently supported. (You can probably work around this by making a copy of your array with "
            "array.copy().) "
        )
    if any(step % item for step in array.strides):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to "
            "reallocate the memory."
        )
    steps = tuple(step // item for step in array.strides)
    found = layouts.strided[array.shape, steps, kind, cpu]
    flat = np.lib.stride_tricks.as_strided(
        array, (found.span,), (item,), writeable=bool(array.flags.writeable)
    )
    return view_of(HostStorage(flat), found, 0)


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
    """
    view = memoryview(buffer)
    size = view.nbytes
    if size == 0 or count == 0:
        raise ValueError(f"both buffer length ({size}) and count ({count}) must not be 0")
    if not 0 <= offset < size:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({size} bytes) minus 1"
        )
    if count < 0 and (size - offset) % dtype.itemsize:
        raise ValueError(
            f"buffer length ({size - offset} bytes) after offset ({offset} bytes) must be a multiple of element size "
            f"({dtype.itemsize})"
        )
    if count > 0 and offset + count * dtype.itemsize > size:
        raise ValueError(
            f"requested buffer length ({count} * {dtype.itemsize} bytes) after offset ({offset} bytes) must not be "
            f"greater than actual buffer length ({size} bytes)"
        )
    array = np.frombuffer(view, dtype.numpy, count, offset)
    if not array.flags.writeable:
        warnings.warn(
            "The given buffer is not writable: writing to the tensor is an error. Copy the buffer to protect "
            "its data.",
            stacklevel=2,
        )
    made = share(array, dtype)
    return made.requires_grad_(True) if requires_grad else made


def _array_of(data: Any, kind: dtype | None) -> NDArray[Any]:
    """A fresh C-contiguous array with a copy of ``data``."""
    if isinstance(data, (np.ndarray, np.generic)):
        return _converted(np.asarray(data), kind or dtype_of_array(data.dtype))
    if isinstance(data, (int, float, complex)):
        target = kind or default_dtype_of(data)
        with np.errstate(all="ignore"):
            return np.array(_element(data, target), target.numpy)
    interface = getattr(data, "__array__", None)
    if interface is not None:
        return _array_of(np.asarray(data), kind)
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
    return _of_nested(data, kind)


def _of_nested(data: Any, kind: dtype | None) -> NDArray[Any]:
    first = data
    while isinstance(first, (list, tuple)) and first:
        first = first[0]
    if type(first) in _EXACT:
        # Python numbers all through, most likely: NumPy reads them fast.
        try:
            array = np.array(data)
        except (ValueError, TypeError, OverflowError, RuntimeError):
            array = np.empty(0, object)
        if array.dtype in _READ:
            target = kind or default_dtype_of(array.dtype.type(0).item())
            if _fits(array, target):
                return _converted(array, target)
    shape = tuple(_shape(data))
    leaves = list(_leaves(data, shape, 0))
    if kind is None:
        kinds = {_dtype_of_leaf(leaf) for leaf in leaves}
        kind = reduce(promote_types, kinds) if kinds else get_default_dtype()
    made = np.empty(len(leaves), kind.numpy)
    with np.errstate(all="ignore"):
        made[:] = [_element(leaf, kind) for leaf in leaves]
    return made.reshape(shape)


_EXACT = (int, float, bool, complex)
_READ = frozenset(np.dtype(name) for name in ("?", "i8", "f8", "c16"))


def _fits(array: NDArray[Any], kind: dtype) -> bool:
    """Whether every number may be converted; if not, the slow way says which one may not."""
    if array.dtype.kind == "c" and not kind.is_complex:
        return False
    if kind.category is not Category.INTEGER or array.dtype.kind == "b" or not array.size:
        return True
    limits = iinfo(kind)
    low = limits.min if limits.min else -limits.max
    return bool(array.min() >= low and array.max() <= limits.max)


def _dtype_of_leaf(leaf: Any) -> dtype:
    return dtype_of_array(leaf.dtype) if isinstance(leaf, np.generic) else default_dtype_of(leaf)


def _element(value: Any, kind: dtype) -> Any:
    """As :func:`element`, but a float too large becomes infinite, and no complex number real."""
    if kind.category is Category.FLOATING:
        if isinstance(value, (complex, np.complexfloating)):
            raise TypeError(f"must be real number, not {type(value).__name__}")
        return float(value)
    return complex(value) if kind.is_complex else element(value, kind)


def _shape(data: Any) -> Iterator[int]:
    """Shape of nested sequences, read off the first elements."""
    while hasattr(data, "__len__") and not isinstance(data, (str, bytes)):
        if getattr(data, "shape", None) is not None:
            yield from data.shape
            return
        yield len(data)
        if not len(data):
            return
        data = data[0]


def _leaves(data: Any, shape: tuple[int, ...], depth: int) -> Iterator[Any]:
    if depth == len(shape):
        if hasattr(data, "__len__") and getattr(data, "shape", (1,)) != ():
            raise ValueError(f"expected a number at dim {depth}, got a sequence of length {len(data)}")
        if isinstance(data, TensorBase):
            yield data._layout.dtype.numpy.type(data.item())
        elif isinstance(data, np.ndarray):
            yield data[()]
        elif isinstance(data, (int, float, complex, np.generic)):
            yield data
        elif isinstance(data, (str, bytes)):
            raise ValueError(f"too many dimensions '{type(data).__name__}'")
        else:
            raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
        return
    if not hasattr(data, "__len__") or isinstance(data, (str, bytes)):
        raise TypeError(f"not a sequence at dim {depth}: got {type(data).__name__}")
    if len(data) != shape[depth]:
        raise ValueError(f"expected sequence of length {shape[depth]} at dim {depth} (got {len(data)})")
    for part in data:
        yield from _leaves(part, shape, depth + 1)


def _converted(array: NDArray[Any], kind: dtype) -> NDArray[Any]:
    origin = dtype_of_array(array.dtype)
    made = np.empty(array.shape, kind.numpy)
    host_conversion(origin, kind)(made, array.astype(origin.numpy, copy=False))
    return made

"""Memory shared through array interfaces: that of CUDA arrays, and NumPy's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import drv
from nvrtc_kernels import dtypes
from nvrtc_kernels.dtypes import from_numpy as dtype_of_array
from nvrtc_kernels.layouts import contiguous_strides
from tensor.core import layout as layouts
from tensor.core.base import view_of, wrap
from tensor.core.devices.state import CudaState, cpu, cuda_state
from tensor.core.devices.stream import Stream
from tensor.core.storage import ForeignStorage, HostStorage
from tensor.core.warning import warn_caller
from tensor.operations.creation.conversions import numpy as as_numpy
from tensor.operations.creation.conversions import type_
from tensor.operations.definition import operation

from .dlpack import check_aligned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray

    from nvrtc_kernels.dtypes import dtype
    from tensor.methods.tensor import Tensor

#: Versions of the CUDA array interface that are known here.
_INTERFACES = range(4)


# The CUDA array interface


def cuda_array_interface(input: Tensor) -> dict[str, Any]:
    """Description of a CUDA tensor's memory for other libraries, version 3.

    ``stream`` is the device's current stream: what reads or writes the memory goes behind its work.

    Raises
    ------
    AttributeError
        For a CPU tensor, so that ``hasattr`` is False.
    RuntimeError
        For a tensor that requires grad.
    """
    layout = input._layout
    device_state = layout.device_state
    if not isinstance(device_state, CudaState):
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {type_(input)} If CUDA data is required use "
            "tensor.cuda() to copy tensor to device memory."
        )
    if input.requires_grad:
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't required, use "
            "var.detach() to get Variable that doesn't require grad."
        )
    device_state.check_alive()
    return {
        "shape": tuple(layout.shape),
        "strides": None if layout.contiguous else layout.numpy_strides,
        # NumPy has no name for float8: raw bytes.
        "typestr": "|V1" if layout.dtype in dtypes.FLOAT8 else layout.dtype.numpy.str,
        "data": (input.data_ptr(), False),
        "stream": int(device_state.local.stream.native.handle),
        "version": 3,
    }


def from_cuda_array_interface(obj: Any) -> Tensor:
    """CUDA tensor over the memory of an object that has ``__cuda_array_interface__``.

    This thread's current stream of the device is ordered behind the stream that the object names. The tensor
    keeps the object alive.

    Raises
    ------
    TypeError
        For memory that must not be written, a dtype that tensors do not have, or a malformed description.
    ValueError
        For a version, strides, a stream or an address that tensors cannot have.
    NotImplementedError
        For a masked array.
    """
    argument = obj.__cuda_array_interface__
    version = argument.get("version", 0)
    if version not in _INTERFACES:
        raise ValueError(
            f"version {version} of the CUDA array interface is unknown, expected {_INTERFACES[0]} to {_INTERFACES[-1]}"
        )
    if argument.get("mask") is not None:
        raise NotImplementedError(
            "masked arrays are not supported: fill the array's masked elements and pass it without a mask"
        )
    dtype = _described_type(argument["typestr"])
    shape = tuple(map(int, argument["shape"]))
    if any(size < 0 for size in shape):
        raise ValueError(f"the CUDA array interface gives shape {list(shape)}, which has a negative size")
    strides = _described_strides(argument.get("strides"), shape, dtype)
    data = argument["data"]
    if not isinstance(data, tuple) or len(data) != 2:
        raise TypeError(f"`data` of the CUDA array interface must be a 2-tuple of (int, bool), got {data!r}")
    address, read_only = data
    if read_only:
        raise TypeError("the read only flag is not supported, should always be False: copy the array first")
    if not math.prod(shape):
        device_state = cuda_state()
        return view_of(
            ForeignStorage(device_state, 0, 0, obj), layouts.strided[shape, strides, dtype, device_state], 0
        )
    device_state = _owner_of(address)
    check_aligned(address, dtype)
    layout = layouts.strided[shape, strides, dtype, device_state]
    stream = argument.get("stream")
    if stream is not None:
        if stream == 0:
            raise ValueError(
                "stream 0 of the CUDA array interface is ambiguous: pass 1 for the legacy default stream, 2 for the "
                "per-thread default stream, or None for no synchronisation"
            )
        producer = Stream.of(device_state, drv.Stream.from_handle(device_state.native, stream))
        device_state.local.stream.wait_stream(producer)
    return view_of(ForeignStorage(device_state, layout.nbytes, address, obj), layout, 0)


def _described_type(text: str) -> dtype:
    # What NumPy calls ml_dtypes.bfloat16, which it knows as raw bytes only.
    if text in ("<V2", "|V2"):
        return dtypes.bfloat16
    described = np.dtype(text)
    if not described.isnative:
        raise TypeError(f"elements of type {text} are not in native byte order: convert the array first")
    try:
        return dtype_of_array(described)
    except TypeError:
        known = ", ".join(each.name for each in dtypes.EVERY)
        raise TypeError(
            f"can't share elements of type {text}. The only supported types are: {known}."
        ) from None


def _described_strides(
    argument: Sequence[int] | None, shape: tuple[int, ...], dtype: dtype
) -> tuple[int, ...]:
    if argument is None or 0 in shape:
        return contiguous_strides(shape)
    strides = tuple(map(int, argument))
    if len(strides) != len(shape):
        raise ValueError(f"the CUDA array interface gives strides {list(strides)} for shape {list(shape)}")
    if any(step < 0 or step % dtype.itemsize for step in strides):
        raise ValueError(
            f"strides {list(strides)} of the given CUDA array are negative or no multiples of the element size "
            f"({dtype.itemsize} bytes), which tensors cannot have: copy the array first"
        )
    return tuple(step // dtype.itemsize for step in strides)


def _owner_of(address: int) -> CudaState:
    """The device whose memory is at ``address``."""
    # NVIDIA's bindings take long to load: only what asks for an address's device waits for them.
    from cuda.bindings.driver import CUpointer_attribute

    device_state = cuda_state()
    device_state.native.use()
    expected = CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    status, ordinal = device_state.runtime.driver.cuPointerGetAttribute(expected, address)
    if status:
        raise ValueError(
            f"the pointer {address:#x} of the CUDA array interface is not registered with any CUDA device of this process"
        )
    return cuda_state(int(ordinal))


# NumPy


def as_array(input: Tensor, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
    """What ``np.asarray`` and ``np.array`` make of a CPU tensor: no copy unless it is asked for, or needed.

    Raises
    ------
    TypeError
        For a CUDA tensor.
    RuntimeError
        For a tensor that requires grad.
    ValueError
        If a copy is needed that ``copy`` forbids.
    """
    array = as_numpy(input)
    if dtype is not None and np.dtype(dtype) != array.dtype:
        if copy is False:
            raise ValueError(
                f"Unable to avoid copy while creating an array as requested: the tensor is of type {array.dtype}, not "
                f"{np.dtype(dtype)}."
            )
        return array.astype(dtype)
    return array.copy() if copy else array


def dtypes_of_arrays() -> frozenset[np.dtype[Any]]:
    """NumPy types that a tensor can share."""
    return _SHARED


_SHARED = frozenset(dtype.numpy for dtype in dtypes.EVERY)


@operation(method=False)
def from_numpy(ndarray: NDArray[Any]) -> Tensor:
    """CPU tensor over the memory of a NumPy array: changes of one show in the other.

    Raises
    ------
    TypeError
        If it is no array, or of a type that no tensor has.
    ValueError
        If a stride is negative or no multiple of the element's size, or the byte order is foreign.

    Examples
    --------
    >>> import numpy as np
    >>> array = np.zeros(2)
    >>> x = tensor.from_numpy(array)
    >>> array[0] = 1
    >>> x
    tensor([1., 0.], dtype=tensor.float64)
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    dtype = dtype_of_array(ndarray.dtype)
    if not ndarray.dtype.isnative:
        raise ValueError(
            f"given numpy array has byte order different from the native byte order ({ndarray.dtype.str}): "
            "convert it with array.astype(array.dtype.newbyteorder('='))"
        )
    if not ndarray.flags.writeable:
        warn_caller(
            "The given NumPy array is not writable: writing to the tensor is an error. Copy the array to "
            "protect its data or make it writable.",
        )
    return share(ndarray, dtype)


def share(array: NDArray[Any], dtype: dtype) -> Tensor:
    """CPU tensor over the memory of an array of native byte order."""
    item = array.dtype.itemsize
    if array.flags.c_contiguous:
        steps = tuple(step // item for step in array.strides)
        usable = all(step >= 0 and not step % item for step in array.strides)
        result = layouts.contiguous[array.shape, dtype, cpu]
        return wrap(array.view(dtype.numpy), result.with_strides(result.shape, steps) if usable else result)
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
    result = layouts.strided[array.shape, steps, dtype, cpu]
    # NumPy has no name for float8, under which it would look for the type again.
    shown = array.view(np.uint8) if dtype in dtypes.FLOAT8 else array
    flat = np.lib.stride_tricks.as_strided(
        shown, (result.span,), (item,), writeable=bool(array.flags.writeable)
    )
    return view_of(HostStorage(flat), result, 0)


def wrap_array(input: Tensor, array: NDArray[Any], context: Any = None, return_scalar: bool = False) -> Any:
    """The result of a NumPy function of this tensor, as a tensor where there is such a dtype."""
    return from_numpy(array) if array.dtype in dtypes_of_arrays() else array

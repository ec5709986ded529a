"""Handles and descriptors of the simulated cuDNN.

What a descriptor describes is immutable and known by its identity: setting a descriptor gives it another value, so that what was
checked for the one says nothing about the other. Statuses of refused descriptions are those of NVIDIA's library, which a test compares;
where that reads a null pointer, or what was destroyed, it is ``CUDNN_STATUS_BAD_PARAM``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate, count
from math import prod
from typing import TYPE_CHECKING, TypeVar

from drv.bindings.cudnn import cudnnDataType_t, cudnnMathType_t, cudnnStatus_t, cudnnTensorFormat_t, failure

from .library_call import Refusal, refusing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drv.simulator.driver import SimulatedDriver

# ruff: noqa: A002 - the names are C's

VERSION = 91000

BAD_PARAM = cudnnStatus_t.CUDNN_STATUS_BAD_PARAM
NOT_SUPPORTED = cudnnStatus_t.CUDNN_STATUS_NOT_SUPPORTED
_NOT_INITIALIZED = cudnnStatus_t.CUDNN_STATUS_NOT_INITIALIZED

call = refusing(failure, cudnnStatus_t.CUDNN_STATUS_INTERNAL_ERROR)

#: Types that a tensor can be of, whether or not convolutions of them are simulated; filters of int32 there are none.
_TENSOR_TYPES = range(10)
_INT32 = 4
#: Types that sums can be in.
_COMPUTE_TYPES = (
    cudnnDataType_t.CUDNN_DATA_FLOAT,
    cudnnDataType_t.CUDNN_DATA_DOUBLE,
    cudnnDataType_t.CUDNN_DATA_HALF,
    _INT32,
)
_MAX_DIMS = 8
_MAX_SPATIAL = _MAX_DIMS - 2
#: Elements from the first to the last of a tensor at most, gaps included.
_MAX_EXTENT = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor ``(items, channels, *spatial)``; strides are in elements. Without sizes it is not described yet."""

    data_type: int = 0
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Filters:
    """Filters ``(filters, channels of a group, *kernel)``, packed. Without sizes they are not described yet."""

    data_type: int = 0
    format: int = 0
    shape: tuple[int, ...] = ()

    @property
    def channels_last(self) -> bool:
        """Whether the elements of a channel are next to those of the next channel."""
        return self.format == cudnnTensorFormat_t.CUDNN_TENSOR_NHWC

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements."""
        filters, channels, *kernel = self.shape
        if self.channels_last:
            outer, *inner, step = packed((filters, *kernel, channels))
            return (outer, step, *inner)
        return packed(self.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Convolution:
    """How filters go over an image. Without padding and so on it is not described yet."""

    padding: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    mode: int = 0
    compute_type: int = 0
    math_type: int = cudnnMathType_t.CUDNN_DEFAULT_MATH
    groups: int = 1


Described = Tensor | Filters | Convolution
_Described = TypeVar("_Described", Tensor, Filters, Convolution)


@dataclass(slots=True)
class Handle:
    """A handle, of the device whose context was current."""

    device: int
    stream: int = 0


def packed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of elements in the order of the dimensions, without gaps."""
    return tuple(accumulate(reversed(shape[1:]), int.__mul__, initial=1))[::-1]


def refuse(detail: str) -> Refusal:
    """``CUDNN_STATUS_BAD_PARAM``, and why."""
    return Refusal(BAD_PARAM, detail)


class DescriptorCalls:
    """Functions that make, set and destroy handles and descriptors."""

    def __init__(self, driver: SimulatedDriver) -> None:
        self._driver = driver
        self._handles: dict[int, Handle] = {}
        self._objects: dict[int, Described] = {}
        self._numbers = count(0x6200_0000_0000, 64)

    def cudnnGetVersion(self, /) -> int:
        return VERSION

    def cudnnGetErrorString(self, status: int, /) -> bytes:
        known = status in tuple(cudnnStatus_t)
        return cudnnStatus_t(status).name.encode() if known else b"CUDNN_UNKNOWN_STATUS"

    @call
    def cudnnCreate(self, /) -> int:
        answer = self._driver.cuCtxGetDevice()
        if answer[0]:
            raise Refusal(_NOT_INITIALIZED, f"no context is current ({answer[0].name})")
        handle = next(self._numbers)
        self._handles[handle] = Handle(int(answer[1]))
        return handle

    @call
    def cudnnDestroy(self, described: int, /) -> None:
        if described:
            self._handle(described)
            del self._handles[described]

    @call
    def cudnnSetStream(self, handle: int, streamId: int, /) -> None:
        self._handle(handle).stream = int(streamId)

    @call
    def cudnnCreateTensorDescriptor(self, /) -> int:
        return self._create(Tensor())

    @call
    def cudnnSetTensorNdDescriptor(
        self,
        tensorDesc: int,
        dataType: int,
        nbDims: int,
        dimA: Sequence[int] | None,
        strideA: Sequence[int] | None,
        /,
    ) -> None:
        self._object(tensorDesc, Tensor, "tensorDesc")
        if dataType not in _TENSOR_TYPES:
            raise refuse(f"{dataType} is no type of a tensor's elements")
        if nbDims < 2:
            raise refuse(f"nbDims is {nbDims}: at least 2 are needed")
        _require_dims(nbDims, _MAX_DIMS)
        shape, strides = _items("dimA", dimA, nbDims), _items("strideA", strideA, nbDims)
        _require_positive("dimA", shape)
        if any(step == 0 and size > 1 for size, step in zip(shape, strides, strict=True)):
            raise refuse(f"strideA is {strides}: elements of a dimension of {shape} share their memory")
        extent = 1 + sum((size - 1) * abs(step) for size, step in zip(shape, strides, strict=True))
        if extent > _MAX_EXTENT:
            raise Refusal(
                NOT_SUPPORTED, f"the tensor spans {extent} elements: at most {_MAX_EXTENT} are supported"
            )
        self._objects[tensorDesc] = Tensor(dataType, shape, strides)

    @call
    def cudnnDestroyTensorDescriptor(self, described: int, /) -> None:
        self._destroy(described, Tensor)

    @call
    def cudnnCreateFilterDescriptor(self, /) -> int:
        return self._create(Filters())

    @call
    def cudnnSetFilterNdDescriptor(
        self, filterDesc: int, dataType: int, format: int, nbDims: int, filterDimA: Sequence[int] | None, /
    ) -> None:
        self._object(filterDesc, Filters, "filterDesc")
        if dataType not in _TENSOR_TYPES or dataType == _INT32:
            raise refuse(f"{dataType} is no type of a filter's elements")
        if format not in tuple(cudnnTensorFormat_t):
            raise refuse(f"format is {format}: expected CUDNN_TENSOR_NCHW or CUDNN_TENSOR_NHWC")
        if nbDims < 3:
            raise refuse(f"nbDims is {nbDims}: at least 3 are needed")
        _require_dims(nbDims, _MAX_DIMS)
        shape = _items("filterDimA", filterDimA, nbDims)
        _require_positive("filterDimA", shape)
        self._objects[filterDesc] = Filters(dataType, format, shape)

    @call
    def cudnnDestroyFilterDescriptor(self, described: int, /) -> None:
        self._destroy(described, Filters)

    @call
    def cudnnCreateConvolutionDescriptor(self, /) -> int:
        return self._create(Convolution())

    @call
    def cudnnSetConvolutionNdDescriptor(
        self,
        convDesc: int,
        arrayLength: int,
        padA: Sequence[int] | None,
        filterStrideA: Sequence[int] | None,
        dilationA: Sequence[int] | None,
        mode: int,
        computeType: int,
        /,
    ) -> None:
        before = self._object(convDesc, Convolution, "convDesc")
        if mode not in (0, 1):
            raise refuse(f"mode is {mode}: expected CUDNN_CONVOLUTION or CUDNN_CROSS_CORRELATION")
        if computeType not in _COMPUTE_TYPES:
            raise refuse(f"{computeType} is no type that sums can be in")
        if arrayLength < 0:
            raise refuse(f"arrayLength is {arrayLength}")
        _require_dims(arrayLength, _MAX_SPATIAL)
        padding = _items("padA", padA, arrayLength)
        if min(padding, default=0) < 0:
            raise refuse(f"padA is {padding}: it cannot be negative")
        strides = _items("filterStrideA", filterStrideA, arrayLength)
        _require_positive("filterStrideA", strides)
        dilation = _items("dilationA", dilationA, arrayLength)
        _require_positive("dilationA", dilation)
        self._objects[convDesc] = Convolution(
            padding, strides, dilation, mode, computeType, before.math_type, before.groups
        )

    @call
    def cudnnSetConvolutionMathType(self, convDesc: int, value: int, /) -> None:
        before = self._object(convDesc, Convolution, "convDesc")
        if value not in tuple(cudnnMathType_t):
            raise refuse(f"{value} is no math type")
        self._objects[convDesc] = replace(before, math_type=value)

    @call
    def cudnnSetConvolutionGroupCount(self, convDesc: int, value: int, /) -> None:
        before = self._object(convDesc, Convolution, "convDesc")
        if value < 1:
            raise refuse(f"the number of groups is {value}")
        self._objects[convDesc] = replace(before, groups=value)

    @call
    def cudnnDestroyConvolutionDescriptor(self, described: int, /) -> None:
        self._destroy(described, Convolution)

    # For the functions that compute

    def _handle(self, handle: int) -> Handle:
        state = self._handles.get(handle)
        if state is None:
            raise refuse(f"{handle:#x} is no cuDNN handle, or was destroyed")
        return state

    def _object(self, number: int, category: type[_Described], name: str) -> _Described:
        described = self._objects.get(number)
        if not isinstance(described, category):
            raise refuse(f"{name} {number:#x} is no descriptor of a {_NAMES[category]}, or was destroyed")
        return described

    def _create(self, empty: Described) -> int:
        number = next(self._numbers)
        self._objects[number] = empty
        return number

    def _destroy(self, number: int, category: type[_Described]) -> None:
        if number:
            self._object(number, category, "the descriptor")
            del self._objects[number]


_NAMES: dict[type, str] = {Tensor: "tensor", Filters: "filter", Convolution: "convolution"}


def _items(name: str, values: Sequence[int] | None, count: int) -> tuple[int, ...]:
    if values is None:
        raise refuse(f"{name} is null")
    if len(values) < count:
        raise refuse(f"{name} has {len(values)} items, and {count} are read")
    return tuple(values[:count])


def _require_positive(name: str, values: tuple[int, ...]) -> None:
    if min(values, default=1) < 1:
        raise refuse(f"{name} is {values}: each must be at least 1")


def _require_dims(count: int, most: int) -> None:
    if count > most:
        raise Refusal(NOT_SUPPORTED, f"{count} dimensions: at most {most} are supported")


def nbytes(described: Tensor | Filters, itemsize: int) -> int:
    """Bytes of the elements."""
    return prod(described.shape) * itemsize

"""Convolutions by the algorithms of cuDNN: handles of threads, descriptions of operands, and calls.

It is imported where cuDNN is used: :mod:`.through_cudnn` says where.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any

import drv
from drv.bindings.cublas import HostScalar
from drv.bindings.cudnn import AlgorithmPerformance
from drv.bindings.cudnn import cudnnConvolutionMode_t as Mode
from drv.bindings.cudnn import cudnnDataType_t as Type
from drv.bindings.cudnn import cudnnDeterminism_t as Determinism
from drv.bindings.cudnn import cudnnMathType_t as Math
from drv.bindings.cudnn import cudnnTensorFormat_t as Format
from drv.bindings.library_types import cudaDataType
from nvrtc_kernels.layouts import contiguous_strides
from tensor.core.devices.leases import handle_for
from tensor.core.memory_format import contiguous_format

from .convolution_on_device import Work, bias_onto
from .through_cudnn import library_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nvrtc_kernels.convolution import Geometry
    from tensor.core.devices.state import CudaState
    from tensor.core.devices.stream import Stream
    from tensor.core.layout import Layout
    from tensor.core.memory_format import memory_format

#: Types of elements, of sums, and of the factors of results.
_TYPES = {
    "float16": (Type.CUDNN_DATA_HALF, Type.CUDNN_DATA_FLOAT, cudaDataType.CUDA_R_32F),
    "bfloat16": (Type.CUDNN_DATA_BFLOAT16, Type.CUDNN_DATA_FLOAT, cudaDataType.CUDA_R_32F),
    "float32": (Type.CUDNN_DATA_FLOAT, Type.CUDNN_DATA_FLOAT, cudaDataType.CUDA_R_32F),
    "float64": (Type.CUDNN_DATA_DOUBLE, Type.CUDNN_DATA_DOUBLE, cudaDataType.CUDA_R_64F),
}
#: For a direction the function that computes it and the one that names algorithms, and whether the operands are the other way round
#: there.
_FUNCTIONS = {
    "forward": ("cudnnConvolutionForward", "cudnnGetConvolutionForwardAlgorithm_v7", False),
    "input": ("cudnnConvolutionBackwardData", "cudnnGetConvolutionBackwardDataAlgorithm_v7", True),
    "weight": ("cudnnConvolutionBackwardFilter", "cudnnGetConvolutionBackwardFilterAlgorithm_v7", False),
}
#: Bytes of a workspace at most: algorithms that need more are not taken.
WORKSPACE = 1 << 30
#: How many algorithms are asked for; there are 8 for the direction that has most.
_MOST = 16


class _Handle:
    """A cuDNN handle of one thread and device."""

    __slots__ = ("device_state", "handle", "library", "stream")

    def __init__(self, device_state: CudaState) -> None:
        self.device_state = device_state
        self.library: Any = library_of(device_state.runtime)
        device_state.native.use()
        self.handle: int = self.library.cudnnCreate()
        self.stream: Stream | None = None

    def use(self, stream: Stream) -> None:
        """Queue what follows on ``stream``."""
        self.device_state.native.use()
        if self.stream is stream:
            return
        # If the call fails, the handle is no longer set to the stream that it was set to before.
        self.stream = None
        self.library.cudnnSetStream(self.handle, int(stream.handle))
        self.stream = stream


def _handle_for(device_state: CudaState) -> _Handle:
    """The handle of this thread, set to its current stream on the device."""
    handle: _Handle = handle_for(device_state, "cudnn", _Handle)
    return handle


class _Described:
    """A convolution and its operands as cuDNN knows them: objects of the library's, which go with this one."""

    __slots__ = ("_library", "convolution", "image", "result", "weight")

    def __init__(self, library: Any, geometry: Geometry, dtype: str, channels_last: bool, math: int) -> None:
        self._library = library
        self.image = self.result = self.weight = self.convolution = 0
        windows = geometry.windows
        element, sums, _ = _TYPES[dtype]
        # Depth is left out where there is none: cuDNN has more algorithms for two dimensions.
        flat = windows.size[0] == windows.kernel[0] == windows.out[0] == 1
        spatial = slice(1, 3) if flat else slice(0, 3)

        def sizes(shape: Sequence[int]) -> tuple[int, ...]:
            return (*shape[:2], *shape[2:][spatial])

        rank = len(sizes(geometry.image))
        for name, shape in (("image", geometry.image), ("result", geometry.result)):
            shape = sizes(shape)
            setattr(self, name, library.cudnnCreateTensorDescriptor())
            library.cudnnSetTensorNdDescriptor(
                getattr(self, name), int(element), rank, shape, _strides(shape, channels_last)
            )
        self.weight = library.cudnnCreateFilterDescriptor()
        form = Format.CUDNN_TENSOR_NHWC if channels_last else Format.CUDNN_TENSOR_NCHW
        library.cudnnSetFilterNdDescriptor(self.weight, int(element), int(form), rank, sizes(geometry.weight))
        self.convolution = library.cudnnCreateConvolutionDescriptor()
        library.cudnnSetConvolutionNdDescriptor(
            self.convolution,
            rank - 2,
            windows.padding[spatial],
            windows.stride[spatial],
            windows.dilation[spatial],
            int(Mode.CUDNN_CROSS_CORRELATION),
            int(sums),
        )
        library.cudnnSetConvolutionMathType(self.convolution, math)
        if geometry.groups > 1:
            library.cudnnSetConvolutionGroupCount(self.convolution, geometry.groups)

    def operands(self, name: str) -> tuple[int, int, int]:
        """Descriptions of what a direction's function of the library takes, in its order, and of what it makes."""
        return {
            "forward": (self.image, self.weight, self.result),
            "input": (self.weight, self.result, self.image),
            "weight": (self.image, self.result, self.weight),
        }[name]

    def __del__(self) -> None:
        library = self._library
        for each in (self.image, self.result):
            if each:
                library.cudnnDestroyTensorDescriptor(each)
        if self.weight:
            library.cudnnDestroyFilterDescriptor(self.weight)
        if self.convolution:
            library.cudnnDestroyConvolutionDescriptor(self.convolution)


def _strides(shape: tuple[int, ...], channels_last: bool) -> tuple[int, ...]:
    if not channels_last:
        return contiguous_strides(shape)
    items, channels, *spatial = shape
    item, *steps, channel = contiguous_strides((items, *spatial, channels))
    return (item, channel, *steps)


def works(
    name: str,
    geometry: Geometry,
    out: Layout,
    bias: Layout | None,
    form: memory_format,
    *,
    exact: bool,
    deterministic: bool,
) -> list[Work]:
    """What computes a direction that :func:`takes` accepts, for addresses of operands in the format ``form``.

    The algorithm that cuDNN expects to be the quickest comes first; there is none where it has no algorithm for this.

    Parameters
    ----------
    exact
        Whether float32 is not to be rounded to TF32.
    deterministic
        Whether only what gives the same bits in every run is asked for.
    """
    device_state: Any = out.device_state
    dtype = out.dtype.name
    library = library_of(device_state.runtime)
    channels_last = form is not contiguous_format
    usual = Math.CUDNN_TENSOR_OP_MATH if out.dtype.itemsize == 2 else Math.CUDNN_DEFAULT_MATH
    asked = int(Math.CUDNN_FMA_MATH if exact else usual)

    # Algorithms may be for different math types, which are properties of convolutions.
    @cache
    def described(math: int) -> _Described:
        return _Described(library, geometry, dtype, channels_last, math)

    shape = geometry.image if name == "input" else geometry.result
    add = bias_onto(device_state, out.dtype, shape, None if bias is None else bias.strides[0], channels_last)
    result = []
    for each in _algorithms(device_state, name, described(asked)):
        repeats = each.determinism == Determinism.CUDNN_DETERMINISTIC
        if each.status == 0 and each.memory <= WORKSPACE and (repeats or not deterministic):
            operands = described(asked if exact else each.mathType)
            run = _convolve(device_state, name, operands, dtype, each.algo, each.memory, add)
            result.append(Work(run, each.memory))
    return result


def _algorithms(device_state: CudaState, name: str, described: _Described) -> Sequence[AlgorithmPerformance]:
    """What cuDNN knows for a direction, the quickest first."""
    cudnn = _handle_for(device_state)
    results = (AlgorithmPerformance * _MOST)()
    first, second, out = described.operands(name)
    ask = getattr(cudnn.library, _FUNCTIONS[name][1])
    try:
        number = ask(
            cudnn.handle, first, second, described.convolution, out, _MOST, ctypes.addressof(results)
        )
    except drv.NotSupportedError:
        return ()
    return results[:number]


def _convolve(
    device_state: CudaState,
    name: str,
    described: _Described,
    dtype: str,
    algorithm: int,
    size: int,
    add: Callable[..., None] | None,
) -> Callable[..., None]:
    """``run(stream, scratch, out, first, second, bias)`` for addresses, by an algorithm that needs ``size`` bytes of scratch memory."""
    local, native, current = device_state.local, device_state.native, device_state.runtime.current
    function, _, weight_first = _FUNCTIONS[name]
    compute = getattr(library_of(device_state.runtime), function)
    left, right, target = described.operands(name)
    scalar = _TYPES[dtype][2]
    one, zero = HostScalar(scalar, 1), HostScalar(scalar, 0)

    def run(stream: Any, scratch: int, out: int, first: int, second: int, bias: int) -> None:
        cudnn = local.cudnn
        if cudnn is None or cudnn.stream is not local.stream or current.device is not native:
            cudnn = _handle_for(device_state)
        if weight_first:
            first, second = second, first
        compute(
            cudnn.handle, one.address, left, first, right, second, described.convolution, algorithm, scratch, size,
            zero.address, target, out,
        )  # fmt: skip
        if add is not None:
            add(stream, out, out, bias)

    return run

"""cuDNN 9, as far as this project uses it: convolutions, by the functions that need no graph of operations.

Operands are described by objects: tensors by sizes and strides, filters by sizes and a format, a convolution by padding, strides
and dilation. An algorithm is asked for once for what these describe, and used for every convolution like that. All compute
``alpha * (...) + beta * out``, with ``alpha`` and ``beta`` in host memory, float64 for float64 operands and float32 for others.
NVIDIA calls these functions deprecated since version 9, which has them all.
"""

import ctypes
from enum import IntEnum
from typing import Annotated, ClassVar, Protocol

from drv.errors import CudaError, InvalidHandleError, InvalidValueError, NotSupportedError, OutOfMemoryError

from . import prototypes
from .prototypes import Address, Int, Ints, Output, Size

# ruff: noqa: N801, N803, N815, A002 - the names are C's


class cudnnStatus_t(IntEnum):
    """What a call answers; thousands say of what kind it is."""

    CUDNN_STATUS_SUCCESS = 0
    CUDNN_STATUS_NOT_INITIALIZED = 1001
    CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH = 1002
    CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH = 1003
    CUDNN_STATUS_DEPRECATED = 1004
    CUDNN_STATUS_LICENSE_ERROR = 1005
    CUDNN_STATUS_RUNTIME_IN_PROGRESS = 1006
    CUDNN_STATUS_RUNTIME_FP_OVERFLOW = 1007
    CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED = 1008
    CUDNN_STATUS_BAD_PARAM = 2000
    CUDNN_STATUS_BAD_PARAM_NULL_POINTER = 2002
    CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER = 2003
    CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED = 2004
    CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND = 2005
    CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT = 2006
    CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH = 2007
    CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH = 2008
    CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES = 2009
    CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE = 2010
    CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH = 2011
    CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE = 2012
    CUDNN_STATUS_NOT_SUPPORTED = 3000
    CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN = 3001
    CUDNN_STATUS_NOT_SUPPORTED_SHAPE = 3002
    CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE = 3003
    CUDNN_STATUS_NOT_SUPPORTED_LAYOUT = 3004
    CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER = 3005
    CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDART = 3006
    CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH = 3007
    CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING = 3008
    CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE = 3009
    CUDNN_STATUS_NOT_SUPPORTED_SHARED_MEMORY_INSUFFICIENT = 3010
    CUDNN_STATUS_NOT_SUPPORTED_PADDING = 3011
    CUDNN_STATUS_NOT_SUPPORTED_BAD_LAUNCH_PARAM = 3012
    CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API = 3013
    CUDNN_STATUS_NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE = 3014
    CUDNN_STATUS_INTERNAL_ERROR = 4000
    CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED = 4001
    CUDNN_STATUS_INTERNAL_ERROR_UNEXPECTED_VALUE = 4002
    CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED = 4003
    CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED = 4004
    CUDNN_STATUS_INTERNAL_ERROR_BAD_LAUNCH_PARAM = 4005
    CUDNN_STATUS_INTERNAL_ERROR_TEXTURE_CREATION_FAILED = 4006
    CUDNN_STATUS_EXECUTION_FAILED = 5000
    CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER = 5001
    CUDNN_STATUS_EXECUTION_FAILED_CUBLAS = 5002
    CUDNN_STATUS_EXECUTION_FAILED_CUDART = 5003
    CUDNN_STATUS_EXECUTION_FAILED_CURAND = 5004


class cudnnDataType_t(IntEnum):
    """Types of elements, and of what sums are kept in."""

    CUDNN_DATA_FLOAT = 0
    CUDNN_DATA_DOUBLE = 1
    CUDNN_DATA_HALF = 2
    CUDNN_DATA_BFLOAT16 = 9


class cudnnTensorFormat_t(IntEnum):
    """Order of a filter's dimensions in memory."""

    CUDNN_TENSOR_NCHW = 0
    CUDNN_TENSOR_NHWC = 1


class cudnnMathType_t(IntEnum):
    """What a convolution may be computed with; TF32 is allowed for float32 by all but the last."""

    CUDNN_DEFAULT_MATH = 0
    CUDNN_TENSOR_OP_MATH = 1
    CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION = 2
    CUDNN_FMA_MATH = 3


class cudnnConvolutionMode_t(IntEnum):
    """Whether filters are flipped (a convolution) or not."""

    CUDNN_CONVOLUTION = 0
    CUDNN_CROSS_CORRELATION = 1


class cudnnDeterminism_t(IntEnum):
    """Whether an algorithm computes the same bits each time."""

    CUDNN_NON_DETERMINISTIC = 0
    CUDNN_DETERMINISTIC = 1


class cudnnConvolutionFwdAlgo_t(IntEnum):
    """Algorithms of ``cudnnConvolutionForward``."""

    CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM = 0
    CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM = 1
    CUDNN_CONVOLUTION_FWD_ALGO_GEMM = 2
    CUDNN_CONVOLUTION_FWD_ALGO_DIRECT = 3
    CUDNN_CONVOLUTION_FWD_ALGO_FFT = 4
    CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING = 5
    CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD = 6
    CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED = 7


class cudnnConvolutionBwdDataAlgo_t(IntEnum):
    """Algorithms of ``cudnnConvolutionBackwardData``; 0 adds up in any order."""

    CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 = 0
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 = 1
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT = 2
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING = 3
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD = 4
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED = 5


class cudnnConvolutionBwdFilterAlgo_t(IntEnum):
    """Algorithms of ``cudnnConvolutionBackwardFilter``; 0 and 3 add up in any order."""

    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 = 0
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 = 1
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT = 2
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3 = 3
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD = 4
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED = 5
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING = 6


class AlgorithmPerformance(ctypes.Structure):
    """``cudnnConvolutionFwdAlgoPerf_t`` and the two like it: an algorithm, and what is known of it.

    ``time`` is in milliseconds, -1 where it was not measured; ``memory`` is the bytes of workspace that it needs.
    """

    _fields_: ClassVar = [
        ("algo", ctypes.c_int),
        ("status", ctypes.c_int),
        ("time", ctypes.c_float),
        ("memory", ctypes.c_size_t),
        ("determinism", ctypes.c_int),
        ("mathType", ctypes.c_int),
        ("reserved", ctypes.c_int * 3),
    ]


class GetVersion(Protocol):
    """Version of the library: ``major * 10000 + minor * 100 + patch``. Returns no status."""

    def __call__(self, /) -> Annotated[int, ctypes.c_size_t]: ...


class ErrorString(Protocol):
    """Text of a status."""

    def __call__(self, status: Int, /) -> Annotated[bytes, ctypes.c_char_p]: ...


class Create(Protocol):
    """Make a handle for the current context, or an empty description."""

    def __call__(self, /) -> Annotated[int, Output(ctypes.c_size_t, 0)]: ...


class Destroy(Protocol):
    """Destroy a handle or a description."""

    def __call__(self, described: Address, /) -> None: ...


class SetStream(Protocol):
    """Queue what follows on a stream."""

    def __call__(self, handle: Address, streamId: Address, /) -> None: ...


class SetTensor(Protocol):
    """Describe a tensor of 4 or 5 dimensions: items, channels, and the spatial ones. Strides are in elements."""

    def __call__(
        self, tensorDesc: Address, dataType: Int, nbDims: Int, dimA: Ints, strideA: Ints, /
    ) -> None: ...


class SetFilter(Protocol):
    """Describe filters, packed in the order of ``format``. Sizes are of filters, channels of a group, and the spatial ones."""

    def __call__(
        self, filterDesc: Address, dataType: Int, format: Int, nbDims: Int, filterDimA: Ints, /
    ) -> None: ...


class SetConvolution(Protocol):
    """Describe a convolution of ``arrayLength`` spatial dimensions, with sums in ``computeType``."""

    def __call__(
        self,
        convDesc: Address,
        arrayLength: Int,
        padA: Ints,
        filterStrideA: Ints,
        dilationA: Ints,
        mode: Int,
        computeType: Int,
        /,
    ) -> None: ...


class SetInt(Protocol):
    """Set the math type, or the number of groups, of a convolution."""

    def __call__(self, convDesc: Address, value: Int, /) -> None: ...


class GetAlgorithms(Protocol):
    """Write up to ``requestedAlgoCount`` :class:`AlgorithmPerformance`, the quickest first; returns how many there are.

    Nothing is run for it. Descriptions are in the order of the function that computes.
    """

    def __call__(
        self,
        handle: Address,
        firstDesc: Address,
        secondDesc: Address,
        convDesc: Address,
        outDesc: Address,
        requestedAlgoCount: Int,
        perfResults: Address,
        /,
    ) -> Annotated[int, Output(ctypes.c_int, 6)]: ...


class GetWorkspaceSize(Protocol):
    """Bytes of workspace that an algorithm needs."""

    def __call__(
        self,
        handle: Address,
        firstDesc: Address,
        secondDesc: Address,
        convDesc: Address,
        outDesc: Address,
        algo: Int,
        /,
    ) -> Annotated[int, Output(ctypes.c_size_t, 6)]: ...


class Convolve(Protocol):
    """Queue ``out = alpha * (...) + beta * out``.

    The operands are image and filters (forward), filters and the result's gradient (backward data), or image and the result's
    gradient (backward filter).
    """

    def __call__(
        self,
        handle: Address,
        alpha: Address,
        firstDesc: Address,
        first: Address,
        secondDesc: Address,
        second: Address,
        convDesc: Address,
        algo: Int,
        workSpace: Address,
        workSpaceSizeInBytes: Size,
        beta: Address,
        outDesc: Address,
        out: Address,
        /,
    ) -> None: ...


class Cudnn(Protocol):
    """Functions of cuDNN, NVIDIA's or the simulated one."""

    cudnnGetVersion: GetVersion
    cudnnGetErrorString: ErrorString
    cudnnCreate: Create
    cudnnDestroy: Destroy
    cudnnSetStream: SetStream
    cudnnCreateTensorDescriptor: Create
    cudnnSetTensorNdDescriptor: SetTensor
    cudnnDestroyTensorDescriptor: Destroy
    cudnnCreateFilterDescriptor: Create
    cudnnSetFilterNdDescriptor: SetFilter
    cudnnDestroyFilterDescriptor: Destroy
    cudnnCreateConvolutionDescriptor: Create
    cudnnSetConvolutionNdDescriptor: SetConvolution
    cudnnSetConvolutionMathType: SetInt
    cudnnSetConvolutionGroupCount: SetInt
    cudnnDestroyConvolutionDescriptor: Destroy
    cudnnGetConvolutionForwardAlgorithm_v7: GetAlgorithms
    cudnnGetConvolutionBackwardDataAlgorithm_v7: GetAlgorithms
    cudnnGetConvolutionBackwardFilterAlgorithm_v7: GetAlgorithms
    cudnnGetConvolutionForwardWorkspaceSize: GetWorkspaceSize
    cudnnGetConvolutionBackwardDataWorkspaceSize: GetWorkspaceSize
    cudnnGetConvolutionBackwardFilterWorkspaceSize: GetWorkspaceSize
    cudnnConvolutionForward: Convolve
    cudnnConvolutionBackwardData: Convolve
    cudnnConvolutionBackwardFilter: Convolve


def bind(library: ctypes.CDLL) -> Cudnn:
    """The functions of :class:`Cudnn` in NVIDIA's library."""
    bound: Cudnn = prototypes.bind(Cudnn, library, failure, extra="cudnn")
    return bound


#: What statuses of a thousand have in common, and the exception for them.
_OF_THOUSANDS: dict[int, tuple[str, type[CudaError]]] = {
    1: ("the library or the handle is not ready", InvalidHandleError),
    2: ("a parameter is invalid", InvalidValueError),
    3: ("not supported for these parameters", NotSupportedError),
    4: ("an internal operation failed", CudaError),
    5: ("the work could not be queued on the device", CudaError),
}
_OUT_OF_MEMORY = (
    cudnnStatus_t.CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED,
    cudnnStatus_t.CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
)


def failure(status: int, call: str, detail: str = "") -> CudaError:
    """Exception for a status of ``call``; ``detail`` says more where more is known."""
    try:
        name = cudnnStatus_t(status).name
    except ValueError:
        name = f"cudnnStatus_t {status}"
    text, error = _OF_THOUSANDS.get(status // 1000, ("unknown status", CudaError))
    if status in _OUT_OF_MEMORY:
        text, error = "memory could not be allocated", OutOfMemoryError
    return error(f"{call} failed: {name}: {detail or text}", status=name, call=call)

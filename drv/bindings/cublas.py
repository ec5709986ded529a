"""cuBLAS: its enums, the functions that this project uses, and what its statuses become.

Matrices are column-major: element ``(i, j)`` is ``i + j * ld`` elements after the first. Addresses are of device
memory; ``alpha``, ``beta`` and ``result`` are addresses of host memory (see :class:`HostScalar`), or of device
memory in device pointer mode. Sizes are 64-bit: each function that has sizes is bound to its ``_64`` form. Every
function queues its work on the handle's stream and raises a :class:`drv.CudaError` for a status other than success.
"""

import ctypes
import struct
from enum import IntEnum
from typing import Annotated, Protocol, TypeAlias

from drv.errors import CudaError, InvalidHandleError, InvalidValueError, NotSupportedError, OutOfMemoryError

from . import prototypes
from .library_types import cudaDataType
from .prototypes import Address, Int, Long, Output, Size, Text

# ruff: noqa: N801, N803, N815 - the names are C's


class cublasStatus_t(IntEnum):
    """What a call answers."""

    CUBLAS_STATUS_SUCCESS = 0
    CUBLAS_STATUS_NOT_INITIALIZED = 1
    CUBLAS_STATUS_ALLOC_FAILED = 3
    CUBLAS_STATUS_INVALID_VALUE = 7
    CUBLAS_STATUS_ARCH_MISMATCH = 8
    CUBLAS_STATUS_MAPPING_ERROR = 11
    CUBLAS_STATUS_EXECUTION_FAILED = 13
    CUBLAS_STATUS_INTERNAL_ERROR = 14
    CUBLAS_STATUS_NOT_SUPPORTED = 15
    CUBLAS_STATUS_LICENSE_ERROR = 16


class cublasOperation_t(IntEnum):
    """What is done to a matrix before it is used: nothing, transposition, conjugate transposition."""

    CUBLAS_OP_N = 0
    CUBLAS_OP_T = 1
    CUBLAS_OP_C = 2


class cublasFillMode_t(IntEnum):
    """The triangle of a matrix that holds its elements."""

    CUBLAS_FILL_MODE_LOWER = 0
    CUBLAS_FILL_MODE_UPPER = 1


class cublasDiagType_t(IntEnum):
    """Whether the diagonal is stored, or is all ones and never read."""

    CUBLAS_DIAG_NON_UNIT = 0
    CUBLAS_DIAG_UNIT = 1


class cublasSideMode_t(IntEnum):
    """The side on which a matrix stands in a product."""

    CUBLAS_SIDE_LEFT = 0
    CUBLAS_SIDE_RIGHT = 1


class cublasPointerMode_t(IntEnum):
    """Where ``alpha``, ``beta`` and ``result`` are."""

    CUBLAS_POINTER_MODE_HOST = 0
    CUBLAS_POINTER_MODE_DEVICE = 1


class cublasAtomicsMode_t(IntEnum):
    """Whether routines may use atomics, whose results vary from run to run."""

    CUBLAS_ATOMICS_NOT_ALLOWED = 0
    CUBLAS_ATOMICS_ALLOWED = 1


class cublasGemmAlgo_t(IntEnum):
    """How a product is computed. Since Ampere every value means the default."""

    CUBLAS_GEMM_DEFAULT = -1
    CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99


class cublasMath_t(IntEnum):
    """Which shortcuts products may take. The last is a flag, added to one of the others."""

    CUBLAS_DEFAULT_MATH = 0
    CUBLAS_PEDANTIC_MATH = 2
    CUBLAS_TF32_TENSOR_OP_MATH = 3
    CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16


class cublasComputeType_t(IntEnum):
    """The type in which a product is accumulated, and what its inputs may be rounded to."""

    CUBLAS_COMPUTE_16F = 64
    CUBLAS_COMPUTE_16F_PEDANTIC = 65
    CUBLAS_COMPUTE_32F = 68
    CUBLAS_COMPUTE_32F_PEDANTIC = 69
    CUBLAS_COMPUTE_64F = 70
    CUBLAS_COMPUTE_64F_PEDANTIC = 71
    CUBLAS_COMPUTE_32I = 72
    CUBLAS_COMPUTE_32I_PEDANTIC = 73
    CUBLAS_COMPUTE_32F_FAST_16F = 74
    CUBLAS_COMPUTE_32F_FAST_16BF = 75
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77


# Handles and settings


class Create(Protocol):
    """Make a handle for the current context. It is for one thread at a time."""

    def __call__(self, /) -> Annotated[int, Output(ctypes.c_size_t, 0)]: ...


class Handle(Protocol):
    """Destroy a handle."""

    def __call__(self, handle: Address, /) -> None: ...


class GetNumber(Protocol):
    """Read a setting, or the version: ``major * 10000 + minor * 100 + patch``."""

    def __call__(self, handle: Address, /) -> Annotated[int, Output(ctypes.c_int, 1)]: ...


class SetNumber(Protocol):
    """Change a setting (a value of its enum) for the calls that follow."""

    def __call__(self, handle: Address, mode: Int, /) -> None: ...


class SetStream(Protocol):
    """Queue what follows on a stream, and go back to cuBLAS' own workspace."""

    def __call__(self, handle: Address, streamId: Address, /) -> None: ...


class GetStream(Protocol):
    """The stream that calls are queued on."""

    def __call__(self, handle: Address, /) -> Annotated[int, Output(ctypes.c_size_t, 1)]: ...


class SetWorkspace(Protocol):
    """Use device memory of the caller's, aligned to 256 bytes, for intermediate results."""

    def __call__(self, handle: Address, workspace: Address, workspaceSizeInBytes: Size, /) -> None: ...


class StatusText(Protocol):
    """Name of a status, or what it means."""

    def __call__(self, status: Int, /) -> Text: ...


# Vectors


class Dot(Protocol):
    """``result = sum(x * y)`` over ``n`` elements; the ``c`` forms conjugate ``x``."""

    def __call__(
        self, handle: Address, n: Long, x: Address, incx: Long, y: Address, incy: Long, result: Address, /
    ) -> None: ...


class DotEx(Protocol):
    """As :class:`Dot`, with the types of everything given."""

    def __call__(
        self,
        handle: Address,
        n: Long,
        x: Address,
        xType: Int,
        incx: Long,
        y: Address,
        yType: Int,
        incy: Long,
        result: Address,
        resultType: Int,
        executionType: Int,
        /,
    ) -> None: ...


class Nrm2(Protocol):
    """``result = sqrt(sum(abs(x) ** 2))``, a real number."""

    def __call__(self, handle: Address, n: Long, x: Address, incx: Long, result: Address, /) -> None: ...


class Nrm2Ex(Protocol):
    """As :class:`Nrm2`, with the types of everything given."""

    def __call__(
        self,
        handle: Address,
        n: Long,
        x: Address,
        xType: Int,
        incx: Long,
        result: Address,
        resultType: Int,
        executionType: Int,
        /,
    ) -> None: ...


class AxpyEx(Protocol):
    """``y += alpha * x``."""

    def __call__(
        self,
        handle: Address,
        n: Long,
        alpha: Address,
        alphaType: Int,
        x: Address,
        xType: Int,
        incx: Long,
        y: Address,
        yType: Int,
        incy: Long,
        executionType: Int,
        /,
    ) -> None: ...


class ScalEx(Protocol):
    """``x *= alpha``."""

    def __call__(
        self,
        handle: Address,
        n: Long,
        alpha: Address,
        alphaType: Int,
        x: Address,
        xType: Int,
        incx: Long,
        executionType: Int,
        /,
    ) -> None: ...


# Matrices


class Gemv(Protocol):
    """``y = alpha * op(A) @ x + beta * y``; ``A`` is ``(m, n)``. ``y`` is not read when ``beta`` is 0."""

    def __call__(
        self,
        handle: Address,
        trans: Int,
        m: Long,
        n: Long,
        alpha: Address,
        A: Address,
        lda: Long,
        x: Address,
        incx: Long,
        beta: Address,
        y: Address,
        incy: Long,
        /,
    ) -> None: ...


class Gemm(Protocol):
    """``C = alpha * op(A) @ op(B) + beta * C``; ``op(A)`` is ``(m, k)``, ``op(B)`` ``(k, n)``, ``C`` ``(m, n)``.

    ``C`` is not read when ``beta`` is 0.
    """

    def __call__(
        self,
        handle: Address,
        transa: Int,
        transb: Int,
        m: Long,
        n: Long,
        k: Long,
        alpha: Address,
        A: Address,
        lda: Long,
        B: Address,
        ldb: Long,
        beta: Address,
        C: Address,
        ldc: Long,
        /,
    ) -> None: ...


class GemmStridedBatched(Protocol):
    """As :class:`Gemm`, ``batchCount`` times; matrices begin ``stride`` elements apart (0: the same one)."""

    def __call__(
        self,
        handle: Address,
        transa: Int,
        transb: Int,
        m: Long,
        n: Long,
        k: Long,
        alpha: Address,
        A: Address,
        lda: Long,
        strideA: Long,
        B: Address,
        ldb: Long,
        strideB: Long,
        beta: Address,
        C: Address,
        ldc: Long,
        strideC: Long,
        batchCount: Long,
        /,
    ) -> None: ...


class GemmEx(Protocol):
    """As :class:`Gemm`, with the types of the matrices and of the accumulation given.

    ``alpha`` and ``beta`` are float16 for ``COMPUTE_16F``, int32 for ``COMPUTE_32I``, and otherwise of the
    accumulation's type, complex when ``A`` is.
    """

    def __call__(
        self,
        handle: Address,
        transa: Int,
        transb: Int,
        m: Long,
        n: Long,
        k: Long,
        alpha: Address,
        A: Address,
        Atype: Int,
        lda: Long,
        B: Address,
        Btype: Int,
        ldb: Long,
        beta: Address,
        C: Address,
        Ctype: Int,
        ldc: Long,
        computeType: Int,
        algo: Int,
        /,
    ) -> None: ...


class GemmBatchedEx(Protocol):
    """As :class:`GemmEx`, ``batchCount`` times; the addresses of the matrices are in arrays in device memory."""

    def __call__(
        self,
        handle: Address,
        transa: Int,
        transb: Int,
        m: Long,
        n: Long,
        k: Long,
        alpha: Address,
        Aarray: Address,
        Atype: Int,
        lda: Long,
        Barray: Address,
        Btype: Int,
        ldb: Long,
        beta: Address,
        Carray: Address,
        Ctype: Int,
        ldc: Long,
        batchCount: Long,
        computeType: Int,
        algo: Int,
        /,
    ) -> None: ...


class GemmStridedBatchedEx(Protocol):
    """:class:`GemmStridedBatched` with the types given, as in :class:`GemmEx`."""

    def __call__(
        self,
        handle: Address,
        transa: Int,
        transb: Int,
        m: Long,
        n: Long,
        k: Long,
        alpha: Address,
        A: Address,
        Atype: Int,
        lda: Long,
        strideA: Long,
        B: Address,
        Btype: Int,
        ldb: Long,
        strideB: Long,
        beta: Address,
        C: Address,
        Ctype: Int,
        ldc: Long,
        strideC: Long,
        batchCount: Long,
        computeType: Int,
        algo: Int,
        /,
    ) -> None: ...


class Geam(Protocol):
    """``C = alpha * op(A) + beta * op(B)``, all ``(m, n)``. ``C`` may be ``A`` or ``B`` where that is not transposed."""

    def __call__(
        self,
        handle: Address,
        transa: Int,
        transb: Int,
        m: Long,
        n: Long,
        alpha: Address,
        A: Address,
        lda: Long,
        beta: Address,
        B: Address,
        ldb: Long,
        C: Address,
        ldc: Long,
        /,
    ) -> None: ...


class Trsm(Protocol):
    """Solve ``op(A) @ X = alpha * B`` (or ``X @ op(A)``, on the right) for ``X``, which overwrites ``B`` ``(m, n)``.

    ``A`` is triangular; the other triangle is not read.
    """

    def __call__(
        self,
        handle: Address,
        side: Int,
        uplo: Int,
        trans: Int,
        diag: Int,
        m: Long,
        n: Long,
        alpha: Address,
        A: Address,
        lda: Long,
        B: Address,
        ldb: Long,
        /,
    ) -> None: ...


class TrsmBatched(Protocol):
    """As :class:`Trsm`, ``batchCount`` times; the addresses of the matrices are in arrays in device memory."""

    def __call__(
        self,
        handle: Address,
        side: Int,
        uplo: Int,
        trans: Int,
        diag: Int,
        m: Long,
        n: Long,
        alpha: Address,
        A: Address,
        lda: Long,
        B: Address,
        ldb: Long,
        batchCount: Long,
        /,
    ) -> None: ...


class Cublas(Protocol):
    """Functions of cuBLAS, NVIDIA's or the simulated one; each with its symbol in the library."""

    cublasCreate: Annotated[Create, "cublasCreate_v2"]
    cublasDestroy: Annotated[Handle, "cublasDestroy_v2"]
    cublasGetVersion: Annotated[GetNumber, "cublasGetVersion_v2"]
    cublasSetStream: Annotated[SetStream, "cublasSetStream_v2"]
    cublasGetStream: Annotated[GetStream, "cublasGetStream_v2"]
    cublasSetWorkspace: Annotated[SetWorkspace, "cublasSetWorkspace_v2"]
    cublasSetMathMode: SetNumber
    cublasGetMathMode: GetNumber
    cublasSetPointerMode: Annotated[SetNumber, "cublasSetPointerMode_v2"]
    cublasGetPointerMode: Annotated[GetNumber, "cublasGetPointerMode_v2"]
    cublasSetAtomicsMode: SetNumber
    cublasGetAtomicsMode: GetNumber
    cublasGetStatusName: StatusText
    cublasGetStatusString: StatusText

    cublasSdot: Annotated[Dot, "cublasSdot_v2_64"]
    cublasDdot: Annotated[Dot, "cublasDdot_v2_64"]
    cublasCdotu: Annotated[Dot, "cublasCdotu_v2_64"]
    cublasCdotc: Annotated[Dot, "cublasCdotc_v2_64"]
    cublasZdotu: Annotated[Dot, "cublasZdotu_v2_64"]
    cublasZdotc: Annotated[Dot, "cublasZdotc_v2_64"]
    cublasDotEx: Annotated[DotEx, "cublasDotEx_64"]
    cublasDotcEx: Annotated[DotEx, "cublasDotcEx_64"]
    cublasSnrm2: Annotated[Nrm2, "cublasSnrm2_v2_64"]
    cublasDnrm2: Annotated[Nrm2, "cublasDnrm2_v2_64"]
    cublasScnrm2: Annotated[Nrm2, "cublasScnrm2_v2_64"]
    cublasDznrm2: Annotated[Nrm2, "cublasDznrm2_v2_64"]
    cublasNrm2Ex: Annotated[Nrm2Ex, "cublasNrm2Ex_64"]
    cublasAxpyEx: Annotated[AxpyEx, "cublasAxpyEx_64"]
    cublasScalEx: Annotated[ScalEx, "cublasScalEx_64"]

    cublasSgemv: Annotated[Gemv, "cublasSgemv_v2_64"]
    cublasDgemv: Annotated[Gemv, "cublasDgemv_v2_64"]
    cublasCgemv: Annotated[Gemv, "cublasCgemv_v2_64"]
    cublasZgemv: Annotated[Gemv, "cublasZgemv_v2_64"]
    cublasSgemm: Annotated[Gemm, "cublasSgemm_v2_64"]
    cublasDgemm: Annotated[Gemm, "cublasDgemm_v2_64"]
    cublasCgemm: Annotated[Gemm, "cublasCgemm_v2_64"]
    cublasZgemm: Annotated[Gemm, "cublasZgemm_v2_64"]
    cublasSgemmStridedBatched: Annotated[GemmStridedBatched, "cublasSgemmStridedBatched_64"]
    cublasDgemmStridedBatched: Annotated[GemmStridedBatched, "cublasDgemmStridedBatched_64"]
    cublasCgemmStridedBatched: Annotated[GemmStridedBatched, "cublasCgemmStridedBatched_64"]
    cublasZgemmStridedBatched: Annotated[GemmStridedBatched, "cublasZgemmStridedBatched_64"]
    cublasGemmEx: Annotated[GemmEx, "cublasGemmEx_64"]
    cublasGemmBatchedEx: Annotated[GemmBatchedEx, "cublasGemmBatchedEx_64"]
    cublasGemmStridedBatchedEx: Annotated[GemmStridedBatchedEx, "cublasGemmStridedBatchedEx_64"]
    cublasSgeam: Annotated[Geam, "cublasSgeam_64"]
    cublasDgeam: Annotated[Geam, "cublasDgeam_64"]
    cublasCgeam: Annotated[Geam, "cublasCgeam_64"]
    cublasZgeam: Annotated[Geam, "cublasZgeam_64"]
    cublasStrsm: Annotated[Trsm, "cublasStrsm_v2_64"]
    cublasDtrsm: Annotated[Trsm, "cublasDtrsm_v2_64"]
    cublasCtrsm: Annotated[Trsm, "cublasCtrsm_v2_64"]
    cublasZtrsm: Annotated[Trsm, "cublasZtrsm_v2_64"]
    cublasStrsmBatched: Annotated[TrsmBatched, "cublasStrsmBatched_64"]
    cublasDtrsmBatched: Annotated[TrsmBatched, "cublasDtrsmBatched_64"]
    cublasCtrsmBatched: Annotated[TrsmBatched, "cublasCtrsmBatched_64"]
    cublasZtrsmBatched: Annotated[TrsmBatched, "cublasZtrsmBatched_64"]


def bind(library: ctypes.CDLL) -> Cublas:
    """The functions of :class:`Cublas` in NVIDIA's library."""
    bound: Cublas = prototypes.bind(Cublas, library, failure)
    return bound


STATUS_TEXT = {
    cublasStatus_t.CUBLAS_STATUS_SUCCESS: "success",
    cublasStatus_t.CUBLAS_STATUS_NOT_INITIALIZED: "the library was not initialized",
    cublasStatus_t.CUBLAS_STATUS_ALLOC_FAILED: "the resource allocation failed",
    cublasStatus_t.CUBLAS_STATUS_INVALID_VALUE: "an unsupported value or parameter was passed to the function",
    cublasStatus_t.CUBLAS_STATUS_ARCH_MISMATCH: "the function requires an architectural feature absent from the device",
    cublasStatus_t.CUBLAS_STATUS_MAPPING_ERROR: "an access to GPU memory space failed",
    cublasStatus_t.CUBLAS_STATUS_EXECUTION_FAILED: "the function failed to launch on the GPU",
    cublasStatus_t.CUBLAS_STATUS_INTERNAL_ERROR: "an internal operation failed",
    cublasStatus_t.CUBLAS_STATUS_NOT_SUPPORTED: "the requested functionality is not supported",
    cublasStatus_t.CUBLAS_STATUS_LICENSE_ERROR: "the license check failed",
}

_ERRORS: dict[int, type[CudaError]] = {
    cublasStatus_t.CUBLAS_STATUS_NOT_INITIALIZED: InvalidHandleError,
    cublasStatus_t.CUBLAS_STATUS_ALLOC_FAILED: OutOfMemoryError,
    cublasStatus_t.CUBLAS_STATUS_INVALID_VALUE: InvalidValueError,
    cublasStatus_t.CUBLAS_STATUS_ARCH_MISMATCH: NotSupportedError,
    cublasStatus_t.CUBLAS_STATUS_NOT_SUPPORTED: NotSupportedError,
}


def failure(status: int, call: str, detail: str = "") -> CudaError:
    """Exception for a status of ``call``; ``detail`` says more where more is known."""
    try:
        known = cublasStatus_t(status)
        name, text = known.name, STATUS_TEXT[known]
    except ValueError:
        name, text = f"cublasStatus_t {status}", "unknown status"
    message = f"{call} failed: {name}: {detail or text}"
    return _ERRORS.get(status, CudaError)(message, status=name, call=call)


_FORMATS = {
    cudaDataType.CUDA_R_16F: "e",
    cudaDataType.CUDA_R_32F: "f",
    cudaDataType.CUDA_R_64F: "d",
    cudaDataType.CUDA_C_32F: "ff",
    cudaDataType.CUDA_C_64F: "dd",
    cudaDataType.CUDA_R_32I: "i",
}

Scalar: TypeAlias = complex | float | int


class HostScalar:
    """A number in host memory in one of cuBLAS' types, for ``alpha``, ``beta`` and ``result``.

    ``address`` stays the same for the object's life, so it can be made once and set before each call. cuBLAS
    reads it during the call (host pointer mode), so it may be set again at once.

    Parameters
    ----------
    data_type : cudaDataType
        ``CUDA_R_16F``, ``CUDA_R_32F``, ``CUDA_R_64F``, ``CUDA_C_32F``, ``CUDA_C_64F`` or ``CUDA_R_32I``.
    value : complex, float or int
        What it holds at first.
    """

    __slots__ = ("_buffer", "_complex", "_struct", "address")

    def __init__(self, data_type: cudaDataType, value: Scalar = 0) -> None:
        code = _FORMATS.get(data_type)
        if code is None:
            raise InvalidValueError(
                f"no scalars of type {data_type!r}: expected {', '.join(t.name for t in _FORMATS)}"
            )
        self._struct = struct.Struct("=" + code)
        self._complex = len(code) == 2
        # cuBLAS reads complex numbers as aligned pairs, and ctypes aligns only what is declared so.
        self._buffer = (ctypes.c_longdouble * 1)()
        self.address = ctypes.addressof(self._buffer)
        self.value = value

    @property
    def value(self) -> Scalar:
        """The number, rounded to the type."""
        components = self._struct.unpack_from(self._buffer)
        return complex(*components) if self._complex else components[0]

    @value.setter
    def value(self, value: Scalar) -> None:
        if self._complex:
            self._struct.pack_into(self._buffer, 0, value.real, value.imag)
        else:
            self._struct.pack_into(self._buffer, 0, value)

    def __repr__(self) -> str:
        return f"HostScalar({self.value!r})"

"""cuFFT: its enums, the functions that this project uses, and what its results become.

A plan is a number. Its layouts are given in elements: element ``(x, y)`` of transform ``b`` is
``b * dist + (x * embed[1] + y) * stride`` elements after the first; ``None`` for ``inembed`` and ``onembed`` means
packed data. Transforms are not normalised. Every function raises a :class:`drv.CudaError` for a result other than success.
"""

import ctypes
from enum import IntEnum
from typing import Annotated, Protocol

from drv.errors import CudaError, InvalidHandleError, InvalidValueError, NotSupportedError, OutOfMemoryError

from . import prototypes
from .prototypes import Address, Int, Ints, Longs, Output

# ruff: noqa: N801, N803, N815, A002 - the names are C's


class cufftResult(IntEnum):
    """What a call answers."""

    CUFFT_SUCCESS = 0x0
    CUFFT_INVALID_PLAN = 0x1
    CUFFT_ALLOC_FAILED = 0x2
    CUFFT_INVALID_TYPE = 0x3
    CUFFT_INVALID_VALUE = 0x4
    CUFFT_INTERNAL_ERROR = 0x5
    CUFFT_EXEC_FAILED = 0x6
    CUFFT_SETUP_FAILED = 0x7
    CUFFT_INVALID_SIZE = 0x8
    CUFFT_UNALIGNED_DATA = 0x9
    CUFFT_INVALID_DEVICE = 0xB
    CUFFT_NO_WORKSPACE = 0xD
    CUFFT_NOT_IMPLEMENTED = 0xE
    CUFFT_NOT_SUPPORTED = 0x10
    CUFFT_MISSING_DEPENDENCY = 0x11
    CUFFT_NVRTC_FAILURE = 0x12
    CUFFT_NVJITLINK_FAILURE = 0x13
    CUFFT_NVSHMEM_FAILURE = 0x14


class cufftType(IntEnum):
    """Element types of a transform: real (R, D) or complex (C, Z), single or double."""

    CUFFT_C2C = 0x29
    CUFFT_R2C = 0x2A
    CUFFT_C2R = 0x2C
    CUFFT_Z2Z = 0x69
    CUFFT_D2Z = 0x6A
    CUFFT_Z2D = 0x6C


#: Directions: the sign of the exponent.
CUFFT_FORWARD = -1
CUFFT_INVERSE = 1

#: A plan that is none, which may be destroyed.
CUFFT_PLAN_NULL = -1


class Create(Protocol):
    """Make an empty plan in the current context, to be filled by one of the ``MakePlan`` functions."""

    def __call__(self, /) -> Annotated[int, Output(ctypes.c_int, 0)]: ...


class Plan(Protocol):
    """Destroy a plan, and the work area that it allocated itself."""

    def __call__(self, plan: Int, /) -> None: ...


class PlanMany(Protocol):
    """Make a plan for ``batch`` transforms of ``rank`` 1 to 3 and shape ``n``, work area included."""

    def __call__(
        self,
        rank: Int,
        n: Ints,
        inembed: Ints,
        istride: Int,
        idist: Int,
        onembed: Ints,
        ostride: Int,
        odist: Int,
        type: Int,
        batch: Int,
        /,
    ) -> Annotated[int, Output(ctypes.c_int, 0)]: ...


class MakePlanMany(Protocol):
    """Fill an empty plan; returns the size of its work area in bytes. The ``GetSize`` form only returns the size."""

    def __call__(
        self,
        plan: Int,
        rank: Int,
        n: Ints,
        inembed: Ints,
        istride: Int,
        idist: Int,
        onembed: Ints,
        ostride: Int,
        odist: Int,
        type: Int,
        batch: Int,
        /,
    ) -> Annotated[int, Output(ctypes.c_size_t, 11)]: ...


class MakePlanMany64(Protocol):
    """As :class:`MakePlanMany`, with 64-bit sizes."""

    def __call__(
        self,
        plan: Int,
        rank: Int,
        n: Longs,
        inembed: Longs,
        istride: Annotated[int, ctypes.c_longlong],
        idist: Annotated[int, ctypes.c_longlong],
        onembed: Longs,
        ostride: Annotated[int, ctypes.c_longlong],
        odist: Annotated[int, ctypes.c_longlong],
        type: Int,
        batch: Annotated[int, ctypes.c_longlong],
        /,
    ) -> Annotated[int, Output(ctypes.c_size_t, 11)]: ...


class XtMakePlanMany(Protocol):
    """As :class:`MakePlanMany64`, with the element types (``cudaDataType``) instead of a ``cufftType``."""

    def __call__(
        self,
        plan: Int,
        rank: Int,
        n: Longs,
        inembed: Longs,
        istride: Annotated[int, ctypes.c_longlong],
        idist: Annotated[int, ctypes.c_longlong],
        inputtype: Int,
        onembed: Longs,
        ostride: Annotated[int, ctypes.c_longlong],
        odist: Annotated[int, ctypes.c_longlong],
        outputtype: Int,
        batch: Annotated[int, ctypes.c_longlong],
        executiontype: Int,
        /,
    ) -> Annotated[int, Output(ctypes.c_size_t, 12)]: ...


class EstimateMany(Protocol):
    """Size of the work area that such a plan would need, in bytes, at most."""

    def __call__(
        self,
        rank: Int,
        n: Ints,
        inembed: Ints,
        istride: Int,
        idist: Int,
        onembed: Ints,
        ostride: Int,
        odist: Int,
        type: Int,
        batch: Int,
        /,
    ) -> Annotated[int, Output(ctypes.c_size_t, 10)]: ...


class GetSize(Protocol):
    """Size of a plan's work area in bytes."""

    def __call__(self, plan: Int, /) -> Annotated[int, Output(ctypes.c_size_t, 1)]: ...


class SetAutoAllocation(Protocol):
    """Whether the ``MakePlan`` functions allocate the work area (they do at first). Before the plan is made."""

    def __call__(self, plan: Int, autoAllocate: Int, /) -> None: ...


class SetWorkArea(Protocol):
    """Use device memory of the caller's as the work area."""

    def __call__(self, plan: Int, workArea: Address, /) -> None: ...


class SetStream(Protocol):
    """Queue the executions that follow on a stream."""

    def __call__(self, plan: Int, stream: Address, /) -> None: ...


class ExecComplex(Protocol):
    """Queue a transform of complex data in ``direction`` (``CUFFT_FORWARD`` or ``CUFFT_INVERSE``)."""

    def __call__(self, plan: Int, idata: Address, odata: Address, direction: Int, /) -> None: ...


class ExecReal(Protocol):
    """Queue a transform of real data forward, or of Hermitian data back to real."""

    def __call__(self, plan: Int, idata: Address, odata: Address, /) -> None: ...


class GetVersion(Protocol):
    """Version of the library: ``major * 1000 + minor * 100 + patch``."""

    def __call__(self, /) -> Annotated[int, Output(ctypes.c_int, 0)]: ...


class Cufft(Protocol):
    """Functions of cuFFT, NVIDIA's or the simulated one."""

    cufftCreate: Create
    cufftDestroy: Plan
    cufftPlanMany: PlanMany
    cufftMakePlanMany: MakePlanMany
    cufftMakePlanMany64: MakePlanMany64
    cufftXtMakePlanMany: XtMakePlanMany
    cufftEstimateMany: EstimateMany
    cufftGetSizeMany: MakePlanMany
    cufftGetSizeMany64: MakePlanMany64
    cufftGetSize: GetSize
    cufftSetAutoAllocation: SetAutoAllocation
    cufftSetWorkArea: SetWorkArea
    cufftSetStream: SetStream
    cufftExecC2C: ExecComplex
    cufftExecR2C: ExecReal
    cufftExecC2R: ExecReal
    cufftExecZ2Z: ExecComplex
    cufftExecD2Z: ExecReal
    cufftExecZ2D: ExecReal
    cufftXtExec: ExecComplex
    cufftGetVersion: GetVersion


def bind(library: ctypes.CDLL) -> Cufft:
    """The functions of :class:`Cufft` in NVIDIA's library."""
    bound: Cufft = prototypes.bind(Cufft, library, failure)
    return bound


_TEXT = {
    cufftResult.CUFFT_SUCCESS: "success",
    cufftResult.CUFFT_INVALID_PLAN: "the plan does not exist, is not made yet, or is made already",
    cufftResult.CUFFT_ALLOC_FAILED: "memory for the plan could not be allocated",
    cufftResult.CUFFT_INVALID_TYPE: "the type is unknown, or is not the plan's",
    cufftResult.CUFFT_INVALID_VALUE: "a parameter is invalid, or a pointer is null",
    cufftResult.CUFFT_INTERNAL_ERROR: "an internal driver error",
    cufftResult.CUFFT_EXEC_FAILED: "the transform could not be queued on the device",
    cufftResult.CUFFT_SETUP_FAILED: "the library could not be initialized",
    cufftResult.CUFFT_INVALID_SIZE: "a size is not supported",
    cufftResult.CUFFT_UNALIGNED_DATA: "data is not aligned",
    cufftResult.CUFFT_INVALID_DEVICE: "the plan was made on another device than the current one",
    cufftResult.CUFFT_NO_WORKSPACE: "the plan has no work area: call cufftSetWorkArea first",
    cufftResult.CUFFT_NOT_IMPLEMENTED: "not implemented for these parameters",
    cufftResult.CUFFT_NOT_SUPPORTED: "not supported for these parameters",
    cufftResult.CUFFT_MISSING_DEPENDENCY: "a library that cuFFT needs is missing",
    cufftResult.CUFFT_NVRTC_FAILURE: "NVRTC failed while the plan was made",
    cufftResult.CUFFT_NVJITLINK_FAILURE: "nvJitLink failed while the plan was made",
    cufftResult.CUFFT_NVSHMEM_FAILURE: "NVSHMEM failed while the plan was made",
}

_ERRORS: dict[int, type[CudaError]] = {
    cufftResult.CUFFT_INVALID_PLAN: InvalidHandleError,
    cufftResult.CUFFT_ALLOC_FAILED: OutOfMemoryError,
    cufftResult.CUFFT_INVALID_TYPE: InvalidValueError,
    cufftResult.CUFFT_INVALID_VALUE: InvalidValueError,
    cufftResult.CUFFT_INVALID_SIZE: InvalidValueError,
    cufftResult.CUFFT_UNALIGNED_DATA: InvalidValueError,
    cufftResult.CUFFT_NOT_IMPLEMENTED: NotSupportedError,
    cufftResult.CUFFT_NOT_SUPPORTED: NotSupportedError,
}


def failure(status: int, call: str, detail: str = "") -> CudaError:
    """Exception for a result of ``call``; ``detail`` says more where more is known."""
    try:
        known = cufftResult(status)
        name, text = known.name, _TEXT[known]
    except ValueError:
        name, text = f"cufftResult {status}", "unknown result"
    message = f"{call} failed: {name}: {detail or text}"
    return _ERRORS.get(status, CudaError)(message, status=name, call=call)

"""NCCL: its enums, the functions that this project uses, and what its results become.

A communicator is an address. Sizes are numbers of elements. Collectives queue their work on the stream that they are
given, and are called by every rank. Every function raises a :class:`drv.CudaError` for a result other than success;
``ncclInProgress``, which communicators that do not block answer while they still work on a call, is none:
``ncclCommGetAsyncError`` tells when they have done it, and how it went.
"""

import ctypes
from enum import IntEnum
from typing import Annotated, Protocol

from drv.errors import CudaError, InvalidValueError

from . import prototypes
from .prototypes import Address, Int, Output, Size, Text

# ruff: noqa: N801, N803, N815 - the names are C's


class ncclResult_t(IntEnum):
    """What a call answers."""

    ncclSuccess = 0
    ncclUnhandledCudaError = 1
    ncclSystemError = 2
    ncclInternalError = 3
    ncclInvalidArgument = 4
    ncclInvalidUsage = 5
    ncclRemoteError = 6
    ncclInProgress = 7
    ncclTimeout = 8


class ncclRedOp_t(IntEnum):
    """How the values of the ranks are combined."""

    ncclSum = 0
    ncclProd = 1
    ncclMax = 2
    ncclMin = 3
    ncclAvg = 4


class ncclDataType_t(IntEnum):
    """Element types. There are no bools, no complex numbers, and no integers of 16 bits."""

    ncclInt8 = 0
    ncclUint8 = 1
    ncclInt32 = 2
    ncclUint32 = 3
    ncclInt64 = 4
    ncclUint64 = 5
    ncclFloat16 = 6
    ncclFloat32 = 7
    ncclFloat64 = 8
    ncclBfloat16 = 9
    ncclFloat8e4m3 = 10
    ncclFloat8e5m2 = 11


class ncclScalarResidence_t(IntEnum):
    """Where the factor of ``ncclRedOpCreatePreMulSum`` is, and when it is read."""

    ncclScalarDevice = 0
    ncclScalarHostImmediate = 1


NCCL_UNIQUE_ID_BYTES = 128
#: A number of :class:`Config` that is left to NCCL.
NCCL_CONFIG_UNDEF_INT = -(2**31)
NCCL_API_MAGIC = 0xCAFEBEEF


#: Names of communicators. NCCL keeps only their addresses, for as long as a communicator lives.
_names: dict[str, bytes] = {}


class UniqueId(ctypes.Structure):
    """``ncclUniqueId``: what the ranks of one communicator have in common. One rank makes it, all use it."""

    _fields_ = (("internal", ctypes.c_char * NCCL_UNIQUE_ID_BYTES),)

    def __bytes__(self) -> bytes:
        return ctypes.string_at(ctypes.addressof(self), NCCL_UNIQUE_ID_BYTES)

    def __repr__(self) -> str:
        return f"UniqueId({bytes(self)[:8].hex()}...)"

    @classmethod
    def from_bytes(cls, data: bytes) -> "UniqueId":
        """The id whose bytes another rank has sent."""
        if len(data) != NCCL_UNIQUE_ID_BYTES:
            raise InvalidValueError(
                f"an NCCL unique id has {NCCL_UNIQUE_ID_BYTES} bytes, {len(data)} were given"
            )
        return cls.from_buffer_copy(data)


class Config(ctypes.Structure):
    """``ncclConfig_t``, settings of a communicator, up to the fields that NCCL 2.27 has.

    Later releases append fields. They read as many bytes as ``size`` says, so that one declaration serves them all.

    Parameters
    ----------
    blocking : bool
        Whether calls return only when they are done with the host's part of the work, other ranks included.
    name : str
        What NCCL's own log calls the communicator.
    """

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("magic", ctypes.c_uint),
        ("version", ctypes.c_uint),
        ("blocking", ctypes.c_int),
        ("cgaClusterSize", ctypes.c_int),
        ("minCTAs", ctypes.c_int),
        ("maxCTAs", ctypes.c_int),
        ("netName", ctypes.c_char_p),
        ("splitShare", ctypes.c_int),
        ("trafficClass", ctypes.c_int),
        ("commName", ctypes.c_char_p),
        ("collnetEnable", ctypes.c_int),
        ("CTAPolicy", ctypes.c_int),
        ("shrinkShare", ctypes.c_int),
        ("nvlsCTAs", ctypes.c_int),
    )

    VERSION = 22700

    def __init__(self, *, blocking: bool = True, name: str = "") -> None:
        super().__init__()
        for field, ctype in self._fields_:
            if ctype is ctypes.c_int:
                setattr(self, field, NCCL_CONFIG_UNDEF_INT)
        self.size = ctypes.sizeof(self)
        self.magic = NCCL_API_MAGIC
        self.version = self.VERSION
        self.blocking = int(blocking)
        self.commName = _names.setdefault(name, name.encode()) if name else None

    def __repr__(self) -> str:
        return f"Config(blocking={bool(self.blocking)}, name={(self.commName or b'').decode()!r})"


class GetVersion(Protocol):
    """Version of the library: ``major * 10000 + minor * 100 + patch``."""

    def __call__(self, /) -> Annotated[int, Output(ctypes.c_int, 0)]: ...


class GetUniqueId(Protocol):
    """Make the id of a new communicator, for one of its ranks to hand to the others."""

    def __call__(self, /) -> Annotated[UniqueId, Output(UniqueId, 0)]: ...


class CommInitRank(Protocol):
    """Make rank ``rank`` of a communicator, on the current device. Every rank calls it, and waits for the others."""

    def __call__(
        self, nranks: Int, commId: Annotated[UniqueId, UniqueId], rank: Int, /
    ) -> Annotated[int, Output(ctypes.c_size_t, 0)]: ...


class CommInitRankConfig(Protocol):
    """As :class:`CommInitRank`, with settings. Without ``blocking`` the communicator is not ready on return."""

    def __call__(
        self,
        nranks: Int,
        commId: Annotated[UniqueId, UniqueId],
        rank: Int,
        config: Annotated[Config, ctypes.POINTER(Config)],
        /,
    ) -> Annotated[int, Output(ctypes.c_size_t, 0)]: ...


class Comm(Protocol):
    """Finalize (finish what is queued), destroy, or abort (give up what is queued) a communicator."""

    def __call__(self, comm: Address, /) -> None: ...


class CommGetNumber(Protocol):
    """Number of ranks, this rank, the ordinal of the device, or the ``ncclResult_t`` of what the host still does."""

    def __call__(self, comm: Address, /) -> Annotated[int, Output(ctypes.c_int, 1)]: ...


class GetErrorString(Protocol):
    """What a result means."""

    def __call__(self, result: Int, /) -> Text: ...


class GetLastError(Protocol):
    """NCCL's own words about the last error of the process; empty without one. The communicator may be 0."""

    def __call__(self, comm: Address, /) -> Text: ...


class RedOpCreatePreMulSum(Protocol):
    """Make an operation that sums ``scalar`` times the values of each rank."""

    def __call__(
        self, scalar: Address, datatype: Int, residence: Int, comm: Address, /
    ) -> Annotated[int, Output(ctypes.c_int, 0)]: ...


class RedOpDestroy(Protocol):
    """Destroy such an operation; it may be in use by queued work."""

    def __call__(self, op: Int, comm: Address, /) -> None: ...


class AllReduce(Protocol):
    """Combine the ``count`` elements of every rank, for every rank. In place where both buffers are the same."""

    def __call__(
        self,
        sendbuff: Address,
        recvbuff: Address,
        count: Size,
        datatype: Int,
        op: Int,
        comm: Address,
        stream: Address,
        /,
    ) -> None: ...


class Reduce(Protocol):
    """As :class:`AllReduce`, for rank ``root`` alone; the other ranks' ``recvbuff`` is not used."""

    def __call__(
        self,
        sendbuff: Address,
        recvbuff: Address,
        count: Size,
        datatype: Int,
        op: Int,
        root: Int,
        comm: Address,
        stream: Address,
        /,
    ) -> None: ...


class Broadcast(Protocol):
    """Copy ``count`` elements from rank ``root``'s ``sendbuff`` to every ``recvbuff``."""

    def __call__(
        self,
        sendbuff: Address,
        recvbuff: Address,
        count: Size,
        datatype: Int,
        root: Int,
        comm: Address,
        stream: Address,
        /,
    ) -> None: ...


class AllGather(Protocol):
    """Fill ``recvbuff`` with the ``sendcount`` elements of every rank, one after another."""

    def __call__(
        self,
        sendbuff: Address,
        recvbuff: Address,
        sendcount: Size,
        datatype: Int,
        comm: Address,
        stream: Address,
        /,
    ) -> None: ...


class ReduceScatter(Protocol):
    """Combine the ``recvcount * nranks`` elements of every rank; each gets its slice."""

    def __call__(
        self,
        sendbuff: Address,
        recvbuff: Address,
        recvcount: Size,
        datatype: Int,
        op: Int,
        comm: Address,
        stream: Address,
        /,
    ) -> None: ...


class Send(Protocol):
    """Send to rank ``peer``, which calls :class:`Recv` with the same count and type."""

    def __call__(
        self, sendbuff: Address, count: Size, datatype: Int, peer: Int, comm: Address, stream: Address, /
    ) -> None: ...


class Recv(Protocol):
    """Receive from rank ``peer``, which calls :class:`Send` with the same count and type."""

    def __call__(
        self, recvbuff: Address, count: Size, datatype: Int, peer: Int, comm: Address, stream: Address, /
    ) -> None: ...


class Group(Protocol):
    """Begin or end a group: calls between them become one operation, queued at the end."""

    def __call__(self, /) -> None: ...


class Nccl(Protocol):
    """Functions of NCCL."""

    ncclGetVersion: GetVersion
    ncclGetUniqueId: GetUniqueId
    ncclCommInitRank: CommInitRank
    ncclCommInitRankConfig: CommInitRankConfig
    ncclCommFinalize: Comm
    ncclCommDestroy: Comm
    ncclCommAbort: Comm
    ncclCommGetAsyncError: CommGetNumber
    ncclCommCount: CommGetNumber
    ncclCommUserRank: CommGetNumber
    ncclCommCuDevice: CommGetNumber
    ncclGetErrorString: GetErrorString
    ncclGetLastError: GetLastError
    ncclRedOpCreatePreMulSum: RedOpCreatePreMulSum
    ncclRedOpDestroy: RedOpDestroy
    ncclAllReduce: AllReduce
    ncclReduce: Reduce
    ncclBroadcast: Broadcast
    ncclAllGather: AllGather
    ncclReduceScatter: ReduceScatter
    ncclSend: Send
    ncclRecv: Recv
    ncclGroupStart: Group
    ncclGroupEnd: Group


def bind(library: ctypes.CDLL) -> Nccl:
    """The functions of :class:`Nccl` in NVIDIA's library. Errors quote what NCCL itself says about the last one."""

    def explained(status: int, call: str) -> CudaError:
        return failure(status, call, bound.ncclGetLastError(0).decode(errors="replace").strip())

    bound: Nccl = prototypes.bind(Nccl, library, explained, passes=(ncclResult_t.ncclInProgress,))
    return bound


_TEXT = {
    ncclResult_t.ncclSuccess: "success",
    ncclResult_t.ncclUnhandledCudaError: "a call of CUDA failed",
    ncclResult_t.ncclSystemError: "a call of the operating system failed",
    ncclResult_t.ncclInternalError: "an internal check failed",
    ncclResult_t.ncclInvalidArgument: "an argument has an invalid value",
    ncclResult_t.ncclInvalidUsage: "the call does not fit those before it, or those of other ranks",
    ncclResult_t.ncclRemoteError: "another rank failed, or the connection to it broke",
    ncclResult_t.ncclInProgress: "the communicator still works on an earlier call",
    ncclResult_t.ncclTimeout: "an operation did not end in time",
}

_ERRORS: dict[int, type[CudaError]] = {
    ncclResult_t.ncclInvalidArgument: InvalidValueError,
    ncclResult_t.ncclInvalidUsage: InvalidValueError,
}

_ADVICE = "Run again with NCCL_DEBUG=INFO for NCCL's own account."


def failure(status: int, call: str, detail: str = "") -> CudaError:
    """Exception for a result of ``call``; ``detail`` says more where more is known."""
    try:
        known = ncclResult_t(status)
        name, text = known.name, _TEXT[known]
    except ValueError:
        name, text = f"ncclResult_t {status}", "unknown result"
    message = f"{call} failed: {name}: {text}{f' ({detail})' if detail else ''}. {_ADVICE}"
    return _ERRORS.get(status, CudaError)(message, status=name, call=call)

"""Exceptions of the driver layer, and which status of the driver becomes which.

Statuses are plain integers here, so that importing this module loads no driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class CudaError(RuntimeError):
    """A call of the driver, or of a library on top of it, failed. Base class of all errors of this package.

    Parameters
    ----------
    message : str
        What was asked for, what failed, and what to do.
    status, call, kernel, sticky
        The attributes of these names.

    Attributes
    ----------
    status : str or None
        Name of the status, such as ``"CUDA_ERROR_INVALID_VALUE"``; ``None`` for errors found before
        the driver was asked.
    call : str or None
        The call that returned it, such as ``"cuMemAlloc(1024 bytes on device 0)"``.
    kernel : str or None
        Name of the kernel, where the call is a launch.
    sticky : bool
        Whether the context is lost: every later call of this process fails too.
    """

    def __init__(
        self,
        message: str,
        *,
        status: str | None = None,
        call: str | None = None,
        kernel: str | None = None,
        sticky: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.call = call
        self.kernel = kernel
        self.sticky = sticky


class InvalidValueError(CudaError, ValueError):
    """An argument is outside what the call accepts; also a ``ValueError``.

    The message says what the argument was and what was expected. Nothing was queued or changed.

    >>> drv.DeviceMemory(0)
    Traceback (most recent call last):
    drv.errors.InvalidValueError: an allocation has at least 1 byte, 0 were asked for
    """


class InvalidHandleError(CudaError):
    """A stream, event, module, context or memory does not exist (any more), or belongs to another context.

    Objects of this package raise it when they are used after ``free``, ``unload`` or ``close``.

    >>> memory = drv.DeviceMemory(16)
    >>> memory.free()
    >>> memory.address
    Traceback (most recent call last):
    drv.errors.InvalidHandleError: this device memory was freed
    """


class OutOfMemoryError(CudaError):
    """Device or pinned host memory is exhausted. Nothing is lost: everything still works after it is caught.

    The message says how many bytes were asked for; that of a caching allocator also what is in use, and what can be done.
    """


class NotFoundError(CudaError, LookupError):
    """A kernel, variable or attribute of that name does not exist; also a ``LookupError``.

    :meth:`Module.function`, :meth:`Module.global_variable` and :meth:`Device.attribute` raise it.
    """


class NotSupportedError(CudaError):
    """The device or the driver in use cannot do this (``CUDA_ERROR_NOT_SUPPORTED``). Nothing was changed.

    The simulated driver also raises it for what it does not simulate, and says so.
    """


class NotPermittedError(CudaError):
    """The call is not allowed here (``CUDA_ERROR_NOT_PERMITTED``). Nothing was queued.

    A function that a stream calls on the host, for example, may make no CUDA calls.
    """


class CaptureError(CudaError):
    """The call is not allowed while a stream is captured, or the capture failed.

    A call that waits or allocates makes the capture void; the end of the capture raises this too, and says which call it was.
    """


class GraphUpdateError(CudaError):
    """An executable graph cannot take the parameters of another graph; it stays as it was.

    Parameters
    ----------
    message, **details
        See :class:`CudaError`.
    reason : str
        The attribute of this name.
    node
        The attribute of this name.

    Attributes
    ----------
    reason : str
        The driver's word for what differs, such as ``"TOPOLOGY_CHANGED"``.
    node : GraphNode or None
        The node of the other graph that it is about.
    """

    def __init__(self, message: str, *, reason: str = "", node: Any = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.reason = reason
        self.node = node


class PeerAccessError(CudaError):
    """Peer access is impossible, already enabled, or not enabled.

    :meth:`Device.enable_peer_access` and :meth:`Device.disable_peer_access` raise it.
    """


class ModuleLoadError(CudaError):
    """The driver does not accept a PTX or cubin image.

    Parameters
    ----------
    message, **details
        See :class:`CudaError`.
    log : str
        The attribute of this name.

    Attributes
    ----------
    log : str
        What the driver's linker said.
    """

    def __init__(self, message: str, *, log: str = "", **details: Any) -> None:
        super().__init__(message, **details)
        self.log = log


class LaunchResourcesError(CudaError):
    """A launch asks for more threads, registers or shared memory than a multiprocessor of the device has.

    The kernel did not start and the context is not lost. :meth:`Function.suggested_block_size` tells a block that fits.
    """


class DeviceFaultError(CudaError):
    """A kernel or copy failed while it ran on the device. The context is lost: every later call raises this too.

    Work is asynchronous, so a later call raises it: the next one that waits, as a rule. ``CUDA_LAUNCH_BLOCKING=1`` lets the
    launch itself raise. ``sticky`` is true; on the simulated driver :func:`drv.reset` starts over in the same process.
    """


class IllegalAddressError(DeviceFaultError):
    """A kernel or copy touched memory that is not allocated, was freed, or is another device's without peer access.

    The context is lost, as with every :class:`DeviceFaultError`. The simulated driver says which thread, source line and
    allocation it was.
    """


class MisalignedAddressError(DeviceFaultError):
    """A kernel accessed an address that is no multiple of the access' size in bytes.

    The context is lost. On the simulator the message names the access, its address and its line.
    """


class DeviceAssertError(DeviceFaultError):
    """An ``assert`` in a kernel failed. The context is lost.

    The driver prints the assertion's file, line and text, with block and thread; on the simulated driver the message has
    them too.
    """


class IllegalInstructionError(DeviceFaultError):
    """A kernel met an instruction that does not exist, or jumped to where none is.

    The context is lost. Mostly memory with code or with a function's address was overwritten before.
    """


class LaunchError(DeviceFaultError):
    """A kernel stopped for another reason: a trap, a time-out, a stack overflow.

    The context is lost. On the simulator the message names the instruction and its line.
    """


class DeviceLostError(DeviceFaultError):
    """The device itself failed or became unavailable, by an uncorrectable memory error for example.

    The context is lost: the process has to be restarted, on another device if the error comes again.
    """


class NoDeviceError(CudaError):
    """The driver works, and no device is visible.

    There is none, or ``CUDA_VISIBLE_DEVICES`` hides all of them. ``GRAPHROOT_SIMULATOR`` provides simulated ones.
    """


class NoDriverError(CudaError):
    """No driver can be had, or the one installed does not work.

    The message names the ways out: NVIDIA's driver, or ``GRAPHROOT_DRIVER=simulator``, which needs no GPU.
    """


class LibraryNotInstalledError(CudaError, ImportError):
    """An optional library is missing, or too old.

    Also an ``ImportError``. The message names the extra to install.
    """


class ForkError(CudaError):
    """A forked child used CUDA after its parent had.

    CUDA's state does not survive a fork. Start the child with ``spawn``, or use CUDA only in the child.
    """


class DroppedRuntimeError(CudaError):
    """An object was used after :func:`drv.reset` dropped the runtime that it belongs to.

    Make the object anew; those of before the reset stay unusable.
    """


class HostCallbackError(CudaError):
    """A function queued on a stream raised, or a thread that watches over queued work.

    ``__cause__`` is its exception. The next call that waits raises this.
    """


class CompileError(CudaError):
    """CUDA C++ source does not compile.

    Parameters
    ----------
    message, **details
        See :class:`CudaError`.
    log, source : str
        The attributes of these names.

    Attributes
    ----------
    log : str
        Everything the compiler said.
    source : str
        The source, as it was given.
    """

    def __init__(self, message: str, *, log: str, source: str, **details: Any) -> None:
        super().__init__(message, **details)
        self.log = log
        self.source = source


class FindingError(CudaError):
    """A checker reports a mistake that a GPU may hide.

    Parameters
    ----------
    message : str
        The text of the first finding.
    findings : tuple
        The attribute of this name.

    Attributes
    ----------
    findings : tuple
        Records of all findings since the last synchronising call; the message is the first one's.
    """

    def __init__(self, message: str, findings: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.findings = findings


class DataRaceError(FindingError):
    """Two accesses to the same bytes, at least one of them a write, are not ordered by any stream, event or wait.

    The simulated driver finds it with ``check=race``, and the next synchronising call raises it. The message has both
    operations, their Python stacks, the bytes and the allocation.
    """


class FreedInUseError(FindingError):
    """Memory was freed while work that nothing orders before the free could still use it.

    The simulated driver finds it with ``check=race``, and the next synchronising call raises it.
    """


class UninitializedReadError(FindingError):
    """Memory was read that nothing had written.

    The simulated driver finds it with ``check=full``, and the next synchronising call raises it.
    """


class OverwriteError(FindingError):
    """A guarding allocator reports a write beside an allocation, or to memory that was freed.

    The next synchronising call raises it. The message has the address, the bytes, and the Python stacks of the allocation and
    the free.
    """


_CLASSES: Mapping[int, type[CudaError]] = {
    1: InvalidValueError,
    2: OutOfMemoryError,
    34: NoDriverError,
    46: DeviceLostError,
    100: NoDeviceError,
    101: InvalidValueError,
    200: ModuleLoadError,
    201: InvalidHandleError,
    209: ModuleLoadError,
    214: DeviceLostError,
    217: PeerAccessError,
    218: ModuleLoadError,
    220: DeviceLostError,
    221: ModuleLoadError,
    222: ModuleLoadError,
    223: ModuleLoadError,
    226: DeviceFaultError,
    300: ModuleLoadError,
    400: InvalidHandleError,
    500: NotFoundError,
    700: IllegalAddressError,
    701: LaunchResourcesError,
    702: LaunchError,
    704: PeerAccessError,
    705: PeerAccessError,
    711: PeerAccessError,
    709: InvalidHandleError,
    710: DeviceAssertError,
    714: LaunchError,
    715: IllegalInstructionError,
    716: MisalignedAddressError,
    717: IllegalAddressError,
    718: IllegalInstructionError,
    719: LaunchError,
    800: NotPermittedError,
    801: NotSupportedError,
    803: NoDriverError,
    804: NoDriverError,
    900: CaptureError,
    901: CaptureError,
    902: CaptureError,
    903: CaptureError,
    904: CaptureError,
    905: CaptureError,
    906: CaptureError,
    907: CaptureError,
    908: CaptureError,
    910: GraphUpdateError,
}

#: Classes of the records that the simulated driver's checkers make, by their kind.
_FINDINGS: Mapping[str, type[FindingError]] = {
    "race": DataRaceError,
    "shared race": DataRaceError,
    "kernel race": DataRaceError,
    "register race": DataRaceError,
    "same value": DataRaceError,
    "freed while in use": FreedInUseError,
    "uninitialized": UninitializedReadError,
}


def error_class(status: int) -> type[CudaError]:
    """Exception class for a ``CUresult``, given as an integer; :class:`CudaError` for one that has no class of its own.

    >>> error_class(2)
    <class 'drv.errors.OutOfMemoryError'>
    """
    return _CLASSES.get(status, CudaError)


def is_sticky(status: int) -> bool:
    """Whether a ``CUresult``, given as an integer, means that the context is lost and every later call fails."""
    return issubclass(error_class(status), DeviceFaultError)


def finding_class(kind: str) -> type[FindingError]:
    """Exception class for a finding of the simulated driver's checkers, by the finding's ``kind``, such as ``"race"``."""
    return _FINDINGS.get(kind, FindingError)

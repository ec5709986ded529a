"""Faults on demand, so that a program's error paths can be tested."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

from cuda.bindings.driver import CUresult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Status = TypeVar("Status", bound=IntEnum)

#: Calls that give something back do so even if they answer with an error: CUDA's tell of earlier work that failed.
RELEASES = frozenset(
    (
        "cublasDestroy",
        "cudnnDestroy",
        "cudnnDestroyConvolutionDescriptor",
        "cudnnDestroyFilterDescriptor",
        "cudnnDestroyTensorDescriptor",
        "cuArrayDestroy",
        "cuCtxDestroy",
        "cuDevicePrimaryCtxRelease",
        "cuEventDestroy",
        "cufftDestroy",
        "cuLibraryUnload",
        "cuMemAddressFree",
        "cuMemFree",
        "cuMemFreeAsync",
        "cuMemFreeHost",
        "cuMemHostUnregister",
        "cuMemPoolDestroy",
        "cuMemRelease",
        "cuMemUnmap",
        "cuMipmappedArrayDestroy",
        "cuModuleUnload",
        "cuStreamDestroy",
        "cuSurfObjectDestroy",
        "cuTexObjectDestroy",
        "cuTexRefDestroy",
    )
)


@dataclass(slots=True)
class _LaunchFault:
    status: CUresult
    kernel: str | None
    countdown: int
    sticky: bool


@dataclass(slots=True)
class _CallFault:
    status: IntEnum | None
    name: str | None
    countdown: int


class _Recording(list[str]):
    """Names of calls, in their order."""


class _InLibrary(threading.local):
    value: bool = False


class Injection:
    """Faults on demand: what is to go wrong, and when. Nothing does until a method asks for it."""

    def __init__(self) -> None:
        #: Called with an ordinal to lose that device at once; the driver sets it.
        self.on_lose_device: Callable[[int], None] | None = None
        #: Faults of launches and calls that are still to happen, and recordings: always the same list, which calls
        #: ask whether it is empty.
        self.asked: list[_LaunchFault | _CallFault | _Recording] = []
        self._lock = threading.Lock()
        self._in_library = _InLibrary()
        self._bytes_left: int | None = None
        self._allocations_left: int | None = None

    def clear(self) -> None:
        """Forget every fault that has not happened yet."""
        self._bytes_left = self._allocations_left = None
        with self._lock:
            self.asked[:] = [asked for asked in self.asked if isinstance(asked, _Recording)]

    def out_of_memory_after(self, nbytes: int | None = None, *, allocations: int | None = None) -> None:
        """Refuse memory once ``nbytes`` more bytes, or ``allocations`` more allocations, were granted.

        It stays refused until :meth:`clear`.

        Raises
        ------
        ValueError
            Unless exactly one of ``nbytes`` and ``allocations`` is given.
        """
        if (nbytes is None) == (allocations is None):
            raise ValueError("out_of_memory_after: give nbytes or allocations, one of them")
        self._bytes_left, self._allocations_left = nbytes, allocations

    def fail_launch(
        self,
        nth: int = 1,
        kernel: str | None = None,
        status: CUresult = CUresult.CUDA_ERROR_LAUNCH_FAILED,
        *,
        sticky: bool = True,
    ) -> None:
        """Let a launch fail.

        Parameters
        ----------
        nth : int
            Which launch from now on, from 1.
        kernel : str, optional
            Count launches of the kernel with this name in PTX only.
        status : CUresult
            What the launch fails with.
        sticky : bool
            Whether the failure happens when the kernel runs, and loses its context; otherwise the launching call
            itself answers with ``status``.

        Raises
        ------
        ValueError
            If ``nth`` is less than 1.
        """
        if nth < 1:
            raise ValueError(f"fail_launch: nth={nth}; launches are counted from 1")
        self.asked.append(_LaunchFault(status, kernel, nth, sticky))

    def fail_call(self, nth: int = 1, name: str | None = None, status: IntEnum | None = None) -> None:
        """Let a call of the driver, cuBLAS, cuDNN or cuFFT answer with an error.

        The call does nothing else, except one that gives something back (``cuMemFree``, ``cuEventDestroy``, ...):
        it does so, and answers with the error of earlier work, as CUDA's may.

        Parameters
        ----------
        nth : int
            Which call from now on, from 1. Calls that a library makes of the driver are not counted.
        name : str, optional
            Count calls of this function only, such as ``"cuEventRecord"`` or ``"cublasGemmEx"``.
        status : CUresult, cublasStatus_t, cudnnStatus_t or cufftResult, optional
            What the call answers. A call whose statuses are of another type, or for which none is given, answers
            ``CUDA_ERROR_UNKNOWN``, or its library's internal error.

        Raises
        ------
        ValueError
            If ``nth`` is less than 1.

        Examples
        --------
        >>> drv.simulator.inject().fail_call(2, "cuStreamSynchronize")
        >>> stream = drv.Stream()
        >>> stream.synchronize()
        >>> try:
        ...     stream.synchronize()
        ... except drv.CudaError as error:
        ...     print(error.call, error.status)
        cuStreamSynchronize CUDA_ERROR_UNKNOWN
        """
        if nth < 1:
            raise ValueError(f"fail_call: nth={nth}; calls are counted from 1")
        self.asked.append(_CallFault(status, name, nth))

    @contextmanager
    def recording(self) -> Iterator[list[str]]:
        """Record the names of the calls that :meth:`fail_call` counts, in their order.

        Examples
        --------
        >>> stream = drv.Stream()
        >>> with drv.simulator.inject().recording() as calls:
        ...     stream.synchronize()
        >>> calls
        ['cuStreamSynchronize']
        """
        recording = _Recording()
        self.asked.append(recording)
        try:
            yield recording
        finally:
            with self._lock:
                self.asked[:] = [asked for asked in self.asked if asked is not recording]

    def lose_device(self, ordinal: int) -> None:
        """Lose the device ``ordinal``: every call on it, now and later, answers ``CUDA_ERROR_DEVICE_UNAVAILABLE``."""
        if self.on_lose_device is not None:
            self.on_lose_device(ordinal)

    def refuses(self, nbytes: int) -> bool:
        """Whether this allocation is refused; counts it."""
        if self._allocations_left is not None:
            if self._allocations_left == 0:
                return True
            self._allocations_left -= 1
        if self._bytes_left is not None:
            if nbytes > self._bytes_left:
                return True
            self._bytes_left -= nbytes
        return False

    def launch_fault(self, kernel: str) -> tuple[CUresult, bool] | None:
        """Status and stickiness of the fault of a launch of ``kernel``; counts it."""
        hit = None
        for fault in list(self.asked):
            if isinstance(fault, _LaunchFault) and fault.kernel in (None, kernel):
                fault.countdown -= 1
                if fault.countdown == 0:
                    self.asked.remove(fault)
                    hit = (fault.status, fault.sticky)
        return hit

    def call_fault(self, name: str, default: Status) -> Status | None:
        """What the call ``name`` is to answer with, ``default`` where no status of its type was given; counts it."""
        if self._in_library.value:
            return None
        hit = None
        with self._lock:
            for asked in list(self.asked):
                if isinstance(asked, _Recording):
                    asked.append(name)
                elif isinstance(asked, _CallFault) and asked.name in (None, name):
                    asked.countdown -= 1
                    if asked.countdown == 0:
                        self.asked.remove(asked)
                        hit = asked.status if isinstance(asked.status, type(default)) else default
        return hit

    @contextmanager
    def in_library(self) -> Iterator[None]:
        """While a library runs in this thread: its calls of the driver are its own, and not counted."""
        before, self._in_library.value = self._in_library.value, True
        try:
            yield
        finally:
            self._in_library.value = before

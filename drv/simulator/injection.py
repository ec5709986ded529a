"""Faults on demand, so that a program's error paths can be tested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuda.bindings.driver import CUresult

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True)
class _LaunchFault:
    status: CUresult
    kernel: str | None
    countdown: int
    sticky: bool


class Injection:
    """Faults on demand: what is to go wrong, and when. Nothing does until a method asks for it."""

    def __init__(self) -> None:
        #: Called with an ordinal to lose that device at once; the driver sets it.
        self.on_lose_device: Callable[[int], None] | None = None
        self.clear()

    def clear(self) -> None:
        """Forget every fault that has not happened yet."""
        self._bytes_left: int | None = None
        self._allocations_left: int | None = None
        self.launch_faults: list[_LaunchFault] = []

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
        self.launch_faults.append(_LaunchFault(status, kernel, nth, sticky))

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
        for fault in list(self.launch_faults):
            if fault.kernel in (None, kernel):
                fault.countdown -= 1
                if fault.countdown == 0:
                    self.launch_faults.remove(fault)
                    hit = (fault.status, fault.sticky)
        return hit

"""Known bytes in device memory: filling ranges with them, and finding the ranges that have changed since.

One kernel launch compares any number of ranges, so that looking after every launch is bearable.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drv.compiler import architecture_of, compile_program
from drv.device import pushed
from drv.module import Module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from drv.device import Device

#: Bytes on both sides of an allocation.
RED = 0xA5
#: Bytes of memory that is fresh or freed: a NaN in every floating-point type.
POISON = 0xFF

_NON_BLOCKING = 1
_THREADS = 128
#: Longer ranges are compared by several blocks.
_LONGEST = 1 << 16
_SOURCE = """
struct Range {
    const unsigned char* start;
    unsigned long long length;
    unsigned long long expected;
};

/* Sets *changed to 1 if a byte of one of count ranges is not the expected one. A block compares a range at a time. */
extern "C" __global__ void compare_with_patterns(const Range* ranges, long long count, int* changed)
{
    for (long long i = blockIdx.x; i < count; i += gridDim.x) {
        const Range range = ranges[i];
        for (unsigned long long at = threadIdx.x; at < range.length; at += blockDim.x)
            if (range.start[at] != range.expected)
                *changed = 1;
    }
}
"""


class Range(NamedTuple):
    """``length`` bytes from address ``start`` on that all hold ``expected``."""

    start: int
    length: int
    expected: int


class Patterns:
    """Fills and compares memory of one device, on a stream of its own, and waits for it.

    Which context is current stays what it is, as this runs in finalizers too. Errors of the device are
    raised as :class:`CudaError`.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.runtime = device.runtime
        self._stream: Any = None
        self._module: Module | None = None
        #: Address of the table of ranges on the device, and its size.
        self._table = 0
        self._capacity = 0

    def prepare(self) -> None:
        """Make what the other methods use; this changes the current context."""
        if self._stream is None:
            before = self.runtime.current.device
            program = compile_program(_SOURCE, architecture_of(self.device), name="compare_with_patterns.cu")
            self._module = Module(program.image, self.device)
            self._compare = self._module.function("compare_with_patterns").handle
            driver = self.runtime.driver
            self._stream = self.runtime.check(driver.cuStreamCreate(_NON_BLOCKING), "cuStreamCreate")
            if before is not None:
                before.make_current()

    def fill(self, ranges: Sequence[Range]) -> None:
        """Fill all ``ranges`` with their expected bytes."""
        driver, check = self.runtime.driver, self.runtime.check
        with self._current():
            for start, length, expected in ranges:
                if length:
                    check(driver.cuMemsetD8Async(start, expected, length, self._stream), "cuMemsetD8Async")
            self._wait()

    def changed(self, ranges: Sequence[Range]) -> bool:
        """Whether a byte of ``ranges`` is not the expected one."""
        pieces = [
            (start + at, min(_LONGEST, length - at), expected)
            for start, length, expected in ranges
            for at in range(0, length, _LONGEST)
        ]
        if not pieces:
            return False
        table = np.zeros((len(pieces) + 1, 3), np.uint64)
        table[1:] = pieces
        driver, check = self.runtime.driver, self.runtime.check
        answer = np.zeros(1, np.int32)
        with self._current():
            self._reserve(table.nbytes)
            copied = driver.cuMemcpyHtoDAsync(self._table, table.ctypes.data, table.nbytes, self._stream)
            check(copied, "cuMemcpyHtoDAsync")
            self._launch(self._table + table.strides[0], len(pieces), self._table)
            read = driver.cuMemcpyDtoHAsync(answer.ctypes.data, self._table, answer.nbytes, self._stream)
            check(read, "cuMemcpyDtoHAsync")
            self._wait()
        return bool(answer[0])

    def read(self, start: int, length: int) -> NDArray[np.uint8]:
        """The bytes of a range."""
        data = np.empty(length, np.uint8)
        with self._current():
            driver = self.runtime.driver
            result = driver.cuMemcpyDtoHAsync(data.ctypes.data, start, length, self._stream)
            self.runtime.check(result, "cuMemcpyDtoHAsync")
            self._wait()
        return data

    def wait_for_devices(self) -> None:
        """Wait until all work of all devices is done: peers may use this one's memory."""
        driver = self.runtime.driver
        for device in self.runtime.devices:
            if device.context is not None:
                with pushed(device):
                    self.runtime.check(driver.cuCtxSynchronize(), "cuCtxSynchronize")

    def _current(self) -> Any:
        return pushed(self.device)

    def _wait(self) -> None:
        self.runtime.check(self.runtime.driver.cuStreamSynchronize(self._stream), "cuStreamSynchronize")

    def _reserve(self, nbytes: int) -> None:
        if nbytes <= self._capacity:
            return
        driver, check = self.runtime.driver, self.runtime.check
        if self._table:
            check(driver.cuMemFree(self._table), "cuMemFree")
            self._table = self._capacity = 0
        size = max(1 << 12, 2 * nbytes)
        self._table = int(check(driver.cuMemAlloc(size), "cuMemAlloc", f"{size} bytes"))
        self._capacity = size

    def _launch(self, ranges: int, count: int, changed: int) -> None:
        values = (ctypes.c_uint64(ranges), ctypes.c_int64(count), ctypes.c_uint64(changed))
        parameters = (ctypes.c_void_p * 3)(*(ctypes.addressof(value) for value in values))
        grid = min(count, 1 << 12)
        status = self.runtime.driver.cuLaunchKernel(
            self._compare, grid, 1, 1, _THREADS, 1, 1, 0, self._stream, ctypes.addressof(parameters), 0
        )
        self.runtime.check(status, "cuLaunchKernel", "compare_with_patterns")

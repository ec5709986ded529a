"""Simulated memory: who owns an address, and where its bytes are.

Device memory, module variables, pinned and registered host memory and mapped virtual ranges all live
in one 64-bit address space, so an address alone tells whose it is (CUDA calls this unified
addressing). Device addresses start above the range an x86-64 or Arm process can map: code that
dereferences one on the host faults, as it would with a GPU, instead of reading something.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from drv.python_stack import Frame

#: First address of device 0; each device owns the next ``DEVICE_STRIDE`` bytes.
DEVICE_BASE = 1 << 48
DEVICE_STRIDE = 1 << 44
#: Windows through which generic addresses reach shared and local memory, below any device address.
SHARED_WINDOW = 1 << 40
LOCAL_WINDOW = 1 << 41
WINDOW_SIZE = 1 << 32
#: Every allocation's bytes are padded to this, so that views of any element type exist.
PADDING = 16
#: Bytes that the system provides, and takes back, at once.
PAGE = mmap.PAGESIZE
#: Bytes of an array from which on it has a mapping of its own.
_LEAST_MAPPED = 1 << 20


class MemoryKind(Enum):
    """What an allocation is, in the words that reports use."""

    DEVICE = "device memory"
    PINNED = "pinned host memory"
    REGISTERED = "registered host memory"
    VARIABLE = "module variable"
    MAPPED = "mapped virtual range"
    HEAP = "device heap memory"
    MANAGED = "managed memory"
    IMPORTED = "memory of another process"
    ARRAY = "CUDA array"


@dataclass(slots=True, eq=False)
class Allocation:
    """A live or freed range of addresses and its bytes.

    ``data`` holds ``size`` bytes, padded to a multiple of ``PADDING`` where the simulator owns them
    (registered host memory cannot be padded). ``device`` is the ordinal of the owner; for host
    memory it is ``None``, and every device may access it.
    """

    base: int
    size: int
    kind: MemoryKind
    data: NDArray[np.uint8]
    device: int | None = None
    name: str = ""
    stack: tuple[Frame, ...] = ()
    freed: tuple[Frame, ...] | None = None
    #: Whatever a checker keeps per byte; owned by the checker, dropped with the allocation.
    shadow: Any = None
    #: For mapped virtual ranges: devices that may access it, and whether they may write
    #: (``cuMemSetAccess``). ``None`` where the owner and its peers decide.
    access: dict[int, bool] | None = None
    _views: dict[Any, NDArray[Any]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """First address past the allocation."""
        return self.base + self.size

    def view(self, dtype: DTypeLike) -> NDArray[Any]:
        """Bytes as an array of ``dtype`` that shares them; a tail shorter than one item is left out."""
        view = self._views.get(dtype)
        if view is None:
            item = np.dtype(dtype).itemsize
            whole = self.data.size // item * item
            view = self._views[dtype] = self.data[:whole].view(dtype)
        return view

    def move(self, data: NDArray[np.uint8]) -> None:
        """Keep the bytes in ``data`` from now on. Nothing that runs may be using them."""
        data[: self.data.size] = self.data
        self.data = data
        self._views.clear()

    def release(self, start: int, stop: int) -> None:
        """Let the system have the pages inside bytes ``[start, stop)`` back; they are 0 from now on.

        Pages that the range shares with other bytes stay as they are, and so does memory that is not the simulator's.
        """
        if self.kind is MemoryKind.DEVICE:
            _advise(self.data[start:stop], mmap.MADV_DONTNEED)

    def drop_bytes(self) -> None:
        """Let go of the bytes of freed memory; what reports say of it stays."""
        self.data = self.data[:0].copy()
        self._views.clear()

    def describe(self) -> str:
        """One line for reports: kind, size, address, device and name."""
        owner = "" if self.device is None else f" on device {self.device}"
        name = f" {self.name!r}" if self.name else ""
        return f"{self.size} bytes of {self.kind.value}{name}{owner} at {self.base:#x}"


class AddressSpace:
    """All allocations, found by address.

    Look-up is a bisection over the sorted bases of live allocations. Freed ones are remembered (the
    last few hundred) so that a report can say that an address was freed, and where.
    """

    REMEMBERED = 512

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._live: dict[int, Allocation] = {}
        self._freed: deque[Allocation] = deque(maxlen=self.REMEMBERED)
        #: Ordered pairs ``(accessor, owner)`` of devices with peer access enabled.
        self.peers: set[tuple[int, int]] = set()
        #: Grows when memory that somebody has found may not be there any more.
        self.generation = 0
        #: Heap of each device, from which kernels allocate; made by the first that does.
        self.heaps: dict[int, Any] = {}
        #: Textures and surfaces by the handles through which kernels use them, and those that are gone.
        self.images: dict[int, Any] = {}

    def insert(self, allocation: Allocation) -> None:
        """Make ``allocation`` live. It must not overlap a live one."""
        index = bisect_right(self._bases, allocation.base)
        self._bases.insert(index, allocation.base)
        self._live[allocation.base] = allocation

    def remove(self, allocation: Allocation, stack: tuple[Frame, ...] = ()) -> None:
        """Take a live allocation out and remember it as freed at ``stack``."""
        index = bisect_right(self._bases, allocation.base) - 1
        del self._bases[index]
        del self._live[allocation.base]
        self.generation += 1
        allocation.freed = stack
        self._freed.append(allocation)

    def remember_freed(self, count: int) -> None:
        """Keep at least the last ``count`` freed allocations for reports."""
        self._freed = deque(self._freed, maxlen=max(count, self.REMEMBERED))

    def find(self, address: int) -> Allocation | None:
        """Live allocation that holds the byte at ``address``."""
        index = bisect_right(self._bases, address) - 1
        if index < 0:
            return None
        allocation = self._live[self._bases[index]]
        return allocation if address < allocation.base + allocation.size else None

    def find_freed(self, address: int) -> Allocation | None:
        """Freed allocation that held ``address``, the most recently freed one first."""
        for allocation in reversed(self._freed):
            if allocation.base <= address < allocation.end:
                return allocation
        return None

    def nearest(self, address: int) -> Allocation | None:
        """Live allocation whose edge is closest to ``address``."""
        index = bisect_right(self._bases, address) - 1
        near = [self._live[self._bases[i]] for i in (index, index + 1) if 0 <= i < len(self._bases)]
        return min(near, key=lambda a: max(a.base - address, address - a.end + 1, 0), default=None)

    def overlapping(self, address: int, size: int) -> list[Allocation]:
        """Live allocations that share a byte with ``[address, address + size)``, in address order."""
        index = max(bisect_right(self._bases, address) - 1, 0)
        allocations = []
        for base in self._bases[index:]:
            if base >= address + size:
                break
            if self._live[base].end > address:
                allocations.append(self._live[base])
        return allocations

    def accessible(self, allocation: Allocation, device: int, *, write: bool = False) -> bool:
        """Whether a kernel on ``device`` may read (and, with ``write``, write) ``allocation``."""
        rights = allocation.access
        if rights is not None:
            return device in rights and (rights[device] or not write)
        owner = allocation.device
        return owner is None or owner == device or (device, owner) in self.peers

    def live(self) -> list[Allocation]:
        """Live allocations in address order."""
        return [self._live[base] for base in self._bases]


def touched_here_and_there(size: int) -> NDArray[np.uint8]:
    """``size`` zeroed bytes, of which the system provides small pages as they are touched.

    Large pages would take memory for much that nobody touches, and so would memory of the process that was freed, whose
    bytes would be written for new ones.

    Raises
    ------
    MemoryError
        If the system has not so much.
    """
    if size < _LEAST_MAPPED:
        return np.zeros(size, np.uint8)
    try:
        memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"{size} bytes") from error
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, np.uint8)


def _advise(data: NDArray[np.uint8], advice: int) -> None:
    """Tell the system about the whole pages of ``data``."""
    address = data.ctypes.data
    first, last = -(-address // PAGE) * PAGE, (address + data.size) // PAGE * PAGE
    if first < last:
        _library().madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), advice)


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None)

"""The lanes that run a block of instructions together, as translated code sees them (``X``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.memory.address_space import DEVICE_BASE, LOCAL_WINDOW, SHARED_WINDOW, WINDOW_SIZE

from . import warps
from .asynchronous import (
    BulkAccess,
    CopyAccess,
    MbarrierAccess,
    ProductAccess,
    TensorAccess,
    TensorMapAccess,
)
from .clusters import ClusterAccess
from .matrices import MatrixAccess
from .memory import MemoryAccess
from .texturing import SurfaceAccess, TextureAccess
from .translation.plan import PARAMETER_WINDOW
from .warps import WarpTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .batch import Batch
    from .translation.code import Site

    Array = NDArray[Any]


class Lanes(
    MemoryAccess,
    MatrixAccess,
    ClusterAccess,
    CopyAccess,
    BulkAccess,
    TensorAccess,
    TensorMapAccess,
    ProductAccess,
    MbarrierAccess,
    TextureAccess,
    SurfaceAccess,
):
    """``n`` threads of a batch. ``slots`` are their indices among all threads of the batch.

    ``frame`` is the first byte of the running function's part of local memory, ``top`` the first past it.
    """

    __slots__ = (
        "_constants",
        "_in_warps",
        "_table",
        "batch",
        "frame",
        "frame_bytes",
        "launch",
        "n",
        "repeated",
        "slots",
        "top",
    )

    def __init__(self, batch: Batch, slots: Array, frame: int, top: int) -> None:
        self.batch = batch
        self.launch = batch.launch
        self.slots = slots
        self.n = len(slots)
        self.frame_bytes = frame
        self.top = top
        #: Whether a thread may be among them more than once.
        self.repeated = False
        self.frame = batch.launch.wide_number(frame)
        self._constants: dict[Any, Array] = {}
        self._table: WarpTable | None = None
        #: Order of the lanes by warp, once that is known; see :meth:`MatrixAccess._warps`.
        self._in_warps: Any = False

    def subset(self, index: Array, *, repeated: bool = False) -> Lanes:
        """The lanes ``index``, which has each once and in ascending order unless it is said to be ``repeated``."""
        result = Lanes(self.batch, self.slots[index], self.frame_bytes, self.top)
        result.repeated = repeated or self.repeated
        return result

    def constant(self, name: str, axis: int | None = None) -> Array:
        """A value that never changes while a thread runs, such as ``"thread_index"`` along an axis."""
        key = name, axis
        values = self._constants.get(key)
        if values is None:
            whole = self.batch.constant(name, axis)
            every = self.n == self.batch.n and not self.repeated
            values = whole if whole.shape[0] == 1 or every else whole[self.slots]
            self._constants[key] = values
        return values

    @property
    def block(self) -> NDArray[np.int64]:
        """Linear index in the grid of each lane's thread block."""
        return self._at_each_lane("block")

    @property
    def thread(self) -> NDArray[np.int64]:
        """Linear index of each lane in its thread block."""
        return self._at_each_lane("thread")

    def _at_each_lane(self, name: str) -> Array:
        """A constant with one entry per lane, which observers ask for at every access."""
        values = self._constants[name, None] = self.broadcast(self.constant(name))
        return values

    def broadcast(self, value: Array) -> Array:
        """``value`` with one entry per lane."""
        return value if value.shape[0] == self.n else np.broadcast_to(value, (self.n, *value.shape[1:]))

    # Parameters

    @staticmethod
    def field(matrix: Array, at: int, dtype: Any) -> Array:
        """Bytes ``at`` and on of parameters ``(lanes, bytes)``, as ``dtype``."""
        size = np.dtype(dtype).itemsize
        field_bytes = np.ascontiguousarray(matrix[:, at : at + size])
        result: NDArray[Any] = field_bytes.view(dtype).reshape(-1)
        return result

    def with_field(self, matrix: Array | None, size: int, at: int, value: Array) -> Array:
        """A parameter of ``size`` bytes with ``value`` at byte ``at``; the rest is that of ``matrix``."""
        width = value.dtype.itemsize
        if width == size:
            return np.ascontiguousarray(value).view(np.uint8).reshape(-1, size)
        rows = max(value.shape[0], 1 if matrix is None else matrix.shape[0])
        result = np.zeros((rows, size), np.uint8)
        if matrix is not None:
            result[:] = matrix
        result[:, at : at + width] = np.ascontiguousarray(value).view(np.uint8).reshape(-1, width)
        return result

    # Registers of 16 bytes

    @staticmethod
    def joined(low: Array, high: Array) -> Array:
        """A 16-byte register of two halves."""
        halves = np.empty((max(low.shape[0], high.shape[0]), 2), np.uint64)
        halves[:, 0], halves[:, 1] = low, high
        return halves.view(np.complex128).ravel()

    @staticmethod
    def halves(value: Array) -> tuple[Array, Array]:
        """The two halves of a 16-byte register."""
        table = value.view(np.uint64).reshape(-1, 2)
        return np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1])

    # Warps

    @property
    def table(self) -> WarpTable:
        """Where the lanes stand in their warps."""
        if self._table is None:
            self._table = WarpTable(self.broadcast(self.constant("warp_slot")), self.batch.warps)
        return self._table

    def shuffle(self, mode: str, value: Array, lane: Array, clamp: Array) -> tuple[Array, Array]:
        """``shfl.sync``; see :mod:`warps`."""
        self.warp_barrier()
        return warps.shuffle(self.table, mode, value, lane, clamp)

    def vote(self, mode: str, predicate: Array, mask: Array) -> Array:
        """``vote.sync``."""
        self.warp_barrier()
        return warps.vote(self.table, mode, predicate, mask)

    def match_any(self, value: Array, mask: Array) -> Array:
        """``match.any.sync``."""
        self.warp_barrier()
        return warps.match_any(self.table, value, mask)

    def match_all(self, value: Array, mask: Array) -> tuple[Array, Array]:
        """``match.all.sync``."""
        self.warp_barrier()
        return warps.match_all(self.table, value, mask)

    def reduce(self, operation: str, value: Array, mask: Array) -> Array:
        """``redux.sync``."""
        self.warp_barrier()
        return warps.reduce(self.table, operation, value, mask)

    def elect(self, mask: Array) -> tuple[Array, Array]:
        """``elect.sync``."""
        self.warp_barrier()
        return warps.elect(self.table, mask)

    def active_mask(self) -> Array:
        """``activemask``: the lanes of the warp that run the instruction."""
        return self.table.active

    def warp_barrier(self) -> None:
        """Tell the observer that the lanes met at warp level."""
        if self.launch.observer is not None:
            self.launch.observer.warp_barrier(self)

    def fence(self) -> None:
        """Tell the observer that the lanes passed a memory fence."""
        if self.launch.observer is not None:
            self.launch.observer.fence(self)

    def fence_proxy(self) -> None:
        """Tell the observer that the lanes passed a fence between the generic and the asynchronous proxy."""
        if self.launch.observer is not None:
            self.launch.observer.fence_proxy(self)

    # Addresses

    def is_space(self, space: str, address: Array) -> Array:
        """``isspacep``."""
        if space == "shared":
            return (address - np.uint64(SHARED_WINDOW)) < np.uint64(WINDOW_SIZE)
        if space == "own shared":
            return self.is_space("shared", address) & self.is_own_shared(address - np.uint64(SHARED_WINDOW))
        if space == "local":
            return (address - np.uint64(LOCAL_WINDOW)) < np.uint64(WINDOW_SIZE)
        if space == "param":
            return (address - np.uint64(PARAMETER_WINDOW)) < np.uint64(WINDOW_SIZE)
        if space == "const":
            return np.array([self.launch.is_constant(int(each)) for each in address])
        return address >= np.uint64(DEVICE_BASE)

    # Ends

    def trap(self, site: Site) -> None:
        """``trap``: the kernel stops."""
        raise self.launch.reports.trap(self, site)

    def unknown(self, site: Site, known: str = "") -> None:
        """An instruction that the simulator does not know was reached; ``known`` says what it knows instead."""
        raise self.launch.reports.unknown(self, site, known)

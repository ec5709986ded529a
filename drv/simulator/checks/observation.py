"""What a checker is told while simulated work runs.

The interpreter and the copy operations call an :class:`AccessObserver` for every access to global,
shared or host memory. With ``check=on`` there is none and nothing is paid for it; bounds, lifetime
and alignment are checked by the access itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from drv.simulator.memory.address_space import Allocation
    from drv.simulator.memory.tensor_map import TensorMap


class Access(Enum):
    """How memory is touched. Two atomic accesses never race with each other."""

    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"


class Site(Protocol):
    """The instruction that is being run, as reports name it."""

    #: Line of the instruction in the PTX text, and its text.
    ptx_line: int
    text: str
    #: CUDA source file and line where the module was compiled with line information, else ``None``.
    source: tuple[str, int] | None


class Lanes(Protocol):
    """The threads that run an instruction together. Arrays have shape ``(lanes,)``."""

    @property
    def block(self) -> NDArray[np.int64]:
        """Linear index of the thread block in the grid."""

    @property
    def thread(self) -> NDArray[np.int64]:
        """Linear index of the thread in its block."""


@dataclass(slots=True)
class Span:
    """Bytes that an asynchronous operation touches: ``width`` bytes at each of ``offsets`` ``(pieces,)``.

    ``lane`` ``(pieces,)`` says for each piece which of the lanes that issue the operation it belongs to. The offsets are in
    ``allocation``, or in the shared memory of the blocks ``owners`` ``(pieces,)``, which are the lanes' own where left out.
    ``width`` is a power of two up to 16, of which addresses are multiples. ``box`` is the tensor, and the coordinates in it, of the
    box that a bulk copy brings to shared memory there, where it is one.
    """

    kind: Access
    offsets: NDArray[np.int64]
    width: int
    lane: NDArray[np.int64]
    allocation: Allocation | None = None
    owners: NDArray[np.int64] | None = None
    box: tuple[TensorMap, tuple[int, ...]] | None = None


@dataclass(slots=True)
class Stored:
    """What lanes are about to store, and the memory that it goes to.

    ``values`` has an array for each element that an instruction stores side by side, ``(lanes,)``, or ``(1,)`` for a
    value that all lanes have; ``offsets`` are the lanes' first bytes in ``memory``.
    """

    values: Sequence[NDArray[Any]]
    memory: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    def new(self, lanes: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Bytes ``(lanes, width)`` that the chosen lanes store."""
        count = len(self.offsets)
        values = [np.broadcast_to(each, (count,))[lanes] for each in self.values]
        return np.concatenate(
            [np.ascontiguousarray(each).view(np.uint8).reshape(len(lanes), -1) for each in values], 1
        )

    def old(self, lanes: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Bytes ``(lanes, width)`` that are where the chosen lanes store."""
        width = sum(each.dtype.itemsize for each in self.values)
        bytes_there: NDArray[np.uint8] = self.memory[self.offsets[lanes][:, None] + np.arange(width)]
        return bytes_there


class AccessObserver(Protocol):
    """Told of every access by the operation that is running."""

    def global_access(
        self,
        allocation: Allocation,
        offsets: NDArray[np.int64],
        width: int,
        kind: Access,
        lanes: Lanes,
        site: Site,
        stored: Stored | None = None,
    ) -> None:
        """Lanes touch ``width`` bytes at byte ``offsets`` ``(lanes,)`` of ``allocation``; told before they do."""

    def shared_access(
        self,
        offsets: NDArray[np.int64],
        width: int,
        kind: Access,
        lanes: Lanes,
        site: Site,
        stored: Stored | None = None,
        owners: NDArray[np.int64] | None = None,
    ) -> None:
        """Lanes touch ``width`` bytes at ``offsets`` of shared memory; told before they do.

        It is that of the blocks ``owners`` (linear indices), or of the lanes' own.
        """

    def barrier(self, blocks: NDArray[np.int64], lanes: Lanes) -> None:
        """All threads of ``blocks`` (linear indices) passed a block-wide barrier; ``lanes`` are they."""

    def warp_barrier(self, lanes: Lanes) -> None:
        """``lanes`` passed a warp-level synchronisation together."""

    def fence(self, lanes: Lanes) -> None:
        """``lanes`` passed a memory fence of device scope or wider."""

    def release(self, key: Hashable, lanes: Lanes) -> None:
        """``lanes`` arrive at the barrier object ``key``, which hands on what they did before.

        Of the object of a block, the key's second item is the block's linear index.
        """

    def complete(self, key: Hashable, block: int) -> None:
        """The current phase of a barrier object in the cluster of ``block`` is complete."""

    def acquire(self, key: Hashable, lanes: Lanes) -> None:
        """``lanes`` have found the latest phase of a barrier object complete, and know what was released into it."""

    def fence_proxy(self, lanes: Lanes) -> None:
        """``lanes`` passed a fence between the generic and the asynchronous proxy."""

    def asynchronous_begins(self, lanes: Lanes, site: Site, spans: Sequence[Span], *, generic: bool) -> Any:
        """``lanes`` issue an operation that touches ``spans``, through the generic proxy or the asynchronous one.

        Returns what stands for the operation in the calls below; ``None`` where nothing is to be told of it.
        """

    def asynchronous_ends(self, operation: Any, lanes: NDArray[np.int64] | None, *, reads_only: bool) -> None:
        """Those who issued it have waited for an operation, or for its reads: the issuing ``lanes`` (indices), or all."""

    def asynchronous_counts(self, operation: Any, lanes: NDArray[np.int64] | None, key: Hashable) -> None:
        """The current phase of a barrier object will not be complete before what ``lanes`` have issued."""

    def products_end(self, operation: Any, which: NDArray[np.int64], lanes: Lanes) -> None:
        """``lanes`` have waited for the products of their warpgroups that the lanes ``which`` (indices) have issued."""

    def fence_tensor_maps(self, lanes: Lanes) -> None:
        """``lanes`` passed a fence after which copies see what was done to tensor maps before."""

    def tensor_map_used(self, allocation: Allocation, offset: int, lanes: Lanes, site: Site) -> None:
        """A copy that the one lane issues uses the tensor map at byte ``offset`` of ``allocation``."""

    def registers_touched(
        self, issuers: Lanes, site: Site, lanes: Lanes, touch: Site, *, writes: bool
    ) -> None:
        """``lanes`` touch registers that a product, which ``issuers`` have issued, has not written or read yet."""

    def registers_unfenced(self, lanes: Lanes, writer: Site | None, site: Site) -> None:
        """``lanes`` issue a product whose registers ``writer`` has written since the last fence; or there was none."""

    def blocks_end(self, blocks: NDArray[np.int64]) -> None:
        """All threads of ``blocks`` have ended, and of other blocks of their clusters."""

    def range_access(self, allocation: Allocation, start: int, stop: int, kind: Access) -> None:
        """A copy, memset or library call touches bytes ``[start, stop)`` of ``allocation``."""

    def copy_begins(self) -> None:
        """The running operation is a copy: it writes what it reads, bytes in the same order."""

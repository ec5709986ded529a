"""Loads, stores and atomics of every space, for the lanes that run an instruction.

The usual case is short: the lowest and the highest address lie in one allocation, the one that the same
instruction accessed last; one pass checks alignment; one gather or scatter moves the data. Everything
else (several allocations, unaligned host memory, mixed spaces) goes a slower way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.arithmetic import atomic as atomic_of_arithmetic
from drv.simulator.checks.observation import Access, Stored
from drv.simulator.memory.address_space import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_SIZE
from drv.simulator.ptx.program import CODE_WINDOW

from .clusters import CLUSTER_SHIFT
from .translation.plan import PARAMETER_WINDOW

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from drv.simulator.memory.address_space import Allocation

    from .batch import Batch
    from .launch_state import LaunchState
    from .translation.code import Site

    Array = NDArray[Any]

_SHIFT = {1: 0, 2: 1, 4: 2, 8: 3, 16: 4}
#: Generic addresses from here on are memory that allocations own.
_MEMORY = CODE_WINDOW * 2
_min, _max, _or = np.minimum.reduce, np.maximum.reduce, np.bitwise_or.reduce
_WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAMETER_WINDOW}


def atomic(
    data: Array,
    index: Array,
    operation: str,
    ptx_type: str,
    value: Array,
    compare: Array | None,
    *,
    want_old: bool,
) -> Any:
    """Atomic operations of all sizes; those of 16 bytes go as pairs of 8."""
    if ptx_type != "b128":
        return atomic_of_arithmetic(data, index, operation, ptx_type, value, compare, want_old=want_old)
    cells, values = data.view(np.uint64).reshape(-1, 2), value.view(np.uint64).reshape(-1, 2)
    expected = None if compare is None else compare.view(np.uint64).reshape(-1, 2)
    old = atomic_of_arithmetic(cells, index, operation, ptx_type, values, expected, want_old=want_old)
    return None if old is None else np.ascontiguousarray(old).view(np.complex128).ravel()


def _in_window(space: str, address: Array) -> Array:
    """Generic addresses as those of their space."""
    return address - np.uint64(_WINDOWS[space]) if space in ("shared", "local") else address


def _bounds(address: Array, offset: int) -> tuple[int, int]:
    if address.shape[0] == 1:
        low = high = int(address[0]) + offset
        return low, high
    return int(_min(address)) + offset, int(_max(address)) + offset


def _fits(offsets: Array, width: int, size: int) -> tuple[bool, bool]:
    """Whether ``width`` bytes at each of ``offsets`` lie within ``size`` bytes, and are aligned.

    Of signed offsets none may be negative; unsigned ones that would be are large.
    """
    if offsets.shape[0] == 1:
        bits = int(offsets[0])
        return 0 <= bits <= size - width, not bits & (width - 1)
    # Together they have the bits of each, so that they are no less than the largest.
    bits = int(_or(offsets))
    inside = bits >= 0 and (bits <= size - width or int(_max(offsets)) <= size - width)
    return inside, not bits & (width - 1)


class MemoryAccess:
    """The memory instructions of :class:`~.lanes.Lanes`, which has the attributes named here."""

    __slots__ = ()

    if TYPE_CHECKING:
        batch: Batch
        launch: LaunchState
        slots: Array
        n: int
        frame_bytes: int
        top: int

        @property
        def block(self) -> NDArray[np.int64]: ...
        @property
        def thread(self) -> NDArray[np.int64]: ...
        def constant(self, name: str, axis: int | None = None) -> Array: ...
        def broadcast(self, value: Array) -> Array: ...
        def subset(self, index: Array) -> Any: ...
        def field(self, matrix: Array, at: int, dtype: Any) -> Array: ...
        def owners(self, offsets: Array) -> tuple[Array, Array]: ...

    # Global memory

    def _global(
        self,
        site: Site,
        address: Array,
        offset: int,
        width: int,
        kind: Access,
        values: Sequence[Array] = (),
        *,
        tell: bool = True,
    ) -> tuple[Allocation, Array] | None:
        """The one allocation that all lanes access, and their byte offsets in it; ``None`` if it is not so simple.

        ``values`` are what a store stores, element by element. Without ``tell`` the observer does not learn of it.
        """
        launch = self.launch
        allocation = site.allocation
        inside = False
        if allocation is not None and allocation.freed is None:
            relative = address - np.uint64(allocation.base - offset)
            inside, aligned = _fits(relative, width, allocation.size)
        if not inside:
            allocation = launch.memory.find(_bounds(address, offset)[0])
            if allocation is None:
                return None
            relative = address - np.uint64(allocation.base - offset)
            inside, aligned = _fits(relative, width, allocation.size)
            if not inside:
                return None
            site.allocation = allocation
        if (
            allocation.device != launch.device or allocation.access is not None
        ) and not launch.memory.accessible(allocation, launch.device, write=kind is not Access.READ):
            return None
        if not aligned or allocation.base & 15 or (kind is not Access.READ and launch.read_only(allocation)):
            return None
        offsets = relative.view(np.int64)
        if kind is Access.WRITE:
            launch.writes += 1
        if launch.observer is not None and tell:
            each = self.broadcast(offsets)
            stored = Stored(values, allocation.data, each) if values else None
            launch.observer.global_access(allocation, each, width, kind, self, site, stored)
        return allocation, offsets

    def _scattered(
        self,
        site: Site,
        address: Array,
        offset: int,
        width: int,
        kind: Access,
        values: Sequence[Array] = (),
        *,
        tell: bool = True,
    ) -> Iterator[tuple[Allocation, Array, Array]]:
        """Allocations that the lanes access, with the lanes and their byte offsets; faults where one may not."""
        launch = self.launch
        launch.writes += kind is Access.WRITE
        absolute = self.broadcast(address) + np.uint64(offset & 0xFFFFFFFFFFFFFFFF)
        rest = np.arange(self.n)
        while rest.size:
            first = int(absolute[rest[0]])
            allocation = launch.memory.find(first)
            wrong = self._refusal(allocation, first, width, kind)
            if wrong is not None:
                if launch.checked:
                    raise launch.reports.access(self, site, int(rest[0]), first, width, kind, wrong)
                rest = rest[1:]
                continue
            assert allocation is not None
            offsets = absolute[rest] - np.uint64(allocation.base)
            aligned = (absolute[rest] & np.uint64(width - 1)) == 0
            inside = (offsets <= np.uint64(allocation.size - width)) & aligned
            chosen = rest[inside]
            taken = offsets[inside].view(np.int64)
            if launch.observer is not None and tell:
                mine = [self.broadcast(each)[chosen] for each in values]
                stored = Stored(mine, allocation.data, taken) if mine else None
                launch.observer.global_access(
                    allocation, taken, width, kind, self.subset(chosen), site, stored
                )
            yield allocation, chosen, taken
            rest = rest[~inside]

    def sources(
        self, site: Site, address: Array, offset: int, width: int, kind: Access
    ) -> list[tuple[Allocation, Array, Array]]:
        """Allocations that the lanes are going to access: each with the lanes (indices) and their byte offsets in it."""
        if address.dtype != np.uint64:
            address = address.astype(np.uint64)
        simple = self._global(site, address, offset, width, kind, tell=False)
        if simple is not None:
            return [(simple[0], np.arange(self.n), self.broadcast(simple[1]))]
        return list(self._scattered(site, address, offset, width, kind, tell=False))

    def _refusal(self, allocation: Allocation | None, address: int, width: int, kind: Access) -> str | None:
        """Why an access is not allowed, ``None`` if it is."""
        launch = self.launch
        if address & (width - 1):
            return "misaligned"
        if allocation is None or address + width > allocation.end:
            return "outside"
        if not launch.memory.accessible(allocation, launch.device, write=kind is not Access.READ):
            return "peer"
        if kind is not Access.READ and launch.read_only(allocation):
            return "read-only"
        return None

    def load_global(self, site: Site, address: Array, offset: int, dtype: Any, width: int, lanes: int) -> Any:
        """``ld.global``: an array, or a list of ``lanes`` arrays."""
        if address.dtype != np.uint64:
            address = address.astype(np.uint64)
        simple = self._global(site, address, offset, width * lanes, Access.READ)
        if simple is not None:
            data, index = simple[0].view(dtype), simple[1] >> _SHIFT[width]
            return data.take(index) if lanes == 1 else [data[i:].take(index) for i in range(lanes)]
        result = [np.zeros(self.n, dtype) for _ in range(lanes)]
        for allocation, chosen, offsets in self._scattered(site, address, offset, width * lanes, Access.READ):
            for i, each in enumerate(result):
                each[chosen] = _read_bytes(allocation, offsets + i * width, each.dtype)
        return result[0] if lanes == 1 else result

    load_const = load_global

    def store_global(
        self, site: Site, address: Array, offset: int, dtype: Any, width: int, lanes: int, value: Any
    ) -> None:
        """``st.global``. Of lanes that store to the same address the last one wins."""
        if address.dtype != np.uint64:
            address = address.astype(np.uint64)
        values = value if lanes > 1 else (value,)
        simple = self._global(site, address, offset, width * lanes, Access.WRITE, values)
        if simple is not None:
            data, index = simple[0].view(dtype), simple[1] >> _SHIFT[width]
            for i, each in enumerate(values):
                data[i:][index] = each if index.shape[0] > 1 else each[-1:]
            return
        for allocation, chosen, offsets in self._scattered(
            site, address, offset, width * lanes, Access.WRITE, values
        ):
            for i, each in enumerate(values):
                _write_bytes(allocation, offsets + i * width, self.broadcast(each)[chosen])

    store_const = store_global

    def atomic_global(
        self,
        site: Site,
        address: Array,
        offset: int,
        dtype: Any,
        width: int,
        operation: str,
        ptx_type: str,
        old: bool,
        value: Array,
        compare: Array | None = None,
    ) -> Any:
        """``atom.global`` and ``red.global``: the old values, in the order of the lanes, if wanted."""
        if address.dtype != np.uint64:
            address = address.astype(np.uint64)
        simple = self._global(site, address, offset, width, Access.ATOMIC)
        if simple is not None:
            index = self.broadcast(simple[1] >> _SHIFT[width])
            previous = atomic(simple[0].view(dtype), index, operation, ptx_type, value, compare, want_old=old)
            self._count_changes(operation, previous, value, compare)
            return previous
        previous = np.zeros(self.n, dtype)
        for allocation, chosen, offsets in self._scattered(site, address, offset, width, Access.ATOMIC):
            mine = self.broadcast(value)[chosen]
            expected = None if compare is None else self.broadcast(compare)[chosen]
            index = offsets >> _SHIFT[width]
            result = atomic(allocation.view(dtype), index, operation, ptx_type, mine, expected, want_old=old)
            if old:
                previous[chosen] = result
        self._count_changes(operation, previous if old else None, value, compare)
        return previous if old else None

    def _count_changes(self, operation: str, old: Array | None, value: Array, compare: Array | None) -> None:
        """Note that memory may have changed, unless the atomic operations of all lanes left it as it was."""
        if operation == "cas":
            self.launch.writes += old is None or bool((old == compare).any())
        elif operation == "exch":
            self.launch.writes += old is None or bool((old != value).any())
        elif operation in ("add", "or", "xor"):
            self.launch.writes += bool(value.any())
        else:
            self.launch.writes += 1

    # Shared memory

    def _shared(
        self,
        site: Site,
        address: Array,
        offset: int,
        width: int,
        kind: Access,
        values: Sequence[Array] = (),
        *,
        tell: bool = True,
    ) -> Array:
        """Byte offsets in the shared memory of all blocks of the batch. ``values`` are what a store stores.

        Without ``tell`` the observer does not learn of the access. Addresses in the window of the cluster lead to the shared memory of other blocks.
        """
        if address.dtype == np.uint32 and offset:
            # 32-bit addresses wrap around.
            address, offset = address + np.uint32(offset & 0xFFFFFFFF), 0
        launch = self.launch
        launch.writes += kind is Access.WRITE
        offsets = address.astype(np.int64)
        if offset:
            offsets += offset
        inside, aligned = _fits(offsets, width, launch.shared_bytes)
        if not (inside and aligned):
            if int(offsets.max()) >> CLUSTER_SHIFT > 0:
                return self._distributed(site, address, offset, width, kind, values, tell)
            return self._wild(
                site,
                address,
                offset,
                width,
                kind,
                launch.shared_bytes,
                self.constant("shared_base"),
                "shared",
                values,
            )
        if launch.observer is not None and tell:
            self._observe_shared(self.broadcast(offsets), width, kind, site, values)
        return offsets + self.constant("shared_base")

    def _observe_shared(
        self,
        offsets: Array,
        width: int,
        kind: Access,
        site: Site,
        values: Sequence[Array],
        owners: Array | None = None,
    ) -> None:
        """Tell the observer; ``owners`` are the blocks of the batch that have the memory, where not the lanes' own."""
        assert self.launch.observer is not None
        stored = None
        if values:
            base = self.constant("shared_base") if owners is None else owners * self.batch.shared_stride
            stored = Stored(values, self.batch.shared(np.uint8), offsets + base)
        blocks = None if owners is None else self.batch.blocks[owners]
        self.launch.observer.shared_access(offsets, width, kind, self, site, stored, blocks)

    def _distributed(
        self,
        site: Site,
        address: Array,
        offset: int,
        width: int,
        kind: Access,
        values: Sequence[Array],
        tell: bool,
    ) -> Array:
        """As :meth:`_shared`, where addresses are in the window of the cluster."""
        owners, offsets = self.owners(self.broadcast(address).astype(np.int64) + offset)
        if owners.min() < 0:
            size, base = self.launch.shared_bytes, self.constant("shared_base")
            return self._wild(site, address, offset, width, kind, size, base, "shared", values)
        bad = (offsets + width > self.launch.shared_bytes) | ((offsets & (width - 1)) != 0)
        if bad.any():
            if self.launch.checked:
                lane = int(np.flatnonzero(bad)[0])
                raise self.launch.reports.window(
                    self, site, lane, int(offsets[lane]), width, kind, self.launch.shared_bytes, "distributed"
                )
            offsets = np.where(bad, 0, offsets)
        positions: Array = offsets + owners * self.batch.shared_stride
        if self.launch.observer is not None and tell:
            self._observe_shared(offsets, width, kind, site, values, owners)
        return positions

    def _wild(
        self,
        site: Site,
        address: Array,
        offset: int,
        width: int,
        kind: Access,
        size: int,
        base: Array,
        space: str,
        values: Sequence[Array] = (),
    ) -> Array:
        """Lanes that may leave their shared or local memory: a fault, or held inside where nothing is checked."""
        offsets = self.broadcast(address).astype(np.int64) + offset
        if self.launch.checked:
            bad = (offsets < 0) | (offsets + width > size) | ((offsets & (width - 1)) != 0)
            if not bad.any():
                # A register below zero and a displacement that brings it back.
                if space == "shared" and self.launch.observer is not None:
                    self._observe_shared(offsets, width, kind, site, values)
                return offsets + base
            lane = int(np.flatnonzero(bad)[0])
            raise self.launch.reports.window(self, site, lane, int(offsets[lane]), width, kind, size, space)
        clipped: Array = np.clip(offsets, 0, max(size - width, 0)) & ~(width - 1)
        return clipped + base

    def load_shared(self, site: Site, address: Array, offset: int, dtype: Any, width: int, lanes: int) -> Any:
        """``ld.shared``."""
        index = self._shared(site, address, offset, width * lanes, Access.READ) >> _SHIFT[width]
        data = self.batch.shared(dtype)
        return data.take(index) if lanes == 1 else [data[i:].take(index) for i in range(lanes)]

    def store_shared(
        self, site: Site, address: Array, offset: int, dtype: Any, width: int, lanes: int, value: Any
    ) -> None:
        """``st.shared``."""
        values = value if lanes > 1 else (value,)
        index = self._shared(site, address, offset, width * lanes, Access.WRITE, values) >> _SHIFT[width]
        data = self.batch.shared(dtype)
        for i, each in enumerate(values):
            data[i:][index] = each if index.shape[0] > 1 else each[-1:]

    def atomic_shared(
        self,
        site: Site,
        address: Array,
        offset: int,
        dtype: Any,
        width: int,
        operation: str,
        ptx_type: str,
        old: bool,
        value: Array,
        compare: Array | None = None,
    ) -> Any:
        """``atom.shared`` and ``red.shared``."""
        index = self._shared(site, address, offset, width, Access.ATOMIC) >> _SHIFT[width]
        index = self.broadcast(index)
        previous = atomic(self.batch.shared(dtype), index, operation, ptx_type, value, compare, want_old=old)
        self._count_changes(operation, previous, value, compare)
        return previous

    # Local memory

    def _local(self, site: Site, address: Array, offset: int, width: int, kind: Access) -> Array:
        self.launch.writes += kind is Access.WRITE
        offsets = address.astype(np.int64) + offset
        base = self.slots * self.batch.stack_bytes
        inside, aligned = _fits(offsets, width, self.top)
        if not (inside and aligned):
            return self._wild(site, address, offset, width, kind, self.top, base, "local")
        result: NDArray[Any] = offsets + base
        return result

    def load_local(self, site: Site, address: Array, offset: int, dtype: Any, width: int, lanes: int) -> Any:
        """``ld.local``."""
        index = self._local(site, address, offset, width * lanes, Access.READ) >> _SHIFT[width]
        data = self.batch.local(dtype)
        return data.take(index) if lanes == 1 else [data[i:].take(index) for i in range(lanes)]

    def store_local(
        self, site: Site, address: Array, offset: int, dtype: Any, width: int, lanes: int, value: Any
    ) -> None:
        """``st.local``."""
        index = self._local(site, address, offset, width * lanes, Access.WRITE) >> _SHIFT[width]
        data = self.batch.local(dtype)
        for i, each in enumerate(value if lanes > 1 else (value,)):
            data[i:][index] = each

    def atomic_local(
        self,
        site: Site,
        address: Array,
        offset: int,
        dtype: Any,
        width: int,
        operation: str,
        ptx_type: str,
        old: bool,
        value: Array,
        compare: Array | None = None,
    ) -> Any:
        """``atom`` on a generic address that is local."""
        index = self._local(site, address, offset, width, Access.ATOMIC) >> _SHIFT[width]
        return atomic(self.batch.local(dtype), index, operation, ptx_type, value, compare, want_old=old)

    # Parameters of the kernel, addressed at run time

    def load_param(self, site: Site, address: Array, offset: int, dtype: Any, width: int, lanes: int) -> Any:
        """``ld.param`` from an address."""
        data = self.launch.parameter_bytes
        size = len(data) - len(data) % width
        window = np.uint64(PARAMETER_WINDOW)
        offsets = (address - window).view(np.int64) + offset
        if int(offsets.min()) < 0 or int(offsets.max()) + width * lanes > self.launch.parameter_size:
            self._wild(site, address - window, offset, width * lanes, Access.READ, size, offsets * 0, "param")
        index = np.clip(offsets, 0, max(size - width * lanes, 0)) >> _SHIFT[width]
        values = data[:size].view(dtype)
        return values.take(index) if lanes == 1 else [values[i:].take(index) for i in range(lanes)]

    def store_param(self, site: Site, *_: Any) -> None:
        """Storing to a kernel's parameters through an address: they are read-only."""
        raise self.launch.reports.unknown(self, site)

    def atomic_param(self, site: Site, *_: Any) -> None:
        """Kernel parameters are read-only."""
        raise self.launch.reports.unknown(self, site)

    # Generic addresses

    def _space_of(self, low: int, high: int) -> str | None:
        """Space of all addresses from ``low`` to ``high``; ``None`` when they may differ."""
        if low >= _MEMORY:
            return "global"
        for space, window in _WINDOWS.items():
            if window <= low and high < window + WINDOW_SIZE:
                return space
        return "global" if high < SHARED_WINDOW else None

    def _spaces(self, address: Array, offset: int) -> Iterator[tuple[str, Array]]:
        """The lanes of each space."""
        absolute = self.broadcast(address) + np.uint64(offset & 0xFFFFFFFFFFFFFFFF)
        rest = np.ones(self.n, np.bool_)
        for space, window in _WINDOWS.items():
            inside = (absolute - np.uint64(window)) < np.uint64(WINDOW_SIZE)
            if inside.any():
                yield space, np.flatnonzero(inside)
                rest &= ~inside
        if rest.any():
            yield "global", np.flatnonzero(rest)

    def load_generic(
        self, site: Site, address: Array, offset: int, dtype: Any, width: int, lanes: int
    ) -> Any:
        """``ld`` of a generic address."""
        space = self._space_of(*_bounds(address, offset))
        if space is not None:
            load = getattr(self, f"load_{space}")
            return load(site, _in_window(space, address), offset, dtype, width, lanes)
        result = [np.zeros(self.n, dtype) for _ in range(lanes)]
        for each_space, chosen in self._spaces(address, offset):
            load = getattr(self.subset(chosen), f"load_{each_space}")
            mine = _in_window(each_space, self.broadcast(address)[chosen])
            values = load(site, mine, offset, dtype, width, lanes)
            for each, value in zip(result, [values] if lanes == 1 else values, strict=True):
                each[chosen] = value
        return result[0] if lanes == 1 else result

    def store_generic(
        self, site: Site, address: Array, offset: int, dtype: Any, width: int, lanes: int, value: Any
    ) -> None:
        """``st`` to a generic address."""
        space = self._space_of(*_bounds(address, offset))
        if space is not None:
            store = getattr(self, f"store_{space}")
            store(site, _in_window(space, address), offset, dtype, width, lanes, value)
            return
        for each_space, chosen in self._spaces(address, offset):
            values = [self.broadcast(each)[chosen] for each in (value if lanes > 1 else (value,))]
            stored = values[0] if lanes == 1 else values
            store = getattr(self.subset(chosen), f"store_{each_space}")
            mine = _in_window(each_space, self.broadcast(address)[chosen])
            store(site, mine, offset, dtype, width, lanes, stored)

    def atomic_generic(
        self,
        site: Site,
        address: Array,
        offset: int,
        dtype: Any,
        width: int,
        operation: str,
        ptx_type: str,
        old: bool,
        value: Array,
        compare: Array | None = None,
    ) -> Any:
        """``atom`` and ``red`` of a generic address."""
        space = self._space_of(*_bounds(address, offset))
        if space is not None:
            method = getattr(self, f"atomic_{space}")
            mine = _in_window(space, address)
            return method(site, mine, offset, dtype, width, operation, ptx_type, old, value, compare)
        previous = np.zeros(self.n, dtype)
        for each_space, chosen in self._spaces(address, offset):
            method = getattr(self.subset(chosen), f"atomic_{each_space}")
            mine = _in_window(each_space, self.broadcast(address)[chosen])
            expected = None if compare is None else self.broadcast(compare)[chosen]
            operand = self.broadcast(value)[chosen]
            result = method(site, mine, offset, dtype, width, operation, ptx_type, old, operand, expected)
            if old:
                previous[chosen] = result
        return previous if old else None

    def readable_bytes(self, site: Site, address: int, size: int) -> bytes:
        """Up to ``size`` bytes at a generic address, as many as there are, for a single lane."""
        space = self._space_of(address, address)
        if space == "local":
            size = min(size, self.top - (address - LOCAL_WINDOW))
        words = [
            self.load_generic(site, np.array([address + at], np.uint64), 0, np.uint8, 1, 1).tobytes()
            for at in range(size)
        ]
        return b"".join(words)


def _read_bytes(allocation: Allocation, offsets: Array, dtype: np.dtype[Any]) -> Array:
    rows = allocation.data[offsets[:, None] + np.arange(dtype.itemsize)]
    return np.ascontiguousarray(rows).view(dtype).reshape(-1)


def _write_bytes(allocation: Allocation, offsets: Array, values: Array) -> None:
    rows = np.ascontiguousarray(values).view(np.uint8).reshape(len(offsets), -1)
    allocation.data[offsets[:, None] + np.arange(values.dtype.itemsize)] = rows

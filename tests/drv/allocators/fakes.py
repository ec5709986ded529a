"""The bottom of the allocator stack, under a test's control: memory, streams, address space."""

from __future__ import annotations

from collections import Counter
from typing import Any

from drv.allocators import AllocatorOptions, CachingAllocator
from drv.errors import OutOfMemoryError

BASE = 1 << 48
MIB = 1 << 20


class FakeBlock:
    def __init__(self, address: int, size: int, stream: int) -> None:
        self.address, self.size, self.requested, self.stream = address, size, size, stream


class FakeSource:
    """Segments at ascending addresses, never the same twice, up to ``capacity`` bytes at once."""

    def __init__(self, capacity: int = 1 << 40) -> None:
        self.capacity = capacity
        self.live: dict[int, FakeBlock] = {}
        self.calls: list[tuple[str, int]] = []
        self.refuse = 0
        self._next = BASE

    @property
    def used(self) -> int:
        return sum(block.size for block in self.live.values())

    def allocate(self, size: int, stream: int) -> FakeBlock:
        self.calls.append(("allocate", size))
        if self.refuse:
            self.refuse -= 1
            raise OutOfMemoryError("refused")
        if self.used + size > self.capacity:
            raise OutOfMemoryError("exhausted")
        block = FakeBlock(self._next, size, stream)
        self._next += size + 4 * MIB
        self.live[block.address] = block
        return block

    def free(self, block: FakeBlock) -> None:
        self.calls.append(("free", block.size))
        del self.live[block.address]

    def memory_info(self) -> tuple[int, int]:
        return self.capacity - self.used, self.capacity

    def process_use(self) -> int | None:
        return self.used


class FakeEvents:
    """Streams whose work is done when the test says so."""

    def __init__(self) -> None:
        self.alive = True
        self.usable = True
        self.capturing = False
        self.queued: Counter[tuple[int, int]] = Counter()
        self.done: Counter[tuple[int, int]] = Counter()
        self.waits = 0
        self.queries = 0

    def ready(self) -> bool:
        return self.usable

    def work(self, stream: int, device: int = 0) -> None:
        """Queue a piece of work."""
        self.queued[device, stream] += 1

    def finish(self, stream: int, device: int = 0) -> None:
        """Let everything queued be done."""
        self.done[device, stream] = self.queued[device, stream]

    def record(self, key: tuple[int, int]) -> int:
        return self.queued[key]

    def passed(self, key: tuple[int, int], event: int) -> bool:
        self.queries += 1
        return self.done[key] >= event

    def wait(self, key: tuple[int, int], event: int) -> None:
        self.waits += 1
        self.done[key] = max(self.done[key], event)

    def wait_for_device(self, ordinal: int) -> None:
        self.waits += 1


class FakeAddresses:
    """Address ranges, and pages mapped into them, up to ``capacity`` bytes."""

    def __init__(self, capacity: int = 1 << 30) -> None:
        self.capacity = capacity
        self.reserved: dict[int, int] = {}
        self.pages: dict[int, int] = {}
        self.granted: list[tuple[int, int, int]] = []
        self.waits = 0
        self._next = 1 << 52

    @property
    def used(self) -> int:
        return sum(self.pages.values())

    def reserve(self, size: int) -> int:
        address = self._next
        self._next += size + 64 * MIB
        self.reserved[address] = size
        return address

    def release(self, address: int, size: int) -> None:
        assert self.reserved.pop(address) == size
        assert not any(address <= page < address + size for page in self.pages)

    def map(self, address: int, size: int) -> Any:
        if self.used + size > self.capacity:
            return None
        assert address not in self.pages
        assert any(start <= address and address + size <= start + n for start, n in self.reserved.items())
        self.pages[address] = size
        return address

    def unmap(self, address: int, size: int, handle: Any) -> None:
        assert handle == address
        assert self.pages.pop(address) == size

    def grant(self, address: int, size: int, device: int) -> None:
        assert self.pages[address] == size
        self.granted.append((address, size, device))

    def wait(self) -> None:
        self.waits += 1

    def total_memory(self) -> int:
        return self.capacity


class Bottom:
    """A caching allocator on a bottom of fakes."""

    def __init__(self, options: str = "", capacity: int = 1 << 40) -> None:
        self.source = FakeSource(capacity)
        self.events = FakeEvents()
        self.addresses = FakeAddresses(min(capacity, 1 << 30))
        self.allocator = CachingAllocator(
            0, self.source, self.events, AllocatorOptions.from_text(options), self.addresses
        )

    def stat(self, name: str) -> int:
        return self.allocator.statistics()[name]

    @property
    def segment_sizes(self) -> list[int]:
        return sorted(block.size for block in self.source.live.values())

"""Memory for work on streams: a stack of small allocators.

:func:`device_allocator` and :func:`pinned_allocator` give the ones of a runtime, made at the first call and
dropped with it. What they do is :class:`Allocator`'s subject.
"""

from .caching.allocator import CachingAllocator
from .caching.blocks import CachedBlock
from .caching.pinned import PinnedAllocator, PinnedBlock
from .driver_memory import DriverBlock, DriverMemory
from .guarding.device import GuardingAllocator
from .guarding.guard import Guard, Overwrite, OverwriteKind
from .guarding.pinned import GuardedPinned
from .guarding.stream_ordered import StreamOrderedMemory
from .history import History
from .options import AllocatorOptions
from .protocol import Allocator, Block, DeviceAllocator, MemorySource, Observer
from .stack import device_allocator, guard_runtime, pinned_allocator
from .summary import memory_summary

__all__ = [
    "Allocator",
    "AllocatorOptions",
    "Block",
    "CachedBlock",
    "CachingAllocator",
    "DeviceAllocator",
    "DriverBlock",
    "DriverMemory",
    "Guard",
    "GuardedPinned",
    "GuardingAllocator",
    "History",
    "MemorySource",
    "Observer",
    "Overwrite",
    "OverwriteKind",
    "PinnedAllocator",
    "PinnedBlock",
    "StreamOrderedMemory",
    "device_allocator",
    "guard_runtime",
    "memory_summary",
    "pinned_allocator",
]

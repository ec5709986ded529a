"""Memory for work on streams: a stack of small allocators.

:func:`device_allocator` and :func:`pinned_allocator` give the ones of a runtime, made at the first call and
dropped with it. What they do is :class:`Allocator`'s subject.
"""

from .blocks import CachedBlock
from .caching import CachingAllocator
from .driver_memory import DriverBlock, DriverMemory
from .guard import Guard
from .guarding import GuardingAllocator
from .guarding_pinned import GuardedPinned
from .history import History
from .options import AllocatorOptions
from .overwrites import Overwrite, OverwriteKind
from .pinned import PinnedAllocator, PinnedBlock
from .protocol import Allocator, Block, DeviceAllocator, MemorySource, Observer
from .stack import device_allocator, guard_runtime, pinned_allocator
from .stream_ordered import StreamOrderedMemory
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

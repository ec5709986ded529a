"""Memory for work on streams: a stack of small allocators.

:func:`device_allocator` and :func:`pinned_allocator` give the ones of a runtime, made at the first call and
dropped with it. What they do is :class:`Allocator`'s subject.
"""

from drv.allocators.caching.allocator import CachingAllocator
from drv.allocators.caching.blocks import CachedBlock
from drv.allocators.caching.pinned import PinnedAllocator, PinnedBlock
from drv.allocators.guarding.device import GuardingAllocator
from drv.allocators.guarding.guard import Guard, Overwrite, OverwriteKind
from drv.allocators.guarding.pinned import GuardedPinned
from drv.allocators.guarding.stream_ordered import StreamOrderedMemory

from .driver_memory import DriverBlock, DriverMemory
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
